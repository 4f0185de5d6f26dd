"""Rows about the resident memory of small things: the growth of the process while many are made, for each of them.

Each shape is measured on a server that was started for it. What must exist before is made before the first look, and
memory that is free is given back to the system before both (MEMORY PURGE).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.commands import RepliedBatch
from benchmarks.load import Words, prepared, resident_size
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import SEED, entry_id

TABLE: Final = "weights"
PIPELINE: Final = 100
WARM_COUNT: Final = 2_000
STREAM: Final = "s"
GROUP: Final = "g"
DELIVERED_AT_ONCE: Final = 100
PAIRS_OF_PRODUCER: Final = 100

Request = Callable[[int], Words]


@dataclass(frozen=True)
class Shape:
    """Things of one kind, with the requests that make them, by number."""

    name: str
    title: str
    count: int
    make: Request
    # Sent before the memory is looked at: once, and then for each number.
    once: tuple[Words, ...] = ()
    before: Request | None = None
    # Sent once, after the things were made.
    after: tuple[Words, ...] = ()
    # Sent then, for the numbers of which the things are to be removed.
    remove: Request | None = None
    removed: tuple[int, ...] = ()
    # Requests of each number need a connection of their own, which stays.
    is_connected: bool = False


def _fields(count: int) -> Request:
    def request(number: int) -> Words:
        pairs = (word for field in range(count) for word in (f"field-{field}", f"{number * 7919 % 10**12:012}"))
        return ("XADD", STREAM, entry_id(number), *pairs)

    return request


def _large(number: int) -> Words:
    return ("XADD", STREAM, entry_id(number), "value", random.Random(number).randbytes(1024))


def _pair(number: int) -> Words:
    producer, iid = number // PAIRS_OF_PRODUCER, f"idempotent-{number:05}"
    return ("XADD", STREAM, "IDMP", f"producer-{producer}", iid, "*", "f", "v")


def _half(count: int) -> tuple[int, ...]:
    return tuple(random.Random(SEED).sample(range(count), count // 2))


def _member(command: str, form: Callable[[str], tuple[str, ...]], members_count: int) -> Request:
    def request(number: int) -> Words:
        return (command, f"key:{number // members_count:05}", *form(f"m:{number:010}"))

    return request


# By type: the command that adds a member, and the words after the key.
MEMBERS: Final[dict[str, tuple[str, Callable[[str], tuple[str, ...]]]]] = {
    "hash": ("HSET", lambda member: (member, "value")),
    "list": ("RPUSH", lambda member: (member,)),
    "set": ("SADD", lambda member: (member,)),
    "sorted set": ("ZADD", lambda member: (member[-6:], member)),
}

# By kind: an element of an array.
ELEMENTS: Final = {"integer": "{}", "text of 15 bytes": "text-{:010}"}


def _element(form: str, elements_count: int, number: int) -> Words:
    return ("ARSET", f"key:{number // elements_count:05}", number % elements_count, form.format(number))


ADD: Final = _fields(1)
NEW_GROUP: Final[tuple[Words, ...]] = (("XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"),)

SHAPES: Final = (
    Shape("entry", "entry of one field", 300_000, ADD),
    Shape("entry-3", "entry of three fields", 300_000, _fields(3)),
    Shape("entry-10", "entry of ten fields", 100_000, _fields(10)),
    Shape("entry-1k", "entry with 1 kB that cannot be compressed", 50_000, _large),
    Shape(
        "entry-left", "entry left after half were deleted at random", 200_000, ADD,
        remove=lambda number: ("XDEL", STREAM, entry_id(number)), removed=_half(200_000),
    ),
    Shape("stream", "stream of one entry", 20_000, lambda number: ("XADD", f"s:{number}", "*", "f", "v")),
    Shape(
        "pending", "pending entry, delivered by 100", 200_000,
        lambda number: ("XREADGROUP", "GROUP", GROUP, "c", "COUNT", DELIVERED_AT_ONCE, "STREAMS", STREAM, ">")
        if number % DELIVERED_AT_ONCE == 0 else ("ECHO", "a"),
        NEW_GROUP, ADD,
    ),
    Shape(
        "group", "consumer group", 20_000,
        lambda number: ("XGROUP", "CREATE", STREAM, f"group-{number}", "0"), NEW_GROUP,
    ),
    Shape(
        "consumer", "consumer", 100_000,
        lambda number: ("XGROUP", "CREATECONSUMER", STREAM, GROUP, f"consumer-{number}"), NEW_GROUP,
    ),
    Shape(
        "idmp", "pair of an idempotent producer", 100_000, _pair, NEW_GROUP,
        after=(("XTRIM", STREAM, "MAXLEN", 0),),
    ),
    Shape("string", "string of 5 bytes", 200_000, lambda number: ("SET", f"key:{number:07}", "value")),
    Shape(
        "string-expiring", "string of 5 bytes with an expiry time", 200_000,
        lambda number: ("SET", f"key:{number:07}", "value", "EX", 100_000 + number),
    ),
    Shape("string-100", "string of 100 bytes", 200_000, lambda number: ("SET", f"key:{number:07}", f"{number:0100}")),
    Shape("string-1k", "string of 1 kB", 50_000, lambda number: ("SET", f"key:{number:07}", f"{number:01024}")),
    Shape(
        "string-left", "string left after half were deleted at random", 200_000,
        lambda number: ("SET", f"key:{number:07}", "value"),
        remove=lambda number: ("DEL", f"key:{number:07}"), removed=_half(200_000),
    ),
    *(
        Shape(
            f"{kind.replace(' ', '-')}-{members_count}", f"member of a {kind} of {members_count:,}", 200_000,
            _member(command, form, members_count),
        )
        for kind, (command, form) in MEMBERS.items() for members_count in (10, 100, 100_000)
    ),
    *(
        Shape(
            f"{kind} of array, {elements_count}", f"{kind} in an array of {elements_count:,}", 100_000,
            partial(_element, form, elements_count),
        )
        for kind, form in ELEMENTS.items() for elements_count in (10, 100, 100_000)
    ),
    Shape("user", "user with a pattern and a category", 2_000, lambda number: (
        "ACL", "SETUSER", f"user-{number}", "on", "nopass", f"~jobs:{number}:*", "+@stream",
    )),
    Shape("script", "script of one line", 200, lambda number: ("SCRIPT", "LOAD", f"return {number}")),
    Shape("connection", "connection", 1_000, lambda number: ("PING",), is_connected=True),
    Shape(
        "subscription", "connection with a subscription of its own", 1_000,
        lambda number: ("SUBSCRIBE", f"channel:{number}"), is_connected=True,
    ),
    Shape(
        "watch", "connection that watches a key", 1_000, lambda number: ("WATCH", f"key:{number}"), is_connected=True
    ),
)  # fmt: skip


def send(server: PeerServer, requests: list[Words]) -> None:
    """Send requests in pipelines, over one connection. Raises Refused."""
    batches = [
        RepliedBatch(requests[first : first + PIPELINE], may_fail=False) for first in range(0, len(requests), PIPELINE)
    ]
    prepared(server, len(requests), [batches])


def warm(server: PeerServer) -> None:
    """Make what a server makes once, so that it does not count."""
    send(server, [("SET", f"warm:{number}", "value") for number in range(WARM_COUNT)])
    send(server, [("XADD", "warm", "*", "f", "v")] * WARM_COUNT)
    send(server, [("FLUSHALL",)])


def settled(server: PeerServer) -> int:
    """Resident bytes after free memory was given back."""
    send(server, [("MEMORY", "PURGE")])
    return resident_size(server)


def measure(server: PeerServer, shape: Shape) -> Sample:
    """Bytes for each thing that is left."""
    numbers = range(server.scaled(shape.count))
    send(server, list(shape.once) or [("PING",)])
    if shape.before is not None:
        send(server, [shape.before(number) for number in numbers])
    before = settled(server)
    with ExitStack() as stack:
        if shape.is_connected:
            for number in numbers:
                stack.enter_context(server.connect()).call(*shape.make(number))
        else:
            send(server, [shape.make(number) for number in numbers])
        removed = [number for number in shape.removed if number in numbers]
        rest = list(shape.after)
        if shape.remove is not None:
            rest += map(shape.remove, removed)
        if rest:
            send(server, rest)
        return Sample((settled(server) - before) / (len(numbers) - len(removed)))


ROWS = tuple(
    Row(
        f"weight-{shape.name}",
        shape.title,
        "bytes",
        partial(measure, shape=shape),
        warm,
        target=1.0,
        runs=1,
        is_rate=False,
        is_usual=False,
        table=TABLE,
    )
    for shape in SHAPES
)
