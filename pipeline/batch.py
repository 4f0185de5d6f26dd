"""spark.read: ranges of streams in partitions of about equal size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ..store.ids import ID_MAX, StreamID, id_after, id_before
from .connection import Connection
from .decode import Decoder
from .options import BatchOptions, cores, known_keys, last_before, last_within
from .pushdown import Bounds, narrow
from .reading import raise_loss, read_whole_span
from .spans import Expected, Position, Span, StreamState, choose_cuts, find_loss, split
from .survey import measure, resolve_streams, states

CUTS_PER_PARTITION = 8
"""Finer steps than partitions: those of a range whose share of the stream is not known beforehand come out even too."""


@dataclass
class SpanPartition(InputPartition):
    """A span to read in one task."""

    span: Span
    expected: Expected


@dataclass(frozen=True)
class BatchPlan:
    """What is known before the server is asked about IDs."""

    options: BatchOptions
    bounds: Bounds

    def span(self, key: str, state: StreamState) -> Span:
        """What to read of a stream."""
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
        """The ID that the user says was read last."""
        offsets = self.options.starting_offsets
        return Position(offsets[key]) if isinstance(offsets, Mapping) and offsets.get(key) else None


class HeadraceBatchReader(DataSourceReader):
    """Reads what `options` name, in partitions."""

    def __init__(self, options: BatchOptions, decoder: Decoder) -> None:
        self.options = options
        self.decoder = decoder
        self.bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Plan. Raises PipelineError."""
        options, plan = self.options, BatchPlan(self.options, self.bounds)
        with Connection(options) as connection:
            keys = resolve_streams(connection, options.stream, options.stream_pattern)
            known_keys("startingOffsets", options.starting_offsets, keys)
            known_keys("endingOffsets", options.ending_offsets, keys)
            found = states(connection, [key for key in keys if self.bounds.has_stream(key)])
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
        """The RecordBatches of a partition."""
        if not isinstance(partition, SpanPartition):  # Spark's stand-in for an empty list of partitions
            return iter(())
        return read_whole_span(self.options, self.decoder, partition.span, partition.expected)


class FilteringBatchReader(HeadraceBatchReader):
    """The same, narrowed by filters. A class of its own: Spark refuses readers that could take filters while
    `spark.sql.python.filterPushdown.enabled` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take what narrows the range; give back what Spark has to do itself."""
        for one in filters:
            bounds = narrow(self.bounds, one)
            if bounds is None:
                yield one
            else:
                self.bounds = bounds


def cut(connection: Connection, span: Span, state: StreamState, parts: int, page_size: int) -> list[InputPartition]:
    """A span in about `parts` pieces of about equal size, none much smaller than a page; and what to expect of each."""
    is_whole = span.first <= state.first_id and span.last >= state.last_id
    if parts <= 1 or state.length <= page_size:
        return [SpanPartition(span, Expected(state.length if is_whole else None, state.removed))]
    step = max(page_size, state.length // (parts * CUTS_PER_PARTITION))
    start = replace(state.beginning, last=id_before(span.first))
    if start.last != state.beginning.last:
        start = replace(start, n=-1)
    fine = measure(connection, span.stream, start, [step] * (state.length // step + 1), span.last)
    # The last is at the end or beyond it, and maybe less than a step further on.
    chosen = [index for index in choose_cuts(len(fine), parts) if index < len(fine) - 1]
    spans = split(span.stream, id_before(span.first), span.last, [fine[index].last for index in chosen])
    counts: list[int | None] = [(index - before) * step for before, index in pairwise([-1, *chosen])]
    counts.append(state.length - (chosen[-1] + 1 if chosen else 0) * step if is_whole else None)
    return [SpanPartition(piece, Expected(count, state.removed)) for piece, count in zip(spans, counts, strict=True)]
