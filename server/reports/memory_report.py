"""Memory for people and tools: MEMORY STATS, DOCTOR and PURGE. Sizes are bytes.

The allocator is Python's: its memory from the system counts as resident. A Redis that was built without jemalloc
reports the same figures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from .info_source import Source
from .process import resident_size

# Below this size the figures mean nothing.
SMALL_SIZE: Final = 5 << 20

PEAK_RATIO_MAX: Final = 1.5
RESIDENT_RATIO_MAX: Final = 1.5
# Resident memory beyond the data that is not reported: the interpreter, and some room.
RESIDENT_SIZE_MIN: Final = 64 << 20

CLIENT_SIZE_MAX: Final = 200 << 10


def memory_stats(server: Source) -> dict[bytes, object]:
    """MEMORY STATS, in Redis' order."""
    memory = server.memory
    used, resident = memory.measure(), resident_size()
    fragmentation, fragmented_size = memory.fragmentation(used, resident)
    peak, dataset, clients = memory.peak_size, memory.dataset_size, memory.clients_size
    log_buffer = 0 if server.log is None else server.log.buffer_size
    databases = [db for db in server.store.databases if db.keys]
    keys_count = sum(len(db.keys) for db in databases)
    tables = {
        b"db.%d" % db.index: {
            b"overhead.hashtable.main": db.table_size,
            b"overhead.hashtable.expires": db.keys.expiry_size,
        }
        for db in databases
    }
    return {
        b"peak.allocated": peak,
        b"total.allocated": used,
        b"startup.allocated": 0,
        b"replication.backlog": 0,
        b"replica.fullsync.buffer": 0,
        b"clients.slaves": 0,
        b"clients.normal": clients,
        b"clients.normal.shared": 0,
        b"clients.normal.unshared": clients,
        b"cluster.links": 0,
        b"aof.buffer": log_buffer,
        b"lua.caches": server.context.scripts.cache_size,
        b"functions.caches": server.context.libraries.cache_size,
        b"script.VMs": server.context.scripts.memory_size + server.context.libraries.memory_size,
        b"hash.templates": 0,
        **tables,
        b"overhead.db.hashtable.lut": sum(db.table_size + db.keys.expiry_size for db in databases),
        b"overhead.db.hashtable.rehashing": 0,
        b"overhead.total": used - dataset,
        b"db.dict.rehashing.count": 0,
        b"keys.count": keys_count,
        b"keys.bytes-per-key": dataset // keys_count if keys_count else 0,
        b"dataset.bytes": dataset,
        b"dataset.percentage": dataset * 100 / max(used, 1),
        b"peak.percentage": used * 100 / max(peak, 1),
        b"allocator.allocated": used,
        b"allocator.active": resident,
        b"allocator.resident": resident,
        b"allocator.muzzy": 0,
        b"allocator-fragmentation.ratio": 1.0,
        b"allocator-fragmentation.bytes": 0,
        b"allocator-rss.ratio": 1.0,
        b"allocator-rss.bytes": 0,
        b"rss-overhead.ratio": 1.0,
        b"rss-overhead.bytes": 0,
        b"fragmentation": fragmentation,
        b"fragmentation.bytes": fragmented_size,
    }


def memory_report(server: Source) -> str:
    """MEMORY DOCTOR: what is unusual, and what to do about it."""
    used = server.memory.measure()
    if used < SMALL_SIZE:
        return "Hi Sam, there is hardly any data here yet: come back when there is some.\n"
    resident = resident_size()
    found: list[str] = []
    if server.memory.peak_size > used * PEAK_RATIO_MAX:
        found.append(
            "Peak: at its height the data took more than one and a half times what it takes now. What was freed stays "
            "with the process and serves new data; MEMORY PURGE gives back what it can."
        )
    if resident > used * RESIDENT_RATIO_MAX + RESIDENT_SIZE_MIN:
        found.append(
            "Resident: the process holds much more memory than its data needs. A recent peak, a snapshot being written "
            "or many small values explain that; MEMORY PURGE or a restart gives it back."
        )
    clients = server.clients
    if clients and server.memory.clients_size // len(clients) > CLIENT_SIZE_MAX:
        found.append(
            "Clients: their buffers are large. CLIENT LIST shows by tot-mem whose: pipelines without reading replies, "
            "or subscribers that do not keep up."
        )
    limit = server.config.maxmemory
    if limit and used * 10 > limit * 9:
        found.append(
            "Limit: more than nine tenths of maxmemory are used; "
            "beyond it keys are evicted or writes refused. XTRIM helps."
        )
    if not found:
        return "Hi Sam, there is nothing remarkable about the memory of this server.\n"
    return "Sam, I found something about the memory of this server:\n\n" + "".join(f" * {line}\n" for line in found)


def purge_memory() -> None:
    """MEMORY PURGE: let the C library return free memory to the system, if it can."""
    _trimmer()(0)


@cache
def _trimmer() -> Callable[[int], object]:
    """The function of the C library that returns free memory. Only glibc has it; others return memory by themselves."""
    # A start does not need it.
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return int
