"""LZF, the compression of RDB strings: `lzf` for installations without a C compiler. Both behave alike.

Compressed data has runs of literal bytes, and references to bytes at most 8 KiB before.

A control byte below 32 is the number of literal bytes less one. Any other one is a reference: its upper three bits are
the length less two (7: the next byte is added), its lower five bits and the following byte the distance less one. A
reference may overlap what it produces.

`compress` makes the choices of Redis, so that a value gives the same bytes: it looks up the last place where three
bytes with the same hash began, and takes it if the three are the same. Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

from typing import Final

from ..errors import RdbError

LITERALS_MAX: Final = 32
DISTANCE_MAX: Final = 8192
REFERENCE_SIZE_MAX: Final = 264
# Largest expansion: a reference of three bytes makes at most this many bytes for each of its own.
EXPANSION_MAX: Final = REFERENCE_SIZE_MAX // 3


def decompress(data: bytes, size: int) -> bytes:
    """Decompress `data` to `size` bytes. Raises RdbError if the result has another size."""
    if size > len(data) * EXPANSION_MAX:
        raise RdbError("Invalid LZF compressed string: the announced length is impossible")
    out = bytearray()
    position, end = 0, len(data)
    while position < end:
        control = data[position]
        position += 1
        if control < LITERALS_MAX:
            out += data[position : position + control + 1]
            position += control + 1
            continue
        length = (control >> 5) + 2
        if length == 9 and position < end:
            length += data[position]
            position += 1
        if position >= end:
            raise wrong_size()
        distance = ((control & 31) << 8 | data[position]) + 1
        position += 1
        start = len(out) - distance
        if start < 0:
            raise RdbError("Invalid LZF compressed string: a reference to before its beginning")
        piece = out[start : start + length]
        out += piece if distance >= length else (piece * (length // distance + 1))[:length]
    if position != end or len(out) != size:
        raise wrong_size()
    return bytes(out)


def wrong_size() -> RdbError:
    """The error for data of another size than announced, or that ends inside a reference."""
    return RdbError("Invalid LZF compressed string: the length is not the announced one")


def compress(data: bytes, size_max: int) -> bytes | None:
    """Compress `data` to at most `size_max` bytes. Returns None if that is impossible, or if the size is too close to
    the limit for Redis."""
    out = bytearray()
    position = literals_start = 0
    last_start = len(data) - 2
    # The hash of three bytes.
    slots = [(a << 8) - 1279 * b - 5 * c & 0xFFFF for a, b, c in zip(data, data[1:], data[2:], strict=False)]
    seen: dict[int, int] = {}
    while position < last_start:
        slot = slots[position]
        origin = seen.get(slot)
        seen[slot] = position
        # Position 0 is never referred to, since it marks an empty slot.
        if (
            not origin
            or data[origin] != data[position]
            or data[origin + 1 : origin + 3] != data[position + 1 : position + 3]
            or position - origin > DISTANCE_MAX
        ):
            position += 1
            continue
        literals = data[literals_start:position]
        if _reach(out, literals) + 4 >= size_max:
            return None
        _append_literals(out, literals)
        length = _match_length(data, origin, position)
        distance = position - origin - 1
        if length < 9:
            out += bytes(((length - 2) << 5 | distance >> 8, distance & 0xFF))
        else:
            out += bytes((7 << 5 | distance >> 8, length - 9, distance & 0xFF))
        position += length
        literals_start = position
        if position < last_start:
            # Of the bytes that are referred to, only the last two positions are stored.
            seen[slots[position - 2]] = position - 2
            seen[slots[position - 1]] = position - 1
    literals = data[literals_start:position]
    if _reach(out, literals) + (not len(literals) % LITERALS_MAX) + 3 > size_max:
        return None
    _append_literals(out, data[literals_start:])
    return bytes(out)


def _reach(out: bytearray, literals: bytes) -> int:
    """Return the output size with these literals, including a control byte for each run of them."""
    return len(out) + len(literals) + (len(literals) + LITERALS_MAX - 1) // LITERALS_MAX


def _append_literals(out: bytearray, literals: bytes) -> None:
    for start in range(0, len(literals), LITERALS_MAX):
        run = literals[start : start + LITERALS_MAX]
        out.append(len(run) - 1)
        out += run


def _match_length(data: bytes, origin: int, position: int) -> int:
    """Return how many bytes from `position` on equal those from `origin` on, at least three.

    The last two bytes stay literals unless the match has 19 bytes: up to 19 bytes Redis compares without checking the
    end.
    """
    length_max = min(len(data) - position - 2, REFERENCE_SIZE_MAX)
    if length_max > 16:
        length_max = max(length_max, 19)
    length = 3
    while length < length_max and data[origin + length] == data[position + length]:
        length += 1
    return length
