"""The writer of the append-only log, and what each fsync policy guarantees.

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

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from errno import ENOSPC
from typing import Final

from .checksum import EMPTY_BLOCK_LINE, OpenBlock
from .errors import LogFailure, remedy
from .files import LogFile
from .folder import LogSettings
from .placing import StreamPlace, place_line
from .records import EXEC, MULTI, select_record, timestamp_line
from .syncing import BackgroundSync, FsyncTimes

logger = logging.getLogger(__name__)

# Policy `everysec`: time between the starts of two background fsyncs.
FSYNC_INTERVAL_MS: Final = 1000

# Policy `everysec`: a background fsync that takes longer is reported in the server log, as in Redis.
SLOW_FSYNC_MS: Final = 2000

# A lasting write error is reported in the server log at most once in this time.
ERROR_LOG_INTERVAL_MS: Final = 30_000

# A write is followed by a checksum line, of some 30 bytes, once this many bytes have none.
CHECKSUM_BLOCK_SIZE: Final = 4 * 1024

# (database index, RESP record).
Effect = tuple[int, bytes]


class LogWriter:
    """Appends records to one file at a time.

    `policy` is the value of `appendfsync`, and may be assigned at any time. `clock` returns Unix ms. The fsyncs of
    `everysec` run in `executor`, by default in a thread of this writer. `mark` and `synced_mark` continue those of the
    previous log: clients keep marks, so marks only grow.
    """

    def __init__(
        self,
        settings: LogSettings,
        policy: bytes,
        *,
        clock: Callable[[], int],
        executor: Executor | None,
        mark: int,
        synced_mark: int,
    ) -> None:
        # For messages.
        self._folder_path = os.path.abspath(settings.folder)
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
        # Whether a `#TS:` line precedes the first record of each second, and the records of a base.
        self.has_timestamps = settings.has_timestamps
        self._has_block_checksums = settings.has_block_checksums
        self._block = OpenBlock()
        # Bytes at the front of the buffer that were added to `_block`, or are a checksum line.
        self._hashed_size = 0
        # Whether the base that the records continue is still being written.
        self.is_starting = False
        # Number of the last append: a write is on stable storage once `synced_mark` has reached its mark.
        self.mark = mark
        self.synced_mark = synced_mark
        self._written_mark = mark
        # The place that was appended last to the open file, and the mark then; None and -1 before the first.
        self.place: StreamPlace | None = None
        self.placed_mark = -1
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
        self.last_write_ok = True
        self.last_fsync_ok = True
        # Text of the last OSError, e.g. `No space left on device`.
        self.last_error = b""
        # DEBUG AOF-FLUSH-SLEEP: time to sleep before each write.
        self.flush_delay_us = 0

    # -- what others ask -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether there is a file to append to."""
        return self._file is not None

    @property
    def buffer_size(self) -> int:
        """Bytes appended and not yet written."""
        return sum(map(len, self._buffer))

    @property
    def is_fsync_pending(self) -> bool:
        """Whether a background fsync is running."""
        return self._sync.is_running

    @property
    def fsync_times(self) -> FsyncTimes:
        """Durations of the fsyncs of this log."""
        return self._sync.times

    @property
    def needs_fsync_before_reply(self) -> bool:
        """Whether a reply guarantees that its effects are on stable storage."""
        return self.policy == b"always"

    @property
    def write_error(self) -> bytes | None:
        """The reason to refuse writes (MISCONF), None while the log works."""
        return None if self.last_write_ok and self.last_fsync_ok else self.last_error

    # -- which file ------------------------------------------------------------------------------

    def _continue_with(self, file: LogFile) -> None:
        """Append from now on to the end of this file, all of which is on stable storage."""
        self._file, self._selected_db, self._unsynced_size = file, None, 0
        self.place, self.placed_mark = None, -1
        self._block.clear()
        self._hashed_size = 0
        if self._has_block_checksums and file.size():
            # The existing bytes may end without a checksum line: see `checksum`.
            self._buffer.insert(0, EMPTY_BLOCK_LINE)
            self._hashed_size = len(EMPTY_BLOCK_LINE)

    def _switch_to(self, file: LogFile) -> None:
        """Append from now on to this empty file. The current file has been settled."""
        assert self._file is not None
        self._file.close()
        self._file, self._selected_db = file, None
        self.place, self.placed_mark = None, -1

    def _end_start(self) -> None:
        """Guarantee what the file has: the base that its records continue is complete."""
        self.is_starting = False
        self.synced_mark = self._mark_in_file
        self.on_mark()  # WAITAOF may wait for the base alone
        self._unsynced_size += 1  # forces the next fsync, even if nothing is written before it

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

    def append_place(self, place: StreamPlace) -> None:
        """Append the place of the dataset in a replication stream. All that was appended so far is part of it, and
        nothing else is.
        """
        self._buffer.append(place_line(place))
        self.place, self.placed_mark = place, self.mark

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
        if not self._has_block_checksums:
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
            self._sync.times.run(self._file.fsync)
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
        """Retry a failed write, and sync what an idle server has written. Called `hz` times a second."""
        if self._buffer and self._file is not None and not self._write():
            return
        if self._block.is_idle(now_ms) and self._file is not None:
            self._write_rest()
        self._sync_in_background(now_ms)

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
        folder = self._folder_path
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
