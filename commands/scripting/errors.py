"""The errors of scripts.

ReplyError
├── NoScript           NOSCRIPT: EVALSHA of a script that is not cached
├── NotBusy            NOTBUSY: SCRIPT KILL while no script runs
├── CompileError       ERR: a script that is not valid Lua
├── LibraryCompileError  ERR: a library that is not valid Lua
└── LuaMissing         ERR: the package lupa is not installed
ScriptError            raised inside a script, by a function that it calls
Failure                raised by a script that ends in an error
"""

from __future__ import annotations

from ...store.errors import ReplyError


class NoScript(ReplyError):
    """The error for a digest of a script that is not cached."""

    prefix = b"NOSCRIPT"

    def __init__(self) -> None:
        super().__init__(b"No matching script. Please use EVAL.")


class NotBusy(ReplyError):
    """The error of SCRIPT KILL and FUNCTION KILL: no script is running."""

    prefix = b"NOTBUSY"

    def __init__(self) -> None:
        super().__init__(b"No scripts in execution right now.")


class CompileError(ReplyError):
    """The error for a script that does not compile; `problem` is the message of Lua."""

    def __init__(self, problem: bytes) -> None:
        super().__init__(b"Error compiling script (new function): " + problem)


class LibraryCompileError(ReplyError):
    """The error for a library that does not compile; `problem` is the message of Lua."""

    def __init__(self, problem: bytes) -> None:
        super().__init__(b"Error compiling function: " + problem)


class LuaMissing(ReplyError):
    """The error of all that needs Lua if the package lupa is not installed."""

    def __init__(self) -> None:
        super().__init__(b"scripts need the Python package lupa: pip install 'headrace[scripts]'")


class ScriptError(Exception):
    """The error of a function that a script calls; prefix and text are those of an error reply, without the `-`.

    The script receives it as a table. `is_counted` marks the error of a command, which the server has counted already.
    """

    def __init__(self, text: bytes, *, prefix: bytes = b"ERR ", is_counted: bool = False) -> None:
        super().__init__(text)
        self.text = prefix + text
        self.is_counted = is_counted


class Failure(Exception):
    """A script ended in an error. `source` is None and `line` is 0 if Lua does not know the place."""

    def __init__(self, text: bytes, source: bytes | None = None, line: int = 0, *, is_counted: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.source = source
        self.line = line
        self.is_counted = is_counted
