"""What runs scripts, as commands and reports see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ...protocol.replies import Reply
from ...store.errors import ReplyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .library_set import Function, LibrarySet


# Errors of a script, each with whether it was counted when it was raised.
ScriptErrors = list[tuple[ReplyError, bool]]
NO_ERRORS: Final[ScriptErrors] = []


class Outcome:
    """The reply of a script, and the errors in it."""

    __slots__ = ("errors", "reply")

    def __init__(self, reply: Reply, errors: ScriptErrors = NO_ERRORS) -> None:
        self.reply = reply
        self.errors = errors


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

    def run_text(self, text: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Compile a script if it is not cached, and run it for the current client. Raises ReplyError if it does not
        compile, or is refused before it starts.
        """
        ...

    def run_known(self, digest: bytes, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome | None:
        """Run a cached script for the current client; None if it is not cached. Raises ReplyError if it is refused
        before it starts.
        """
        ...

    def flush(self) -> None:
        """Remove all scripts, and the state of Lua."""
        ...


class LibraryEngine(Protocol):
    """The libraries of functions: `scripting.libraries.Libraries`."""

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        ...

    @property
    def cache_size(self) -> int:
        """Bytes of the libraries."""
        ...

    # The libraries that there are.
    present: LibrarySet

    @property
    def codes(self) -> list[bytes]:
        """The texts of the libraries, in the order in which they were loaded."""
        ...

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Add a library and return its name. Raises ReplyError; then nothing has changed."""
        ...

    def restore(self, codes: Iterable[bytes], *, replace: bool) -> None:
        """Add several libraries. Raises ReplyError; then nothing has changed."""
        ...

    def prepared(self, codes: Iterable[bytes], *, is_from_file: bool) -> LibrarySet:
        """Return libraries that stand alone. Without lupa those of a file are kept as texts. Raises ReplyError."""
        ...

    def flush(self) -> None:
        """Remove all libraries, and the state of Lua."""
        ...

    def find(self, name: bytes) -> Function | None:
        """Return a function, whose name may be in any case; None if it is missing. Raises ReplyError without lupa."""
        ...

    def run(self, function: Function, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Run a function for the current client. Raises ReplyError if it is refused before it starts."""
        ...
