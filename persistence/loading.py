"""Loads a log: every record and policy line in order, MULTI groups whole or not at all, and handles a damaged end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

from ..protocol.packing import splitter
from .errors import LoadError, RdbError, UnknownPolicyLine, UnknownRecord
from .files import Files
from .grammar.kept import POLICY, is_run
from .manifest import Manifest, Part
from .placing import StreamPlace, read_place
from .rdb.file import FileReader, KeysTarget, in_steps
from .records import Damage, RecordReader

logger = logging.getLogger(__name__)

# Bytes that are read at once. Memory is bounded by this and the largest transaction.
BLOCK_SIZE: Final = 256 * 1024

RDB_MAGIC: Final = b"REDIS"

FROM_BACKUP: Final = "more records follow it: take the log from a backup"
TAIL_ADVICE: Final = (
    "to drop the last %d bytes, start with --aof-load-corrupt-tail-max-size %d or run headrace-check-aof --fix %s"
)

FIX_COMMANDS: Final = "Without one, headrace-check-aof --fix on the .manifest file keeps the records that are left"
WITHOUT_RDB_BASE: Final = (
    "Nothing can be loaded from a part of an RDB file: without a backup, delete its line from the .manifest file to "
    "load only the changes after it"
)

# Applies one record. Raises UnknownRecord, or LoadError if the record is invalid. The result is ignored.
Apply = Callable[[list[bytes]], object]

# (bytes read, bytes in all), called after each block.
Progress = Callable[[int, int], None]

# Records that are applied in one step, and then the rest of a run: below a millisecond. Tests change it.
RECORDS_PER_STEP = 64


class Target(KeysTarget, Protocol):
    """Takes data other than single records: the keys of an RDB base, and runs of similar records."""

    def open_rdb(self, blocks: Iterable[bytes]) -> FileReader:
        """Return a reader that uses the dataset's limits."""
        ...

    def take_run(self, run: list[bytes]) -> bool:
        """Apply a run (`ADDITIONS`, `CLAIMS` or `STREAMS`). Returns False if its records must be applied one by one."""
        ...

    def take_policy(self, words: list[bytes]) -> None:
        """Apply a policy line in the database of the records around it. Raises LoadError."""
        ...


@dataclass(slots=True)
class LoadResult:
    """The result of a load. Sizes are in bytes."""

    records_count: int = 0
    # Keys of an RDB base.
    keys_count: int = 0
    # Policy lines between the records.
    policy_lines_count: int = 0
    # Size of all files read, after truncation.
    size: int = 0
    base_size: int = 0
    # Size of the blocks whose checksums are right.
    verified_size: int = 0
    # (file name, new size) of each file that was truncated.
    truncated: list[tuple[str, int]] = field(default_factory=list)
    # The place of the dataset in a replication stream; None if the log does not end with one.
    place: StreamPlace | None = None


@dataclass(frozen=True, slots=True)
class TailPolicy:
    """How much may be cut off the end of the last file."""

    # aof-load-truncated: whether an incomplete record or transaction at the end may be cut off.
    truncate_torn: bool
    # aof-load-corrupt-tail-max-size: damaged bytes at the end may be cut off if they are fewer than this; 0 for none.
    damaged_size_max: int


