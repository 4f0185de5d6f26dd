"""Cuts append-only files into splits that can be scanned in parallel.

In the middle of a file, a boundary between records cannot be known for sure, because a value may contain any bytes.
`find_boundary` takes the first offset from which many records parse. A scan fails if a split does not end exactly where
the next one begins. So, by induction from the start of the file, every cut of a scan that succeeds is a boundary.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...persistence.errors import LoadError
from ...persistence.manifest import Manifest
from ..errors import BadLog
from .records import TIMESTAMP, parse

SPLIT_SIZE: Final = 64 * 1024 * 1024
NEWLINE: Final = ord("\n")
# Records that must parse from an offset for it to be taken as a boundary.
PROOF_COUNT: Final = 32
# Bytes to look for these records in: first the usual size, then the maximum.
PROOF_SIZES: Final = (8 * 1024, 1024 * 1024)
RECORD_START: Final = re.compile(rb"\r\n(?=\*[1-9][0-9]*\r\n\$[1-9][0-9]*\r\n[A-Za-z]+\r\n)")
SELECT: Final = re.compile(rb"\*2\r\n\$6\r\nSELECT\r\n\$[0-9]+\r\n([0-9]+)\r\n", re.IGNORECASE)
# Commands that a log may contain. If a name is missing, boundaries near it are not recognised; that is harmless.
KNOWN_NAMES: Final = frozenset(
    b"XADD XCLAIM XACK XACKDEL XNACK XDEL XDELEX XTRIM XGROUP XSETID XIDMPRECORD XCFGSET SELECT MULTI EXEC SET DEL "
    b"UNLINK PEXPIREAT EXPIRE PERSIST RENAME RESTORE FLUSHALL FLUSHDB COPY MOVE SWAPDB APPEND INCRBY INCR DECR DECRBY "
    b"MSET GETDEL SETEX PSETEX EXPIREAT SETRANGE SETNX HSET HDEL SADD SREM ZADD ZREM LPUSH RPUSH LPOP RPOP LTRIM LREM "
    b"PUBLISH FUNCTION EVAL EVALSHA FCALL XAUTOCLAIM INCRBYFLOAT SPUBLISH".split()
)


@dataclass(frozen=True)
class Split:
    """A part of a log file. `db` and `ts` (Unix seconds, None if unknown) are the state where it begins."""

    path: str
    part: int
    start: int
    end: int
    db: int = 0
    ts: int | None = None
    # Whether it ends at the end of the file, as it was at planning; the last record may be incomplete.
    is_last: bool = False


def log_files(path: Path) -> list[Path]:
    """Returns the files of a log in order: those that its manifest names, or one file. Raises BadLog."""
    if path.is_file() and path.suffix != ".manifest":
        return [path]
    manifests = [path] if path.is_file() else sorted(path.glob("*.manifest")) or sorted(path.glob("*/*.manifest"))
    if len(manifests) != 1:
        raise BadLog(f"{path} holds {len(manifests) or 'no'} manifests: name the folder of one log, or one file")
    try:
        manifest = Manifest.decode(manifests[0].read_bytes())
    except LoadError as error:
        raise BadLog(f"{manifests[0]}: {error}") from None
    files = [manifests[0].parent / part.name.decode() for part in manifest.readable]
    for part, file in zip(manifest.readable, files, strict=True):
        if file.is_file() and (problem := part.size_error(file.stat().st_size)) is not None:
            raise BadLog(f"{file} was cut off or changed after it was written: {problem}")
    return files


def plan_splits(files: Sequence[Path], split_size: int = SPLIT_SIZE) -> list[Split]:
    """Cuts files into splits. Base files in RDB format are left out, as they contain no history. Raises BadLog."""
    splits: list[Split] = []
    for part, path in enumerate(files):
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                if file.read(5) == b"REDIS" or not size:
                    continue
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    splits += _splits_of(data, str(path), part, size, split_size)
        except OSError as error:
            raise BadLog(f"cannot read {path}: {error.strerror}") from None
    return splits


def _splits_of(data: mmap.mmap, path: str, part: int, size: int, split_size: int) -> Iterator[Split]:
    start, db, ts = 0, 0, None
    for wanted in range(split_size, size, split_size):
        if wanted <= start:
            continue
        end = find_boundary(data, wanted)
        if end is None:
            break
        yield Split(path, part, start, end, db, ts)
        db, ts = _carried(data, start, end, db, ts)
        start = end
    yield Split(path, part, start, size, db, ts, is_last=True)


def _carried(data: mmap.mmap, start: int, end: int, db: int, ts: int | None) -> tuple[int, int | None]:
    """Returns the database and the time at `end`, from the last SELECT and the last timestamp line before it.

    A match inside a value is not followed by records, so it is ignored.
    """
    place = end
    while (place := data.rfind(b"*2\r\n$6\r\nSELECT\r\n", start, place)) >= 0:
        found = SELECT.match(data, place)
        if found and (found.end() == end or _is_boundary(data, found.end())):
            db = int(found[1])
            break
    place = end
    while (place := data.rfind(b"#TS:", start, place)) >= 0:
        begins_line = not place or data[place - 1] == NEWLINE
        line = TIMESTAMP.match(data, place) if begins_line else None
        if line and (line.end() == end or _is_boundary(data, line.end())):
            ts = int(line[1])
            break
    return db, ts


def find_boundary(data: mmap.mmap | bytes, start: int) -> int | None:
    """Returns the first offset from `start` on where a record begins, or None if none can be trusted."""
    for found in RECORD_START.finditer(data, max(start - 2, 0)):
        if _is_boundary(data, found.end()):
            return found.end()
    return None


def _is_boundary(data: mmap.mmap | bytes, place: int) -> bool:
    """Whether PROOF_COUNT records, or all that are left, parse from this offset and have known names."""
    for size in PROOF_SIZES:
        piece = bytes(data[place : place + size])
        try:
            records = parse(piece).records
        except BadLog:
            return False
        found = [name.upper() for name in records.words(records.firsts[:PROOF_COUNT]).to_pylist()]
        if len(found) == PROOF_COUNT or place + len(piece) == len(data):
            return bool(found) and KNOWN_NAMES.issuperset(found)
    return False
