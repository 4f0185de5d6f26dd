"""Rows about files and copies: writing each, its size, starting from it, and DUMP and RESTORE.

There is a row for each operation on each content. Each type of value has its contents in `CONTENTS`, so a new type gets
rows as soon as it has contents there, and without them this module cannot be imported.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.load import Batch, Refused, Words, cpu_time, prepared
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask, deliver, fill_numbered, new_group

from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.kinds import COMPANIONS
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.stream import Stream
from support.wire import encode

TABLE: Final = "files"
SEED: Final = 8
ITEMS: Final = 300_000
# Keys with small values of several members.
SMALL_ITEMS: Final = ITEMS // 3
FILL_PIPELINE: Final = 100
DEADLINE_S: Final = 120.0
POLL_S: Final = 0.02
# Copies that are made of one key. A content of many keys makes one of each of its first keys.
COPIES: Final = 10
COPIED_KEYS: Final = 2_000
Item = TypeVar("Item")
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Content:
    """A dataset: its name, what one item of it is, the commands that make it, and its keys."""

    name: str
    title: str
    fill: Callable[[PeerServer], None]
    keys: tuple[str, ...]
    items: int = ITEMS


def batched(items: Iterable[Item], count: int) -> Iterator[tuple[Item, ...]]:
    """Yield the items, `count` at a time."""
    left = iter(items)
    while batch := tuple(islice(left, count)):
        yield batch


def send(server: PeerServer, requests: Iterator[Words]) -> None:
    """Send requests whose reply is OK, in pipelines."""
    batches = [
        Batch(b"".join(encode(words) for words in batch), b"+OK\r\n" * len(batch))
        for batch in batched(requests, FILL_PIPELINE)
    ]
    prepared(server, len(batches) * FILL_PIPELINE, [batches])


def strings(server: PeerServer, size: int, items: int, *, expires: bool = False) -> None:
    """Strings of that size, half of each random."""
    draw = random.Random(SEED)
    options = ("EX", 1_000_000) if expires else ()
    halves = (draw.randbytes(size // 4).hex() for _ in range(items))
    send(server, (("SET", f"key:{number}", half.ljust(size, "."), *options) for number, half in enumerate(halves)))


def numbers(server: PeerServer) -> None:
    """Strings that are numbers."""
    send(server, (("SET", f"key:{number}", 31 * number) for number in range(ITEMS)))


def entries(server: PeerServer) -> None:
    """A stream of entries with three short fields."""
    fill_numbered(server, "s", ITEMS)


def pending(server: PeerServer) -> None:
    """The stream of `entries`, with all of them pending for ten consumers."""
    entries(server)
    new_group(server, "s")
    deliver(server, "s", ITEMS)


def released(server: PeerServer) -> None:
    """The stream of `pending`, with all entries released by their consumers."""
    pending(server)
    ids = [f"{1_700_000_000_000 + number}-0" for number in range(ITEMS)]
    with server.connect() as wire:
        for batch in batched(ids, 1_000):
            ask(wire, "XNACK", "s", "g", "FAIL", "IDS", len(batch), *batch)


def streams(server: PeerServer) -> None:
    """Streams with one entry each."""
    with server.connect() as wire:
        for batch in batched(range(ITEMS // 10), FILL_PIPELINE):
            wire.socket.sendall(b"".join(encode(("XADD", f"s:{number}", "1-1", "f", number)) for number in batch))
            for _ in batch:
                wire.receive()


def filled(server: PeerServer, requests: Iterator[Words]) -> None:
    """Send requests that are answered with a number."""
    with server.connect() as wire:
        for batch in batched(requests, FILL_PIPELINE):
            wire.socket.sendall(b"".join(encode(words) for words in batch))
            for _ in batch:
                wire.receive()


def small(server: PeerServer, prefix: str, words: Words) -> None:
    """Keys with the same small value: `words` are a command and what follows its key."""
    filled(server, ((words[0], f"{prefix}:{number}", *words[1:]) for number in range(SMALL_ITEMS)))


def big(server: PeerServer, request: Callable[[int], Words]) -> None:
    """A key with many members, each added by one request."""
    filled(server, (request(number) for number in range(ITEMS)))


STRING_KEYS: Final = tuple(f"key:{number}" for number in range(COPIED_KEYS))


def copied_keys(prefix: str) -> tuple[str, ...]:
    """Keys of small values."""
    return tuple(f"{prefix}:{number}" for number in range(COPIED_KEYS))


def small_content(name: str, title: str, *words: str | int) -> Content:
    """Many keys with a small value; `words`: see `small`."""
    return Content(name, title, partial(small, prefix=name[:1], words=words), copied_keys(name[:1]), SMALL_ITEMS)


def big_content(name: str, title: str, key: str, request: Callable[[int], Words]) -> Content:
    """One key with many members."""
    return Content(name, title, partial(big, request=request), (key,))


# The numbers of the members of a small value.
TEN: Final = range(10)
# The types of values, in the order of the table.
TYPES: Final = (Stream, bytes, *COMPANIONS)
# Contents by the type of their values.
CONTENTS: Final[dict[type, tuple[Content, ...]]] = {
    bytes: (
        Content("numbers", "strings that are numbers", numbers, STRING_KEYS),
        Content("strings", "strings of 20 bytes", partial(strings, size=20, items=ITEMS), STRING_KEYS),
        Content("expiring", "strings that expire", partial(strings, size=20, items=ITEMS, expires=True), STRING_KEYS),
        small_content("hyperloglogs", "HyperLogLogs of two elements", "PFADD", "one", "two"),
        Content("texts", "strings of 1 KiB", partial(strings, size=1024, items=ITEMS // 10), STRING_KEYS, ITEMS // 10),
    ),
    ArrayValue: (
        small_content("arrays", "arrays of ten elements", "ARSET", 0, *(f"element:{number}" for number in TEN)),
        big_content(
            "big array", "elements of an array", "a", lambda number: ("ARSET", "a", number, f"element:{number}")
        ),
    ),
    HashValue: (
        small_content(
            "hashes",
            "hashes of ten fields",
            "HSET",
            *(word for number in TEN for word in (f"field:{number}", f"value:{number}")),
        ),
        big_content(
            "big hash", "fields of a hash", "h", lambda number: ("HSET", "h", f"field:{number}", f"value:{number}")
        ),
    ),
    ListValue: (
        small_content("lists", "lists of ten elements", "RPUSH", *(f"element:{number}" for number in TEN)),
        big_content("big list", "elements of a list", "l", lambda number: ("RPUSH", "l", f"element:{number}")),
    ),
    SetValue: (
        small_content("sets", "sets of ten members", "SADD", *(f"member:{number}" for number in TEN)),
        small_content("integer sets", "sets of ten numbers", "SADD", *(7 * number for number in TEN)),
        big_content("big set", "members of a set", "e", lambda number: ("SADD", "e", f"member:{number}")),
    ),
    SortedSetValue: (
        small_content(
            "sorted sets",
            "sorted sets of ten members",
            "ZADD",
            *(word for number in TEN for word in (number, f"member:{number}")),
        ),
        big_content(
            "big sorted set", "members of a sorted set", "z", lambda number: ("ZADD", "z", number, f"member:{number}")
        ),
    ),
    Stream: (
        Content("entries", "entries of three fields", entries, ("s",)),
        Content("pending", "entries that are pending", pending, ("s",)),
        Content("released", "entries that are released", released, ("s",)),
        Content(
            "streams",
            "streams of one entry",
            streams,
            tuple(f"s:{number}" for number in range(COPIED_KEYS)),
            ITEMS // 10,
        ),
    ),
}
ALL_CONTENTS: Final = tuple(content for kind in TYPES for content in CONTENTS[kind])


def total_cpu_s(server: PeerServer) -> float:
    """Seconds of processor time of a server and of its children that have ended."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return cpu_time(server) + (int(fields[13]) + int(fields[14])) / TICKS_PER_S


