"""How Headrace is built: with setuptools, in one of three forms. All forms pass the same tests.

    compiled    the `.pyx` files, by Cython, and the modules named below, by mypyc from the sources that other forms run
    codecs      the `.pyx` files
    pure        nothing

HEADRACE_COMPILE names the form; it is an error if that form cannot be built. Without the variable, an installation
(`pip install .`) is compiled and a checkout (`pip install --editable .`) has the form codecs, so that a change of its
sources takes effect; both are pure if there is no C compiler.

This is the build backend that pyproject.toml names (PEP 517); setup.py takes the extension modules from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from compilers import COMPILERS, chosen_form, wanted_form, why_pure
from setuptools import Extension, build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "extensions",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT: Final = Path(__file__).resolve().parent.parent

# By folder: the modules that run a stream command, from its bytes to its reply. Others would gain nothing.
HOT_MODULES: Final = {
    "protocol": ("encoder", "packing", "reader"),
    "store": (
        "chunk", "clock", "database", "group", "idempotence", "ids", "key_slots", "log", "nodes", "observed", "pending",
        "radix_tree", "spans", "stream", "trimming", "value",
    ),
    "commands/clients": ("blocking", "client", "transaction"),
    "commands/connections": ("connection", "transaction"),
    "commands/core": ("durations", "keys", "lookup", "numbers", "request_size", "slow_tally"),
    "commands/execution": ("calls", "context", "enforcement"),
    "commands/observing": ("latency", "monitors", "slow_log"),
    "commands/permissions": ("allowed_rows",),
    "commands/streams": (
        "add", "claim", "claim_log", "claim_request", "entries", "group", "group_read", "group_read_new",
        "idempotence", "info", "pending", "read", "read_request", "release", "trim",
    ),
    "persistence": ("aof", "checksum", "syncing", "writer"),
    "persistence/grammar": ("streams",),
    "server/reports": ("stats",),
    "server/requests": ("dispatch", "pushes", "runner", "serving", "session", "turns", "units", "waiters"),
    "server/sockets": ("connection",),
    "server/storage": ("logkeeper",),
}  # fmt: skip

# Options of mypy: the compiled code depends on these sources alone, and not on other installed packages.
OPTIONS: Final = (
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--explicit-package-bases",
)

# The checkout under the package's name, from which mypy gets the names of the modules.
TYPED: Final = ROOT / "build" / "typed"

# The C files of mypyc.
GENERATED: Final = Path("build", "mypyc")

# The name of the library that contains all hot modules.
LIBRARY: Final = "headrace"

Settings = Mapping[str, Any] | None

# The extension modules of the present build; empty if it needs none.
extensions: Final[list[Any]] = []


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """The requirements of building a wheel besides setuptools: the compilers, if they will be used."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *COMPILERS[chosen_form("compiled")]]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The requirements of building a checkout besides setuptools: the compiler, if it will be used."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *COMPILERS[chosen_form("codecs")]]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel into `wheel_directory`. Returns its name."""
    for folder in ROOT.glob("build/lib*"):
        shutil.rmtree(folder)  # files of an earlier build would get into the wheel
    note_commit(ROOT, ROOT / "server" / "reports" / "commit.txt")
    return build("compiled", build_meta.build_wheel, wheel_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the editable wheel of this checkout. Returns its name. Raises SystemExit if the compiled form is wanted."""
    if wanted_form() == "compiled":
        raise SystemExit("headrace: a checkout runs its sources: it has the form codecs or pure, not compiled")
    return build("codecs", build_meta.build_editable, wheel_directory, config_settings)


def build(best: str, hook: Callable[..., str], *arguments: Any) -> str:
    """Run the hook with the extension modules of the wanted form, else of `best`, or with none if `best` fails."""
    form, reason = chosen_form(best), why_pure()
    if form != "pure":
        try:
            extensions[:] = [*codecs(), *(hot_modules() if form == "compiled" else [])]
            return hook(*arguments)
        except (Exception, SystemExit) as error:  # any error of a compiler
            if wanted_form():
                raise
            reason = f"compiling failed ({error})"
        finally:
            extensions.clear()
    print(f"headrace: built in the pure form: {reason}", file=sys.stderr)
    return hook(*arguments)


def note_commit(checkout: Path, note: Path) -> None:
    """Write the commit of a checkout into the file that a server reads it from.

    Without a checkout, a file that came with the sources stays.
    """
    if not (checkout / ".git").exists() or not shutil.which("git"):
        return
    done = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True)
    if not done.returncode:
        note.write_text(done.stdout)


def codecs() -> list[Any]:
    """The modules written for C, each with a `_plain` twin for a build without a compiler."""
    from Cython.Build import cythonize

    sources = [
        Extension(".".join(("headrace", *path.with_suffix("").parts)), [str(path)], extra_compile_args=["-g0"])
        for path in sorted(each.relative_to(ROOT) for depth in ("*", "*/*") for each in ROOT.glob(f"{depth}/*.pyx"))
    ]
    made: list[Any] = cythonize(sources, build_dir="build/cython")  # type: ignore[no-untyped-call]
    return made


def hot_names() -> list[str]:
    """The names of the modules that mypyc compiles, as `store/ids`."""
    return [f"{folder}/{module}" for folder, modules in HOT_MODULES.items() for module in modules]


def hot_modules() -> list[Any]:
    """The hot modules, which share one library: calls from one to another stay in C."""
    from mypyc.build import mypycify

    package = TYPED / "headrace"
    TYPED.mkdir(parents=True, exist_ok=True)
    package.unlink(missing_ok=True)
    package.symlink_to(ROOT)
    os.environ["MYPYPATH"] = str(TYPED)
    # The order of the C text depends on what is in the cache. From an empty one, equal sources give equal C files.
    with tempfile.TemporaryDirectory() as cache:
        words = [*OPTIONS, f"--cache-dir={cache}", *(str(package / f"{name}.py") for name in hot_names())]
        made: list[Any] = mypycify(
            words, opt_level="2", debug_level="0", group_name=LIBRARY, multi_file=True, target_dir=str(GENERATED)
        )
    return made
