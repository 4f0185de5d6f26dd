"""The append-only log: what has been promised to survive, and when.

    append(effects)   into a buffer, in order
    flush()           one write for everything gathered; with it the process may end and nothing is lost
    fsync()           stable storage; with it the machine may lose power and nothing is lost

What each `appendfsync` promises to a client that has its reply:

- `always`: the effect is on stable storage. `needs_fsync_before_reply` says so: flush and fsync, then reply. If either
  raises LogFailure the promise is broken, and the replies of that turn must not be sent.
- `everysec`: the effect was handed to the operating system; a thread syncs it, at most once a second.
- `no`: the effect was handed to the operating system, which syncs when it likes.

One thread calls all methods. The only other thread runs `LogFile.fsync`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from errno import ENOSPC
from typing import Final

from ..store.clock import wall_clock_ms
from .checksum import EMPTY_BLOCK_LINE, OpenBlock, with_checksums
from .errors import LogFailure
from .files import DiskFiles, Files, LogFile
from .folder import LogFolder, LogSettings
from .loading import Apply, LoadResult, Progress, Target, run_through
from .manifest import Manifest
from .records import EXEC, MULTI, select_record, timestamp_line
from .syncing import BackgroundSync

logger = logging.getLogger(__name__)

FSYNC_INTERVAL_MS: Final = 1000
"""`everysec`: time between the starts of two background fsyncs."""

SLOW_FSYNC_MS: Final = 2000
"""`everysec`: a background fsync that takes longer is worth a line in the server's log, as in Redis."""

ERROR_LOG_INTERVAL_MS: Final = 30_000
"""A disk that stays full gets one log line in this time, not one per command."""

SNAPSHOT_BLOCK_SIZE: Final = 64 * 1024
"""Records of a new base file are written in blocks of about this size: one takes well below a millisecond to make."""

CHECKSUM_BLOCK_SIZE: Final = 4 * 1024
"""A write that brings the bytes without a checksum to this many ends with their line of some 30 bytes."""

IDLE_BLOCK_MS: Final = 1000
"""A smaller block gets its line when nothing was written for this time: not after each record of a quiet server."""

Effect = tuple[int, bytes]
"""(database index, RESP record)."""


