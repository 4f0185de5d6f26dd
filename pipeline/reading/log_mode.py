"""spark.readStream, mode=log: Spark's checkpoint keeps the position, and a repeated batch reads the same entries.

Offsets are positions by key. The query only reads ranges, so several queries do not affect each other. The consumer
group of the option `group` only follows the position of the query, for monitoring.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...store.ids import format_id, parse_id
from ..columns.decode import Decoder
from ..connection.client import Connection, ReplyError
from ..connection.streams import key_bytes
from ..errors import OptionError
from ..options.kinds import StreamOptions, cores, known_keys, last_before, required
from .batch import SpanPartition
from .pages import raise_loss, read_whole_span
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
from .survey import MISSING, first_after, measure, resolve_streams, states

logger = logging.getLogger("headrace.pipeline")

# The part of an error that says what to do about a checkpoint with streams that the query no longer names.
CHECKPOINT_ADVICE = "add it to the option stream, or use another checkpointLocation"


class HeadraceLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, in one process for each query, and reads them in the executors."""

    def __init__(self, options: StreamOptions, decoder: Decoder) -> None:
        self.options = options
        self.decoder = decoder
        self._opened: Connection | None = None
        # The positions at which a query with availableNow ends.
        self._target: Offsets | None = None
        self._published: Offsets = {}
        self._waiting_since: float | None = None
        self._warned: list[Position] = []
        # Streams that did not exist when they were last read, each reported once.
        self._missing: set[str] = set()
        # States of the streams when they were last read.
        self._seen: dict[str, StreamState] = {}
        # Number of batches, which decides the turns of streams when the limit is smaller than their number.
        self._turn = 0

    # -- methods that Spark calls ----------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the option `maxEntriesPerTrigger` as Spark's limit."""
        most = self.options.max_entries_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        """Returns the position where a new query begins. Raises PipelineError."""
        found = self._look()
        known_keys("startingOffsets", self.options.starting_offsets, found)
        return offsets_to_json({key: self._first_position(key, state) for key, state in found.items()})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the position where the next batch ends. Raises PipelineError.

        Spark has committed everything before `start`, so the group moves there.
        """
        begun = offsets_from_json(start)
        self._refuse_other_streams(begun)
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
        """Returns the ends of the streams. Spark shows them next to the end offset in the query's progress."""
        return offsets_to_json({key: state.end for key, state in self._seen.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the parts of a batch, always the same ones for the same offsets.

        Raises DataLoss, because a repeated batch may have lost entries since it was planned.
        """
        begin, finish = offsets_from_json(start), offsets_from_json(end)
        read = [key for key, position in finish.items() if position != begin.get(key)]
        found = states(self._connection, read) if read else {}
        known = {key: begin[key] for key in read if key in begin}
        self._check(known, found)
        # These losses were logged already; without a count their readers do not log them again.
        begin |= {key: replace(position, n=UNKNOWN) for key, position in known.items() if position in self._warned}
        return [SpanPartition(span, expected) for span, expected in spans_between(begin, finish, found)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns the RecordBatches of a partition."""
        if not isinstance(partition, SpanPartition):
            return iter(())
        return read_whole_span(self.options, self.decoder, partition.span, partition.expected)

    def commit(self, end: dict[str, Any]) -> None:
        """Moves the group to the end of a committed batch.

        Spark calls it late, and not for the last batch; `latestOffset` moves the group earlier.
        """
        self._publish(offsets_from_json(end))

    def prepareForTriggerAvailableNow(self) -> None:
        """Sets the ends of the streams as the end of the query."""
        self._target = {key: state.end for key, state in self._look().items()}

    def stop(self) -> None:
        """Closes the connection. Spark usually ends the process without calling it."""
        if self._opened is not None:
            self._opened.close()

    # -- planning --------------------------------------------------------------------------------

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = Connection(self.options)
        return self._opened

    def _look(self, known: Mapping[str, Position] | None = None) -> dict[str, StreamState]:
        """Returns the states of the streams that exist now, and of those in `known`."""
        keys = resolve_streams(self._connection, self.options.stream, self.options.stream_pattern)
        self._seen = states(self._connection, dict.fromkeys([*keys, *(known or ())]))
        for key, state in self._seen.items():
            if state is MISSING and key not in self._missing:
                self._missing.add(key)
                logger.warning("there is no stream %s on %s: it is read if it is made", key, self.options.address)
        return self._seen

    def _refuse_other_streams(self, begun: Offsets) -> None:
        """Raises OptionError if the checkpoint has a stream that the option `stream` does not name.

        That stream would be read as well, or reported as lost once it is deleted.
        """
        other = begun.keys() - set(self.options.stream)
        if self.options.stream and other:
            raise OptionError(
                f"the checkpoint of this query has the position of stream {min(other)}, which is not selected: "
                f"{CHECKPOINT_ADVICE}"
            )

    def _first_position(self, key: str, state: StreamState) -> Position:
        options = self.options
        if options.starting_timestamp is not None:
            if options.starting_timestamp > time.time() * 1000:
                raise OptionError("option startingTimestamp is in the future: leave it out to read new entries")
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
        """Adds the following entry to a position without a count.

        Returns `end`, which has a count, if no entry follows.
        """
        if position.n != UNKNOWN or position.last > end.last:
            return position
        following = first_after(self._connection, key, position.last) if position.last < end.last else 0
        if following or end.deleted > max(position.last, position.deleted):  # in the second case `_check` finds a loss
            return position.before(following)
        return end

    def _check(self, begin: Offsets, found: Mapping[str, StreamState]) -> Offsets:
        """Returns the positions where reading continues. Raises DataLoss or logs a warning if entries are lost."""
        checked = dict(begin)
        for key, position in begin.items():
            loss = find_loss(key, position, found[key])
            if loss is not None:
                if self.options.fail_on_data_loss:
                    raise_loss(loss)
                if position not in self._warned:
                    self._warned.append(position)
                    logger.warning("%s (failOnDataLoss is false: reading the entries that are left)", loss)
                checked[key] = loss.resume
        return checked

    def _is_waiting(self, count: int) -> bool:
        """Whether a batch of `count` entries should wait for more (minEntriesPerTrigger)."""
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
        """Returns the position `count` entries after `begin`, with its cuts; `end` if these are all entries."""
        options = self.options
        parts = min(options.min_partitions or cores(), -(-count // options.page_size))
        if not is_all or parts > 1:
            steps = even_steps(count, parts)
            found = measure(self._connection, key, Position(begin.last, begin.n), steps, end.last)
            if not is_all and found and found[-1].last < end.last:
                end = self._anchored(key, replace(found[-1], deleted=end.deleted), end)
            end = replace(end, cuts=tuple(one.last for one in found if one.last < end.last))
        return replace(end, since=begin.last if begin.last == 0 else None)

    # -- the group for monitoring ----------------------------------------------------------------

    def _publish(self, offsets: Offsets) -> None:
        """Moves the group of the option `group` to the query's position; creates the group if it is missing."""
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
