"""Changed strings, in the class that OBJECT ENCODING needs: see `text`.

The classes of strings have a module of their own, because they are not compiled.
"""

from __future__ import annotations

from .text import EMBEDDED_SIZE_MAX, EditedText


def edited(text: bytes) -> bytes:
    """Return a string that Redis keeps apart (`raw`). A long string needs no class of its own, since it is always
    `raw`, and is not copied."""
    return EditedText(text) if len(text) <= EMBEDDED_SIZE_MAX else text


def spliced(text: bytes, offset: int, piece: bytes) -> bytes:
    """A copy of `text` with `piece` written over it from `offset` on; bytes missing before it become zeros."""
    if len(text) + len(piece) <= EMBEDDED_SIZE_MAX and offset <= len(text):
        return EditedText(text[:offset] + piece + text[offset + len(piece) :])
    # Views, so that a long string is copied once.
    view = memoryview(text)
    gap = bytes(max(offset - len(text), 0))
    return edited(b"".join((view[:offset], gap, piece, view[offset + len(piece) :])))
