"""The first look: at all keys of both servers, page by page, and from each key to the pieces of its value."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .arrays import SlotsPiece
from .connection import Request
from .keys import ForeignPiece, KeyPiece
from .members import PlacesPiece, WalkPiece
from .pair import Pair, Side
from .pieces import Databases, EntriesPiece, Facts, PendingPiece, Piece

# Keys that one SCAN returns, about.
SCAN_COUNT: Final = 500
# Pieces, and items in them, that are asked for at once.
BATCH_COUNT_MAX: Final = 128
BATCH_WEIGHT_MAX: Final = 4000
# Is refused by servers without expiry times of fields, and else has some reply.
FIELD_TIMES: Final[Request] = (b"HPEXPIRETIME", b"", b"FIELDS", b"1", b"")


@dataclass(slots=True)
class Counts:
    """What has been looked at."""

    keys: int = 0
    keys_total: int = 0
    entries: int = 0
    pending: int = 0
    # Of lists, sets, sorted sets and hashes.
    elements: int = 0
    databases: set[Databases] = field(default_factory=set)


class Survey:
    """Finds the pieces that differ at the first look. `matching` is a pattern of keys, or None."""

    def __init__(self, pair: Pair, matching: bytes | None, progressed: Callable[[], None]) -> None:
        self._pair = pair
        self._matching = matching
        self._progressed = progressed
        self.counts = Counts()
        # Keys whose values cannot be compared.
        self.foreign: list[ForeignPiece] = []
        self.foreign_count = 0

    def databases(self) -> list[Databases]:
        """The databases that have keys on a server."""
        found: set[int] = set()
        for side in self._pair.sides:
            text = side.connection.call(b"INFO", b"keyspace").decode("utf-8", "replace")
            names = (line.partition(":")[0] for line in text.splitlines())
            found.update(int(name[2:]) for name in names if name.startswith("db") and name[2:].isdecimal())
        return [(index, index) for index in sorted(found)]

    def run(self, databases: Sequence[Databases]) -> Iterator[Piece]:
        """Look at all keys of some databases. Yields the pieces that differ, narrowed to what differs."""
        for each in databases:
            sizes = self._pair.ask(each, [(b"DBSIZE",)])
            self.counts.keys_total += max(int(sizes[0][0]), int(sizes[1][0]))
        has_field_times = self._pair.know(FIELD_TIMES)
        for each in databases:
            self.counts.databases.add(each)
            for keys in self._scan(self._pair.a, each):
                yield from self._look(KeyPiece(each, key, has_field_times=has_field_times) for key in keys)
            # All keys that A has were looked at; what is new now is on B alone.
            for keys in self._scan(self._pair.b, each):
                yield from self._look(self._missing(self._pair.a, each, keys))

    def _scan(self, side: Side, databases: Databases) -> Iterator[list[bytes]]:
        """The keys of a database in pages, each key at least once."""
        cursor = b"0"
        words: Request = () if self._matching is None else (b"MATCH", self._matching)
        while True:
            request = (b"SCAN", cursor, *words, b"COUNT", b"%d" % SCAN_COUNT)
            (reply,) = side.receive(side.send(databases, [request]), 1)
            cursor, keys = side.connection.accepted(request, reply)
            if keys:
                yield list(dict.fromkeys(keys))
            if cursor == b"0":
                return

    def _missing(self, side: Side, databases: Databases, keys: list[bytes]) -> Iterator[KeyPiece]:
        """Those of the keys that a server does not have."""
        requests: list[Request] = [(b"TYPE", key) for key in keys]
        kinds = side.receive(side.send(databases, requests), len(requests))
        for key, kind in zip(keys, kinds, strict=True):
            if side.connection.accepted((b"TYPE",), kind) == b"none":
                yield KeyPiece(databases, key, is_deep=False)

    def _look(self, pieces: Iterator[KeyPiece]) -> Iterator[Piece]:
        """Look at keys, and at all pieces of their values."""
        waiting: deque[Piece] = deque(pieces)
        while waiting:
            # Pieces of values first, so that few of them wait.
            batch = self._batch(waiting)
            for piece, (a, b) in zip(batch, self._pair.look(batch), strict=True):
                labels = piece.differing(a, b)
                if labels:
                    yield piece.narrowed(labels)
                for following in piece.following(a, b):
                    self._add(following, waiting)
                self._count(piece, a)
            self._progressed()

    def _add(self, piece: Piece, waiting: deque[Piece]) -> None:
        if isinstance(piece, ForeignPiece):
            self.foreign_count += 1
            if len(self.foreign) < BATCH_COUNT_MAX:
                self.foreign.append(piece)
        else:
            waiting.appendleft(piece)

    @staticmethod
    def _batch(waiting: deque[Piece]) -> list[Piece]:
        batch = [waiting.popleft()]
        weight = batch[0].weight
        while waiting and len(batch) < BATCH_COUNT_MAX and weight + waiting[0].weight <= BATCH_WEIGHT_MAX:
            batch.append(waiting.popleft())
            weight += batch[-1].weight
        return batch

    def _count(self, piece: Piece, facts: Facts) -> None:
        if isinstance(piece, KeyPiece):
            self.counts.keys += bool(facts)
        elif isinstance(piece, EntriesPiece):
            self.counts.entries += len(facts)
        elif isinstance(piece, PendingPiece):
            self.counts.pending += len(facts)
        elif isinstance(piece, PlacesPiece | SlotsPiece):
            self.counts.elements += len(facts)
        elif isinstance(piece, WalkPiece) and piece.side == 0:
            self.counts.elements += len(facts.get(WalkPiece.FOUND, ()))
