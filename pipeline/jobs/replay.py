"""replay: Parquet or JSON lines to a stream. Repeating it adds nothing.

A row is known by its file and its place there, so the job may be killed and started again. With `--ids keep` entries
get the IDs they had.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..connection import Connection, ReplyError
from ..encode import FIELDS, IID, PID
from ..errors import PipelineError
from ..options import Endpoint
from ..session import local_session
from ..survey import key_bytes
from .archive import PARTITIONS
from .common import Job, Progress, Summary, add_connection, add_spark, connection_options, endpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_ROWS = 5000
"""Rows of a file under one producer: half of what a stream remembers of it."""
CORRUPT = "_corrupt"
NOT_FIELDS = ("_ts", "_ms", "_seq", "_deliveries", "_consumer", "_idle_ms", "_group", "_reason")
"""Columns of archives and of dead letters that say where an entry comes from and are not its fields."""
LOOK_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the command line."""
    parser.add_argument("--path", required=True, help="folder or file to read")
    parser.add_argument("--format", choices=("parquet", "json"), default="parquet", help="default %(default)s")
    parser.add_argument("--stream", help="key to write to; default: the column _stream")
    parser.add_argument("--ids", choices=("new", "keep"), default="new", help="new IDs, or those in _id (default new)")
    parser.add_argument("--rate", type=float, help="entries per second at most")
    parser.add_argument("--where", help="condition in SQL that rows must meet")
    parser.add_argument("--producer", default="replay", help="name under which rows are known (default %(default)s)")
    add_spark(parser)
    add_connection(parser)


def run(arguments: argparse.Namespace) -> Summary:
    """Write the rows. Raises PipelineError."""
    if arguments.rate is not None and arguments.rate <= 0:
        raise PipelineError("--rate must be positive")
    spark = local_session("headrace replay", master=arguments.master)
    rows = _rows(spark, arguments)
    keeps_ids = arguments.ids == "keep"
    if keeps_ids and "_id" not in rows.columns:
        raise PipelineError("--ids keep needs a column _id")
    if arguments.stream is not None:
        rows = rows.drop("_stream")
    elif "_stream" not in rows.columns:
        raise PipelineError("--stream is needed: the rows have no column _stream")
    options = connection_options(arguments) | {"producer": arguments.producer}
    if arguments.stream is not None:
        options["stream"] = arguments.stream
    if keeps_ids:
        # Explicit IDs must ascend within a stream: one task for each, in order.
        keys = ["_stream"] if "_stream" in rows.columns else []
        halves = ["CAST(split_part(_id, '-', 1) AS decimal(20))", "CAST(split_part(_id, '-', 2) AS decimal(20))"]
        rows = rows.repartition(*keys) if keys else rows.coalesce(1)
        from pyspark.sql import functions as sql

        rows = rows.sortWithinPartitions(*map(sql.expr, halves)).drop(IID, PID)
        options |= {"idMode": "explicit", "idempotency": "none"}
    else:
        rows = rows.drop("_id")
        options["idempotency"] = "column"
    if arguments.rate is not None:
        rows = rows.coalesce(1)
        options["maxRate"] = str(arguments.rate)
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    seen, progress = Observation("rows"), Progress("replay")
    writer = rows.observe(seen, sql.count(sql.lit(1)).alias("entries")).write.format("headrace").options(**options)
    with _watched(progress, endpoint(arguments), rows if progress.is_seen else None, arguments.stream):
        writer.mode("append").save()
    entries = seen.get["entries"]
    progress.show(entries)
    progress.end()
    return {"entries": entries, "path": arguments.path}


@contextlib.contextmanager
def _watched(progress: Progress, server: Endpoint, rows: DataFrame | None, stream: str | None) -> Iterator[None]:
    """Show while rows are written how many their streams have taken, if there are rows to be watched."""
    if rows is None:
        yield
        return
    streams = [stream] if stream is not None else [row[0] for row in rows.select("_stream").distinct().collect()]
    is_over = threading.Event()

    def look() -> None:
        # Whether the server is there is for the writer to say.
        with contextlib.suppress(PipelineError), Connection(replace(server, retry_for=0)) as connection:
            before = taken(connection, streams)
            while not is_over.wait(LOOK_INTERVAL_S):
                progress.show(taken(connection, streams) - before)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join(LOOK_INTERVAL_S)


def taken(connection: Connection, streams: Sequence[str]) -> int:
    """How many rows streams have ever been sent: entries added, and rows that were known. Raises PipelineError."""
    count = 0
    for reply in connection.call_all([("XINFO", "STREAM", key_bytes(stream)) for stream in streams]):
        if not isinstance(reply, ReplyError):
            known = dict(zip(reply[::2], reply[1::2], strict=True))
            count += known[b"entries-added"] + known.get(b"iids-duplicates", 0)
    return count


def _rows(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """The rows, each with its place: `_pid` names file and chunk, `_iid` the row in the chunk."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import DoubleType, StringType

    if arguments.format == "json":
        # A file is read in one piece, so that the row's number in its task is its number in the file.
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(2**62))
        spark.conf.set("spark.sql.files.openCostInBytes", str(2**62))
        # Values are what the lines say: as a number, 1.10 would become 1.1.
        schema = spark.read.json(arguments.path).schema
        for column in schema:
            column.dataType = StringType() if isinstance(column.dataType, DoubleType) else column.dataType
        rows = spark.read.schema(schema).json(arguments.path)
        place = "monotonically_increasing_id() & 8589934591"
    else:
        # Columns may have come with later batches, and be missing in the files of earlier ones.
        rows = spark.read.option("mergeSchema", "true").parquet(arguments.path)
        place = "_metadata.row_index"
    # A file that was written anew under its name is another.
    file = sql.concat_ws(
        ":",
        "_metadata.file_path",
        sql.expr("CAST(_metadata.file_size AS string)"),
        sql.expr("CAST(unix_micros(_metadata.file_modification_time) AS string)"),
    )
    named = sql.concat_ws(":", sql.md5(file), sql.expr(f"({place}) div {CHUNK_ROWS}"))
    rows = rows.withColumns({PID: named, IID: sql.expr(f"CAST(({place}) % {CHUNK_ROWS} AS string)")})
    if arguments.where:
        rows = rows.where(arguments.where)
    if arguments.format == "parquet":
        rows = _with_malformed_values(rows).drop(*PARTITIONS)
    rows = rows.drop(CORRUPT, *NOT_FIELDS)
    for name, kind in rows.dtypes:
        if kind.startswith(("struct", "array", "map")) and name not in ("_fields", "_pairs"):
            rows = rows.withColumn(name, sql.to_json(name))
    return rows


def _with_malformed_values(rows: DataFrame) -> DataFrame:
    """Values that did not fit their column in the archive are fields of their entry as well."""
    from pyspark.sql import functions as sql

    kinds = dict(rows.dtypes)
    if kinds.get(CORRUPT) != "map<string,binary>" or FIELDS in kinds or rows.where(f"{CORRUPT} IS NOT NULL").isEmpty():
        return rows
    pairs = f"transform(map_entries({CORRUPT}), pair -> struct(CAST(pair.key AS binary), pair.value))"
    return rows.withColumn(FIELDS, sql.expr(f"map_from_entries({pairs})"))


JOB = Job("replay", "Write Parquet or JSON lines to a stream; repeating it adds nothing.", add_arguments, run)
