"""Entries as Redis' nodes and back: `node_codec` for installations without a C compiler. Both behave alike.

    node:  live | deleted | names count | name ... | 0          the names of the fields of the first entry
    entry: flags | ms | seq | pairs count | name | value ... | elements count
    entry: flags | ms | seq | value ... | elements count        with SAME_FIELDS: the names of the node

IDs are stored as differences to the node's ID, that of its first entry, which may be deleted. Deleted entries are
marked; they are skipped when read, and not written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final

from hiredis import Reader

from ...protocol.packing import pack_command
from ...store.chunk import Body
from ...store.ids import SEQ_BITS, SEQ_MASK, U64_MAX, StreamID, format_id, make_id
from ...store.node_sizes import signed_difference
from ...store.nodes import Node
from ...store.stream import ENTRIES_ADDED_MAX, ShortStream
from ..errors import RdbError
from . import listpack
from .ids import ID_SIZE, decode_id, encode_id
from .lengths import encode_length, encode_string, encode_time_ms, read_length, read_string, read_time_ms
from .listpack import Element, encode_integer, encode_texts
from .short_groups import encode_short_group, read_short_groups
from .source import Source

DELETED: Final = 1
SAME_FIELDS: Final = 2
# As in `keys` and in `stream`, which import this module.
EXPIRY_MS: Final = 252
STREAM_TYPE: Final = 27
DURATION_S_MAX: Final = 86400
PAIRS_COUNT_MAX: Final = 10000
# Numbers that follow the node of a short stream, before and after its groups.
COUNTERS_COUNT: Final = 8
SETTINGS_COUNT: Final = 5
# Bytes of a file from which on a call of `read_short` returns, so that each call is short.
READ_SIZE: Final = 16 * 1024
# Bytes of a larger node are not read ahead.
AHEAD_SIZE: Final = 64 * 1024
# Bytes of entries in the reply form, and entries, that are collected before they are handed on. So many fill a chunk.
RUN_SIZE: Final = 64 * 1024
RUN_COUNT: Final = 1024


class NodeEncoder:
    """Encodes live entries, which are given in runs, as these nodes. Each of them has live entries; `live` of a node
    says how many. Listpacks are compressed if `compress` is set and that makes them smaller."""

    def __init__(self, nodes: list[Node], compress: bool) -> None:
        self._compress = compress
        self._nodes = iter(nodes)
        # The open node: itself, its encoded elements and their number, and the entries that it still lacks.
        self._node: Node | None = None
        self._pieces: list[bytes] = []
        self._elements_count = 0
        self._missing_count = 0

    def add(self, ms: array[int], seq: array[int], data: bytes) -> bytes:
        """Take entries: the halves of their IDs, and their reply forms end to end.

        Returns the nodes that they complete, each as two strings of an RDB file: its ID and its listpack. Raises
        ValueError if the entries are not those of the nodes.
        """
        done: list[bytes] = []
        reader = Reader()
        reader.feed(data)
        for row in range(len(ms)):
            if not self._missing_count:
                self._begin()
            entry = reader.gets()
            if not entry:
                raise ValueError("an entry that is not in the reply form")
            self._add_entry(make_id(ms[row], seq[row]), entry[1])
            self._missing_count -= 1
            if not self._missing_count:
                done.append(self._completed())
        return b"".join(done)

    def add_values(
        self, ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int], low: int, high: int
    ) -> bytes:
        """Take the entries `low` to `high` (excluded) of those that have the same fields: see `chunk.EntryValues`.
        Returns what `add` returns. Raises ValueError as it does, and IndexError if there are not so many."""
        width = len(names)
        if not width or len(seq) != len(ms) or len(ends) != width * len(ms) or (ends[-1] if ends else 0) != len(texts):
            raise ValueError("columns of different entries")
        if any(map(int.__lt__, ends[1:], ends)):
            raise ValueError("columns of different entries")
        if not 0 <= low <= high <= len(ms):
            raise IndexError("no such entries")
        done: list[bytes] = []
        for row in range(low, high):
            if not self._missing_count:
                self._begin()
            bounds = (ends[row * width - 1] if row else 0, *ends[row * width : (row + 1) * width])
            pairs = [b""] * (2 * width)
            pairs[::2], pairs[1::2] = names, [texts[start:end] for start, end in pairwise(bounds)]
            self._add_entry(make_id(ms[row], seq[row]), pairs)
            self._missing_count -= 1
            if not self._missing_count:
                done.append(self._completed())
        return b"".join(done)

    def finish(self) -> None:
        """Raise ValueError unless all nodes are complete."""
        if self._missing_count or next(self._nodes, None) is not None:
            raise ValueError("nodes with more entries than there are")

    def _begin(self) -> None:
        node = next(self._nodes, None)
        if node is None:
            raise ValueError("entries that are in no node")
        if node.live <= 0:
            raise ValueError("a node without entries")
        self._node, self._missing_count, names = node, node.live, node.field_names
        self._pieces = [encode_integer(number) for number in (node.live, 0, len(names))]
        self._pieces += (encode_texts(names), encode_integer(0))
        self._elements_count = 4 + len(names)

    def _add_entry(self, entry_id: StreamID, pairs: list[bytes]) -> None:
        node = self._node
        assert node is not None
        difference_ms = encode_integer(signed_difference(entry_id >> SEQ_BITS, node.first_id >> SEQ_BITS))
        difference_seq = encode_integer(signed_difference(entry_id & SEQ_MASK, node.first_id & SEQ_MASK))
        if pairs[::2] == node.field_names:
            self._pieces += (encode_integer(SAME_FIELDS), difference_ms, difference_seq)
            shown = pairs[1::2]
            count = 3 + len(shown)
        else:
            self._pieces += (encode_integer(0), difference_ms, difference_seq, encode_integer(len(pairs) // 2))
            shown = pairs
            count = 4 + len(shown)
        self._pieces += (encode_texts(shown), encode_integer(count))
        self._elements_count += count + 1

    def _completed(self) -> bytes:
        assert self._node is not None
        packed = listpack.pack(self._pieces, self._elements_count)
        key = encode_string(encode_id(self._node.first_id), compress=False)
        return key + encode_string(packed, compress=self._compress)


def encode_short(
    streams: list[tuple[bytes, ShortStream]], expires: dict[bytes, int], compress: bool, compress_nodes: bool
) -> bytes:
    """Encode keys with short streams, which have one node each, and their expiry times. `compress` concerns the keys.

    Raises ValueError for a block that is damaged.
    """
    pieces: list[bytes] = []
    for key, short in streams:
        if key in expires:
            pieces.append(bytes((EXPIRY_MS,)) + encode_time_ms(expires[key]))
        pieces.append(bytes((STREAM_TYPE,)) + encode_string(key, compress=compress))
        pieces.append(encode_short_value(short, compress_nodes))
    return b"".join(pieces)


def encode_short_value(short: ShortStream, compress: bool) -> bytes:
    """Encode the value of a short stream. Raises ValueError for a block that is damaged."""
    block, node, last_id, max_deleted_id, entries_added, duration_s, entries_max, added, duplicates, groups = short
    body = Body.of_block(block)
    count = body.count
    if not count:
        raise ValueError("a block without entries")
    data, first_id = body.slice(0, count), body.id_at(0)
    if node is None:
        reader = Reader()
        reader.feed(data)
        entry = reader.gets()
        if not entry:
            raise ValueError("an entry that is not in the reply form")
        node = Node(first_id, body.last_id, count, count, 0, entry[1][::2])
    encoded = NodeEncoder([node], compress).add(*body.columns(0, count), data)
    halves = [half for each in (last_id, first_id, max_deleted_id) for half in (each >> SEQ_BITS, each & SEQ_MASK)]
    counters = (count, *halves, entries_added, len(groups))
    pieces = [encode_length(1), encoded, *map(encode_length, counters)]
    pieces += [encode_short_group(group, compress=compress) for group in groups]
    # The zero: no producers.
    pieces += map(encode_length, (duration_s, entries_max, 0, added, duplicates))
    return b"".join(pieces)


class NodeDecoder:
    """Decodes nodes, in order. Their live entries are handed on in runs.

    `append_values` takes a run of entries that all have the fields of their nodes, and the same ones: see
    `chunk.EntryValues`. `append` takes any other run, and all if `append_values` is None: the reply forms end to end,
    two columns with the halves of the IDs, and a column with the end of each.
    """

    def __init__(
        self,
        append: Callable[[bytes, array[int], array[int], array[int]], None],
        append_values: Callable[[array[int], array[int], list[bytes], bytes, array[int]], None] | None,
    ) -> None:
        self._append = append
        self._append_values = append_values
        # The IDs of the last entry and of the last node, None if there was none.
        self._last_id: StreamID | None = None
        self._last_first_id: StreamID | None = None
        # Entries that were read and not handed on.
        self._entries: list[bytes] = []
        self._size = 0
        self._ms, self._seq, self._ends = array("Q"), array("Q"), array("Q")
        # As long as they all have the same fields: the names, and the values of each. Otherwise None and none.
        self._names: list[bytes] | None = None
        self._values: list[bytes] = []

    def add(self, key: bytes, packed: bytes) -> Node:
        """Decode a node: its ID and its listpack. Every byte is checked. Raises RdbError."""
        if len(key) != ID_SIZE:
            raise RdbError("Stream node key entry is not the size of a stream ID")
        first_id = decode_id(key)
        elements = listpack.unpack(packed)
        live, total, names = _read_master(elements)
        live_found, last_id = 0, first_id
        position = 4 + len(names)
        for _ in range(total):
            position, last_id, flags, shown = _read_entry(first_id, names, elements, position)
            if not flags & DELETED:
                live_found += 1
                self._require_order(first_id, last_id)
                self._take_entry(last_id, names if flags & SAME_FIELDS else None, list(map(_text, shown)))
        if position != len(elements) or live_found != live:
            raise _damaged()
        if self._last_first_id is not None and first_id <= self._last_first_id:
            raise RdbError("Stream listpack re-added with existing key, or out of order")
        self._last_first_id = first_id
        return Node(first_id, last_id, live, total, len(packed), names)

    def add_ahead(self, block: bytes, position: int, count: int) -> tuple[list[Node], int]:
        """Decode up to `count` nodes that are complete in `block` from `position` on, as in a file.

        Returns them, and the position after them. The code that calls this must read a node at which it stops. Raises
        RdbError.
        """
        nodes: list[Node] = []
        while len(nodes) < count:
            source = Source((block[position : position + AHEAD_SIZE],))
            try:
                key, packed = read_string(source), read_string(source)
            except RdbError:
                break
            nodes.append(self.add(key, packed))
            position += source.offset
        return nodes, position

    def flush(self) -> None:
        """Hand on the entries that were collected."""
        if self._append_values is not None and self._names is not None:
            ends = array("Q", accumulate(map(len, self._values)))
            self._append_values(self._ms, self._seq, self._names, b"".join(self._values), ends)
        elif self._entries:
            self._append(b"".join(self._entries), self._ms, self._seq, self._ends)
        self._entries, self._size = [], 0
        self._ms, self._seq, self._ends = array("Q"), array("Q"), array("Q")
        self._names, self._values = None, []

    def _require_order(self, first_id: StreamID, entry_id: StreamID) -> None:
        if entry_id < first_id or (self._last_id is not None and entry_id <= self._last_id) or not entry_id:
            raise RdbError("Stream entries are out of order")
        self._last_id = entry_id

    def _take_entry(self, entry_id: StreamID, names: list[bytes] | None, texts: list[bytes]) -> None:
        """Take an entry: the names of its node and its values, or None, and names and values in turn."""
        if not self._entries:
            self._names = names
        elif names != self._names:
            self._names, self._values = None, []
        if self._names is not None:
            self._values += texts
        pairs = texts if names is None else [text for pair in zip(names, texts, strict=True) for text in pair]
        entry = _reply_form(entry_id, pairs)
        self._entries.append(entry)
        self._size += len(entry)
        self._ms.append(entry_id >> SEQ_BITS)
        self._seq.append(entry_id & SEQ_MASK)
        self._ends.append(self._size)
        if self._size >= RUN_SIZE or len(self._ms) >= RUN_COUNT:
            self.flush()


def read_short(block: bytes, position: int) -> tuple[list[tuple[bytes, ShortStream, int | None]], int]:
    """Read the keys with short streams that are complete in `block` from `position` on, up to some other record, or to
    READ_SIZE bytes.

    Returns them, each with its expiry time, and the position after them. What cannot be read, or is damaged, is left to
    the caller.
    """
    keys: list[tuple[bytes, ShortStream, int | None]] = []
    source = Source((block[position:],))
    size = 0
    while size < READ_SIZE:
        try:
            kind, expires_ms = source.byte(), None
            if kind == EXPIRY_MS:
                expires_ms, kind = read_time_ms(source), source.byte()
            if kind != STREAM_TYPE:
                break
            key, short = read_string(source), _read_short_value(source)
        except RdbError:
            break
        if short is None:
            break
        keys.append((key, short, expires_ms))
        size = source.offset
    return keys, position + size


def read_short_value(block: bytes, position: int) -> ShortStream | None:
    """Read the value of a short stream at `position`. Returns None for one of another stream, or that is damaged."""
    try:
        return _read_short_value(Source((block[position:],)))
    except RdbError:
        return None


def _read_short_value(source: Source) -> ShortStream | None:
    """Read the value of a short stream. Returns None, or raises RdbError, for one of another stream, or that is
    damaged."""
    if read_length(source) != 1:
        return None
    key, packed = read_string(source), read_string(source)
    count, *halves, entries_added = [read_length(source) for _ in range(COUNTERS_COUNT)]
    if not count <= entries_added <= ENTRIES_ADDED_MAX:
        return None
    groups = read_short_groups(source, entries_added)
    if groups is None:
        return None
    duration_s, entries_max, producers_count, added, duplicates = [read_length(source) for _ in range(SETTINGS_COUNT)]
    if producers_count:
        return None
    if not 1 <= duration_s <= DURATION_S_MAX or not 1 <= entries_max <= PAIRS_COUNT_MAX:
        return None
    bodies: list[Body] = []
    decoder = NodeDecoder(lambda *columns: bodies.append(Body.of_columns(*columns)), None)
    node = decoder.add(key, packed)
    has_many = bool(bodies)
    decoder.flush()
    last_id, _, max_deleted_id = map(make_id, halves[::2], halves[1::2])
    if has_many or bodies[0].count != count or last_id < bodies[0].last_id:
        return None
    return (
        bodies[0].block(), node, last_id, max_deleted_id, entries_added, duration_s, entries_max, added, duplicates,
        groups,
    )  # fmt: skip


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


def _read_entry(
    first_id: StreamID, names: list[bytes], elements: list[Element], start: int
) -> tuple[int, StreamID, int, list[Element]]:
    """Read the entry at `start` of a node with this ID and these names.

    Returns where the next entry begins, the ID, the flags, and the values, or names and values without SAME_FIELDS.
    """
    if start + 4 > len(elements):
        raise _damaged()
    flags, difference_ms, difference_seq, pairs_count = elements[start : start + 4]
    if type(flags) is not int or type(difference_ms) is not int or type(difference_seq) is not int:
        raise _damaged()
    if flags & SAME_FIELDS:
        shown, end = start + 3, start + 3 + len(names)
    elif type(pairs_count) is int and pairs_count > 0:
        shown, end = start + 4, start + 4 + 2 * pairs_count
    else:
        raise _damaged()
    # The entry ends with the number of its elements.
    if end >= len(elements) or elements[end] != end - start or flags & ~(DELETED | SAME_FIELDS):
        raise _damaged()
    entry_id = make_id(
        (first_id >> SEQ_BITS) + difference_ms & U64_MAX, (first_id & SEQ_MASK) + difference_seq & U64_MAX
    )
    return end + 1, entry_id, flags, elements[shown:end]


def _text(element: Element) -> bytes:
    return element if isinstance(element, bytes) else b"%d" % element


def _reply_form(entry_id: StreamID, pairs: list[bytes]) -> bytes:
    """Return an entry in its reply form, as streams store it."""
    text = format_id(entry_id)
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, pack_command(tuple(pairs)))


def _damaged() -> RdbError:
    return RdbError("Stream listpack integrity check failed.")
