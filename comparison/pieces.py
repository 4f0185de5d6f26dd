"""The pieces of a dataset that are compared, each small enough to be read at one moment.

A piece has the requests that read it, and makes facts of their replies: a dict from labels to values, which is equal on
both servers if they are. Facts of the first look lead to more pieces: the type of a key to its value, the groups of a
stream to their pending entries, a page to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from .connection import ErrorReply, Request
from .errors import CannotCompare

# Indexes of a database on A and on B; they differ only where addresses name different ones.
Databases = tuple[int, int]
Label = tuple[bytes, ...]
Facts = dict[Label, Any]

# Items of one page at most.
PAGE_COUNT_MAX: Final = 1000
# Bytes of the entries of one page, by the size of the first and the last entry, and of one part of a string.
PAGE_SIZE: Final = 256 * 1024
PART_SIZE: Final = 64 * 1024
# Requests of the time and of pending entries are not of the same millisecond.
TIME_TOLERANCE_MS: Final = 5

FIRST_ID: Final = b"-"
# Errors that mean: the key, the group or the value of this type is not there now.
ABSENT_CODES: Final = ("WRONGTYPE", "NOGROUP")
ABSENT_TEXTS: Final = ("ERR no such key",)


def id_order(entry_id: bytes) -> tuple[int, int]:
    """An entry ID as numbers, in the order of the stream; or an index of an array."""
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number or 0)


def is_absent(reply: Any) -> bool:
    """Whether the reply says that what was asked for is not there. Raises CannotCompare for other errors."""
    if not isinstance(reply, ErrorReply):
        return False
    if reply.code in ABSENT_CODES or str(reply) in ABSENT_TEXTS:
        return True
    raise CannotCompare(f"a request is refused: {reply}")


def pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    """A map of RESP2 as a dict."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def fitting_count(sample: Sequence[Sequence[bytes]]) -> int:
    """The number of entries for one page, by the fields of some of them."""
    return count_of_size(max((sum(map(len, fields)) for fields in sample), default=0))


