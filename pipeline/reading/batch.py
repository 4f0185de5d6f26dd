"""spark.read: reads ranges of streams in partitions of about equal size."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ...store.ids import ID_MAX, StreamID, id_after, id_before
from ..columns.decode import Decoder
from ..connection.client import Connection
from ..options.kinds import BatchOptions, cores, known_keys, last_before, last_within
from .pages import raise_loss, read_whole_span
from .pushdown import Bounds, narrow
from .spans import Expected, Position, Span, StreamState, choose_cuts, find_loss, split
from .survey import MISSING, measure, resolve_streams, states

logger = logging.getLogger("headrace.pipeline")

# Measured steps per partition. The size of a range is not known in advance; fine steps still give even partitions.
CUTS_PER_PARTITION = 8


@dataclass
class SpanPartition(InputPartition):
    """A span to read in one task."""

    span: Span
    expected: Expected


@dataclass(frozen=True)
class BatchPlan:
    """The part of a plan that options and filters decide, before the server measures the streams."""

    options: BatchOptions
    bounds: Bounds

    def span(self, key: str, state: StreamState) -> Span:
        """Returns the span to read of a stream."""
        options = self.options
        after = -1
        if options.starting_timestamp is not None:
            after = last_before(options.starting_timestamp)
        elif isinstance(options.starting_offsets, dict):
            after = options.starting_offsets.get(key, -1)
        last: StreamID = state.last_id
        if options.ending_timestamp is not None:
            last = min(last, last_within(options.ending_timestamp))
        elif isinstance(options.ending_offsets, dict):
            last = min(last, options.ending_offsets.get(key, ID_MAX))
        return Span(key, max(id_after(after), self.bounds.first, state.first_id), min(last, self.bounds.last))

    def starting_position(self, key: str) -> Position | None:
        """Returns the position after which the user wants to start, or None if not given by ID."""
        offsets = self.options.starting_offsets
        return Position(offsets[key]) if isinstance(offsets, Mapping) and offsets.get(key) else None


class HeadraceBatchReader(DataSourceReader):
    """Plans partitions in the driver, and reads them in the executors."""

    def __init__(self, options: BatchOptions, decoder: Decoder) -> None:
        self.options = options
        self.decoder = decoder
        self.bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Plans the partitions. Raises PipelineError."""
        options, plan = self.options, BatchPlan(self.options, self.bounds)
        with Connection(options) as connection:
            keys = resolve_streams(connection, options.stream, options.stream_pattern)
            known_keys("startingOffsets", options.starting_offsets, keys)
            known_keys("endingOffsets", options.ending_offsets, keys)
            found = states(connection, [key for key in keys if self.bounds.has_stream(key)])
            for key, state in found.items():
                if state is MISSING:
                    logger.warning("there is no stream %s on %s: it is read as an empty one", key, options.address)
            if options.fail_on_data_loss:
                for key, state in found.items():
                    position = plan.starting_position(key)
                    raise_loss(find_loss(key, position, state) if position else None)
            spans = {key: plan.span(key, state) for key, state in found.items() if state.length}
            spans = {key: span for key, span in spans.items() if not span.is_empty}
            parts = options.min_partitions or cores()
            total = sum(found[key].length for key in spans) or 1
            planned: list[InputPartition] = []
            for key, span in spans.items():
                own_parts = max(1, round(parts * found[key].length / total))
                planned += cut(connection, span, found[key], own_parts, options.page_size)
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns the RecordBatches of a partition."""
        if not isinstance(partition, SpanPartition):  # Spark's placeholder for an empty list of partitions
            return iter(())
        return read_whole_span(self.options, self.decoder, partition.span, partition.expected)


class FilteringBatchReader(HeadraceBatchReader):
    """A batch reader that applies filters to its ranges.

    It is a class of its own because Spark refuses any reader with `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrows the range by the filters it can express exactly; yields those that Spark has to apply."""
        for one in filters:
            bounds = narrow(self.bounds, one)
            if bounds is None:
                yield one
            else:
                self.bounds = bounds


def cut(connection: Connection, span: Span, state: StreamState, parts: int, page_size: int) -> list[InputPartition]:
    """Cuts a span into about `parts` partitions of about equal size, none much smaller than a page."""
    is_whole = span.first <= state.first_id and span.last >= state.last_id
    if parts <= 1 or state.length <= page_size:
        return [SpanPartition(span, Expected(state.length if is_whole else None, state.removed))]
    step = max(page_size, state.length // (parts * CUTS_PER_PARTITION))
    start = replace(state.beginning, last=id_before(span.first))
    if start.last != state.beginning.last:
        start = replace(start, n=-1)
    fine = measure(connection, span.stream, start, [step] * (state.length // step + 1), span.last)
    # The last position is at the end of the span or after it, so it is not a cut.
    chosen = [index for index in choose_cuts(len(fine), parts) if index < len(fine) - 1]
    spans = split(span.stream, id_before(span.first), span.last, [fine[index].last for index in chosen])
    counts: list[int | None] = [(index - before) * step for before, index in pairwise([-1, *chosen])]
    counts.append(state.length - (chosen[-1] + 1 if chosen else 0) * step if is_whole else None)
    return [SpanPartition(piece, Expected(count, state.removed)) for piece, count in zip(spans, counts, strict=True)]
