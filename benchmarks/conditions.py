"""Rows about conditions that production has: restricted users, transactions, observers, listeners.

Each condition is measured with the same three commands as without it, fifteen at a time, so that its price shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.load import CountedBatch, Words, prepared, read_in_background
from benchmarks.peers import UNIX_SOCKET, PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask, entry_id, fill_numbered

from support.wire import Wire, encode

TABLE: Final = "conditions"
KEY: Final = "jobs"
ADDED: Final = "jobs:added"
OTHER_DATABASE: Final = 9
DELIVERED_AT_ONCE: Final = 1_000
CALL_SCRIPT: Final = "return redis.call(unpack(ARGV))"
PIPELINE: Final = 15
LANES: Final = 10
REQUESTS: Final = 48_000
FIELDS: Final = ("sensor", "sensor-000000000042", "kind", "temperature", "value", "000000000017")


@dataclass(frozen=True)
class Framed:
    """Requests that are sent in one piece, and the number of lines of their replies."""

    words: list[Words]
    lines: int


# Takes the requests, and the number of lines of each one's reply.
Framing = Callable[[list[Words], int], Framed]


def in_transactions(requests: list[Words], lines: int, *, size: int, watching: tuple[Words, ...] = ()) -> Framed:
    """So many requests in each transaction, and the requests of `watching` before it."""
    words: list[Words] = []
    count = len(requests) * lines
    for first in range(0, len(requests), size):
        part = requests[first : first + size]
        words += [*watching, ("MULTI",), *part, ("EXEC",)]
        count += len(watching) + len(part) + 2  # OK, QUEUED, and the line of the array
    return Framed(words, count)


def without_replies(requests: list[Words], lines: int) -> Framed:
    """CLIENT REPLY OFF, the requests, and CLIENT REPLY ON, which is answered."""
    return Framed([("CLIENT", "REPLY", "OFF"), *requests, ("CLIENT", "REPLY", "ON")], 1)


def skipping_replies(requests: list[Words], lines: int) -> Framed:
    """CLIENT REPLY SKIP before each request but the last."""
    words = [word for request in requests[:-1] for word in (("CLIENT", "REPLY", "SKIP"), request)]
    return Framed([*words, requests[-1]], lines)


def confirmed(requests: list[Words], lines: int) -> Framed:
    """WAITAOF after the requests, which only asks how much is on disk."""
    return Framed([*requests, ("WAITAOF", 0, 0, 0)], len(requests) * lines + 3)


def in_scripts(requests: list[Words], lines: int) -> Framed:
    """Each request is made by a script."""
    return Framed([("EVAL", CALL_SCRIPT, 0, *request) for request in requests], len(requests) * lines)


@dataclass(frozen=True)
class Condition:
    """What is otherwise than usual: for the server, for the clients that are measured, or for others."""

    name: str
    title: str
    # Sent once, and sent again to undo it.
    setting: tuple[Words, ...] = ()
    undoing: tuple[Words, ...] = ()
    # Sent by each client that is measured, before the clock starts.
    opening: tuple[Words, ...] = ()
    # Requests of clients of their own, which stay connected: one tuple each.
    others: tuple[tuple[Words, ...], ...] = ()
    # What the measured clients send for requests that go out in one piece.
    framing: Framing = lambda requests, lines: Framed(requests, len(requests) * lines)
    is_resp3: bool = False
    # Whether the measured clients connect through the Unix socket.
    is_unix: bool = False
    database: int = 0
    # A directive, its value while the condition lasts, and its usual one.
    directive: tuple[str, str, str] | None = None


def _user(*rules: str) -> tuple[Words, ...]:
    return (("ACL", "SETUSER", "worker", "reset", "on", "nopass", *rules),)


AS_WORKER: Final = (("AUTH", "worker", "any"),)
NO_USER: Final = (("ACL", "DELUSER", "worker"),)
BLOCKED: Final = ("XREAD", "BLOCK", 0, "STREAMS", "elsewhere", "$")

CONDITIONS: Final = (
    Condition("plain", "no condition"),
    Condition(
        "open-user", "a user with ~* +@all, but no channels", _user("~*", "+@all", "resetchannels"), NO_USER, AS_WORKER
    ),
    Condition(
        "worker-user",
        "a user of some keys and commands",
        _user("~jobs*", "~dead*", "+@stream", "+ping", "+client|setinfo", "-@dangerous"),
        NO_USER,
        AS_WORKER,
    ),
    Condition(
        "selector-user",
        "a user with selectors",
        _user("~other*", "+@read", "(~jobs* +@stream)", "(~dead* +xadd)"),
        NO_USER,
        AS_WORKER,
    ),
    Condition("transaction", "MULTI, three commands, EXEC", framing=partial(in_transactions, size=3)),
    Condition(
        "watched-transaction",
        "WATCH, MULTI, three commands, EXEC",
        framing=partial(in_transactions, size=3, watching=(("WATCH", "other"),)),
    ),
    Condition("reply-off", "CLIENT REPLY OFF", framing=without_replies),
    Condition("reply-skip", "CLIENT REPLY SKIP for all but the last", framing=skipping_replies),
    Condition("waitaof", "WAITAOF after fifteen commands", framing=confirmed),
    Condition("script", "called by a script", framing=in_scripts),
    Condition("unix-socket", "through the Unix socket", is_unix=True),
    Condition("slow-log", "slowlog-log-slower-than 0", directive=("slowlog-log-slower-than", "0", "10000")),
    Condition("latency-monitor", "latency-monitor-threshold 1", directive=("latency-monitor-threshold", "1", "0")),
    Condition("monitor", "another client in MONITOR", others=((("MONITOR",),),)),
    Condition("events", "keyspace events, no listener", directive=("notify-keyspace-events", "KEA", "")),
    Condition(
        "heard-events",
        "keyspace events, one listener",
        directive=("notify-keyspace-events", "KEA", ""),
        others=((("PSUBSCRIBE", "__key*__:*"),),),
    ),
    Condition(
        "broadcast",
        "another client tracks by BCAST",
        others=((("HELLO", 3), ("CLIENT", "TRACKING", "ON", "BCAST")),),
    ),
    Condition("blocked-elsewhere", "a reader blocked on another key", others=((BLOCKED,),)),
    Condition("watched-key", "ten clients watch the key", others=((("WATCH", KEY, ADDED),),) * 10),
    Condition("resp3", "RESP3", opening=(("HELLO", 3),), is_resp3=True),
    Condition("no-touch", "CLIENT NO-TOUCH", opening=(("CLIENT", "NO-TOUCH", "ON"),)),
    Condition("database", "database 9", database=OTHER_DATABASE),
    Condition("memory-limit", "maxmemory far away", directive=("maxmemory", "8gb", "0")),
)


@dataclass(frozen=True)
class Command:
    """A command with which conditions are measured: its request of a number, and the lines of each reply."""

    name: str
    request: Callable[[int], Words]
    reply_lines: int
    resp3_reply_lines: int


# An entry is an array of two: its ID, and an array of its six words; each string has a line for its size.
ENTRY_LINES: Final = 1 + 2 + 1 + 2 * len(FIELDS)
# The arrays around it, and the key; in RESP3 a map has one array fewer.
RESP3_READ_LINES: Final = 1 + 2 + 1 + ENTRY_LINES
COMMANDS: Final = (
    Command("xadd", lambda number: ("XADD", ADDED, "*", *FIELDS), 2, 2),
    Command(
        "xreadgroup",
        lambda number: ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", KEY, ">"),
        RESP3_READ_LINES + 1,
        RESP3_READ_LINES,
    ),
    Command("xack", lambda number: ("XACK", KEY, "g", entry_id(number)), 1, 1),
)


def fill(server: PeerServer) -> None:
    """The stream, in both databases that conditions use."""
    fill_numbered(server, KEY, server.scaled(REQUESTS))
    with server.connect() as wire:
        ask(wire, "COPY", KEY, KEY, "DB", OTHER_DATABASE)


def measure(server: PeerServer, condition: Condition, command: Command) -> Sample:
    """The command under the condition."""
    requests = server.scaled(REQUESTS)
    with _holding(server, condition, command, requests):
        opening = (("SELECT", condition.database), *condition.opening)
        path = server.folder / UNIX_SOCKET if condition.is_unix else None
        return prepared(server, requests, _lanes(condition, command, requests), opening, path)


def _lanes(condition: Condition, command: Command, requests: int) -> list[list[CountedBatch]]:
    lines = command.resp3_reply_lines if condition.is_resp3 else command.reply_lines
    batches = [
        _batch(condition, [command.request(number) for number in range(first, min(first + PIPELINE, requests))], lines)
        for first in range(0, requests, PIPELINE)
    ]
    return [batches[lane::LANES] for lane in range(LANES)]


def _batch(condition: Condition, requests: list[Words], lines: int) -> CountedBatch:
    """The requests sent in one piece."""
    framed = condition.framing(requests, lines)
    return CountedBatch(b"".join(map(encode, framed.words)), framed.lines)


@contextmanager
def _holding(server: PeerServer, condition: Condition, command: Command, requests: int) -> Iterator[None]:
    """The state before the measurement, and the condition while it lasts."""
    with ExitStack() as stack:
        wire = stack.enter_context(server.connect())
        ask(wire, "SELECT", condition.database)
        wire.call("XGROUP", "DESTROY", KEY, "g")
        ask(wire, "XGROUP", "CREATE", KEY, "g", "0")
        ask(wire, "DEL", ADDED)
        if command.name == "xack":
            for _ in range(0, requests, DELIVERED_AT_ONCE):
                ask(wire, "XREADGROUP", "GROUP", "g", "c", "COUNT", DELIVERED_AT_ONCE, "STREAMS", KEY, ">")
        for words in condition.setting:
            ask(wire, *words)
        if condition.directive is not None:
            name, value, usual = condition.directive
            ask(wire, "CONFIG", "SET", name, value)
        for client in condition.others:
            _begin_reading(stack.enter_context(server.connect()), client)
        yield
        for words in condition.undoing:
            ask(wire, *words)
        if condition.directive is not None:
            ask(wire, "CONFIG", "SET", name, usual)


def _begin_reading(wire: Wire, requests: tuple[Words, ...]) -> None:
    """Send the requests, and take what comes until the server closes the connection or `wire` is closed."""
    for words in requests:
        wire.send(*words)
    read_in_background(wire.socket)


def row_name(condition: Condition, command: Command) -> str:
    """The name of the row of this command under this condition."""
    return f"condition-{condition.name}-{command.name}"


ROWS = tuple(
    Row(
        row_name(condition, command),
        f"{command.name.upper()}, {condition.title}",
        "requests/s",
        partial(measure, condition=condition, command=command),
        fill,
        target=0.9,
        runs=3,
        is_usual=False,
        is_on_one_processor=True,
        table=TABLE,
    )
    for condition in CONDITIONS
    for command in COMMANDS
)
