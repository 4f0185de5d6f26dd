"""The append-only log, and what each fsync policy guarantees.

    append(effects)   adds records to a buffer, in order
    flush()           writes the buffer; what was flushed survives the end of the process
    fsync()           syncs the file; what was synced survives a power loss

What each `appendfsync` guarantees when the client has its reply:

- `always`: the effect is on stable storage. `needs_fsync_before_reply` is true: flush and fsync, then reply. If either
  raises LogFailure, the replies of that turn must not be sent.
- `everysec`: the effect was passed to the operating system; a thread syncs it, at most once a second.
- `no`: the effect was passed to the operating system, which syncs when it likes.

All methods are called by one thread. The only other thread runs `LogFile.fsync`.
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
from .errors import LogFailure, remedy
from .files import DiskFiles, Files, LogFile
from .folder import LogFolder, LogSettings
from .loading import Apply, LoadResult, Progress, Target, run_through
from .manifest import Manifest
from .records import EXEC, MULTI, select_record, timestamp_line
from .syncing import BackgroundSync

logger = logging.getLogger(__name__)

# Policy `everysec`: time between the starts of two background fsyncs.
FSYNC_INTERVAL_MS: Final = 1000

# Policy `everysec`: a background fsync that takes longer is reported in the server log, as in Redis.
SLOW_FSYNC_MS: Final = 2000

# A lasting write error is reported in the server log at most once in this time.
ERROR_LOG_INTERVAL_MS: Final = 30_000

# Records of a new base file are written in blocks of about this size: making one takes well below a millisecond.
SNAPSHOT_BLOCK_SIZE: Final = 64 * 1024

# A write is followed by a checksum line, of some 30 bytes, once this many bytes have none.
CHECKSUM_BLOCK_SIZE: Final = 4 * 1024

# A smaller block gets its checksum line after this time without writes, so that a quiet server does not write a line
# per record.
IDLE_BLOCK_MS: Final = 1000

# (database index, RESP record).
Effect = tuple[int, bytes]


class AppendOnlyLog:
    """One log. It keeps no records before `open` or `begin_start`.

    `policy` is the value of `appendfsync`, and may be assigned at any time. `clock` returns Unix ms. The fsyncs of
    `everysec` run in `executor`, by default in a thread of this log. `mark` and `synced_mark` continue those of the
    previous log: clients keep marks, so marks only grow.
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
        # Database of the last record in the file; None if the next record must follow a SELECT.
        self._selected_db: int | None = None
        # Unix seconds of the last timestamp line.
        self._stamped_s = 0
        self._unsynced_size = 0
        self._error_logged_ms: int | None = None
        self.policy = policy
        # `aof-disable-auto-gc`: whether superseded files are kept.
        self.keeps_history = False
        # `aof-use-rdb-preamble`: whether the base that a rewrite writes is an RDB file.
        self.has_rdb_base = False
        # `aof-timestamp-enabled`: whether a `#TS:` line precedes the first record of each second.
        self.has_timestamps = False
        # `aof-block-checksums`: whether checksum lines cover the bytes of the files. Set before opening.
        self.has_block_checksums = False
        self._block = OpenBlock()
        # Bytes at the front of the buffer that were added to `_block`, or are a checksum line.
        self._hashed_size = 0
        self._idle_block_size = 0
        # Unix ms since which `_block` has this size.
        self._idle_since_ms = 0
        # Whether the base that the records continue is still being written.
        self.is_starting = False
        # Number of the last append: a write is on stable storage once `synced_mark` has reached its mark.
        self.mark = mark
        self.synced_mark = synced_mark
        self._written_mark = mark
        # Up to this mark the open file is on stable storage; `synced_mark` follows it once the base is complete.
        self._mark_in_file = mark
        # Returns whether `everysec` starts no background fsync now (`no-appendfsync-on-rewrite`).
        self.holds_fsync: Callable[[], bool] = lambda: False
        # Called, by any thread, when a background fsync has ended.
        self.on_synced: Callable[[], None] = lambda: None
        # Called when `synced_mark` has grown.
        self.on_mark: Callable[[], None] = lambda: None
        # Called with appended effects, and whether they are a group. Set by the component that follows the log.
        self.on_append: Callable[[list[Effect], bool], None] | None = None
        # Writes made during an fsync that took too long (INFO aof_delayed_fsync).
        self.delayed_fsyncs_count = 0
        # Bytes of all files that a start would read, written so far.
        self.current_size = 0
        # Bytes of the base file.
        self.base_size = 0
        self.last_write_ok = True
        self.last_fsync_ok = True
        # Text of the last OSError, e.g. `No space left on device`.
        self.last_error = b""
        # DEBUG AOF-FLUSH-SLEEP: time to sleep before each write.
        self.flush_delay_us = 0

    # -- what others ask -------------------------------------------------------------------------

    @property
    def files(self) -> Files:
        """The disk that the log is on."""
        return self._folder.files

    @property
    def buffer_size(self) -> int:
        """Bytes appended and not yet written."""
        return sum(map(len, self._buffer))

    @property
    def is_fsync_pending(self) -> bool:
        """Whether a background fsync is running."""
        return self._sync.is_running

    @property
    def needs_fsync_before_reply(self) -> bool:
        """Whether a reply guarantees that its effects are on stable storage."""
        return self.policy == b"always"

    @property
    def write_error(self) -> bytes | None:
        """The reason to refuse writes (MISCONF), None while the log works."""
        return None if self.last_write_ok and self.last_fsync_ok else self.last_error

    # -- opening and closing ---------------------------------------------------------------------

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

    def size_on_disk(self) -> int:
        """Bytes that a start with this log would read. Raises LoadError, OSError."""
        return sum(map(self._folder.size, self._folder.read().readable))

    @property
    def manifest_path(self) -> str:
        """Path of the manifest."""
        return self._folder.manifest_path

    def open(self) -> None:
        """Start to keep records at the end of the existing log, or in a new one. Raises LogError, OSError."""
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
                file.truncate(0)  # left by a start that ended before the manifest was written
            # The manifest names the file before the first record is written, so that a start after a crash reads it.
            if manifest != before:
                folder.put(manifest)
        except OSError:
            file.close()
            raise
        self._continue_with(file)
        if self.has_block_checksums and file.size():
            # The existing bytes may end without a checksum line: see `checksum`.
            self._buffer.insert(0, EMPTY_BLOCK_LINE)
            self._hashed_size = len(EMPTY_BLOCK_LINE)
        self.base_size = folder.size(manifest.base) if manifest.base else 0
        self.current_size = sum(map(folder.size, manifest.readable))
        self._remove_history()

    def _continue_with(self, file: LogFile) -> None:
        """Append from now on to the end of this file, all of which is on stable storage."""
        self._file, self._selected_db, self._unsynced_size = file, None, 0
        self._block.clear()
        self._hashed_size = 0

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
        folder = self._folder
        return folder.path(folder.next_part(b"b", folder.manifest, is_rdb=self.has_rdb_base))

    def finish_start(self, size: int) -> None:
        """Make the base, which is now at its path with `size` bytes, and the records since `begin_start` the log.

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
        self._unsynced_size += 1  # forces the next fsync, even if nothing is written before it
        for part in old.parts:
            self.files.remove(folder.path(part))

    def abandon_start(self) -> None:
        """Cancel `begin_start`, and drop the records since."""
        self._close_file()
        self.is_starting = False
        with contextlib.suppress(OSError):
            self.files.remove(self._folder.temporary_path)
            self._folder.remove_empty_manifest()

    def base_blocks(self, snapshot: Iterable[Effect]) -> Iterator[bytes]:
        """Return the content of a base file in RESP, in blocks."""
        blocks = record_blocks(snapshot)
        return with_checksums(blocks) if self.has_block_checksums else blocks

    # -- rewriting -------------------------------------------------------------------------------

    def begin_rewrite(self) -> str:
        """Open the next increment, which continues the present dataset. Returns the path for its new base.

        From now on the manifest names the increment after the old base and increments, which stay valid. Without an
        open log only a base is written. Raises OSError, LogFailure.
        """
        self._folder.make()
        if self._file is None:
            self._folder.read()
            self._folder.begin_manifest()
        else:
            self._switch_increment()
        return self._next_base_path()

    def _switch_increment(self) -> None:
        """Write records to a new file from now on.

        The current file is on stable storage before the manifest names the next one. So after a power loss only the
        last file may lack its end.
        """
        assert self._file is not None
        if not self.settle():
            raise OSError(ENOSPC, self.last_error.decode())
        folder = self._folder
        part = folder.next_part(b"i", folder.manifest)
        file = self.files.open_log(folder.path(part))
        try:
            if file.size():
                file.truncate(0)  # left by a rewrite that was interrupted
            folder.put(Manifest((*folder.manifest.parts, part)))
        except OSError:
            file.close()
            raise
        self._file.close()
        self._file, self._selected_db = file, None

    def finish_rewrite(self, size: int) -> None:
        """Make the base, which is now at its path with `size` bytes, and the increment the log.

        The manifest marks all other files as superseded before they are deleted. Raises OSError; the old files are then
        still valid.
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
        """Write and sync the rest, and close. Returns False, or raises LogFailure, on failure; `last_error` has the
        reason."""
        if self._file is None:
            return True
        try:
            return self.settle()
        finally:
            self._close_file()

    def settle(self) -> bool:
        """Write and sync the rest, so that `close` has nothing left to do. Returns False, or raises LogFailure, on
        failure."""
        return self._write_rest() and self.fsync()

    def _close_file(self) -> None:
        """Close the file after the background fsync has ended."""
        self._sync.stop()
        if self._file is not None:
            self._file.close()
        self._file, self._buffer = None, []

    # -- writing ---------------------------------------------------------------------------------

    def append(self, effects: list[Effect], grouped: bool) -> None:
        """Append records. `grouped`: they are one transaction, and a replay must apply all of them or none.

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
        """Write the buffer. Returns False if a part could not be written; the next flush continues with it.

        With `everysec` it also writes during a background fsync: a reply guarantees that the records were passed to the
        operating system, and most systems accept them meanwhile. If replies wait for stable storage, it raises
        LogFailure instead of returning False.
        """
        now_ms = self._clock()
        if self._buffer and self._file is not None:
            self._note_slow_fsync(now_ms)
            if not self._write():
                return False
        self._sync_in_background(now_ms)
        return True

    def _note_slow_fsync(self, now_ms: int) -> None:
        """Log a warning, once per fsync, if records are written while an fsync has been running for two seconds."""
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
        """Write the buffer, and the checksum line of the last block."""
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
        """Return `data`, followed by the checksum line if the block is large enough."""
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
        """Write and sync everything before returning. Returns False, or raises LogFailure, on failure."""
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
        """Record that the open file is on stable storage up to this mark."""
        self._mark_in_file = mark
        if not self.is_starting and mark != self.synced_mark:
            self.synced_mark = mark
            self.on_mark()

    def cron(self, now_ms: int) -> None:
        """Retry a failed write, and sync what an idle server has written. Called ten times a second."""
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
        """Start the fsync of `everysec`, or a retry after a failure, if it is due and the last one has ended."""
        self._collect_fsync(wait=False)
        is_wanted = self.policy == b"everysec" or not self.last_fsync_ok
        if not is_wanted or self._file is None or self._sync.current is not None:
            return
        # A clock that was set back must not delay the fsync.
        is_due = abs(now_ms - self._sync.started_ms) >= FSYNC_INTERVAL_MS
        if is_due and (not self.last_fsync_ok or (self._unsynced_size and not self.holds_fsync())):
            self._start_fsync(now_ms)

    def sync_soon(self, size_min: int) -> bool:
        """Start a background fsync if `size_min` bytes or more are unsynced. Returns whether one of that size is
        running."""
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
        """Handle the result of the background fsync, if there was one."""
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
        """Record the error, log it at intervals, and raise LogFailure under `appendfsync always`."""
        reason = error.strerror or str(error)
        self.last_error = reason.encode()
        folder = os.path.abspath(os.path.dirname(self.manifest_path))
        advice = remedy(error, "check that disk")
        if self.policy == b"always":
            raise LogFailure(
                f"{what} when the AOF fsync policy is 'always': {reason}. Exiting... ({folder}: {advice}, then "
                "start the server again)"
            ) from error
        now_ms = self._clock()
        if self._error_logged_ms is None or abs(now_ms - self._error_logged_ms) >= ERROR_LOG_INTERVAL_MS:
            self._error_logged_ms = now_ms
            logger.warning(
                "%s: %s. Writes are refused with MISCONF until %s can be written again: %s",
                what,
                reason,
                folder,
                advice,
            )


def record_blocks(snapshot: Iterable[Effect]) -> Iterator[bytes]:
    """Yield the content of a base file in RESP. Each database begins with its SELECT."""
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
