"""Which Python modules the compiled form compiles with mypyc: all of the folders below, but for a few with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

# All folders that a server runs. A module that is added to one of them is compiled.
FOLDERS: Final = ("store", "protocol", "commands", "persistence", "replication", "server")

# Of them, those whose code runs for few requests: the C compiler optimizes it less, in two thirds of the time.
RARE_FOLDERS: Final = (
    "commands/admin", "commands/permissions", "persistence/rdb",
    "server", "server/configuration", "server/reports", "server/storage",
)  # fmt: skip

# The reasons not to compile a module. Tests check with the sources that they are true.
PACKAGE: Final = "it has only a docstring"
TWIN: Final = "it runs only where its twin in C was not compiled"
BUILTIN_BASE: Final = "a compiled class cannot extend this builtin type"
PYTHON_BASE: Final = "a compiled class that extends a Python class is freed without clearing its weak references"
DYNAMIC_ATTRIBUTES: Final = "the attributes of a compiled class cannot be set by names that are found at run time"
RUNS_SIGNAL_HANDLERS: Final = "Lua calls it in a loop, and Python runs signal handlers only in Python code"
RUNS_ONCE: Final = "it is a program, or the frame of one, which runs once: no compiled module imports it"
DIRECTIVE_ROWS: Final = "rows that are made once and read when a directive is; they would be a tenth of the C code"
SYSTEM_CALLS: Final = "its time is that of system calls, which tests replace"

# By module. `__init__` and `*_plain` need no row.
EXCEPTIONS: Final = {
    "commands/core/directives": DYNAMIC_ATTRIBUTES,
    "commands/execution/targets": BUILTIN_BASE,
    "commands/scripting/deadline": RUNS_SIGNAL_HANDLERS,
    "persistence/check_aof": RUNS_ONCE,
    "persistence/errors": BUILTIN_BASE,
    "persistence/files": SYSTEM_CALLS,
    "persistence/grammar/kept": BUILTIN_BASE,
    "persistence/lock": SYSTEM_CALLS,
    "protocol/replies": BUILTIN_BASE,
    "server/app": RUNS_ONCE,
    "server/configuration/config": DYNAMIC_ATTRIBUTES,
    "server/configuration/config_rewrite": SYSTEM_CALLS,
    "server/configuration/configfile": SYSTEM_CALLS,
    "server/configuration/directive_kinds": DIRECTIVE_ROWS,
    "server/configuration/directives": DIRECTIVE_ROWS,
    "server/lifecycle": RUNS_ONCE,
    "server/main": RUNS_ONCE,
    "server/replication/lockstep": BUILTIN_BASE,
    "server/reports/log_file": PYTHON_BASE,
    "server/reports/logs": PYTHON_BASE,
    "server/reports/metrics": PYTHON_BASE,
    "server/reports/process": SYSTEM_CALLS,
    "server/sockets/closed_transport": PYTHON_BASE,
    "server/sockets/tcp_listener": SYSTEM_CALLS,
    "server/storage/log_switch": SYSTEM_CALLS,
    "store/text": BUILTIN_BASE,
}


def all_names() -> list[str]:
    """The names of all modules of the folders, as `store/ids`."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [path.relative_to(ROOT).with_suffix("").as_posix() for path in paths]


def why_interpreted(name: str) -> str | None:
    """The reason not to compile a module; None if it is compiled."""
    if name.endswith("/__init__"):
        return PACKAGE
    if name.endswith("_plain"):
        return TWIN
    return EXCEPTIONS.get(name)


def compiled_names() -> list[str]:
    """The names of the modules that mypyc compiles."""
    return [name for name in all_names() if why_interpreted(name) is None]
