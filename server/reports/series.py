"""The series of the metrics endpoint: one row each, with its meaning and the source of its values.

Units are seconds and bytes. Counters start at 0 with the server. The counters of a group also start at 0 when the group
is created and when the dataset is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from ... import REDIS_VERSION, __version__
from ...commands.core.table import named_rows
from ...persistence.syncing import FSYNC_EDGES_NS
from ...store.group import Group
from ...store.policies.rules import PendingRules
from ...store.stream import Stream
from .info_source import Source
from .process import cpu_seconds, descriptors_count, descriptors_max, resident_size

Value = int | float


@dataclass(frozen=True, slots=True)
class Histogram:
    """The value of a series of kind `histogram`: (upper end in seconds, number up to it), the number and sum of all."""

    buckets: list[tuple[float, int]]
    count: int
    sum_s: float


# Label values, in the order of the row's labels, and a value.
Samples = Iterable[tuple[tuple[str, ...], Value | Histogram]]


@dataclass(frozen=True, slots=True)
class Series:
    """One row. The name of a counter is without its `_total`. `read` gets what the row's table is about: server, stream
    or group.
    """

    name: str
    # `gauge`, `counter` or `histogram`.
    kind: str
    text: str
    labels: tuple[str, ...]
    # For a series of the server: its samples. For one of a stream or group: its value; None if it has none.
    read: Callable[[Any], Any]


def _one(name: str, kind: str, text: str, read: Callable[[Source], Value]) -> Series:
    return Series(name, kind, text, (), lambda source: [((), read(source))])


def _many(name: str, kind: str, text: str, labels: tuple[str, ...], read: Callable[[Source], Samples]) -> Series:
    return Series(name, kind, text, labels, read)


def _command_calls(source: Source) -> Samples:
    return [((row.name_lower.decode(),), row.calls) for row in named_rows() if row.calls]


def _command_seconds(source: Source) -> Samples:
    return [((row.name_lower.decode(),), row.total_ns / 1e9) for row in named_rows() if row.calls]


def _command_failures(source: Source) -> Samples:
    return [((row.name_lower.decode(),), row.failed_calls) for row in named_rows() if row.failed_calls]


# Upper ends of the buckets of calls by duration: each four times the one before, 1 us to 4 s.
CALL_EDGES_NS: Final = tuple(4**exponent * 1000 for exponent in range(12))


def _command_durations(source: Source) -> Samples:
    for row in named_rows():
        durations = row.durations
        if durations.count:
            counts = durations.cumulative(CALL_EDGES_NS)
            buckets = [(edge_ns / 1e9, count) for edge_ns, count in zip(CALL_EDGES_NS, counts, strict=True)]
            yield (row.name_lower.decode(),), Histogram(buckets, durations.count, durations.total_ns / 1e9)


def _fsyncs(source: Source) -> Samples:
    if source.log is not None:
        times = source.log.fsync_times
        counts = accumulate(times.counts[:-1])
        buckets = [(edge_ns / 1e9, count) for edge_ns, count in zip(FSYNC_EDGES_NS, counts, strict=True)]
        yield (), Histogram(buckets, sum(times.counts), times.total_ns / 1e9)


def _replica_lag(source: Source) -> Samples:
    offset = source.primary.history.offset
    return [((name,), max(0, offset - confirmed_offset)) for name, confirmed_offset, _ in source.primary.lags()]


def _replica_silence(source: Source) -> Samples:
    now_ms = source.clock()
    return [((name,), max(0, now_ms - confirmed_ms) / 1000) for name, _, confirmed_ms in source.primary.lags()]


def _link_up(source: Source) -> Samples:
    following = source.following
    return [] if following.address is None else [((), int(following.is_up))]


def _link_failed(source: Source) -> Samples:
    failed_ms = source.following.failed_ms
    return [] if failed_ms is None else [((), failed_ms / 1000)]


def _cpu_seconds(source: Source) -> Samples:
    return zip((("user",), ("system",)), cpu_seconds(), strict=True)


def _if_known(value: Value | None) -> Samples:
    return [] if value is None else [((), value)]


def _errors(source: Source) -> Samples:
    return [((code.decode("utf-8", "backslashreplace"),), count) for code, count in source.stats.errors.items()]


def _unserved_calls(source: Source) -> Samples:
    return [((name.decode(),), count) for name, count in source.context.unserved.calls.items()]


def _keys(source: Source) -> Samples:
    return [((str(db.index),), len(db.keys)) for db in source.store.databases if db.keys]


def _expiring_keys(source: Source) -> Samples:
    return [((str(db.index),), len(db.expires)) for db in source.store.databases if db.keys]


SERVER_SERIES: Final = (
    _many(
        "headrace_build_info",
        "gauge",
        "1, with the version of Headrace and that of the Redis it follows.",
        ("version", "redis_version"),
        lambda source: [((__version__, REDIS_VERSION), 1)],
    ),
    _one("headrace_start_time_seconds", "gauge", "When the server started.", lambda source: source.started_ms / 1000),
    _one("headrace_loading", "gauge", "1 while the dataset is loaded.", lambda source: int(source.context.loading)),
    _one("headrace_clients", "gauge", "Connected clients.", lambda source: len(source.clients)),
    _one(
        "headrace_blocked_clients",
        "gauge",
        "Clients that wait for entries or for the disk.",
        lambda source: source.blocked_count,
    ),
    _one("headrace_resident_memory_bytes", "gauge", "Memory in RAM.", lambda source: resident_size()),
    _one(
        "headrace_used_memory_bytes",
        "gauge",
        "Memory of dataset and clients as last measured, which `maxmemory` limits: `used_memory` of `INFO`.",
        lambda source: source.memory.used_size,
    ),
    _one(
        "headrace_memory_limit_bytes", "gauge", "`maxmemory`; 0 for no limit.", lambda source: source.config.maxmemory
    ),
    _many("headrace_cpu_seconds", "counter", "Processor time of all threads together.", ("mode",), _cpu_seconds),
    _many(
        "headrace_open_descriptors",
        "gauge",
        "Open files and sockets. Absent where the system does not report them.",
        (),
        lambda source: _if_known(descriptors_count()),
    ),
    _many(
        "headrace_descriptors_limit",
        "gauge",
        "How many the process may have (`ulimit -n`). Absent without a limit.",
        (),
        lambda source: _if_known(descriptors_max()),
    ),
    _many("headrace_keys", "gauge", "Keys.", ("db",), _keys),
    _many("headrace_expiring_keys", "gauge", "Keys that have an expiry time.", ("db",), _expiring_keys),
    _one(
        "headrace_connections",
        "counter",
        "Connections that were let in.",
        lambda source: source.stats.connections_received,
    ),
    _one(
        "headrace_rejected_connections",
        "counter",
        "Connections beyond maxclients.",
        lambda source: source.stats.connections_rejected,
    ),
    _one("headrace_received_bytes", "counter", "From clients.", lambda source: source.stats.input_size),
    _one("headrace_sent_bytes", "counter", "To clients.", lambda source: source.stats.output_size),
    _one("headrace_commands", "counter", "Calls that have ended.", lambda source: source.stats.commands_processed),
    _many("headrace_command_calls", "counter", "All calls of each command.", ("command",), _command_calls),
    _many("headrace_command_seconds", "counter", "Time of all calls of each command.", ("command",), _command_seconds),
    _many(
        "headrace_command_duration_seconds",
        "histogram",
        "Calls of each command by duration, while `latency-tracking` is on.",
        ("command",),
        _command_durations,
    ),
    _many("headrace_command_failures", "counter", "Calls that ended in an error.", ("command",), _command_failures),
    _many("headrace_errors", "counter", "Error replies by their first word.", ("code",), _errors),
    _many(
        "headrace_unserved_calls",
        "counter",
        "Calls of commands that Headrace does not have; `unknown` are those that Redis does not have either.",
        ("command",),
        _unserved_calls,
    ),
    _one(
        "headrace_slow_calls",
        "counter",
        "Calls that went into the slow log.",
        lambda source: source.context.slow_log.tally.count,
    ),
    _one(
        "headrace_keyspace_hits",
        "counter",
        "Reads that found their key.",
        lambda source: sum(db.hits for db in source.store.databases),
    ),
    _one(
        "headrace_keyspace_misses",
        "counter",
        "Reads that did not.",
        lambda source: sum(db.misses for db in source.store.databases),
    ),
    _one("headrace_expired_keys", "counter", "Keys that expiry removed.", lambda source: source.stats.expired_keys),
    _one(
        "headrace_writes_refused",
        "gauge",
        "1 while writes are refused (MISCONF): the log or the snapshot cannot be written.",
        lambda source: int(source.is_refusing_writes),
    ),
    _one("headrace_log_enabled", "gauge", "1 with an append-only file.", lambda source: int(source.log is not None)),
    _one(
        "headrace_log_bytes",
        "gauge",
        "Size of the append-only file, 0 without one.",
        lambda source: 0 if source.log is None else source.log.current_size,
    ),
    _many(
        "headrace_log_fsync_duration_seconds",
        "histogram",
        "Fsyncs of the append-only file by duration, since it was turned on. Absent without one.",
        (),
        _fsyncs,
    ),
    _one(
        "headrace_log_delayed_fsyncs",
        "counter",
        "Writes made while an fsync had been running for two seconds.",
        lambda source: 0 if source.log is None else source.log.delayed_fsyncs_count,
    ),
    _one(
        "headrace_rewrite_in_progress",
        "gauge",
        "1 while the append-only file is rewritten.",
        lambda source: int(source.snapshots.rewrite.is_running),
    ),
    _one(
        "headrace_save_in_progress",
        "gauge",
        "1 while dump.rdb is written.",
        lambda source: int(source.snapshots.save.is_running),
    ),
    _one(
        "headrace_last_save_timestamp_seconds",
        "gauge",
        "When dump.rdb was last complete, or the server started.",
        lambda source: source.snapshots.last_save_ms / 1000,
    ),
    _one(
        "headrace_changes_since_last_save",
        "gauge",
        "Changes that dump.rdb does not hold.",
        lambda source: source.snapshots.changes_count,
    ),
    _one("headrace_replicas", "gauge", "Connected replicas.", lambda source: len(source.primary.replicas)),
    _many(
        "headrace_replica_lag_bytes",
        "gauge",
        "Bytes of changes that a replica has not confirmed. Absent while it is sent a snapshot.",
        ("replica",),
        _replica_lag,
    ),
    _many(
        "headrace_replica_silence_seconds",
        "gauge",
        "Time since a replica has confirmed anything, which it does once a second: whether it is alive. How late its "
        "data are is `headrace_replica_lag_bytes`. Absent while it is sent a snapshot.",
        ("replica",),
        _replica_silence,
    ),
    _one(
        "headrace_replica_full_syncs",
        "counter",
        "Snapshots that replicas needed.",
        lambda source: source.stats.sync_full,
    ),
    _one(
        "headrace_replica_partial_syncs",
        "counter",
        "Times that a replica continued where it was.",
        lambda source: source.stats.sync_partial_ok,
    ),
    _one(
        "headrace_replica_partial_sync_refusals",
        "counter",
        "Times that a replica could not continue where it was, and needed a snapshot.",
        lambda source: source.stats.sync_partial_err,
    ),
    _many(
        "headrace_primary_link_up",
        "gauge",
        "1 while this replica follows its primary. Absent without one.",
        (),
        _link_up,
    ),
    _many(
        "headrace_primary_link_failure_timestamp_seconds",
        "gauge",
        "When the link to the primary, or an attempt, last failed; INFO and the server log say why. Absent before.",
        (),
        _link_failed,
    ),
    _one("headrace_backlog_bytes", "gauge", "Memory of the backlog.", lambda source: source.primary.memory_size),
)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and where it is; `now_ms` is Unix time."""

    stream: Stream
    group: Group
    now_ms: int

    @property
    def oldest_pending_s(self) -> float:
        """Age of the oldest pending entry with an owner; 0 without one."""
        oldest_ms = self.group.pending.oldest_time_ms()
        return 0 if oldest_ms is None else max(0, self.now_ms - oldest_ms) / 1000


