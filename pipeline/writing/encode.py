"""Encodes rows as XADD: a record batch becomes a column of packed commands.

Arrow joins the commands of all rows, piece by piece. No row becomes a Python object, except for the digest that
identifies it. Only rows with `_fields` or `_pairs` are packed one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_hexdigest

from ...protocol.packing import pack_command
from ..errors import PipelineError
from ..options.kinds import WriteOptions

STREAM, FIELDS, ID, IID, PID = "_stream", "_fields", "_id", "_iid", "_pid"
ACK_ID, ACK_STREAM, PAIRS = "_ack_id", "_ack_stream", "_pairs"
# Columns that are not fields.
RESERVED = (STREAM, FIELDS, PAIRS, ID, IID, PID, ACK_ID, ACK_STREAM)
NO_STREAM = "option stream is missing, and the rows have no column _stream"
TWO_STREAMS = (
    "option stream and the column _stream both name the stream to write to: leave the option out, or drop the column"
)
SEPARATOR = b"\0"
# With `idempotency` column or content, rows are spread over this many producers. The stream limits the rows that it
# remembers for each producer, so more producers mean more remembered rows.
SHARDS = 64
# The type of commands: with 64-bit offsets, because a batch may be larger than two gigabytes.
BYTES = pa.large_binary()

# An argument: bytes if it is the same in all rows, else a column.
Word = bytes | Any
# The stream and ID of the entry to acknowledge after the row is written, or None.
Ack = tuple[bytes, bytes] | None


@dataclass(slots=True)
class Commands:
    """The rows of a batch as a column of packed commands, and the entry to acknowledge after each."""

    packed: Any
    acks: Sequence[Ack]
    # Number of rows by stream and producer; empty if the stream is sure to remember all rows of each producer.
    producers: Counter[tuple[bytes, bytes]]

    def __len__(self) -> int:
        return len(self.packed)

    def bytes_of(self, start: int, count: int) -> memoryview:
        """Returns `count` commands from `start` on, as contiguous bytes."""
        part = self.packed.slice(start, count)
        _, offsets, data = part.buffers()
        ends = memoryview(offsets).cast("q")
        return memoryview(data)[ends[part.offset] : ends[part.offset + len(part)]]


def trimming(options: WriteOptions) -> list[bytes]:
    """Returns the trimming words of XADD. Raises PipelineError if both maxlen and minid are set."""
    if options.maxlen is not None and options.minid is not None:
        raise PipelineError("only one of the options maxlen and minid can be set")
    if options.maxlen is None and options.minid is None:
        return []
    what = (
        [b"MAXLEN", b"%d" % options.maxlen] if options.maxlen is not None else [b"MINID", str(options.minid).encode()]
    )
    words = [what[0], b"=" if options.trim_exact else b"~", what[1]]
    return words if options.trim_limit is None else [*words, b"LIMIT", b"%d" % options.trim_limit]


def text(column: Any) -> Any:
    """Returns the texts to write: bytes unchanged, timestamps in ISO 8601 and UTC, others as Arrow formats them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        moments = column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))
        column = pc.replace_substring(moments.cast(pa.string()), " ", "T")
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.string())
    return column.cast(BYTES)


# -- packing by columns -----------------------------------------------------------------------------


def pack_rows(words: Sequence[Word], fields: Mapping[bytes, Any]) -> Any:
    """Packs a column of commands: `words`, followed by each row's fields that are not null.

    `fields` are columns by name. Hot: `benchmarks.pipeline`.
    """
    pieces: list[Word] = [*_count(len(words) + 2 * len(fields), fields.values())]
    for word in words:
        pieces += _bulk(word)
    for name, column in fields.items():
        both = [*_bulk(name), *_bulk(column)]
        pieces += [_joined(both)] if column.null_count else both
    return _joined(pieces, skips_nulls=True)


def _count(most: int, columns: Iterable[Any]) -> list[Word]:
    """Returns the line with the number of words of each command: two fewer for each null field."""
    optional = [column for column in columns if column.null_count]
    if not optional:
        return [b"*%d\r\n" % most]
    count: Any = pa.scalar(most)
    for column in optional:
        count = pc.subtract(count, pc.multiply(column.is_null().cast(pa.int64()), 2))
    return [b"*", text(count), b"\r\n"]


def _bulk(word: Word) -> list[Word]:
    """Returns a word as a bulk string, with its size."""
    if isinstance(word, bytes):
        return [b"$%d\r\n%b\r\n" % (len(word), word)]
    sizes = pc.binary_length(word)
    shortest, longest = (size.as_py() for size in pc.min_max(sizes).values())
    if shortest == longest is not None:
        return [b"$%d\r\n" % longest, word, b"\r\n"]
    return [b"$", text(sizes), b"\r\n", word, b"\r\n"]


