"""Lua, the script cache, and the functions of `redis` for one server."""

from __future__ import annotations

import logging
from hashlib import sha1
from math import copysign, isnan
from typing import TYPE_CHECKING, Any, Final

from ...store.errors import ReplyError
from ..clients.client import Client
from ..execution.script_engine import Outcome
from .cache import Cache, Script, digest_of, split_shebang
from .deadline import Deadline
from .errors import Failure, ScriptError
from .interpreter import Interpreter
from .run import REPL_ALL, Run, words_of
from .values import Replies, Returned, WrittenError, as_int, c_text

if TYPE_CHECKING:
    from ..execution.context import Context

logger = logging.getLogger(__name__)

# Python's levels of redis.LOG_DEBUG, LOG_VERBOSE, LOG_NOTICE and LOG_WARNING, which are 0 to 3.
LOG_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.INFO, logging.WARNING)

# Types of values that Lua converts to text.
TEXTUAL: Final = (bytes, int, float)


class Scripts:
    """The `ScriptEngine`: runs and caches scripts. Lua starts with the first script, and again after SCRIPT FLUSH."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = Cache()
        self._lua: Interpreter | None = None
        self._deadline = Deadline()
        # What the commands of scripts see as their client.
        self._client = Client(0)
        self._client.is_script = True
        # The current or last run of a script.
        self._run: Run

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        return 0 if self._lua is None else self._lua.memory_size

    @property
    def cache_size(self) -> int:
        """Bytes of the cached scripts."""
        return self._cache.size

    @property
    def cached_count(self) -> int:
        """How many scripts are cached."""
        return len(self._cache.by_sha)

    @property
    def evicted_count(self) -> int:
        """How many scripts have left the cache for others."""
        return self._cache.evicted_count

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        self._cache.evicted_count = 0

    @property
    def is_stopping(self) -> bool:
        """Whether the server is to stop, so that a script that has written nothing is ended."""
        return self._deadline.is_stopping

    @is_stopping.setter
    def is_stopping(self, is_stopping: bool) -> None:
        self._deadline.is_stopping = is_stopping

    def flush(self) -> None:
        """Removes all scripts, and the Lua state."""
        self._cache = Cache(self._cache.evicted_count)
        self._lua = None

    def load(self, text: bytes, *, is_loaded: bool) -> bytes:
        """Compiles a script if it is not cached, and returns its digest. Raises ReplyError.

        With `is_loaded` it stays cached until `flush`.
        """
        script = self._cache.find_text(text)
        if script is None:
            body, has_shebang, flags = split_shebang(text)
            action = self._started().compile(body)
            script = Script(digest_of(text), text, action, has_shebang, flags, is_loaded)
            self._cache.add(script)
        elif is_loaded:
            self._cache.keep(script)
        return script.sha

    def has(self, digest: bytes) -> bool:
        """Returns whether the script of a digest is cached, and marks it as used."""
        return self._cache.find(digest) is not None

    def run(self, digest: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Runs a cached script for the current client. Raises ReplyError if it is refused before it starts."""
        script = self._cache.find(digest)
        assert script is not None, "a script is loaded before it is run"
        context, lua = self._context, self._started()
        run = self._run = Run(context, self._client, script, self._deadline, read_only=read_only)
        caller, db, may_block = context.client, context.db, context.may_block
        context.client, context.may_block, context.tracking.is_in_script = run.client, False, True
        # A script in a log has no limit: it ended when the log was written.
        limit_ms = 0 if context.loading else context.server.config.busy_reply_threshold
        self._deadline.begin(limit_ms)
        try:
            value = lua.run(script.action, keys, arguments, self._deadline.reasons)
            returned = Returned(lua, value, run.client.protocol, limit_ms)
            return Outcome(returned.reply, returned.errors)
        except Failure as failure:
            error = WrittenError(_with_place(failure, script))
            return Outcome(error, [(error, failure.is_counted)])
        finally:
            context.client, context.db, context.may_block = caller, db, may_block
            context.tracking.is_in_script = False

    def _started(self) -> Interpreter:
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
            self._lua = Interpreter(functions, self._deadline.over)
            self._replies = Replies(self._lua)
        return self._lua

    # -- functions of `redis` ----------------------------------------------------------------------

    def _call(self, *arguments: Any) -> Any:
        self._deadline.require()
        reply = self._run.execute(words_of(arguments))
        if isinstance(reply, ReplyError):
            raise ScriptError(reply.wire_text, prefix=b"", is_counted=True)
        return self._replies.value(reply, self._run.client.protocol)

    def _call_protected(self, *arguments: Any) -> Any:
        self._deadline.require()
        try:
            reply = self._run.execute(words_of(arguments))
        except ScriptError as error:
            return self._replies.error(error.text)
        return self._replies.value(reply, self._run.client.protocol)

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
