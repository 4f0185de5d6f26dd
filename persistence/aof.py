"""The append-only log: effects in, records on disk; and records back into commands at start.

| appendfsync | a client that has its reply may rely on |
|---|---|
| always | the write is on stable storage |
| everysec | the write was handed to the operating system; a power cut may take the last second or two |
| no | the write was handed to the operating system |

The log lives in `<dir>/<appenddirname>/`: a manifest and the files it names, laid out as Redis lays them out.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from .files import DiskFile, LogFile, replace_file, sync_folder
from .manifest import BadManifest, LogPart, parse_manifest
from .records import EXEC, MULTI, DamagedRecord, RecordReader, select

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1024 * 1024
"""Bytes read at a time while loading."""
FSYNC_INTERVAL_MS: Final = 1000
"""`everysec`."""


class LoadError(Exception):
    """The log cannot be loaded; one line for the person who started the server."""


class UnknownRecord(Exception):
    """A record whose command does not exist; raised by the one who applies records."""


class LogFailure(Exception):
    """A write or fsync failed under `appendfsync always`: nothing that waits for it may be answered."""


@dataclass(slots=True)
class LoadResult:
    """What loading found: records applied, bytes read, and bytes cut off the end."""

    records_count: int = 0
    size: int = 0
    truncated_size: int = 0


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Where the log lives and how much damage its end may have."""

    folder: str
    file_name: str
    load_truncated: bool = True
    corrupt_tail_size_max: int = 0

    @property
    def manifest_path(self) -> str:
        """The manifest's path."""
        return os.path.join(self.folder, self.file_name + ".manifest")


