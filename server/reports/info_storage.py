"""The INFO sections Memory and Persistence. Sizes are bytes."""

from __future__ import annotations

from .info_source import Fields, Source, log_value
from .process import resident_size, system_size


def human_size(size: int) -> str:
    """`801576` as `782.79K`: powers of 1024, two decimals."""
    if size < 1024:
        return f"{size}B"
    amount = float(size)
    for unit in "KMGTP":
        amount /= 1024
        if amount < 1024 or unit == "P":
            break
    return f"{amount:.2f}{unit}"


def memory_fields(server: Source) -> Fields:
    """The memory of dataset and clients, and the resident memory of the whole process, interpreter included."""
    used = server.memory.measure()
    peak = server.memory.peak_size
    dataset = server.memory.dataset_size
    resident = resident_size()
    fragmentation, fragmented_size = server.memory.fragmentation(used, resident)
    clients = server.memory.clients_size
    log_buffer = log_value(server, "buffer_size", 0)
    scripts, libraries = server.context.scripts, server.context.libraries
    evaluation_size = scripts.memory_size
    lua_size, cache_size = evaluation_size + libraries.memory_size, scripts.cache_size + libraries.cache_size
    limit, system = server.config.maxmemory, system_size()
    return [
        ("used_memory", used),
        ("used_memory_human", human_size(used)),
        ("used_memory_rss", resident),
        ("used_memory_rss_human", human_size(resident)),
        ("used_memory_peak", peak),
        ("used_memory_peak_human", human_size(peak)),
        ("used_memory_peak_time", server.memory.peak_ms // 1000),
        ("used_memory_peak_perc", f"{used * 100 / peak:.2f}%"),
        ("used_memory_overhead", used - dataset),
        ("used_memory_startup", 0),
        ("used_memory_dataset", dataset),
        ("used_memory_dataset_perc", f"{dataset * 100 / used:.2f}%"),
        # Python's allocator keeps freed memory resident, like that of a Redis without jemalloc.
        ("allocator_allocated", used),
        ("allocator_active", resident),
        ("allocator_resident", resident),
        ("allocator_muzzy", 0),
        ("total_system_memory", system),
        ("total_system_memory_human", human_size(system)),
        ("used_memory_lua", evaluation_size),
        ("used_memory_vm_eval", evaluation_size),
        ("used_memory_lua_human", human_size(evaluation_size)),
        ("used_memory_scripts_eval", scripts.cache_size),
        ("number_of_cached_scripts", scripts.cached_count),
        ("number_of_functions", len(libraries.present.functions)),
        ("number_of_libraries", len(libraries.present.libraries)),
        ("used_memory_vm_functions", libraries.memory_size),
        ("used_memory_vm_total", lua_size),
        ("used_memory_vm_total_human", human_size(lua_size)),
        ("used_memory_functions", libraries.cache_size),
        ("used_memory_hash_templates", 0),
        ("used_memory_scripts", cache_size),
        ("used_memory_scripts_human", human_size(cache_size)),
        ("maxmemory", limit),
        ("maxmemory_human", human_size(limit)),
        ("maxmemory_policy", server.config.maxmemory_policy.decode()),
        # Both figures of each pair are the same one here.
        ("allocator_frag_ratio", "1.00"),
        ("allocator_frag_bytes", 0),
        ("allocator_rss_ratio", "1.00"),
        ("allocator_rss_bytes", 0),
        ("rss_overhead_ratio", "1.00"),
        ("rss_overhead_bytes", 0),
        ("mem_fragmentation_ratio", f"{fragmentation:.2f}"),
        ("mem_fragmentation_bytes", fragmented_size),
        ("mem_not_counted_for_evict", log_buffer),
        ("mem_replication_backlog", server.primary.memory_size),
        ("mem_total_replication_buffers", server.primary.memory_size),
        ("mem_replica_full_sync_buffer", 0),
        ("mem_clients_slaves", 0),
        ("mem_clients_normal", clients),
        ("mem_clients_normal_shared", 0),
        ("mem_clients_normal_unshared", clients),
        ("mem_cluster_slot_migration_output_buffer", 0),
        ("mem_cluster_slot_migration_input_buffer", 0),
        ("mem_cluster_slot_migration_input_buffer_peak", 0),
        ("mem_cluster_links", 0),
        ("mem_aof_buffer", log_buffer),
        ("mem_allocator", "python"),
        ("mem_overhead_db_hashtable_rehashing", 0),
        ("active_defrag_running", 0),
        ("lazyfree_pending_objects", len(server.store.garbage)),
        ("lazyfreed_objects", server.store.garbage.freed_count),
    ]


def persistence_fields(server: Source) -> Fields:
    """dump.rdb and the append-only file."""
    save = server.snapshots.save
    # A replica serves its old data while those of its primary arrive and are loaded.
    link = None if server.following.address is None else server.following.link
    is_arriving = link is not None and link.is_arriving and link.payload.size >= 0
    fields: Fields = [
        ("loading", int(server.context.loading)),
        ("async_loading", int(is_arriving)),
        ("current_cow_peak", 0),
        ("current_cow_size", 0),
        ("current_cow_size_age", 0),
        ("current_fork_perc", "0.00"),
        ("current_save_keys_processed", server.snapshots.keys_done),
        ("current_save_keys_total", server.snapshots.keys_total),
        ("rdb_changes_since_last_save", server.snapshots.changes_count),
        ("rdb_bgsave_in_progress", int(save.is_running)),
        ("rdb_last_save_time", server.snapshots.last_save_ms // 1000),
        ("rdb_last_bgsave_status", "ok" if save.last_ok else "err"),
        ("rdb_last_bgsave_time_sec", save.last_duration_s),
        ("rdb_current_bgsave_time_sec", save.running_s(server.clock())),
        ("rdb_saves", save.count),
        ("rdb_saves_consecutive_failures", save.failures_count),
        ("rdb_last_cow_size", 0),
        ("rdb_last_load_keys_expired", server.loading.keys_expired),
        ("rdb_last_load_keys_loaded", server.loading.keys_loaded),
        ("aof_enabled", int(server.config.appendonly or server.log is not None)),
        *_log_fields(server),
        ("aof_last_cow_size", 0),
        ("backup_in_progress", int(server.backups.backup.is_running)),
        ("module_fork_in_progress", 0),
        ("module_fork_last_cow_size", 0),
    ]
    if server.config.appendonly:
        fields += [
            ("aof_current_size", log_value(server, "current_size", 0)),
            ("aof_base_size", log_value(server, "base_size", 0)),
            ("aof_pending_rewrite", int(server.snapshots.is_rewrite_scheduled)),
            ("aof_buffer_length", log_value(server, "buffer_size", 0)),
            ("aof_pending_bio_fsync", int(log_value(server, "is_fsync_pending", False))),
            ("aof_delayed_fsync", log_value(server, "delayed_fsyncs_count", 0)),
        ]
    if server.context.loading:
        progress = server.loading
        fields += [
            ("loading_start_time", progress.started_ms // 1000),
            ("loading_total_bytes", progress.total_size),
            ("loading_rdb_used_mem", 0),
            ("loading_loaded_bytes", progress.read_size),
            ("loading_loaded_perc", f"{100 * progress.read_size / max(progress.total_size, 1):.2f}"),
            ("loading_eta_seconds", progress.eta_s),
        ]
    return fields


def _log_fields(server: Source) -> Fields:
    """How rewrites ended, and the log's last write. Without a log, the values of one that never failed."""
    rewrite = server.snapshots.rewrite
    return [
        ("aof_rewrite_in_progress", int(rewrite.is_running)),
        ("aof_rewrite_scheduled", int(server.snapshots.is_rewrite_scheduled)),
        ("aof_last_rewrite_time_sec", rewrite.last_duration_s),
        ("aof_current_rewrite_time_sec", rewrite.running_s(server.clock())),
        ("aof_last_bgrewrite_status", "ok" if rewrite.last_ok else "err"),
        ("aof_rewrites", rewrite.count),
        ("aof_rewrites_consecutive_failures", rewrite.failures_count),
        ("aof_last_write_status", "ok" if log_value(server, "last_write_ok", True) else "err"),
    ]
