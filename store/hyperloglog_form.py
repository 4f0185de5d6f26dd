"""How registers of HyperLogLogs are kept as bytes: their numbers, and the codes of runs. See `hyperloglog`."""

from __future__ import annotations

from typing import Final

# The low bits of a hash choose the register.
INDEX_BITS: Final = 14
REGISTERS_COUNT: Final = 1 << INDEX_BITS
REGISTER_MAX: Final = 63
# Bits of a hash that count for the rank. The highest rank is one more.
RANK_BITS: Final = 64 - INDEX_BITS
# Bytes of the packed registers: four in three bytes, the lowest bits first.
PACKED_SIZE: Final = REGISTERS_COUNT * 6 // 8

# The header, and the byte of it whose top bit says that the cached estimate is stale.
HEADER_SIZE: Final = 16
FLAG_AT: Final = 15
STALE: Final = 0x80

# The smallest codes of long runs of 0 and of runs of another value. Smaller codes are short runs of 0.
XZERO: Final = 0x40
VAL: Final = 0x80
# Registers of the longest short runs of 0 and of another value, and the largest value: a larger one makes the registers
# dense.
ZERO_SPAN_MAX: Final = 64
VAL_SPAN_MAX: Final = 4
VAL_MAX: Final = 32
# Runs that Redis looks at after a change, to put values together.
JOINED_RUNS_MAX: Final = 5

# What comes of raising a register in runs: it has the value or a larger one already, it is raised, only dense registers
# have room for it, or the runs have no such register.
SAME: Final = 0
RAISED: Final = 1
NO_ROOM: Final = 2
CORRUPT: Final = 3


def width_of(code: int) -> int:
    """The bytes of a run that begins with this one."""
    return 2 if XZERO <= code < VAL else 1


def span_of(data: bytes | bytearray, index: int) -> int:
    """The number of registers of the run at `index`. An XZERO that is cut is read as if a zero byte followed, as the
    strings of Redis end with one."""
    code = data[index]
    if code >= VAL:
        return (code & 3) + 1
    if code < XZERO:
        return code + 1
    return ((code & 63) << 8 | (data[index + 1] if index + 1 < len(data) else 0)) + 1
