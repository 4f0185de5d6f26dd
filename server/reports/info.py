"""The text of INFO: one function per section, each a list of (field, value).

A field of Redis whose value Headrace knows has Redis' name. Fields of parts that Headrace does not have (replicas,
evictions, modules) have the value that says so, if tools read them. Sizes are bytes. Source: INFO of Redis 8.10.2.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Final

from ... import REDIS_VERSION, __version__
from ...commands.clients.blocking import Blocked
from ...commands.core.lookup import find_row
from ...commands.core.table import DECLARED, Trait, named_rows
from ...store.database import Database
from .info_source import Fields, Source
from .info_storage import memory_fields, persistence_fields
from .process import gcc_version, system_name
from .source import commit

try:
    from .section_text import section_text
except ImportError:  # there was no C compiler at installation
    from .section_text_plain import section_text

WAITS_FOR_GROUP: Final = Trait.WAITS_FOR_GROUP.value

# The number of keys from which `avg_ttl` is computed: the mean of more keys would not be worth the pause.
TTL_SAMPLE_COUNT: Final = 1000

# A client counts as active for this time after its last request.
ACTIVE_MS_MAX: Final = 500

# Bytes that would break a line of INFO, as Redis replaces them in names that clients chose.
SAFE_TEXT: Final = str.maketrans("\n\r", "  ")
SAFE_BYTES: Final = bytes.maketrans(b"#:\n\r", b"____")


def render(server: Source, sections: Iterable[bytes]) -> bytes:
    """The text of INFO for these lower-case section names; without any, for the default ones. Unknown names add
    nothing.
    """
    wanted: set[bytes] = set()
    for section in list(sections) or [b"default"]:
        wanted.update(GROUPS.get(section, (section,)))
    texts = [section_text(title, fields(server)) for name, title, fields in NAMED_SECTIONS if name in wanted]
    return b"\r\n".join(texts)


def server_fields(server: Source) -> Fields:
    """Versions, process, uptime and addresses."""
    config = server.config
    now_ms = server.clock()
    uptime_s = max(0, now_ms - server.started_ms) // 1000
    fields: Fields = [
        ("redis_version", REDIS_VERSION),
        ("redis_git_sha1", commit()),
        ("redis_git_dirty", 0),
        ("redis_build_id", "0" * 16),
        ("redis_mode", "standalone"),
        ("os", system_name()),
        ("arch_bits", 64 if sys.maxsize > 2**32 else 32),
        ("monotonic_clock", "POSIX clock_gettime"),
        ("multiplexing_api", "epoll" if sys.platform == "linux" else "kqueue"),
        ("atomicvar_api", "none"),
        ("gcc_version", gcc_version()),
        ("process_id", os.getpid()),
        ("process_supervised", server.supervised_by),
        ("run_id", server.stats.run_id),
        ("tcp_port", config.port or config.tls_port),
        ("server_time_usec", server.context.clock_us()),
        ("uptime_in_seconds", uptime_s),
        ("uptime_in_days", uptime_s // 86400),
        ("hz", config.hz),
        ("configured_hz", config.hz),
        ("lru_clock", now_ms // 1000 & 0xFFFFFF),
        ("executable", config.executable),
        ("config_file", os.fsdecode(config.file_path or b"")),
        ("io_threads_active", 0),
    ]
    if server.stopping.remaining_ms is not None:
        fields.append(("shutdown_in_milliseconds", server.stopping.remaining_ms))
    if config.port:
        addresses = "".join(f",bind={address}" for address in os.fsdecode(config.bind).split())
        fields.append(("listener0", f"name=tcp{addresses},port={config.port}"))
    if config.unixsocket:
        fields.append(("listener1", f"name=unix,bind={os.fsdecode(config.unixsocket)}"))
    if config.tls_port:
        addresses = "".join(f",bind={address}" for address in os.fsdecode(config.bind).split())
        fields.append(("listener2", f"name=tls{addresses},port={config.tls_port}"))
    return [
        *fields,
        ("headrace_version", __version__),
        ("python_version", platform.python_version()),
    ]


def client_fields(server: Source) -> Fields:
    """The numbers of connected and blocked clients, and of the keys that block them."""
    now_ms = server.clock()
    connected = held = subscribing = watching = timed = active = input_size_max = output_size_max = 0
    blocked: list[tuple[int, Blocked]] = []
    for client in server.clients.values():
        connected += not client.is_replica
        held += client.is_held
        subscribing += client.is_subscriber
        watching += bool(client.transaction.watched)
        active += now_ms - client.last_active_ms <= ACTIVE_MS_MAX
        input_size_max = max(input_size_max, client.query_buffer_size)
        output_size_max = max(output_size_max, client.output_buffer_size)
        if client.blocked is not None:
            timed += client.blocked.block_ms is not None
            blocked.append((client.db.index, client.blocked))
    keys = {(index, key) for index, waiting in blocked for key in waiting.keys}
    # Readers of a group also wake when the key, and so the group, is deleted.
    keys_of_groups = {
        (index, key)
        for index, waiting in blocked
        if find_row(waiting.argv, DECLARED).trait_bits & WAITS_FOR_GROUP
        for key in waiting.keys
    }
    return [
        ("connected_clients", connected),
        ("cluster_connections", 0),
        ("maxclients", server.config.maxclients),
        ("client_recent_max_input_buffer", input_size_max),
        ("client_recent_max_output_buffer", output_size_max),
        ("blocked_clients", len(blocked) + held),
        ("tracking_clients", len(server.context.tracking.clients)),
        ("pubsub_clients", subscribing),
        ("watching_clients", watching),
        ("clients_in_timeout_table", timed),
        ("active_clients", active),
        ("total_watched_keys", sum([len(database.watchers) for database in server.store.databases])),
        ("total_blocking_keys", len(keys)),
        ("total_blocking_keys_on_nokey", len(keys_of_groups)),
    ]


def thread_fields(server: Source) -> Fields:
    """The one thread that serves clients."""
    stats = server.stats
    return [
        (
            "io_thread_0",
            f"clients={len(server.clients)},reads={stats.reads_processed},writes={stats.writes_processed}",
        )
    ]


def stats_fields(server: Source) -> Fields:
    """Counters since the start or the last CONFIG RESETSTAT, and the rates of the last 1.6 seconds."""
    stats = server.stats
    slow = server.context.slow_log.tally
    clients = server.clients.values()
    pipelined_count = stats.pipelined_before + sum([client.pipeline_length_sum for client in clients])
    exceeded_ns = 0 if stats.exceeded_since_ns is None else perf_counter_ns() - stats.exceeded_since_ns
    reads_count = stats.reads_before + sum([client.reads_count for client in clients])
    return [
        ("total_connections_received", stats.connections_received),
        ("total_commands_processed", stats.commands_processed),
        ("instantaneous_ops_per_sec", round(stats.commands_rate.per_second)),
        ("total_net_input_bytes", stats.input_size),
        ("total_net_output_bytes", stats.output_size),
        ("total_net_repl_input_bytes", stats.primary_input_size),
        ("total_net_repl_output_bytes", stats.replicas_output_size),
        ("instantaneous_input_kbps", f"{stats.input_rate.per_second / 1024:.2f}"),
        ("instantaneous_output_kbps", f"{stats.output_rate.per_second / 1024:.2f}"),
        ("instantaneous_input_repl_kbps", "0.00"),
        ("instantaneous_output_repl_kbps", "0.00"),
        ("rejected_connections", stats.connections_rejected),
        ("sync_full", stats.sync_full),
        ("sync_partial_ok", stats.sync_partial_ok),
        ("sync_partial_err", stats.sync_partial_err),
        ("expired_subkeys", stats.expired_subkeys),
        ("expired_subkeys_active", stats.expired_subkeys_active),
        ("expired_keys", stats.expired_keys),
        ("expired_keys_active", stats.expired_keys_active),
        ("expired_stale_perc", f"{server.expiry.stale_share * 100:.2f}"),
        ("expired_time_cap_reached_count", server.expiry.cap_reached_count),
        ("expire_cycle_cpu_milliseconds", server.expiry.spent_ns // 1_000_000),
        ("evicted_keys", stats.evicted_keys),
        ("evicted_clients", stats.evicted_clients),
        ("evicted_scripts", server.context.scripts.evicted_count),
        ("total_eviction_exceeded_time", (stats.exceeded_ns + exceeded_ns) // 1_000_000),
        ("current_eviction_exceeded_time", exceeded_ns // 1_000_000),
        ("keyspace_hits", sum([db.hits for db in server.store.databases])),
        ("keyspace_misses", sum([db.misses for db in server.store.databases])),
        ("pubsub_channels", len(server.context.subscriptions.channels.by_name)),
        ("pubsub_patterns", len(server.context.subscriptions.patterns.by_name)),
        ("pubsubshard_channels", len(server.context.subscriptions.shard_channels.by_name)),
        ("latest_fork_usec", stats.latest_fork_us),
        ("total_forks", stats.forks),
        ("migrate_cached_sockets", 0),
        ("slave_expires_tracked_keys", len(server.context.own_keys)),
        ("active_defrag_hits", 0),
        ("active_defrag_misses", 0),
        ("active_defrag_key_hits", 0),
        ("active_defrag_key_misses", 0),
        ("total_active_defrag_time", 0),
        ("current_active_defrag_time", 0),
        ("tracking_total_keys", len(server.context.tracking.table)),
        ("tracking_total_items", server.context.tracking.items_count),
        ("tracking_total_prefixes", len(server.context.tracking.broadcasts)),
        ("unexpected_error_replies", stats.unexpected_error_replies),
        ("total_error_replies", stats.error_replies),
        ("dump_payload_sanitizations", stats.payload_checks),
        ("total_reads_processed", stats.reads_processed),
        ("total_writes_processed", stats.writes_processed),
        ("io_threaded_reads_processed", 0),
        ("io_threaded_writes_processed", 0),
        ("io_threaded_total_prefetch_batches", 0),
        ("io_threaded_total_prefetch_entries", 0),
        ("client_query_buffer_limit_disconnections", stats.query_buffer_limit_disconnections),
        ("client_output_buffer_limit_disconnections", stats.output_buffer_limit_disconnections),
        ("reply_buffer_shrinks", 0),
        ("reply_buffer_expands", 0),
        ("eventloop_duration_cmd_sum", stats.commands_ns // 1000),
        ("total_client_processing_events", stats.reads_processed),
        ("avg_pipeline_length_sum", pipelined_count),
        ("avg_pipeline_length_cnt", reads_count),
        ("avg_pipeline_length", f"{pipelined_count / max(reads_count, 1):.2f}"),
        ("slowlog_commands_count", slow.count),
        ("slowlog_commands_time_ms_max", f"{slow.longest_us / 1000:.2f}"),
        ("slowlog_commands_time_ms_sum", f"{slow.total_us / 1000:.2f}"),
        ("hash_templates", 0),
        ("hash_template_keys", 0),
        ("acl_access_denied_auth", stats.acl_denied_auth),
        ("acl_access_denied_cmd", stats.acl_denied_command),
        ("acl_access_denied_key", stats.acl_denied_key),
        ("acl_access_denied_channel", stats.acl_denied_channel),
        ("acl_access_denied_tls_cert", stats.acl_denied_certificate),
        ("unserved_calls", server.context.unserved.total),
    ]


def replication_fields(server: Source) -> Fields:
    """The role, the link to the primary if there is one, the replicas, the history and its last bytes."""
    primary, config = server.primary, server.config
    history, backlog = primary.history, primary.backlog
    fields: Fields = [("role", "master"), *following_fields(server), ("connected_slaves", len(primary.replicas))]
    if server.following.address is not None:
        fields[0] = ("role", "slave")
    if config.min_replicas_to_write and config.min_replicas_max_lag:
        fields.append(("min_slaves_good_slaves", primary.good_count))
    fields += [(f"slave{index}", line) for index, line in enumerate(primary.info_lines(server.clock()))]
    return [
        *fields,
        ("master_failover_state", server.failover.state.value),
        ("master_replid", history.replid),
        ("master_replid2", history.former_id),
        ("master_repl_offset", history.offset),
        ("second_repl_offset", history.former_end),
        ("repl_backlog_active", int(backlog is not None)),
        ("repl_backlog_size", config.repl_backlog_size),
        ("repl_backlog_first_byte_offset", 0 if backlog is None else backlog.start + 1),
        ("repl_backlog_histlen", 0 if backlog is None else len(backlog)),
    ]


def following_fields(server: Source) -> Fields:
    """The primary of a replica and the link to it; nothing for a primary."""
    following, config, offset = server.following, server.config, server.primary.history.offset
    if following.address is None:
        return []
    host, port = following.address
    link, attempts = following.link, following.attempts
    is_arriving = link is not None and link.is_arriving
    read_offset = link.incoming.received if link is not None and link.incoming is not None else offset
    fields: Fields = [
        ("master_host", host.decode("utf-8", "surrogateescape")),
        ("master_port", port),
        ("master_link_status", "up" if following.is_up else "down"),
        ("master_last_io_seconds_ago", link.silent_s if link is not None and following.is_up else -1),
        ("master_sync_in_progress", int(is_arriving)),
        ("slave_read_repl_offset", read_offset),
        ("slave_repl_offset", offset),
        ("replica_full_sync_buffer_size", 0),
        ("replica_full_sync_buffer_peak", 0),
        ("master_current_sync_attempts", attempts.current_count),
        ("master_total_sync_attempts", attempts.total_count),
    ]
    if link is not None and is_arriving:
        payload = link.payload
        share = 100 * payload.read_size / payload.size if payload.size > 0 else 0.0
        fields += [
            ("master_sync_total_bytes", payload.size),
            ("master_sync_read_bytes", payload.read_size),
            ("master_sync_left_bytes", payload.size - payload.read_size),
            ("master_sync_perc", f"{share:.2f}"),
            ("master_sync_last_io_seconds_ago", link.silent_s),
        ]
    if following.is_up:
        fields += [("master_link_up_since_seconds", following.up_s), ("master_client_io_thread", 0)]
    else:
        fields.append(("master_link_down_since_seconds", following.down_s))
    if following.last_error:
        fields.append(("master_link_error", following.last_error.translate(SAFE_TEXT)))
    return [
        *fields,
        ("total_disconnect_time_sec", following.down_total_ms // 1000),
        ("slave_priority", 0 if following.is_refusing else config.replica_priority),
        ("slave_read_only", int(config.replica_read_only)),
        ("replica_announced", int(config.replica_announced)),
    ]


def cpu_fields(server: Source) -> Fields:
    """Seconds of CPU time."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    fields: Fields = [
        ("used_cpu_sys", f"{own.ru_stime:.6f}"),
        ("used_cpu_user", f"{own.ru_utime:.6f}"),
        ("used_cpu_sys_children", f"{children.ru_stime:.6f}"),
        ("used_cpu_user_children", f"{children.ru_utime:.6f}"),
    ]
    if hasattr(resource, "RUSAGE_THREAD"):
        thread = resource.getrusage(resource.RUSAGE_THREAD)
        fields += [
            ("used_cpu_sys_main_thread", f"{thread.ru_stime:.6f}"),
            ("used_cpu_user_main_thread", f"{thread.ru_utime:.6f}"),
        ]
    return fields


