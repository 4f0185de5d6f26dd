"""How single values are written in RESP: bulk strings, integers and doubles."""

from __future__ import annotations

from typing import Final

try:
    from .double_texts import double_text, shortest_text
except ImportError:  # there was no C compiler at installation
    from .double_texts_plain import double_text, shortest_text

__all__ = ["bulk", "double_text", "integer", "shortest_text"]

INTEGERS_MAX: Final = 1024
# Small integers, encoded once.
INTEGERS: Final = [b":%d\r\n" % number for number in range(INTEGERS_MAX)]


def bulk(value: bytes) -> bytes:
    """Encode a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def integer(number: int) -> bytes:
    """Encode an integer reply."""
    return INTEGERS[number] if 0 <= number < INTEGERS_MAX else b":%d\r\n" % number
