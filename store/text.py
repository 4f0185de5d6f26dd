"""Strings that remember how they were made, because OBJECT ENCODING shows it.

Redis keeps a string as a number (`int`), within its key's object (`embstr`), or apart (`raw`): the choice follows from
key and value alone, except for a string that was changed in place and for the result of INCRBYFLOAT. All other commands
see only the bytes. The difference is lost at a restart, in Redis too.
"""

from __future__ import annotations

from typing import Final

# Bytes of key and string together that Redis keeps in one object.
EMBEDDED_SIZE_MAX: Final = 41


class EditedText(bytes):
    """Changed in place by APPEND, SETRANGE or a command on bits: Redis keeps it apart from then on."""

    __slots__ = ()


def edited(text: bytes) -> bytes:
    """Return a string that Redis keeps apart (`raw`). A long string needs no class of its own, since it is always
    `raw`, and is not copied."""
    return EditedText(text) if len(text) <= EMBEDDED_SIZE_MAX else text


class SumText(bytes):
    """The result of INCRBYFLOAT or INCREX BYFLOAT: never kept as a number, even if it is whole."""

    __slots__ = ()


def spliced(text: bytes, offset: int, piece: bytes) -> bytes:
    """A copy of `text` with `piece` written over it from `offset` on; bytes missing before it become zeros."""
    if len(text) + len(piece) <= EMBEDDED_SIZE_MAX and offset <= len(text):
        return EditedText(text[:offset] + piece + text[offset + len(piece) :])
    # Views, so that a long string is copied once.
    view = memoryview(text)
    gap = bytes(max(offset - len(text), 0))
    return edited(b"".join((view[:offset], gap, piece, view[offset + len(piece) :])))
