"""Directives that apply to objects of other modules: applied at the start, and when CONFIG SET changes them.

A directive that concerns only one module is watched there (snapshots, the log, listeners, TLS).
"""

from __future__ import annotations

from collections.abc import Callable

from ...commands.core.table import all_rows
from ...commands.execution.calls import watched_ns
from ...commands.execution.context import Context
from ...commands.permissions.users import Users
from ...store.chunk import pack_sealed
from ...store.nodes import NODE_SIZE_UNLIMITED
from .config import Config


class LiveSettings:
    """Applies directives, now and after each change."""

    def __init__(
        self,
        config: Config,
        context: Context,
        users: Users,
        *,
        refresh_clients: Callable[[], None],
        apply_users: Callable[[], None],
        configure_readers: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._users = users
        # Gives the connected clients the tables of what their users may run.
        self._refresh_clients = refresh_clients
        # Applies changed users to the connected clients.
        self._apply_users = apply_users
        self._put_in_force(
            self._limit_streams,
            "stream-node-max-bytes",
            "stream-node-max-entries",
            "stream-idmp-duration",
            "stream-idmp-maxsize",
            "stream-exact-lag",
        )
        self._put_in_force(
            self._limit_companions,
            "array-slice-size",
            "array-sparse-kmax",
            "array-sparse-kmin",
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "hash-min-template-entries",
            "hash-max-template-entries",
            "hash-rdb-load-min-template-entries",
            "hash-rdb-load-max-template-entries",
            "hash-rdb-load-template-disassembly-threshold",
            "list-max-listpack-size",
            "set-max-intset-entries",
            "set-max-listpack-entries",
            "set-max-listpack-value",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
            "hll-sparse-max-bytes",
        )
        self._put_in_force(self._choose_compression, "stream-chunk-compression")
        self._put_in_force(self._watch_calls, "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold")
        self._put_in_force(self._sample_calls, "latency-tracking")
        self._put_in_force(self._choose_events, "notify-keyspace-events")
        # The start applies these directives where it creates the objects that they configure.
        self._listen(context.tracking.forget_oldest, "tracking-table-max-keys")
        self._listen(configure_readers, "proto-max-bulk-len", "client-query-buffer-limit")
        self._listen(self._change_default_password, "requirepass")
        self._listen(self._change_channels_default, "acl-pubsub-default")

    def _put_in_force(self, call: Callable[[], None], *names: str) -> None:
        call()
        self._listen(call, *names)

    def _listen(self, call: Callable[[], None], *names: str) -> None:
        for name in names:
            self._config.on_change(name, lambda value: call())

    def _limit_streams(self) -> None:
        """Apply the directives that all streams share."""
        config, limits = self._config, self._context.limits
        wanted = (config.stream_node_max_bytes or NODE_SIZE_UNLIMITED, config.stream_node_max_entries)
        if wanted != (limits.node_size_max, limits.node_entries_max):
            # Existing entries keep their node boundaries.
            for db in self._context.store.databases:
                for stream in db.streams.values():
                    stream.settle_nodes()
            limits.node_size_max, limits.node_entries_max = wanted
        limits.counts_lag = config.stream_exact_lag
        limits.idmp_duration_s, limits.idmp_entries_max = config.stream_idmp_duration, config.stream_idmp_maxsize

    def _limit_companions(self) -> None:
        """Apply the directives that say how large a value is when it is no longer small."""
        config, limits = self._config, self._context.limits
        limits.array_slice_size = config.array_slice_size
        limits.array_sparse_min = config.array_sparse_kmin
        limits.array_sparse_max = config.array_sparse_kmax
        limits.hash_entries_max = config.hash_max_listpack_entries
        limits.hash_value_max = config.hash_max_listpack_value
        limits.template_entries_min = config.hash_min_template_entries
        limits.template_entries_max = config.hash_max_template_entries
        limits.loaded_template_entries_min = config.hash_rdb_load_min_template_entries
        limits.loaded_template_entries_max = config.hash_rdb_load_max_template_entries
        limits.loaded_template_hashes_min = config.hash_rdb_load_template_disassembly_threshold
        limits.list_node_max = config.list_max_listpack_size
        limits.set_integers_max = config.set_max_intset_entries
        limits.set_entries_max = config.set_max_listpack_entries
        limits.set_value_max = config.set_max_listpack_value
        limits.sorted_set_entries_max = config.zset_max_listpack_entries
        limits.sorted_set_value_max = config.zset_max_listpack_value
        limits.hyperloglog_size_max = config.hll_sparse_max_bytes

    def _choose_compression(self) -> None:
        """Apply to chunks that are sealed from now on; sealed ones stay as they are."""
        pack_sealed(self._config.stream_chunk_compression == b"zstd")

    def _watch_calls(self) -> None:
        """Apply the thresholds of the slow log and the latency monitor."""
        context = self._context
        context.latency.threshold_ms = self._config.latency_monitor_threshold
        context.watched_ns = watched_ns(self._config)

    def _sample_calls(self) -> None:
        """Choose whether the histograms count the calls that end from now on."""
        for row in all_rows():
            row.recorder = row.durations if self._config.latency_tracking else row.unsampled
        # The tables name what counts a call.
        self._users.forget_tables()
        self._refresh_clients()

    def _change_default_password(self) -> None:
        self._users.set_default_password(self._config.requirepass)
        self._apply_users()

    def _change_channels_default(self) -> None:
        self._users.all_channels = self._config.acl_pubsub_default == b"allchannels"

    def _choose_events(self) -> None:
        self._context.notifications.configure(self._config.notify_keyspace_events)
        self._context.refresh_listeners()
