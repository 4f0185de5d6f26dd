"""What runs scripts, as commands and reports see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ...protocol.replies import Reply
from ...store.errors import ReplyError


@dataclass(slots=True)
class Outcome:
    """The reply of a script, and the errors in it, each with whether it was counted when it was raised."""

    reply: Reply
    errors: list[tuple[ReplyError, bool]] = field(default_factory=list)


class ScriptEngine(Protocol):
    """Lua and its compiled scripts: `scripting.scripts.Scripts`. Digests are SHA-1 in hexadecimal digits."""

    # Whether the server is to stop, so that a script that has written nothing is ended.
    is_stopping: bool

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        ...

    @property
    def cache_size(self) -> int:
        """Bytes of the cached scripts."""
        ...

    @property
    def cached_count(self) -> int:
        """How many scripts are cached."""
        ...

    @property
    def evicted_count(self) -> int:
        """How many scripts have left the cache for others."""
        ...

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        ...

    def load(self, text: bytes, *, is_loaded: bool) -> bytes:
        """Compile a script if it is not cached, and answer its digest; with `is_loaded` it stays until `flush`.

        Raises ReplyError.
        """
        ...

    def has(self, digest: bytes) -> bool:
        """Whether the script of a digest is cached; asking counts as a use of it."""
        ...

    def run(self, digest: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Run a cached script for the current client. Raises ReplyError if it is refused before it starts."""
        ...

    def flush(self) -> None:
        """Remove all scripts, and the state of Lua."""
        ...
