"""Reading a log back: every record in order, MULTI groups whole or not at all, and what to do with a damaged end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

from ..protocol.packing import splitter
from ..protocol.plain_frames import is_run
from .errors import LoadError, RdbError, UnknownRecord
from .files import Files
from .manifest import Manifest
from .rdb.file import FileKey, FileReader
from .records import Damage, RecordReader

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 256 * 1024
"""How much is read at once: memory stays bounded by this and the largest transaction."""

RDB_MAGIC: Final = b"REDIS"

FROM_BACKUP: Final = "records stand behind it: take the log from a backup"
TAIL_CURE: Final = (
    "to give up the last %d bytes, start with --aof-load-corrupt-tail-max-size %d or run headrace-check-aof --fix %s"
)

Apply = Callable[[list[bytes]], object]
"""Runs one record. Raises UnknownRecord, or LoadError if it makes no sense; its answer is not looked at."""

Progress = Callable[[int, int], None]
"""(bytes read, bytes in all), called after each block."""

RECORDS_PER_STEP: Final = 64
"""Records between two moments at which others may do something, and then the rest of a run: below a millisecond."""


class Target(Protocol):
    """Takes what is no single record: the keys of an RDB base, and runs of records that are alike."""

    def open_rdb(self, blocks: Iterable[bytes]) -> FileReader:
        """A reader with the dataset's limits."""
        ...

    def put(self, key: FileKey) -> None:
        """Store one key."""
        ...

    def take_run(self, run: list[bytes]) -> bool:
        """Apply `ADDITIONS` or `CLAIMS`; False if their records are to be applied one by one."""
        ...


@dataclass(slots=True)
class LoadResult:
    """What a load found. Sizes are bytes."""

    records_count: int = 0
    keys_count: int = 0
    """Keys of an RDB base."""
    size: int = 0
    """Of all files read, after truncation."""
    base_size: int = 0
    verified_size: int = 0
    """Of the blocks whose checksums were found right."""
    truncated: list[tuple[str, int]] = field(default_factory=list)
    """(file name, size it was cut to)."""


@dataclass(frozen=True, slots=True)
class TailPolicy:
    """What may be cut off the end of the last file."""

    truncate_torn: bool
    """aof-load-truncated: a record or transaction that the file ends in."""
    damaged_size_max: int
    """aof-load-corrupt-tail-max-size: any bytes, if they are fewer than this; 0 for none."""


def run_through(steps: Generator[None, None, LoadResult]) -> LoadResult:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: LoadResult = end.value
            return result


