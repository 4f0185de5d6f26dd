"""What a HyperLogLog takes long for: `hyperloglog_codec` for installations without a C compiler. Both behave alike.

The functions on registers work on whole byte strings and long integers, since a loop in Python over all registers would
take milliseconds. The hash function is MurmurHash64A, by Austin Appleby, with the seed of Redis. For runs see
`hyperloglog`.
"""

from __future__ import annotations

from typing import Final

from .hyperloglog_form import (
    CORRUPT,
    FLAG_AT,
    HEADER_SIZE,
    INDEX_BITS,
    JOINED_RUNS_MAX,
    NO_ROOM,
    PACKED_SIZE,
    RAISED,
    RANK_BITS,
    REGISTER_MAX,
    REGISTERS_COUNT,
    SAME,
    STALE,
    VAL,
    VAL_MAX,
    VAL_SPAN_MAX,
    XZERO,
    ZERO_SPAN_MAX,
    span_of,
    width_of,
)

MULTIPLIER: Final = 0xC6A4A7935BD1E995
SEED: Final = 0xADC83B19
SHIFT: Final = 47
MASK: Final = (1 << 64) - 1
# Bytes that one step takes.
WORD_SIZE: Final = 8

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
# The highest bit of the bytes of all registers.
_TOP_BITS: Final = int.from_bytes(b"\x80" * REGISTERS_COUNT, "little")


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


def place_of(element: bytes) -> tuple[int, int]:
    """The register of an element and its rank, which that register is at least once the element is added."""
    found = murmur64(element)
    bits = found >> INDEX_BITS | 1 << RANK_BITS
    return found & REGISTERS_COUNT - 1, (bits & -bits).bit_length()


def raised_dense(text: bytes, elements: list[bytes], first: int) -> tuple[bytes, int]:
    """Add elements, from the one at `first` on, to a HyperLogLog with dense registers.

    Returns how many raised a register, after the string with these registers and the estimate marked as stale; it is
    not copied if there are none.
    """
    data: bytes | bytearray = text
    raised: bytearray | None = None
    raised_count = 0
    for index in range(first, len(elements)):
        register, rank = place_of(elements[index])
        bit = register * 6
        at, shift = HEADER_SIZE + (bit >> 3), bit & 7
        # The last register ends with the last byte.
        pair = data[at] | (data[at + 1] << 8 if shift > 2 else 0)
        if (pair >> shift & REGISTER_MAX) >= rank:
            continue
        if raised is None:
            data = raised = bytearray(text)
            raised[FLAG_AT] |= STALE
        pair = pair & ~(REGISTER_MAX << shift) | rank << shift
        raised[at] = pair & 0xFF
        if shift > 2:
            raised[at + 1] = pair >> 8
        raised_count += 1
    return text if raised is None else bytes(raised), raised_count


def unpacked(packed: bytes, start: int = 0) -> bytes:
    """The registers, a byte for each, from packed ones, which begin at `start`."""
    first, second, third = packed[start::3], packed[start + 1 :: 3], packed[start + 2 :: 3]
    registers = bytearray(REGISTERS_COUNT)
    registers[0::4] = first.translate(_LOW_SIX)
    registers[1::4] = _either(first.translate(_HIGH_TWO), second.translate(_LOW_FOUR_UP))
    registers[2::4] = _either(second.translate(_HIGH_FOUR), third.translate(_LOW_TWO_UP))
    registers[3::4] = third.translate(_HIGH_SIX)
    return bytes(registers)


def raise_packed(registers: bytearray, packed: bytes, start: int = 0) -> None:
    """Raise registers of a byte each to packed ones, which begin at `start`. Raises ValueError if some are missing."""
    if len(registers) != REGISTERS_COUNT or start < 0 or len(packed) - start != PACKED_SIZE:
        raise ValueError("not all registers are there")
    registers[:] = _merged(registers, unpacked(packed, start))


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


def _merged(one: bytes | bytearray, other: bytes) -> bytes:
    """The larger of both values for each register; the arguments and the result have a byte for each."""
    left, right = int.from_bytes(one, "little"), int.from_bytes(other, "little")
    # No register has the top bit of its byte, so that the difference of no byte borrows from the next one. The top
    # bit stays where the left one is not smaller.
    not_smaller = ((left | _TOP_BITS) - right & _TOP_BITS) >> 7
    mask = (not_smaller << 8) - not_smaller
    return (right ^ ((left ^ right) & mask)).to_bytes(REGISTERS_COUNT, "little")


def histogram(registers: bytes) -> list[int]:
    """How many registers have each value; there is a byte for each register."""
    counts = [0] * (REGISTER_MAX + 1)
    rest = len(registers)
    for value in range(REGISTER_MAX + 1):
        counts[value] = registers.count(value)
        rest -= counts[value]
        # Nearly always before the half.
        if not rest:
            break
    return counts


def spread_runs(text: bytes, start: int, registers_count: int) -> bytes | None:
    """The registers of the runs from `start` on, a byte for each; None if the runs are not exactly as many."""
    parts: list[bytes] = []
    index, size = start, len(text)
    while index < size and registers_count >= 0:
        code = text[index]
        index += 1
        value = 0
        if code < XZERO:
            span = code + 1
        elif code >= VAL:
            value, span = (code >> 2 & 31) + 1, (code & 3) + 1
        else:
            # The strings of Redis end with a zero byte.
            span = ((code & 63) << 8 | (text[index] if index < size else 0)) + 1
            index += 1
        parts.append(bytes((value,)) * span)
        registers_count -= span
    return None if registers_count else b"".join(parts)


