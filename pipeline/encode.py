"""Rows to XADD: record batches become packed commands, a row each.

A row without nulls is one `%` on a template that is made once for a batch. Others are packed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from zlib import crc32

import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from ..protocol.packing import pack_command
from .errors import PipelineError
from .options import WriteOptions

STREAM, FIELDS, ID, IID, PID = "_stream", "_fields", "_id", "_iid", "_pid"
ACK_ID, ACK_STREAM, PAIRS = "_ack_id", "_ack_stream", "_pairs"
RESERVED = (STREAM, FIELDS, PAIRS, ID, IID, PID, ACK_ID, ACK_STREAM)
"""Columns that are no fields."""
SEPARATOR = b"\0"
SHARDS = 64
"""Producers that the rows of idempotency=column are spread over: the stream remembers so many for each of them."""


@dataclass(slots=True)
class Row:
    """A packed command, and what there is to do once it is done."""

    command: bytes
    ack: tuple[bytes, bytes] | None = None
    """(stream, ID) of the entry to acknowledge."""


def trimming(options: WriteOptions) -> list[bytes]:
    """The words of XADD that trim."""
    if options.maxlen is not None and options.minid is not None:
        raise PipelineError("only one of the options maxlen and minid can be set")
    if options.maxlen is None and options.minid is None:
        return []
    what = (
        [b"MAXLEN", b"%d" % options.maxlen] if options.maxlen is not None else [b"MINID", str(options.minid).encode()]
    )
    words = [what[0], b"=" if options.trim_exact else b"~", what[1]]
    return words if options.trim_limit is None else [*words, b"LIMIT", b"%d" % options.trim_limit]


def text(column: Any) -> list[bytes | None]:
    """The values of a column as they are written: bytes as they are, others as Arrow prints them."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        column = column.cast(pa.string())
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


