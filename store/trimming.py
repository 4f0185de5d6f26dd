"""Trimming: XTRIM, and the MAXLEN and MINID options of XADD.

What `~`, LIMIT and ACKED remove depends on Redis' nodes (see nodes.py), so trimming proceeds node by node.
"""

from __future__ import annotations

from typing import Final

from .ids import ID_MAX, StreamID
from .nodes import Node
from .stream import References, Stream

DEFAULT_LIMIT_MAX: Final = 1_000_000


class Trim:
    """The parameters of a trim. Exactly one of `length_max` (MAXLEN) and `id_min` (MINID) is set."""

    __slots__ = ("approximate", "id_min", "length_max", "limit", "references")

    def __init__(
        self,
        length_max: int | None = None,
        id_min: StreamID | None = None,
        approximate: bool = False,
        limit: int = 0,
        references: References = References.KEEP,
    ) -> None:
        self.length_max = length_max
        self.id_min = id_min
        # `~`: remove whole nodes only.
        self.approximate = approximate
        # Entries to remove at most; 0 means no limit.
        self.limit = limit
        self.references = references


def default_limit(node_entries_max: int) -> int:
    """The LIMIT that `~` implies."""
    return min(100 * node_entries_max, DEFAULT_LIMIT_MAX) if node_entries_max else 10_000


def trim(stream: Stream, request: Trim) -> tuple[int, StreamID]:
    """Remove entries from the head. Returns how many and, for DELREF and ACKED, the largest ID among them.

    Every unreferenced entry up to that ID is removed. So a replay of `XTRIM MINID = <its successor> ACKED` has the same
    effect, whatever the nodes are then.
    """
    if request.length_max is not None:
        if len(stream) <= request.length_max or _keeps_first_node(stream, request, request.length_max):
            return 0, 0
    elif request.id_min is not None and stream.log.first_id >= request.id_min:
        return 0, 0
    stream.settle_nodes()
    if request.references is References.ACKED:
        return _trim_acked(stream, request)
    return _trim_head(stream, request, drops_references=request.references is References.DELETE)


def _keeps_first_node(stream: Stream, request: Trim, length_max: int) -> bool:
    """Whether `~` keeps even the first node. Decided without settling the ledger (benchmark row XADD MAXLEN ~).

    A node that is not the last has all its entries: those not counted yet follow it.
    """
    nodes = stream.nodes.nodes
    is_by_node = request.approximate and request.references is References.KEEP
    return is_by_node and len(nodes) > 1 and len(stream) - nodes[0].live < length_max


def _is_whole(stream: Stream, node: Node, removed: int, request: Trim) -> bool:
    """Whether all of the node is below the threshold. `removed` entries are counted as removed already."""
    if request.length_max is not None:
        return len(stream) - removed - node.live >= request.length_max
    assert request.id_min is not None
    return node.last_id < request.id_min


def _trim_head(stream: Stream, request: Trim, *, drops_references: bool) -> tuple[int, StreamID]:
    """Trim with KEEPREF or DELREF: the smallest entries are removed. DELREF is exact even with `~`."""
    removed = whole_count = partial_count = 0
    for node in stream.nodes.nodes:
        if request.length_max is not None and len(stream) - removed <= request.length_max:
            break
        if request.limit and removed + node.live > request.limit:
            break
        if _is_whole(stream, node, removed, request):
            removed += node.live
            whole_count += 1
            continue
        if drops_references or not request.approximate:
            partial_count = _excess_in(stream, node, removed, request)
            removed += partial_count
        break
    if not removed:
        return 0, 0
    last_id = 0
    if drops_references:
        last_id = stream.log.id_at(removed - 1)
        stream.drop_references_between(stream.log.first_id, last_id, removed)
    stream.nodes.forget_head(whole_count, partial_count)
    stream.trim_head(removed)
    return removed, last_id


def _excess_in(stream: Stream, node: Node, removed: int, request: Trim) -> int:
    """Number of entries that an exact trim removes from the first node that it does not remove as a whole."""
    if request.length_max is not None:
        return len(stream) - removed - request.length_max
    assert request.id_min is not None
    return stream.log.count_between(node.first_id, request.id_min - 1) if request.id_min else 0


def _trim_acked(stream: Stream, request: Trim) -> tuple[int, StreamID]:
    """Trim with ACKED: entry by entry, exact even with `~`, and not beyond the first node that is partly above the
    threshold."""
    delivered_id = min([group.last_id for group in stream.groups.values()], default=ID_MAX)
    removed, last_id = _trim_acked_head(stream, request, delivered_id)
    for node in list(stream.nodes.nodes):
        if request.length_max is not None and len(stream) <= request.length_max:
            break
        if request.limit and removed + node.live > request.limit:
            break
        whole = _is_whole(stream, node, 0, request)
        if node.first_id <= delivered_id:
            holders = stream.pending_between(node.first_id, node.last_id)
            for entry_id in stream.log.ids(node.first_id, min(node.last_id, delivered_id)):
                if request.length_max is not None and len(stream) <= request.length_max:
                    break
                if request.id_min is not None and entry_id >= request.id_min:
                    break
                if holders and any(entry_id in pending for pending in holders):
                    continue
                stream.remove(entry_id, keep_node=True)
                removed, last_id = removed + 1, entry_id
        if not whole:
            break
        index = stream.nodes.index_of(node.first_id)
        if not stream.nodes.nodes[index].live:
            stream.nodes.drop(index, 1)
    return removed, last_id


def _trim_acked_head(stream: Stream, request: Trim, delivered_id: StreamID) -> tuple[int, StreamID]:
    """Remove the first whole nodes in one step, if no group has one of their entries pending and all were delivered to
    every group."""
    pending_id = min([group.pending.first_id() for group in stream.groups.values() if len(group.pending)], default=None)
    removed = whole_count = 0
    for node in stream.nodes.nodes:
        if request.length_max is not None and len(stream) - removed <= request.length_max:
            break
        if request.limit and removed + node.live > request.limit:
            break
        if node.last_id > delivered_id or (pending_id is not None and node.last_id >= pending_id):
            break
        if not _is_whole(stream, node, removed, request):
            break
        removed += node.live
        whole_count += 1
    last_id = stream.log.id_at(removed - 1) if removed else 0
    stream.nodes.forget_head(whole_count, 0)
    stream.trim_head(removed)
    return removed, last_id


def first_physical_id(stream: Stream) -> StreamID:
    """ID of the first entry still in a node, deleted ones included; the largest ID if there is no node.

    Redis writes this ID to its log, as `MINID ~`.
    """
    if not stream.nodes.nodes:
        stream.settle_nodes()
    return stream.nodes.nodes[0].first_id if stream.nodes.nodes else ID_MAX
