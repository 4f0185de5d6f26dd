"""Append-only files as events: what happened to which entry, in the order of the log.

A log is cut into splits that are scanned side by side. From the middle of a file a boundary between records cannot be
known, for a value may contain anything: `find_boundary` takes the first place from which many records parse. A split
that does not end exactly where the next one begins is an error, so by induction from the file's beginning every cut of
a scan that succeeds was a boundary.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import hiredis

from ..persistence.errors import LoadError
from ..persistence.manifest import Manifest
from ..persistence.records import PARSER_SIZE
from .errors import BadLog

SPLIT_SIZE: Final = 64 * 1024 * 1024
PIECE_SIZE: Final = 64 * 1024
"""Bytes that are parsed at once: few enough to stay in the processor's cache."""
EVENTS_MIN: Final = 50_000
"""Events that are given out at once, but for the last."""
ANNOTATION: Final = ord("#")
NEWLINE: Final = ord("\n")
PROOF_COUNT: Final = 32
"""Records that have to parse from a place for it to be taken for a boundary."""
PROOF_SIZE: Final = 1024 * 1024
RECORD_START: Final = re.compile(rb"\r\n(?=\*[1-9][0-9]*\r\n\$[1-9][0-9]*\r\n[A-Za-z]+\r\n)")
SELECT: Final = re.compile(rb"\*2\r\n\$6\r\nSELECT\r\n\$[0-9]+\r\n([0-9]+)\r\n", re.IGNORECASE)
TIMESTAMP: Final = re.compile(rb"#TS:([0-9]+)\r\n")
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


@dataclass(slots=True)
class Kind:
    """Events of one kind, by column. Columns that no event of this kind has stay empty."""

    n: list[int] = field(default_factory=list)
    """Number of the record in its split."""
    stream: list[bytes] = field(default_factory=list)
    id: list[bytes | None] = field(default_factory=list)
    grp: list[bytes] = field(default_factory=list)
    consumer: list[bytes | None] = field(default_factory=list)
    time_ms: list[int | None] = field(default_factory=list)
    deliveries: list[int | None] = field(default_factory=list)


class Events:
    """Events of a piece of log whose records have the same database and time: a row for each entry of a record."""

    def __init__(self, db: int, ts: int | None) -> None:
        self.db = db
        self.ts = ts
        self.kinds: dict[str, Kind] = {}

    def __len__(self) -> int:
        return sum(len(kind.n) for kind in self.kinds.values())

    def add(
        self,
        name: str,
        numbers: list[int],
        streams: list[bytes],
        ids: Sequence[bytes | None],
        *,
        groups: Sequence[bytes] = (),
        consumers: Sequence[bytes | None] = (),
        times: Sequence[int | None] = (),
        deliveries: Sequence[int | None] = (),
    ) -> None:
        """Events of one kind; the same columns each time."""
        kind = self.kinds.get(name)
        if kind is None:
            kind = self.kinds[name] = Kind()
        kind.n += numbers
        kind.stream += streams
        kind.id += ids
        kind.grp += groups
        kind.consumer += consumers
        kind.time_ms += times
        kind.deliveries += deliveries


# -- splitting --------------------------------------------------------------------------------------


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
    piece = bytes(data[place : place + PROOF_SIZE])
    try:
        portions, _ = parse(piece)
    except BadLog:
        return False
    found = [record[0].upper() for records, _ in portions for record in records][:PROOF_COUNT]
    is_enough = len(found) == PROOF_COUNT or (found and place + len(piece) == len(data))
    return bool(is_enough) and KNOWN_NAMES.issuperset(found)


# -- parsing ----------------------------------------------------------------------------------------

Records = list[list[bytes]]
Portion = tuple[Records, bytes | None]
"""Records, and the annotation line behind them."""


def parse(data: bytes, offset: int = 0) -> tuple[list[Portion], bool]:
    """All records of some bytes, and whether the bytes end with a record. Raises BadLog for what is no record.

    hiredis knows no annotations: it is fed up to each place where one may begin. If it is in the middle of a value
    there, the place was none.
    """
    reader = hiredis.Reader()
    gets = reader.gets
    position, size = 0, len(data)
    portions: list[Portion] = []
    records: Records = []
    try:
        while position < size:
            if data[position] == ANNOTATION and not reader.has_data():
                end = data.find(b"\n", position) + 1
                if not end:
                    break
                portions.append((records, data[position:end]))
                records, position = [], end
                continue
            end = data.find(b"\n#", position) + 1 or size
            for fed in range(position, end, PARSER_SIZE):
                reader.feed(data[fed : min(fed + PARSER_SIZE, end)])
                records += iter(gets, False)
            position = end
        portions.append((records, None))
        # RESP has more types than records have: what begins with no name is none.
        are_commands = {type(record[0]) for records, _ in portions for record in records} <= {bytes}
    except (hiredis.HiredisError, TypeError, IndexError):
        are_commands = False
    if not are_commands:
        raise BadLog(f"no record where one should be, at or after offset {offset}")
    return portions, position == size and not reader.has_data()


