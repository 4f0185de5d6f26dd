"""The entries of a stream as Redis' nodes: one listpack for some hundred entries (see `node_codec_plain`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ...store.chunk import Body
from ...store.log import EntryLog
from ...store.nodes import Node, NodeLedger
from ..errors import RdbError

try:
    from .node_codec import NodeDecoder, NodeEncoder, encode_short, encode_short_value, read_short, read_short_value
except ImportError:  # there was no C compiler at installation
    from .node_codec_plain import (  # type: ignore[assignment]
        NodeDecoder,
        NodeEncoder,
        encode_short,
        encode_short_value,
        read_short,
        read_short_value,
    )


__all__ = [
    "NodeDecoder",
    "NodeEncoder",
    "NodeReader",
    "encode_nodes",
    "encode_short",
    "encode_short_value",
    "read_short",
    "read_short_value",
]


def encode_nodes(nodes: list[Node], log: EntryLog, *, compress: bool) -> Iterator[bytes]:
    """Yield the nodes that have live entries, as ID and listpack; their deleted entries are left out. A piece has the
    nodes that end in one chunk, often a hundredth of a megabyte."""
    encoder = NodeEncoder([node for node in nodes if node.live], compress)
    for body, spans in log.all_bodies():
        for low, high in spans:
            yield encoder.add(*body.columns(low, high), body.slice(low, high))
    encoder.finish()


class NodeReader:
    """Adds nodes, in order, to the entry log and the ledger of a stream that is being read."""

    def __init__(self, log: EntryLog, ledger: NodeLedger) -> None:
        self._log = log
        self._ledger = ledger
        self._decoder = NodeDecoder(self._append)

    def add(self, key: bytes, packed: bytes) -> None:
        """Add one node. Raises RdbError."""
        ledger = self._ledger
        node = self._decoder.add(key, packed)
        if ledger.first_ids and node.first_id <= ledger.first_ids[-1]:
            raise RdbError("Stream listpack re-added with existing key, or out of order")
        ledger.add(node)

    def finish(self) -> None:
        """Complete the entry log. Call this after the last node."""
        self._decoder.flush()
        self._ledger.settled_id = self._log.last_id

    def _append(self, data: bytes, ms: array[int], seq: array[int], ends: array[int]) -> None:
        self._log.append_run(Body.of_columns(data, ms, seq, ends))
