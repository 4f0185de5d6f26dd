"""The hash function of HyperLogLogs: MurmurHash64A, by Austin Appleby, with the seed of Redis."""

from __future__ import annotations

from typing import Final

MULTIPLIER: Final = 0xC6A4A7935BD1E995
SEED: Final = 0xADC83B19
SHIFT: Final = 47
MASK: Final = (1 << 64) - 1
# Bytes that one step takes.
WORD_SIZE: Final = 8


def murmur64(text: bytes) -> int:
    """Return the hash of a text, a number of 64 bits without a sign."""
    size = len(text)
    found = SEED ^ (size * MULTIPLIER & MASK)
    whole_size = size - size % WORD_SIZE
    for start in range(0, whole_size, WORD_SIZE):
        word = int.from_bytes(text[start : start + WORD_SIZE], "little") * MULTIPLIER & MASK
        found = (found ^ ((word ^ word >> SHIFT) * MULTIPLIER & MASK)) * MULTIPLIER & MASK
    if whole_size < size:
        found = (found ^ int.from_bytes(text[whole_size:], "little")) * MULTIPLIER & MASK
    found = (found ^ found >> SHIFT) * MULTIPLIER & MASK
    return found ^ found >> SHIFT
