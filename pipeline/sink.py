"""df.write and df.writeStream: rows become entries, each once.

Spark repeats tasks and batches. A row is therefore sent with an identity that is the same every time (see `Encoder`),
and the stream refuses what it knows: `XADD key IDMP producer row ...`. The same makes a lost connection harmless: what
was not answered is sent again.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import hiredis
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from .connection import Connection, LostConnection, ReplyError, pack
from .encode import Commands, Encoder
from .errors import OptionError, PipelineError, refused
from .options import WriteOptions
from .survey import key_bytes

WINDOWS_IN_FLIGHT = 4
"""Round trips under way: the server has work while the next rows are packed."""
ALREADY_THERE = "ERR The ID specified in XADD is equal or smaller"
REFUSED_COUNT_MAX = 10_000
"""Refused rows that are kept before they are looked for in the stream."""
LOOKS_COUNT = 1000
"""Rows that are looked for at once."""


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    rows: int


@dataclass(slots=True)
class Window:
    """Commands that are sent together."""

    data: bytes | memoryview
    count: int
    first_row: int
    acks: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Entries to acknowledge once all is done."""


class Pipeline:
    """Sends windows, a few ahead of their replies. Those not answered are sent again on a new connection if they
    `can_repeat`. Raises Refused for an error reply, ServerGone, and PipelineError where repeating would duplicate.

    With explicit IDs (`is_explicit`) a row that is sent again is refused for its ID. So is one that comes too late, and
    is lost: which of both it is the stream tells, unless it is trimmed meanwhile (`is_trimming`).
    """

    def __init__(
        self,
        connection: Connection,
        *,
        can_repeat: bool,
        is_explicit: bool,
        is_trimming: bool = False,
        ack_group: str | None = None,
    ) -> None:
        self._connection = connection
        self._can_repeat = can_repeat
        self._is_explicit = is_explicit
        self._is_trimming = is_trimming
        self._refused: list[tuple[int, list[bytes]]] = []
        """Rows that were refused for their ID, as commands."""
        self._ack_group = ack_group
        self._waiting: deque[Window] = deque()
        self._is_sent = True
        """Whether this connection has been sent all that is waiting."""

    def send(self, window: Window) -> None:
        """Send a window, and take the replies of the oldest if there are enough under way."""
        self._waiting.append(window)
        if self._is_sent:
            try:
                self._connection.send(window.data)
            except LostConnection as lost:
                self._note_loss(lost)
        while len(self._waiting) >= WINDOWS_IN_FLIGHT:
            self._take()
        if len(self._refused) >= REFUSED_COUNT_MAX:
            self.finish()

    def finish(self) -> None:
        """Take all replies."""
        while self._waiting:
            self._take()
        for first in range(0, len(self._refused), LOOKS_COUNT):
            self._look_for(self._refused[first : first + LOOKS_COUNT])
        self._refused.clear()

    def _take(self) -> None:
        replies = self._connection.retry(self._receive_oldest)
        window = self._waiting.popleft()
        errors = [(index, reply) for index, reply in enumerate(replies) if type(reply) is ReplyError]
        for index, reply in errors:
            self._judge(reply, window.first_row + index)
        if errors and not self._is_trimming:
            reader = hiredis.Reader()
            reader.feed(bytes(window.data))
            commands = [reader.gets() for _ in replies]
            self._refused += [(window.first_row + index, commands[index]) for index, _ in errors]
        if window.acks:
            self._acknowledge(window.acks)

    def _receive_oldest(self) -> list[Any]:
        try:
            if not self._is_sent:
                self._connection.send(b"".join(window.data for window in self._waiting))
                self._is_sent = True
            return self._connection.receive(self._waiting[0].count)
        except LostConnection as lost:
            self._note_loss(lost)
            raise

    def _note_loss(self, lost: LostConnection) -> None:
        self._is_sent = False
        if not self._can_repeat:
            raise PipelineError(
                f"the connection was lost with rows under way, which idempotency=none cannot send again: {lost}"
            ) from None

    def _judge(self, reply: ReplyError, row: int) -> None:
        if not (self._is_explicit and str(reply).startswith(ALREADY_THERE)):
            raise refused(f"writing row {row} of a partition", str(reply))

    def _look_for(self, refused: list[tuple[int, list[bytes]]]) -> None:
        """Raises PipelineError for a row that is not in its stream."""
        asked = [("XRANGE", key, entry_id, entry_id) for _, (_, key, entry_id, *_) in refused]
        for (row, (_, key, entry_id, *pairs)), found in zip(refused, self._connection.call_all(asked), strict=True):
            if isinstance(found, ReplyError) or not found or found[0][1] != pairs:
                stream = key.decode("utf-8", "replace")
                raise PipelineError(
                    f"row {row} of a partition: {entry_id.decode()} is not above the last ID of stream {stream}, and "
                    "the row is not in it: with idMode=explicit write rows in the order of _id (coalesce(1) and "
                    "sortWithinPartitions), to a stream without later entries"
                )

    def _acknowledge(self, acks: Sequence[tuple[bytes, bytes]]) -> None:
        by_stream: dict[bytes, list[bytes]] = {}
        for stream, entry_id in acks:
            by_stream.setdefault(stream, []).append(entry_id)
        assert self._ack_group is not None
        commands = [pack(("XACK", stream, self._ack_group, *ids)) for stream, ids in by_stream.items()]
        self.send(Window(b"".join(commands), len(commands), -1))


