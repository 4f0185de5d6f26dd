"""The registers of HyperLogLogs: 16384 numbers of six bits, packed or with a byte for each; and the estimate from them.

The functions work on whole byte strings and long integers, since a loop in Python over all registers would take
milliseconds.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Final

try:
    from .hyperloglog_codec import murmur64
except ImportError:  # there was no C compiler at installation
    from .hyperloglog_codec_plain import murmur64

INDEX_BITS: Final = 14
REGISTERS_COUNT: Final = 1 << INDEX_BITS
REGISTER_MAX: Final = 63
# Bits of a hash that count for the rank. The highest rank is one more.
RANK_BITS: Final = 64 - INDEX_BITS
# Bytes of the packed registers: four in three bytes, the lowest bits first.
PACKED_SIZE: Final = REGISTERS_COUNT * 6 // 8

INT64_MIN: Final = -(1 << 63)
INT64_END: Final = 1 << 63

_BYTES: Final = range(256)
# The parts of registers in the three bytes: a register is in one byte, or in two next to each other.
_LOW_SIX: Final = bytes([byte & 63 for byte in _BYTES])
_HIGH_TWO: Final = bytes([byte >> 6 for byte in _BYTES])
_LOW_FOUR_UP: Final = bytes([(byte & 15) << 2 for byte in _BYTES])
_HIGH_FOUR: Final = bytes([byte >> 4 for byte in _BYTES])
_LOW_TWO_UP: Final = bytes([(byte & 3) << 4 for byte in _BYTES])
_HIGH_SIX: Final = bytes([byte >> 2 for byte in _BYTES])
# The same parts, from registers to bytes.
_LOW_TWO_TO_TOP: Final = bytes([(byte & 3) << 6 for byte in _BYTES])
_LOW_FOUR_TO_TOP: Final = bytes([(byte & 15) << 4 for byte in _BYTES])
_SIX_TO_TOP: Final = bytes([byte << 2 & 255 for byte in _BYTES])
# The highest and the lowest bit of the bytes of all registers.
_TOP_BITS: Final = int.from_bytes(b"\x80" * REGISTERS_COUNT, "little")

_ALPHA: Final = 0.721347520444481703680


def place_of(element: bytes) -> tuple[int, int]:
    """The register of an element and its rank, which that register is at least once the element is added."""
    found = murmur64(element)
    bits = found >> INDEX_BITS | 1 << RANK_BITS
    return found & REGISTERS_COUNT - 1, (bits & -bits).bit_length()


def unpacked(packed: bytes) -> bytes:
    """The registers, a byte for each, from packed ones."""
    first, second, third = packed[0::3], packed[1::3], packed[2::3]
    registers = bytearray(REGISTERS_COUNT)
    registers[0::4] = first.translate(_LOW_SIX)
    registers[1::4] = _either(first.translate(_HIGH_TWO), second.translate(_LOW_FOUR_UP))
    registers[2::4] = _either(second.translate(_HIGH_FOUR), third.translate(_LOW_TWO_UP))
    registers[3::4] = third.translate(_HIGH_SIX)
    return bytes(registers)


def packed(registers: bytes) -> bytes:
    """The packed registers, from registers of a byte each."""
    first, second, third, fourth = registers[0::4], registers[1::4], registers[2::4], registers[3::4]
    found = bytearray(PACKED_SIZE)
    found[0::3] = _either(first, second.translate(_LOW_TWO_TO_TOP))
    found[1::3] = _either(second.translate(_HIGH_SIX), third.translate(_LOW_FOUR_TO_TOP))
    found[2::3] = _either(third.translate(_HIGH_FOUR), fourth.translate(_SIX_TO_TOP))
    return bytes(found)


def _either(one: bytes, other: bytes) -> bytes:
    """The bits that either has; both have the same size."""
    bits = int.from_bytes(one, "little") | int.from_bytes(other, "little")
    return bits.to_bytes(len(one), "little")


def merged(one: bytes, other: bytes) -> bytes:
    """The larger of both values for each register; the arguments and the result have a byte for each."""
    left, right = int.from_bytes(one, "little"), int.from_bytes(other, "little")
    # No register has the top bit of its byte, so that the difference of no byte borrows from the next one. The top
    # bit stays where the left one is not smaller.
    not_smaller = ((left | _TOP_BITS) - right & _TOP_BITS) >> 7
    mask = (not_smaller << 8) - not_smaller
    return (right ^ ((left ^ right) & mask)).to_bytes(REGISTERS_COUNT, "little")


def estimate(counts: list[int]) -> int:
    """The number of distinct elements, from the histogram of the registers. It is INT64_MIN if it is too large.

    Source: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284. The order of
    the operations is that of Redis, so that they round alike.
    """
    size = float(REGISTERS_COUNT)
    total = size * _tau((size - counts[RANK_BITS + 1]) / size)
    for value in range(RANK_BITS, 0, -1):
        total += counts[value]
        total *= 0.5
    total += size * _sigma(counts[0] / size)
    # Without registers that the estimate knows, as only a text that was changed by other commands has them.
    found = _ALPHA * size * size / total if total else inf
    if found >= INT64_END:
        # So does the processor convert a number that does not fit.
        return INT64_MIN
    whole = int(found)
    return whole + 1 if found - whole >= 0.5 else whole


def _sigma(share: float) -> float:
    """The correction for registers that are 0, from their share of all registers."""
    if share == 1.0:
        return inf
    step, found, before = 1.0, share, -1.0
    while before != found:
        share *= share
        before = found
        found += share * step
        step += step
    return found


def _tau(share: float) -> float:
    """The correction for registers that have the highest rank, from the share of the others."""
    if share in (0.0, 1.0):
        return 0.0
    step, found, before = 1.0, 1.0 - share, -1.0
    while before != found:
        share = sqrt(share)
        before = found
        step *= 0.5
        rest = 1.0 - share
        found -= rest * rest * step
    return found / 3.0
