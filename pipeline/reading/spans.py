"""Where reading starts and ends: arithmetic on entry IDs and on the states of streams. No I/O.

A position is the last ID read (0 for none) and `n`, the number of entries ever added up to it, -1 if not known. `n` is
the entries-read of a consumer group: the lag is the number of entries added minus `n`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...store.ids import StreamID, format_id, id_after, id_before, parse_id

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a stream: entries with IDs from `first` to `last`, both included."""

    stream: str
    first: StreamID
    last: StreamID

    @property
    def is_empty(self) -> bool:
        """Whether the span contains no ID."""
        return self.first > self.last


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream as XINFO STREAM reports it; all zero if the key does not exist."""

    length: int = 0
    last_id: StreamID = 0
    # The ID of the first entry, 0 if there is none.
    first_id: StreamID = 0
    max_deleted_id: StreamID = 0
    entries_added: int = 0

    @classmethod
    def from_reply(cls, reply: Sequence[Any]) -> StreamState:
        """Makes a state from a reply to XINFO STREAM, as flat pairs (RESP2)."""
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
        """How many entries were trimmed or deleted."""
        return self.entries_added - self.length

    @property
    def end(self) -> Position:
        """The position after the last entry."""
        return Position(self.last_id, self.entries_added, deleted=self.max_deleted_id)

    @property
    def beginning(self) -> Position:
        """The position before the first entry."""
        if not self.length:
            return self.end
        # Entries deleted from the middle count as added, so the count is exact only if there are none.
        is_exact = self.max_deleted_id < self.first_id
        n = self.entries_added - self.length if is_exact else UNKNOWN
        return Position(id_before(self.first_id), n, deleted=self.max_deleted_id).before(self.first_id)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a stream: the last ID read, and the number of entries added up to it."""

    last: StreamID
    # Entries ever added up to `last`.
    n: int = UNKNOWN
    # IDs that divide the entries since the previous position evenly. They are kept with the position so that a repeated
    # batch has the same partitions.
    cuts: tuple[StreamID, ...] = ()
    # The greatest ID that had been deleted when the position was taken.
    deleted: StreamID = 0
    # The ID after which the batch begins, if the previous position does not say: the stream was deleted and made again.
    since: StreamID | None = None
    # The first entry after the position, if `n` is not known. If that entry is gone, entries were lost.
    following: StreamID = 0

    def before(self, following: StreamID) -> Position:
        """Returns this position with the entry that follows it. If `n` is known it is returned unchanged."""
        return replace(self, following=following) if self.n == UNKNOWN else self

    def to_json(self, *, with_cuts: bool = True) -> dict[str, Any]:
        """Returns the position as JSON for Spark's checkpoint."""
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
        """Makes a position from the JSON in Spark's checkpoint."""
        cuts = tuple(parse_id(cut.encode()) for cut in found.get("cuts", ()))
        deleted = parse_id(found.get("deleted", "0-0").encode())
        since = parse_id(found["since"].encode()) if "since" in found else None
        following = parse_id(found.get("following", "0-0").encode())
        return cls(parse_id(found["id"].encode()), int(found.get("n", UNKNOWN)), cuts, deleted, since, following)


# Positions by key.
Offsets = dict[str, Position]


def offsets_to_json(offsets: Offsets, *, with_cuts: bool = True) -> dict[str, Any]:
    """Returns offsets as JSON for Spark's checkpoint."""
    return {key: position.to_json(with_cuts=with_cuts) for key, position in sorted(offsets.items())}


def offsets_from_json(found: Mapping[str, Any]) -> Offsets:
    """Makes offsets from the JSON in Spark's checkpoint."""
    return {key: Position.from_json(position) for key, position in found.items()}


@dataclass(frozen=True, slots=True)
class Expected:
    """The facts about a span when it was planned, by which the reader detects lost entries."""

    # Entries in the span, None if not known.
    count: int | None = None
    # Entries of the stream that had been trimmed or deleted by then, None if not known.
    removed: int | None = None


