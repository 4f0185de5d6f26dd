"""Redis' radix-tree nodes, as far as clients can see them.

Redis keeps entries in listpack nodes and `~` trimming removes whole nodes only, so where one node ends and the next
begins is visible behaviour (XTRIM ~, XADD ~, XINFO radix-tree-keys). Headrace stores entries otherwise (chunk.py), and
computes the boundaries of those nodes a chunk at a time: if the counting is compiled, when a chunk is full, which costs
less than 0.2 us per entry; otherwise only when a command needs them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from .class_marks import mypyc_attr
from .ids import ID_MAX, SEQ_BITS, SEQ_MASK, StreamID, id_after, make_id
from .limits import Limits
from .log import EntryLog
from .node_sizes import OpenNode, integer_size
from .radix_tree import RadixTree

try:
    from .id_list import IDList
    from .node_counts import IS_COMPILED, count_run
except ImportError:  # there was no C compiler at installation
    from .id_list_plain import IDList  # type: ignore[assignment]
    from .node_counts_plain import IS_COMPILED, count_run

__all__ = ["IS_COMPILED", "NODE_SIZE_UNLIMITED", "IDList", "Node", "NodeLedger"]

# When a larger part of the nodes than one in this number is removed at once, the tree is counted anew.
RECOUNT_SHARE: Final = 8

# Numbers up to this take two bytes in a listpack, the fewest.
SMALL_MAX: Final = 127

# The limit for `stream-node-max-bytes 0`, and for any number above this.
NODE_SIZE_UNLIMITED: Final = 2**30


@mypyc_attr(acyclic=True)
class Node:
    """One node: IDs of its first and last entry, deleted ones included, live and total entries, and its listpack size
    in bytes. Another node replaces it when it changes, so that copies of a ledger share their nodes.

    It is no dataclass, because making a compiled one takes a microsecond (benchmark row XADD of 1 KiB).
    """

    __slots__ = ("field_names", "first_id", "last_id", "live", "size", "total")

    def __init__(
        self, first_id: StreamID, last_id: StreamID, live: int, total: int, size: int, field_names: list[bytes]
    ) -> None:
        self.first_id: Final = first_id
        self.last_id: Final = last_id
        self.live: Final = live
        self.total: Final = total
        self.size: Final = size
        self.field_names: Final = field_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.first_id)

    @property
    def shape(self) -> tuple[StreamID, StreamID, int, int, int, tuple[bytes, ...]]:
        """All that a node is."""
        return self.first_id, self.last_id, self.live, self.total, self.size, tuple(self.field_names)

    def __repr__(self) -> str:
        return f"Node{self.shape}"


@mypyc_attr(acyclic=True)
class NodeLedger:
    """The nodes of one stream, settled up to `settled_id`; entries above it have not been counted yet."""

    __slots__ = ("_tree", "first_ids", "nodes", "settled_id")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.first_ids = IDList()
        self.settled_id: StreamID = 0
        # Kept from the first time on that its size is asked for.
        self._tree: RadixTree | None = None

    def add(self, node: Node) -> None:
        """Add a node that was read, whose entries follow those of all others."""
        self.nodes.append(node)
        self.first_ids.append(node.first_id)

    def settle(self, log: EntryLog, limits: Limits, is_over: Callable[[], bool] = lambda: False) -> None:
        """Count the entries added since the last time. Must run before anything is deleted and before limits change.

        `is_over` is called after each run of entries; once it returns true, the rest is left to the next call.
        """
        if log.last_id <= self.settled_id:
            return
        for ms, seq, data in log.runs(id_after(self.settled_id), ID_MAX):
            self._add_run(ms, seq, data, limits)
            self.settled_id = make_id(ms[-1], seq[-1])
            if is_over():
                return
        self.settled_id = log.last_id

    def _add_run(self, ms: array[int], seq: array[int], data: bytes, limits: Limits) -> None:
        """Count entries that follow each other."""
        size_max = min(limits.node_size_max or NODE_SIZE_UNLIMITED, NODE_SIZE_UNLIMITED)
        entries_max = limits.node_entries_max
        last = self.nodes[-1] if self.nodes else None
        filled: OpenNode | None = None
        if last is not None:
            first_id = last.first_id
            filled = (first_id >> SEQ_BITS, first_id & SEQ_MASK, last.live, last.total, last.size, last.field_names)
        (count, size), opened = count_run(data, ms, seq, size_max, entries_max, filled)
        if last is not None and count:
            end_id = make_id(ms[count - 1], seq[count - 1])
            self.nodes[-1] = Node(last.first_id, end_id, last.live + count, last.total + count, size, last.field_names)
        for row, count, size, names in opened:
            first_id, end = make_id(ms[row], seq[row]), row + count - 1
            self.nodes.append(Node(first_id, make_id(ms[end], seq[end]), count, count, size, names))
            self.first_ids.append(first_id)

    def index_of(self, entry_id: StreamID) -> int:
        """Index of the node that holds the ID."""
        return self.first_ids.index_of(entry_id)

    def forget(self, entry_id: StreamID, *, keep_node: bool) -> None:
        """Count one entry as deleted. It stays in its node. A node without live entries is removed unless `keep_node`
        is set."""
        index = self.index_of(entry_id)
        live = self.nodes[index].live - 1
        if live or keep_node:
            self._recount(index, live)
        else:
            self.drop(index, 1)

    def forget_head(self, whole_count: int, partial_count: int) -> None:
        """Remove the first `whole_count` nodes, and count `partial_count` live entries of the next one as deleted."""
        self.drop(0, whole_count)
        if partial_count:
            self._recount(0, self.nodes[0].live - partial_count)

    def drop(self, index: int, count: int) -> None:
        """Remove whole nodes."""
        tree = self._tree
        if tree is not None:
            counted = min(index + count, tree.length) - index
            if counted * RECOUNT_SHARE > tree.length:
                self._tree = None
            elif counted > 0:
                tree.remove(self.first_ids, index, counted)
        del self.nodes[index : index + count]
        self.first_ids.remove(index, count)

    def _recount(self, index: int, live: int) -> None:
        """Set the number of live entries of a node. The size changes with its counters."""
        node = self.nodes[index]
        growth = 0
        if node.total > SMALL_MAX:
            growth = integer_size(live) - integer_size(node.live)
            growth += integer_size(node.total - live) - integer_size(node.total - node.live)
        self.nodes[index] = Node(node.first_id, node.last_id, live, node.total, node.size + growth, node.field_names)

    def copy(self) -> NodeLedger:
        """An independent ledger with the same nodes."""
        twin = NodeLedger()
        twin.nodes, twin.first_ids = list(self.nodes), self.first_ids.copy()
        twin.settled_id = self.settled_id
        return twin

    @property
    def tree_size(self) -> int:
        """Bytes of the radix tree; 0 as long as its size was not asked for."""
        return 0 if self._tree is None else self._tree.memory_size

    @property
    def radix_nodes_count(self) -> int:
        """Nodes of the radix tree in which Redis would keep these nodes by first ID (XINFO STREAM). The first call
        counts all of them, later ones those that were opened since.
        """
        if self._tree is None:
            self._tree = RadixTree()
        self._tree.extend(self.first_ids)
        return self._tree.count