def scan(split: Split) -> Iterator[Events]:
    """The events of a split, a few megabytes at a time. Raises BadLog if it does not end with a record.

    The end of the file may be a record that is being written: it is left out.
    """
    state = _State(split.db, split.ts)
    path = Path(split.path)
    with path.open("rb") as file:
        file.seek(split.start)
        left, rest, offset, is_whole = split.end - split.start, b"", split.start, True
        while left:
            piece = file.read(min(PIECE_SIZE, left))
            if not piece:
                raise BadLog(f"{path} ends before offset {split.end}")
            left -= len(piece)
            data = rest + piece
            cut = _last_boundary(data) if left else len(data)
            portions, is_whole = parse(data[:cut], offset)
            if not is_whole and left:  # a value that holds what looks like a record: more of it shows where it ends
                rest = data
                continue
            yield from state.take(portions)
            rest, offset = data[cut:], offset + cut
        if not is_whole and not split.is_last:
            raise BadLog(f"{path}: the cut at offset {split.end} is inside of a value; choose another split size")
        yield state.events


def _last_boundary(data: bytes) -> int:
    """A place near the end where a record seems to begin; 0 if there is none."""
    end = len(data)
    while (place := data.rfind(b"\r\n*", 0, end)) >= 0:
        if RECORD_START.match(data, place):
            return place + 2
        end = place
    return 0


# -- events -----------------------------------------------------------------------------------------


class _State:
    """What has to be known to make sense of the next record."""

    def __init__(self, db: int, ts: int | None) -> None:
        self.events = Events(db, ts)
        """Those not yet given out."""
        self.count = 0
        """Records so far."""

    def take(self, portions: list[Portion]) -> Iterator[Events]:
        """Turn parsed records into events, and give out what is enough or must not be mixed with what follows."""
        for records, line in portions:
            while records:
                records, db = self._take_up_to_select(records)
                if db != self.events.db:
                    yield self._start(db, self.events.ts)
            if line is not None and (stamp := TIMESTAMP.fullmatch(line)):
                yield self._start(self.events.db, int(stamp[1]))
        if len(self.events) >= EVENTS_MIN:
            yield self._start(self.events.db, self.events.ts)

    def _start(self, db: int, ts: int | None) -> Events:
        """The events so far; new ones are gathered under another database or time."""
        done, self.events = self.events, Events(db, ts)
        return done

    def _take_up_to_select(self, records: Records) -> tuple[Records, int]:
        """Take records of one database; those behind a SELECT are given back, with theirs."""
        names: dict[bytes, tuple[list[int], Records]] = {}
        number = self.count
        db = self.events.db
        rest: Records = []
        for number, record in enumerate(records, self.count):
            name = record[0]
            alike = names.get(name)
            if alike is None:
                if name.upper() == b"SELECT":
                    rest, db = records[number - self.count + 1 :], int(record[1])
                    break
                alike = names[name] = ([], [])
            alike[0].append(number)
            alike[1].append(record)
        for name, (numbers, same) in names.items():
            make = MAKERS.get(name.upper())
            if make is not None:
                make(self.events, numbers, same)
        self.count = number + 1
        return rest, db


Maker = Callable[[Events, list[int], Records], None]


def _xadd(events: Events, numbers: list[int], records: Records) -> None:
    # Hot: an ID begins with a digit, and none of the options before it does.
    ids = [record[2] if record[2][:1].isdigit() else _xadd_id(record) for record in records]
    events.add("add", numbers, [record[1] for record in records], ids)


def _xadd_id(record: list[bytes]) -> bytes:
    index = 2
    arguments = {b"IDMP": 3, b"IDMPAUTO": 2, b"MAXLEN": 2, b"MINID": 2, b"LIMIT": 2}
    while not (record[index][:1].isdigit() or record[index] == b"*"):
        word = record[index].upper()
        index += arguments.get(word, 1)
        if word in (b"MAXLEN", b"MINID") and record[index - 1] in (b"=", b"~"):
            index += 1
    return record[index]


