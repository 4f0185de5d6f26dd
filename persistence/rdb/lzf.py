"""LZF, the compression of RDB strings: runs of literal bytes, and references to what came at most 8 KiB before.

A control byte below 32 announces one more literal bytes than it says. Any other one is a reference: its upper three
bits are the length less two (7: the next byte is to be added), its lower five bits and the byte that follows the
distance less one. A reference may overlap what it produces.

`compress` makes the very choices of Redis, so that the same value gives the same bytes: it looks up the last place
where three bytes with the same hash began, and takes it if the three are the same. Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

from typing import Final

from ..errors import RdbError

LITERALS_MAX: Final = 32
DISTANCE_MAX: Final = 8192
REFERENCE_SIZE_MAX: Final = 264
EXPANSION_MAX: Final = REFERENCE_SIZE_MAX // 3
"""A reference of three bytes makes no more than this many for each of its own."""


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` stands for. Raises RdbError if it stands for anything else."""
    if size > len(data) * EXPANSION_MAX:
        raise RdbError("Invalid LZF compressed string: it cannot be as long as it says")
    out = bytearray()
    position, end = 0, len(data)
    while position < end:
        control = data[position]
        position += 1
        if control < LITERALS_MAX:
            out += data[position : position + control + 1]
            position += control + 1
            continue
        length = control >> 5
        if length == 7 and position < end:
            length += data[position]
            position += 1
        if position >= end:
            break
        start = len(out) - ((control & 31) << 8 | data[position]) - 1
        position += 1
        if start < 0:
            raise RdbError("Invalid LZF compressed string: a reference to before its beginning")
        _repeat(out, start, length + 2)
    if position != end or len(out) != size:
        raise RdbError("Invalid LZF compressed string: not as long as it says")
    return bytes(out)


def _repeat(out: bytearray, start: int, length: int) -> None:
    """Append `length` bytes from `start` on, some of which may come to be only thereby."""
    piece = out[start : start + length]
    if len(piece) < length:
        piece = (piece * (length // len(piece) + 1))[:length]
    out += piece


def compress(data: bytes, size_max: int) -> bytes | None:
    """`data` in at most `size_max` bytes; None if that cannot be, or would be a close call (which Redis avoids)."""
    out = bytearray(b"\0")  # the control byte of the literals that follow
    literals = position = 0
    size = len(data)
    last_start = size - 2
    seen: dict[int, int] = {}
    while position < last_start:
        slot = _slot(data, position)
        origin = seen.get(slot, 0)
        seen[slot] = position
        # The place 0 is never referred to: it is what an empty slot holds.
        if not (
            origin and position - origin <= DISTANCE_MAX and data[origin : origin + 3] == data[position : position + 3]
        ):
            if len(out) >= size_max:
                return None
            out.append(data[position])
            position += 1
            literals += 1
            if literals == LITERALS_MAX:
                out[-literals - 1] = literals - 1
                literals = 0
                out.append(0)
            continue
        if len(out) - (not literals) + 4 >= size_max:
            return None
        if literals:
            out[-literals - 1] = literals - 1
        else:
            out.pop()
        length = _match_length(data, origin, position)
        distance = position - origin - 1
        if length < 9:
            out.append((length - 2) << 5 | distance >> 8)
        else:
            out += bytes((7 << 5 | distance >> 8, length - 9))
        out += bytes((distance & 0xFF, 0))
        literals = 0
        position += length
        if position >= last_start:
            break
        # Of the bytes referred to only the last two are remembered as places.
        for start in (position - 2, position - 1):
            seen[_slot(data, start)] = start
    if len(out) + 3 > size_max:
        return None
    for byte in data[position:]:
        out.append(byte)
        literals += 1
        if literals == LITERALS_MAX:
            out[-literals - 1] = literals - 1
            literals = 0
            out.append(0)
    if literals:
        out[-literals - 1] = literals - 1
    else:
        out.pop()
    return bytes(out)


def _slot(data: bytes, position: int) -> int:
    """The hash of three bytes."""
    first, second, third = data[position : position + 3]
    return (first << 8 | second) - 5 * (second << 8 | third) & 0xFFFF


def _match_length(data: bytes, origin: int, position: int) -> int:
    """How many bytes from `position` on are those from `origin` on, three at least.

    The last two bytes are left to be literals, if the match is not one of 19 bytes: up to there Redis compares in one
    go, whatever is left.
    """
    length_max = min(len(data) - position - 2, REFERENCE_SIZE_MAX)
    if length_max > 16:
        length_max = max(length_max, 19)
    length = 3
    while length < length_max and data[origin + length] == data[position + length]:
        length += 1
    return length