def measured(server: PeerServer, content: Content, run: Callable[[], int]) -> Sample:
    """What a run takes. It returns its number of items."""
    before_s, started_s = total_cpu_s(server), time.perf_counter()
    items = run()
    return Sample(time.perf_counter() - started_s, (total_cpu_s(server) - before_s) * 1e6 / items)


def save(server: PeerServer, content: Content) -> Sample:
    """SAVE."""

    def run() -> int:
        with server.connect() as wire:
            ask(wire, "SAVE")
        return content.items

    return measured(server, content, run)


def rewrite(server: PeerServer, content: Content, *, is_rdb: bool) -> Sample:
    """BGREWRITEAOF, until the base is in place."""
    with server.connect() as wire:
        ask(wire, "CONFIG", "SET", "aof-use-rdb-preamble", "yes" if is_rdb else "no")

        def run() -> int:
            ask(wire, "BGREWRITEAOF")
            deadline_s = time.monotonic() + DEADLINE_S
            while b"aof_rewrite_in_progress:0" not in (found := wire.ask("INFO", "persistence")):
                if time.monotonic() > deadline_s:
                    raise Refused(f"no rewrite in {DEADLINE_S} seconds: {found!r}")
                time.sleep(POLL_S)
            return content.items

        return measured(server, content, run)


