"""Reports of the server about itself, and the reset of its counters."""

from __future__ import annotations

from ...store.chunk import drop_unpacked
from .info import render
from .info_source import Source
from .memory_report import memory_report, memory_stats, purge_memory


class ServerReports:
    """The reports on one server: `commands.execution.services.Reports`."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def info(self, sections: list[bytes]) -> bytes:
        """The text of INFO."""
        return render(self._source, sections)

    def memory_stats(self) -> dict[bytes, object]:
        """MEMORY STATS."""
        return memory_stats(self._source)

    def memory_doctor(self) -> str:
        """MEMORY DOCTOR."""
        return memory_report(self._source)

    def purge_memory(self) -> None:
        """MEMORY PURGE."""
        drop_unpacked()
        purge_memory()

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        source = self._source
        source.stats.reset()
        source.expiry.reset_statistics()
        source.store.garbage.freed_count = 0
        for client in source.clients.values():
            source.stats.pipelined_before -= client.pipeline_length_sum
            source.stats.reads_before -= client.reads_count
        source.context.slow_log.reset_statistics()
        source.context.unserved.reset()
        source.context.scripts.reset_statistics()
        for jobs in (source.snapshots.rewrite, source.snapshots.save):
            jobs.reset_statistics()
        if source.log is not None:
            source.log.delayed_fsyncs_count = 0
        for db in source.store.databases:
            db.hits = db.misses = 0
