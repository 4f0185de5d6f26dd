"""A dataset that arrives from a primary: it is loaded into a second store while clients are served from the first.

Its bytes are read as they arrive, in slices, and dropped when they were read: few of them are kept, however large the
dataset is or is said to be. It is exchanged with the present dataset when it is complete and its checksum is right.
Until then nothing of the present dataset is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from time import perf_counter_ns
from typing import Final

from ...commands.execution.context import Context
from ...commands.execution.library_set import LibrarySet
from ...persistence.errors import RdbError
from ...persistence.rdb.file import FileLibrary, FileReader, in_steps
from ...persistence.rows.blocks import BlockReader
from ...persistence.rows.streams import ROWS
from ...store.database import Database, Store
from ...store.errors import ReplyError
from ..configuration.config import Config
from ..storage.filling import Filling
from .lockstep import Lockstep

# Time that a slice of a load takes from the clients.
SLICE_NS: Final = 4_000_000
# Bytes that wait to be read. With more, no more should be added.
WAITING_SIZE_MAX: Final = 1 << 20
# Bytes that are read at once: this takes a small part of a slice, also within a large value.
BLOCK_SIZE: Final = 64 * 1024


class Progress(Enum):
    """What a slice has led to."""

    # There is more to be read.
    MORE = "more"
    # All that was added is read.
    STARVED = "starved"
    # The dataset is loaded.
    LOADED = "loaded"


class Arrival:
    """The dataset of one full synchronization."""

    def __init__(self, config: Config, context: Context, now_ms: int) -> None:
        self._context = context
        self._blocks: deque[bytes] = deque()
        # Bytes that wait to be read.
        self.waiting_size = 0
        self._is_complete = False
        self._is_starved = False
        self._end_ns = 0
        self.store = Store(len(context.store.databases))
        self.store.record_uses(context.use_rules)
        # The libraries of functions that have arrived.
        self._library_codes: list[bytes] = []
        self._libraries = LibrarySet()
        self._now_ms = now_ms
        self._checks_checksum: bool = config.rdbchecksum
        self._blocks_reader = BlockReader(self._taken_blocks())
        # What reads the dataset, from its first bytes on.
        self._reader: FileReader | None = None
        # Values are read by plain calls, in the middle of which bytes may be missing.
        self._work = Lockstep(self._load)

    def add(self, data: bytes) -> None:
        """Add bytes, of which there may be more than the dataset has."""
        if self._work.has_ended:
            return
        for start in range(0, len(data), BLOCK_SIZE):
            self._blocks.append(data[start : start + BLOCK_SIZE])
        self.waiting_size += len(data)

    def complete(self) -> None:
        """All bytes were added."""
        self._is_complete = True

    def _taken_blocks(self) -> Iterator[bytes]:
        while self._blocks or not self._is_complete:
            self._is_starved = not self._blocks
            if self._is_starved or perf_counter_ns() >= self._end_ns:
                self._work.pause()
                continue
            block = self._blocks.popleft()
            self.waiting_size -= len(block)
            yield block

    @property
    def keys_count(self) -> int:
        """Keys loaded so far."""
        return 0 if self._reader is None else self._reader.keys_count

    @property
    def has_rows(self) -> bool:
        """Whether the dataset is in the form of rows."""
        return self._blocks_reader.has_rows

    @property
    def stream_db_index(self) -> int:
        """The database of the first command after the dataset."""
        text = b"0" if self._reader is None else self._reader.aux.get(b"repl-stream-db", b"0")
        index = int(text) if text.isdigit() else 0
        return index if index < len(self.store.databases) else 0

    def step(self) -> Progress:
        """Load for the time of a slice. Raises RdbError."""
        if not self._work.has_ended:
            self._end_ns = perf_counter_ns() + SLICE_NS
            self._is_starved = False
            if not self._work.run():
                return Progress.STARVED if self._is_starved else Progress.MORE
            self._blocks.clear()
            self.waiting_size = 0
            self._load_libraries()
        return Progress.LOADED if self._is_complete else Progress.STARVED

    def _load(self) -> None:
        filling = _ArrivalFilling(self.store.databases, self._context, self._library_codes)
        blocks = self._blocks_reader
        blocks.begin()
        # Keys that have expired are kept: the primary says when they are removed.
        self._reader = reader = FileReader(
            blocks.content(),
            self._context.limits,
            now_ms=self._now_ms,
            drops_expired=False,
            checks_checksum=self._checks_checksum and not blocks.has_rows,
            databases_count=len(self.store.databases),
            form=ROWS if blocks.has_rows else None,
        )
        for _ in in_steps(reader.parts(), filling):
            self._pause_if_over()
        for db in self.store.databases:
            for stream in db.streams.values():
                for group in stream.groups.values():
                    group.pending.forget_totals()
                    group.pending.put_in_order()
                self._pause_if_over()

    def _load_libraries(self) -> None:
        try:
            self._libraries = self._context.libraries.prepared(self._library_codes, is_from_file=True)
        except ReplyError as error:
            raise RdbError(f"Failed creating the library: {error}") from error

    def _pause_if_over(self) -> None:
        if perf_counter_ns() >= self._end_ns:
            self._work.pause()

    def drop(self) -> None:
        """Forget what was loaded."""
        self._work.abandon()
        self._blocks.clear()
        for db, arrived in zip(self._context.store.databases, self.store.databases, strict=True):
            # Its memory is freed by and by.
            arrived.garbage = db.garbage
            arrived.clear()

    def exchange(self, now_ms: int) -> None:
        """Put the dataset in the place of the present one. Clients that watch, cache or wait for keys are notified."""
        context = self._context
        context.now_ms = now_ms
        for db, arrived in zip(context.store.databases, self.store.databases, strict=True):
            db.swap_with(arrived, now_ms)
            # The memory of the former keys is freed by and by.
            arrived.garbage = db.garbage
            arrived.clear()
        context.libraries.present = self._libraries
        context.tracking.note_flush()


class _ArrivalFilling(Filling):
    """Stores the keys of a dataset. Libraries are collected, and loaded after it."""

    def __init__(self, databases: list[Database], context: Context, library_codes: list[bytes]) -> None:
        super().__init__(databases, context, is_of_primary=True)
        self._library_codes = library_codes

    def put_library(self, library: FileLibrary) -> None:
        """Keep a library for later."""
        self._library_codes.append(library.code)
