"""headrace-check-aof: checks whether a log is complete and undamaged, and truncates a damaged one.

    headrace-check-aof [--fix|--truncate-to-timestamp <unix seconds>] <file.manifest|file.aof>

Output and exit codes are those of redis-check-aof (Redis 8.10.2), so that scripts work with both. It also verifies
checksum lines. Like the server, and unlike Redis' tool, it refuses a record without arguments and an annotation that
the file ends in. Exit codes: 0 if the log is valid or was repaired, 1 otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from mmap import ACCESS_READ, mmap
from typing import Final

from ..store.clock import wall_clock_ms
from ..store.limits import Limits
from .check_file import PIECE_SIZE, BadTimestamp, Findings, examine
from .checksum import CHECKSUM_PREFIX
from .errors import LoadError, LogError, RdbError
from .files import DiskFile, DiskFiles, open_regular
from .lock import FolderLock
from .manifest import LINE_SIZE_MAX, Manifest, Part
from .rdb.file import FileReader

USAGE: Final = "Usage: headrace-check-aof [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>"
HELP: Final = f"""{USAGE}

Checks whether an append-only file is complete and undamaged. Stop the server first: files that it has open are not
changed.

  --fix                            cuts the last file at its first damaged record, after a question: all records from
                                   there on are lost. Given a manifest, it also keeps what is left of a base that was
                                   cut off
  --truncate-to-timestamp SECONDS  cuts the last file after the last record of that Unix time (aof-timestamp-enabled)

Restore damage elsewhere from a backup. Exit codes: 0 if the log is valid or was repaired, 1 otherwise."""
RDB_MAGIC: Final = b"REDIS"
KEEPS_NOTHING: Final = "--fix would keep no record of this file: restore it from a backup instead"
RESTORE_COMMANDS: Final = (
    "Restore it from a backup. Without one, --fix with the manifest keeps the whole records that are left."
)
RESTORE_RDB: Final = (
    "Restore it from a backup: nothing can be loaded from a part of an RDB file. Without one, delete its line from the "
    "manifest to load only the changes after it."
)
TIMESTAMP_DIGITS_MAX: Final = 19
# Accept any number of databases: the files do not show how many the server was configured with.
DATABASES_COUNT_MAX: Final = 2**31


class Aborted(Exception):
    """The check ends with exit code 1; the text is its last line."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the command line."""

    path: str
    is_fix: bool = False
    # Unix seconds after which records are cut off; 0 for no cut.
    until_s: int = 0

    @property
    def writes(self) -> bool:
        """Whether files may be changed."""
        return self.is_fix or bool(self.until_s)

    @classmethod
    def parse(cls, words: Sequence[str]) -> Request:
        """Raises Aborted."""
        match words:
            case [path]:
                return cls(path)
            case ["--fix", path] | [path, "--fix"]:
                return cls(path, is_fix=True)
            case ["--truncate-to-timestamp", until, path] | [path, "--truncate-to-timestamp", until]:
                if not (until.isascii() and until.isdecimal() and len(until) <= TIMESTAMP_DIGITS_MAX):
                    raise Aborted("Invalid timestamp, aborting...")
                return cls(path, until_s=int(until))
        raise Aborted(USAGE)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
    words = sys.argv[1:] if words is None else words
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        Check(Request.parse(words)).run()
    except Aborted as aborted:
        print(aborted)
        return 1
    return 0


