"""HyperLogLogs, which estimate how many distinct elements were added. They are strings, byte for byte those of Redis.

    HYLL | encoding | 3 unused bytes | cached estimate, 8 bytes, little-endian | registers

The top bit of the estimate says that it is stale. Dense registers have six bits each. Sparse registers are runs:

    00xxxxxx             ZERO:  1 to 64 registers are 0
    01xxxxxx yyyyyyyy    XZERO: 1 to 16384 registers are 0
    1vvvvvxx             VAL:   1 to 4 registers have the value v + 1

Other commands may write any bytes into such a string, so every function expects runs that do not fit.
"""

from __future__ import annotations

from typing import Final

from .errors import CorruptHyperLogLog
from .hyperloglog_form import (
    CORRUPT,
    FLAG_AT,
    HEADER_SIZE,
    NO_ROOM,
    PACKED_SIZE,
    RAISED,
    REGISTER_MAX,
    REGISTERS_COUNT,
    STALE,
    VAL,
    XZERO,
    span_of,
    width_of,
)
from .registers import estimate, packed, raise_packed, unpacked

try:
    from .hyperloglog_codec import histogram, raise_by_runs, raise_run, raise_runs, run_histogram, spread_runs
except ImportError:  # there was no C compiler at installation
    from .hyperloglog_codec_plain import histogram, raise_by_runs, raise_run, raise_runs, run_histogram, spread_runs

MAGIC: Final = b"HYLL"
DENSE: Final = 0
SPARSE: Final = 1
DENSE_SIZE: Final = HEADER_SIZE + PACKED_SIZE
# Where the encoding is.
ENCODING_AT: Final = 4
# Where the estimate is.
ESTIMATE_AT: Final = 8

# A string without elements, whose estimate is not stale.
EMPTY: Final = MAGIC + bytes((SPARSE, *bytes(HEADER_SIZE - ENCODING_AT - 1), XZERO | 0x3F, 0xFF))
# Its registers, to which elements are added.
STALE_EMPTY: Final = EMPTY[:FLAG_AT] + bytes((STALE,)) + EMPTY[HEADER_SIZE:]


def is_hyperloglog(text: bytes) -> bool:
    """Whether a string is a HyperLogLog, as far as its header says. Sparse registers may still be corrupt."""
    if not text.startswith(MAGIC) or len(text) < HEADER_SIZE:
        return False
    return text[ENCODING_AT] == SPARSE or (text[ENCODING_AT] == DENSE and len(text) == DENSE_SIZE)


def is_dense(text: bytes) -> bool:
    """Whether a HyperLogLog has dense registers."""
    return text[ENCODING_AT] == DENSE


def cached_estimate(text: bytes) -> int | None:
    """The cached estimate, None if it is stale."""
    return None if text[FLAG_AT] & STALE else int.from_bytes(text[ESTIMATE_AT:HEADER_SIZE], "little")


def with_estimate(text: bytes, found: int) -> bytes:
    """The string with another cached estimate, a number of 64 bits with a sign."""
    return b"".join((text[:ESTIMATE_AT], found.to_bytes(8, "little", signed=True), memoryview(text)[HEADER_SIZE:]))


def shown_runs(text: bytes) -> bytes:
    """The runs of sparse registers as PFDEBUG DECODE shows them: `z:` for ZERO, `Z:` for XZERO, `v:` for VAL. They are
    not checked."""
    found: list[bytes] = []
    index = HEADER_SIZE
    while index < len(text):
        code, span = text[index], span_of(text, index)
        if code >= VAL:
            found.append(b"v:%d,%d" % ((code >> 2 & 31) + 1, span))
        else:
            found.append(b"%b:%d" % (b"z" if code < XZERO else b"Z", span))
        index += width_of(code)
    return b" ".join(found)


def registers_of(text: bytes) -> bytes:
    """The registers of a HyperLogLog, a byte for each. Raises CorruptHyperLogLog if the runs of sparse registers have
    fewer or more."""
    if is_dense(text):
        return unpacked(text, HEADER_SIZE)
    registers = spread_runs(text, HEADER_SIZE, REGISTERS_COUNT)
    if registers is None:
        raise CorruptHyperLogLog
    return registers