def expected_between(start: Position | None, end: Position, parts: int, removed: int | None = None) -> list[Expected]:
    """Returns the expectations for the parts between two positions.

    If nothing was deleted between them, each part has an even count. Otherwise the number of `removed` entries of the
    stream must not grow.
    """
    is_counted = start is not None and UNKNOWN not in (start.n, end.n) and end.deleted <= start.last
    if not is_counted or end.since is not None or len(end.cuts) + 1 != parts:
        return [Expected(None, removed)] * parts
    assert start is not None
    return [Expected(count) for count in even_steps(end.n - start.n, parts)]


def find_unread(span: Span, expected: Expected, read: int, state: StreamState) -> str:
    """Describes the entries of a span that were lost before they were read, by the stream's state; empty if none."""
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
    """Returns the spans of a batch: the entries of each stream after `start` up to `end`, divided by the cuts of `end`.

    `found_states` has the numbers of entries that the streams have lost so far.
    """
    found: list[tuple[Span, Expected]] = []
    for key, position in sorted(end.items()):
        before = start.get(key)
        if position == before:
            continue
        after = 0
        if position.since is not None:
            after = position.since
        elif before is not None:  # no entry between a position and the one following it can be lost
            after = id_before(before.following) if before.following else before.last
        spans = split(key, after, position.last, position.cuts)
        removed = found_states[key].removed if found_states and key in found_states else None
        found += zip(spans, expected_between(before, position, len(spans), removed), strict=True)
    return found


def even_steps(count: int, parts: int) -> list[int]:
    """Divides `count` into `parts` steps that differ by at most one."""
    parts = max(1, min(parts, count))
    return [count // parts + (index < count % parts) for index in range(parts)]


def split(stream: str, after: StreamID, through: StreamID, cuts: Iterable[StreamID]) -> list[Span]:
    """Divides the span (after, through] at the cuts into spans that are not empty."""
    spans = []
    start = after
    for cut in sorted({cut for cut in cuts if after < cut < through} | {through}):
        if cut > start:
            spans.append(Span(stream, id_after(start), cut))
            start = cut
    return spans


def choose_cuts(count: int, parts: int) -> list[int]:
    """Returns which of `count` evenly spaced cuts divide a span into about even `parts`, as indices."""
    return sorted({count * part // parts for part in range(1, parts)}) if count else []


def backlog(state: StreamState, start: Position) -> int:
    """Returns how many entries are after a position: exact if none was deleted, else an upper bound."""
    if state.last_id <= start.last:
        return 0
    if start.n != UNKNOWN:
        return min(max(state.entries_added - start.n, 0), state.length)
    return state.length


def share(backlogs: Mapping[str, int], limit: int, turn: int = 0) -> dict[str, int]:
    """Divides `limit` entries between streams in proportion to their backlogs, with at least one each.

    If the limit is smaller than the number of streams, the streams take turns, which `turn` counts.
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
    # Rounding down leaves fewer entries over than there are streams. Shares that were raised to one are taken from the
    # largest shares.
    for key in [key for key in order if shares[key] < backlogs[key]][: max(limit - sum(shares.values()), 0)]:
        shares[key] += 1
    for _ in range(sum(shares.values()) - limit):
        shares[max(order, key=shares.__getitem__)] -= 1
    return shares


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries after a position that no longer exist."""

    stream: str
    reason: str
    # The position where reading can continue without a further loss.
    resume: Position

    def __str__(self) -> str:
        return f"stream {self.stream}: {self.reason}"


def find_loss(stream: str, start: Position, state: StreamState) -> Loss | None:
    """Returns the loss of entries after `start`, judged by the stream's state; None if no entry was lost."""
    if state.last_id < start.last:
        reason = (
            f"it ends at {format_id(state.last_id).decode()}, before {format_id(start.last).decode()} where reading "
            "should continue: it was deleted and created again, or its server lost its last writes"
        )
        return Loss(stream, reason, Position(0, 0))
    if start.n != UNKNOWN and state.entries_added < start.n:
        reason = (
            f"{state.entries_added} entries were ever added to it, but {start.n} were read: it was deleted and created "
            "again, or its server lost its last writes"
        )
        return Loss(stream, reason, Position(0, 0))
    if start.n != UNKNOWN and state.first_id > start.last and state.removed < start.n:
        reason = (
            f"{start.n} entries were read, none of which is left, but only {state.removed} were removed from it: it "
            "was deleted and created again, and entries that had not been read are lost"
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