def _joined(pieces: Iterable[Word], *, skips_nulls: bool = False, separator: bytes = b"") -> Any:
    """Joins the pieces of each row. Adjacent pieces that are the same in all rows are joined once."""
    merged: list[Word] = []
    for piece in pieces:
        if merged and isinstance(piece, bytes) and isinstance(merged[-1], bytes) and not separator:
            merged[-1] += piece
        else:
            merged.append(piece)
    columns = [pa.scalar(piece, BYTES) if isinstance(piece, bytes) else piece for piece in merged]
    handling = "skip" if skips_nulls else "emit_null"
    return pc.binary_join_element_wise(*columns, pa.scalar(separator, BYTES), null_handling=handling)


# -- the words of a command -------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of rows as commands.

    A row is identified by the producer, the batch, its partition, its place there and its content, so a repeated task
    sends the same identities again.
    """

    options: WriteOptions
    producer: str
    partition: int
    batch: str

    @property
    def chunk(self) -> int:
        """Rows per producer ID: half of what the stream remembers, so that it remembers the last batch as well."""
        return max(1, self.options.idmp_max_size // 2)

    def encode(self, records: Any, first_row: int) -> Commands:
        """Encodes the rows of a RecordBatch, the first of which has the index `first_row` in its partition."""
        count = len(records)
        columns = dict(zip(records.schema.names, records.columns, strict=True))
        fields = {name.encode(): text(column) for name, column in columns.items() if name not in RESERVED}
        maps = _maps(columns)
        self._check_fields(fields, maps, first_row, count)
        identity = self._identity(columns, fields, maps, range(first_row, first_row + count))
        key = self._key(columns)
        words = [b"XADD", key, *identity, *trimming(self.options), self._entry_id(columns)]
        packed = pack_rows(words, fields) if maps is None else _pack_one_by_one(words, fields, maps, count)
        producers: Counter[tuple[bytes, bytes]] = Counter()
        if identity and self.options.idempotency in ("column", "content"):
            pids: Any = identity[1]
            keys = repeat(key) if isinstance(key, bytes) else key.to_pylist()
            producers.update(zip(keys, pids.to_pylist(), strict=False))
        return Commands(packed, self._acks(columns, count), producers)

    def streams(self, records: Any) -> set[bytes]:
        """Returns the keys that a batch is written to."""
        key = self._key(dict(zip(records.schema.names, records.columns, strict=True)))
        return {key} if isinstance(key, bytes) else set(key.unique().to_pylist())

    def _check_fields(
        self, fields: dict[bytes, Any], maps: list[list[bytes]] | None, first_row: int, count: int
    ) -> None:
        """Raises PipelineError for a row without fields."""
        if any(not column.null_count for column in fields.values()):
            return
        has_field = [any(valid) for valid in zip(*(c.is_valid().to_pylist() for c in fields.values()), strict=True)]
        for row, (has, pairs) in enumerate(zip(has_field or [False] * count, maps or repeat(()), strict=False)):
            if not has and not pairs:
                raise PipelineError(f"row {first_row + row} of partition {self.partition} has no fields: all are null")

    def _key(self, columns: dict[str, Any]) -> Word:
        """Returns the key from the option `stream`, or else the column `_stream`."""
        if STREAM in columns:
            if self.options.stream:
                raise PipelineError(TWO_STREAMS)
            return _without_nulls(columns, STREAM, "stream")
        if not self.options.stream:
            raise PipelineError(NO_STREAM)
        return self.options.stream.encode()

    def _entry_id(self, columns: dict[str, Any]) -> Word:
        return b"*" if self.options.id_mode == "auto" else _without_nulls(columns, ID, "idMode=explicit")

    def _identity(
        self, columns: dict[str, Any], fields: dict[bytes, Any], maps: list[list[bytes]] | None, rows: range
    ) -> list[Word]:
        """Returns the words of XADD by which the stream recognises a repeated row."""
        idempotency = self.options.idempotency
        if self.options.id_mode == "explicit" or idempotency == "none":
            return []
        if idempotency == "content":
            return [b"IDMPAUTO", self._pids(columns, _contents(fields, maps, len(rows)))]
        if idempotency == "column":
            iids = _without_nulls(columns, IID, "idempotency=column")
            return [b"IDMP", self._pids(columns, iids.to_pylist()), iids]
        chunks = range(rows.start // self.chunk, rows[-1] // self.chunk + 1) if rows else range(0)
        pids = [f"{self.producer}:{self.partition}:{chunk}".encode() for chunk in chunks]
        pid: Word = pids[0]
        if len(pids) > 1:
            pid = pa.array(pids, BYTES).take(pa.array([row // self.chunk - chunks.start for row in rows]))
        return [b"IDMP", pid, self._iids(fields, maps, rows)]

    def _iids(self, fields: dict[bytes, Any], maps: list[list[bytes]] | None, rows: range) -> Any:
        """Returns the identities of rows: batch, place, and a hash of the content.

        A repeated task may have different rows at the same places, for example if other consumers claimed entries of a
        queue meanwhile. The hash makes sure that such rows are written, at worst twice.
        """
        if maps is None:
            contents = _joined(fields.values(), skips_nulls=True, separator=SEPARATOR).to_pylist()
        else:
            held = _values_by_row(fields, len(rows))
            contents = [SEPARATOR.join([*values, *pairs]) for values, pairs in zip(held, maps, strict=True)]
        batch, chunk = self.batch.encode(), self.chunk
        digests = map(xxh3_64_hexdigest, contents)
        iids = [b"%b.%d.%b" % (batch, row % chunk, own.encode()) for row, own in zip(rows, digests, strict=True)]
        return pa.array(iids, BYTES)

    def _pids(self, columns: dict[str, Any], identities: Iterable[bytes]) -> Any:
        """Returns the producer of each row: named by `_pid`, else one of the shards, chosen by the row's identity."""
        named = text(columns[PID]).to_pylist() if PID in columns else repeat(None)
        names = (
            b"%d" % (crc32(identity) % SHARDS) if name is None else name
            for name, identity in zip(named, identities, strict=False)
        )
        return pa.array([b"%b:%b" % (self.producer.encode(), name) for name in names], BYTES)

    def _acks(self, columns: dict[str, Any], count: int) -> Sequence[Ack]:
        if self.options.ack_group is None:
            return ()
        ids = text(_required(columns, ACK_ID, "ackGroup")).to_pylist()
        default = (self.options.ack_stream or "").encode()
        streams = text(columns[ACK_STREAM]).to_pylist() if ACK_STREAM in columns else [default] * count
        return [
            None if entry_id is None else (stream or default, entry_id)
            for stream, entry_id in zip(streams, ids, strict=True)
        ]


