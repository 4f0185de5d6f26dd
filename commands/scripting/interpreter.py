"""Lua 5.1 with the sandbox: compiles and runs scripts. The first script imports `lupa`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ... import REDIS_VERSION
from .bits import BIT_OPERATIONS
from .errors import CompileError, Failure, LibraryCompileError, LuaMissing, ScriptError
from .number_text import number_text

SANDBOX: Final = "sandbox"
# Lua files that the sandbox loads.
PARTS: Final = ("patterns", "library", "floats", "cjson", "cmsgpack", "struct", "registrar")

# Maximum size in bytes of each: memory that a script adds to Lua, arguments of one `redis.call`, its reply.
MEMORY_SIZE_MAX: Final = 256 << 20

# Memory in KiB that a script may add before the limit is lifted for each call of Python. What Python allocates in Lua
# without lifting it (DIRECT_SIZE_MAX, `values.UNLIFTED_SIZE_MAX`) is much less than the memory that is left then.
ROOMY_KIB: Final = MEMORY_SIZE_MAX >> 11

# Largest difference in bytes between the limit that a script has and the one that it would get anew.
LIMIT_SLACK: Final = 1 << 20

# Up to this number and total size in bytes, keys and arguments are passed to a script one by one, else in tables.
DIRECT_COUNT_MAX: Final = 100
DIRECT_SIZE_MAX: Final = 1 << 20

# Maximum size in bytes of a text to compile: the parser takes quadratic time, and nothing can interrupt it.
SOURCE_SIZE_MAX: Final = 1 << 20
SOURCE_TOO_LARGE: Final = b"the source is larger than %d bytes" % SOURCE_SIZE_MAX

VERSION_NUMBER: Final = sum(
    int(part) << shift for part, shift in zip(REDIS_VERSION.split("."), (16, 8, 0), strict=True)
)


def _source(name: str) -> bytes:
    return Path(__file__).with_name(f"{name}.lua").read_bytes()


def _deny(_object: object, _name: object, _is_setting: bool) -> str:
    raise AttributeError("scripts see no attributes")


def _describe(problem: object) -> tuple[bytes, bool]:
    """Returns the text of an exception for a script, and whether the server has counted it."""
    return (problem.text, problem.is_counted) if isinstance(problem, ScriptError) else (b"ERR internal error", False)


class Interpreter:
    """A Lua state for all scripts. Raises LuaMissing if lupa is missing.

    `functions` become members of `redis`. Lua calls `over` every thousand instructions: it returns 0, or, if the script
    must end, the index from 1 on of the reason in the `reasons` of `run`. With `has_libraries` it loads libraries, and
    runs their functions instead of scripts.
    """

    def __init__(
        self, functions: dict[bytes, Callable[..., Any]], over: Callable[[], int], *, has_libraries: bool = False
    ) -> None:
        self._reasons: Sequence[bytes] = ()
        try:
            lua51 = import_module("lupa.lua51")
        except ImportError:
            raise LuaMissing from None
        self._lua = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_deny,
            max_memory=0,
        )
        self._memory_limit = 0
        # Whether the limit is set. It stays after a script, as to set it takes as long as a short script.
        self._is_limited = False
        # Whether the next script gets the limit as it is, because the memory of Lua is about what it was then.
        self._is_granted = False
        self._is_running = False
        self._lua_error = lua51.LuaError
        self._table_type = type(self._lua.table())
        host = self._lua.table_from(
            {
                b"parts": self._lua.table_from({name.encode(): _source(name) for name in PARTS}),
                b"describe": _describe,
                b"limit_memory": self._limit_memory,
                b"lift_memory": self._lift_memory,
                b"forget_grant": self._forget_grant,
                b"limit_slack_kib": LIMIT_SLACK >> 10,
                b"memory_size_max": MEMORY_SIZE_MAX,
                b"roomy_kib": ROOMY_KIB,
                b"source_size_max": SOURCE_SIZE_MAX,
                b"source_too_large": SOURCE_TOO_LARGE,
                b"is_overdue": over,
                b"has_libraries": has_libraries,
                b"functions": self._lua.table_from(
                    {b"redis": self._lua.table_from(functions), b"bit": self._lua.table_from(BIT_OPERATIONS)}
                ),
                b"version": REDIS_VERSION.encode(),
                b"version_number": VERSION_NUMBER,
            }
        )
        border = self._lua.execute(_source(SANDBOX), host, name=b"=sandbox")
        self._compile, self._finish = border[b"compile"], border[b"finish"]
        self._load = border[b"load"]
        self._set_reasons, self._set_words, self._run = border[b"set_reasons"], border[b"set_words"], border[b"run"]
        self._set_granted, self._size_kib = border[b"set_granted"], border[b"size_kib"]
        self._finish()
        self._memory_size = int(self._size_kib()) << 10
        # Lifts the memory limit until the running call from Lua returns.
        self.lift: Callable[[], None] = border[b"lift"]
        self.kind_of: Callable[[Any], Any] = border[b"kind"]
        self.items_of: Callable[[Any, int], Any] = border[b"items"]
        self.pairs_of: Callable[[Any], Any] = border[b"pairs"]
        self.table = self._lua.table
        self.table_from = self._lua.table_from

    def _grant_memory(self) -> None:
        """Sets the memory limit of the next script, relative to the present memory of Lua."""
        used_size = int(self._lua.get_memory_used(total=True))
        self._memory_limit = used_size + MEMORY_SIZE_MAX
        self._is_granted = True
        self._set_granted(used_size >> 10)

    def _forget_grant(self) -> None:
        self._is_granted = False

    def _limit_memory(self) -> None:
        self._lua.set_max_memory(self._memory_limit, total=True)
        self._is_limited = True

    def _lift_memory(self) -> None:
        self._lua.set_max_memory(0)
        self._is_limited = False

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes; during a script, as last measured before it."""
        if not self._is_running:
            self._memory_size = int(self._size_kib()) << 10
        return self._memory_size

    def is_table(self, value: object) -> bool:
        """Whether a value from Lua is a table."""
        return type(value) is self._table_type

    def compile(self, text: bytes) -> Any:
        """Compiles a script and returns its Lua function. Raises CompileError."""
        if len(text) > SOURCE_SIZE_MAX:  # here too, so that Lua gets no copy of it
            raise CompileError(SOURCE_TOO_LARGE)
        self._grant_memory()
        compiled = self._compile(text)
        if type(compiled) is tuple:
            raise CompileError(compiled[1])
        return compiled

    def load(self, text: bytes, reasons: Sequence[bytes]) -> list[Any]:
        """Runs the text of a library. Returns the functions that it registered, as Lua tables with `name`, `callback`,
        `description` (False for none) and `flags`. Raises LibraryCompileError, Failure.
        """
        if len(text) > SOURCE_SIZE_MAX:
            raise LibraryCompileError(SOURCE_TOO_LARGE)
        self._use_reasons(reasons)
        self._grant_memory()
        self._limit_memory()
        is_finished, self._is_running = False, True
        try:
            ok, value = self._load(text)
            is_finished = True
        except self._lua_error as error:
            raise Failure(b"ERR " + str(error).encode()) from error
        finally:
            self._is_running = False
            self._lift_memory()
            if not is_finished:
                self._finish()
        if ok is None:
            raise LibraryCompileError(value)
        if not ok:
            raise self._failure(value)
        return list(value.values())

    def _use_reasons(self, reasons: Sequence[bytes]) -> None:
        if reasons is not self._reasons:
            self._set_reasons(*reasons)
            self._reasons = reasons

    def run(self, action: Any, keys: list[bytes], arguments: list[bytes], reasons: Sequence[bytes] = ()) -> Any:
        """Runs a script and returns its first result, as lupa converts it. Raises Failure.

        A status becomes a tuple of True and its text, and a short array of strings, numbers and booleans a tuple of
        False and its elements.
        """
        self._use_reasons(reasons)
        key_count: int | None = len(keys)
        words = keys + arguments
        size = 0
        for word in words:
            size += len(word)
        if len(words) > DIRECT_COUNT_MAX or size > DIRECT_SIZE_MAX:
            self._lift_memory()
            self._set_words(self.table(*keys), self.table(*arguments))
            key_count, words = None, []
        if not self._is_granted:
            self._grant_memory()
            self._limit_memory()
        elif not self._is_limited:
            self._limit_memory()
        is_finished, self._is_running = False, True
        try:
            result = self._run(action, key_count, *words)
            is_finished = True
        except self._lua_error as error:
            raise Failure(b"ERR " + str(error).encode()) from error
        finally:
            self._is_running = False
            if not is_finished:
                self._lift_memory()
                self._finish()
        if type(result) is tuple and result[0] is None:
            raise self._failure(result[1])
        return result

    def _failure(self, result: Any) -> Failure:
        """Returns the failure for the result of the error handler.

        It is not a table if Lua itself failed: memory was short, or the handler had an error.
        """
        if not self.is_table(result):
            return Failure(b"ERR %b" % (result if type(result) is bytes else b"unknown error"))
        text = result[b"err"]
        if type(text) in (int, float):
            text = number_text(text)
        elif type(text) is not bytes:
            text = b"ERR unknown error"
        return Failure(text, result[b"source"], result[b"line"] or 0, is_counted=bool(result[b"is_counted"]))
