"""Strings that remember how they were made, because OBJECT ENCODING tells.

Redis keeps a string as a number (`int`), within its key's object (`embstr`), or apart (`raw`): which one follows from
key and value alone, but for a string that was changed in place and for the result of adding with fractions. To every
other command these are what their bytes are. A restart forgets the difference, in Redis as well.
"""

from __future__ import annotations


class EditedText(bytes):
    """Changed in place by APPEND or SETRANGE: Redis keeps it apart from then on."""

    __slots__ = ()


class SumText(bytes):
    """The result of INCRBYFLOAT or INCREX BYFLOAT: never kept as a number, even if it is whole."""

    __slots__ = ()
