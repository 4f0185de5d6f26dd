"""The lines of some RESP, found all at once: numpy over the raw bytes, and no Python object for any line."""

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


class Lines:
    """Line i is `data[starts[i]:ends[i]]`. It ends with CR LF; a lone LF is part of a line. What follows the last line
    is left out.
    """

    __slots__ = ("data", "ends", "octets", "starts")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.octets = np.frombuffer(data, np.uint8)
        is_end = (self.octets[:-1] == CARRIAGE_RETURN) & (self.octets[1:] == LINE_FEED)
        self.ends: Places = np.flatnonzero(is_end)
        self.starts: Places = np.zeros_like(self.ends)
        self.starts[1:] = self.ends[:-1] + 2

    def __len__(self) -> int:
        return len(self.ends)

    def numbers(self, starts: Places, ends: Places) -> Any:
        """What these lines announce behind their first byte, e.g. 12 of `$12`; -1 where that is no number."""
        sizes = ends - starts - 1
        longest = int(sizes.max(initial=0))
        if sizes.min(initial=1) < 1 or longest > DIGITS_MAX:
            sizes = np.where((sizes < 1) | (sizes > DIGITS_MAX), 0, sizes)
            longest = int(sizes.max(initial=0))
        total: Any = np.zeros(len(starts), np.int64)
        is_number = sizes > 0
        for place in range(1, longest + 1):
            is_there = sizes >= place
            # Behind the last line there may be nothing.
            digit = self.octets[np.minimum(starts + place, len(self.octets) - 1)] - np.uint8(DIGIT_ZERO)
            is_number &= ~is_there | (digit <= 9)
            total = np.where(is_there, total * 10 + digit, total)
        return np.where(is_number, total, -1)

    def are_equal(self, starts: Places, size: int) -> bool:
        """Whether the same `size` bytes are at each of these places."""
        if not len(starts) or not size:
            return True
        if int(starts[-1]) + size > len(self.data):
            return False
        windows = np.ndarray((len(self.data) - size + 1,), f"V{size}", self.data, strides=(1,))
        found: bytes = windows[starts].tobytes()
        return found == found[:size] * len(starts)

    def texts(self, starts: Places, ends: Places) -> Any:
        """What is between these places, as an Arrow column of bytes."""
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