def run_through(steps: Generator[None, None, LoadResult]) -> LoadResult:
    """Run all steps at once, and return their result."""
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
        # Records since MULTI, None outside of a transaction.
        self._group: list[list[bytes]] | None = None
        self._split = splitter()
        self.result = LoadResult()

    def steps(self, manifest: Manifest) -> Iterator[None]:
        """Apply all files in steps, between which the event loop may run other work.

        Raises LoadError; what was applied before it stays applied.
        """
        parts = [(os.fsdecode(part.name), part.kind) for part in manifest.readable]
        sizes = {name: self._size_of(name) for name, _ in parts}
        for part in manifest.readable:
            self._check_size(part, sizes[os.fsdecode(part.name)])
        self._size_total = sum(sizes.values())
        for index, (name, kind) in enumerate(parts):
            # Also if only empty files follow, which a crash leaves if a rewrite had just named the next file.
            is_last = not any(sizes[later] for later, _ in parts[index + 1 :])
            size = yield from self._load_file(name, sizes[name], is_last=is_last)
            self.result.size += size
            if kind == b"b":
                self.result.base_size = size
            logger.info("DB loaded from %s file %s", "base" if kind == b"b" else "incr", name)
        if not manifest.is_complete:
            self.result.place = None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _size_of(self, name: str) -> int:
        size = self._files.size(self._path(name))
        if size is None:
            path = os.path.abspath(self._path(name))
            raise LoadError(
                f"Unable to obtain the AOF file {name} length. stat: No such file or directory; restore {path} from a "
                "backup: the list of the log's files names it"
            )
        return size

    def _check_size(self, part: Part, size: int) -> None:
        """Raise LoadError if a complete file was cut off since it was written. Nothing else shows a cut between two
        records.
        """
        problem = part.size_error(size)
        if problem is not None:
            path = os.path.abspath(self._path(os.fsdecode(part.name)))
            otherwise = WITHOUT_RDB_BASE if part.is_rdb else FIX_COMMANDS
            raise LoadError(
                f"{path} was cut off or changed after it was written: {problem}; restore it from a backup. {otherwise}"
            )

    def _load_file(self, name: str, size: int, *, is_last: bool) -> Generator[None, None, int]:
        """Apply one file. Returns its size, which is smaller than before if its end was cut off."""
        blocks = self._blocks(name)
        first = next(blocks, b"")
        blocks, good_offset = chain((first,), blocks), 0
        if first.startswith(RDB_MAGIC):
            self.result.place = None
            blocks, good_offset = yield from self._load_rdb(name, blocks)
        reader = RecordReader(size, start=good_offset, gathers_runs=self._target is not None)
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
                good_offset = reader.offset  # after the line of the last valid block
            lost_size, is_applied = size - good_offset, damage.offset < good_offset
            if not is_last or is_applied:
                raise _damaged(name, damage.offset, damage.reason, FROM_BACKUP) from damage
            if lost_size >= self._policy.damaged_size_max:
                advice = TAIL_ADVICE % (lost_size, lost_size + 1, self._path(name))
                if reader.has_later_blocks:
                    advice = f"{FROM_BACKUP}, or {advice}"
                raise _damaged(name, damage.offset, damage.reason, advice) from damage
            logger.warning("!!! Warning: corrupt AOF file tail!!!")
            self.result.place = None
            return self._truncate(name, good_offset, "aof-load-corrupt-tail-max-size")
        except UnknownRecord as unknown:
            if unknown.advice:
                raise LoadError(
                    f"Unknown command '{unknown}' reading the append only file {name} at offset {good_offset}; "
                    f"{unknown.advice}"
                ) from unknown
            raise LoadError(
                f"Unknown command '{unknown}' reading the append only file {name} at offset {good_offset}"
            ) from unknown
        self.result.verified_size += reader.verified_size
        if reader.place_line is not None:
            self.result.place = read_place(reader.place_line)
        if self._group is None:
            good_offset = reader.offset  # annotations after the last record
        return size if good_offset == size else self._truncate_torn(name, good_offset, is_last=is_last)

    def _blocks(self, name: str) -> Iterator[bytes]:
        """Yield a file's content. Asking for the next block means that the previous one was used."""
        for block in self._files.read_blocks(self._path(name), BLOCK_SIZE):
            yield block
            self._size_read += len(block)
            self._on_progress(self._size_read, self._size_total)

    def _load_rdb(self, name: str, blocks: Iterable[bytes]) -> Generator[None, None, tuple[Iterator[bytes], int]]:
        """Store the keys of an RDB file. Returns the blocks that follow it, and their offset."""
        target = self._target
        if target is None:
            raise LoadError(f"{name} is an RDB file, which cannot be read here")
        logger.info("Reading RDB base file on AOF loading...")
        reader = target.open_rdb(blocks)
        try:
            for _ in in_steps(reader.parts(), target):
                yield
        except RdbError as error:
            advice = error.advice or f"restore {os.path.abspath(self._path(name))} from a backup"
            raise LoadError(f"{error} ({name} at offset {reader.offset}); {advice}") from error
        except UnknownPolicyLine as unknown:
            raise LoadError(f"{unknown} ({name} at offset {reader.offset})") from unknown
        self.result.keys_count += reader.keys_count
        return reader.rest(), reader.offset

    def _records(self, blocks: Iterable[bytes], reader: RecordReader) -> Iterator[list[bytes]]:
        """Yield all records that may be applied. Raises Damage."""
        self._group = None
        for block in blocks:
            yield from reader.feed(block)
            if not reader.wants_more:
                break
        yield from reader.finish()

    def _take(self, name: str, offset: int, record: list[bytes]) -> None:
        """Apply a record, or keep it until its transaction is complete. `offset` is that of the record or
        transaction."""
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
                if record[0] is POLICY:
                    self._take_policy(record[1:])
                    return
                self._apply(record)
            except LoadError as error:
                raise LoadError(f"{error} ({name} at offset {offset})") from error
        self.result.records_count += _count_of(record)

    def _take_policy(self, words: list[bytes]) -> None:
        if self._target is not None:
            self._target.take_policy(words)
        self.result.policy_lines_count += 1

    def _truncate_torn(self, name: str, offset: int, *, is_last: bool) -> int:
        if not is_last:
            raise LoadError(
                f"Fatal error: the truncated file is not the last file: {name} ends at offset {offset}: "
                "restore it from a backup"
            )
        if not self._policy.truncate_torn:
            raise LoadError(
                f"Unexpected end of file reading the append only file {name} at offset {offset}: "
                "aof-load-truncated yes would cut it there"
            )
        logger.warning("!!! Warning: short read while loading the AOF file %s!!!", name)
        return self._truncate(name, offset, "aof-load-truncated")

    def _truncate(self, name: str, offset: int, directive: str) -> int:
        """Truncate the file after its last complete unit, so that new records follow that. `directive` allows it."""
        logger.warning("!!! Truncating the AOF %s at offset %d !!!", name, offset)
        file = self._files.open_log(self._path(name))
        try:
            logger.warning("%d bytes at the end of %s are dropped", file.size() - offset, self._path(name))
            file.truncate(offset)
            file.fsync()
        finally:
            file.close()
        logger.warning("AOF %s loaded anyway because %s is enabled", self._path(name), directive)
        self.result.truncated.append((name, offset))
        return offset


def _count_of(record: list[bytes]) -> int:
    return int(record[3]) if is_run(record) else 1


def _damaged(name: str, offset: int, reason: str, advice: str) -> LoadError:
    """Return the error for damage that is no incomplete write."""
    return LoadError(f"Bad file format reading the append only file {name}: {reason} at offset {offset}; {advice}")
