"""The order of the pending entries of a group or consumer, in installations without a C compiler."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from .ids import StreamID

# A list is rebuilt when it is more than half stale and longer than this.
STALE_SLACK: Final = 64


class SortedIDs:
    """A sorted list of IDs to walk from a cursor. IDs that have left stay until a cleaning.

    IDs that arrive out of order, as claimed ones do, are sorted in at the next read. So a claim among a million entries
    costs as much as one among a thousand.
    """

    __slots__ = ("_start", "ids", "late")

    def __init__(self) -> None:
        # The sorted IDs.
        self.ids: list[StreamID] = []
        # IDs that are still to be merged into `ids`.
        self.late: list[StreamID] = []
        # There are no members before this index.
        self._start = 0

    def __len__(self) -> int:
        """Number of stored IDs, including those that have left."""
        return len(self.ids) + len(self.late)

    def is_mostly_stale(self, members_count: int) -> bool:
        """Whether a cleaning is worth its time."""
        return len(self.ids) + len(self.late) > 2 * members_count + STALE_SLACK

    def may_hold(self, entry_id: StreamID) -> bool:
        """False if the ID is above all others."""
        return bool(self.ids and entry_id <= self.ids[-1]) or bool(self.late)

    def add(self, new_ids: list[StreamID]) -> None:
        """Add ascending IDs; some may be in the list already."""
        if not self.ids or new_ids[0] > self.ids[-1]:
            self.ids += new_ids
        else:
            self.late += new_ids

    def _sorted(self) -> list[StreamID]:
        """Merge the late IDs, and return the sorted list."""
        if self.late:
            ids = self.ids
            late: list[StreamID] = []
            for entry_id in sorted(set(self.late)):
                index = bisect_left(ids, entry_id)
                if index == len(ids) or ids[index] != entry_id:
                    late.append(entry_id)
                self._start = min(self._start, index)
            self.late = []
            ids += late
            ids.sort()  # two ascending runs, which it merges
        return self.ids

    def walk(self, start: StreamID, is_member: Callable[[StreamID], bool]) -> Iterator[StreamID]:
        """Yield the IDs of members from `start` on. Members may be removed during the walk, but not added."""
        ids = self._sorted()
        for position in range(max(self._first(is_member), bisect_left(ids, start)), len(ids)):
            if is_member(ids[position]):
                yield ids[position]

    def take(
        self, start: StreamID, count: int, is_member: Callable[[StreamID], bool], members_count: int
    ) -> list[StreamID]:
        """The first `count` IDs from `start` on."""
        ids = self._sorted()
        index = max(self._first(is_member), bisect_left(ids, start))
        if len(ids) == members_count:
            return ids[index : index + count]
        found: list[StreamID] = []
        while len(found) < count and index < len(ids):
            found += filter(is_member, ids[index : index + count])
            index += count
        return found[:count]

    def _first(self, is_member: Callable[[StreamID], bool]) -> int:
        """Index of the first member."""
        ids, index = self.ids, self._start
        while index < len(ids) and not is_member(ids[index]):
            index += 1
        self._start = index
        return index

    def last(self, is_member: Callable[[StreamID], bool]) -> StreamID:
        """The largest ID of a member. There must be one."""
        ids = self._sorted()
        while not is_member(ids[-1]):
            ids.pop()
        return ids[-1]

    def clean(self, is_member: Callable[[StreamID], bool]) -> None:
        """Drop the IDs that have left."""
        self.ids = list(filter(is_member, self._sorted()))
        self._start = 0
