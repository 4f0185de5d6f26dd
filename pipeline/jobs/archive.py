"""archive: writes a stream to Parquet files by day, each entry once.

A batch overwrites the folders `archive_day=<day>/archive_batch=<query>-<number>`. So a batch repeated after a crash
replaces its own files, and any reader of Parquet sees each entry once.
"""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import PipelineError
from ..reading.log_mode import CHECKPOINT_ADVICE
from ..reading.pages import ADVICE
from ..session import local_session
from .common import Job, Progress, Summary, add_connection, add_spark, advising, connection_options

# The folder of the checkpoint in the archive. Readers of Parquet ignore names that begin with an underscore.
CHECKPOINT = "_headrace_checkpoint"

# What to do about errors of the data source, in options of this job.
JOB_ADVICE = {
    ADVICE: "--allow-data-loss archives the entries that are left",
    CHECKPOINT_ADVICE: "add it to --stream, or choose another --path",
}

# Columns that name the folders. They do not begin with an underscore, because readers would ignore the folders.
DAY, BATCH = PARTITIONS = ("archive_day", "archive_batch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the job."""
    parser.add_argument("--stream", help="keys, separated by commas")
    parser.add_argument("--stream-pattern", help="glob pattern of keys, instead of --stream")
    parser.add_argument("--path", required=True, help="folder of the archive")
    parser.add_argument("--fields", help="columns for fields, e.g. 'n bigint, user string'; default: all as one map")
    parser.add_argument(
        "--exact", action="store_true", help="keep fields as ordered pairs of bytes, for an exact replay"
    )
    parser.add_argument("--group", help="consumer group whose position follows the job")
    parser.add_argument("--max-entries", type=int, default=250_000, help="entries per batch (default %(default)s)")
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="continue if entries were trimmed before they were archived"
    )
    parser.add_argument(
        "--read-from", choices=("primary", "replica"), help="where entries are read, if Sentinels name the server"
    )
    parser.add_argument("--follow", metavar="INTERVAL", help="do not end: a batch each INTERVAL, e.g. '1 minute'")
    add_spark(parser)
    add_connection(parser)


def run(arguments: argparse.Namespace) -> Summary:
    """Archives the entries there are, or follows the stream until interrupted. Raises PipelineError."""
    if arguments.exact and arguments.fields:
        raise PipelineError("only one of --exact and --fields can be given")
    spark = local_session("headrace archive", master=arguments.master, quiet=True)
    frame = _source(spark, arguments)
    for name in frame.columns:
        if name.lower() in PARTITIONS:
            raise PipelineError(f"--fields: {name} is the name of a partition column of the archive: use --exact")
    written = _Written(Progress("archive"))

    def write(batch: Any, number: int) -> None:
        from pyspark.sql import functions as sql

        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or "unknown"
        dated = batch.withColumn(DAY, sql.date_format("_ts", "yyyy-MM-dd"))
        tagged = dated.withColumn(BATCH, sql.lit(f"{query[:8]}-{number}"))
        writer = tagged.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.option("compression", "zstd").partitionBy(*PARTITIONS).parquet(arguments.path)

    trigger = {"processingTime": arguments.follow} if arguments.follow else {"availableNow": True}
    checkpoint = f"{arguments.path.rstrip('/')}/{CHECKPOINT}"
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(**trigger).start()
    try:
        with advising(JOB_ADVICE):
            while not query.awaitTermination(1):
                written.look(query)
    except KeyboardInterrupt:
        query.stop()
    written.look(query)
    written.progress.end()
    return {"entries": written.entries, "batches": written.batches, "path": arguments.path}


def _source(spark: Any, arguments: argparse.Namespace) -> Any:
    options = {"startingOffsets": "earliest", "maxEntriesPerTrigger": str(arguments.max_entries)}
    named = {
        "stream": arguments.stream,
        "streamPattern": arguments.stream_pattern,
        "group": arguments.group,
        "fields": arguments.fields,
        "readFrom": arguments.read_from,
        "failOnDataLoss": "false" if arguments.allow_data_loss else None,
    }
    options |= {name: value for name, value in named.items() if value is not None} | connection_options(arguments)
    reader = spark.readStream.format("headrace").options(**options)
    if arguments.exact:
        reader = reader.schema(
            "_stream string, _id string, _ts timestamp, _pairs array<struct<field:binary,value:binary>>"
        )
    return reader.load()


class _Written:
    """Counts of entries and batches from the query's progress, each batch once."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.entries = 0
        self.batches = 0
        self._last = -1

    def look(self, query: Any) -> None:
        """Adds the batches that are new in the progress."""
        for one in query.recentProgress:
            if one["batchId"] > self._last and one["numInputRows"]:
                self._last = one["batchId"]
                self.entries += one["numInputRows"]
                self.batches += 1
        self.progress.show(self.entries)


JOB = Job("archive", "Write a stream to Parquet files by day, each entry once.", add_arguments, run)
