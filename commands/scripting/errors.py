"""How scripts fail.

ReplyError
├── NoScript           NOSCRIPT: EVALSHA of what the server does not know
├── NotBusy            NOTBUSY: SCRIPT KILL while no script runs
└── CompileError       ERR: a script that is no Lua
ScriptError            below a script: what `redis.call` raises inside of it
Failure                of a script: how it ended
"""

from __future__ import annotations

from ...store.errors import ReplyError


class NoScript(ReplyError):
    """A digest that belongs to no script in the cache."""

    prefix = b"NOSCRIPT"

    def __init__(self) -> None:
        super().__init__(b"No matching script. Please use EVAL.")


class NotBusy(ReplyError):
    """There is no script to kill: while one runs, nobody is heard."""

    prefix = b"NOTBUSY"

    def __init__(self) -> None:
        super().__init__(b"No scripts in execution right now.")


class CompileError(ReplyError):
    """`problem` is what Lua says."""

    def __init__(self, problem: bytes) -> None:
        super().__init__(b"Error compiling script (new function): " + problem)


class ScriptError(Exception):
    """Raised by a function that a script calls; prefix and text are what follows the `-` of an error reply.

    The script sees it as a table, with a note that the server has counted it already.
    """

    def __init__(self, text: bytes, *, prefix: bytes = b"ERR ") -> None:
        super().__init__(text)
        self.text = prefix + text


class Failure(Exception):
    """The script ended in an error. `source` and `line` are None and 0 where Lua cannot tell."""

    def __init__(self, text: bytes, source: bytes | None = None, line: int = 0, *, is_counted: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.source = source
        self.line = line
        self.is_counted = is_counted
