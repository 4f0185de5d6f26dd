"""Encodes maps whose fields are always the same: `map_forms` for installations without a C compiler.

Both modules behave alike and are tested by the same tests; `maps` chooses one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Value = bytes | int | tuple[bytes, ...] | None

# Characters of an integer, at most.
INTEGER_TEXT_SIZE_MAX: Final = 22


class MapForm:
    """A map with these fields, as one protocol sends it. The caller sends `more` fields after each."""

    __slots__ = ("_head", "_names", "_null")

    def __init__(self, protocol: int, names: tuple[bytes, ...], more: int = 0) -> None:
        count = len(names) + more
        self._head = b"%%%d\r\n" % count if protocol == 3 else b"*%d\r\n" % (2 * count)
        self._null = b"_\r\n" if protocol == 3 else b"$-1\r\n"
        self._names = [b"$%d\r\n%b\r\n" % (len(name), name) for name in names]

    def encode(self, rows: Sequence[tuple[Value, ...]]) -> bytes:
        """Encode maps end to end: each row has the values of one, in the order of the names.

        A value is a string, an integer, a null, or a tuple of pieces that are encoded already. Raises TypeError,
        ValueError, OverflowError for any other.
        """
        parts: list[bytes] = []
        for row in rows:
            parts.append(self._head)
            for name, value in zip(self._names, row, strict=True):
                parts.append(name)
                self._add(value, parts)
        return b"".join(parts)

    def encode_array(self, rows: list[Any]) -> bytes:
        """Encode an array of maps. Raises what `encode` raises."""
        return b"*%d\r\n%b" % (len(rows), self.encode(rows))

    def _add(self, value: Value, parts: list[bytes]) -> None:
        if value is None:
            parts.append(self._null)
        elif isinstance(value, bytes):
            parts.append(b"$%d\r\n%b\r\n" % (len(value), value))
        elif type(value) is tuple:
            parts += value
        elif type(value) is int:
            digits = b"%d" % value
            if len(digits) > INTEGER_TEXT_SIZE_MAX:
                raise OverflowError("an integer of a reply is too long")
            parts.append(b":%b\r\n" % digits)
        else:
            raise TypeError(f"no value of a map: {type(value).__name__}")
