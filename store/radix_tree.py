"""The number of nodes of the radix tree in which Redis keeps the nodes of a stream, by first ID (XINFO STREAM).

Keys are IDs of 16 bytes. Two neighbours part at a depth: the number of bytes that they share. The tree has a branch
wherever neighbours part, and one node for each run of bytes above, between or below branches, however long the run is.
A key that comes or goes changes only the branch at which it parts from its nearest neighbour, and what is next to that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from .ids import SEQ_BITS, StreamID

if TYPE_CHECKING:
    from .id_list import IDList

# Bytes of an ID as a key.
KEY_SIZE: Final = 16

# Below this depth, a key has no bytes left for a node of its own.
DEPTH_MAX: Final = KEY_SIZE - 1

# The depth at which the first key parts from the key before it, and the last key from the one after it.
OUTSIDE: Final = -1

# Bytes of a tree without its lists of keys, and of a key without its place in a list.
TREE_SIZE: Final = 352
NUMBER_SIZE: Final = 48


def shared_size(low: StreamID, high: StreamID) -> int:
    """Bytes with which both keys begin. The keys differ."""
    difference = low ^ high
    ms = difference >> SEQ_BITS
    bits = ms.bit_length() + 64 if ms else difference.bit_length()
    return KEY_SIZE - (bits + 7) // 8


class RadixTree:
    """The tree of the first keys of a sorted list, which its owner passes to every call."""

    __slots__ = ("_last_depth", "_parted", "_path", "count", "length")

    def __init__(self) -> None:
        # Keys of the list that are counted.
        self.length = 0
        # Nodes of their tree.
        self.count = 1
        # By depth: the keys that part there from the key before them, sorted.
        self._parted: list[list[StreamID]] = [[] for _ in range(KEY_SIZE)]
        # Depth at which the last key parts from the key before it.
        self._last_depth = OUTSIDE
        # Depths of the branches above the last key, top first.
        self._path: list[int] = []

    @property
    def memory_size(self) -> int:
        """Bytes of the lists and of the keys in them, each of which is in one."""
        return TREE_SIZE + sum(map(getsizeof, self._parted)) + max(self.length - 1, 0) * NUMBER_SIZE

    def extend(self, keys: IDList) -> None:
        """Count the keys that were appended since the last time."""
        if not self.length and keys:
            self.length = 1
        for index in range(self.length, len(keys)):
            self._append(keys[index - 1], keys[index])
        self.length = len(keys)

    def _append(self, last: StreamID, key: StreamID) -> None:
        depth, path, lowest = shared_size(last, key), self._path, OUTSIDE
        self.count += has_run(depth) + has_run(max(depth, self._last_depth)) - has_run(self._last_depth)
        while path and path[-1] > depth:
            lowest = path.pop()
        above = path[-1] if path else OUTSIDE
        if above != depth:
            self.count += 1 + (depth > above + 1)
            if lowest != OUTSIDE:
                self.count += (lowest > depth + 1) - (lowest > above + 1)
            path.append(depth)
        self._parted[depth].append(key)
        self._last_depth = depth

    def remove(self, keys: IDList, index: int, count: int) -> None:
        """Remove counted keys that follow each other; they are still in the list."""
        end = self.length
        left = self._depth(keys, index - 1, end)
        for at in range(index, index + count):
            left_key = keys[index - 1] if index else None
            self._remove(left, left_key, keys, at, end)
        if index + count == end:
            self._last_depth = left
        self.length -= count
        self._path = self._path_above_last()

    def _remove(self, left: int, left_key: StreamID | None, keys: IDList, at: int, end: int) -> None:
        """Remove the key at `at`. `left`: the depth at which its left neighbour parts from the key before that."""
        key, parted = keys[at], self._parted
        before = OUTSIDE if left_key is None else shared_size(left_key, key)
        after = self._depth(keys, at + 1, end)
        depth, rest = max(before, after), min(before, after)
        self.count -= has_run(depth)
        if left_key is not None:
            self.count += has_run(max(left, rest)) - has_run(max(left, before))
        if after != OUTSIDE:
            right = self._depth(keys, at + 2, end)
            self.count += has_run(max(rest, right)) - has_run(max(after, right))
        if before != after:
            is_right = after > before
            self._shrink_branch(depth, rest, keys[at + 1] if is_right else key, is_right=is_right)
        elif depth == OUTSIDE:
            self.count = 1
        if before != OUTSIDE:
            del parted[before][bisect_left(parted[before], key)]
        if before < after:
            next_key = keys[at + 1]
            del parted[after][bisect_left(parted[after], next_key)]
            if before != OUTSIDE:
                parted[before].insert(bisect_left(parted[before], next_key), next_key)

    def _shrink_branch(self, depth: int, above: int, key: StreamID, *, is_right: bool) -> None:
        """A branch at `depth` loses the child at its edge, which parts from the others at `key`.

        The others are right or left of that. `above`: the depth of the next branch on the other side.
        """
        nearest, nearest_depth = self._nearest(range(depth + 1), key, is_right=is_right)
        if nearest_depth == depth:
            return  # it has other children
        above = max(above, nearest_depth)
        self.count -= 1 + (depth > above + 1)
        for lowest in range(depth + 1, KEY_SIZE):
            border, _ = self._nearest(range(lowest, lowest + 1), key, is_right=is_right)
            if border is not None and (nearest is None or (border < nearest if is_right else border > nearest)):
                self.count += (lowest > above + 1) - (lowest > depth + 1)
                return

    def _nearest(self, depths: range, key: StreamID, *, is_right: bool) -> tuple[StreamID | None, int]:
        """Return the key next to `key` that parts from the one before it at one of the depths, and the depth."""
        nearest, nearest_depth = None, OUTSIDE
        for depth in depths:
            parted = self._parted[depth]
            at = bisect_right(parted, key) if is_right else bisect_left(parted, key) - 1
            if 0 <= at < len(parted) and (
                nearest is None or (parted[at] < nearest if is_right else parted[at] > nearest)
            ):
                nearest, nearest_depth = parted[at], depth
        return nearest, nearest_depth

    def _path_above_last(self) -> list[int]:
        path: list[int] = []
        highest = -1
        for depth, parted in enumerate(self._parted):
            if parted and parted[-1] > highest:
                highest = parted[-1]
                path.append(depth)
        return path

    @staticmethod
    def _depth(keys: IDList, index: int, end: int) -> int:
        """The depth at which the key at `index` parts from the key before it."""
        return shared_size(keys[index - 1], keys[index]) if 0 < index < end else OUTSIDE


def has_run(depth: int) -> bool:
    """Whether a key that parts from its neighbours at this depth or above has a node for its last bytes."""
    return depth < DEPTH_MAX
