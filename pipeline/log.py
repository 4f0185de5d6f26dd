"""spark.readStream, mode=log: Spark's checkpoint says what was read, and a batch that is repeated reads the same.

Offsets are positions by key. The server is asked for ranges and nothing else, so readers do not disturb each other;
the consumer group of the option `group` is only told where the query stands, for monitoring.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ..store.ids import format_id, parse_id
from .batch import SpanPartition
from .connection import Connection, ReplyError
from .decode import Decoder
from .errors import OptionError
from .options import StreamOptions, cores, known_keys, last_before, required
from .reading import raise_loss, read_whole_span
from .spans import (
    UNKNOWN,
    Offsets,
    Position,
    StreamState,
    backlog,
    even_steps,
    find_loss,
    offsets_from_json,
    offsets_to_json,
    share,
    spans_between,
)
from .survey import first_after, key_bytes, measure, resolve_streams, states

logger = logging.getLogger("headrace.pipeline")


class HeadraceLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, in one process for each query, and reads them in the executors."""

    def __init__(self, options: StreamOptions, decoder: Decoder) -> None:
        self.options = options
        self.decoder = decoder
        self._opened: Connection | None = None
        self._target: Offsets | None = None
        """Where a query with availableNow ends."""
        self._published: Offsets = {}
        self._waiting_since: float | None = None
        self._warned: list[Position] = []
        self._seen: dict[str, StreamState] = {}
        """States of the streams at the last look."""
        self._turn = 0
        """Counts batches, for streams that have to take turns."""

    # -- what Spark asks -------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxEntriesPerTrigger."""
        most = self.options.max_entries_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Raises PipelineError."""
        found = self._look()
        known_keys("startingOffsets", self.options.starting_offsets, found)
        return offsets_to_json({key: self._first_position(key, state) for key, state in found.items()})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends. What is before `start` has been committed: the group is told. Raises
        PipelineError.
        """
        begun = offsets_from_json(start)
        self._publish(begun)
        found = self._look(begun)
        ends = {key: state.end for key, state in found.items()} if self._target is None else self._target
        begin = self._check({key: begun.get(key, state.beginning) for key, state in found.items()}, found)
        backlogs = {key: backlog(state, begin[key]) for key, state in found.items()}
        backlogs = {key: count for key, count in backlogs.items() if key in ends and begin[key].last < ends[key].last}
        if self._is_waiting(sum(backlogs.values())):
            return start
        self._turn += 1
        shares = share(backlogs, limit.max_rows, self._turn) if isinstance(limit, ReadMaxRows) else backlogs
        end = begun | {
            key: self._end(key, begin[key], shares[key], is_all=shares[key] == count, end=ends[key])
            for key, count in backlogs.items()
            if shares[key]
        }
        return offsets_to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """What is there to be read: beside the end offset in the query's progress, it shows the lag."""
        return offsets_to_json({key: state.end for key, state in self._seen.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of a batch; for the same offsets the same, always. Raises DataLoss: a batch that is repeated may
        have lost entries since it was planned.
        """
        begin, finish = offsets_from_json(start), offsets_from_json(end)
        read = [key for key, position in finish.items() if position != begin.get(key)]
        found = states(self._connection, read) if read else {}
        known = {key: begin[key] for key in read if key in begin}
        self._check(known, found)
        # What was gone by now has been told of, and is not to be missed again.
        begin |= {key: replace(position, n=UNKNOWN) for key, position in known.items() if position in self._warned}
        return [SpanPartition(span, expected) for span, expected in spans_between(begin, finish, found)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The RecordBatches of a partition."""
        if not isinstance(partition, SpanPartition):
            return iter(())
        return read_whole_span(self.options, self.decoder, partition.span, partition.expected)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends here is done; comes late, and not for the last one (see `latestOffset`)."""
        self._publish(offsets_from_json(end))

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the ends of the streams: the query ends there."""
        self._target = {key: state.end for key, state in self._look().items()}

    def stop(self) -> None:
        """Close the connection. Spark mostly just ends the process."""
        if self._opened is not None:
            self._opened.close()

    # -- planning --------------------------------------------------------------------------------

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = Connection(self.options)
        return self._opened

    def _look(self, known: Mapping[str, Position] | None = None) -> dict[str, StreamState]:
        """The states of the streams that there are now, and of those already read."""
        keys = resolve_streams(self._connection, self.options.stream, self.options.stream_pattern)
        self._seen = states(self._connection, dict.fromkeys([*keys, *(known or ())]))
        return self._seen

    def _first_position(self, key: str, state: StreamState) -> Position:
        options = self.options
        if options.starting_timestamp is not None:
            if options.starting_timestamp > time.time() * 1000:
                raise OptionError("option startingTimestamp lies in the future: leave it out to read what is new")
            first = Position(max(last_before(options.starting_timestamp), 0), deleted=state.max_deleted_id)
            return self._anchored(key, first, state.end) if first.last < state.last_id else state.end
        starting = options.starting_offsets
        if isinstance(starting, dict):
            return self._anchored(key, Position(starting[key]), state.end) if key in starting else state.end
        if starting == "group":
            return self._anchored(key, self._group_position(key, required("group", options.group)), state.end)
        return state.beginning if starting == "earliest" else state.end

    def _group_position(self, key: str, group: str) -> Position:
        rows = self._connection.call("XINFO", "GROUPS", key_bytes(key), doing=f"stream {key}")
        for row in rows:
            known = dict(zip(row[::2], row[1::2], strict=True))
            if known[b"name"] == group.encode():
                n = known[b"entries-read"]
                return Position(parse_id(known[b"last-delivered-id"]), UNKNOWN if n is None else n)
        raise OptionError(f"option startingOffsets: stream {key} has no group {group}")

    def _anchored(self, key: str, position: Position, end: Position) -> Position:
        """A position whose count is not known, with the entry after it; `end`, which has a count, if there is none."""
        if position.n != UNKNOWN or position.last > end.last:
            return position
        following = first_after(self._connection, key, position.last) if position.last < end.last else 0
        if following or end.deleted > max(position.last, position.deleted):  # that is a loss, told by `_check`
            return position.before(following)
        return end

    def _check(self, begin: Offsets, found: Mapping[str, StreamState]) -> Offsets:
        """Where reading can go on. Raises DataLoss, or warns, where entries are gone."""
        checked = dict(begin)
        for key, position in begin.items():
            loss = find_loss(key, position, found[key])
            if loss is not None:
                if self.options.fail_on_data_loss:
                    raise_loss(loss)
                if position not in self._warned:
                    self._warned.append(position)
                    logger.warning("%s (failOnDataLoss is false: going on with what is left)", loss)
                checked[key] = loss.resume
        return checked

    def _is_waiting(self, count: int) -> bool:
        """Whether a batch of so many entries should wait for more."""
        least = self.options.min_entries_per_trigger
        if least is None or self._target is not None or count >= least:
            self._waiting_since = None
            return False
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        if now - self._waiting_since < self.options.max_trigger_delay:
            return True
        self._waiting_since = None
        return False

    def _end(self, key: str, begin: Position, count: int, *, is_all: bool, end: Position) -> Position:
        """The position `count` entries after `begin`, with the cuts between; `end` if that is all there is."""
        options = self.options
        parts = min(options.min_partitions or cores(), -(-count // options.page_size))
        if not is_all or parts > 1:
            steps = even_steps(count, parts)
            found = measure(self._connection, key, Position(begin.last, begin.n), steps, end.last)
            if not is_all and found and found[-1].last < end.last:
                end = self._anchored(key, replace(found[-1], deleted=end.deleted), end)
            end = replace(end, cuts=tuple(one.last for one in found if one.last < end.last))
        return replace(end, since=begin.last if begin.last == 0 else None)

    # -- telling the group -----------------------------------------------------------------------

    def _publish(self, offsets: Offsets) -> None:
        """Move the group of the option `group` to where the query stands."""
        group = self.options.group
        if group is None:
            return
        for key, position in offsets.items():
            if self._published.get(key) == position:
                continue
            entries_read = ("ENTRIESREAD", position.n) if position.n != UNKNOWN else ()
            where = (key_bytes(key), group, format_id(position.last), *entries_read)
            reply = self._connection.call_all([("XGROUP", "SETID", *where)])[0]
            if isinstance(reply, ReplyError) and reply.code == "NOGROUP":
                reply = self._connection.call_all([("XGROUP", "CREATE", *where)])[0]
            if isinstance(reply, ReplyError) and not str(reply).startswith("ERR The XGROUP subcommand requires"):
                raise self._connection.refused(f"group {group} of stream {key}", str(reply))
            self._published[key] = position
