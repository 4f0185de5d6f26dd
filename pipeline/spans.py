"""Where reading starts and ends: arithmetic on entry IDs and on what the server says of a stream. No I/O.

A position is the last ID taken (0 for none) and `n`, how many entries were ever added up to it, -1 where that is not
known. `n` is what consumer groups call entries-read: it makes lag a subtraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..store.ids import StreamID, format_id, id_after, id_before, parse_id

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a stream: entries with IDs from `first` to `last`, both included."""

    stream: str
    first: StreamID
    last: StreamID

    @property
    def is_empty(self) -> bool:
        """Whether no ID is in it."""
        return self.first > self.last


@dataclass(frozen=True, slots=True)
class StreamState:
    """What XINFO STREAM says; all zero for a key that is not there."""

    length: int = 0
    last_id: StreamID = 0
    first_id: StreamID = 0
    """ID of the first entry there is, 0 if there is none."""
    max_deleted_id: StreamID = 0
    entries_added: int = 0

    @classmethod
    def from_reply(cls, reply: Sequence[Any]) -> StreamState:
        """From the reply as flat pairs (RESP2)."""
        known = dict(zip(reply[::2], reply[1::2], strict=True))
        first = known.get(b"first-entry")
        return cls(
            known[b"length"],
            parse_id(known[b"last-generated-id"]),
            parse_id(first[0]) if first else 0,
            parse_id(known[b"max-deleted-entry-id"]),
            known[b"entries-added"],
        )

    @property
    def removed(self) -> int:
        """How many entries it has lost, trimmed or deleted."""
        return self.entries_added - self.length

    @property
    def end(self) -> Position:
        """After everything there is."""
        return Position(self.last_id, self.entries_added, deleted=self.max_deleted_id)

    @property
    def beginning(self) -> Position:
        """Before the first entry there is."""
        if not self.length:
            return self.end
        # Entries deleted from the middle are counted as added and are not there, so the count is exact only without.
        is_exact = self.max_deleted_id < self.first_id
        n = self.entries_added - self.length if is_exact else UNKNOWN
        return Position(id_before(self.first_id), n, deleted=self.max_deleted_id).before(self.first_id)


@dataclass(frozen=True, slots=True)
class Position:
    """The last ID taken, and the number of entries added up to it.

    `cuts` are IDs between the position before and this one that split the entries evenly: they are kept with it, so
    that a repeated batch has the same partitions. `deleted` is the greatest ID that had been deleted by then.
    `since` is there where the position before does not say where its entries begin: in a stream that was made anew.
    `following` is the first entry after it, where `n` is not known: that it is gone tells that entries were lost.
    """

    last: StreamID
    n: int = UNKNOWN
    cuts: tuple[StreamID, ...] = ()
    deleted: StreamID = 0
    since: StreamID | None = None
    following: StreamID = 0

    def before(self, following: StreamID) -> Position:
        """The same, knowing which entry follows it. Where `n` is known that is told by the count."""
        return replace(self, following=following) if self.n == UNKNOWN else self

    def to_json(self, *, with_cuts: bool = True) -> dict[str, Any]:
        """For Spark's checkpoint."""
        found: dict[str, Any] = {"id": format_id(self.last).decode(), "n": self.n}
        if self.cuts and with_cuts:
            found["cuts"] = [format_id(cut).decode() for cut in self.cuts]
        if self.deleted:
            found["deleted"] = format_id(self.deleted).decode()
        if self.since is not None:
            found["since"] = format_id(self.since).decode()
        if self.following:
            found["following"] = format_id(self.following).decode()
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Position:
        """From Spark's checkpoint."""
        cuts = tuple(parse_id(cut.encode()) for cut in found.get("cuts", ()))
        deleted = parse_id(found.get("deleted", "0-0").encode())
        since = parse_id(found["since"].encode()) if "since" in found else None
        following = parse_id(found.get("following", "0-0").encode())
        return cls(parse_id(found["id"].encode()), int(found.get("n", UNKNOWN)), cuts, deleted, since, following)


Offsets = dict[str, Position]
"""By key."""


def offsets_to_json(offsets: Offsets, *, with_cuts: bool = True) -> dict[str, Any]:
    """As Spark keeps it."""
    return {key: position.to_json(with_cuts=with_cuts) for key, position in sorted(offsets.items())}


def offsets_from_json(found: Mapping[str, Any]) -> Offsets:
    """As Spark gives it back."""
    return {key: Position.from_json(position) for key, position in found.items()}


@dataclass(frozen=True, slots=True)
class Expected:
    """What was known of a span when it was planned: it tells whether entries went before they were read."""

    count: int | None = None
    """Entries in it, None where that is not known."""
    removed: int | None = None
    """Entries that the stream had lost by then, trimmed or deleted."""


def expected_between(start: Position | None, end: Position, parts: int, removed: int | None = None) -> list[Expected]:
    """What to expect of the parts between two positions: even counts, where it is known that nothing was deleted, or
    else that the stream loses no more than the `removed` entries it has lost by now.
    """
    is_counted = start is not None and UNKNOWN not in (start.n, end.n) and end.deleted <= start.last
    if not is_counted or end.since is not None or len(end.cuts) + 1 != parts:
        return [Expected(None, removed)] * parts
    assert start is not None
    return [Expected(count) for count in even_steps(end.n - start.n, parts)]


