"""Raw RESP as numpy sees it: places in it, and what is there, without a Python object for any line or word."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

CARRIAGE_RETURN: Final = ord("\r")
LINE_FEED: Final = ord("\n")
DIGIT_ZERO: Final = ord("0")
DIGITS_MAX: Final = 9
"""A longer number is none that a line of ours announces."""
DATA_SIZE_MAX: Final = 2**31 - 1
"""What the offsets of Arrow reach."""

Places = Any
"""Offsets into the data, ascending: an array of int64."""


class Raw:
    """Bytes, and `octets`, the same as an array. Methods take the places of many parts, and look at all at once."""

    __slots__ = ("data", "octets")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.octets = np.frombuffer(data, np.uint8)

    def lines(self) -> tuple[Places, Places]:
        """Where each line starts, and where its CR LF is. A lone LF is part of a line; what follows the last line end
        is none.
        """
        is_end = (self.octets[:-1] == CARRIAGE_RETURN) & (self.octets[1:] == LINE_FEED)
        ends = np.flatnonzero(is_end)
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1] + 2
        return starts, ends

    def numbers(self, starts: Places, ends: Places) -> Any:
        """What these lines announce behind their first byte, e.g. 12 of `$12`; -1 where that is no number."""
        sizes = ends - starts - 1
        shortest, longest = sizes.min(initial=DIGITS_MAX), sizes.max(initial=0)
        if shortest < 1 or longest > DIGITS_MAX:
            sizes = np.where((sizes < 1) | (sizes > DIGITS_MAX), 0, sizes)
            shortest, longest = 0, sizes.max(initial=0)
        total: Any = np.zeros(len(starts), np.int64)
        is_number = sizes > 0
        for place in range(1, int(longest) + 1):
            # Behind the last line there may be nothing.
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
        """Whether the same `size` bytes are at each of these places."""
        if not len(starts) or not size:
            return True
        if int(starts[-1]) + size > len(self.data):
            return False
        found: bytes = self._windows(size, f"V{size}")[starts].tobytes()
        return found == found[:size] * len(starts)

    def are(self, word: bytes, starts: Places, ends: Places) -> Any:
        """Which of these parts are `word`."""
        found = ends - starts == len(word)
        found[found] = self._windows(len(word), f"S{len(word)}")[starts[found]] == word
        return found

    def _windows(self, size: int, kind: str) -> Any:
        """What is at each place of the data."""
        return np.ndarray((max(len(self.data) - size + 1, 0),), kind, self.data, strides=(1,))

    def texts(self, starts: Places, ends: Places) -> Any:
        """These parts as an Arrow column of bytes."""
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        offsets: Any = np.empty(2 * count, np.int32)
        offsets[::2] = starts
        offsets[1::2] = ends
        # A column over the data as it is, in which what is wanted and what is between takes turns.
        turns = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        return turns.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
