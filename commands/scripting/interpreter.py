"""Lua 5.1 and the sandbox in it: compiling and running chunks. `lupa` is imported here, when the first script comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ... import REDIS_VERSION
from ...store.errors import GenericError
from .bits import BIT_OPERATIONS
from .errors import CompileError, Failure, ScriptError
from .values import number_text

SANDBOX: Final = "sandbox"
PARTS: Final = ("patterns", "library", "cjson", "cmsgpack")
"""Files that the sandbox is made of, beside its own."""

MEMORY_SIZE_MAX: Final = 256 << 20
"""Bytes that a script may have Lua hold beside what it held before; what is given to `redis.call`; and the reply."""

VERSION_NUMBER: Final = sum(
    int(part) << shift for part, shift in zip(REDIS_VERSION.split("."), (16, 8, 0), strict=True)
)

NO_LUA: Final = b"scripts need the Python package lupa: pip install 'headrace[scripts]'"


def _source(name: str) -> bytes:
    return Path(__file__).with_name(f"{name}.lua").read_bytes()


def _deny(_object: object, _name: object, _is_setting: bool) -> str:
    raise AttributeError("scripts see no attributes")


def _describe(problem: object) -> bytes:
    return problem.text if isinstance(problem, ScriptError) else b"ERR internal error"


class Interpreter:
    """One Lua state for all scripts. `functions` become members of `redis`. `over` is asked every thousand instructions
    whether the script must end: it returns 0, or the place of the reason among those that `run` is given, from 1 on.
    Raises GenericError if there is no Lua.
    """

    def __init__(self, functions: dict[bytes, Callable[..., Any]], over: Callable[[], int]) -> None:
        try:
            lua51 = import_module("lupa.lua51")
        except ImportError:
            raise GenericError(NO_LUA) from None
        self._lua = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_deny,
            max_memory=0,
        )
        self._memory_limit = 0
        self._lua_error = lua51.LuaError
        self._table_type = type(self._lua.table())
        host = self._lua.table_from(
            {
                b"parts": self._lua.table_from({name.encode(): _source(name) for name in PARTS}),
                b"describe": _describe,
                b"limit_memory": self._limit_memory,
                b"lift_memory": self._lift_memory,
                b"memory_size_max": MEMORY_SIZE_MAX,
                b"is_overdue": over,
                b"functions": self._lua.table_from(
                    {b"redis": self._lua.table_from(functions), b"bit": self._lua.table_from(BIT_OPERATIONS)}
                ),
                b"version": REDIS_VERSION.encode(),
                b"version_number": VERSION_NUMBER,
            }
        )
        border = self._lua.execute(_source(SANDBOX), host, name=b"=sandbox")
        self._compile, self._prepare, self._finish = border[b"compile"], border[b"prepare"], border[b"finish"]
        self._run = border[b"run"]
        self.memory_size = int(self._finish()) << 10
        """Bytes that Lua held when the last script ended."""
        self.kind_of: Callable[[Any], Any] = border[b"kind"]
        self.items_of: Callable[[Any, int], Any] = border[b"items"]
        self.pairs_of: Callable[[Any], Any] = border[b"pairs"]
        self.table = self._lua.table
        self.table_from = self._lua.table_from

    def _grant_memory(self) -> None:
        """What Lua holds now is the measure of what the next script may add."""
        self._memory_limit = int(self._lua.get_memory_used(total=True)) + MEMORY_SIZE_MAX

    def _limit_memory(self) -> None:
        self._lua.set_max_memory(self._memory_limit, total=True)

    def _lift_memory(self) -> None:
        self._lua.set_max_memory(0)

    def is_table(self, value: object) -> bool:
        """Whether a value from Lua is a table."""
        return type(value) is self._table_type

    def compile(self, text: bytes) -> Any:
        """A script as a function of Lua. Raises CompileError."""
        self._grant_memory()
        compiled = self._compile(text)
        if type(compiled) is tuple:
            raise CompileError(compiled[1])
        return compiled

    def run(self, action: Any, keys: list[bytes], arguments: list[bytes], reasons: Sequence[bytes] = ()) -> Any:
        """What the script returns, as lupa shows it; the first of several values. Raises Failure."""
        self._prepare(self.table(*keys), self.table(*arguments), self.table(*reasons))
        self._grant_memory()
        try:
            ok, value = self._run(action)
        except self._lua_error as error:
            raise Failure(b"ERR " + str(error).encode()) from error
        finally:
            self._lift_memory()
            self.memory_size = int(self._finish()) << 10
        if ok:
            return value
        raise self._failure(value)

    def _failure(self, told: Any) -> Failure:
        """Of what the handler made of an error; Lua itself may have failed, for want of memory or in the handler."""
        if not self.is_table(told):
            return Failure(b"ERR %b" % (told if type(told) is bytes else b"unknown error"))
        text = told[b"err"]
        if type(text) in (int, float):
            text = number_text(text)
        elif type(text) is not bytes:
            text = b"ERR unknown error"
        return Failure(text, told[b"source"], told[b"line"] or 0, is_counted=bool(told[b"is_counted"]))
