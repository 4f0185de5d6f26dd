"""The text of the metrics endpoint, made in short steps, so that clients do not wait.

Needs the library prometheus-client (`pip install 'headrace[metrics]'`), which writes both formats, that of Prometheus
and OpenMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ...store.stream import Stream
from .info_source import Source
from .series import CAP_SERIES, GROUP_SERIES, SERVER_SERIES, STREAM_SERIES, GroupView, Histogram, Samples, Series, Value

STREAM_COUNT_PER_STEP: Final = 50

# Groups of one stream that have series; `metrics-streams-max` bounds the streams.
GROUP_COUNT_MAX: Final = 100

OPENMETRICS_END: Final = b"# EOF\n"

# Yields between steps; returns the text and its content type.
Steps = Generator[None, None, tuple[bytes, str]]

# Label values, and the value of every series of its table.
Row = tuple[tuple[str, ...], tuple[Value | None, ...]]


class Harvest:
    """The values of at most `streams_max` streams."""

    def __init__(self, source: Source, streams_max: int) -> None:
        self._source = source
        self._streams_max = streams_max
        self.streams: list[Row] = []
        self.groups: list[Row] = []
        self.streams_left_out = 0
        self.groups_left_out = 0

    def steps(self) -> Generator[None, None, None]:
        """Read the streams, oldest key first. Streams that are added or deleted meanwhile may be missed."""
        for db in self._source.store.databases:
            shown = list(islice(db.streams, self._streams_max - len(self.streams)))
            self.streams_left_out += len(db.streams) - len(shown)
            for start in range(0, len(shown), STREAM_COUNT_PER_STEP):
                now_ms = self._source.clock()
                for key in shown[start : start + STREAM_COUNT_PER_STEP]:
                    stream = db.streams.get(key)
                    if stream is not None:
                        self._add(stream, (str(db.index), _shown(key)), now_ms)
                yield

    def _add(self, stream: Stream, labels: tuple[str, str], now_ms: int) -> None:
        self.streams.append((labels, tuple(series.read(stream) for series in STREAM_SERIES)))
        for group in islice(stream.groups.values(), GROUP_COUNT_MAX):
            view = GroupView(stream, group, now_ms)
            values = tuple(series.read(view) for series in GROUP_SERIES)
            self.groups.append(((*labels, _shown(group.name)), values))
        self.groups_left_out += max(0, len(stream.groups) - GROUP_COUNT_MAX)


def render_steps(source: Source, accept: str) -> Steps:
    """All series, in the format that the HTTP header Accept asks for."""
    encode, content_type = choose_encoder(accept)
    pieces = []
    for series in SERVER_SERIES:
        pieces.append(_encoded(encode, series, series.read(source)))
        yield
    harvest = Harvest(source, source.config.metrics_streams_max)
    yield from harvest.steps()
    for table, rows in ((STREAM_SERIES, harvest.streams), (GROUP_SERIES, harvest.groups)):
        for index, series in enumerate(table):
            pieces.append(_encoded(encode, series, _column(rows, index)))
            yield
    pieces += [_encoded(encode, series, [((), series.read(harvest))]) for series in CAP_SERIES]
    if OPENMETRICS_END in pieces[0]:
        pieces = [piece.removesuffix(OPENMETRICS_END) for piece in pieces] + [OPENMETRICS_END]
    return b"".join(pieces), content_type


def _column(rows: Iterable[Row], index: int) -> Samples:
    for labels, values in rows:
        value = values[index]
        if value is not None:
            yield labels, value


class _Family(Collector):
    """One series in the form that the library takes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


_FAMILIES: Final[dict[str, Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _encoded(encode: Callable[[CollectorRegistry], bytes], series: Series, samples: Samples) -> bytes:
    metric = _FAMILIES[series.kind](series.name, series.text, labels=series.labels)
    for labels, value in samples:
        if isinstance(value, Histogram):
            buckets = [(str(edge_s), count) for edge_s, count in value.buckets]
            metric.add_metric(labels, [*buckets, ("+Inf", value.count)], value.sum_s)
        else:
            metric.add_metric(labels, value)
    registry = CollectorRegistry()
    registry.register(_Family(metric))
    return encode(registry)


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