@dataclass(frozen=True)
class Encoder:
    """Turns batches into commands. `producer` and `batch` tell rows of different jobs and batches apart; a row is known
    by them, its partition, its place there and its content, so a task that is repeated says the same again.
    """

    options: WriteOptions
    producer: str
    partition: int
    batch: str

    @property
    def chunk(self) -> int:
        """Rows under one producer ID: half of what the stream remembers of it, so that the batch before this one is
        remembered as well.
        """
        return max(1, self.options.idmp_max_size // 2)

    def encode(self, records: Any, first_row: int) -> list[Row]:
        """The rows of a RecordBatch; the first of them is the `first_row`-th of its partition."""
        columns = dict(zip(records.schema.names, records.columns, strict=True))
        keys = self._keys(columns, len(records))
        fields = {name.encode(): text(column) for name, column in columns.items() if name not in RESERVED}
        is_plain = (
            FIELDS not in columns
            and PAIRS not in columns
            and isinstance(keys, bytes)
            and all(column.null_count == 0 for name, column in columns.items() if name not in RESERVED)
        )
        if is_plain and fields and self.options.idempotency in ("idmp", "none") and self.options.id_mode == "auto":
            commands = list(self._by_template(keys, fields, first_row, len(records)))
        else:
            maps = _more_pairs(columns)
            ids = self._explicit_ids(columns)
            places = self._places(columns, first_row, len(records))
            commands = self._one_by_one(keys, places, ids, fields, maps, first_row)
        acks = self._acks(columns, len(records))
        return [Row(command, ack) for command, ack in zip(commands, acks, strict=True)]

    def streams(self, records: Any) -> set[bytes]:
        """The keys that a batch is written to."""
        keys = self._keys(dict(zip(records.schema.names, records.columns, strict=True)), len(records))
        return {keys} if isinstance(keys, bytes) else set(keys)

    def _keys(self, columns: dict[str, Any], count: int) -> bytes | list[bytes]:
        """The key of all rows, or of each."""
        default = self.options.stream.encode() if self.options.stream else None
        if STREAM not in columns:
            if default is None:
                raise PipelineError("option stream is missing, and the rows have no column _stream")
            return default
        keys = [key if key is not None else default for key in text(columns[STREAM])]
        if None in keys:
            raise PipelineError("a row has null in _stream, and the option stream is missing")
        return keys  # type: ignore[return-value]

    def _places(self, columns: dict[str, Any], first_row: int, count: int) -> Iterable[list[bytes]]:
        """The words of each row between the key and the trimming: by what it is known."""
        idempotency = self.options.idempotency
        if self.options.id_mode == "explicit" or idempotency == "none":
            return ([] for _ in range(count))
        if idempotency == "content":
            return ([b"IDMPAUTO", self.producer.encode()] for _ in range(count))
        if idempotency == "column":
            iids = [_not_null(iid) for iid in text(_required(columns, IID, "idempotency=column"))]
            own = text(columns[PID]) if PID in columns else [None] * count
            return ([b"IDMP", self._named_pid(pid, iid), iid] for pid, iid in zip(own, iids, strict=True))
        rows = range(first_row, first_row + count)
        return ([b"IDMP", self._pid(row // self.chunk)] for row in rows)

    def _pid(self, chunk_index: int) -> bytes:
        return f"{self.producer}:{self.partition}:{chunk_index}".encode()

    def _iid(self, row: int, values: Iterable[bytes]) -> bytes:
        """The row's place, and a hash of what it holds: where a repeated task has other rows in its places, as when
        entries of a queue have been claimed meanwhile, they are written twice rather than taken for known ones.
        """
        return f"{self.batch}.{row % self.chunk}.{xxh3_64_hexdigest(SEPARATOR.join(values))}".encode()

    def _named_pid(self, pid: bytes | None, iid: bytes) -> bytes:
        """The producer that the row names in `_pid`, else one of the shards."""
        return b"%b:%b" % (self.producer.encode(), b"%d" % (crc32(iid) % SHARDS) if pid is None else pid)

    def _by_template(
        self, key: bytes | list[bytes], fields: dict[bytes, list[bytes | None]], first_row: int, count: int
    ) -> Iterator[bytes]:
        """Hot: `benchmarks.pipeline sink`."""
        assert isinstance(key, bytes)
        is_known = self.options.idempotency == "idmp"
        row = 0
        while row < count:
            chunk_index = (first_row + row) // self.chunk
            end = min(count, (chunk_index + 1) * self.chunk - first_row) if is_known else count
            template = self._template(key, self._pid(chunk_index) if is_known else None, list(fields))
            varying: list[Sequence[Any]] = []
            if is_known:
                rows = zip(*(values[row:end] for values in fields.values()), strict=True)
                places = range(first_row + row, first_row + end)
                iids = [self._iid(place, own) for place, own in zip(places, rows, strict=True)]
                varying += [list(map(len, iids)), iids]
            for values in fields.values():
                part: list[Any] = values[row:end]
                varying += [list(map(len, part)), part]
            yield from map(template.__mod__, zip(*varying, strict=True))
            row = end

    def _template(self, key: bytes, pid: bytes | None, names: list[bytes]) -> bytes:
        """A command with `%d` and `%b` for what differs: the row's ID and the values."""
        words: list[bytes | None] = [b"XADD", key]
        if pid is not None:
            words += [b"IDMP", pid, None]
        words += [*trimming(self.options), b"*"]
        for name in names:
            words += [name, None]
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            if word is None:
                parts.append(b"$%d\r\n%b\r\n")
            else:
                parts.append((b"$%d\r\n%b\r\n" % (len(word), word)).replace(b"%", b"%%"))
        return b"".join(parts)

    def _one_by_one(
        self,
        keys: bytes | list[bytes],
        places: Iterable[list[bytes]],
        ids: list[bytes] | None,
        fields: dict[bytes, list[bytes | None]],
        maps: list[list[bytes]] | None,
        first_row: int,
    ) -> list[bytes]:
        trim, names = trimming(self.options), list(fields)
        rows: Iterable[tuple[bytes | None, ...]] = zip(*fields.values(), strict=True) if fields else repeat(())
        is_placed = self.options.idempotency == "idmp" and self.options.id_mode == "auto"
        commands = []
        for index, (place, values) in enumerate(zip(places, rows, strict=False)):
            pairs = [
                word for name, value in zip(names, values, strict=True) if value is not None for word in (name, value)
            ]
            more = maps[index] if maps is not None else []
            if is_placed:
                held = (value for value in values if value is not None)
                place = [*place, self._iid(first_row + index, (*held, *more))]
            pairs += more
            if not pairs:
                raise PipelineError(
                    f"row {first_row + index} of partition {self.partition} has no fields: all are null"
                )
            key = keys if isinstance(keys, bytes) else keys[index]
            entry_id = b"*" if ids is None else ids[index]
            commands.append(pack_command((b"XADD", key, *place, *trim, entry_id, *pairs)))
        return commands

    def _explicit_ids(self, columns: dict[str, Any]) -> list[bytes] | None:
        if self.options.id_mode == "auto":
            return None
        ids = text(_required(columns, ID, "idMode=explicit"))
        if None in ids:
            raise PipelineError("a row has null in _id")
        return ids  # type: ignore[return-value]

    def _acks(self, columns: dict[str, Any], count: int) -> Iterable[tuple[bytes, bytes] | None]:
        if self.options.ack_group is None:
            return [None] * count
        ids = text(_required(columns, ACK_ID, "ackGroup"))
        default = (self.options.ack_stream or "").encode()
        streams = text(columns[ACK_STREAM]) if ACK_STREAM in columns else [default] * count
        return [
            None if entry_id is None else (stream or default, entry_id)
            for stream, entry_id in zip(streams, ids, strict=True)
        ]


def _required(columns: dict[str, Any], name: str, option: str) -> Any:
    if name not in columns:
        raise PipelineError(f"option {option} needs a column {name}")
    return columns[name]


def _not_null(value: bytes | None) -> bytes:
    if value is None:
        raise PipelineError("a row has null in _iid")
    return value


def _more_pairs(columns: dict[str, Any]) -> list[list[bytes]] | None:
    """What `_fields` and `_pairs` add to each row: fields and values in turn."""
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
