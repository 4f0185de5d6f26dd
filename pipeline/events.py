"""The data source `headrace-aof`: append-only files as a table of events, scanned in parallel.

spark.dataSource.register(LogDataSource)
spark.read.format("headrace-aof").load("/var/lib/headrace/appendonlydir")
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .aof.scan import scan
from .aof.splits import SPLIT_SIZE, Split, log_files, plan_splits
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
        """The name for `format()`."""
        return "headrace-aof"

    def schema(self) -> str:
        """The columns: one row for each entry that a record names."""
        return EVENT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Makes the reader of a log. Raises OptionError."""
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
    """Plans splits in the driver, and scans them in the executors, which must have the same files."""

    def __init__(self, path: str, split_size: int, schema: Any) -> None:
        self.path = path
        self.split_size = split_size
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plans one partition for each split. Raises BadLog."""
        return [SplitPartition(split) for split in plan_splits(log_files(Path(self.path)), self.split_size)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the events of a split as RecordBatches. Raises BadLog."""
        if not isinstance(partition, SplitPartition):
            return
        yield from scan(partition.split, self.schema)


def read_events(spark: SparkSession, path: str | Path, split_size: int = SPLIT_SIZE) -> DataFrame:
    """Returns the events of a log as a DataFrame. Reading it raises BadLog if the log cannot be understood."""
    spark.dataSource.register(LogDataSource)
    return spark.read.format("headrace-aof").option("splitSize", split_size).load(str(path))
