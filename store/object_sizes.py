"""Bytes that objects of one kind take, with what the allocator rounds up."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from .. import is_compiled
from .ids import ID_MAX

# The allocator rounds sizes up to a multiple of this.
BLOCK_SIZE: Final = 16

# An entry ID as a Python number.
ID_SIZE: Final = 48
assert getsizeof(ID_MAX) <= ID_SIZE

# A time, a position or a count. Small integers, which Python shares, cost nothing.
NUMBER_SIZE: Final = 32

REFERENCE_SIZE: Final = 8

# What Python's collector of cycles has of an object that it visits: see `class_marks`.
COLLECTOR_SIZE: Final = 0 if is_compiled() else 16

# A byte string without its bytes.
TEXT_HEADER_SIZE: Final = getsizeof(b"")


def text_size(text: bytes) -> int:
    """Bytes of a byte string."""
    return len(text) + TEXT_HEADER_SIZE + BLOCK_SIZE - 1 & -BLOCK_SIZE
