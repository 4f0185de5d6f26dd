"""A dataset that arrives from a primary: it is loaded into a second store while clients are served from the first.

Its bytes are kept in memory until all have arrived. Then it is loaded in slices, and exchanged with the present dataset
when it is complete and its checksum is right. Until then nothing of the present dataset is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

from ...commands.execution.context import Context
from ...persistence.errors import RdbError
from ...persistence.rdb.file import FileKey, FileKeys, FileReader, in_steps
from ...store.database import Store
from ..configuration.config import Config

# Time that a slice of a load takes from the clients.
SLICE_NS: Final = 4_000_000


class Arrival:
    """The dataset of one full synchronization."""

    def __init__(self, config: Config, context: Context, now_ms: int) -> None:
        self._context = context
        self._blocks: deque[bytes] = deque()
        self.store = Store(len(context.store.databases))
        # Keys that have expired are kept: the primary says when they are removed.
        self._reader = FileReader(
            self._taken_blocks(),
            context.stream_limits,
            now_ms=now_ms,
            drops_expired=False,
            checks_checksum=config.rdbchecksum,
            databases_count=len(context.store.databases),
        )
        self._steps = self._load()

    def add(self, block: bytes) -> None:
        """Add bytes. All must be there before the first `step`."""
        if block:
            self._blocks.append(block)

    def _taken_blocks(self) -> Iterator[bytes]:
        while self._blocks:
            yield self._blocks.popleft()

    @property
    def keys_count(self) -> int:
        """Keys loaded so far."""
        return self._reader.keys_count

    @property
    def stream_db_index(self) -> int:
        """The database of the first command after the dataset."""
        text = self._reader.aux.get(b"repl-stream-db", b"0")
        index = int(text) if text.isdigit() else 0
        return index if index < len(self.store.databases) else 0

    def step(self) -> bool:
        """Load for the time of a slice. Returns whether all is loaded. Raises RdbError."""
        end_ns = perf_counter_ns() + SLICE_NS
        for _ in self._steps:  # noqa: SIM110 - a compiled generator expression would run all steps
            if perf_counter_ns() >= end_ns:
                return False
        return True

    def _load(self) -> Iterator[None]:
        yield from in_steps(self._reader.parts(), self)
        for db in self.store.databases:
            for stream in db.streams.values():
                for group in stream.groups.values():
                    group.pending.forget_totals()
                    group.pending.put_in_order()
                yield

    def put(self, key: FileKey) -> None:
        """Store one key. Raises RdbError if it exists."""
        db = self.store.databases[key.db_index]
        if key.key in db.keys:
            raise _duplicated(key.key, key.db_index)
        db.put(key.key, key.value)
        if key.expires_ms is not None:
            db.expires[key.key] = key.expires_ms

    def put_many(self, part: FileKeys) -> None:
        """Store keys with strings or short streams. Raises RdbError if one exists."""
        double = self.store.databases[part.db_index].add_many(part.values)
        if double is not None:
            raise _duplicated(double, part.db_index)

    def exchange(self, now_ms: int) -> None:
        """Put the dataset in the place of the present one. Clients that watch, cache or wait for keys are notified."""
        context = self._context
        context.now_ms = now_ms
        for db, arrived in zip(context.store.databases, self.store.databases, strict=True):
            db.swap_with(arrived, now_ms)
            # The memory of the former keys is freed by and by.
            arrived.garbage = db.garbage
            arrived.clear()
        context.tracking.note_flush()


def _duplicated(key: bytes, db_index: int) -> RdbError:
    text = key.decode("utf-8", "backslashreplace")
    return RdbError(f"The primary sent the key '{text}' in database {db_index} twice")
