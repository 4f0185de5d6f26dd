"""df.write and df.writeStream: each row becomes one entry.

Spark repeats tasks and batches. So a row is sent with an identity that is the same every time (see `Encoder`), and the
stream does not add a row that it knows: `XADD key IDMP producer row ...`. After a lost connection, commands without a
reply can therefore be sent again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hiredis
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ..connection.client import Connection, LostConnection, ReplyError, pack
from ..connection.streams import key_bytes, prepare_stream
from ..errors import OptionError, PipelineError
from ..options.kinds import WriteOptions
from .encode import Commands, Encoder
from .saves import Save
from .tally import Tally

logger = logging.getLogger("headrace.pipeline")

# Windows sent before a reply is read, so that the server works while the next rows are packed.
WINDOWS_IN_FLIGHT = 4
ALREADY_THERE = "ERR The ID specified in XADD is equal or smaller"
# The part of an error that says in which order rows with explicit IDs are written.
ORDER_ADVICE = (
    "with idMode=explicit write rows in the order of _id (coalesce(1) and sortWithinPartitions), to a stream without "
    "later entries"
)
# Refused rows that are collected before they are checked against the stream.
REFUSED_COUNT_MAX = 10_000
# Refused rows that are checked in one pipeline.
LOOKS_COUNT = 1000
# The `first_row` of a window of acknowledgements, which has no rows.
NO_ROW = -1


@dataclass
class Written(WriterCommitMessage):
    """A task's message to the driver: how many rows it wrote."""

    rows: int
    tally: Tally = field(default_factory=Tally)


@dataclass(slots=True)
class Window:
    """Commands that are sent together."""

    data: bytes | memoryview
    count: int
    first_row: int
    # Entries to acknowledge after the rows of the window are written.
    acks: list[tuple[bytes, bytes]] = field(default_factory=list)
    # The request that waits for replicas, whose reply follows those of the commands; empty without one.
    wait: bytes = b""

    @property
    def sent(self) -> bytes | memoryview:
        """All that is sent."""
        return b"".join((self.data, self.wait)) if self.wait else self.data