def raise_registers(registers: bytearray, text: bytes) -> None:
    """Raise registers of a byte each to those of a HyperLogLog. Raises CorruptHyperLogLog."""
    if is_dense(text):
        raise_packed(registers, text, HEADER_SIZE)
    elif not raise_by_runs(registers, text, HEADER_SIZE):
        raise CorruptHyperLogLog


def with_packed_registers(text: bytes, registers: bytes) -> bytes:
    """The string with dense registers in place of its own; the cached estimate is marked as stale."""
    header = bytearray(text[:HEADER_SIZE])
    header[ENCODING_AT] = DENSE
    header[FLAG_AT] |= STALE
    return bytes(header) + registers


def estimate_of(text: bytes) -> int:
    """The number of distinct elements of a HyperLogLog, from its registers. Raises CorruptHyperLogLog."""
    if is_dense(text):
        return estimate_registers(unpacked(text, HEADER_SIZE))
    counts = run_histogram(text, HEADER_SIZE, REGISTERS_COUNT)
    if counts is None:
        raise CorruptHyperLogLog
    return estimate(counts)


def estimate_registers(registers: bytes) -> int:
    """The number of distinct elements, from registers of a byte each."""
    return estimate(histogram(registers))


class HyperLogLog:
    """A HyperLogLog while a command changes it. `data` has its bytes."""

    __slots__ = ("_start", "_start_register", "data", "sparse_size_max")

    def __init__(self, text: bytes, sparse_size_max: int) -> None:
        self.data = bytearray(text)
        # Sparse registers do not grow beyond this number of bytes, header included: they become dense.
        self.sparse_size_max: Final = sparse_size_max
        # Where a run begins, and its first register: a search for a later register begins here.
        self._start = HEADER_SIZE
        self._start_register = 0

    @property
    def is_dense(self) -> bool:
        """Whether the registers are dense."""
        return self.data[ENCODING_AT] == DENSE

    def mark_stale(self) -> None:
        """Mark the cached estimate as stale."""
        self.data[FLAG_AT] |= STALE

    def make_dense(self) -> None:
        """Make the registers dense, if they are not. Raises CorruptHyperLogLog."""
        if not self.is_dense:
            registers = packed(registers_of(bytes(self.data)))
            self.data[HEADER_SIZE:] = registers
            self.data[ENCODING_AT] = DENSE

    def raise_register(self, register: int, value: int) -> bool:
        """Set a register to a value if it is smaller. Returns whether it was. Raises CorruptHyperLogLog.

        Sparse registers become dense where there is no room. Then the estimate may not be marked as stale.
        """
        if not self.is_dense:
            outcome, self._start, self._start_register = raise_run(
                self.data, self._start, self._start_register, register, value, self.sparse_size_max
            )
            if outcome == CORRUPT:
                raise CorruptHyperLogLog
            if outcome != NO_ROOM:
                return outcome == RAISED
            self.make_dense()
        return self._raise_dense(register, value)

    def raise_all(self, registers: bytes) -> None:
        """Raise every register to the value that it has here, a byte for each; none of them is larger before."""
        if not self.is_dense:
            outcome = raise_runs(self.data, registers, self.sparse_size_max)
            if outcome == CORRUPT:
                raise CorruptHyperLogLog
            if outcome == NO_ROOM:
                self.make_dense()
        if self.is_dense:
            self.data[HEADER_SIZE:] = packed(registers)

    def _raise_dense(self, register: int, value: int) -> bool:
        data = self.data
        bit = register * 6
        index, shift = HEADER_SIZE + (bit >> 3), bit & 7
        # The last register ends with the last byte.
        pair = data[index] | (data[index + 1] << 8 if shift > 2 else 0)
        if (pair >> shift & REGISTER_MAX) >= value:
            return False
        pair = pair & ~(REGISTER_MAX << shift) | value << shift
        data[index] = pair & 0xFF
        if shift > 2:
            data[index + 1] = pair >> 8
        return True
