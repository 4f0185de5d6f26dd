"""The first line of a library: `#!lua name=...`."""

from __future__ import annotations

import re
from typing import Final

from ...protocol.reader import split_words
from ...store.errors import GenericError, shown

ENGINE: Final = b"lua"
NAME_RULE: Final = (
    b"Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
)
_NAME: Final = re.compile(rb"[A-Za-z0-9_]+")


def split_library(text: bytes) -> tuple[bytes, bytes]:
    """Returns the name of a library, and its text for Lua, which keeps its line numbers. Raises GenericError."""
    if not text.startswith(b"#!"):
        raise GenericError(b"Missing library metadata")
    # As in Redis, where it is a C string.
    first, newline, _ = shown(text).partition(b"\n")
    words = split_words(first) if newline else None
    if not words:
        raise GenericError(b"Invalid library metadata")
    name: bytes | None = None
    for word in words[1:]:
        if word[:5].lower() != b"name=":
            raise GenericError(b"Invalid metadata value given: %b" % shown(word))
        if name is not None:
            raise GenericError(b"Invalid metadata value, name argument was given multiple times")
        name = word[5:]
    if name is None:
        raise GenericError(b"Library name was not given")
    if not _NAME.fullmatch(name):
        raise GenericError(NAME_RULE)
    engine = words[0][2:]
    if engine.lower() != ENGINE:
        raise GenericError(b"Engine '%b' not found" % shown(engine))
    return name, text[len(first) :]