def dump_path(server: PeerServer, content: Content) -> Path:
    """dump.rdb, which is written first."""
    save(server, content)
    return server.folder / "dump.rdb"


def base_path(server: PeerServer, content: Content, *, is_rdb: bool) -> Path:
    """The base of the log, which is rewritten first."""
    rewrite(server, content, is_rdb=is_rdb)
    (path,) = server.folder.glob("appendonlydir/*.base.*")
    return path


Locate = Callable[[PeerServer, Content], Path]


def size(server: PeerServer, content: Content, *, locate: Locate) -> Sample:
    """The size of a file in bytes for an item."""
    return Sample(locate(server, content).stat().st_size / content.items)


def start(server: PeerServer, content: Content, *, locate: Locate) -> Sample:
    """From the start of a process to its first PONG. The processor time is that beyond a start without data."""
    path = locate(server, content)
    folders = [server.folder / "without", server.folder / "with"]
    is_log = path.parent != server.folder
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    if is_log:
        shutil.copytree(path.parent, folders[1] / path.parent.name)
    else:
        shutil.copy(path, folders[1] / path.name)
    costs_s, times_s = zip(*(_start(server, folder, is_log=is_log) for folder in folders), strict=True)
    # Less than a tick of the clock is not a measurement.
    return Sample(times_s[1], max(costs_s[1] - costs_s[0], 1 / TICKS_PER_S) * 1e6 / content.items)


def _start(server: PeerServer, folder: Path, *, is_log: bool) -> tuple[float, float]:
    """Processor time and time of a start in this folder."""
    loading = PeerServer(server.peer, folder, "--appendonly", "yes" if is_log else "no", start_deadline_s=DEADLINE_S)
    started_s = time.perf_counter()
    loading.start()
    try:
        return cpu_time(loading), time.perf_counter() - started_s
    finally:
        loading.kill()


def copied(server: PeerServer, content: Content, *, is_restored: bool) -> Sample:
    """DUMP, or RESTORE of what it returned."""
    rounds = COPIES if len(content.keys) == 1 else 1
    with server.connect() as wire:
        payloads = [wire.ask("DUMP", key) for key in content.keys] if is_restored else []

        def run() -> int:
            for _ in range(rounds):
                for payload in payloads:
                    ask(wire, "RESTORE", "copy", 0, payload, "REPLACE")
                for key in () if is_restored else content.keys:
                    wire.call("DUMP", key)
            return rounds * (content.items if len(content.keys) == 1 else len(content.keys))

        sample = measured(server, content, run)
        wire.call("DEL", "copy")
        return sample


text_base = partial(base_path, is_rdb=False)
rdb_base = partial(base_path, is_rdb=True)


@dataclass(frozen=True)
class Operation:
    """What is measured, in which unit, and the ratio to Redis that is wanted."""

    name: str
    title: str
    measure: Callable[[PeerServer, Content], Sample]
    unit: str = "s"
    target: float = 1.0


OPERATIONS: Final = (
    Operation("save", "SAVE", save),
    Operation("dump-size", "dump.rdb", partial(size, locate=dump_path), "bytes"),
    Operation("dump-start", "start from dump.rdb", partial(start, locate=dump_path)),
    Operation("dump", "DUMP", partial(copied, is_restored=False), target=0.5),
    Operation("restore", "RESTORE", partial(copied, is_restored=True), target=0.5),
    Operation("rewrite", "rewrite", partial(rewrite, is_rdb=False)),
    Operation("text-size", "text base", partial(size, locate=text_base), "bytes"),
    Operation("text-start", "start from text base", partial(start, locate=text_base)),
    Operation("rdb-rewrite", "rewrite as RDB", partial(rewrite, is_rdb=True)),
    Operation("rdb-size", "RDB base", partial(size, locate=rdb_base), "bytes"),
    Operation("rdb-start", "start from RDB base", partial(start, locate=rdb_base)),
)


def row_name(content: Content, operation: Operation) -> str:
    """The name of the row of this operation on this content."""
    return f"file-{content.name}-{operation.name}"


ROWS = tuple(
    Row(
        row_name(content, operation),
        f"{operation.title}, {content.title}",
        operation.unit,
        partial(operation.measure, content=content),
        content.fill,
        target=operation.target,
        runs=3,
        is_rate=False,
        is_usual=False,
        table=TABLE,
        # No operation changes the data.
        dataset=f"file-{content.name}",
    )
    for content in ALL_CONTENTS
    for operation in OPERATIONS
)