STREAM_LABELS: Final = ("db", "stream")
GROUP_LABELS: Final = (*STREAM_LABELS, "group")


def _of_stream(name: str, kind: str, text: str, read: Callable[[Stream], Value]) -> Series:
    return Series(name, kind, text, STREAM_LABELS, read)


def _of_group(name: str, kind: str, text: str, read: Callable[[GroupView], Value | None]) -> Series:
    return Series(name, kind, text, GROUP_LABELS, read)


def _of_policies(name: str, kind: str, text: str, read: Callable[[PendingRules], Value]) -> Series:
    """A series of the groups that have a policy or delayed entries."""

    def of_group(view: GroupView) -> Value | None:
        rules = view.group.pending.rules
        return None if rules is None else read(rules)

    return Series(name, kind, text, GROUP_LABELS, of_group)


STREAM_SERIES: Final = (
    _of_stream("headrace_stream_entries", "gauge", "Entries.", len),
    _of_stream(
        "headrace_stream_entries_added",
        "counter",
        "Entries ever added, before a restart as well.",
        lambda stream: stream.entries_added,
    ),
    _of_stream("headrace_stream_groups", "gauge", "Consumer groups.", lambda stream: len(stream.groups)),
)

GROUP_SERIES: Final = (
    _of_group("headrace_group_consumers", "gauge", "Consumers.", lambda view: len(view.group.consumers)),
    _of_group(
        "headrace_group_lag",
        "gauge",
        "Entries not yet delivered. Absent where Redis answers null: deletions have made it unknowable.",
        lambda view: view.stream.lag(view.group),
    ),
    _of_group(
        "headrace_group_pending",
        "gauge",
        "Entries delivered and not acknowledged, the released ones among them.",
        lambda view: len(view.group.pending),
    ),
    _of_group(
        "headrace_group_released",
        "gauge",
        "Pending entries that XNACK released and no consumer has claimed.",
        lambda view: len(view.group.pending.released),
    ),
    _of_group(
        "headrace_group_oldest_pending_seconds",
        "gauge",
        "Time since the oldest delivery to a consumer that is still pending; 0 if there is none.",
        lambda view: view.oldest_pending_s,
    ),
    _of_group(
        "headrace_group_deliveries",
        "counter",
        "Entries handed out as new.",
        lambda view: view.group.pending.delivered_total,
    ),
    _of_group(
        "headrace_group_claims",
        "counter",
        "Entries taken over by XCLAIM, XAUTOCLAIM and XREADGROUP CLAIM.",
        lambda view: view.group.pending.claimed_total,
    ),
    _of_group("headrace_group_acks", "counter", "Entries acknowledged.", lambda view: view.group.pending.acked_total),
    _of_group(
        "headrace_group_releases", "counter", "Entries released.", lambda view: view.group.pending.released_total
    ),
    _of_group(
        "headrace_group_dead_letters",
        "counter",
        "Of these, those given up with XNACK FATAL.",
        lambda view: view.group.pending.fatal_released_total,
    ),
    _of_policies(
        "headrace_group_redeliveries",
        "counter",
        "Entries that a plain read was given again (REDELIVER).",
        lambda rules: rules.counts.redelivered,
    ),
    _of_policies(
        "headrace_group_moved_dead_letters",
        "counter",
        "Entries moved to the dead-letter stream (DEADLETTER).",
        lambda rules: rules.counts.dead_letters,
    ),
    _of_policies(
        "headrace_group_dead_letter_failures",
        "counter",
        "Attempts to move an entry there that failed: the server log has the reason.",
        lambda rules: rules.counts.dead_letter_failures,
    ),
    _of_policies(
        "headrace_group_expired_consumers",
        "counter",
        "Consumers deleted because they were absent for too long (CONSUMER-TTL).",
        lambda rules: rules.counts.consumers_expired,
    ),
    _of_policies(
        "headrace_group_delayed",
        "gauge",
        "Released entries that may not be had yet (DELAY, BACKOFF).",
        lambda rules: rules.delayed_count,
    ),
    _of_policies(
        "headrace_group_parked",
        "gauge",
        "Pending entries that are not delivered again (MAX-DELIVERIES).",
        lambda rules: rules.parked_count,
    ),
    _of_policies(
        "headrace_group_guarded",
        "gauge",
        "Entries that are not idle because the connection of their delivery is open (GUARD).",
        lambda rules: 0 if rules.lease is None else rules.lease.guarded_count,
    ),
)

CAP_SERIES: Final = (
    Series(
        "headrace_metrics_streams_left_out",
        "gauge",
        "Streams beyond metrics-streams-max, which have no series of their own.",
        (),
        lambda harvest: harvest.streams_left_out,
    ),
    Series(
        "headrace_metrics_groups_left_out",
        "gauge",
        "Groups of shown streams beyond a hundred each, which have no series of their own.",
        (),
        lambda harvest: harvest.groups_left_out,
    ),
)

ALL_SERIES: Final = (*SERVER_SERIES, *STREAM_SERIES, *GROUP_SERIES, *CAP_SERIES)


def table_lines() -> Iterator[str]:
    """The table of docs/metrics.md."""
    yield "| Series | Type | Labels | What it tells |"
    yield "|---|---|---|---|"
    for series in ALL_SERIES:
        name = f"{series.name}_total" if series.kind == "counter" else series.name
        labels = ", ".join(f"`{label}`" for label in series.labels)
        yield f"| `{name}` | {series.kind} | {labels} | {series.text} |"


if __name__ == "__main__":
    print("\n".join(table_lines()))
