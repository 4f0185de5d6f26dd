"""Redis' radix-tree nodes, as far as clients can see them.

Redis keeps entries in listpack nodes and `~` trimming removes whole nodes only, so where one node ends and the next
begins is visible behaviour (XTRIM ~, XADD ~, XINFO radix-tree-keys). Headrace stores entries otherwise (chunk.py), and
computes the boundaries of those nodes only when somebody asks: plain XADD pays nothing for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hiredis import Reader

from .ids import ID_MAX, SEQ_BITS, SEQ_MASK, U64_MAX, StreamID, id_after
from .log import EntryLog

ID_SIZE: Final = 16
"""Bytes of an ID as a key of the radix tree."""

SMALL_MAX: Final = 127
"""Integers up to here take two bytes in a listpack."""

SHORT_MAX: Final = 63
"""Strings up to this length have a header of one byte."""

NODE_SIZE_UNLIMITED: Final = 2**30
"""What `stream-node-max-bytes 0` means."""


@dataclass(slots=True)
class StreamLimits:
    """The four stream directives, shared by all streams of a server."""

    node_size_max: int = 4096
    node_entries_max: int = 100
    idmp_duration_s: int = 100
    idmp_entries_max: int = 100


@dataclass(slots=True)
class Node:
    """One node: IDs of its first and last entry ever, live and total entries, and its listpack size in bytes."""

    first_id: StreamID
    last_id: StreamID
    live: int
    total: int
    size: int
    field_names: list[bytes]


def integer_size(number: int) -> int:
    """Bytes of an integer in a listpack, its back-length included."""
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    if -(2**15) <= number < 2**15:
        return 4
    if -(2**23) <= number < 2**23:
        return 5
    if -(2**31) <= number < 2**31:
        return 6
    return 10


def string_size(text: bytes) -> int:
    """Bytes of a string in a listpack, its back-length included; canonical int64 decimals are stored as integers."""
    length = len(text)
    if length <= 20 and text[-1:].isdigit():
        digits = text[1:] if text[:1] == b"-" else text
        if digits.isdigit() and (digits[:1] != b"0" or text == b"0"):
            number = int(text)
            if -(2**63) <= number < 2**63:
                return integer_size(number)
    if length <= 63:
        return length + 2
    if length <= 4095:
        return length + (3 if length + 2 <= 127 else 4)
    return length + (7 if length + 5 < 16383 else 8)


def signed_difference(number: int, base: int) -> int:
    """`number - base` of unsigned 64-bit numbers, as the signed 64-bit number it wraps to."""
    difference = (number - base) & U64_MAX
    return difference - 2**64 if difference >= 2**63 else difference


class NodeLedger:
    """The nodes of one stream, settled up to `settled_id`; entries above it have not been counted yet."""

    __slots__ = ("first_ids", "nodes", "settled_id")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.first_ids: list[StreamID] = []
        self.settled_id: StreamID = 0

    def settle(self, log: EntryLog, limits: StreamLimits, is_over: Callable[[], bool] = lambda: False) -> None:
        """Count the entries added since the last time. Must run before anything is deleted and before limits change.

        `is_over` is asked after each run of entries; once it is, the rest is counted another time.
        """
        if log.last_id <= self.settled_id:
            return
        reader = Reader()
        for ids, data in log.runs(id_after(self.settled_id), ID_MAX):
            reader.feed(b"*%d\r\n%b" % (len(ids), data))
            self._add_run(ids, reader.gets(), limits)
            self.settled_id = ids[-1]
            if is_over():
                return
        self.settled_id = log.last_id

    def _add_run(self, ids: list[StreamID], entries: list[list[list[bytes]]], limits: StreamLimits) -> None:
        """Count entries that follow each other. Hot: the first XTRIM or XINFO after a million of plain XADD waits for
        it, so the usual small numbers and short strings are sized in place."""
        size_max, entries_max = limits.node_size_max or NODE_SIZE_UNLIMITED, limits.node_entries_max
        node = self.nodes[-1] if self.nodes else None
        first_ms, first_seq = (node.first_id >> SEQ_BITS, node.first_id & SEQ_MASK) if node is not None else (0, 0)
        for entry_id, (_, pairs) in zip(ids, entries, strict=True):
            if (
                node is None
                or node.size + sum(map(len, pairs)) >= size_max
                or (entries_max and node.total >= entries_max)
            ):
                node = self._open_node(entry_id, pairs[::2], node)
                first_ms, first_seq = entry_id >> SEQ_BITS, entry_id & SEQ_MASK
            size = node.size
            if node.live >= SMALL_MAX:  # below, the counter of live entries keeps its size
                size += integer_size(node.live + 1) - integer_size(node.live)
            ms, seq = entry_id >> SEQ_BITS, entry_id & SEQ_MASK
            size += 2 if 0 <= ms - first_ms <= SMALL_MAX else integer_size(signed_difference(ms, first_ms))
            size += 2 if 0 <= seq - first_seq <= SMALL_MAX else integer_size(signed_difference(seq, first_seq))
            if pairs[::2] == node.field_names:
                texts = pairs[1::2]
                size += 2 + integer_size(len(texts) + 3)
            else:
                texts = pairs
                size += 2 + integer_size(len(texts) // 2) + integer_size(len(texts) + 4)
            for text in texts:
                length = len(text)
                size += length + 2 if length <= SHORT_MAX and not text[-1:].isdigit() else string_size(text)
            node.size = size
            node.live += 1
            node.total += 1
            node.last_id = entry_id

    def _open_node(self, entry_id: StreamID, names: list[bytes], before: Node | None) -> Node:
        if before is not None and names == before.field_names:
            names = before.field_names  # one list for all nodes of a kind
        size = 7 + 2 + 2 + integer_size(len(names)) + sum(map(string_size, names)) + 2
        node = Node(entry_id, entry_id, 0, 0, size, names)
        self.nodes.append(node)
        self.first_ids.append(entry_id)
        return node

    def index_of(self, entry_id: StreamID) -> int:
        """Index of the node that holds the ID."""
        return bisect_right(self.first_ids, entry_id) - 1

    def forget(self, entry_id: StreamID, *, keep_node: bool) -> None:
        """One entry was deleted: it stays in its node, and the node goes with its last live one, if not to be kept."""
        index = self.index_of(entry_id)
        node = self.nodes[index]
        self._resize_counters(node, node.live - 1)
        if not node.live and not keep_node:
            self.drop(index, 1)

    def forget_head(self, whole_count: int, partial_count: int) -> None:
        """The first `whole_count` nodes are gone, and `partial_count` live entries of the next one, which stays."""
        self.drop(0, whole_count)
        if partial_count:
            self._resize_counters(self.nodes[0], self.nodes[0].live - partial_count)

    def drop(self, index: int, count: int) -> None:
        """Remove whole nodes."""
        del self.nodes[index : index + count], self.first_ids[index : index + count]

    @staticmethod
    def _resize_counters(node: Node, live: int) -> None:
        before = integer_size(node.live) + integer_size(node.total - node.live)
        node.live = live
        node.size += integer_size(live) + integer_size(node.total - live) - before

    def copy(self) -> NodeLedger:
        """An independent ledger with the same nodes."""
        twin = NodeLedger()
        twin.nodes = [Node(n.first_id, n.last_id, n.live, n.total, n.size, n.field_names) for n in self.nodes]
        twin.first_ids = list(self.first_ids)
        twin.settled_id = self.settled_id
        return twin

    @property
    def radix_nodes_count(self) -> int:
        """Nodes of the radix tree in which Redis would keep these nodes by first ID (XINFO STREAM).

        Keys are IDs of 16 bytes. The tree has a branch wherever two neighbours part, and one node for each run of bytes
        above, between or below branches, however long the run is. O(n) in the number of stream nodes.
        """
        keys = self.first_ids
        if not keys:
            return 1
        # Bytes that each key shares with the next one.
        shared = [ID_SIZE - ((low ^ high).bit_length() + 7) // 8 for low, high in pairwise(keys)]
        count = sum(max(pair) < ID_SIZE - 1 for pair in pairwise((-1, *shared, -1)))
        path: list[int] = []  # depths of the branches above the present key, top first
        for depth in (*shared, -1):
            while path and path[-1] > depth:
                bottom = path.pop()
                above = max(path[-1] if path else -1, depth)
                count += bottom > above + 1
            if depth >= 0 and (not path or path[-1] < depth):
                path.append(depth)
                count += 1
        return count
