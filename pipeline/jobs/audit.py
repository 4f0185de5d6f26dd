"""audit: makes a table of events, and a report, from append-only files.

Kinds of events: add, deliver, ack, release-fail, release-fatal, release-silent, delete, trim, drop (of a key) and
group-create, group-setid, group-destroy, group-createconsumer, group-delconsumer. Their order is that of the columns
`part`, `split` and `n`. A rewrite of the log removes history: only later increments contain deliveries.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ... import __version__
from ..aof.splits import SPLIT_SIZE, log_files
from ..errors import PipelineError
from ..session import local_session
from .common import Job, Progress, Summary, add_spark
from .histogram import delivery_bars, hour_bars, wait_bars
from .report import Bars, Table, require_writable, write_report, write_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# How many entries the list of the worst ones has, and how many pairs of consumers the list of claims.
WORST_COUNT: Final = 20
CLAIMS_COUNT: Final = 50
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# The first half of an ID is a time in Unix milliseconds if it has 13 digits: from September 2001 to November 2286.
# Others are numbers that a producer chose, such as that of `1-0`, or times in other units.
ID_TIME_MS_MIN: Final = 1_000_000_000_000
ID_TIME_MS_MAX: Final = 9_999_999_999_999
ID_MS: Final = "try_cast(split_part(id, '-', 1) AS bigint)"
ID_TIME_MS: Final = f"CASE WHEN {ID_MS} BETWEEN {ID_TIME_MS_MIN} AND {ID_TIME_MS_MAX} THEN {ID_MS} END"
# The time of an event. Only an addition has the time of its entry's ID.
EVENT_MS: Final = f"coalesce(time_ms, ts * 1000, CASE WHEN kind = 'add' THEN {ID_TIME_MS} END)"
# An event cannot be newer than the file that contains it. A day allows for producers and servers whose clocks differ.
CLOCK_DIFFERENCE_MS_MAX: Final = 24 * 3600 * 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the job."""
    parser.add_argument("--path", required=True, help="folder of the log (with its manifest), or one file")
    parser.add_argument("--report", help="write an HTML page with figures and plots")
    parser.add_argument("--json", metavar="FILE", help="write the figures, and the list of the worst entries, as JSON")
    parser.add_argument("--events", help="write the events as Parquet")
    parser.add_argument("--split-size", type=int, default=SPLIT_SIZE, help="bytes per split (default %(default)s)")
    add_spark(parser)


ORDER = "part, split, n"


