"""replay: writes Parquet or JSON lines to a stream. Repeating it adds nothing.

A row is identified by its file and its place there, so the job may be killed and started again. With `--ids keep`
entries keep their IDs.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..connection.client import Connection, ReplyError
from ..connection.streams import key_bytes
from ..errors import PipelineError
from ..options.kinds import Endpoint
from ..session import local_session
from ..writing.encode import FIELDS, IID, PID
from ..writing.sink import ORDER_ADVICE
from .archive import PARTITIONS
from .common import Job, Progress, Summary, add_connection, add_spark, advising, connection_options, endpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What to do about errors of the data source, in options of this job.
JOB_ADVICE = {
    ORDER_ADVICE: (
        "--ids keep needs a stream without later entries, and rows of one stream (--where \"_stream = '...'\"); "
        "--ids new accepts all rows"
    ),
}
# Rows of a file per producer: half of the rows that a stream remembers of a producer.
CHUNK_ROWS = 5000
CORRUPT = "_corrupt"
# Columns of archives and dead letters that describe an entry and are not its fields.
NOT_FIELDS = ("_ts", "_ms", "_seq", "_deliveries", "_consumer", "_idle_ms", "_group", "_reason")
LOOK_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the job."""
    parser.add_argument("--path", required=True, help="folder or file to read")
    parser.add_argument("--format", choices=("parquet", "json"), default="parquet", help="default %(default)s")
    parser.add_argument("--stream", help="key to write to; default: the column _stream")
    parser.add_argument("--ids", choices=("new", "keep"), default="new", help="new IDs, or those in _id (default new)")
    parser.add_argument("--rate", type=float, help="most entries per second")
    parser.add_argument("--where", help="condition in SQL that rows must meet")
    parser.add_argument(
        "--producer", default="replay", help="name by which the stream recognises rows (default %(default)s)"
    )
    add_spark(parser)
    add_connection(parser)


def run(arguments: argparse.Namespace) -> Summary:
    """Writes the rows. Raises PipelineError."""
    if arguments.rate is not None and arguments.rate <= 0:
        raise PipelineError("--rate must be positive")
    spark = local_session("headrace replay", master=arguments.master, quiet=True)
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
        # Explicit IDs must ascend within a stream, so one task writes all rows of a stream, in order.
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
    writer = rows.observe(seen, sql.count(sql.lit(1)).alias("rows")).write.format("headrace").options(**options)
    watched = _watched(progress, endpoint(arguments), rows if progress.is_seen else None, arguments.stream)
    with watched, advising(JOB_ADVICE):
        writer.mode("append").save()
    rows_count = seen.get["rows"]
    progress.show(rows_count)
    progress.end()
    # A stream that knows a row does not add it again.
    return {"rows": rows_count, "path": arguments.path}


@contextlib.contextmanager
def _watched(progress: Progress, server: Endpoint, rows: DataFrame | None, stream: str | None) -> Iterator[None]:
    """Shows progress while rows are written, from the counters of their streams; does nothing if `rows` is None."""
    if rows is None:
        yield
        return
    streams = [stream] if stream is not None else [row[0] for row in rows.select("_stream").distinct().collect()]
    is_over = threading.Event()

    def look() -> None:
        # If the server is not available, the writer raises the error.
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
    """Returns how many rows streams were ever sent: entries added, and rows recognised. Raises PipelineError."""
    count = 0
    for reply in connection.call_all([("XINFO", "STREAM", key_bytes(stream)) for stream in streams]):
        if not isinstance(reply, ReplyError):
            known = dict(zip(reply[::2], reply[1::2], strict=True))
            count += known[b"entries-added"] + known.get(b"iids-duplicates", 0)
    return count


def _rows(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Reads the rows and adds their identities: `_pid` is the file and chunk, `_iid` the row in the chunk."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import DoubleType, StringType

    if arguments.format == "json":
        # A file is read in one piece, so that the number of a row in its task is its number in the file.
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(2**62))
        spark.conf.set("spark.sql.files.openCostInBytes", str(2**62))
        # Values are kept as text: as a number, 1.10 would become 1.1.
        schema = spark.read.json(arguments.path).schema
        for column in schema:
            column.dataType = StringType() if isinstance(column.dataType, DoubleType) else column.dataType
        rows = spark.read.schema(schema).json(arguments.path)
        place = "monotonically_increasing_id() & 8589934591"
    else:
        # Files of earlier batches may lack columns of later ones.
        rows = spark.read.option("mergeSchema", "true").parquet(arguments.path)
        place = "_metadata.row_index"
    # A file that was rewritten under the same name counts as another file.
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
    """Adds the values that did not fit their columns in the archive to the fields of their entries."""
    from pyspark.sql import functions as sql

    kinds = dict(rows.dtypes)
    if kinds.get(CORRUPT) != "map<string,binary>" or FIELDS in kinds or rows.where(f"{CORRUPT} IS NOT NULL").isEmpty():
        return rows
    pairs = f"transform(map_entries({CORRUPT}), pair -> struct(CAST(pair.key AS binary), pair.value))"
    return rows.withColumn(FIELDS, sql.expr(f"map_from_entries({pairs})"))


JOB = Job("replay", "Write Parquet or JSON lines to a stream; repeating it adds nothing.", add_arguments, run)