def _contents(fields: dict[bytes, Any], maps: list[list[bytes]] | None, count: int) -> list[bytes]:
    """Returns the content of each row, independent of the order of its fields."""
    if maps is None:
        pairs = [_joined([name + SEPARATOR, column]) for name, column in sorted(fields.items())]
        contents: list[bytes] = _joined(pairs, skips_nulls=True, separator=SEPARATOR).to_pylist()
        return contents
    columns = {name: column.to_pylist() for name, column in fields.items()}
    found = []
    for row, pairs in zip(range(count), maps, strict=True):
        held = [name + SEPARATOR + column[row] for name, column in columns.items() if column[row] is not None]
        held += [name + SEPARATOR + value for name, value in zip(pairs[::2], pairs[1::2], strict=True)]
        found.append(SEPARATOR.join(sorted(held)))
    return found


def _required(columns: dict[str, Any], name: str, option: str) -> Any:
    if name not in columns:
        raise PipelineError(f"option {option} needs a column {name}")
    return columns[name]


def _without_nulls(columns: dict[str, Any], name: str, option: str) -> Any:
    column = text(_required(columns, name, option))
    if column.null_count:
        raise PipelineError(f"a row has null in {name}")
    return column


# -- packing row by row -----------------------------------------------------------------------------


def _maps(columns: dict[str, Any]) -> list[list[bytes]] | None:
    """Returns the fields and values, in turn, that `_fields` and `_pairs` add to each row; None without them."""
    if FIELDS not in columns and PAIRS not in columns:
        return None
    maps = columns[FIELDS].to_pylist() if FIELDS in columns else repeat(None)
    lists = columns[PAIRS].to_pylist() if PAIRS in columns else repeat(None)
    found = []
    for pairs, structs in zip(maps, lists, strict=False):
        both = [*(pairs or ()), *((one["field"], one["value"]) for one in structs or ())]
        found.append([_bytes(item) for pair in both if pair[1] is not None for item in pair])
    return found


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _values_by_row(fields: Mapping[bytes, Any], count: int) -> list[list[bytes]]:
    """Returns the values of each row that are not null."""
    if not fields:
        return [[]] * count
    columns = (column.to_pylist() for column in fields.values())
    return [[value for value in row if value is not None] for row in zip(*columns, strict=True)]


def _pack_one_by_one(words: Sequence[Word], fields: Mapping[bytes, Any], maps: list[list[bytes]], count: int) -> Any:
    heads = zip(*(repeat(word, count) if isinstance(word, bytes) else word.to_pylist() for word in words), strict=True)
    columns = {name: column.to_pylist() for name, column in fields.items()}
    commands = []
    for row, (head, pairs) in enumerate(zip(heads, maps, strict=True)):
        held = ((name, column[row]) for name, column in columns.items() if column[row] is not None)
        commands.append(pack_command((*head, *(word for pair in held for word in pair), *pairs)))
    return pa.array(commands, BYTES)
