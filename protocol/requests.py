"""Requests as both parsers know them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

# The words of a request.
Request = list[bytes]
# `(data, bulk_size_max)` -> the complete requests at the beginning of `data`, and their size in bytes.
Split = Callable[[bytes, int], tuple[list[Request], int]]
# `(data, position, count, size_max, words)` -> the position after the words that were read: see `frames_plain`.
ReadWords = Callable[[bytearray, int, int, int, list[bytes]], int]

# First words of HTTP requests, in lower case, that a browser may have been tricked into sending.
CROSS_PROTOCOL: Final = frozenset(
    bytes(letters) for word in (b"POST", b"HOST:") for letters in product(*({letter, letter | 0x20} for letter in word))
)
# Bytes passed to hiredis at once: it moves all bytes that are left each time it has read a kilobyte.
SLICE_SIZE: Final = 16 * 1024
