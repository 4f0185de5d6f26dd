"""Strings that remember how they were made, because OBJECT ENCODING tells.

Redis keeps a string as a number (`int`), within its key's object (`embstr`), or apart (`raw`): which one follows from
key and value alone, but for a string that was changed in place and for the result of adding with fractions. To every
other command these are what their bytes are. A restart forgets the difference, in Redis as well.
"""

from __future__ import annotations

from typing import Final

EMBEDDED_SIZE_MAX: Final = 41
"""Bytes of key and string together that Redis keeps in one object."""


class EditedText(bytes):
    """Changed in place by APPEND or SETRANGE: Redis keeps it apart from then on."""

    __slots__ = ()


def edited(text: bytes) -> bytes:
    """A string that Redis keeps apart from now on. One that is too long for anything else needs no class of its own,
    and so is never copied to be read."""
    return EditedText(text) if len(text) <= EMBEDDED_SIZE_MAX else text


class SumText(bytes):
    """The result of INCRBYFLOAT or INCREX BYFLOAT: never kept as a number, even if it is whole."""

    __slots__ = ()