def raise_by_runs(registers: bytearray, text: bytes, start: int) -> bool:
    """Raise registers of a byte each to those of the runs from `start` on. Returns False if the runs are not exactly as
    many; some may then be raised. Raises ValueError if some of the registers are missing."""
    if len(registers) != REGISTERS_COUNT:
        raise ValueError("not all registers are there")
    if start < 0:
        raise IndexError(start)
    others = spread_runs(text, start, REGISTERS_COUNT)
    if others is None:
        return False
    registers[:] = _merged(registers, others)
    return True


def run_histogram(text: bytes, start: int, registers_count: int) -> list[int] | None:
    """How many registers have each value, from the runs from `start` on; None if the runs are not exactly as many."""
    registers = spread_runs(text, start, registers_count)
    return None if registers is None else histogram(registers)


def find_run(data: bytearray, index: int, first: int, register: int) -> tuple[int, int, int, int] | None:
    """Find the run that has a register, from the run at `index` on, whose first register is `first`.

    Returns where it begins, its first register, and where the run before it and the one before that begin, -1 for none;
    None if the runs end before.
    """
    before, previous = -1, -1
    size = len(data)
    while index < size:
        code = data[index]
        width = 1
        if code < XZERO:
            span = code + 1
        elif code >= VAL:
            span = (code & 3) + 1
        else:
            span = ((code & 63) << 8 | (data[index + 1] if index + 1 < size else 0)) + 1
            width = 2
        if register < first + span:
            return index, first, previous, before
        before = previous
        previous = index
        first += span
        index += width
    return None


def raise_run(
    data: bytearray, start: int, start_register: int, register: int, value: int, size_max: int
) -> tuple[int, int, int]:
    """Raise a register in a sparse HyperLogLog of at most `size_max` bytes. The search begins at the run at `start`,
    whose first register is `start_register`, or at the first run.

    Returns `SAME`, `RAISED`, `NO_ROOM` or `CORRUPT`, and where the search for a later register may begin.
    """
    if value > VAL_MAX:
        return NO_ROOM, start, start_register
    if register < start_register:
        start, start_register = HEADER_SIZE, 0
    place = find_run(data, start, start_register, register)
    if place is None:
        return CORRUPT, start, start_register
    if place[0] == start != HEADER_SIZE:
        # The run before is not known.
        start, start_register = HEADER_SIZE, 0
        place = find_run(data, start, start_register, register)
        assert place is not None
    index, first, previous, before = place
    if before >= 0:
        start_register = first - span_of(data, previous) - span_of(data, before)
        start = before
    code, span = data[index], span_of(data, index)
    old_value = (code >> 2 & 31) + 1 if code >= VAL else 0
    if old_value >= value:
        return SAME, start, start_register
    parts = (
        _run(old_value, register - first)
        + bytes((VAL | value - 1 << 2,))
        + _run(old_value, first + span - 1 - register)
    )
    width, size = width_of(code), len(data)
    growth = len(parts) - width
    if growth > 0 and size + growth > size_max:
        return NO_ROOM, start, start_register
    data[index : index + width] = parts
    # A last XZERO that was cut.
    del data[size + growth :]
    _join_runs(data, previous if previous >= 0 else HEADER_SIZE)
    data[FLAG_AT] |= STALE
    return RAISED, start, start_register


def raised_sparse(text: bytes, elements: list[bytes], first: int, size_max: int) -> tuple[bytes, int, int, int]:
    """Add elements, from the one at `first` on, to a HyperLogLog with sparse registers of at most `size_max` bytes.

    Returns the string with these registers, which is not copied if none was raised; how many elements raised one; where
    the first element is that was not added, and for it `NO_ROOM` or `CORRUPT`.
    """
    data = bytearray(text)
    start, start_register = HEADER_SIZE, 0
    raised_count, index, outcome = 0, first, SAME
    while index < len(elements):
        register, rank = place_of(elements[index])
        outcome, start, start_register = raise_run(data, start, start_register, register, rank, size_max)
        if outcome in (NO_ROOM, CORRUPT):
            break
        raised_count += outcome == RAISED
        index += 1
    return bytes(data) if raised_count else text, raised_count, index, outcome


def raise_runs(data: bytearray, registers: bytes, size_max: int) -> int:
    """Raise each register of a sparse HyperLogLog to the value that it has here, a byte for each. Returns `NO_ROOM` or
    `CORRUPT` at the first register that cannot be raised, otherwise `RAISED`."""
    start, start_register = HEADER_SIZE, 0
    for register, value in enumerate(registers):
        if value:
            outcome, start, start_register = raise_run(data, start, start_register, register, value, size_max)
            if outcome in (NO_ROOM, CORRUPT):
                return outcome
    return RAISED


def _join_runs(data: bytearray, index: int) -> None:
    """Put VAL runs with the same value together, in the few runs from `index` on. Longer ones than fit stay."""
    for _ in range(JOINED_RUNS_MAX):
        if index >= len(data):
            return
        code = data[index]
        if code < VAL:
            index += width_of(code)
            continue
        following = data[index + 1] if index + 1 < len(data) else 0
        span = (code & 3) + (following & 3) + 2
        if following & ~3 == code & ~3 and span <= VAL_SPAN_MAX:
            data[index + 1] = code & ~3 | span - 1
            del data[index]
            continue
        index += 1


def _run(value: int, span: int) -> bytes:
    """A run of so many registers, as Redis writes it; none if there are none."""
    if not span:
        return b""
    if value:
        return bytes((VAL | value - 1 << 2 | span - 1,))
    if span <= ZERO_SPAN_MAX:
        return bytes((span - 1,))
    return bytes((XZERO | span - 1 >> 8, span - 1 & 0xFF))