def find_unread(span: Span, expected: Expected, read: int, state: StreamState) -> str:
    """Which entries of a span went before they were read, judged by what the stream is now; empty if none."""
    between = f"entries from {format_id(span.first).decode()} to {format_id(span.last).decode()}"
    is_trimmed = not state.first_id or state.first_id > span.first
    if expected.count is not None:
        missing = expected.count - read
        if missing > 0 and (is_trimmed or state.max_deleted_id >= span.first):
            return f"{missing} of {expected.count} {between} were trimmed or deleted before they were read"
    elif expected.removed is not None:
        removed = state.removed - expected.removed
        if state.last_id < span.last:
            return f"it was deleted while {between} were read"
        if removed > 0 and is_trimmed:
            return f"{between}: up to {removed} may have been trimmed before they were read"
    return ""


def spans_between(
    start: Offsets, end: Offsets, found_states: Mapping[str, StreamState] | None = None
) -> list[tuple[Span, Expected]]:
    """What a batch reads: of each stream what is beyond `start` up to `end`, cut as `end` says. The states of its
    streams tell what they had lost by now.
    """
    found: list[tuple[Span, Expected]] = []
    for key, position in sorted(end.items()):
        before = start.get(key)
        if position == before:
            continue
        after = 0
        if position.since is not None:
            after = position.since
        elif before is not None:  # what is between a position and the entry after it cannot be lost
            after = id_before(before.following) if before.following else before.last
        spans = split(key, after, position.last, position.cuts)
        removed = found_states[key].removed if found_states and key in found_states else None
        found += zip(spans, expected_between(before, position, len(spans), removed), strict=True)
    return found


def even_steps(count: int, parts: int) -> list[int]:
    """`count` in so many steps that differ by one at most."""
    parts = max(1, min(parts, count))
    return [count // parts + (index < count % parts) for index in range(parts)]


def split(stream: str, after: StreamID, through: StreamID, cuts: Iterable[StreamID]) -> list[Span]:
    """The span (after, through] in pieces that end with the cuts; none is empty."""
    spans = []
    start = after
    for cut in sorted({cut for cut in cuts if after < cut < through} | {through}):
        if cut > start:
            spans.append(Span(stream, id_after(start), cut))
            start = cut
    return spans


def choose_cuts(count: int, parts: int) -> list[int]:
    """Of so many cuts that are evenly apart, those that make `parts` pieces that are about even, as indexes."""
    return sorted({count * part // parts for part in range(1, parts)}) if count else []


def backlog(state: StreamState, start: Position) -> int:
    """How many entries are beyond a position: exact where nothing was deleted, else an upper bound."""
    if state.last_id <= start.last:
        return 0
    if start.n != UNKNOWN:
        return min(max(state.entries_added - start.n, 0), state.length)
    return state.length


def share(backlogs: Mapping[str, int], limit: int, turn: int = 0) -> dict[str, int]:
    """How many entries each stream may give when all together give `limit`: in proportion, but at least one each, so
    that none starves. Where the limit is less than there are streams they take turns, counted by `turn`.
    """
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    waiting = [key for key, count in backlogs.items() if count]
    first = turn % len(waiting)
    order = waiting[first:] + waiting[:first]
    shares = dict.fromkeys(backlogs, 0)
    if limit <= len(order):
        return shares | dict.fromkeys(order[:limit], 1)
    shares |= {key: max(1, backlogs[key] * limit // total) for key in order}
    # Rounding left less than there are streams, or those that were rounded up to one took as much from the largest.
    for key in [key for key in order if shares[key] < backlogs[key]][: max(limit - sum(shares.values()), 0)]:
        shares[key] += 1
    for _ in range(sum(shares.values()) - limit):
        shares[max(order, key=shares.__getitem__)] -= 1
    return shares


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries beyond a position that can no longer be read."""

    stream: str
    reason: str
    resume: Position
    """Where reading may go on, nothing more being lost."""

    def __str__(self) -> str:
        return f"stream {self.stream}: {self.reason}"


def find_loss(stream: str, start: Position, state: StreamState) -> Loss | None:
    """Whether entries after `start` are gone, judged by what the stream remembers of itself."""
    if state.last_id < start.last:
        reason = (
            f"it ends at {format_id(state.last_id).decode()}, before {format_id(start.last).decode()} where reading is "
            "to go on: it was deleted and made anew, or its server lost its last writes"
        )
        return Loss(stream, reason, Position(0, 0))
    if start.n != UNKNOWN and state.entries_added < start.n:
        reason = (
            f"it has had {state.entries_added} entries, and {start.n} were read: it was deleted and made anew, or its "
            "server lost its last writes"
        )
        return Loss(stream, reason, Position(0, 0))
    if start.n != UNKNOWN and state.first_id > start.last and state.removed < start.n:
        reason = (
            f"{start.n} entries were read, none of which is left, and it has lost {state.removed}: it was deleted and "
            "made anew, and what had not been read is gone"
        )
        return Loss(stream, reason, Position(0, 0))
    if start.n != UNKNOWN:
        trimmed = state.entries_added - state.length - start.n
        if trimmed > 0 and (not state.first_id or state.first_id > start.last):
            return Loss(
                stream,
                f"{trimmed} entries after {format_id(start.last).decode()} were trimmed or deleted unread",
                start,
            )
    if start.following and (not state.first_id or state.first_id > start.following):
        reason = f"entries from {format_id(start.following).decode()} on were trimmed or deleted unread"
        return Loss(stream, reason, start)
    if state.max_deleted_id > max(start.last, start.deleted):
        return Loss(stream, f"{format_id(state.max_deleted_id).decode()} was deleted, maybe unread", start)
    return None
