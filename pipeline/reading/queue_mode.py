"""spark.readStream, mode=queue: takes batches from a consumer group that it may share with other consumers.

A batch must be fixed before its first row is read, because Spark may repeat it, and delivered entries are not a range
of IDs. So each part of a batch is a consumer (see `holders`), and its pending entries are the entries of the part. A
repeated batch reads the same consumers again. When Spark has committed the batch, these entries are acknowledged and
the consumers deleted. Delivery is at least once: if another consumer claims an entry of a running batch, both read it.

Consumer names contain a random token that the checkpoint keeps. So queries do not share consumers, and a restarted
query finds its own.

Where the group has its own dead-letter stream (`XGROUP CONFIG .. DEADLETTER`), the server limits deliveries and moves
dead letters, and the options `maxDeliveries` and `deadLetterStream` have no effect.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...store.ids import StreamID
from ..columns.decode import Decoder, Deliveries
from ..connection.client import Connection
from ..errors import OptionError, PipelineError
from ..options.kinds import QueueOptions, cores
from .group import Group, Held, groups_of
from .holders import Batch, Part
from .lease import Lease
from .spans import even_steps, share

logger = logging.getLogger("headrace.pipeline")

# Size in bytes of the random token, enough that two queries on a group do not draw the same one.
TOKEN_SIZE = 4


@dataclass
class Share(InputPartition):
    """The part of a batch that one consumer holds in one stream: a partition."""

    stream: str
    consumer: str


@dataclass
class Goal:
    """How much of a stream a query with availableNow reads."""

    # The ID of the stream's last entry when the query began.
    last: StreamID
    # Entries that were new or pending then, minus those taken since. At zero the query claims no more entries, because
    # entries that are released again and again would keep it from ending.
    count: int


@dataclass
class Intake:
    """How many entries of one stream a batch may take."""

    group: Group
    # The most entries that the stream may still have for the batch.
    room: int
    # The idle time from which entries are claimed; None to claim none.
    min_idle_ms: int | None
    # FATAL entries that were claimed with the others. They are held until the batch is full, because released earlier
    # they would be claimed again.
    fatal: set[bytes] = field(default_factory=set)


class HeadraceQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes batches in the driver, in one process for each query, and reads them in the executors."""

    def __init__(self, options: QueueOptions, decoder: Decoder) -> None:
        if (options.max_deliveries is None) != (options.dead_letter_stream is None):
            raise OptionError("options maxDeliveries and deadLetterStream need each other: set both, or neither")
        if not options.stream:
            raise OptionError("option stream is missing")
        if options.dead_letter_stream in options.stream:
            raise OptionError("option deadLetterStream must not be a stream that the query reads")
        self.options = options
        self.decoder = decoder
        self._opened: Connection | None = None
        self._lease: Lease | None = None
        # The last batch that this process took or repeated. A batch other than this one is a repeat.
        self._planned: Batch | None = None
        # How much a query with availableNow reads, by stream.
        self._goals: dict[str, Goal] | None = None

    # -- methods that Spark calls ----------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the option `maxEntriesPerTrigger` as Spark's limit."""
        return ReadMaxRows(self.options.max_entries_per_trigger)

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offset before the first batch. Raises PipelineError if the group does not exist."""
        for group in self._groups():
            group.standing()
        return Batch(self.options.consumer, "", 0).offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Takes the next batch, after it has acknowledged the committed batch that ends at `start`.

        The first batch of a query is empty and only puts the query's token into the checkpoint. If entries were taken
        earlier, a query killed in between could not find them again.
        """
        committed = Batch.from_offset(self.options.consumer, start)
        self._stop_lease()
        self._settle(committed)
        named = committed if committed.token else replace(committed, token=os.urandom(TOKEN_SIZE).hex())
        if named != committed and isinstance(limit, ReadMaxRows):  # trigger(once=True) has a single batch
            return named.offset
        following, groups = named.next(), self._groups()
        if not self._shares(following):
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_entries_per_trigger
            self._take(groups, following, most)
        else:
            self._release_fatal(groups, following)
        if not self._shares(following):
            for part in self._parts(following):
                part.drop()
            return start
        self._planned = following
        self._start_lease(following)
        return following.offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the parts of a batch. For a repeated batch it adds one delivery to each entry."""
        planned: list[InputPartition] = []
        last = Batch.from_offset(self.options.consumer, end)
        for sequence in range(int(start["seq"]) + 1, last.sequence + 1):
            batch = replace(last, sequence=sequence)
            if batch != self._planned:
                for part in self._parts(batch):
                    part.count_again()
                self._planned = batch
                self._start_lease(batch)
            planned += self._shares(batch)
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the RecordBatches of a part. If reading fails, it releases the part's entries (XNACK FAIL).

        A reader that stops early (`batch.isEmpty()`, a limit) may read the part again before the batch is committed, so
        the part stays unchanged.
        """
        if not isinstance(partition, Share):
            return
        options = self.options
        with Connection(options) as connection:
            part = Part(Group(connection, partition.stream, options.group, options.page_size), partition.consumer)
            try:
                for consumer, held in part.read():
                    live = self._without_dead(part.group, held)
                    if live.ids:
                        yield self._decode(part.group, consumer, live)
            except Exception:  # not GeneratorExit
                if options.min_idle is not None:  # only CLAIM reads released entries again
                    try:
                        part.release()
                    except PipelineError as error:  # raise the first error, not this one
                        logger.warning("entries of a task that failed stay pending until they are idle: %s", error)
                raise

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledges a committed batch.

        Spark calls it late, and not for the last batch; `latestOffset` acknowledges earlier.
        """
        self._settle(Batch.from_offset(self.options.consumer, end))

    def prepareForTriggerAvailableNow(self) -> None:
        """Sets the ends of the streams as the goals: the query ends when it has read every stream that far."""
        self._goals = {}
        for group in self._groups():
            standing = group.standing()
            self._goals[group.stream] = Goal(group.stream_state().last_id, standing.new + standing.pending)

    def stop(self) -> None:
        """Closes the connection. Spark usually ends the process without calling it."""
        self._stop_lease()
        if self._opened is not None:
            self._opened.close()

    # -- batches ---------------------------------------------------------------------------------

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = Connection(self.options)
        return self._opened

    def _groups(self) -> list[Group]:
        return groups_of(self._connection, self.options)

    def _parts(self, batch: Batch) -> list[Part]:
        return [part for group in self._groups() for part in batch.parts(group)]

    def _shares(self, batch: Batch) -> list[Share]:
        """Returns the parts of a batch that have pending entries."""
        return [Share(part.group.stream, part.consumer) for part in self._parts(batch) if part.count()]

    def _settle(self, batch: Batch) -> None:
        """Acknowledges a committed batch. Doing it again has no effect."""
        mode = self.options.ack_mode
        for part in self._parts(batch):
            part.settle(acknowledge=mode != "manual", delete=mode == "delete")
        for group in self._groups():
            batch.drop_emptied(group)

    def _take(self, groups: list[Group], batch: Batch, most: int) -> None:
        """Fills a batch from the streams, in proportion to their backlogs.

        If a stream has fewer entries than its share, the other streams fill the rest.
        """
        intakes = {group.stream: self._intake(group) for group in groups}
        while most > 0 and any(intake.room for intake in intakes.values()):
            shares = share({stream: intake.room for stream, intake in intakes.items()}, most, turn=batch.sequence)
            for stream, count in shares.items():
                if count:
                    intake = intakes[stream]
                    taken = self._take_from(intake, batch, count)
                    most -= taken
                    intake.room = intake.room - taken if taken >= count else 0
        self._release_fatal(groups, batch)

    def _intake(self, group: Group) -> Intake:
        """Returns how many entries a stream may have for a batch.

        Raises PipelineError if the group is missing; later commands run without replies and could not report it.
        """
        standing = group.standing()
        min_idle_ms = None if self.options.min_idle is None else round(self.options.min_idle * 1000)
        pending = 0 if min_idle_ms is None else standing.pending
        if self._goals is None:
            return Intake(group, standing.new + pending, min_idle_ms)
        goal = self._goals[group.stream]
        if goal.count > 0:
            return Intake(group, min(standing.new + pending, goal.count), min_idle_ms)
        return Intake(group, standing.new if standing.last_id < goal.last else 0, None)

    def _take_from(self, intake: Intake, batch: Batch, count: int) -> int:
        """Takes up to `count` entries of a stream for a batch, and returns how many it took."""
        options, group = self.options, intake.group
        held = group.held_count(batch.prefix) - len(intake.fatal)
        counts = even_steps(count, options.min_partitions or cores())
        names = [batch.consumer_of(part) for part in range(len(counts))]
        group.take(list(zip(names, counts, strict=True)), intake.min_idle_ms)
        if intake.min_idle_ms is not None and not self._has_dead_letters(group):
            self._take_instead_of_fatal(intake, names)
        taken = group.held_count(batch.prefix) - len(intake.fatal) - held
        if self._goals is not None:
            self._goals[group.stream].count -= taken
        return taken

    def _take_instead_of_fatal(self, intake: Intake, names: list[str]) -> None:
        """Takes more entries, one for each FATAL entry that was taken."""
        while True:
            fresh = {name: set(intake.group.fatal(name)) - intake.fatal for name in names}
            if not any(fresh.values()):
                return
            intake.fatal.update(*fresh.values())
            intake.group.take([(name, len(ids)) for name, ids in fresh.items() if ids], intake.min_idle_ms)

    def _release_fatal(self, groups: list[Group], batch: Batch) -> None:
        """Releases the FATAL entries of a batch again if there is no dead-letter stream: they must not be read."""
        if self.options.min_idle is None:
            return
        for group in groups:
            for part in () if self._has_dead_letters(group) else batch.parts(group):
                for name in part.holders():
                    if fatal := group.fatal(name):
                        group.release(fatal)

    def _has_dead_letters(self, group: Group) -> bool:
        """Whether FATAL entries of a group become dead letters, by an option or by the server."""
        return self.options.dead_letter_stream is not None or group.buries_itself

    def _without_dead(self, group: Group, held: Held) -> Held:
        """Moves entries delivered too often to the dead-letter stream, and returns the other entries of a page."""
        most = self.options.max_deliveries
        if most is None or group.buries_itself:
            return held
        dead = [index for index, count in enumerate(held.counts) if count > most]
        if not dead:
            return held
        group.bury([held.ids[i] for i in dead], [held.counts[i] for i in dead], self.options.dead_letter_stream)
        keep = [index for index, count in enumerate(held.counts) if count <= most]
        return Held([held.ids[i] for i in keep], [held.idle_ms[i] for i in keep], [held.counts[i] for i in keep])

    def _decode(self, group: Group, consumer: str, held: Held) -> Any:
        page = group.entries(held.ids)
        if len(page) != len(held.ids):  # entries that were deleted from the stream stay pending
            ids = page.ids.to_pylist()
            there = set(ids)
            keep = [index for index, one in enumerate(held.ids) if one in there]
            held = Held(ids, [held.idle_ms[i] for i in keep], [held.counts[i] for i in keep])
        return self.decoder.decode(group.stream, page, Deliveries(consumer, held.counts, held.idle_ms))

    # -- the lease -------------------------------------------------------------------------------

    def _start_lease(self, batch: Batch) -> None:
        """Starts the lease of a batch, so that other consumers do not claim its entries as idle."""
        if self.options.min_idle:
            self._stop_lease()
            self._lease = Lease(self.options, batch)
            self._lease.start()

    def _stop_lease(self) -> None:
        if self._lease is not None:
            self._lease.end()
            self._lease = None
