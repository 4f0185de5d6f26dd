"""audit: makes a table of events, and a report, from append-only files.

Kinds of events: add, deliver, ack, release-fail, release-fatal, release-silent, delete, trim, drop (of a key) and
group-create, group-setid, group-destroy, group-createconsumer, group-delconsumer. Their order is that of the columns
`part`, `split` and `n`. A rewrite of the log removes history: only later increments contain deliveries.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..aof.splits import SPLIT_SIZE
from ..errors import PipelineError
from ..session import local_session
from .common import Job, Progress, Summary, add_spark
from .report import Table, write_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the job."""
    parser.add_argument("--path", required=True, help="folder of the log (with its manifest), or one file")
    parser.add_argument("--report", help="write an HTML page with figures and plots")
    parser.add_argument("--events", help="write the events as Parquet")
    parser.add_argument("--split-size", type=int, default=SPLIT_SIZE, help="bytes per split (default %(default)s)")
    add_spark(parser)


ORDER = "part, split, n"


def histories(events: DataFrame) -> DataFrame:
    """Returns a row for each entry of each group: deliveries, consumers in order, waiting times, and the last event.

    Times are in milliseconds. `ack_ms` needs `aof-timestamp-enabled yes`, because an acknowledgement has no time of its
    own; it is exact to a second.
    """
    events.createOrReplaceTempView("headrace_events")
    return events.sparkSession.sql(f"""
        SELECT db, stream, grp, id,
            count_if(kind = 'deliver') AS deliveries,
            max_by(kind, struct({ORDER})) AS last_event,
            transform(
                array_sort(collect_list(struct({ORDER}, consumer)) FILTER (WHERE kind = 'deliver')), e -> e.consumer
            ) AS consumers,
            min(time_ms) - try_cast(split_part(id, '-', 1) AS bigint) AS wait_ms,
            min(CASE WHEN kind = 'ack' THEN ts END) * 1000 - min(time_ms) AS ack_ms
        FROM headrace_events
        WHERE grp IS NOT NULL AND id IS NOT NULL AND kind NOT LIKE 'group-%'
        GROUP BY db, stream, grp, id
    """)


def takeovers(histories: DataFrame) -> DataFrame:
    """Returns how many entries each consumer claimed from each other one."""
    histories.createOrReplaceTempView("headrace_histories")
    return histories.sparkSession.sql("""
        SELECT stream, grp, step.previous AS from_consumer, step.next AS to_consumer, count(*) AS entries
        FROM (
            SELECT stream, grp, explode(zip_with(
                slice(consumers, 1, size(consumers) - 1), slice(consumers, 2, size(consumers) - 1),
                (a, b) -> struct(a AS previous, b AS next)
            )) AS step
            FROM headrace_histories WHERE size(consumers) > 1
        )
        WHERE step.previous != step.next
        GROUP BY ALL ORDER BY entries DESC
    """)


def groups(histories: DataFrame) -> DataFrame:
    """Returns a row for each group: entries, redelivery rate, waiting times, and how many are not acknowledged."""
    histories.createOrReplaceTempView("headrace_histories")
    return histories.sparkSession.sql("""
        SELECT stream, grp,
            count(*) AS entries,
            sum(deliveries) AS deliveries,
            round(avg(CAST(deliveries > 1 AS int)) * 100, 3) AS redelivered_percent,
            count_if(last_event != 'ack' AND last_event != 'delete') AS not_acknowledged,
            percentile(wait_ms, array(0.5, 0.9, 0.99)) AS wait_ms,
            percentile(ack_ms, array(0.5, 0.9, 0.99)) AS ack_ms
        FROM headrace_histories GROUP BY stream, grp ORDER BY entries DESC
    """)


def run(arguments: argparse.Namespace) -> Summary:
    """Scans a log and writes the report. Raises PipelineError."""
    if arguments.split_size < 1:
        raise PipelineError("--split-size must be positive")
    spark = local_session("headrace audit", master=arguments.master)
    from ..events import read_events

    progress = Progress("audit")
    events = read_events(spark, arguments.path, arguments.split_size)
    if arguments.events:
        events.write.mode("overwrite").option("compression", "zstd").parquet(arguments.events)
        events = spark.read.parquet(arguments.events)
    else:
        events = events.cache()
    kinds = {row["kind"]: row["count"] for row in events.groupBy("kind").count().collect()}
    progress.show(sum(kinds.values()))
    known = histories(events).cache()
    found = [row.asDict() for row in groups(known).collect()]
    if arguments.report:
        _write_report(Path(arguments.report), events, known, found, kinds)
    progress.end()
    return {"events": sum(kinds.values()), "kinds": dict(sorted(kinds.items())), "groups": found}


def _write_report(path: Path, events: DataFrame, known: DataFrame, found: list[Summary], kinds: dict[str, int]) -> None:
    claims = [row.asDict() for row in takeovers(known).limit(50).collect()]
    per_count = known.groupBy("deliveries").count().orderBy("deliveries").limit(20).collect()
    waits = (
        known.selectExpr("least(int(log2(greatest(wait_ms, 1))), 24) AS e").groupBy("e").count().orderBy("e").collect()
    )
    hours = events.sparkSession.sql("""
        SELECT
            date_format(
                timestamp_millis(coalesce(time_ms, try_cast(split_part(id, '-', 1) AS bigint))), 'MM-dd HH:00'
            ) AS hour,
            count(*) AS count
        FROM headrace_events WHERE kind IN ('add', 'deliver') AND id IS NOT NULL
        GROUP BY hour ORDER BY hour DESC LIMIT 48
    """).collect()
    tables = [
        Table("Groups", found),
        Table("Who claimed from whom", claims),
        Table("Events", [{"kind": kind, "count": count} for kind, count in sorted(kinds.items())]),
    ]
    bars = {
        "Deliveries per entry": [(str(row["deliveries"]), row["count"]) for row in per_count],
        "Wait for the first delivery (ms, up to)": [
            (str(2 ** (row["e"] + 1)), row["count"]) for row in waits if row["e"] is not None
        ],
        "Additions and deliveries by hour (UTC)": [(row["hour"], row["count"]) for row in reversed(hours)],
    }
    write_report(path, "Audit of a stream log", tables, bars)


JOB = Job("audit", "Report from append-only files what happened to each entry.", add_arguments, run)
