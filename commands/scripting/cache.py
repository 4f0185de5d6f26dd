"""The scripts a server knows, by the SHA-1 of their text."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final

from ...store.errors import GenericError, shown

EVALUATED_COUNT_MAX: Final = 500
"""Scripts known only because EVAL ran them; beyond that the one that has gone unused longest is forgotten."""

DIGEST_SIZE: Final = 40
"""Bytes of a SHA-1 as printed."""

SCRIPT_SIZE: Final = 160
"""Bytes of a script in the cache beside its text: about what Redis counts."""

FLAGS: Final = {b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"}


@dataclass(slots=True, eq=False)
class Script:
    """One script. Without a first line of `#!lua` it decides with each command what it may do."""

    sha: bytes
    text: bytes
    action: Any
    """The function of Lua."""
    has_shebang: bool
    flags: frozenset[bytes]
    is_loaded: bool = False
    """By SCRIPT LOAD: it stays until SCRIPT FLUSH."""


def digest_of(text: bytes) -> bytes:
    """The name of a script."""
    return sha1(text, usedforsecurity=False).hexdigest().encode()


def split_shebang(text: bytes) -> tuple[bytes, bool, frozenset[bytes]]:
    """(what Lua gets, whether there is a first line `#!lua`, its flags); line numbers stay. Raises GenericError."""
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
    """Scripts by digest. Those that only EVAL brought are kept in the order of their last use."""

    def __init__(self) -> None:
        self.by_sha: dict[bytes, Script] = {}
        self._evaluated: OrderedDict[bytes, None] = OrderedDict()
        self.evicted_count = 0
        self.size = 0
        """Bytes of the texts and what belongs to them."""

    def find(self, sha: bytes) -> Script | None:
        """The script of a digest in any case; it counts as used."""
        script = self.by_sha.get(sha) or self.by_sha.get(sha.lower())
        if script is not None and not script.is_loaded:
            self._evaluated.move_to_end(script.sha)
        return script

    def add(self, script: Script) -> None:
        """Remember a script that EVAL or SCRIPT LOAD brought."""
        self.by_sha[script.sha] = script
        self.size += len(script.text) + SCRIPT_SIZE
        if script.is_loaded:
            return
        self._evaluated[script.sha] = None
        while len(self._evaluated) > EVALUATED_COUNT_MAX:
            sha, _ = self._evaluated.popitem(last=False)
            self.size -= len(self.by_sha.pop(sha).text) + SCRIPT_SIZE
            self.evicted_count += 1

    def keep(self, script: Script) -> None:
        """SCRIPT LOAD of a script that is there."""
        script.is_loaded = True
        self._evaluated.pop(script.sha, None)
