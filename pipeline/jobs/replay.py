"""replay: Parquet or JSON lines to a stream. Repeating it adds nothing.

A row is known by its file and its place there, so the job may be killed and started again. With `--ids keep` entries
get the IDs they had.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..encode import IID, PID
from ..errors import PipelineError
from ..session import local_session
from .common import Job, Summary, add_connection, add_spark, connection_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_ROWS = 5000
"""Rows of a file under one producer: half of what a stream remembers of it."""
NOT_FIELDS = ("_ts", "_ms", "_seq", "_corrupt", "_deliveries", "_consumer", "_idle_ms", "dt", "batch")
"""Columns of an archive that say where an entry comes from and are not its fields."""


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

    seen = Observation("rows")
    rows = rows.observe(seen, sql.count(sql.lit(1)).alias("entries"))
    rows.write.format("headrace").options(**options).mode("append").save()
    return {"entries": seen.get["entries"], "path": arguments.path}


def _rows(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """The rows, each with its place: `_pid` names file and chunk, `_iid` the row in the chunk."""
    from pyspark.sql import functions as sql

    if arguments.format == "json":
        # A file is read in one piece, so that the row's number in its task is its number in the file.
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(2**62))
        spark.conf.set("spark.sql.files.openCostInBytes", str(2**62))
        rows = spark.read.json(arguments.path)
        place = sql.expr("monotonically_increasing_id() & 8589934591")
    else:
        rows = spark.read.parquet(arguments.path)
        place = sql.col("_metadata.row_index")
    # A file that was written anew under its name is another.
    file = sql.concat_ws(
        ":",
        "_metadata.file_path",
        sql.expr("CAST(_metadata.file_size AS string)"),
        sql.expr("CAST(unix_micros(_metadata.file_modification_time) AS string)"),
    )
    rows = rows.withColumn("_place", place).withColumn("_file", sql.md5(file))
    rows = rows.withColumn(PID, sql.concat_ws(":", "_file", sql.expr(f"_place div {CHUNK_ROWS}")))
    rows = rows.withColumn(IID, sql.expr(f"CAST(_place % {CHUNK_ROWS} AS string)"))
    if arguments.where:
        rows = rows.where(arguments.where)
    rows = rows.drop("_place", "_file", *NOT_FIELDS)
    for name, kind in rows.dtypes:
        if kind.startswith(("struct", "array", "map")) and name not in ("_fields", "_pairs"):
            rows = rows.withColumn(name, sql.to_json(name))
    return rows


JOB = Job("replay", "Write Parquet or JSON lines to a stream; repeating it adds nothing.", add_arguments, run)