def _xclaim(events: Events, numbers: list[int], records: Records) -> None:
    """Deliveries: `XCLAIM key group consumer min-idle id [id ...] TIME ms RETRYCOUNT count ..`."""
    ends = [_ids_end(record) for record in records]
    # The form in which servers log it; what an administrator sends himself may have no TIME.
    times = [
        int(record[end + 1]) if record[end : end + 1] == [b"TIME"] else None
        for record, end in zip(records, ends, strict=False)
    ]
    counts = [
        int(record[end + 3]) if record[end + 2 : end + 3] == [b"RETRYCOUNT"] else None
        for record, end in zip(records, ends, strict=False)
    ]
    if sum(ends) != 6 * len(records):
        spread = [index for index, end in enumerate(ends) for _ in range(5, end)]
        ids = [entry_id for record, end in zip(records, ends, strict=False) for entry_id in record[5:end]]
        numbers = [numbers[index] for index in spread]
        records = [records[index] for index in spread]
        times, counts = [times[index] for index in spread], [counts[index] for index in spread]
    else:
        ids = [record[5] for record in records]
    events.add(
        "deliver",
        numbers,
        [record[1] for record in records],
        ids,
        groups=[record[2] for record in records],
        consumers=[record[3] for record in records],
        times=times,
        deliveries=counts,
    )


def _ids_end(record: list[bytes]) -> int:
    """Where the IDs of an XCLAIM end: at the first option."""
    end = 6
    while end < len(record) and record[end][:1].isdigit():
        end += 1
    return end


def _of_group(kind: str) -> Maker:
    """`NAME key group id [id ...]`."""

    def make(events: Events, numbers: list[int], records: Records) -> None:
        ids = [entry_id for record in records for entry_id in record[3:]]
        if len(ids) != len(records):
            numbers = [number for number, record in zip(numbers, records, strict=False) for _ in record[3:]]
            records = [record for record in records for _ in record[3:]]
        events.add(kind, numbers, [record[1] for record in records], ids, groups=[record[2] for record in records])

    return make


def _ids_after_count(record: list[bytes]) -> list[bytes]:
    """The IDs of `.. IDS numids id [id ...] ..`."""
    words = [word.upper() for word in record]
    start = words.index(b"IDS") + 2
    return record[start : start + int(record[start - 1])]


def _xackdel(events: Events, numbers: list[int], records: Records) -> None:
    for number, record in zip(numbers, records, strict=True):
        ids = _ids_after_count(record)
        many = len(ids)
        events.add("ack", [number] * many, [record[1]] * many, ids, groups=[record[2]] * many)
        events.add("delete", [number] * many, [record[1]] * many, ids)


def _xnack(events: Events, numbers: list[int], records: Records) -> None:
    for number, record in zip(numbers, records, strict=True):
        ids, words = _ids_after_count(record), record[4:]
        count = int(words[words.index(b"RETRYCOUNT") + 1]) if b"RETRYCOUNT" in words else None
        many = len(ids)
        kind = f"release-{record[3].decode('ascii', 'replace').lower()}"
        groups, counts = [record[2]] * many, [count] * many
        events.add(kind, [number] * many, [record[1]] * many, ids, groups=groups, deliveries=counts)


def _xdel(events: Events, numbers: list[int], records: Records) -> None:
    for number, record in zip(numbers, records, strict=True):
        ids = record[2:] if record[0].upper() == b"XDEL" else _ids_after_count(record)
        events.add("delete", [number] * len(ids), [record[1]] * len(ids), ids)


def _xtrim(events: Events, numbers: list[int], records: Records) -> None:
    """The event has an ID if trimming went by one: what is below it is gone."""
    for number, record in zip(numbers, records, strict=True):
        threshold = record[4] if record[3] in (b"=", b"~") else record[3]
        events.add("trim", [number], [record[1]], [threshold if record[2].upper() == b"MINID" else None])


def _xgroup(events: Events, numbers: list[int], records: Records) -> None:
    for number, record in zip(numbers, records, strict=True):
        action = record[1].decode("ascii", "replace").lower()
        has_consumer = action in ("createconsumer", "delconsumer")
        fourth = record[4] if len(record) > 4 else None
        consumer, entry_id = (fourth, None) if has_consumer else (None, fourth)
        events.add(f"group-{action}", [number], [record[2]], [entry_id], groups=[record[3]], consumers=[consumer])


def _delete_keys(events: Events, numbers: list[int], records: Records) -> None:
    for number, record in zip(numbers, records, strict=True):
        for key in record[1:]:
            events.add("drop", [number], [key], [None])


MAKERS: Final[dict[bytes, Maker]] = {
    b"XADD": _xadd,
    b"XCLAIM": _xclaim,
    b"XACK": _of_group("ack"),
    b"XACKDEL": _xackdel,
    b"XNACK": _xnack,
    b"XDEL": _xdel,
    b"XDELEX": _xdel,
    b"XTRIM": _xtrim,
    b"XGROUP": _xgroup,
    b"DEL": _delete_keys,
    b"UNLINK": _delete_keys,
}
"""What becomes of each command; others are passed over."""
