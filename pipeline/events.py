"""The data source `headrace-aof`: append-only files as a table of events, scanned in parallel.

spark.dataSource.register(LogDataSource)
spark.read.format("headrace-aof").load("/var/lib/headrace/appendonlydir")
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .aof import SPLIT_SIZE, Events, Split, log_files, plan_splits, scan
from .errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_SCHEMA = (
    "part int, split bigint, n bigint, db int, ts bigint, kind string, stream string, grp string, consumer string, "
    "id string, time_ms bigint, deliveries bigint"
)


class LogDataSource(DataSource):
    """Append-only files. Options: `path` (a folder with its manifest, or one file) and `splitSize` (bytes)."""

    @classmethod
    def name(cls) -> str:
        """The word for `format()`."""
        return "headrace-aof"

    def schema(self) -> str:
        """One row for each entry that a record is about."""
        return EVENT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises OptionError."""
        given = {name.lower(): text for name, text in self.options.items()}
        if not given.get("path"):
            raise OptionError("option path is missing: name the folder of a log, or one file")
        size = given.get("splitsize", str(SPLIT_SIZE))
        if not size.isdigit() or not int(size):
            raise OptionError("option splitSize must be a number of bytes")
        return LogReader(given["path"], int(size), to_arrow_schema(schema, timezone="UTC"))


@dataclass
class SplitPartition(InputPartition):
    """A split to scan in one task."""

    split: Split


class LogReader(DataSourceReader):
    """Plans splits in the driver and scans them in the executors, which must see the same files."""

    def __init__(self, path: str, split_size: int, schema: Any) -> None:
        self.path = path
        self.split_size = split_size
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Raises BadLog."""
        return [SplitPartition(split) for split in plan_splits(log_files(Path(self.path)), self.split_size)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """RecordBatches of events. Raises BadLog."""
        if not isinstance(partition, SplitPartition):
            return
        # Records are lists that die young; looking for cycles among them costs a third of the time.
        gc.disable()
        try:
            for events in scan(partition.split):
                yield to_arrow(partition.split, events, self.schema)
        finally:
            gc.enable()


def read_events(spark: SparkSession, path: str | Path, split_size: int = SPLIT_SIZE) -> DataFrame:
    """The events of a log as a DataFrame. Raises BadLog when it is read."""
    spark.dataSource.register(LogDataSource)
    return spark.read.format("headrace-aof").option("splitSize", split_size).load(str(path))


def to_arrow(split: Split, events: Events, schema: Any) -> Any:
    """Events as a RecordBatch of EVENT_SCHEMA."""
    count = len(events)
    columns = [
        pa.repeat(pa.scalar(split.part, pa.int32()), count),
        pa.repeat(pa.scalar(split.start, pa.int64()), count),
        pa.array(events.n, pa.int64()),
        pa.array(events.db, pa.int32()),
        pa.array(events.ts, pa.int64()),
        pa.array(events.kind, pa.string()),
        *(_text(values) for values in (events.stream, events.grp, events.consumer, events.id)),
        pa.array(events.time_ms, pa.int64()),
        pa.array(events.deliveries, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _text(values: Sequence[bytes | None]) -> Any:
    column = pa.array(values, pa.binary())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value and value.decode("utf-8", "replace") for value in values], pa.string())
