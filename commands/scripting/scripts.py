"""The scripts of one server: their cache, and Lua for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..execution.script_engine import Outcome
from .cache import Cache, Script, digest_of, split_shebang
from .engine import Engine

if TYPE_CHECKING:
    from ..execution.context import Context
    from .deadline import Deadline


class Scripts:
    """The `ScriptEngine`: runs and caches scripts. Lua starts with the first script, and again after SCRIPT FLUSH."""

    def __init__(self, context: Context, deadline: Deadline) -> None:
        """`deadline` is that of libraries too."""
        self._cache = Cache()
        self._deadline = deadline
        self._engine = Engine(context, deadline, has_libraries=False)

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        return self._engine.memory_size

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
        self._engine.drop()

    def load(self, text: bytes, *, is_loaded: bool) -> bytes:
        """Compiles a script if it is not cached, and returns its digest. Raises ReplyError.

        With `is_loaded` it stays cached until `flush`.
        """
        script = self._cache.find_text(text)
        if script is None:
            script = self._compiled(text, is_loaded=is_loaded)
        elif is_loaded:
            self._cache.keep(script)
        return script.sha

    def _compiled(self, text: bytes, *, is_loaded: bool) -> Script:
        """Compiles and caches a script. Raises ReplyError."""
        body, has_shebang, flags = split_shebang(text)
        action = self._engine.started().compile(body)
        script = Script(digest_of(text), text, action, has_shebang, flags, is_loaded)
        self._cache.add(script)
        return script

    def has(self, digest: bytes) -> bool:
        """Returns whether the script of a digest is cached, and marks it as used."""
        return self._cache.find(digest) is not None

    def run_text(self, text: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Compiles a script if it is not cached, and runs it for the current client. Raises ReplyError if it does not
        compile, or is refused before it starts.
        """
        script = self._cache.find_text(text)
        if script is None:
            script = self._compiled(text, is_loaded=False)
        return self._engine.run(script, keys, arguments, read_only=read_only)

    def run_known(self, digest: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome | None:
        """Runs a cached script for the current client; None if it is not cached. Raises ReplyError if it is refused
        before it starts.
        """
        script = self._cache.find(digest)
        return None if script is None else self._engine.run(script, keys, arguments, read_only=read_only)