def hot_key_fields(server: Source) -> Fields:
    """The state of HOTKEYS, and the ms that the measurement itself took; nothing before HOTKEYS START."""
    measurement = server.context.hot_keys.last
    if measurement is None:
        return []
    return [
        ("hotkeys-tracking-active", int(measurement.is_active)),
        ("hotkeys-cmd-cpu-time", measurement.own_ms),
    ]


def command_fields(server: Source) -> Fields:
    """One line for each command that was called or refused."""
    fields: Fields = []
    for row in named_rows():
        calls, total_ns = row.totals()
        if calls or row.rejected_calls or row.failed_calls:
            duration_us = total_ns // 1000
            mean_us = duration_us / calls if calls else 0
            value = (
                f"calls={calls},usec={duration_us},usec_per_call={mean_us:.2f},"
                f"rejected_calls={row.rejected_calls},failed_calls={row.failed_calls}"
            )
            slow = row.slow_tally
            if slow.count:
                value += (
                    f",slowlog_count={slow.count},slowlog_time_ms_sum={slow.total_us / 1000:.2f},"
                    f"slowlog_time_ms_max={slow.longest_us / 1000:.2f}"
                )
            fields.append((f"cmdstat_{row.name_lower.decode()}", value))
    return fields


def error_fields(server: Source) -> Fields:
    """Error replies by code word, in alphabetical order."""
    return [
        (f"errorstat_{code.translate(SAFE_BYTES).decode('utf-8', 'surrogateescape')}", f"count={count}")
        for code, count in sorted(server.stats.errors.items())
    ]


