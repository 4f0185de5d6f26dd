"""spark.readStream, mode=queue: batches are taken from a consumer group that others may work on as well.

A batch must be fixed before its first row is read, for Spark may repeat it; deliveries are no range of IDs. So each
part of a batch is a consumer (see `holders`), and the entries of the part are what this consumer holds. A repeated
batch reads the same consumers again. When Spark has committed the batch, what they hold is acknowledged, and they are
deleted. At least once: an entry that somebody claims from a batch under way is read by both.

The names of consumers bear a random token, which the checkpoint keeps: queries do not meet, and one that is started
again knows its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ..store.ids import StreamID
from .connection import Connection
from .decode import Decoder, Deliveries
from .errors import OptionError, PipelineError
from .group import Group, Held, groups_of
from .holders import Batch, Part
from .lease import Lease
from .options import QueueOptions, cores
from .spans import even_steps, share

logger = logging.getLogger("headrace.pipeline")

TOKEN_SIZE = 4
"""Bytes: enough for queries on one group never to draw the same."""


@dataclass
class Share(InputPartition):
    """The part of a batch that one consumer holds, in one stream."""

    stream: str
    consumer: str


@dataclass
class Goal:
    """What a query with availableNow takes of a stream."""

    last: StreamID
    """The last entry there was when the query began."""
    count: int
    """Entries that were new or pending then, less those taken since. Once it is used up nothing is claimed any more:
    entries that are released again and again would keep the query from ending, and from what is new."""


@dataclass
class Intake:
    """What one stream gives to a batch."""

    group: Group
    room: int
    """How many entries it may have to give, at most."""
    min_idle_ms: int | None
    """Claim entries that have been idle for so long as well."""
    fatal: set[bytes] = field(default_factory=set)
    """Entries that were taken although they had been released as FATAL: they are held until the batch is full, or they
    would come again."""


class HeadraceQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes batches in the driver, in one process for each query, and reads them in the executors."""

    def __init__(self, options: QueueOptions, decoder: Decoder) -> None:
        if (options.max_deliveries is None) != (options.dead_letter_stream is None):
            raise OptionError(
                "options maxDeliveries and deadLetterStream need each other: set both, or neither to bury nothing"
            )
        if not options.stream:
            raise OptionError("option stream is missing")
        if options.dead_letter_stream in options.stream:
            raise OptionError("option deadLetterStream must be another stream than those that are read")
        self.options = options
        self.decoder = decoder
        self._opened: Connection | None = None
        self._lease: Lease | None = None
        self._planned: Batch | None = None
        """The last batch that this process took or counted: any other one is repeated."""
        self._goals: dict[str, Goal] | None = None
        """What a query with availableNow takes, by stream."""

    # -- what Spark asks -------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxEntriesPerTrigger."""
        return ReadMaxRows(self.options.max_entries_per_trigger)

    def initialOffset(self) -> dict[str, Any]:
        """Before the first batch. Raises PipelineError if there is no such group."""
        for group in self._groups():
            group.standing()
        return Batch(self.options.consumer, "", 0).offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Take the next batch; the one that ends with `start` has been committed and is acknowledged first.

        A query without a token is given one by a batch of nothing: it must be in the checkpoint before entries are
        taken, or a query that is killed in between would not know them again.
        """
        committed = Batch.from_offset(self.options.consumer, start)
        self._stop_lease()
        self._settle(committed)
        named = committed if committed.token else replace(committed, token=os.urandom(TOKEN_SIZE).hex())
        if named != committed and isinstance(limit, ReadMaxRows):  # trigger(once=True) has but one batch
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
        """The parts of a batch. One that is repeated counts as another delivery of its entries."""
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
        """The RecordBatches of a part. If reading them fails, what is left is released (XNACK FAIL).

        Whoever stops in between (`batch.isEmpty()`, a limit) may read the part again before the batch is committed: it
        stays as it is.
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
                if options.min_idle is not None:  # released entries come back by CLAIM alone
                    try:
                        part.release()
                    except PipelineError as error:  # no reason to hide why it failed
                        logger.warning("entries of a task that failed stay pending until they are idle: %s", error)
                raise

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends here is done; comes late, and not for the last one (see `latestOffset`)."""
        self._settle(Batch.from_offset(self.options.consumer, end))

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember where the streams end: the query ends when all have been taken that far."""
        self._goals = {}
        for group in self._groups():
            standing = group.standing()
            self._goals[group.stream] = Goal(group.stream_state().last_id, standing.new + standing.pending)

    def stop(self) -> None:
        """Close the connection. Spark mostly just ends the process."""
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
        """The parts of a batch that hold anything."""
        return [Share(part.group.stream, part.consumer) for part in self._parts(batch) if part.count()]

    def _settle(self, batch: Batch) -> None:
        """Acknowledge a committed batch; harmless if done before."""
        mode = self.options.ack_mode
        for part in self._parts(batch):
            part.settle(acknowledge=mode != "manual", delete=mode == "delete")
        for group in self._groups():
            batch.drop_emptied(group)

    def _take(self, groups: list[Group], batch: Batch, most: int) -> None:
        """Fill a batch from the streams by their backlogs; what one has not got goes to the others."""
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
        """How much a stream may have to give. A group that is missing is told here: replies to what follows are
        suppressed.
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
        """Have up to `count` entries of a stream delivered to the consumers of a batch; how many it became."""
        options, group = self.options, intake.group
        held = group.held_count(batch.prefix) - len(intake.fatal)
        counts = even_steps(count, options.min_partitions or cores())
        names = [batch.consumer_of(part) for part in range(len(counts))]
        group.take(list(zip(names, counts, strict=True)), intake.min_idle_ms)
        if intake.min_idle_ms is not None and options.dead_letter_stream is None:
            self._take_instead_of_fatal(intake, names)
        taken = group.held_count(batch.prefix) - len(intake.fatal) - held
        if self._goals is not None:
            self._goals[group.stream].count -= taken
        return taken

    def _take_instead_of_fatal(self, intake: Intake, names: list[str]) -> None:
        """Take as many more as were released as FATAL."""
        while True:
            fresh = {name: set(intake.group.fatal(name)) - intake.fatal for name in names}
            if not any(fresh.values()):
                return
            intake.fatal.update(*fresh.values())
            intake.group.take([(name, len(ids)) for name, ids in fresh.items() if ids], intake.min_idle_ms)

    def _release_fatal(self, groups: list[Group], batch: Batch) -> None:
        """Without dead letters, entries released as FATAL stay so: nobody is given them."""
        if self.options.min_idle is None or self.options.dead_letter_stream is not None:
            return
        for group in groups:
            for part in batch.parts(group):
                for name in part.holders():
                    if fatal := group.fatal(name):
                        group.release(fatal)

    def _without_dead(self, group: Group, held: Held) -> Held:
        """What is left of a page once entries that were delivered too often are buried."""
        most = self.options.max_deliveries
        if most is None:
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
        """Keep others from claiming a batch that takes longer than their patience."""
        if self.options.min_idle:
            self._stop_lease()
            self._lease = Lease(self.options, batch)
            self._lease.start()

    def _stop_lease(self) -> None:
        if self._lease is not None:
            self._lease.end()
            self._lease = None