class AppendOnlyLog:
    """One log. Before `open` or `start` it keeps nothing.

    `policy` is the word of `appendfsync`, and may be assigned at any time. `clock` answers Unix ms; the fsyncs of
    `everysec` run in `executor`, by default a thread of the log's own. `mark` and `synced_mark` are those of the log
    before this one: clients keep marks, so these only grow.
    """

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
        self._folder = LogFolder(settings, DiskFiles() if files is None else files)
        self._clock = clock
        self._sync = BackgroundSync(executor)
        self._file: LogFile | None = None
        self._buffer: list[bytes] = []
        self._selected_db: int | None = None
        """Database of the last record in the file; None makes the next one begin with SELECT."""
        self._stamped_s = 0
        """Unix seconds of the last timestamp line."""
        self._unsynced_size = 0
        self._error_logged_ms: int | None = None
        self.policy = policy
        self.keeps_history = False
        """`aof-disable-auto-gc`: superseded files stay."""
        self.has_rdb_base = False
        """`aof-use-rdb-preamble`: what a rewrite puts in place is an RDB file."""
        self.has_timestamps = False
        """`aof-timestamp-enabled`: a `#TS:` line goes before the first record of each second."""
        self.has_block_checksums = False
        """`aof-block-checksums`: the bytes of the files are covered by checksum lines. Set it before opening."""
        self._block = OpenBlock()
        self._hashed_size = 0
        """Bytes at the front of the buffer that have gone into `_block`, or are a line themselves."""
        self._idle_block_size = 0
        self._idle_since_ms = 0
        """Since when `_block` has that size."""
        self.is_starting = False
        """The base that the records continue is not complete yet."""
        self.mark = mark
        """Counts what was appended: a write is on stable storage once `synced_mark` is at or above its mark."""
        self.synced_mark = synced_mark
        self._written_mark = mark
        self._mark_in_file = mark
        """Up to this mark the open file is on stable storage; `synced_mark` follows it once the base is complete."""
        self.holds_fsync: Callable[[], bool] = lambda: False
        """Returns whether `everysec` starts no background fsync now (`no-appendfsync-on-rewrite`)."""
        self.on_synced: Callable[[], None] = lambda: None
        """Called, by any thread, when a background fsync has ended."""
        self.on_mark: Callable[[], None] = lambda: None
        """Called when `synced_mark` has grown, however that came."""
        self.on_append: Callable[[list[Effect], bool], None] | None = None
        """Called with what was appended, and whether as a group, by whoever follows the log."""
        self.delayed_fsyncs_count = 0
        """Writes that had to go on beside an fsync that took too long (INFO aof_delayed_fsync)."""
        self.current_size = 0
        """Bytes of all files that a start would read, written so far."""
        self.base_size = 0
        """Bytes of the base file."""
        self.last_write_ok = True
        self.last_fsync_ok = True
        self.last_error = b""
        """Text of the last OSError, e.g. `No space left on device`."""
        self.flush_delay_us = 0
        """DEBUG AOF-FLUSH-SLEEP: time to waste before each write."""

    # -- what others ask -------------------------------------------------------------------------

    @property
    def files(self) -> Files:
        """The disk it is on."""
        return self._folder.files

    @property
    def buffer_size(self) -> int:
        """Bytes appended and not yet written."""
        return sum(map(len, self._buffer))

    @property
    def is_fsync_pending(self) -> bool:
        """Whether the background fsync is running."""
        return self._sync.is_running

    @property
    def needs_fsync_before_reply(self) -> bool:
        """Whether a reply promises stable storage."""
        return self.policy == b"always"

    @property
    def write_error(self) -> bytes | None:
        """Why writes must be refused (MISCONF), None while the log works."""
        return None if self.last_write_ok and self.last_fsync_ok else self.last_error

    # -- opening and closing ---------------------------------------------------------------------

    def load(
        self,
        apply: Apply,
        on_progress: Progress = lambda read, total: None,
        target: Target | None = None,
    ) -> LoadResult:
        """Replay the log, before `open` or (DEBUG LOADAOF) after an `fsync`.

        `apply` gets each record but MULTI and EXEC, SELECT included, starting in database 0; the keys of an RDB base go
        to `target`. Raises LoadError, OSError.
        """
        return run_through(self.load_steps(apply, on_progress, target))

    def load_steps(
        self, apply: Apply, on_progress: Progress, target: Target | None = None
    ) -> Generator[None, None, LoadResult]:
        """The same bit by bit: between two steps others may do something."""
        result = yield from self._folder.load_steps(apply, on_progress, target)
        self.current_size, self.base_size = result.size, result.base_size
        return result

    def size_on_disk(self) -> int:
        """Bytes that a start with this log would read. Raises LoadError, OSError."""
        return sum(map(self._folder.size, self._folder.read().readable))

    @property
    def manifest_path(self) -> str:
        """The list of its files."""
        return self._folder.manifest_path

    def open(self) -> None:
        """Begin to keep records at the end of the log that is there, or in a new one. Raises LogError, OSError."""
        folder = self._folder
        folder.make()
        before = folder.read()
        manifest = before.reopened()
        is_new = not manifest.increments
        if is_new:
            manifest = Manifest((*manifest.parts, folder.next_part(b"i", manifest)))
        file = self.files.open_log(folder.path(manifest.increments[-1]))
        try:
            if is_new and file.size():
                file.truncate(0)  # left by a start that did not come as far as the manifest
            # What is read after a crash is made known before the first record.
            if manifest != before:
                folder.put(manifest)
        except OSError:
            file.close()
            raise
        self._go_on_with(file)
        if self.has_block_checksums and file.size():
            # What is there may end without a line: see `checksum`.
            self._buffer.insert(0, EMPTY_BLOCK_LINE)
            self._hashed_size = len(EMPTY_BLOCK_LINE)
        self.base_size = folder.size(manifest.base) if manifest.base else 0
        self.current_size = sum(map(folder.size, manifest.readable))
        self._remove_history()

    def _go_on_with(self, file: LogFile) -> None:
        """What is appended from here on goes to the end of this file, of which all is on stable storage."""
        self._file, self._selected_db, self._unsynced_size = file, None, 0
        self._block.clear()
        self._hashed_size = 0

    def begin_start(self) -> str:
        """CONFIG SET appendonly yes: keep records in a temporary file until the base that they continue is complete;
        answers where that must be put. Raises OSError.

        Until `finish_start` nothing is promised, and the old files are the log.
        """
        self._folder.make()
        self._folder.read()
        self._folder.begin_manifest()
        file = self.files.open_log(self._folder.temporary_path)
        if file.size():
            file.truncate(0)  # left by a start that did not come this far
        self._go_on_with(file)
        self.is_starting = True
        self.current_size = self.base_size = 0
        return self._next_base_path()

    def _next_base_path(self) -> str:
        folder = self._folder
        return folder.path(folder.next_part(b"b", folder.manifest, is_rdb=self.has_rdb_base))

    def finish_start(self, size: int) -> None:
        """The base has been put in its place, `size` bytes long: it and the records since are the log from here on.

        Raises OSError.
        """
        assert self._file is not None
        folder = self._folder
        old = folder.manifest
        base, increment = folder.next_part(b"b", old, is_rdb=self.has_rdb_base), folder.next_part(b"i", old)
        self.files.rename(folder.temporary_path, folder.path(increment))
        folder.put(Manifest((base, increment)))
        self.is_starting = False
        self._note_synced(self._mark_in_file)
        self.base_size = size
        self.current_size += size
        self._unsynced_size += 1  # the next fsync must come, whether or not something is written before it
        for part in old.parts:
            self.files.remove(folder.path(part))

    def abandon_start(self) -> None:
        """There will be no base: forget the records since."""
        self._let_go()
        self.is_starting = False
        with contextlib.suppress(OSError):
            self.files.remove(self._folder.temporary_path)
            self._folder.remove_empty_manifest()

    def base_blocks(self, snapshot: Iterable[Effect]) -> Iterator[bytes]:
        """The content of a base file in RESP."""
        blocks = record_blocks(snapshot)
        return with_checksums(blocks) if self.has_block_checksums else blocks

    # -- rewriting -------------------------------------------------------------------------------

    def begin_rewrite(self) -> str:
        """Open the next increment, which continues what the dataset is now; answers where its new base must be put.

        The manifest names the increment from here on, after the old base and increments, which stay in force. Without
        an open log only a base is made. Raises OSError, LogFailure.
        """
        self._folder.make()
        if self._file is None:
            self._folder.read()
            self._folder.begin_manifest()
        else:
            self._switch_increment()
        return self._next_base_path()

    def _switch_increment(self) -> None:
        """Let the next record be the first of a new file.

        The present one is on stable storage before the manifest names another behind it: after a power loss only the
        last file may lack its end.
        """
        assert self._file is not None
        if not (self._write_rest() and self.fsync()):
            raise OSError(ENOSPC, self.last_error.decode())
        folder = self._folder
        part = folder.next_part(b"i", folder.manifest)
        file = self.files.open_log(folder.path(part))
        try:
            if file.size():
                file.truncate(0)  # left by a rewrite that did not come this far
            folder.put(Manifest((*folder.manifest.parts, part)))
        except OSError:
            file.close()
            raise
        self._file.close()
        self._file, self._selected_db = file, None

    def finish_rewrite(self, size: int) -> None:
        """The base has been put in its place, `size` bytes long: from here on a start reads it and the increment.

        All other files are superseded, which the manifest says before they are deleted. Raises OSError, and then the
        old files are still in force.
        """
        folder = self._folder
        current = folder.manifest.increments[-1:] if self._file is not None else []
        folder.supersede(folder.next_part(b"b", folder.manifest, is_rdb=self.has_rdb_base), current)
        self.base_size = size
        self.current_size = size + sum(map(folder.size, current))
        self._remove_history()

    def _remove_history(self) -> None:
        if not self.keeps_history:
            self._folder.remove_history()

    # -- closing ---------------------------------------------------------------------------------

    def close(self) -> bool:
        """Write and sync what is left, and close. False, or LogFailure, if that failed: `last_error` says why."""
        if self._file is None:
            return True
        try:
            return self._write_rest() and self.fsync()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close the file, once nobody syncs it any more."""
        self._sync.stop()
        if self._file is not None:
            self._file.close()
        self._file, self._buffer = None, []

    # -- writing ---------------------------------------------------------------------------------

    def append(self, effects: list[Effect], grouped: bool) -> None:
        """Take over records. `grouped`: they happened as one, and a replay must run all of them or none.

        Hot: see the benchmark row XADD with a log.
        """
        buffer = self._buffer
        self.mark += 1
        if self.has_timestamps:
            self._append_timestamp()
        is_group = grouped and len(effects) > 1
        if is_group:
            buffer.append(MULTI)
        for db_index, record in effects:
            if db_index != self._selected_db:
                buffer.append(select_record(db_index))
                self._selected_db = db_index
            buffer.append(record)
        if is_group:
            buffer.append(EXEC)
        if self.on_append is not None:
            self.on_append(effects, grouped)

    def _append_timestamp(self) -> None:
        now_s = self._clock() // 1000
        if now_s != self._stamped_s:
            self._stamped_s = now_s
            self._buffer.append(timestamp_line(now_s))

    def flush(self) -> bool:
        """Write the buffer. False if not all of it could be: the rest stays, and the next flush goes on with it.

        With `everysec` it goes on beside the background fsync: a reply promises that the records were handed to the
        operating system, and most systems take them meanwhile. Raises LogFailure instead of answering False if replies
        wait for stable storage.
        """
        now_ms = self._clock()
        if self._buffer and self._file is not None:
            self._note_slow_fsync(now_ms)
            if not self._write():
                return False
        self._sync_in_background(now_ms)
        return True

    def _note_slow_fsync(self, now_ms: int) -> None:
        """Say so, once, when records are written beside an fsync that has been running for two seconds."""
        sync = self._sync
        if not sync.is_running or sync.is_slow:
            return
        if abs(now_ms - sync.started_ms) >= SLOW_FSYNC_MS:
            sync.is_slow = True
            self.delayed_fsyncs_count += 1
            logger.warning(
                "Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF buffer without waiting for "
                "fsync to complete, this may slow down the server."
            )

    def _write_rest(self) -> bool:
        """Write the buffer now, and the line of the last block."""
        return not (self._buffer or self._block.size) or self._write(block_size_min=1)

    def _write(self, block_size_min: int = CHECKSUM_BLOCK_SIZE) -> bool:
        assert self._file is not None
        if self.flush_delay_us:
            time.sleep(self.flush_delay_us / 1_000_000)
        data = memoryview(self._with_checksum(b"".join(self._buffer), block_size_min))
        written_size = 0
        try:
            while written_size < len(data):
                taken = self._file.append(data[written_size:])
                if not taken:
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
                written_size += taken
            if not self.last_write_ok:
                logger.warning("AOF write error looks solved, writes are accepted again.")
            self.last_write_ok = True
        except OSError as error:
            self.last_write_ok = False
            self._failed("Error writing to the AOF file", error)
        finally:
            self.current_size += written_size
            self._unsynced_size += written_size
            self._buffer = [bytes(data[written_size:])] if written_size < len(data) else []
            self._hashed_size = len(data) - written_size
            if not self._buffer:
                self._written_mark = self.mark
        return self.last_write_ok

    def _with_checksum(self, data: bytes, block_size_min: int) -> bytes:
        """`data` as it is to be written: with the line of the block that it completes, if that is large enough."""
        if not self.has_block_checksums:
            return data
        block = self._block
        block.add(data[self._hashed_size :])
        if block.size < block_size_min:
            return data
        line = block.line()
        block.clear()
        return data + line

    def fsync(self) -> bool:
        """Bring everything to stable storage before returning. False, or LogFailure, if that failed."""
        self._collect_fsync(wait=True)
        if self._buffer and self._file is not None and not self._write():
            return False
        if self._file is None or (not self._unsynced_size and self.last_fsync_ok):
            self._note_synced(self._written_mark)
            return True
        self._sync.started_ms = self._clock()
        try:
            self._file.fsync()
        except OSError as error:
            self.last_fsync_ok = False
            self._failed("Error fsyncing the AOF file", error)
            return False
        self._unsynced_size = 0
        self._note_synced(self._written_mark)
        self.last_fsync_ok = True
        return True

    def _note_synced(self, mark: int) -> None:
        """The open file is on stable storage up to this mark."""
        self._mark_in_file = mark
        if not self.is_starting and mark != self.synced_mark:
            self.synced_mark = mark
            self.on_mark()

    def cron(self, now_ms: int) -> None:
        """Ten times a second: retry a failed write, and sync what an idle server has left."""
        if self._buffer and self._file is not None and not self._write():
            return
        self._close_idle_block(now_ms)
        self._sync_in_background(now_ms)

    def _close_idle_block(self, now_ms: int) -> None:
        size = self._block.size
        if size != self._idle_block_size:
            self._idle_block_size, self._idle_since_ms = size, now_ms
            return
        is_due = size and abs(now_ms - self._idle_since_ms) >= IDLE_BLOCK_MS
        if is_due and self._file is not None:
            self._write_rest()

    def _sync_in_background(self, now_ms: int) -> None:
        """Start the fsync of `everysec`, or one more after a failure, if it is due and the last one has ended."""
        self._collect_fsync(wait=False)
        is_wanted = self.policy == b"everysec" or not self.last_fsync_ok
        if not is_wanted or self._file is None or self._sync.current is not None:
            return
        # A clock that was set back must not put the fsync off.
        is_due = abs(now_ms - self._sync.started_ms) >= FSYNC_INTERVAL_MS
        if is_due and (not self.last_fsync_ok or (self._unsynced_size and not self.holds_fsync())):
            self._start_fsync(now_ms)

    def sync_soon(self, size_min: int) -> bool:
        """Whether the thread is syncing `size_min` bytes or more; if so many are unsynced, it begins to."""
        self._collect_fsync(wait=False)
        if self._sync.current is None and self._file is not None and self._unsynced_size >= size_min:
            self._start_fsync(self._clock())
        return self._sync.current is not None and self._sync.current.size >= size_min

    def _start_fsync(self, now_ms: int) -> None:
        assert self._file is not None
        self._sync.start(
            self._file.fsync,
            size=self._unsynced_size,
            mark=self._written_mark,
            now_ms=now_ms,
            on_ended=lambda: self.on_synced(),
        )
        self._unsynced_size = 0

    def _collect_fsync(self, *, wait: bool) -> None:
        """Learn how the background fsync went, if there was one."""
        sync = self._sync.collect(wait=wait)
        if sync is None:
            return
        error = sync.future.exception()
        if error is None:
            self._note_synced(sync.mark)
            self.last_fsync_ok = True
        elif isinstance(error, OSError):
            self.last_fsync_ok = False
            self._failed("Error fsyncing the AOF file", error)
        else:
            raise error

    def _failed(self, what: str, error: OSError) -> None:
        """Remember why, log it now and then, and stop whoever was about to make a promise."""
        reason = error.strerror or str(error)
        self.last_error = reason.encode()
        if self.policy == b"always":
            raise LogFailure(f"{what} when the AOF fsync policy is 'always': {reason}. Exiting...") from error
        now_ms = self._clock()
        if self._error_logged_ms is None or abs(now_ms - self._error_logged_ms) >= ERROR_LOG_INTERVAL_MS:
            self._error_logged_ms = now_ms
            logger.warning("%s: %s", what, reason)


def record_blocks(snapshot: Iterable[Effect]) -> Iterator[bytes]:
    """The content of a base file in RESP; every database begins with its SELECT."""
    selected: int | None = None
    block = bytearray()
    for db_index, record in snapshot:
        if db_index != selected:
            block += select_record(db_index)
            selected = db_index
        block += record
        if len(block) >= SNAPSHOT_BLOCK_SIZE:
            yield bytes(block)
            block.clear()
    yield bytes(block)