class Pipeline:
    """Sends windows of commands, several before their replies are read.

    If the connection is lost, windows without replies are sent again on a new one if they `can_repeat`. Methods raise
    Refused for an error reply, ServerGone, and PipelineError if sending again could write rows twice.

    With explicit IDs (`is_explicit`) the server refuses a row that is sent again, but also a row that comes too late.
    Only the stream shows which of both it is, so it must not be trimmed meanwhile (see `WriteOptions`).

    With `wait_replicas`, a window counts as written when so many replicas have it. If they do not within
    `wait_timeout` seconds, it is sent again, maybe to another primary.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        can_repeat: bool,
        is_explicit: bool,
        ack_group: str | None = None,
        wait_replicas: int = 0,
        wait_timeout: float = 0.0,
    ) -> None:
        self._connection = connection
        self._replicas_wanted = wait_replicas
        self._wait = pack(("WAIT", wait_replicas, round(wait_timeout * 1000) or 1)) if wait_replicas else b""
        self._can_repeat = can_repeat
        self._is_explicit = is_explicit
        # Rows that were refused for their ID: row numbers and commands.
        self._refused: list[tuple[int, list[bytes]]] = []
        self._ack_group = ack_group
        # Entries to acknowledge; the replies to their rows have been received.
        self._due: list[tuple[bytes, bytes]] = []
        self._waiting: deque[Window] = deque()
        # Whether all waiting windows were sent on the current connection.
        self._is_sent = True

    def send(self, window: Window) -> None:
        """Sends a window, and receives the replies of the oldest ones if enough are in flight."""
        if self._wait and window.first_row != NO_ROW:
            window.wait = self._wait
        self._waiting.append(window)
        if self._is_sent:
            try:
                self._connection.send(window.sent)
            except LostConnection as lost:
                self._note_loss(lost)
        while len(self._waiting) >= WINDOWS_IN_FLIGHT:
            self._receive()
        if self._refused and len(self._refused) + len(self._due) >= REFUSED_COUNT_MAX:
            self.drain()

    def drain(self) -> None:
        """Receives all outstanding replies, and checks the refused rows."""
        while self._waiting:
            self._receive()
        for first in range(0, len(self._refused), LOOKS_COUNT):
            self._check_refused(self._refused[first : first + LOOKS_COUNT])
        self._refused.clear()

    def finish(self) -> None:
        """Ends the pipeline: receives all replies, and acknowledges the entries that the rows were made from."""
        self.drain()
        due, self._due = self._due, []
        self._acknowledge(due)
        self.drain()

    def _receive(self) -> None:
        replies = self._connection.retry(self._receive_oldest)
        window = self._waiting.popleft()
        errors = [(index, reply) for index, reply in enumerate(replies) if type(reply) is ReplyError]
        for index, reply in errors:
            self._check_error(reply, NO_ROW if window.first_row == NO_ROW else window.first_row + index)
        if errors:
            reader = hiredis.Reader()
            reader.feed(bytes(window.data))
            commands = [reader.gets() for _ in replies]
            self._refused += [(window.first_row + index, commands[index]) for index, _ in errors]
        self._due += window.acks
        if not self._refused and self._due:
            # Later rows may be made from the last entry as well.
            due, last = self._due, self._due[-1]
            self._due = [last]
            self._acknowledge(ack for ack in due if ack != last)

    def _receive_oldest(self) -> list[Any]:
        try:
            if not self._is_sent:
                self._connection.send(b"".join(window.sent for window in self._waiting))
                self._is_sent = True
            window = self._waiting[0]
            replies = self._connection.receive(window.count)
            if window.wait:
                self._check_wait(self._connection.receive(1)[0])
            return replies
        except LostConnection as lost:
            self._note_loss(lost)
            raise

    def _check_wait(self, reply: Any) -> None:
        """Raises LostConnection if too few replicas have a window: they, or another primary, may soon be there."""
        if isinstance(reply, ReplyError):
            raise self._connection.refused("option waitReplicas", str(reply))
        if reply < self._replicas_wanted:
            raise LostConnection(f"{reply} of {self._replicas_wanted} replicas have the rows (option waitReplicas)")

    def _note_loss(self, lost: LostConnection) -> None:
        self._is_sent = False
        if not self._can_repeat:
            raise PipelineError(
                f"the connection was lost with rows unconfirmed, which idempotency=none cannot send again: {lost}"
            ) from None

    def _check_error(self, reply: ReplyError, row: int) -> None:
        if row == NO_ROW:
            raise self._connection.refused(f"option ackGroup {self._ack_group}", str(reply))
        if not (self._is_explicit and str(reply).startswith(ALREADY_THERE)):
            raise self._connection.refused(f"writing row {row} of a partition", str(reply))

    def _check_refused(self, refused: list[tuple[int, list[bytes]]]) -> None:
        """Raises PipelineError if a refused row is not in its stream."""
        asked = [("XRANGE", key, entry_id, entry_id) for _, (_, key, entry_id, *_) in refused]
        for (row, (_, key, entry_id, *pairs)), found in zip(refused, self._connection.call_all(asked), strict=True):
            stream = key.decode("utf-8", "replace")
            if isinstance(found, ReplyError):
                raise self._connection.refused(f"checking row {row} in stream {stream}", str(found))
            if not found or found[0][1] != pairs:
                raise PipelineError(
                    f"row {row} of a partition: {entry_id.decode()} is not above the last ID of stream {stream}, and "
                    f"the row is not in it: {ORDER_ADVICE}"
                )

    def _acknowledge(self, acks: Iterable[tuple[bytes, bytes]]) -> None:
        by_stream: dict[bytes, list[bytes]] = {}
        for stream, entry_id in dict.fromkeys(acks):
            by_stream.setdefault(stream, []).append(entry_id)
        if not by_stream:
            return
        assert self._ack_group is not None
        commands = [pack(("XACK", stream, self._ack_group, *ids)) for stream, ids in by_stream.items()]
        self.send(Window(b"".join(commands), len(commands), NO_ROW))


class _Writer:
    """The common part of batch and streaming writers.

    `fallback_producer` is made in the driver, so that all tasks have the same one.
    """

    def __init__(self, options: WriteOptions, fallback_producer: str | None) -> None:
        self.options = options
        self.fallback_producer = fallback_producer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes a partition. Raises PipelineError."""
        options = self.options
        encoder = self._encoder()
        with Connection(options) as connection:
            pipeline = Pipeline(
                connection,
                can_repeat=options.idempotency != "none" or options.id_mode == "explicit",
                is_explicit=options.id_mode == "explicit",
                ack_group=options.ack_group,
                wait_replicas=options.wait_replicas,
                wait_timeout=options.wait_timeout,
            )
            tally = Tally()
            size, pace, started = options.pipeline, _pacer(options.max_rate), time.monotonic()
            if options.max_rate is not None:
                size = max(1, min(size, int(options.max_rate / 10)))
            count = 0
            for records in iterator:
                if new := encoder.streams(records) - tally.remembered.keys():
                    pipeline.drain()
                    tally.remembered |= self._prepare(new, encoder.producer)
                commands = encoder.encode(records, count)
                tally.rows.update(commands.producers)
                for window in windows(commands, count, size):
                    pace(started, window.first_row)
                    pipeline.send(window)
                count += len(records)
            pipeline.finish()
        return Written(count, tally.fullest())

    def _prepare(self, keys: Iterable[bytes], producer: str) -> dict[bytes, int]:
        """Prepares streams, and returns how many rows of each producer they remember."""
        options = self.options
        if options.id_mode == "explicit" or options.idempotency == "none":
            return dict.fromkeys(keys, 0)
        save = Save.of_task(TaskContext.get()) if options.idempotency == "idmp" else None
        remembered = {}
        with Connection(options) as connection:
            for key in sorted(keys):
                if save is not None:
                    save.note(f"{options.address}/{options.db}", producer, key)
                remembered[key] = prepare_stream(connection, key, options)
        return remembered

    def _encoder(self) -> Encoder:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        producer = self.options.producer or query or self.fallback_producer
        if producer is None:
            raise OptionError("option producer is missing: Spark did not pass the query's ID")
        return Encoder(self.options, producer, context.partitionId() if context is not None else 0, batch or "0")

    @staticmethod
    def _warn(messages: Iterable[WriterCommitMessage | None]) -> None:
        """Logs, in the driver, which rows of a batch would not be recognised if it were repeated."""
        tallies = [message.tally for message in messages if isinstance(message, Written)]
        for complaint in Tally.together(tallies).complaints():
            logger.warning(complaint)


