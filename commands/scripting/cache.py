"""The cache of scripts, by the SHA-1 of their text."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final

from ...store.errors import GenericError, shown

# Maximum number of scripts cached only because EVAL ran them; the least recently used one is evicted.
EVALUATED_COUNT_MAX: Final = 500

# Size in bytes of a SHA-1 in hexadecimal digits.
DIGEST_SIZE: Final = 40

# Bytes that a cached script takes in addition to its text; about the number that Redis counts.
SCRIPT_SIZE: Final = 160

FLAGS: Final = {b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"}


@dataclass(slots=True, eq=False)
class Script:
    """A compiled script. Without a first line `#!lua` it has no flags, and each of its commands is checked alone."""

    sha: bytes
    text: bytes
    # The compiled Lua function.
    action: Any
    has_shebang: bool
    flags: frozenset[bytes]
    # Whether SCRIPT LOAD added it; then it stays until SCRIPT FLUSH.
    is_loaded: bool = False


def digest_of(text: bytes) -> bytes:
    """Returns the SHA-1 of a script's text, in hexadecimal digits."""
    return sha1(text, usedforsecurity=False).hexdigest().encode()


def split_shebang(text: bytes) -> tuple[bytes, bool, frozenset[bytes]]:
    """Returns the text for Lua, whether it has a first line `#!lua`, and the flags of that line.

    The text keeps its line numbers. Raises GenericError.
    """
    if not text.startswith(b"#!"):
        return text, False, frozenset()
    first, newline, _ = text.partition(b"\n")
    if not newline:
        raise GenericError(b"Invalid script shebang")
    engine, *options = first.split()
    if engine != b"#!lua":
        raise GenericError(b"Unexpected engine in script shebang: %b" % shown(engine))
    flags: set[bytes] = set()
    for option in options:
        name, _, value = option.partition(b"=")
        if name != b"flags" or b"=" not in option:
            raise GenericError(b"Unknown lua shebang option: %b" % shown(option))
        for flag in filter(None, value.split(b",")):
            if flag not in FLAGS:
                raise GenericError(b"Unexpected flag in script shebang: %b" % shown(flag))
            flags.add(flag)
    return text[len(first) :], True, frozenset(flags)


class Cache:
    """Scripts by digest. Those that only EVAL added are in the order of their last use."""

    def __init__(self, evicted_count: int = 0) -> None:
        self.by_sha: dict[bytes, Script] = {}
        # A digest takes longer to compute than a script of one line takes to run (benchmark row command-eval).
        self._by_text: dict[bytes, Script] = {}
        self._evaluated: OrderedDict[bytes, None] = OrderedDict()
        self.evicted_count = evicted_count
        # Total size in bytes of the scripts.
        self.size = 0

    def find(self, sha: bytes) -> Script | None:
        """Returns the script of a digest in upper or lower case, and marks it as used; None if it is not cached."""
        return self._used(self.by_sha.get(sha) or self.by_sha.get(sha.lower()))

    def find_text(self, text: bytes) -> Script | None:
        """Returns the script of a text, and marks it as used; None if it is not cached."""
        return self._used(self._by_text.get(text))

    def _used(self, script: Script | None) -> Script | None:
        if script is not None and not script.is_loaded:
            self._evaluated.move_to_end(script.sha)
        return script

    def add(self, script: Script) -> None:
        """Adds a script of EVAL or SCRIPT LOAD, and may evict another one."""
        self.by_sha[script.sha] = self._by_text[script.text] = script
        self.size += len(script.text) + SCRIPT_SIZE
        if script.is_loaded:
            return
        self._evaluated[script.sha] = None
        while len(self._evaluated) > EVALUATED_COUNT_MAX:
            sha, _ = self._evaluated.popitem(last=False)
            evicted = self.by_sha.pop(sha)
            del self._by_text[evicted.text]
            self.size -= len(evicted.text) + SCRIPT_SIZE
            self.evicted_count += 1

    def keep(self, script: Script) -> None:
        """Marks a cached script as loaded by SCRIPT LOAD."""
        script.is_loaded = True
        self._evaluated.pop(script.sha, None)
