"""Raw RESP as arrays: offsets of lines and words, without a Python object for any of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

CARRIAGE_RETURN: Final = ord("\r")
LINE_FEED: Final = ord("\n")
DIGIT_ZERO: Final = ord("0")
# Digits of a size or count; a longer number is not taken as one.
DIGITS_MAX: Final = 9
# The largest data that Arrow's 32-bit offsets can address.
DATA_SIZE_MAX: Final = 2**31 - 1

# Offsets into the data, ascending: an array of int64.
Places = Any


class Raw:
    """Bytes, and the same bytes as the array `octets`. Methods handle many parts of the data at once."""

    __slots__ = ("data", "octets")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.octets = np.frombuffer(data, np.uint8)

    def lines(self) -> tuple[Places, Places]:
        """Returns where each line starts, and where its CR LF is.

        A lone LF does not end a line. Bytes after the last CR LF are not a line.
        """
        is_end = (self.octets[:-1] == CARRIAGE_RETURN) & (self.octets[1:] == LINE_FEED)
        ends = np.flatnonzero(is_end)
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1] + 2
        return starts, ends

    def numbers(self, starts: Places, ends: Places) -> Any:
        """Returns the number after the first byte of each line, for example 12 for `$12`; -1 if there is none."""
        sizes = ends - starts - 1
        shortest, longest = sizes.min(initial=DIGITS_MAX), sizes.max(initial=0)
        if shortest < 1 or longest > DIGITS_MAX:
            sizes = np.where((sizes < 1) | (sizes > DIGITS_MAX), 0, sizes)
            shortest, longest = 0, sizes.max(initial=0)
        total: Any = np.zeros(len(starts), np.int64)
        is_number = sizes > 0
        for place in range(1, int(longest) + 1):
            # There may be no byte after the last line.
            digits = self.octets[np.minimum(starts + place, len(self.octets) - 1)] - np.uint8(DIGIT_ZERO)
            if place <= shortest:
                is_number &= digits <= 9
                total = total * 10 + digits
            else:
                is_there = sizes >= place
                is_number &= ~is_there | (digits <= 9)
                total = np.where(is_there, total * 10 + digits, total)
        total[~is_number] = -1
        return total

    def are_equal(self, starts: Places, size: int) -> bool:
        """Whether the `size` bytes at each of these offsets are equal."""
        if not len(starts) or not size:
            return True
        if int(starts[-1]) + size > len(self.data):
            return False
        found: bytes = self._windows(size, f"V{size}")[starts].tobytes()
        return found == found[:size] * len(starts)

    def are(self, word: bytes, starts: Places, ends: Places) -> Any:
        """Returns, for each of these parts, whether it equals `word`."""
        found = ends - starts == len(word)
        found[found] = self._windows(len(word), f"S{len(word)}")[starts[found]] == word
        return found

    def _windows(self, size: int, kind: str) -> Any:
        """Returns a view of the data: an element of `size` bytes at every offset."""
        return np.ndarray((max(len(self.data) - size + 1, 0),), kind, self.data, strides=(1,))

    def texts(self, starts: Places, ends: Places) -> Any:
        """Returns these parts as an Arrow column of bytes."""
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        offsets: Any = np.empty(2 * count, np.int32)
        offsets[::2] = starts
        offsets[1::2] = ends
        # A column over the data without a copy: its even elements are the parts, its odd ones the bytes between.
        turns = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        return turns.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
