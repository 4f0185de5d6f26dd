"""spark.readStream, mode=queue: batches are taken from a consumer group that others may work on as well.

A batch must be fixed before its first row is read, for Spark may repeat it; deliveries are no range of IDs. So each
part of a batch is a consumer, `<consumer>-<batch>-<part>`, and the entries of the part are what this consumer holds. A
repeated batch reads the same consumers again. When Spark has committed the batch, what they hold is acknowledged, and
they are deleted. At least once: an entry that somebody claims from a batch under way is read by both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from .connection import Connection, LostConnection
from .decode import Decoder, Deliveries
from .errors import OptionError, PipelineError
from .group import FATAL, Group, Held
from .options import QueueOptions, cores
from .spans import even_steps
from .survey import key_bytes

ACTIVE_MS = 10_000
"""A consumer that did something less long ago than this belongs to a query that runs."""


@dataclass
class Share(InputPartition):
    """The part of a batch that one consumer holds, in one stream."""

    stream: str
    consumer: str


def consumer_name(prefix: str, sequence: int, part: int) -> str:
    """The consumer that holds a part of a batch."""
    return f"{prefix}-{sequence}-{part}"


class HeadraceQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes batches in the driver, in one process for each query, and reads them in the executors."""

    def __init__(self, options: QueueOptions, decoder: Decoder) -> None:
        if (options.max_deliveries is None) != (options.dead_letter_stream is None):
            raise OptionError(
                "options maxDeliveries and deadLetterStream need each other: set both, or neither to bury nothing"
            )
        if not options.stream:
            raise OptionError("option stream is missing")
        self.options = options
        self.decoder = decoder
        self._opened: Connection | None = None
        self._lease: Lease | None = None
        self._has_claim: bool | None = None
        self._planned: int | None = None
        """The last batch that this process has taken: a batch that it has not is one that is repeated."""
        self._left: int | None = None
        """Entries that a query with availableNow may still take."""

    # -- what Spark asks -------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxEntriesPerTrigger."""
        return ReadMaxRows(self.options.max_entries_per_trigger)

    def initialOffset(self) -> dict[str, Any]:
        """Before the first batch. Raises PipelineError if there is no such group, or another query uses the names."""
        prefix = self.options.consumer + "-"
        for group in [] if self._planned is not None else self._groups():  # Spark asks again after the first batch
            for name, row in group.consumers().items():
                if name.startswith(prefix) and row[b"pending"] and row[b"idle"] < ACTIVE_MS:
                    raise PipelineError(
                        f"group {group.name} has a consumer {name} that is active: another query uses the same names; "
                        "give each its own with the option consumer"
                    )
        return {"seq": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Take the next batch; the one that ends with `start` has been committed and is acknowledged first."""
        sequence = int(start["seq"])
        self._stop_lease()
        self._settle(sequence)
        groups = self._groups()
        prefix, following = self.options.consumer, sequence + 1
        holders = {name for group in groups for name, row in group.consumers().items() if row[b"pending"]}
        if not any(name.startswith(f"{prefix}-{following}-") for name in holders):
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_entries_per_trigger
            self._take(groups, following, most)
        else:
            self._release_fatal(groups, following)
        if not self._shares(following):
            self._drop_empty(groups, following)
            return start
        self._planned = following
        self._start_lease(following)
        return {"seq": following}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of a batch. One that is repeated counts as another delivery of its entries."""
        planned: list[InputPartition] = []
        for sequence in range(int(start["seq"]) + 1, int(end["seq"]) + 1):
            shares = self._shares(sequence)
            if self._planned is None or sequence > self._planned:
                self._count_again(shares)
                self._start_lease(sequence)
            planned += shares
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
            group = Group(connection, partition.stream, options.group, options.page_size)
            try:
                for held in group.held(partition.consumer):
                    live = self._without_dead(group, held)
                    if live.ids:
                        yield self._decode(group, partition, live)
            except Exception:  # not GeneratorExit
                # Released entries come back by CLAIM alone.
                if options.min_idle is not None:
                    _release_rest(group, partition.consumer)
                raise

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends here is done; comes late, and not for the last one (see `latestOffset`)."""
        self._settle(int(end["seq"]))

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now: new entries as far as the server can count them, and pending ones."""
        left = 0
        for group in self._groups():
            lag = group.backlog()
            left += group.pending_count() + (
                self._connection.call("XLEN", key_bytes(group.stream)) if lag is None else lag
            )
        self._left = left

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

    def _groups(self, connection: Connection | None = None) -> list[Group]:
        options = self.options
        made = connection or self._connection
        return [Group(made, stream, options.group, options.page_size) for stream in options.stream]

    def _shares(self, sequence: int) -> list[Share]:
        """The parts of a batch that hold anything."""
        prefix = f"{self.options.consumer}-{sequence}-"
        return [
            Share(group.stream, name)
            for group in self._groups()
            for name, row in sorted(group.consumers().items())
            if name.startswith(prefix) and row[b"pending"]
        ]

    def _take(self, groups: list[Group], sequence: int, most: int) -> None:
        options = self.options
        if self._left is not None:
            most = min(most, self._left)
        if most <= 0:
            return
        min_idle_ms = None if options.min_idle is None else round(options.min_idle * 1000)
        if min_idle_ms is not None:
            self._require_claim()
        per_stream = even_steps(most, len(groups))
        for group, count in zip(groups, per_stream, strict=False):
            # A group that is missing is told here: replies to what follows are suppressed.
            if group.backlog() == 0 and (min_idle_ms is None or not group.pending_count()):
                continue
            counts = even_steps(count, options.min_partitions or cores())
            names = [consumer_name(options.consumer, sequence, part) for part in range(len(counts))]
            takes = list(zip(names, counts, strict=True))
            group.take(takes, min_idle_ms)
            if min_idle_ms is not None and options.dead_letter_stream is None:
                self._take_instead_of_fatal(group, takes, min_idle_ms)
        self._release_fatal(groups, sequence)
        if self._left is not None:
            taken = sum(
                row[b"pending"]
                for group in groups
                for name, row in group.consumers().items()
                if name.startswith(f"{options.consumer}-{sequence}-")
            )
            self._left -= taken

    def _take_instead_of_fatal(self, group: Group, takes: list[tuple[str, int]], min_idle_ms: int) -> None:
        """Take as many more as were released as FATAL; these are held until then, or they would come again."""
        seen: set[bytes] = set()
        while True:
            fresh = {name: set(group.fatal(name)) - seen for name, _ in takes}
            if not any(fresh.values()):
                return
            seen.update(*fresh.values())
            group.take([(name, len(ids)) for name, ids in fresh.items() if ids], min_idle_ms)

    def _release_fatal(self, groups: list[Group], sequence: int) -> None:
        """Without dead letters, entries released as FATAL stay so: nobody is given them."""
        if self.options.min_idle is None or self.options.dead_letter_stream is not None:
            return
        prefix = f"{self.options.consumer}-{sequence}-"
        for group in groups:
            for name, row in group.consumers().items():
                if name.startswith(prefix) and row[b"pending"] and (fatal := group.fatal(name)):
                    group.release(fatal)

    def _require_claim(self) -> None:
        """Raises OptionError where XREADGROUP knows no CLAIM: an error among suppressed replies would go unseen."""
        if self._has_claim is None:
            missing = "headrace:no-such-key"
            words = ("XREADGROUP", "GROUP", self.options.group, "probe", "CLAIM", 1, "STREAMS", missing, ">")
            self._has_claim = str(self._connection.call_all([words])[0]).startswith("NOGROUP")
        if not self._has_claim:
            raise OptionError(
                "option minIdle: this server cannot claim so (Headrace and Redis 8.4 can): set minIdle=off"
            )

    def _drop_empty(self, groups: list[Group], sequence: int) -> None:
        """Delete the consumers of a batch for which there was nothing."""
        for group in groups:
            for name in group.consumers():
                if name.startswith(f"{self.options.consumer}-{sequence}-"):
                    group.drop(name)

    def _settle(self, sequence: int) -> None:
        """Acknowledge what the consumers of a committed batch hold, and delete them; harmless if done before."""
        prefix = f"{self.options.consumer}-{sequence}-"
        for group in self._groups():
            for name in [name for name in group.consumers() if name.startswith(prefix)]:
                if self.options.ack_mode != "manual":
                    while held := next(group.held(name), None):
                        group.acknowledge(held.ids, delete=self.options.ack_mode == "delete")
                group.drop(name)

    def _count_again(self, shares: list[Share]) -> None:
        for share in shares:
            group = Group(self._connection, share.stream, self.options.group, self.options.page_size)
            for held in group.held(share.consumer):
                for count in set(held.counts) - {FATAL}:
                    ids = [one for one, own in zip(held.ids, held.counts, strict=True) if own == count]
                    group.renew(share.consumer, ids, count + 1)

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

    def _decode(self, group: Group, share: Share, held: Held) -> Any:
        page = group.entries(held.ids)
        if len(page) != len(held.ids):  # entries that were deleted from the stream stay pending
            ids = page.ids.to_pylist()
            there = set(ids)
            keep = [index for index, one in enumerate(held.ids) if one in there]
            held = Held(ids, [held.idle_ms[i] for i in keep], [held.counts[i] for i in keep])
        return self.decoder.decode(share.stream, page, Deliveries(share.consumer, held.counts, held.idle_ms))

    # -- the lease -------------------------------------------------------------------------------

    def _start_lease(self, sequence: int) -> None:
        """Keep others from claiming a batch that takes longer than their patience."""
        if self.options.min_idle:
            self._stop_lease()
            self._lease = Lease(self, sequence, self.options.min_idle / 3)
            self._lease.start()

    def _stop_lease(self) -> None:
        if self._lease is not None:
            self._lease.end()
            self._lease = None


class Lease(threading.Thread):
    """Renews the idle time of what a batch holds, every so often, on a connection of its own."""

    def __init__(self, reader: HeadraceQueueReader, sequence: int, every_s: float) -> None:
        super().__init__(daemon=True)
        self._reader = reader
        self._sequence = sequence
        self._every_s = every_s
        self._ended = threading.Event()

    def run(self) -> None:
        """See `Lease`. A lease that cannot be renewed is not the query's end: its entries are then read twice."""
        options = self._reader.options
        while not self._ended.wait(self._every_s):
            try:
                with Connection(options) as connection:
                    for group in self._reader._groups(connection):
                        self.renew(group)
            except (PipelineError, LostConnection):
                continue

    def renew(self, group: Group) -> None:
        """Renew what the batch holds in one stream."""
        prefix = f"{self._reader.options.consumer}-{self._sequence}-"
        for name, row in group.consumers().items():
            if name.startswith(prefix) and row[b"pending"]:
                for held in group.held(name):
                    if not self._ended.is_set():
                        group.renew(name, held.ids)

    def end(self) -> None:
        """Renew no more."""
        self._ended.set()
        self.join()


def _release_rest(group: Group, consumer: str) -> None:
    """Release what a consumer holds. That the server is gone as well is no reason to hide why the task failed."""
    try:
        while held := next(group.held(consumer), None):
            group.release(held.ids)
    except PipelineError:
        return