class Loader:
    """Loads the files of one manifest; use once."""

    def __init__(
        self,
        files: Files,
        folder: str,
        policy: TailPolicy,
        apply: Apply,
        on_progress: Progress,
        target: Target | None = None,
    ) -> None:
        self._files = files
        self._folder = folder
        self._policy = policy
        self._apply = apply
        self._target = target
        self._on_progress = on_progress
        self._size_total = 0
        self._size_read = 0
        self._group: list[list[bytes]] | None = None
        """Records since MULTI, None outside of a transaction."""
        self._split = splitter()
        self.result = LoadResult()

    def steps(self, manifest: Manifest) -> Iterator[None]:
        """Apply everything, bit by bit: between two steps others may do something.

        Raises LoadError; what was applied before it stays applied.
        """
        parts = [(os.fsdecode(part.name), part.kind) for part in manifest.readable]
        sizes = {name: self._size_of(name) for name, _ in parts}
        self._size_total = sum(sizes.values())
        for index, (name, kind) in enumerate(parts):
            # Behind empty files, too: what a crash leaves when a rewrite had named the next file and got no further.
            is_last = not any(sizes[later] for later, _ in parts[index + 1 :])
            size = yield from self._load_file(name, sizes[name], is_last=is_last)
            self.result.size += size
            if kind == b"b":
                self.result.base_size = size

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _size_of(self, name: str) -> int:
        size = self._files.size(self._path(name))
        if size is None:
            raise LoadError(f"Unable to obtain the AOF file {name} length. stat: No such file or directory")
        return size

    def _load_file(self, name: str, size: int, *, is_last: bool) -> Generator[None, None, int]:
        """Apply one file; answers its size, which is smaller than before if its end had to go."""
        blocks = self._blocks(name)
        first = next(blocks, b"")
        blocks, good_offset = chain((first,), blocks), 0
        if first.startswith(RDB_MAGIC):
            blocks, good_offset = yield from self._load_rdb(name, blocks)
        reader = RecordReader(size, start=good_offset, gathers_runs=self._target is not None)
        self._group = None
        try:
            taken_count = 0
            for record in self._records(blocks, reader):
                self._take(name, good_offset, record)
                if self._group is None:
                    good_offset = reader.offset
                taken_count += _count_of(record)
                if taken_count >= RECORDS_PER_STEP:
                    taken_count = 0
                    yield
        except Damage as damage:
            if self._group is None:
                good_offset = reader.offset  # behind the line of the last good block
            lost_size, is_applied = size - good_offset, damage.offset < good_offset
            if not is_last or is_applied:
                raise _damaged(name, damage.offset, damage.reason, FROM_BACKUP) from damage
            if lost_size >= self._policy.damaged_size_max:
                cure = TAIL_CURE % (lost_size, lost_size + 1, self._path(name))
                if reader.has_blocks_behind:
                    cure = f"{FROM_BACKUP}, or {cure}"
                raise _damaged(name, damage.offset, damage.reason, cure) from damage
            return self._truncate(name, good_offset)
        except UnknownRecord as unknown:
            reason = f"Unknown command '{unknown}' reading the append only file"
            raise LoadError(f"{reason} {name} at offset {good_offset}") from unknown
        self.result.verified_size += reader.verified_size
        if self._group is None:
            good_offset = reader.offset  # annotations after the last record
        return size if good_offset == size else self._truncate_torn(name, good_offset, is_last=is_last)

    def _blocks(self, name: str) -> Iterator[bytes]:
        """A file's content; asking for the next block says that this one has been used."""
        for block in self._files.read_blocks(self._path(name), BLOCK_SIZE):
            yield block
            self._size_read += len(block)
            self._on_progress(self._size_read, self._size_total)

    def _load_rdb(self, name: str, blocks: Iterable[bytes]) -> Generator[None, None, tuple[Iterator[bytes], int]]:
        """Store the keys of an RDB file; answers what stands behind it, and where that begins."""
        target = self._target
        if target is None:
            raise LoadError(f"{name} is an RDB file, which cannot be read here")
        reader = target.open_rdb(blocks)
        try:
            for key in reader:
                target.put(key)
                yield
        except RdbError as error:
            raise LoadError(f"{error} ({name} at offset {reader.offset})") from error
        self.result.keys_count += reader.keys_count
        return reader.rest(), reader.offset

    def _records(self, blocks: Iterable[bytes], reader: RecordReader) -> Iterator[list[bytes]]:
        """Everything that may be applied. Raises Damage."""
        for block in blocks:
            yield from reader.feed(block)
            if not reader.wants_more:
                break
        yield from reader.finish()

    def _take(self, name: str, offset: int, record: list[bytes]) -> None:
        """Apply a record, or keep it until its transaction is complete. `offset` is where the unit begins."""
        word = record[0].upper()
        group = self._group
        if word == b"MULTI" and group is None:
            self._group = []
        elif word == b"EXEC" and group is not None:
            for each in group:
                self._apply_one(name, offset, each)
            self._group = None
        elif word in (b"MULTI", b"EXEC"):
            raise _damaged(name, offset, f"{word.decode()} out of place", FROM_BACKUP)
        elif group is not None:
            group.append(record)
        else:
            self._apply_one(name, offset, record)

    def _apply_one(self, name: str, offset: int, record: list[bytes]) -> None:
        if is_run(record):
            if self._target is None or not self._target.take_run(record):
                for each in self._split(record[2], len(record[2]))[0]:
                    self._apply_one(name, offset, each)
                return
        else:
            try:
                self._apply(record)
            except LoadError as error:
                raise LoadError(f"{error} ({name} at offset {offset})") from error
        self.result.records_count += _count_of(record)

    def _truncate_torn(self, name: str, offset: int, *, is_last: bool) -> int:
        if not is_last:
            raise LoadError(f"Fatal error: the truncated file is not the last file: {name} ends at offset {offset}")
        if not self._policy.truncate_torn:
            raise LoadError(
                f"Unexpected end of file reading the append only file {name} at offset {offset}: "
                "aof-load-truncated yes would cut it there"
            )
        return self._truncate(name, offset)

    def _truncate(self, name: str, offset: int) -> int:
        """Cut the file after its last whole unit, so that what is appended next follows on that."""
        logger.warning("!!! Truncating the AOF %s at offset %d !!!", name, offset)
        file = self._files.open_log(self._path(name))
        try:
            logger.warning("%d bytes at the end of %s are dropped", file.size() - offset, self._path(name))
            file.truncate(offset)
            file.fsync()
        finally:
            file.close()
        self.result.truncated.append((name, offset))
        return offset


def _count_of(record: list[bytes]) -> int:
    return int(record[3]) if is_run(record) else 1


def _damaged(name: str, offset: int, reason: str, cure: str) -> LoadError:
    """Bytes that no torn write explains."""
    return LoadError(f"Bad file format reading the append only file {name}: {reason} at offset {offset}; {cure}")