class AppendOnlyLog:
    """One log. Effects are gathered by `append` and leave in one write by `flush`; the caller owns the clock."""

    def __init__(
        self, settings: LogSettings, policy: bytes, open_file: Callable[[str], LogFile] = DiskFile
    ) -> None:
        self._settings = settings
        self.policy = policy
        self._open_file = open_file
        self._parts: list[LogPart] = []
        self._file: LogFile | None = None
        self._buffer: list[bytes] = []
        self._db_index: int | None = None
        """Database of the last record; None makes the next one name its own."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fsync")
        self._fsync: Future[None] | None = None
        self._last_fsync_ms = 0
        self._unsynced = False
        self.current_size = 0
        self.base_size = 0
        self.last_write_ok = True
        self.write_error: bytes | None = None
        """Why the last write or fsync failed; None once one has succeeded again."""

    # -- starting --------------------------------------------------------------------------------

    def read_manifest(self) -> None:
        """Learn which files there are. Raises LoadError."""
        path = self._settings.manifest_path
        if not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                self._parts = [part for part in parse_manifest(file.read()) if part.kind != "h"]
        except (OSError, BadManifest, UnicodeDecodeError) as error:
            raise LoadError(f"Cannot read the AOF manifest {path}: {error}") from error

    def load(self, apply: Callable[[list[bytes]], None]) -> LoadResult:
        """Give every record to `apply`, MULTI groups as a whole. A torn end is cut off. Raises LoadError."""
        self.read_manifest()
        result = LoadResult()
        for index, part in enumerate(self._parts):
            self._load_part(part, is_last=index == len(self._parts) - 1, apply=apply, result=result)
        return result

    def _load_part(self, part: LogPart, *, is_last: bool, apply: Callable[[list[bytes]], None], result: LoadResult) -> None:
        path = os.path.join(self._settings.folder, part.name)
        replay = _Replay(apply)
        reader = RecordReader()
        try:
            size = os.path.getsize(path)
            with open(path, "rb") as file:
                while block := file.read(BLOCK_SIZE):
                    if not reader.offset and block.startswith(b"REDIS"):
                        raise LoadError(f"The AOF base {path} is an RDB file, which this version cannot read.")
                    for arguments, end in reader.feed(block):
                        replay.take(arguments, end)
        except OSError as error:
            raise LoadError(f"Unable to read the AOF file {path}: {error.strerror}") from error
        except UnknownRecord as error:
            raise LoadError(f"Unknown command '{error}' reading the append only file {path}") from error
        except DamagedRecord as error:
            self._accept_damage(path, size, replay.good_offset, error.offset)
        result.records_count += replay.records_count
        result.size += replay.good_offset
        if replay.good_offset < size:
            self._cut_off(path, size, replay.good_offset, is_last=is_last)
            result.truncated_size += size - replay.good_offset

    def _accept_damage(self, path: str, size: int, good_offset: int, offset: int) -> None:
        """Damage is fatal unless it lies in a tail that `aof-load-corrupt-tail-max-size` gives up."""
        if size - good_offset >= self._settings.corrupt_tail_size_max:
            raise LoadError(
                f"Bad file format reading the append only file {path} at offset {offset}: make a backup of the file, "
                f"then cut it off with redis-check-aof --fix, or raise aof-load-corrupt-tail-max-size above "
                f"{size - good_offset}."
            )

    def _cut_off(self, path: str, size: int, good_offset: int, *, is_last: bool) -> None:
        """Cut a file off after its last complete record."""
        name = os.path.basename(path)
        damage_size = size - good_offset
        if not self._settings.load_truncated and damage_size >= self._settings.corrupt_tail_size_max:
            raise LoadError(
                f"Unexpected end of file reading the append only file {path} at offset {good_offset}. You can: 1) make "
                "a backup of the file, then cut it off with redis-check-aof --fix; 2) set aof-load-truncated to yes."
            )
        if not is_last:
            raise LoadError(f"Fatal error: the truncated file is not the last file: {name} at offset {good_offset}")
        logger.warning("!!! Warning: short read while loading the AOF file %s!!!", name)
        logger.warning("!!! Truncating the AOF %s at offset %d !!!", name, good_offset)
        os.truncate(path, good_offset)

    def open(self) -> None:
        """Begin to append, to the last file or to a new one. Raises OSError."""
        folder = self._settings.folder
        if not self._parts or self._parts[-1].kind != "i":
            os.makedirs(folder, exist_ok=True)
            name = f"{self._settings.file_name}.1.incr.aof"
            self._parts.append(LogPart(name, 1, "i"))
            self._file = self._open_file(os.path.join(folder, name))
            self._file.sync()
            sync_folder(folder)
            replace_file(self._settings.manifest_path, "".join(part.line() for part in self._parts).encode())
            sync_folder(os.path.dirname(folder))
        else:
            self._file = self._open_file(os.path.join(folder, self._parts[-1].name))
        self.current_size = self._file.size()
        self._db_index = None

    # -- appending -------------------------------------------------------------------------------

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """Take over records of (database index, record); `grouped` makes them one MULTI/EXEC. Hot: benchmark row XADD."""
        buffer = self._buffer
        if grouped:
            buffer.append(MULTI)
        for db_index, record in effects:
            if db_index != self._db_index:
                buffer.append(select(db_index))
                self._db_index = db_index
            buffer.append(record)
        if grouped:
            buffer.append(EXEC)

    @property
    def buffer_size(self) -> int:
        """Bytes gathered and not yet written."""
        return sum(map(len, self._buffer))

    @property
    def needs_fsync_before_reply(self) -> bool:
        """Whether replies wait for `fsync`."""
        return self.policy == b"always"

    @property
    def is_fsync_pending(self) -> bool:
        """Whether the background thread is at it."""
        return self._fsync is not None and not self._fsync.done()

    def flush(self) -> None:
        """Write what was gathered. What could not be written stays, and `write_error` says why. Raises LogFailure."""
        if not self._buffer:
            return
        assert self._file is not None
        rest = memoryview(b"".join(self._buffer))
        try:
            while rest:
                written = self._file.write(rest)  # type: ignore[arg-type]
                rest = rest[written:]
                self.current_size += written
                self._unsynced = True
        except OSError as error:
            self._buffer = [bytes(rest)]
            self._fail("Error writing to the AOF file", error)
            return
        self._buffer = []
        if not self.last_write_ok:
            logger.warning("AOF write error looks solved, The server can write again.")
            self.last_write_ok, self.write_error = True, None

    def fsync(self) -> None:
        """Bring what was written to stable storage before returning. Raises LogFailure."""
        if not self._unsynced or self._file is None:
            return
        try:
            self._file.sync()
            self._unsynced = False
        except OSError as error:
            self._fail("Can't persist AOF: fsync failed", error)

    def _fail(self, what: str, error: OSError) -> None:
        reason = error.strerror or str(error)
        if self.last_write_ok:
            logger.warning("%s: %s", what, reason)
        self.last_write_ok = False
        self.write_error = reason.encode()
        if self.policy == b"always":
            raise LogFailure(f"{what} with appendfsync always: {reason}. Exiting...")

    def cron(self, now_ms: int) -> None:
        """The log's own timer: retry a failed write, and with `everysec` fsync in the background once a second."""
        if not self.last_write_ok:
            self.flush()
        if self._fsync is not None and self._fsync.done():
            error = self._fsync.exception()
            self._fsync = None
            if isinstance(error, OSError):
                self._unsynced = True
                self._fail("Asynchronous AOF fsync failed", error)
        due = now_ms - self._last_fsync_ms >= FSYNC_INTERVAL_MS
        if self.policy == b"everysec" and self._unsynced and self._fsync is None and due and self._file is not None:
            self._unsynced = False
            self._last_fsync_ms = now_ms
            self._fsync = self._executor.submit(self._file.sync)

    def close(self) -> None:
        """Write and fsync what is left, and give the file back."""
        self._executor.shutdown(wait=True)
        if self._file is not None:
            self.flush()
            self.fsync()
            self._file.close()
            self._file = None


class _Replay:
    """Applies records; those of a MULTI group only once its EXEC has come."""

    def __init__(self, apply: Callable[[list[bytes]], None]) -> None:
        self._apply = apply
        self._group: list[list[bytes]] | None = None
        self.good_offset = 0
        """Where a file may be cut off: after a record that is not inside an open group."""
        self.records_count = 0

    def take(self, arguments: list[bytes], end: int) -> None:
        """The next record, which ends at offset `end`."""
        self.records_count += 1
        word = arguments[0].upper()
        if word == b"MULTI":
            self._group = []
            return
        if word == b"EXEC" and self._group is not None:
            for each in self._group:
                self._apply(each)
            self._group = None
        elif self._group is not None:
            self._group.append(arguments)
            return
        else:
            self._apply(arguments)
        self.good_offset = end
