"""The data source `headrace`: `spark.read.format("headrace")`, and `readStream`, `write`, `writeStream` likewise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .batch import FilteringBatchReader, HeadraceBatchReader
from .decode import META, PERMISSIVE, Decoder
from .errors import OptionError
from .options import BatchOptions, ReadOptions, parse

UNTYPED_SCHEMA = "_stream string, _id string, _ts timestamp, _fields map<string,string>"
TYPED_SCHEMA = "_stream string, _id string, _ts timestamp, {fields}"
COMPLEX = ("array", "map", "struct", "variant", "interval")


class HeadraceDataSource(DataSource):
    """Streams of Headrace, or of Redis 7 and later, as DataFrames."""

    @classmethod
    def name(cls) -> str:
        """The word for `format()`."""
        return "headrace"

    def schema(self) -> str:
        """The columns where the user names none: what the option `fields` says, or all fields as one map."""
        given = {name.lower(): text for name, text in self.options.items()}
        if not given.get("fields"):
            return UNTYPED_SCHEMA
        corrupt = given.get("parsemode", PERMISSIVE).upper() == PERMISSIVE
        return TYPED_SCHEMA.format(fields=given["fields"]) + (", _corrupt map<string,binary>" if corrupt else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """For spark.read."""
        options = parse(BatchOptions, self.options)
        kind = FilteringBatchReader if options.push_down_filters else HeadraceBatchReader
        return kind(options, decoder(schema, options))


def decoder(schema: StructType, options: ReadOptions) -> Decoder:
    """Checks the columns, and turns them into Arrow's. Raises OptionError."""
    for column in schema:
        kind = column.dataType.simpleString()
        meta = META.get(column.name)
        if meta is not None and kind not in meta.types:
            raise OptionError(f"column {column.name} is {' or '.join(meta.types)}, not {kind}")
        if meta is None and column.name.startswith("_"):
            raise OptionError(f"there is no column {column.name}; names with _ are {', '.join(META)}")
        if meta is None and kind.startswith(COMPLEX):
            raise OptionError(f"column {column.name} cannot be {kind}: read it as string and use from_json")
    return Decoder(to_arrow_schema(schema, timezone="UTC"), options.parse_mode)


def register(spark: Any) -> None:
    """Make `format("headrace")` known to a session; needed only where the package was not installed as a wheel."""
    spark.dataSource.register(HeadraceDataSource)


Options = Mapping[str, str]
