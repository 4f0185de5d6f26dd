"""The append-only log: its files, and how they are opened, loaded, started anew and rewritten.

`writer` says how records are written to its last file, and what each fsync policy guarantees.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from errno import ENOSPC
from typing import Final

from ..store.clock import wall_clock_ms
from .checksum import with_checksums
from .files import DiskFiles, Files
from .folder import LogFolder, LogSettings
from .loading import Apply, LoadResult, Progress, Target, run_through
from .manifest import Manifest, Part
from .rdb.file import own_aux, write_file
from .records import select_record, timestamp_line
from .writer import Effect, LogWriter

logger = logging.getLogger(__name__)

# Records of a new base file are written in blocks of about this size: making one takes well below a millisecond.
SNAPSHOT_BLOCK_SIZE: Final = 64 * 1024


class AppendOnlyLog(LogWriter):
    """One log. It keeps no records before `open` or `begin_start`. The parameters are those of `LogWriter`; `files` is
    the disk."""

    def __init__(
        self,
        settings: LogSettings,
        policy: bytes,
        files: Files | None = None,
        *,
        clock: Callable[[], int] = wall_clock_ms,
        executor: Executor | None = None,
        mark: int = 0,
        synced_mark: int = 0,
    ) -> None:
        super().__init__(settings, policy, clock=clock, executor=executor, mark=mark, synced_mark=synced_mark)
        self._folder = LogFolder(settings, DiskFiles() if files is None else files)
        # Whether the base that is being written, or the next one, is an RDB file.
        self.has_rdb_base = settings.has_rdb_base
        self._wants_rdb_base = settings.has_rdb_base
        self._keeps_history = settings.keeps_history
        # Bytes of the base file.
        self.base_size = 0

    # -- what others ask -------------------------------------------------------------------------

    @property
    def files(self) -> Files:
        """The disk that the log is on."""
        return self._folder.files

    @property
    def manifest_path(self) -> str:
        """Path of the manifest."""
        return self._folder.manifest_path

    def path_on_disk(self) -> str | None:
        """Path of the manifest, or of a log of one file, if a start with this log would read any bytes; else None.

        Raises LoadError, OSError.
        """
        folder = self._folder
        if parts := folder.read().readable:
            return folder.manifest_path if any(map(folder.size, parts)) else None
        return folder.old_path if self.files.size(folder.old_path) else None

    def is_absent(self) -> bool:
        """Whether there is no log on disk. Raises LoadError if its manifest is lost, OSError."""
        return self._folder.is_absent()

    # -- changed directives ----------------------------------------------------------------------

    def configure(self, settings: LogSettings) -> None:
        """Apply changed directives: to the next record, the next base, the next load. A base that is being written
        keeps its form. Superseded files are deleted at once if they are kept no longer. Location and checksums stay.
        """
        self.has_timestamps = settings.has_timestamps
        self._wants_rdb_base = settings.has_rdb_base
        self._keeps_history = settings.keeps_history
        self._folder.configure(settings)
        if self.is_open and not self.is_starting:
            self._remove_history()

    # -- loading and opening ---------------------------------------------------------------------

    def load(
        self,
        apply: Apply,
        on_progress: Progress = lambda read, total: None,
        target: Target | None = None,
    ) -> LoadResult:
        """Replay the log, before `open` or (DEBUG LOADAOF) after an `fsync`.

        `apply` is called with each record except MULTI and EXEC, starting in database 0. `target` takes the keys of an
        RDB base. Raises LoadError, OSError.
        """
        return run_through(self.load_steps(apply, on_progress, target))

    def load_steps(
        self, apply: Apply, on_progress: Progress, target: Target | None = None
    ) -> Generator[None, None, LoadResult]:
        """Replay the log in steps, between which the event loop may run other work. See `load`."""
        result = yield from self._folder.load_steps(apply, on_progress, target)
        self.current_size, self.base_size = result.size, result.base_size
        return result

    def begin_with_rdb(self, blocks: Iterable[bytes]) -> None:
        """Make an RDB file of the loaded dataset the base of this log, before `open`. Raises OSError."""
        self._folder.begin_with_rdb(blocks)

    def open(self) -> None:
        """Start to keep records at the end of the existing log, or in a new one. Raises LogError, OSError."""
        folder = self._folder
        folder.make()
        before = folder.read()
        manifest = before.reopened()
        if not manifest.parts:
            # As in Redis, so that a log always has a base.
            manifest = Manifest((folder.write_base(self._empty_base(), is_rdb=self.has_rdb_base),))
            logger.info("Creating AOF base file %s on server start", os.fsdecode(manifest.parts[0].name))
        is_new = not manifest.increments
        if is_new:
            manifest = Manifest((*manifest.parts, folder.next_part(b"i", manifest)))
        file = self.files.open_log(folder.path(manifest.increments[-1]))
        try:
            if is_new and file.size():
                file.truncate(0)  # left by a start that ended before the manifest was written
            # The manifest names the file before the first record is written, so that a start after a crash reads it.
            if manifest != before:
                folder.put(manifest)
        except OSError:
            file.close()
            raise
        verb = "Creating" if is_new else "Opening"
        logger.info("%s AOF incr file %s on server start", verb, os.fsdecode(manifest.increments[-1].name))
        self._continue_with(file)
        self.base_size = folder.size(manifest.base) if manifest.base else 0
        self.current_size = sum(map(folder.size, manifest.readable))
        self._remove_history()

    def _empty_base(self) -> Iterable[bytes]:
        if not self.has_rdb_base:
            return ()
        now_ms = self._clock()
        return write_file((), own_aux(now_ms=now_ms, used_memory=0, is_aof_base=True), now_ms=now_ms)

    # -- starting anew ---------------------------------------------------------------------------

    def check_start(self) -> None:
        """Check whether `begin_start` will accept the files that are there. Raises LoadError, OSError."""
        self._folder.read()

    def begin_start(self) -> str:
        """Start the log at CONFIG SET appendonly yes: keep records in a temporary file until their base is complete.
        Returns the path for the base. Raises OSError.

        Until `finish_start` the log gives no guarantees, and the old files are the log.
        """
        self._folder.make()
        self._folder.read()
        self._folder.begin_manifest()
        file = self.files.open_log(self._folder.temporary_path)
        if file.size():
            file.truncate(0)  # left by a start that was interrupted
        self._continue_with(file)
        self.is_starting = True
        self.current_size = self.base_size = 0
        return self._next_base_path()

    def _next_base_path(self) -> str:
        self.has_rdb_base = self._wants_rdb_base
        return self._folder.path(self._next_base(self._folder.manifest))

    def _next_base(self, manifest: Manifest, size: int | None = None) -> Part:
        """Return the base after that of `manifest`. `size` is in bytes, None while it is being written."""
        return replace(self._folder.next_part(b"b", manifest, is_rdb=self.has_rdb_base), size=size)

    def finish_start(self, size: int) -> None:
        """Make the base, which is now at its path with `size` bytes, and the records since `begin_start` the log.

        Raises OSError.
        """
        assert self.is_open
        folder = self._folder
        old = folder.manifest
        base, increment = self._next_base(old, size), folder.next_part(b"i", old)
        self.files.rename(folder.temporary_path, folder.path(increment))
        folder.supersede(base, [increment])
        self._end_start()
        self.base_size = size
        self.current_size += size
        self._remove_history()

    def abandon_start(self) -> None:
        """Cancel `begin_start`, and drop the records since."""
        self._close_file()
        self.is_starting = False
        with contextlib.suppress(OSError):
            self.files.remove(self._folder.temporary_path)
            self._folder.remove_empty_manifest()

    def base_blocks(self, snapshot: Iterable[Effect]) -> Iterator[bytes]:
        """Return the content of a base file in RESP, in blocks."""
        head = timestamp_line(self._clock() // 1000) if self.has_timestamps else b""
        blocks = record_blocks(snapshot, head)
        return with_checksums(blocks) if self._has_block_checksums else blocks

    # -- rewriting -------------------------------------------------------------------------------

    def begin_rewrite(self) -> str:
        """Open the next increment, which continues the present dataset. Returns the path for its new base.

        From now on the manifest names the increment after the old base and increments, which stay valid. Without an
        open log only a base is written. Raises OSError, LogFailure.
        """
        self._folder.make()
        if self.is_open:
            self._switch_increment()
        else:
            self._folder.read()
            self._folder.begin_manifest()
        return self._next_base_path()

    def _switch_increment(self) -> None:
        """Write records to a new file from now on.

        The current file is on stable storage before the manifest names the next one. So after a power loss only the
        last file may lack its end.
        """
        if not self.settle():
            raise OSError(ENOSPC, self.last_error.decode())
        folder = self._folder
        part = folder.next_part(b"i", folder.manifest)
        size = folder.size(folder.manifest.increments[-1])
        file = self.files.open_log(folder.path(part))
        try:
            if file.size():
                file.truncate(0)  # left by a rewrite that was interrupted
            folder.put(folder.manifest.continued_in(part, size))
        except OSError:
            file.close()
            raise
        self._switch_to(file)
        logger.info("Creating AOF incr file %s on background rewrite", os.fsdecode(part.name))

    def finish_rewrite(self, size: int) -> None:
        """Make the base, which is now at its path with `size` bytes, and the increment the log.

        The manifest marks all other files as superseded before they are deleted. Raises OSError; the old files are then
        still valid.
        """
        folder = self._folder
        current = folder.manifest.increments[-1:] if self.is_open else []
        folder.supersede(self._next_base(folder.manifest, size), current)
        self.base_size = size
        self.current_size = size + sum(map(folder.size, current))
        self._remove_history()

    # -- backups ---------------------------------------------------------------------------------

    def base_path(self) -> str:
        """Path of the base that is in force."""
        base = self._folder.manifest.base
        assert base is not None
        return self._folder.path(base)

    def has_base_in(self, folder: str) -> bool:
        """Whether another folder has a file with the name of the base in force. Raises OSError."""
        base = self._folder.manifest.base
        return base is not None and self.files.size(os.path.join(folder, os.fsdecode(base.name))) is not None

    def end_increment(self) -> list[Part]:
        """Write records to a new increment from now on. Returns the files before it, which never change again: the
        base, then the increments. Raises OSError, LogFailure.
        """
        self._switch_increment()
        return self._folder.manifest.readable[:-1]

    def part_path(self, part: Part) -> str:
        """Path of a file of the log."""
        return self._folder.path(part)

    def discard(self) -> None:
        """Remove all files of a log that was closed. Raises OSError.

        The manifest lists no file before the first one is removed, so that a start after a crash finds no log.
        """
        folder = self._folder
        parts = folder.manifest.parts
        folder.put(Manifest())
        for part in parts:
            self.files.remove(folder.path(part))
        folder.remove_empty_manifest()

    def _remove_history(self) -> None:
        if not self._keeps_history:
            self._folder.remove_history()


def record_blocks(snapshot: Iterable[Effect], head: bytes = b"") -> Iterator[bytes]:
    """Yield the content of a base file in RESP, after a head. Each database begins with its SELECT."""
    selected: int | None = None
    block = bytearray(head)
    for db_index, record in snapshot:
        if db_index != selected:
            block += select_record(db_index)
            selected = db_index
        block += record
        if len(block) >= SNAPSHOT_BLOCK_SIZE:
            yield bytes(block)
            block.clear()
    yield bytes(block)