def latency_fields(server: Source) -> Fields:
    """Percentiles of the durations of each command's calls, of those made while `latency-tracking` is on."""
    if not server.config.latency_tracking:
        return []
    percents = [float(word) for word in server.config.latency_tracking_info_percentiles.split()]
    names = [f"p{percent:.15g}" for percent in percents]
    fields: Fields = []
    for row in named_rows():
        found = row.durations.percentiles_ns(percents)
        if found:
            parts = [f"{name}={value_ns / 1000:.3f}" for name, value_ns in zip(names, found, strict=True)]
            fields.append((f"latency_percentiles_usec_{row.name_lower.decode()}", ",".join(parts)))
    return fields


def cluster_fields(server: Source) -> Fields:
    """The fields of a server without a cluster."""
    return [("cluster_enabled", 0)]


def keyspace_fields(server: Source) -> Fields:
    """The databases that have keys."""
    now_ms = server.clock()
    return [
        (
            f"db{database.index}",
            f"keys={len(database.keys)},expires={len(database.expires)},"
            f"avg_ttl={_mean_ttl_ms(database, now_ms)},subexpiry={len(database.expiring_hashes)}",
        )
        for database in server.store.databases
        if database.keys
    ]


def _mean_ttl_ms(database: Database, now_ms: int) -> int:
    sample = [max(0, due_ms - now_ms) for due_ms in database.keys.due_times(TTL_SAMPLE_COUNT)]
    return sum(sample) // len(sample) if sample else 0


def no_fields(server: Source) -> Fields:
    """A section of Redis for which Headrace has no fields."""
    return []


# The sections by title, in Redis' order.
SECTIONS: Final[dict[str, Callable[[Source], Fields]]] = {
    "Server": server_fields,
    "Clients": client_fields,
    "Memory": memory_fields,
    "Persistence": persistence_fields,
    "Threads": thread_fields,
    "Stats": stats_fields,
    "Replication": replication_fields,
    "CPU": cpu_fields,
    "Hotkeys": hot_key_fields,
    "Modules": no_fields,
    "Commandstats": command_fields,
    "Errorstats": error_fields,
    "Latencystats": latency_fields,
    "Cluster": cluster_fields,
    "Keyspace": keyspace_fields,
    "Keysizes": no_fields,
}

# By the names that clients give.
NAMED_SECTIONS: Final = [(title.lower().encode(), title, fields) for title, fields in SECTIONS.items()]

ALL: Final = frozenset([name for name, _, _ in NAMED_SECTIONS])
# The sections that a name means, if it is not that of a section.
GROUPS: Final = {b"default": ALL - {b"commandstats", b"latencystats"}, b"all": ALL, b"everything": ALL}