class Check:
    """One run of the tool."""

    def __init__(self, request: Request) -> None:
        self._request = request
        # Lines over all files, as Redis' tool counts them.
        self._lines_count = 1

    def run(self) -> None:
        """Check all files, and print the findings. Raises Aborted."""
        path = self._request.path
        with ExitStack() as locks:
            if self._request.writes:
                _keep_servers_out(path, locks)
            self._run(path)

    def _run(self, path: str) -> None:
        data = _content(path)
        if not is_manifest(data):
            print("Start checking Old-Style AOF")
            part, is_last = listed(path)
            if part is not None:
                self._check_size(part, path, "BASE AOF" if part.kind == b"b" else "INCR AOF")
            self._check(path, path, "AOF", is_last=is_last)
            return
        print("Start checking Multi Part AOF")
        try:
            manifest = Manifest.decode(data[:])
        except LoadError as error:
            raise Aborted(f"*** FATAL AOF MANIFEST FILE ERROR ***\n{error}") from error
        base, increments = manifest.base, manifest.increments
        if base is not None:
            is_rdb = _content(self._path(base))[: len(RDB_MAGIC)] == RDB_MAGIC
            print(f"Start to check BASE AOF ({'RDB' if is_rdb else 'RESP'} format).")
            manifest = self._check_whole(base, manifest, "BASE AOF", can_fix=not (is_rdb or base.is_rdb))
            self._check(os.fsdecode(base.name), self._path(base), "BASE AOF", is_last=not increments)
        if increments:
            print("Start to check INCR files.")
        for part in increments:
            manifest = self._check_whole(part, manifest, "INCR AOF", can_fix=True)
            self._check(os.fsdecode(part.name), self._path(part), "INCR AOF", is_last=part is increments[-1])
        print("All AOF files and manifest are valid")

    def _path(self, part: Part) -> str:
        return os.path.join(os.path.dirname(self._request.path), os.fsdecode(part.name))

    def _check_whole(self, part: Part, manifest: Manifest, title: str, *, can_fix: bool) -> Manifest:
        """Check the size of a file, or fix it. Returns the manifest that is then on disk. Raises Aborted."""
        if self._request.is_fix and can_fix:
            return self._fix_cut(part, manifest, title)
        self._check_size(part, self._path(part), title)
        return manifest

    def _check_size(self, part: Part, path: str, title: str) -> None:
        """A file that was cut off between two records has no other sign of it. Raises Aborted."""
        problem = part.size_error(len(_content(path, ", aborting...")))
        if problem is not None:
            advice = RESTORE_RDB if part.is_rdb else RESTORE_COMMANDS
            raise Aborted(f"{title} {os.fsdecode(part.name)} is not valid: {problem}. {advice}")

    def _fix_cut(self, part: Part, manifest: Manifest, title: str) -> Manifest:
        """Keep the whole records of a file of commands that was cut off, if the user agrees. Raises Aborted.

        Returns the manifest, which then has the size of what is left.
        """
        path = self._path(part)
        data = _content(path, ", aborting...")
        problem = part.size_error(len(data))
        if problem is None:
            return manifest
        name = os.fsdecode(part.name)
        good_size = examine(data, path).good_offset if data else 0
        if data.find(b"\n" + CHECKSUM_PREFIX, good_size) >= 0:
            raise Aborted(
                f"{title} {name} is not only cut off ({problem}): it is damaged at offset {good_size}, and more "
                "records follow. Restore it from a backup."
            )
        print(
            f"{title} {name} was changed: {problem}. Restore it from a backup if there is one.\n"
            f"This will keep its first {good_size} bytes. Keys, groups and pending entries in the rest are then "
            "missing, and later changes to them are skipped."
        )
        self._ask()
        _truncate(path, good_size)
        cut = replace(part, size=good_size, is_cut=True)
        fixed = Manifest(tuple(cut if each == part else each for each in manifest.parts))
        _replace(self._request.path, fixed.encode())
        print(f"Successfully truncated AOF {name}")
        return fixed

    @staticmethod
    def _ask() -> None:
        """Raises Aborted unless the user agrees."""
        print("Continue? [y/N]: ", end="", flush=True)
        if not sys.stdin.readline().lower().startswith("y"):
            raise Aborted("Aborting...")

    # -- one file --------------------------------------------------------------------------------

    def _check(self, name: str, path: str, title: str, *, is_last: bool) -> None:
        """Check one file, and truncate it if the command line says so. Raises Aborted."""
        data = _content(path, ", aborting...")
        if not data:
            print(f"{title} {name} is empty")
            return
        until_s = self._request.until_s
        start = check_rdb(data, name) if data[: len(RDB_MAGIC)] == RDB_MAGIC else 0
        try:
            found = examine(data, path, start=start, until_s=until_s)
        except BadTimestamp as error:
            raise Aborted("Invalid timestamp annotation") from error
        if found.cut_offset is not None:
            self._cut_at_timestamp(path, found.cut_offset, is_last=is_last)
            print(f"Successfully truncated AOF {name} to timestamp {until_s}")
            return
        self._lines_count += found.lines_count
        if until_s and found.good_offset == found.size:
            print(f"Truncate nothing in AOF {name} to timestamp {until_s}")
        else:
            self._print_findings(name, found)
        # What is valid may be annotations alone.
        keeps_records = bool(start) or data.find(b"*", 0, found.good_offset) >= 0
        if found.good_offset == found.size:
            print(f"{title} {name} is valid")
        elif not self._request.is_fix:
            advice = "" if keeps_records else f"\n{KEEPS_NOTHING}"
            raise Aborted(f"AOF {name} is not valid. Use the --fix option to try fixing it.{advice}")
        else:
            self._fix(name, path, found, is_last=is_last, keeps_records=keeps_records)

    def _print_findings(self, name: str, found: Findings) -> None:
        if found.detail:
            print(found.detail)
        print(
            f"AOF analyzed: filename={name}, size={found.size}, ok_up_to={found.good_offset}, "
            f"ok_up_to_line={self._lines_count}, diff={found.size - found.good_offset}"
        )
        if found.policy_lines_count:
            print(f"Policy lines of Headrace: {found.policy_lines_count}")
        if found.blocks_count:
            print(f"Checksums verified: blocks={found.blocks_count}, bytes={found.verified_size}")

    def _cut_at_timestamp(self, path: str, offset: int, *, is_last: bool) -> None:
        until_s = self._request.until_s
        if not offset:
            raise Aborted(f"AOF {path} has nothing before timestamp {until_s}, aborting...")
        if not is_last:
            raise Aborted(
                f"Failed to truncate AOF {path} to timestamp {until_s} to offset {offset} because it is not the last "
                "file.\nIf you insist, please delete all files after this file according to the manifest file and "
                "delete the corresponding records in manifest file manually. Then re-run headrace-check-aof."
            )
        _truncate(path, offset)

    def _fix(self, name: str, path: str, found: Findings, *, is_last: bool, keeps_records: bool) -> None:
        """Truncate the file before its first bad unit if the user agrees. Raises Aborted."""
        if not is_last:
            raise Aborted(f"Failed to truncate AOF {name} because it is not the last file")
        lost_size = found.size - found.good_offset
        print(
            f"This will shrink the AOF {name} from {found.size} bytes, with {lost_size} bytes, "
            f"to {found.good_offset} bytes"
        )
        if not keeps_records:
            print(KEEPS_NOTHING)
        self._ask()
        _truncate(path, found.good_offset)
        print(f"Successfully truncated AOF {name}")


