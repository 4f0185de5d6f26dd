"""Trimming: XTRIM, and the MAXLEN and MINID options of XADD.

The order of Redis' nodes decides what `~`, LIMIT and ACKED remove (see nodes.py), so the walk goes node by node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .ids import ID_MAX, StreamID
from .nodes import Node
from .stream import References, Stream

DEFAULT_LIMIT_MAX: Final = 1_000_000


@dataclass(slots=True)
class Trim:
    """What to trim to. Exactly one of `length_max` (MAXLEN) and `id_min` (MINID) is set."""

    length_max: int | None = None
    id_min: StreamID | None = None
    approximate: bool = False
    """`~`: remove whole nodes only."""
    limit: int = 0
    """Entries to remove at most; 0 means no limit."""
    references: References = References.KEEP


def default_limit(node_entries_max: int) -> int:
    """The LIMIT that `~` implies."""
    return min(100 * node_entries_max, DEFAULT_LIMIT_MAX) if node_entries_max else 10_000


def trim(stream: Stream, request: Trim) -> tuple[int, StreamID]:
    """Remove entries from the head. Answers how many, and (DELREF and ACKED) the largest ID among them.

    Every unreferenced entry up to that ID is gone, so `XTRIM MINID = <its successor> ACKED` repeats the effect
    whatever the nodes of the one who replays it.
    """
    if request.length_max is not None and (
        len(stream) <= request.length_max or _keeps_first_node(stream, request, request.length_max)
    ):
        return 0, 0
    stream.settle_nodes()
    if request.references is References.ACKED:
        removed = _trim_acked(stream, request)
        return len(removed), removed[-1] if removed else 0
    return _trim_head(stream, request, drops_references=request.references is References.DELETE)


def _keeps_first_node(stream: Stream, request: Trim, length_max: int) -> bool:
    """Whether `~` leaves even the first node, told without settling (benchmark row XADD MAXLEN ~).

    A node that another one follows has all its entries: those not counted yet come behind it.
    """
    nodes = stream.nodes.nodes
    is_by_node = request.approximate and request.references is References.KEEP
    return is_by_node and len(nodes) > 1 and len(stream) - nodes[0].live < length_max


def _is_whole(stream: Stream, node: Node, removed: int, request: Trim) -> bool:
    """Whether the whole node lies below the threshold; `removed` entries count as gone already."""
    if request.length_max is not None:
        return len(stream) - removed - node.live >= request.length_max
    assert request.id_min is not None
    return node.last_id < request.id_min


def _trim_head(stream: Stream, request: Trim, *, drops_references: bool) -> tuple[int, StreamID]:
    """KEEPREF and DELREF: the removed entries are exactly the smallest ones. DELREF is exact even with `~`."""
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
    stream.log.trim_head(removed)
    return removed, last_id


def _excess_in(stream: Stream, node: Node, removed: int, request: Trim) -> int:
    """How many entries of the first node that is not whole go in an exact trim."""
    if request.length_max is not None:
        return len(stream) - removed - request.length_max
    assert request.id_min is not None
    return stream.log.count_between(node.first_id, request.id_min - 1) if request.id_min else 0


def _trim_acked(stream: Stream, request: Trim) -> list[StreamID]:
    """ACKED: entry by entry, exact even with `~`, and never beyond the first node that is not whole."""
    removed: list[StreamID] = []
    for node in list(stream.nodes.nodes):
        if request.length_max is not None and len(stream) <= request.length_max:
            break
        if request.limit and len(removed) + node.live > request.limit:
            break
        whole = _is_whole(stream, node, 0, request)
        for entry_id in stream.log.ids(node.first_id, node.last_id):
            if request.length_max is not None and len(stream) <= request.length_max:
                break
            if request.id_min is not None and entry_id >= request.id_min:
                break
            if stream.is_referenced(entry_id):
                continue
            stream.remove(entry_id, keep_node=True)
            removed.append(entry_id)
        if not whole:
            break
        if not node.live:
            stream.nodes.drop(stream.nodes.index_of(node.first_id), 1)
    return removed


def first_physical_id(stream: Stream) -> StreamID:
    """ID of the first entry still in a node, deleted ones included; the largest ID if there is no node.

    Redis logs `MINID ~` with it.
    """
    stream.settle_nodes()
    return stream.nodes.nodes[0].first_id if stream.nodes.nodes else ID_MAX
