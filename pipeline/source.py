"""The data source `headrace`, for `spark.read`, `readStream`, `write` and `writeStream`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .columns.decode import META, PERMISSIVE, Decoder
from .columns.fields import check_fields
from .errors import OptionError
from .options.kinds import (
    BatchOptions,
    QueueOptions,
    ReadOptions,
    SettleOptions,
    StreamOptions,
    WriteOptions,
    parse,
    required,
)
from .reading.batch import FilteringBatchReader, HeadraceBatchReader
from .reading.log_mode import HeadraceLogReader
from .reading.queue_mode import HeadraceQueueReader
from .writing.encode import (
    ACK_ID,
    ACK_STREAM,
    FIELDS,
    ID,
    IID,
    NO_STREAM,
    PAIRS,
    PID,
    RESERVED,
    STREAM,
    TWO_STREAMS,
    trimming,
)
from .writing.settle import COLUMNS as SETTLE_COLUMNS
from .writing.settle import SettleWriter, StreamSettleWriter
from .writing.sink import HeadraceStreamWriter, HeadraceWriter

UNTYPED_SCHEMA = "_stream string, _id string, _ts timestamp, _fields map<string,string>"
TYPED_SCHEMA = "_stream string, _id string, _ts timestamp, {fields}"
COMPLEX = ("array", "map", "struct", "variant", "interval")


class HeadraceDataSource(DataSource):
    """Streams of Headrace, or of Redis 7 and later, as DataFrames."""

    @classmethod
    def name(cls) -> str:
        """The name for `format()`."""
        return "headrace"

    def schema(self) -> str:
        """The columns of a query without its own schema: those of the option `fields`, or all fields as one map.

        Raises OptionError.
        """
        given = {name.lower(): text for name, text in self.options.items()}
        if not given.get("fields"):
            return UNTYPED_SCHEMA
        check_fields(given["fields"])
        corrupt = given.get("parsemode", PERMISSIVE).upper() == PERMISSIVE
        return TYPED_SCHEMA.format(fields=given["fields"]) + (", _corrupt map<string,binary>" if corrupt else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Makes the reader for `spark.read`."""
        if self._mode not in ("", "log"):
            raise OptionError("option mode is for readStream: leave it out, a batch reads ranges of streams")
        options = parse(BatchOptions, self.options)
        kind = FilteringBatchReader if options.push_down_filters else HeadraceBatchReader
        return kind(options, decoder(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Makes the reader for `spark.readStream`: log mode, or queue mode with `mode=queue`."""
        if self._mode == "queue":
            taking = parse(QueueOptions, self.options)
            required("group", taking.group)
            return HeadraceQueueReader(taking, decoder(schema, taking))
        if self._mode not in ("", "log"):
            raise OptionError("option mode must be log or queue")
        options = parse(StreamOptions, self.options)
        return HeadraceLogReader(options, decoder(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Makes the writer for `df.write`: rows become entries, or with `mode=settle` settle entries."""
        self._require_writing_mode()
        if self._mode == "settle":
            return SettleWriter(settling(schema, self.options))
        return HeadraceWriter(writing(schema, self.options), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Makes the writer for `df.writeStream`: rows become entries, or with `mode=settle` settle entries."""
        if overwrite:
            raise OptionError("outputMode complete would write everything again with each batch: use update or append")
        self._require_writing_mode()
        if self._mode == "settle":
            return StreamSettleWriter(settling(schema, self.options))
        return HeadraceStreamWriter(writing(schema, self.options))

    def _require_writing_mode(self) -> None:
        if self._mode not in ("", "settle"):
            raise OptionError("option mode must be settle, or be left out to write rows")

    @property
    def _mode(self) -> str:
        return next((text.lower() for name, text in self.options.items() if name.lower() == "mode"), "")


def writing(schema: StructType, given: Mapping[str, str]) -> WriteOptions:
    """Checks the options and columns for writing rows, and returns the options. Raises PipelineError."""
    options = parse(WriteOptions, given)
    trimming(options)
    names = {column.name for column in schema}
    for column in schema:
        kind = column.dataType.simpleString()
        if column.name.startswith("_") and column.name not in RESERVED:
            raise OptionError(f"column {column.name} cannot be written; names with _ are {', '.join(RESERVED)}")
        if column.name in (FIELDS, PAIRS):
            if kind not in META[column.name].types:
                raise OptionError(f"column {column.name} is {' or '.join(META[column.name].types)}, not {kind}")
        elif kind.startswith(COMPLEX):
            raise OptionError(f"column {column.name} is {kind}: turn it into text with to_json first")
    if options.stream and STREAM in names:
        raise OptionError(TWO_STREAMS)
    needed = {
        "stream": not options.stream and STREAM not in names and STREAM,
        "idempotency=column": options.idempotency == "column" and IID not in names and IID,
        "idMode=explicit": options.id_mode == "explicit" and ID not in names and ID,
        "ackGroup": bool(options.ack_group) and ACK_ID not in names and ACK_ID,
        "ackGroup without ackStream": bool(options.ack_group)
        and not options.ack_stream
        and ACK_STREAM not in names
        and ACK_STREAM,
    }
    for name, column_name in needed.items():
        if column_name == STREAM:
            raise OptionError(NO_STREAM)
        if column_name:
            raise OptionError(f"option {name} needs a column {column_name}")
    if not names - {STREAM, ID, IID, PID, ACK_ID, ACK_STREAM}:
        raise OptionError("the rows have no column that could be a field")
    return options


def settling(schema: StructType, given: Mapping[str, str]) -> SettleOptions:
    """Checks the options and columns for settling entries, and returns the options. Raises PipelineError."""
    options = parse(SettleOptions, given)
    required("group", options.group)
    missing = set(SETTLE_COLUMNS) - {column.name for column in schema}
    if missing:
        raise OptionError(f"mode=settle needs the columns {', '.join(SETTLE_COLUMNS)}; {sorted(missing)[0]} is missing")
    return options


def decoder(schema: StructType, options: ReadOptions) -> Decoder:
    """Checks the columns to read, and returns the decoder that makes them. Raises OptionError."""
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
    """Registers `format("headrace")` with a session. Needed only if the package is not installed as a wheel."""
    spark.dataSource.register(HeadraceDataSource)