def check_rdb(data: mmap | bytes, name: str) -> int:
    """Read the RDB file at the beginning of `data`. Returns where it ends. Raises Aborted."""
    print(f"[offset 0] Checking RDB file {name}")
    reader = FileReader(
        _pieces(data),
        Limits(),
        now_ms=wall_clock_ms(),
        drops_expired=False,
        skips_foreign=True,
        databases_count=DATABASES_COUNT_MAX,
    )
    expires_count = 0
    error: RdbError | None = None
    try:
        for key in reader:
            expires_count += key.expires_ms is not None
    except RdbError as raised:
        error = raised
    if error is None:
        print(rf"[offset {reader.offset}] \o/ RDB looks OK! \o/")
    else:
        print(f"--- RDB ERROR DETECTED ---\n[offset {reader.offset}] {error}")
    print(f"[info] {reader.keys_count + reader.foreign_count} keys read\n[info] {expires_count} expires")
    if error is not None:
        raise Aborted("RDB preamble of AOF file is not sane, aborting.")
    print("RDB preamble is OK, proceeding with AOF tail...")
    return reader.offset


def listed(path: str) -> tuple[Part | None, bool]:
    """The part that a manifest in the same folder has for this file, None if there is none, and whether no file of that
    log follows it: to cut one that others follow would leave a gap."""
    folder, name = os.path.split(os.path.abspath(path))
    for entry in sorted(os.listdir(folder)):
        if entry.endswith(".manifest"):
            try:
                parts = Manifest.decode(_content(os.path.join(folder, entry))[:]).readable
            except (Aborted, LoadError):
                continue
            for part in parts:
                if part.name == os.fsencode(name):
                    return part, part is parts[-1]
    return None, True


def _keep_servers_out(path: str, locks: ExitStack) -> None:
    """Lock the folder of the file and the one above, of which one is a data folder, as long as `locks` are held: a
    server would append to the file that is cut. Raises Aborted.
    """
    folder = os.path.dirname(os.path.abspath(path))
    for each in (folder, os.path.dirname(folder)):
        lock = FolderLock(each)
        try:
            lock.acquire()
        except LogError as error:
            raise Aborted(f"A server uses the data folder {each}: stop it, then run this again") from error
        except OSError as error:
            raise Aborted(f"Cannot look for a server that uses the folder {each}: {error.strerror}") from error
        locks.callback(lock.release)


def is_manifest(data: mmap | bytes) -> bool:
    """Whether the first line that is no comment names a file."""
    start = 0
    while data[start : start + 1] == b"#":
        end = data.find(b"\n", start, start + LINE_SIZE_MAX)
        if end < 0:
            return False
        start = end + 1
    return data[start : start + 5] == b"file "


def _pieces(data: mmap | bytes) -> Iterator[bytes]:
    for offset in range(0, len(data), PIECE_SIZE):
        yield data[offset : offset + PIECE_SIZE]


def _content(path: str, epilogue: str = "") -> mmap | bytes:
    """A file, mapped; an empty one cannot be. Raises Aborted, whose text ends with `epilogue`."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise Aborted(f"Cannot open file {path}: {error.strerror}{epilogue}") from error


def _replace(path: str, content: bytes) -> None:
    """Put a file in the place of another. Raises Aborted."""
    try:
        DiskFiles().replace(path, (content,))
    except OSError as error:
        raise Aborted(f"Failed to write {path}: {error.strerror}") from error


def _truncate(path: str, size: int) -> None:
    """Raises Aborted."""
    try:
        file = DiskFile(path)
        try:
            file.truncate(size)
            file.fsync()
        finally:
            file.close()
    except OSError as error:
        raise Aborted(f"Failed to truncate AOF {path}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
