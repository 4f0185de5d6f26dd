"""How much of the stream is on stable storage here: the log counts its writes, the stream counts bytes. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Final

# Pairs that are kept; with more, the newest takes the place of the one before it.
PAIRS_COUNT_MAX: Final = 1024


class SyncedOffset:
    """The offset of the stream that belongs to each mark of the log."""

    def __init__(self) -> None:
        # Marks that are not on stable storage yet, and the offset of the stream when the log had each.
        self._pairs: deque[tuple[int, int]] = deque()
        self._offset = 0

    def clear(self) -> None:
        """Forget everything: the log begins anew."""
        self._pairs.clear()
        self._offset = 0

    def note(self, mark: int, offset: int) -> None:
        """The log has everything up to this offset once this mark is on stable storage."""
        pairs = self._pairs
        if pairs and (pairs[-1][0] == mark or len(pairs) >= PAIRS_COUNT_MAX):
            pairs[-1] = mark, offset
        else:
            pairs.append((mark, offset))

    def at(self, synced_mark: int) -> int:
        """The offset up to which everything is on stable storage; 0 if nothing is known to be."""
        pairs = self._pairs
        while pairs and pairs[0][0] <= synced_mark:
            self._offset = pairs.popleft()[1]
        return self._offset
