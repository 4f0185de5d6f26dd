"""A stream as the store holds it: chunks and nodes are copied, not packed for Redis and unpacked again.

    stream: chunks | nodes | counters | groups | idempotent producers

    chunk:  form, whether it has holes | first ID | head | marks of deleted entries | packed IDs | entries
    node:   a row of fixed size; the names of its fields are a number in a table that precedes each page of rows

The other parts are those of Redis' form, but for the tables of groups (`groups.py`). The form has the byte order of the
machine and the structures of the C code, so only servers on little-endian machines that have both use it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from struct import Struct
from typing import Final

from ...store.chunk import Chunk, ChunkBlocks, ChunkForm
from ...store.image import StreamImage
from ...store.limits import Limits
from ...store.log import EntryLog
from ...store.nodes import IS_COMPILED, Node, NodeLedger
from ...store.stream import ENTRIES_ADDED_MAX, Stream
from ..errors import RdbError, RowsError
from ..rdb.groups import encode_groups, encode_split_id, range_of, read_split_id
from ..rdb.lengths import encode_length, encode_string, read_length, read_string
from ..rdb.source import Source
from ..rdb.stream import encode_idempotence, read_idempotence, settled
from .groups import ColumnsReader, encode_columns

# The type byte of such a stream: neither a type of Redis nor an opcode.
KIND: Final = 200
# Whether this server can write and read the form.
CAN_USE: Final = IS_COMPILED and sys.byteorder == "little"
# The word by which a replica says that it reads the form (`REPLCONF capa`). It has the version of the form.
CAPABILITY: Final = b"headrace-rows-1"

# Nodes that are encoded or read at once: some tenths of a millisecond.
NODES_COUNT: Final = 512
# Bytes of a packed ID, and of a node: first ID, last ID, live and total entries, size, and the number of its names.
ID_SIZE: Final = 17
_NODE: Final = Struct("<17s17sQQQI")


class Rows:
    """The form: a `persistence.rdb.file.StreamForm`."""

    @property
    def kind(self) -> int:
        """The type byte."""
        return KIND

    def encode(self, stream: StreamImage, now_ms: int) -> Iterator[bytes]:
        """Yield a stream in pieces; some are empty, to let the event loop run other work."""
        yield from settled(stream)
        log = stream.log
        chunks = log.all_chunks()
        yield encode_length(len(chunks))
        for chunk in chunks:
            yield _encode_chunk(chunk.blocks())
        yield from _encode_nodes(stream.nodes.nodes)
        yield (
            encode_split_id(stream.last_id) + encode_split_id(stream.max_deleted_id)
            + encode_length(stream.entries_added) + bytes((log.has_gaps, log.has_strays))
        )  # fmt: skip
        yield encode_length(len(stream.groups))
        yield from encode_groups(stream.groups, encode_columns, compress=False)
        yield from encode_idempotence(stream.idempotence, now_ms=now_ms, compress=False)

    def read(self, source: Source, limits: Limits, now_ms: int) -> Stream:
        """The stream. Raises RdbError."""
        stream = Stream(limits)
        try:
            for _ in range_of(read_length(source)):
                stream.log.take_chunk(Chunk.of_blocks(_read_chunk(source)))
            _read_nodes(source, stream.nodes, stream.log)
            _read_counters(source, stream)
            ColumnsReader(source).read_into(stream)
        except (ValueError, OverflowError, IndexError) as error:
            raise RowsError(f"a stream of it is damaged: {error}") from error
        stream.idempotence = read_idempotence(source, now_ms=now_ms)
        return stream


ROWS: Final = Rows()


# -- chunks ------------------------------------------------------------------------------------------


def _encode_chunk(blocks: ChunkBlocks) -> bytes:
    return b"".join((
        bytes((blocks.form, blocks.has_holes)), encode_split_id(blocks.first_id), encode_length(blocks.head),
        encode_length(len(blocks.dead)), blocks.dead,
        encode_length(len(blocks.ids)), blocks.ids,
        encode_length(len(blocks.entries)), blocks.entries,
    ))  # fmt: skip


def _read_chunk(source: Source) -> ChunkBlocks:
    form, has_holes = ChunkForm(source.byte()), bool(source.byte())
    first_id, head = read_split_id(source), read_length(source)
    return ChunkBlocks(form, first_id, head, has_holes, _take(source), _take(source), _take(source))


def _take(source: Source) -> bytes:
    return source.take(read_length(source))


# -- nodes -------------------------------------------------------------------------------------------


def _encode_nodes(nodes: list[Node]) -> Iterator[bytes]:
    """Yield the number of nodes, and the pages of nodes with the tables of their names."""
    yield encode_length(len(nodes))
    for start in range(0, len(nodes), NODES_COUNT):
        numbers: dict[tuple[bytes, ...], int] = {}
        rows: list[bytes] = []
        for node in nodes[start : start + NODES_COUNT]:
            number = numbers.setdefault(tuple(node.field_names), len(numbers))
            first, last = node.first_id.to_bytes(ID_SIZE, "little"), node.last_id.to_bytes(ID_SIZE, "little")
            rows.append(_NODE.pack(first, last, node.live, node.total, node.size, number))
        table = [encode_length(len(numbers))]
        for names in numbers:
            table.append(encode_length(len(names)))
            table += [encode_string(name, compress=False) for name in names]
        yield b"".join(table + rows)


def _read_nodes(source: Source, ledger: NodeLedger, log: EntryLog) -> None:
    """Read the nodes of an entry log that was read. Raises RdbError, ValueError, IndexError."""
    left, live, before_id = read_length(source), 0, -1
    while left:
        count = min(left, NODES_COUNT)
        names = [_read_names(source) for _ in range_of(read_length(source))]
        for first, last, node_live, total, size, number in _NODE.iter_unpack(source.take(_NODE.size * count)):
            node = Node(
                int.from_bytes(first, "little"), int.from_bytes(last, "little"), node_live, total, size, names[number]
            )
            if node.first_id <= before_id or node_live > total:
                raise RdbError("Stream nodes are out of order")
            ledger.add(node)
            before_id = node.first_id
            live += node_live
        left -= count
    if live != log.length:
        raise RdbError("Stream length is not that of its nodes")
    ledger.settled_id = log.last_id


def _read_names(source: Source) -> list[bytes]:
    return [read_string(source) for _ in range_of(read_length(source))]


# -- counters ----------------------------------------------------------------------------------------


def _read_counters(source: Source, stream: Stream) -> None:
    stream.last_id, stream.max_deleted_id = read_split_id(source), read_split_id(source)
    stream.entries_added = read_length(source)
    has_gaps = bool(source.byte())
    stream.log.note_gaps(has_gaps=has_gaps, has_strays=bool(source.byte()))
    if stream.last_id < stream.log.last_id:
        raise RdbError("Stream last ID is before its last entry")
    if not len(stream) <= stream.entries_added <= ENTRIES_ADDED_MAX:
        raise RdbError("Stream has more entries than were ever added")
