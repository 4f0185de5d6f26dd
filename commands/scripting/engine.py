"""One state of Lua with the functions of `redis`, and runs of scripts in it."""

from __future__ import annotations

import logging
from hashlib import sha1
from math import copysign, isnan
from typing import TYPE_CHECKING, Any, Final

from ...store.errors import ReplyError
from ..clients.client import Client
from ..execution.script_engine import Outcome
from .errors import Failure, ScriptError
from .interpreter import Interpreter
from .run import REPL_ALL, Run, words_of
from .values import Replies, Returned, WrittenError, as_int, c_text, short_reply, whole

if TYPE_CHECKING:
    from ..execution.context import Context
    from .cache import Script
    from .deadline import Deadline

logger = logging.getLogger(__name__)

# Python's levels of redis.LOG_DEBUG, LOG_VERBOSE, LOG_NOTICE and LOG_WARNING, which are 0 to 3.
LOG_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.INFO, logging.WARNING)

# Types of values that Lua converts to text.
TEXTUAL: Final = (bytes, int, float)


class Engine:
    """Lua for scripts, or with `has_libraries` for libraries. It starts when it is first needed, and after `drop`."""

    def __init__(self, context: Context, deadline: Deadline, *, has_libraries: bool) -> None:
        self._context = context
        self._deadline = deadline
        self._has_libraries = has_libraries
        self._lua: Interpreter | None = None
        # What the commands of scripts see as their client.
        self._client = Client(0)
        self._client.is_script = True
        # The current or last run of a script.
        self._run: Run

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        return 0 if self._lua is None else self._lua.memory_size

    def drop(self) -> None:
        """Removes the Lua state."""
        self._lua = None

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Runs a script for the current client. Raises ReplyError if it is refused before it starts."""
        context, lua = self._context, self.started()
        run = self._run = Run(context, self._client, script, self._deadline, read_only=read_only)
        caller, db, may_block = context.client, context.db, context.may_block
        context.client, context.may_block, context.tracking.is_in_script = run.client, False, True
        # A script in a log has no limit: it ended when the log was written.
        limit_ms = 0 if context.loading else context.server.config.busy_reply_threshold
        self._deadline.begin(limit_ms)
        try:
            value = lua.run(script.action, keys, arguments, self._deadline.reasons)
            kind = type(value)
            # Lua's whole numbers within 64 bits are int.
            if kind is bytes or kind is int or value is None:
                return Outcome(value)
            if kind is float:
                return Outcome(whole(value))
            if kind is tuple:
                return Outcome(short_reply(value, run.client.protocol))
            returned = Returned(lua, value, run.client.protocol, limit_ms)
            return Outcome(returned.reply, returned.errors)
        except Failure as failure:
            error = WrittenError(_with_place(failure, script))
            return Outcome(error, [(error, failure.is_counted)])
        finally:
            run.count()
            context.client, context.db, context.may_block = caller, db, may_block
            context.tracking.is_in_script = False

    def started(self) -> Interpreter:
        """Returns Lua. Raises LuaMissing."""
        if self._lua is None:
            functions = {
                b"call": self._call,
                b"pcall": self._call_protected,
                b"log": self._log,
                b"sha1hex": _sha1hex,
                b"setresp": self._set_protocol,
                b"set_repl": self._set_replication,
                b"acl_check_cmd": self._check_permission,
            }
            self._lua = Interpreter(functions, self._deadline.over, has_libraries=self._has_libraries)
            self._replies = Replies(self._lua)
        return self._lua

    # -- functions of `redis` ----------------------------------------------------------------------

    def _call(self, *arguments: Any) -> Any:
        run = self._run
        run.look_at_deadline()
        reply = run.execute(words_of(arguments))
        if isinstance(reply, ReplyError):
            raise ScriptError(reply.wire_text, prefix=b"", is_counted=True)
        return self._replies.value(reply, run.client.protocol)

    def _call_protected(self, *arguments: Any) -> Any:
        run = self._run
        run.look_at_deadline()
        try:
            reply = run.execute(words_of(arguments))
        except ScriptError as error:
            return self._replies.error(error.text)
        return self._replies.value(reply, run.client.protocol)

    def _log(self, *arguments: Any) -> None:
        if len(arguments) < 2:
            raise ScriptError(b"redis.log() requires two arguments or more.")
        level, *words = arguments
        if type(level) not in (int, float):
            raise ScriptError(b"First argument must be a number (log level).")
        index = as_int(level)
        if not 0 <= index < len(LOG_LEVELS):
            raise ScriptError(b"Invalid log level.")
        # A word that has no text is left out, with the blank before it.
        texts = [b" " * (place > 0) + _text(word) for place, word in enumerate(words) if type(word) in TEXTUAL]
        logger.log(LOG_LEVELS[index], "%s", c_text(b"".join(texts)).decode("utf-8", "backslashreplace"))

    def _set_protocol(self, *arguments: Any) -> None:
        if len(arguments) != 1:
            raise ScriptError(b"redis.setresp() requires one argument.")
        protocol = as_int(arguments[0])
        if protocol not in (2, 3):
            raise ScriptError(b"RESP version must be 2 or 3.")
        self._run.client.protocol = protocol

    def _set_replication(self, *arguments: Any) -> None:
        if len(arguments) != 1:
            raise ScriptError(b"redis.set_repl() requires one argument.")
        flags = as_int(arguments[0])
        if flags & ~REPL_ALL:
            raise ScriptError(b"Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
        self._run.replication = flags

    def _check_permission(self, *arguments: Any) -> bool:
        return self._run.allows(words_of(arguments))


def _text(value: Any) -> bytes:
    """Returns a string, or a number as Lua prints it, as bytes; empty for any other value."""
    if type(value) in (int, float):
        return b"-nan" if isnan(value) and copysign(1, value) < 0 else b"%.14g" % value
    return value if type(value) is bytes else b""


def _sha1hex(*arguments: Any) -> bytes:
    if len(arguments) != 1:
        raise ScriptError(b"wrong number of arguments")
    return sha1(_text(arguments[0]), usedforsecurity=False).hexdigest().encode()


def _with_place(failure: Failure, script: Script) -> bytes:
    text = c_text(failure.text)
    if failure.source is None:
        return text.rstrip(b"\r\n")
    return b"%b script: %b, on %b:%d." % (text, script.sha, failure.source, failure.line)
