"""Encodes the entries of a stream as Redis' nodes: one listpack for some hundred entries.

    node:  live | deleted | names count | name ... | 0          the names of the fields of the first entry
    entry: flags | ms | seq | pairs count | name | value ... | elements count
    entry: flags | ms | seq | value ... | elements count        with SAME_FIELDS: the names of the node

IDs are stored as differences to the node's ID, that of its first entry, which may be deleted. Deleted entries are
marked; they are skipped when read, and not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from struct import Struct
from typing import Final

from hiredis import Reader

from ...protocol.packing import pack_command
from ...store.ids import SEQ_BITS, SEQ_MASK, U64_MAX, StreamID, format_id, make_id
from ...store.log import EntryLog
from ...store.node_sizes import signed_difference
from ...store.nodes import Node, NodeLedger, StreamLimits
from ..errors import RdbError
from . import listpack
from .listpack import Element, encode_integer
from .primitives import encode_texts

DELETED: Final = 1
SAME_FIELDS: Final = 2
_ID: Final = Struct(">QQ")
ID_SIZE: Final = _ID.size


def encode_id(entry_id: StreamID) -> bytes:
    """An ID in 16 bytes, high part first: the key of a node, an entry of a PEL."""
    return _ID.pack(entry_id >> SEQ_BITS, entry_id & SEQ_MASK)


def decode_id(data: bytes) -> StreamID:
    """Decode an ID of 16 bytes, the inverse of `encode_id`."""
    return make_id(*_ID.unpack(data))


def settle_by_parts(ledger: NodeLedger, log: EntryLog, limits: StreamLimits) -> Iterator[None]:
    """Compute the nodes of an entry log that does not change, a chunk's entries at a time."""
    for entries in log.all_entries():
        if entries[-1][0] > ledger.settled_id:
            part = EntryLog()
            for entry_id, entry in entries:
                part.append(entry_id, entry)
            ledger.settle(part, limits)
            yield


def encode_nodes(nodes: Iterable[Node], log: EntryLog) -> Iterator[tuple[StreamID, bytes]]:
    """ID and listpack of each node that has live entries; their deleted ones are left out."""
    entries = chain.from_iterable(log.all_entries())
    for node in nodes:
        if node.live:
            yield node.first_id, _encode_node(node, islice(entries, node.live))


def _encode_node(node: Node, entries: Iterable[tuple[StreamID, bytes]]) -> bytes:
    names, master_ms, master_seq = node.field_names, node.first_id >> SEQ_BITS, node.first_id & SEQ_MASK
    pieces = [encode_integer(number) for number in (node.live, 0, len(names))]
    pieces += (encode_texts(names), encode_integer(0))
    count = 4 + len(names)
    reader = Reader()
    for entry_id, entry in entries:
        reader.feed(entry)
        pairs = reader.gets()[1]
        difference_ms = encode_integer(signed_difference(entry_id >> SEQ_BITS, master_ms))
        difference_seq = encode_integer(signed_difference(entry_id & SEQ_MASK, master_seq))
        if pairs[::2] == names:
            pieces += (encode_integer(SAME_FIELDS), difference_ms, difference_seq)
            shown = pairs[1::2]
            elements_count = 3 + len(shown)
        else:
            pieces += (encode_integer(0), difference_ms, difference_seq, encode_integer(len(pairs) // 2))
            shown = pairs
            elements_count = 4 + len(shown)
        pieces += (encode_texts(shown), encode_integer(elements_count))
        count += elements_count + 1
    return listpack.pack(pieces, count)


class NodeReader:
    """Adds nodes, in order, to the entry log and the ledger of a stream that is being read."""

    def __init__(self, log: EntryLog, ledger: NodeLedger) -> None:
        self._log = log
        self._ledger = ledger

    def add(self, key: bytes, packed: bytes) -> None:
        """Add one node. Raises RdbError."""
        if len(key) != ID_SIZE:
            raise RdbError("Stream node key entry is not the size of a stream ID")
        first_id = decode_id(key)
        ledger = self._ledger
        if ledger.first_ids and first_id <= ledger.first_ids[-1]:
            raise RdbError("Stream listpack re-added with existing key, or out of order")
        elements = listpack.unpack(packed)
        live, total, names = _read_master(elements)
        node = Node(first_id, first_id, live, total, len(packed), names)
        length_before = self._log.length
        position = 4 + len(names)
        for _ in range(total):
            position = self._add_entry(node, elements, position)
        if position != len(elements) or self._log.length - length_before != live:
            raise _damaged()
        ledger.nodes.append(node)
        ledger.first_ids.append(first_id)
        ledger.settled_id = self._log.last_id

    def _add_entry(self, node: Node, elements: list[Element], start: int) -> int:
        """Add the entry at `start`. Returns where the next one begins."""
        if start + 4 > len(elements):
            raise _damaged()
        flags, difference_ms, difference_seq, pairs_count = elements[start : start + 4]
        if type(flags) is not int or type(difference_ms) is not int or type(difference_seq) is not int:
            raise _damaged()
        names = node.field_names
        if flags & SAME_FIELDS:
            end = start + 3 + len(names)
        elif type(pairs_count) is int and pairs_count > 0:
            end = start + 4 + 2 * pairs_count
        else:
            raise _damaged()
        # The entry ends with the number of its elements.
        if end >= len(elements) or elements[end] != end - start or flags & ~(DELETED | SAME_FIELDS):
            raise _damaged()
        first_id = node.first_id
        entry_id = make_id(
            (first_id >> SEQ_BITS) + difference_ms & U64_MAX, (first_id & SEQ_MASK) + difference_seq & U64_MAX
        )
        node.last_id = entry_id
        if flags & DELETED:
            return end + 1
        if flags & SAME_FIELDS:
            pairs: list[Element] = [b""] * (2 * len(names))
            pairs[::2] = names
            pairs[1::2] = elements[start + 3 : end]
        else:
            pairs = elements[start + 4 : end]
        if entry_id < first_id or (entry_id <= self._log.last_id and self._log.length) or not entry_id:
            raise RdbError("Stream entries are out of order")
        self._log.append(entry_id, _reply_form(entry_id, pairs))
        return end + 1


def _read_master(elements: list[Element]) -> tuple[int, int, list[bytes]]:
    """Live and total entries of a node, and the names of its fields."""
    if len(elements) < 4:
        raise _damaged()
    live, deleted, names_count = elements[:3]
    if type(live) is not int or type(deleted) is not int or type(names_count) is not int:
        raise _damaged()
    if live < 1 or deleted < 0 or names_count < 1 or len(elements) < 4 + names_count or elements[3 + names_count] != 0:
        raise _damaged()
    return live, live + deleted, [_text(element) for element in elements[3 : 3 + names_count]]


def _text(element: Element) -> bytes:
    return element if isinstance(element, bytes) else b"%d" % element


def _reply_form(entry_id: StreamID, pairs: list[Element]) -> bytes:
    """Return an entry in its reply form, as streams store it."""
    text = format_id(entry_id)
    texts = tuple([each if isinstance(each, bytes) else b"%d" % each for each in pairs])
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, pack_command(texts))


def _damaged() -> RdbError:
    return RdbError("Stream listpack integrity check failed.")
