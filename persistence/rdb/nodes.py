"""The entries of a stream as Redis' nodes: one listpack for some hundred entries (see `node_codec_plain`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from ...store.chunk import Body
from ...store.log import EntryLog
from ...store.nodes import Node, NodeLedger
from .lengths import read_string
from .source import Source

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

# Nodes that are decoded at once: half a millisecond.
NODES_AT_ONCE: Final = 64


def encode_nodes(nodes: list[Node], log: EntryLog, *, compress: bool) -> Iterator[bytes]:
    """Yield the nodes that have live entries, as ID and listpack; their deleted entries are left out. A piece has the
    nodes that end in one chunk, often a hundredth of a megabyte."""
    encoder = NodeEncoder([node for node in nodes if node.live], compress)
    for content, spans in log.all_contents():
        for low, high in spans:
            if isinstance(content, tuple):
                yield encoder.add_values(*content, low, high)
            else:
                yield encoder.add(*content.columns(low, high), content.slice(low, high))
    encoder.finish()


class NodeReader:
    """Adds nodes, in order, to the entry log and the ledger of a stream that is being read."""

    def __init__(self, log: EntryLog, ledger: NodeLedger) -> None:
        self._log = log
        self._ledger = ledger
        self._decoder = NodeDecoder(self._append, self._append_values)

    def read(self, source: Source, count: int) -> None:
        """Read so many nodes. Raises RdbError."""
        left = count
        while left:
            nodes, position = self._decoder.add_ahead(*source.ahead(), min(left, NODES_AT_ONCE))
            source.skip_ahead(position)
            if not nodes:  # the next one may continue in the next block
                key = read_string(source)
                nodes = [self._decoder.add(key, read_string(source))]
            for node in nodes:
                self._ledger.add(node)
            left -= len(nodes)

    def finish(self) -> None:
        """Complete the entry log. Call this after the last node."""
        self._decoder.flush()
        self._ledger.settled_id = self._log.last_id

    def _append(self, data: bytes, ms: array[int], seq: array[int], ends: array[int]) -> None:
        self._log.append_run(Body.of_columns(data, ms, seq, ends))

    def _append_values(
        self, ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int]
    ) -> None:
        self._log.append_values((ms, seq, names, texts, ends))