def count_of_size(size: int) -> int:
    """The number of items for one page, if they have so many bytes."""
    return max(1, min(PAGE_SIZE // (size + 1), PAGE_COUNT_MAX))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one key."""

    databases: Databases
    key: bytes

    @property
    def weight(self) -> int:
        """About how many items a reply can have. Many large pieces are not read at once."""
        return 1

    @property
    def side(self) -> int | None:
        """The only server that is asked, 0 for A and 1 for B; None for both."""
        return None

    def requests(self) -> list[Request]:
        """What reads the piece."""
        raise NotImplementedError

    def facts(self, replies: Sequence[Any]) -> Facts:
        """The facts in the replies; none if the piece is not there. Raises CannotCompare."""
        raise NotImplementedError

    def differing(self, a: Facts, b: Facts) -> list[Label]:
        """The labels of facts that differ, or that only one server has."""
        if a == b:
            return []
        return [label for label in {**a, **b} if a.get(label) != b.get(label)]

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        """The pieces to look at next, by facts of the first look."""
        yield from ()

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        """The smallest piece that has these facts."""
        return self


@dataclass(frozen=True, slots=True)
class TextPiece(Piece):
    """A part of a string, with the length of the whole."""

    start: int = 0

    LENGTH: ClassVar[Label] = (b"length",)

    @property
    def weight(self) -> int:
        return PAGE_COUNT_MAX // 16

    def requests(self) -> list[Request]:
        first, last = b"%d" % self.start, b"%d" % (self.start + PART_SIZE - 1)
        return [(b"STRLEN", self.key), (b"GETRANGE", self.key, first, last)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        length, part = replies
        if is_absent(length) or is_absent(part):
            return {}
        return {self.LENGTH: length, (b"bytes", b"%d" % self.start): part}

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        after = self.start + PART_SIZE
        if min(a.get(self.LENGTH, 0), b.get(self.LENGTH, 0)) > after:
            yield replace(self, start=after)


@dataclass(frozen=True, slots=True)
class HeadPiece(Piece):
    """The counters and settings of a stream, and its groups."""

    # Sizes of memory, which depend on how a stream came to be; what other pieces have; what is not replicated; and what
    # each server forgets by its own clock, once a second.
    IGNORED: ClassVar = frozenset(
        {b"radix-tree-keys", b"radix-tree-nodes", b"first-entry", b"last-entry", b"iids-duplicates"}
        | {b"pids-tracked", b"iids-tracked"}
    )
    GROUP_FIELDS: ClassVar = (b"consumers", b"pending", b"last-delivered-id", b"entries-read")
    GROUP: ClassVar = b"group"
    # Not a fact, but the first and the last entry, by which the size of entries is estimated.
    SAMPLE: ClassVar[Label] = ()

    def requests(self) -> list[Request]:
        return [(b"XINFO", b"STREAM", self.key), (b"XINFO", b"GROUPS", self.key)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        stream, groups = replies
        if is_absent(stream) or is_absent(groups):
            return {}
        fields = pairs(stream)
        facts: Facts = {self.SAMPLE: (fields.get(b"first-entry"), fields.get(b"last-entry"))}
        facts.update({(name,): value for name, value in fields.items() if name not in self.IGNORED})
        for each in map(pairs, groups):
            for name in self.GROUP_FIELDS:
                facts[self.GROUP, each[b"name"], name] = each.get(name)
        return facts

    def differing(self, a: Facts, b: Facts) -> list[Label]:
        labels = Piece.differing(self, a, b)
        if a and b:
            # A field that only the newer server has is no difference.
            labels = [label for label in labels if len(label) == 3 or (label in a and label in b)]
        return [label for label in labels if label != self.SAMPLE]

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        if not (a and b):
            return
        last_id = max(a[(b"last-generated-id",)], b[(b"last-generated-id",)], key=id_order)
        if a[(b"length",)] or b[(b"length",)]:
            yield EntriesPiece(self.databases, self.key, last=last_id, count=self._page_count(a))
        for label, value in a.items():
            if label[:1] != (self.GROUP,) or label not in b:
                continue
            _, group, name = label
            if name == b"consumers" and (value or b[label]):
                yield ConsumersPiece(self.databases, self.key, group)
            elif name == b"pending" and (value or b[label]):
                count = min(max(value, b[label]) + 1, PAGE_COUNT_MAX)
                yield PendingPiece(self.databases, self.key, group, count=count)

    def _page_count(self, facts: Facts) -> int:
        """The number of entries that a page should have."""
        sample = [entry[1] for entry in facts[self.SAMPLE] if entry]
        return min(fitting_count(sample), int(facts[(b"length",)]) + 1)


@dataclass(frozen=True, slots=True)
class PagePiece(Piece):
    """A page of items in the order of their IDs: at most `count` from `first` to `last`.

    Both servers are asked the same. What follows the last item of a full page may be on the next page of the other
    server, so it is not compared here.
    """

    def horizon(self, facts: Facts) -> bytes | None:
        """The last ID of a full page; None if there are no more items."""
        return next(reversed(facts))[0] if len(facts) >= self.weight else None

    def common_horizon(self, a: Facts, b: Facts) -> bytes | None:
        """The ID up to which both pages reach; None if both have all items."""
        reached = [each for each in (self.horizon(a), self.horizon(b)) if each is not None]
        return min(reached, key=id_order) if reached else None

    def differing(self, a: Facts, b: Facts) -> list[Label]:
        labels = self.disagreeing(a, b)
        end = self.common_horizon(a, b) if labels else None
        if end is not None:
            labels = [label for label in labels if id_order(label[0]) <= id_order(end)]
        return sorted(labels, key=lambda label: id_order(label[0]))

    def disagreeing(self, a: Facts, b: Facts) -> list[Label]:
        """The labels of items that differ on these two pages."""
        return Piece.differing(self, a, b)


@dataclass(frozen=True, slots=True)
class EntriesPiece(PagePiece):
    """Entries of a stream: ID to fields."""

    first: bytes = FIRST_ID
    last: bytes = b"+"
    count: int = PAGE_COUNT_MAX

    # How many entries of a page show the size of those of the next one.
    SAMPLE_COUNT: ClassVar = 8

    @property
    def weight(self) -> int:
        return self.count

    def requests(self) -> list[Request]:
        return [(b"XRANGE", self.key, self.first, self.last, b"COUNT", b"%d" % self.count)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        if is_absent(replies[0]):
            return {}
        return {(entry_id,): fields for entry_id, fields in replies[0]}

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        end = self.common_horizon(a, b)
        if end is not None:
            step = len(a) // self.SAMPLE_COUNT + 1
            sample = list(a.values())[::step] or list(b.values())[:1]
            yield replace(self, first=b"(" + end, count=fitting_count(sample))

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        return replace(self, first=labels[0][0], last=labels[-1][0], count=2 * self.count + 1)


@dataclass(frozen=True, slots=True)
class PendingPiece(PagePiece):
    """Pending entries of a group: ID to (owner, Unix time of the delivery in ms, delivery count).

    A released entry has no owner (`b""`) and no time (None).
    """

    group: bytes
    first: bytes = FIRST_ID
    last: bytes = b"+"
    count: int = PAGE_COUNT_MAX

    @property
    def weight(self) -> int:
        return self.count

    def requests(self) -> list[Request]:
        return [(b"TIME",), (b"XPENDING", self.key, self.group, self.first, self.last, b"%d" % self.count)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        time, pending = replies
        is_absent(time)
        if is_absent(pending):
            return {}
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        return {
            (entry_id,): (owner, None if idle_ms < 0 else now_ms - idle_ms, count)
            for entry_id, owner, idle_ms, count in pending
        }

    def disagreeing(self, a: Facts, b: Facts) -> list[Label]:
        labels = Piece.differing(self, a, b)
        return [label for label in labels if not _are_alike(a.get(label), b.get(label))]

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        end = self.common_horizon(a, b)
        if end is not None:
            yield replace(self, first=b"(" + end, count=PAGE_COUNT_MAX)

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        return replace(self, first=labels[0][0], last=labels[-1][0], count=2 * self.count + 1)


def _are_alike(a: Any, b: Any) -> bool:
    """Whether two pending entries are the same but for the precision of their times."""
    if a is None or b is None or a[0] != b[0] or a[2] != b[2] or (a[1] is None) is not (b[1] is None):
        return False
    return a[1] is None or abs(a[1] - b[1]) <= TIME_TOLERANCE_MS


@dataclass(frozen=True, slots=True)
class ConsumersPiece(Piece):
    """The consumers of a group: name to number of pending entries."""

    group: bytes

    def requests(self) -> list[Request]:
        return [(b"XINFO", b"CONSUMERS", self.key, self.group)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        if is_absent(replies[0]):
            return {}
        return {(each[b"name"],): each[b"pending"] for each in map(pairs, replies[0])}
