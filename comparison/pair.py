"""The two servers, asked at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from .connection import Connection, ErrorReply, Request
from .errors import CannotCompare
from .pieces import Databases, Facts, Piece

T = TypeVar("T")

# How long to wait between two questions for an offset.
POLL_S: Final = 0.005
# Bytes of the requests of some samples, about.
SENT_SIZE_MAX: Final = 64 * 1024
INFO: Final[Request] = (b"INFO", b"replication")
# How the error begins with which servers refuse a command that they do not have.
UNKNOWN: Final = "ERR unknown command"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is in a replication stream, as INFO says it."""

    replid: str
    offset: int
    role: str
    # Of a replica: `up` or `down`.
    link: str | None

    @classmethod
    def parse(cls, text: bytes) -> Place:
        """The place in the section `replication` of INFO."""
        lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
        fields = {name: value for name, _, value in lines}
        return cls(
            fields.get("master_replid", ""),
            int(fields.get("master_repl_offset", "0")),
            fields.get("role", ""),
            fields.get("master_link_status"),
        )


class Side:
    """One of the servers, and the database that its connection has selected."""

    def __init__(self, connection: Connection, index: int) -> None:
        self.connection = connection
        self._index = index
        self._selected: int | None = None

    def send(self, databases: Databases, requests: Sequence[Request]) -> int:
        """Send requests for a database. Returns the number of replies that come before theirs."""
        wanted = databases[self._index]
        greeting: list[Request] = [] if wanted == self._selected else [(b"SELECT", b"%d" % wanted)]
        self._selected = wanted
        self.connection.send([*greeting, *requests])
        return len(greeting)

    def receive(self, greeting_count: int, count: int) -> list[Any]:
        """The replies to what was sent. Raises CannotCompare if the database cannot be selected."""
        replies = self.connection.receive(greeting_count + count)
        for reply in replies[:greeting_count]:
            self.connection.accepted((b"SELECT",), reply)
        return replies[greeting_count:]

    def place(self) -> Place:
        """Where the server is in its stream."""
        return Place.parse(self.connection.call(*INFO))


class Pair:
    """Both servers. `clock_s` and `pause` are replaced in tests."""

    def __init__(
        self,
        a: Connection,
        b: Connection,
        timeout_s: float,
        clock_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.a, self.b = Side(a, 0), Side(b, 1)
        self.sides = (self.a, self.b)
        self._timeout_s = timeout_s
        self.clock_s = clock_s
        self.pause = pause

    def ask(self, databases: Databases, requests: Sequence[Request]) -> tuple[list[Any], list[Any]]:
        """The replies of A and of B to the same requests."""
        return self._ask_each(databases, (requests, requests))

    def _ask_each(
        self, databases: Databases, requests: tuple[Sequence[Request], Sequence[Request]]
    ) -> tuple[list[Any], list[Any]]:
        """The replies of A and of B, each to its own requests."""
        greetings = [side.send(databases, each) for side, each in zip(self.sides, requests, strict=True)]
        a, b = (
            side.receive(greeting, len(each))
            for side, greeting, each in zip(self.sides, greetings, requests, strict=True)
        )
        return a, b

    def know(self, request: Request) -> bool:
        """Whether both servers know a command, whatever they reply to this request."""
        replies = self.ask((0, 0), [request])
        return not any(isinstance(each, ErrorReply) and str(each).startswith(UNKNOWN) for (each,) in replies)

    def look(self, pieces: Sequence[Piece]) -> Iterator[tuple[Facts, Facts]]:
        """The facts of pieces of one database on both servers; of a piece with a side, those of this one."""
        requests = [piece.requests() for piece in pieces]
        found = []
        asked = [
            [some if piece.side in (None, index) else [] for piece, some in zip(pieces, requests, strict=True)]
            for index in range(len(self.sides))
        ]
        flat_a, flat_b = ([each for some in parts for each in some] for parts in asked)
        replies = self._ask_each(pieces[0].databases, (flat_a, flat_b)) if flat_a or flat_b else ([], [])
        for parts, flat in zip(asked, replies, strict=True):
            rest = iter(flat)
            found.append([list(islice(rest, len(some))) for some in parts])
        for piece, some, a, b in zip(pieces, requests, *found, strict=True):
            yield piece.facts(a) if len(a) == len(some) else {}, piece.facts(b) if len(b) == len(some) else {}

    def facts_of(self, side: Side, piece: Piece) -> Facts:
        """The facts of a piece on one server."""
        requests = piece.requests()
        return piece.facts(side.receive(side.send(piece.databases, requests), len(requests)))

    def are_related(self) -> bool:
        """Whether both servers have the same replication stream, so that their offsets can be compared."""
        a, b = (side.place() for side in self.sides)
        return bool(a.replid) and a.replid == b.replid and "slave" in (a.role, b.role)

    def await_offset(self, side: Side, offset: int) -> int:
        """Wait until a server has the stream up to an offset. Returns its offset. Raises CannotCompare."""
        deadline_s = self.clock_s() + self._timeout_s
        while True:
            place = side.place()
            if place.offset >= offset:
                return place.offset
            if self.clock_s() > deadline_s:
                link = f" (master_link_status:{place.link})" if place.link else ""
                raise CannotCompare(
                    f"{side.connection.address} does not catch up: it is at offset {place.offset}, "
                    f"the other one was at {offset}{link}"
                )
            self.pause(POLL_S)

    def samples(self, piece: Piece, count: int) -> tuple[dict[int, Facts], dict[int, Facts]]:
        """The facts of a piece on both servers at some moments, by the offset at each of them."""
        requests = piece.requests()
        unit: list[Request] = [(b"MULTI",), INFO, *requests, (b"EXEC",)]
        # No more than a server reads before its replies are read.
        count = max(1, min(count, SENT_SIZE_MAX // sum(len(word) for request in unit for word in request)))
        a, b = self.ask(piece.databases, unit * count)
        return self._by_offset(piece, a, len(unit)), self._by_offset(piece, b, len(unit))

    @staticmethod
    def _by_offset(piece: Piece, replies: list[Any], size: int) -> dict[int, Facts]:
        found: dict[int, Facts] = {}
        for reply in replies[size - 1 :: size]:
            if isinstance(reply, ErrorReply) or reply is None or isinstance(reply[0], ErrorReply):
                raise CannotCompare(f"a transaction is refused: {reply}")
            found[Place.parse(reply[0]).offset] = piece.facts(reply[1:])
        return found