class _Writer:
    """What batch and streaming writers share. `fallback_producer` is made in the driver: all tasks have the same."""

    def __init__(self, options: WriteOptions, fallback_producer: str | None) -> None:
        self.options = options
        self.fallback_producer = fallback_producer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition. Raises PipelineError."""
        options = self.options
        encoder = self._encoder()
        with Connection(options) as connection:
            pipeline = Pipeline(
                connection,
                can_repeat=options.idempotency != "none" or options.id_mode == "explicit",
                is_explicit=options.id_mode == "explicit",
                is_trimming=options.maxlen is not None or options.minid is not None,
                ack_group=options.ack_group,
            )
            prepared: set[bytes] = set()
            size, pace, started = options.pipeline, _pacer(options.max_rate), time.monotonic()
            if options.max_rate is not None:
                size = max(1, min(size, int(options.max_rate / 10)))
            count = 0
            for records in iterator:
                if new := encoder.streams(records) - prepared:
                    pipeline.finish()
                    self._prepare(new)
                    prepared |= new
                for window in windows(encoder.encode(records, count), count, size):
                    pace(started, window.first_row)
                    pipeline.send(window)
                count += len(records)
            pipeline.finish()
        return Written(count)

    def _prepare(self, keys: Iterable[bytes]) -> None:
        if self.options.id_mode == "auto" and self.options.idempotency != "none":
            with Connection(self.options) as connection:
                for key in sorted(keys):
                    prepare_stream(connection, key, self.options)

    def _encoder(self) -> Encoder:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        producer = self.options.producer or query or self.fallback_producer
        if producer is None:
            raise OptionError("option producer is missing: Spark did not tell the query's ID")
        return Encoder(self.options, producer, context.partitionId() if context is not None else 0, batch or "0")


class HeadraceWriter(_Writer, DataSourceArrowWriter):
    """df.write."""

    def __init__(self, options: WriteOptions, *, overwrite: bool) -> None:
        super().__init__(options, uuid.uuid4().hex)
        if overwrite:
            self._truncate()

    def _truncate(self) -> None:
        """Empty the stream, once, in the driver. Its groups stay."""
        options = self.options
        if not options.truncate:
            raise OptionError('mode("overwrite") empties the stream: say so with the option truncate=true')
        if options.stream is None:
            raise OptionError('option stream is missing: mode("overwrite") needs one stream')
        if options.producer is not None:
            raise OptionError("option producer: rows of a stream that is emptied would be taken for known ones")
        with Connection(options) as connection:
            connection.call("XTRIM", key_bytes(options.stream), "MAXLEN", 0, doing=f"stream {options.stream}")


class HeadraceStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """df.writeStream."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options, None)


def _pacer(rate: float | None) -> Callable[[float, int], None]:
    """Waits until so many rows are due that many seconds after the start."""

    def pace(started: float, row: int) -> None:
        if rate is not None:
            time.sleep(max(0.0, started + row / rate - time.monotonic()))

    return pace


def windows(commands: Commands, first_row: int, size: int) -> Iterator[Window]:
    """Rows in the portions that are sent together."""
    for start in range(0, len(commands), size):
        count = min(size, len(commands) - start)
        acks = [ack for ack in commands.acks[start : start + count] if ack is not None]
        yield Window(commands.bytes_of(start, count), count, first_row + start, acks)


def prepare_stream(connection: Connection, key: bytes, options: WriteOptions) -> None:
    """See to it that the stream remembers enough rows, long enough. Raises PipelineError.

    XCFGSET with another value forgets all rows that the stream remembers, so it is sent only while there are none.
    """
    name = key.decode("utf-8", "replace")
    known = _stream_settings(connection, key, name)
    if known is None:
        _make_stream(connection, key)
        known = _stream_settings(connection, key, name) or {}
    if b"idmp-maxsize" not in known:
        raise PipelineError(
            "this server cannot recognise rows (XADD IDMP is in Headrace and in Redis 8.6): set idempotency=none"
        )
    size, duration = int(known[b"idmp-maxsize"]), int(known[b"idmp-duration"])
    if size >= options.idmp_max_size and duration >= options.idmp_duration:
        return
    if known.get(b"iids-tracked"):
        raise PipelineError(
            f"stream {name} remembers {size} rows of a producer for {duration} s and is in use so: set idmpMaxSize and "
            "idmpDuration to no more, or XCFGSET it while its producers rest"
        )
    connection.call(
        *("XCFGSET", key, "IDMP-DURATION", max(duration, options.idmp_duration)),
        *("IDMP-MAXSIZE", max(size, options.idmp_max_size)),
        doing=f"stream {name}",
    )


def _stream_settings(connection: Connection, key: bytes, name: str) -> dict[bytes, Any] | None:
    reply = connection.call_all([("XINFO", "STREAM", key)])[0]
    if isinstance(reply, ReplyError):
        if str(reply) == "ERR no such key":
            return None
        raise refused(f"stream {name}", str(reply))
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _make_stream(connection: Connection, key: bytes) -> None:
    """An empty stream: a group that goes again is the only way to make one."""
    group = "headrace:maker:" + uuid.uuid4().hex
    connection.call_all([("XGROUP", "CREATE", key, group, "0", "MKSTREAM"), ("XGROUP", "DESTROY", key, group)])