class HeadraceWriter(_Writer, DataSourceArrowWriter):
    """The writer of `df.write`."""

    def __init__(self, options: WriteOptions, *, overwrite: bool) -> None:
        super().__init__(options, uuid.uuid4().hex)
        if overwrite:
            self._truncate()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Logs warnings after all tasks have written."""
        self._warn(messages)

    def _truncate(self) -> None:
        """Empties the stream, once, in the driver. Its groups remain."""
        options = self.options
        if not options.truncate:
            raise OptionError('mode("overwrite") empties the stream: set truncate=true to allow that')
        if options.stream is None:
            raise OptionError('option stream is missing: mode("overwrite") needs one stream')
        if options.producer is not None:
            raise OptionError(
                "option producer: the emptied stream would still recognise the producer's rows and not add them"
            )
        with Connection(options) as connection:
            connection.call("XTRIM", key_bytes(options.stream), "MAXLEN", 0, doing=f"stream {options.stream}")


class HeadraceStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options, None)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Logs warnings after all tasks of a batch have written."""
        self._warn(messages)


def _pacer(rate: float | None) -> Callable[[float, int], None]:
    """Returns a function that waits until a row may be sent at this rate, in rows per second."""

    def pace(started: float, row: int) -> None:
        if rate is not None:
            time.sleep(max(0.0, started + row / rate - time.monotonic()))

    return pace


def windows(commands: Commands, first_row: int, size: int) -> Iterator[Window]:
    """Divides commands into windows of `size` rows."""
    for start in range(0, len(commands), size):
        count = min(size, len(commands) - start)
        acks = [ack for ack in commands.acks[start : start + count] if ack is not None]
        yield Window(commands.bytes_of(start, count), count, first_row + start, acks)
