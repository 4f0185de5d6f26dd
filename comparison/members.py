"""The pieces of lists, sets, sorted sets and hashes, each a page of what the value has.

Lists and sorted sets have an order, so both servers are asked for the same places. Sets and hashes have none that
servers share: one server is walked with SSCAN or HSCAN, and both are asked for what was found there. If one of them has
something else or another number, the other server is walked too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from .connection import Request
from .pieces import Facts, Label, Piece, count_of_size, fitting_count, is_absent, pairs

# Items of the first page of a value, which shows how large they are, and the weight of such a page.
FIRST_COUNT: Final = 2
FIRST_WEIGHT: Final = 250
# Bytes of names in a request that weigh as much as an item. A batch of requests is short, since a server may read no
# more of them until its replies are read.
SIZE_PER_WEIGHT: Final = 16


@dataclass(frozen=True, slots=True)
class PlacesPiece(Piece):
    """Items of a value that has an order, by their place from 0 on: `count` of them from `start` on."""

    start: int = 0
    count: int = FIRST_COUNT

    NOUN: ClassVar = b""

    @property
    def weight(self) -> int:
        return self.count if self.start else FIRST_WEIGHT

    def facts(self, replies: Sequence[Any]) -> Facts:
        if is_absent(replies[0]):
            return {}
        return {(self.NOUN, b"%d" % (self.start + at)): item for at, item in enumerate(self.items(replies[0]))}

    def items(self, reply: Any) -> list[Any]:
        """The items of a page."""
        raise NotImplementedError

    def size_words(self, item: Any) -> Sequence[bytes]:
        """The words of an item, which have its size."""
        raise NotImplementedError

    def range_words(self) -> Request:
        """The first and the last place, as words."""
        return b"%d" % self.start, b"%d" % (self.start + self.count - 1)

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        longer = max(a, b, key=len)
        if len(longer) >= self.count:
            count = fitting_count([self.size_words(each) for each in longer.values()])
            yield replace(self, start=self.start + self.count, count=count)

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        first, last = int(labels[0][1]), int(labels[-1][1])
        return replace(self, start=first, count=last - first + 1)


@dataclass(frozen=True, slots=True)
class ElementsPiece(PlacesPiece):
    """Elements of a list."""

    NOUN: ClassVar = b"element"

    def requests(self) -> list[Request]:
        return [(b"LRANGE", self.key, *self.range_words())]

    def items(self, reply: Any) -> list[Any]:
        return list(reply)

    def size_words(self, item: Any) -> Sequence[bytes]:
        return [item]


@dataclass(frozen=True, slots=True)
class RanksPiece(PlacesPiece):
    """Members of a sorted set by rank: (member, score). Members with one score have the same order on all servers."""

    NOUN: ClassVar = b"rank"

    def requests(self) -> list[Request]:
        return [(b"ZRANGE", self.key, *self.range_words(), b"WITHSCORES")]

    def items(self, reply: Any) -> list[Any]:
        # As numbers: a Redis 7 prints more digits.
        return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True)]

    def size_words(self, item: Any) -> Sequence[bytes]:
        return [item[0]]


@dataclass(frozen=True, slots=True)
class WalkPiece(Piece):
    """A step of the walk over a set or a hash on one server, 0 for A and 1 for B. It never differs."""

    walked: int = 0
    cursor: bytes = b"0"
    count: int = FIRST_COUNT
    # Whether the servers are known to have different members.
    is_parted: bool = False

    COMMAND: ClassVar = b""
    CURSOR: ClassVar[Label] = (b"cursor",)
    FOUND: ClassVar[Label] = (b"found",)

    @property
    def side(self) -> int | None:
        return self.walked

    @property
    def weight(self) -> int:
        return FIRST_WEIGHT if self.cursor == b"0" else self.count

    def requests(self) -> list[Request]:
        return [(self.COMMAND, self.key, self.cursor, b"COUNT", b"%d" % self.count)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        if is_absent(replies[0]):
            return {}
        cursor, found = replies[0]
        return {self.CURSOR: cursor, self.FOUND: self.sizes_of(found)}

    def sizes_of(self, found: Sequence[bytes]) -> dict[bytes, int]:
        """The members of a step, each with the bytes that it takes."""
        raise NotImplementedError

    def members(self, names: tuple[bytes, ...], after: WalkPiece, rest: tuple[bytes, ...]) -> MembersPiece:
        """The piece that reads these members on both servers, before the rest of the step and the step after it."""
        raise NotImplementedError

    def differing(self, a: Facts, b: Facts) -> list[Label]:
        return []

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        facts = (a, b)[self.walked]
        if not facts:
            return
        sizes = facts[self.FOUND]
        if sizes:
            count = count_of_size(max(sizes.values()))
            after = replace(self, cursor=facts[self.CURSOR], count=count)
            names = tuple(sizes)
            # Of a small table, a server may return more than it is asked for.
            yield self.members(names[:count], after, names[count:])
        else:
            yield from replace(self, cursor=facts[self.CURSOR]).resumed(is_parted=self.is_parted)

    def resumed(self, *, is_parted: bool) -> Iterator[WalkPiece]:
        """The next step: on this server, or, if the servers have different members, the first one on B after A."""
        if self.cursor != b"0":
            yield replace(self, is_parted=is_parted)
        elif is_parted and not self.walked:
            yield replace(self, walked=1, count=FIRST_COUNT, is_parted=False)


@dataclass(frozen=True, slots=True)
class SetWalkPiece(WalkPiece):
    """A step of the walk over a set."""

    COMMAND: ClassVar = b"SSCAN"

    def sizes_of(self, found: Sequence[bytes]) -> dict[bytes, int]:
        return {member: len(member) for member in found}

    def members(self, names: tuple[bytes, ...], after: WalkPiece, rest: tuple[bytes, ...]) -> MembersPiece:
        return MembersPiece(self.databases, self.key, names, after, rest)


@dataclass(frozen=True, slots=True)
class HashWalkPiece(WalkPiece):
    """A step of the walk over a hash."""

    # Whether both servers know expiry times of fields; a Redis before 7.4 does not.
    has_times: bool = True

    COMMAND: ClassVar = b"HSCAN"

    def sizes_of(self, found: Sequence[bytes]) -> dict[bytes, int]:
        return {name: len(name) + len(value) for name, value in pairs(found).items()}

    def members(self, names: tuple[bytes, ...], after: WalkPiece, rest: tuple[bytes, ...]) -> MembersPiece:
        return FieldsPiece(self.databases, self.key, names, after, rest, self.has_times)


@dataclass(frozen=True, slots=True)
class MembersPiece(Piece):
    """Some members of a set: those that are there. The number of all is no fact that differs, but ends the walk."""

    names: tuple[bytes, ...]
    # How the walk continues that has found these members, and what else it has found in this step.
    after: WalkPiece | None = None
    rest: tuple[bytes, ...] = ()

    NOUN: ClassVar = b"member"
    LENGTH: ClassVar[Label] = (b"length",)

    @property
    def weight(self) -> int:
        return max(len(self.names), sum(map(len, self.names)) // SIZE_PER_WEIGHT)

    def requests(self) -> list[Request]:
        return [(b"SCARD", self.key), (b"SMISMEMBER", self.key, *self.names)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        length, found = replies
        if is_absent(length) or is_absent(found):
            return {}
        facts: Facts = {self.LENGTH: length}
        facts.update({(self.NOUN, name): True for name, is_there in zip(self.names, found, strict=True) if is_there})
        return facts

    def differing(self, a: Facts, b: Facts) -> list[Label]:
        return [label for label in Piece.differing(self, a, b) if label != self.LENGTH]

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        if self.after is not None:
            is_parted = self.after.is_parted or a.keys() != b.keys() or a.get(self.LENGTH) != b.get(self.LENGTH)
            if self.rest:
                after, count = replace(self.after, is_parted=is_parted), self.after.count
                yield replace(self, names=self.rest[:count], after=after, rest=self.rest[count:])
            else:
                yield from self.after.resumed(is_parted=is_parted)

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        return replace(self, names=tuple(dict.fromkeys(label[1] for label in labels)), after=None, rest=())


@dataclass(frozen=True, slots=True)
class FieldsPiece(MembersPiece):
    """Some fields of a hash: value, and expiry time in Unix ms if both servers know such."""

    has_times: bool = True

    NOUN: ClassVar = b"field"
    EXPIRES: ClassVar = b"expires"

    def requests(self) -> list[Request]:
        length, values = (b"HLEN", self.key), (b"HMGET", self.key, *self.names)
        if not self.has_times:
            return [length, values]
        # What has the longest reply comes last: nothing is to be sent after it.
        return [length, (b"HPEXPIRETIME", self.key, b"FIELDS", b"%d" % len(self.names), *self.names), values]

    def facts(self, replies: Sequence[Any]) -> Facts:
        absent = [is_absent(each) for each in replies]
        if any(absent):
            return {}
        length, *times, values = replies
        facts: Facts = {self.LENGTH: length}
        for at, (name, value) in enumerate(zip(self.names, values, strict=True)):
            if value is None:
                continue
            facts[self.NOUN, name] = value
            if times:
                # A Redis that has lost the key in between replies with nothing.
                time_ms = times[0][at] if times[0] else -1
                facts[self.EXPIRES, name] = None if time_ms < 0 else time_ms
        return facts