def histories(events: DataFrame) -> DataFrame:
    """Returns a row for each entry of each group: deliveries, consumers in order, waiting times, and the last event.

    `wait_ms` is the time from the ID to the first delivery, null if the ID is no time or comes after the delivery.
    `ack_s` is the time from the first delivery to the acknowledgement, in whole seconds. It needs
    `aof-timestamp-enabled yes`, because an acknowledgement has no time of its own: the second in which it was written
    is compared with the second of the delivery.
    """
    events.createOrReplaceTempView("headrace_events")
    return events.sparkSession.sql(f"""
        SELECT db, stream, grp, id, deliveries, last_event, consumers,
            CASE WHEN first_ms >= ({ID_TIME_MS}) THEN first_ms - {ID_MS} END AS wait_ms,
            CASE WHEN ack_ts >= 0 AND first_ms >= 0 THEN greatest(ack_ts - first_ms DIV 1000, 0) END AS ack_s
        FROM (
            SELECT db, stream, grp, id,
                count_if(kind = 'deliver') AS deliveries,
                max_by(kind, struct({ORDER})) AS last_event,
                transform(
                    array_sort(collect_list(struct({ORDER}, consumer)) FILTER (WHERE kind = 'deliver')), e -> e.consumer
                ) AS consumers,
                min(time_ms) AS first_ms,
                min(CASE WHEN kind = 'ack' THEN ts END) AS ack_ts
            FROM headrace_events
            WHERE grp IS NOT NULL AND id IS NOT NULL AND kind NOT LIKE 'group-%'
            GROUP BY db, stream, grp, id
        )
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
    shares = ", ".join(map(str, PERCENTILES.values()))
    return histories.sparkSession.sql(f"""
        SELECT stream, grp,
            count(*) AS entries,
            sum(deliveries) AS deliveries,
            round(avg(CAST(deliveries > 1 AS int)) * 100, 3) AS redelivered_percent,
            count_if(last_event != 'ack' AND last_event != 'delete') AS not_acknowledged,
            percentile(wait_ms, array({shares})) AS wait_ms,
            percentile(ack_s, array({shares})) AS ack_s
        FROM headrace_histories GROUP BY stream, grp ORDER BY entries DESC
    """)


def worst(histories: DataFrame) -> DataFrame:
    """Returns the entries that were delivered most often, and of those the ones that waited longest."""
    histories.createOrReplaceTempView("headrace_histories")
    return histories.sparkSession.sql(f"""
        SELECT stream, grp, id, deliveries, last_event, wait_ms, ack_s, consumers FROM headrace_histories
        ORDER BY deliveries DESC, wait_ms DESC NULLS LAST, stream, grp, id LIMIT {WORST_COUNT}
    """)


def run(arguments: argparse.Namespace) -> Summary:
    """Scans a log and writes the report. Raises PipelineError."""
    if arguments.split_size < 1:
        raise PipelineError("--split-size must be positive")
    files = log_files(Path(arguments.path))
    for option in ("report", "json"):
        if path := getattr(arguments, option):
            require_writable(Path(path), f"--{option}")
    spark = local_session("headrace audit", master=arguments.master, quiet=True)
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
    latest_ms = _latest_ms(files)
    summary: Summary = {
        "version": __version__,
        "path": str(Path(arguments.path).absolute()),
        "files": {path.name: path.stat().st_size for path in files},
        **_period(events, latest_ms),
        "events": sum(kinds.values()),
        "kinds": dict(sorted(kinds.items())),
        "groups": [_with_percentiles(row.asDict()) for row in groups(known).collect()],
    }
    if arguments.report or arguments.json:
        figures = {**summary, "worst": [row.asDict() for row in worst(known).collect()]}
        if arguments.report:
            _write_report(Path(arguments.report), events.where(f"{EVENT_MS} <= {latest_ms}"), known, figures)
        if arguments.json:
            write_text(Path(arguments.json), json.dumps(figures, indent=2) + "\n", "--json")
    progress.end()
    return summary


def _with_percentiles(row: Summary) -> Summary:
    """Returns a row with its lists of percentiles by name; None if no entry has such a time."""
    named = {
        key: dict(zip(PERCENTILES, (round(one, 1) for one in row[key]), strict=True)) if row[key] else None
        for key in ("wait_ms", "ack_s")
    }
    return {**row, **named}


def _latest_ms(files: Sequence[Path]) -> int:
    """Returns the latest time that an event of these files can have."""
    return max((path.stat().st_mtime_ns // 1_000_000 for path in files), default=0) + CLOCK_DIFFERENCE_MS_MAX


def _period(events: DataFrame, latest_ms: int) -> Summary:
    """Returns the times of the first and the last event up to `latest_ms`, and the number of events with later times.

    The times are null if no event has one.
    """
    known = f"CASE WHEN {EVENT_MS} <= {latest_ms} THEN {EVENT_MS} END"
    row = events.selectExpr(
        f"min({known}) AS first", f"max({known}) AS last", f"count_if({EVENT_MS} > {latest_ms}) AS later"
    ).collect()[0]
    return {"first": _time(row["first"]), "last": _time(row["last"]), "future_events": row["later"]}


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _counts(frame: DataFrame, expression: str) -> dict[int, int]:
    """Returns the number of rows by a whole number; rows without one are left out."""
    rows = frame.selectExpr(f"{expression} AS place").where("place IS NOT NULL").groupBy("place").count().collect()
    return {int(row["place"]): row["count"] for row in rows}


GROUP_HEADINGS: Final = {
    "stream": "stream",
    "grp": "group",
    "entries": "entries",
    "deliveries": "deliveries",
    "redelivered_percent": "delivered again, %",
    "not_acknowledged": "not acknowledged",
    **{f"wait_ms.{name}": f"wait, ms ({name})" for name in PERCENTILES},
    **{f"ack_s.{name}": f"to acknowledge, s ({name})" for name in PERCENTILES},
}
WORST_HEADINGS: Final = {
    "stream": "stream",
    "grp": "group",
    "id": "entry",
    "deliveries": "deliveries",
    "wait_ms": "wait, ms",
    "ack_s": "to acknowledge, s",
    "last_event": "last event",
    "consumers": "consumers, in order",
}
TIMES_NOTE: Final = (
    "Wait is the time from the ID of an entry to its first delivery, if the ID is a time. The time to acknowledge "
    "begins with the first delivery, and is in whole seconds; it is known with aof-timestamp-enabled yes."
)


def _write_report(path: Path, timed: DataFrame, known: DataFrame, figures: Mapping[str, Any]) -> None:
    """Writes the page; `timed` are the events in the period."""
    claims = [row.asDict() for row in takeovers(known).limit(CLAIMS_COUNT).collect()]
    waits = "CASE WHEN wait_ms < 1 THEN 0 ELSE int(floor(log2(wait_ms))) + 1 END"
    groups_rows = [
        {
            **row,
            **{f"{key}.{name}": row[key] and row[key][name] for key in ("wait_ms", "ack_s") for name in PERCENTILES},
        }
        for row in figures["groups"]
    ]
    facts = {
        "Log": figures["path"],
        "Files": ", ".join(f"{name} ({size:,} bytes)" for name, size in figures["files"].items()),
        "Period": f"{figures['first']} to {figures['last']}" if figures["first"] else "no event has a time",
        "Events": f"{figures['events']:,}",
        "Made": f"{_time(int(datetime.now(UTC).timestamp() * 1000))}, by Headrace {__version__}",
    }
    if figures["future_events"]:
        facts["Later events"] = f"{figures['future_events']:,}, left out: more than a day after the newest file"
    kinds = [{"kind": kind, "count": count} for kind, count in figures["kinds"].items()]
    claim_headings = {
        "stream": "stream", "grp": "group", "from_consumer": "from", "to_consumer": "to", "entries": "entries"
    }  # fmt: skip
    parts = (
        Table("Groups", GROUP_HEADINGS, groups_rows, "p50, p90 and p99 are percentiles. " + TIMES_NOTE),
        Table("Worst entries", WORST_HEADINGS, figures["worst"], f"The {WORST_COUNT} that were delivered most often."),
        Table("Who claimed from whom", claim_headings, claims),
        Bars("Entries by number of deliveries", delivery_bars(_counts(known, "deliveries"))),
        Bars("Entries by wait for the first delivery", wait_bars(_counts(known, waits))),
        Bars("Additions and deliveries by hour (UTC)", hour_bars(_counts(timed.where(COUNTED_BY_HOUR), EVENT_HOUR))),
        Table("Events", {"kind": "kind", "count": "events"}, kinds),
    )
    write_report(path, "Audit of a stream log", facts, parts)


EVENT_HOUR: Final = f"{EVENT_MS} DIV 3600000"
COUNTED_BY_HOUR: Final = "kind IN ('add', 'deliver') AND id IS NOT NULL"
JOB = Job("audit", "Report from append-only files what happened to each entry.", add_arguments, run)
