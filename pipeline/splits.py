"""Where to cut append-only files, so that their parts can be scanned side by side.

From the middle of a file a boundary between records cannot be known, for a value may contain anything: `find_boundary`
takes the first place from which many records parse. A split that does not end exactly where the next one begins is an
error, so by induction from the file's beginning every cut of a scan that succeeds was a boundary.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..persistence.errors import LoadError
from ..persistence.manifest import Manifest
from .errors import BadLog
from .records import TIMESTAMP, parse

SPLIT_SIZE: Final = 64 * 1024 * 1024
NEWLINE: Final = ord("\n")
PROOF_COUNT: Final = 32
"""Records that have to parse from a place for it to be taken for a boundary."""
PROOF_SIZES: Final = (8 * 1024, 1024 * 1024)
"""Bytes in which they have to be: those that are needed as a rule, and those that may be."""
RECORD_START: Final = re.compile(rb"\r\n(?=\*[1-9][0-9]*\r\n\$[1-9][0-9]*\r\n[A-Za-z]+\r\n)")
SELECT: Final = re.compile(rb"\*2\r\n\$6\r\nSELECT\r\n\$[0-9]+\r\n([0-9]+)\r\n", re.IGNORECASE)
KNOWN_NAMES: Final = frozenset(
    b"XADD XCLAIM XACK XACKDEL XNACK XDEL XDELEX XTRIM XGROUP XSETID XIDMPRECORD XCFGSET SELECT MULTI EXEC SET DEL "
    b"UNLINK PEXPIREAT EXPIRE PERSIST RENAME RESTORE FLUSHALL FLUSHDB COPY MOVE SWAPDB APPEND INCRBY INCR DECR DECRBY "
    b"MSET GETDEL SETEX PSETEX EXPIREAT SETRANGE SETNX HSET HDEL SADD SREM ZADD ZREM LPUSH RPUSH LPOP RPOP LTRIM LREM "
    b"PUBLISH FUNCTION EVAL EVALSHA FCALL XAUTOCLAIM INCRBYFLOAT SPUBLISH".split()
)
"""A name that is not here only costs another place its chance to be a boundary."""


@dataclass(frozen=True)
class Split:
    """A part of a log file. `db` and `ts` (Unix seconds, None if unknown) hold at its beginning."""

    path: str
    part: int
    start: int
    end: int
    db: int = 0
    ts: int | None = None
    is_last: bool = False
    """The end of the file, as it was when the splits were planned; a record there may be unfinished."""


def log_files(path: Path) -> list[Path]:
    """The files of a log in order: those of a manifest in a folder, or one file. Raises BadLog."""
    if path.is_file() and path.suffix != ".manifest":
        return [path]
    manifests = [path] if path.is_file() else sorted(path.glob("*.manifest")) or sorted(path.glob("*/*.manifest"))
    if len(manifests) != 1:
        raise BadLog(f"{path} holds {len(manifests) or 'no'} manifests: name the folder of one log, or one file")
    try:
        manifest = Manifest.decode(manifests[0].read_bytes())
    except LoadError as error:
        raise BadLog(f"{manifests[0]}: {error}") from None
    return [manifests[0].parent / part.name.decode() for part in manifest.readable]


def plan_splits(files: Sequence[Path], split_size: int = SPLIT_SIZE) -> list[Split]:
    """Cuts files into splits. Bases in RDB form are left out: they are no history. Raises BadLog."""
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
    """The database and the time that hold at `end`. What looks like it inside of a value has no record behind it."""
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
    """The first place at or after `start` where a record begins, None if there is none that can be trusted."""
    for found in RECORD_START.finditer(data, max(start - 2, 0)):
        if _is_boundary(data, found.end()):
            return found.end()
    return None


def _is_boundary(data: mmap.mmap | bytes, place: int) -> bool:
    """Whether many records, or all that are left, parse from here and have names we know."""
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
