"""Strings that remember how they were made, because OBJECT ENCODING shows it.

Redis keeps a string as a number (`int`), within its key's object (`embstr`), or apart (`raw`): the choice follows from
key and value alone, except for a string that was changed in place and for the result of INCRBYFLOAT. All other commands
see only the bytes. The difference is lost at a restart, in Redis too. `editing` makes strings of these classes.
"""

from __future__ import annotations

from typing import Final

# Bytes of key and string together that Redis keeps in one object.
EMBEDDED_SIZE_MAX: Final = 41


class EditedText(bytes):
    """Changed in place by APPEND, SETRANGE or a command on bits: Redis keeps it apart from then on."""

    __slots__ = ()


class SumText(bytes):
    """The result of INCRBYFLOAT or INCREX BYFLOAT: never kept as a number, even if it is whole."""

    __slots__ = ()
