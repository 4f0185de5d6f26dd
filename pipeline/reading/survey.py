"""Asks the server about streams: which exist, their states, and the ID n entries after another.

Redis has no command for "the ID of the millionth entry after this one", and reading the entries to count them is slow.
`measure` has the server count: it makes a consumer group, reads it with NOACK and suppressed replies, and after each
step XINFO GROUPS shows the group's last ID and its number of entries read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ...store.ids import StreamID, format_id, id_after, parse_id
from ..columns.page import parse_page
from ..connection.client import Argument, Connection, ReplyError, pack
from ..connection.streams import key_bytes
from ..errors import OptionError
from .spans import UNKNOWN, Position, StreamState

# Prefix of the names of measuring groups. A group left by a crash is removed when the stream is measured again.
RULER_PREFIX: Final = "headrace:ruler:"
# Error codes of refused writes; the entries are then counted by reading them.
NOT_NOW: Final = ("NOPERM", "READONLY", "MISCONF", "OOM")
STEPS_PER_TRIP: Final = 64
SCAN_COUNT: Final = 1000
# The state of a stream that does not exist: this object, since a stream that was never added to has equal numbers.
MISSING: Final = StreamState()
# Entries per range read when counting by reading.
PAGE_COUNT: Final = 5000


def find_streams(connection: Connection, pattern: str) -> list[str]:
    """Returns the keys of streams that match a glob pattern, sorted."""
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, keys = connection.call(
            "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT, "TYPE", "stream", doing="option streamPattern"
        )
        found.update(map(_text_of, keys))
        if cursor == b"0":
            return sorted(found)


def _text_of(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(
            f"option streamPattern: the key {key!r} is not UTF-8, so Spark cannot store it: "
            "use a pattern that does not match it"
        ) from None


def resolve_streams(connection: Connection, keys: Sequence[str], pattern: str | None) -> list[str]:
    """Returns the keys that the options `stream` and `streamPattern` select. Raises OptionError if not one is given."""
    if bool(keys) == (pattern is not None):
        raise OptionError("set one of the options stream and streamPattern")
    return list(keys) if pattern is None else find_streams(connection, pattern)


def states(connection: Connection, keys: Iterable[str]) -> dict[str, StreamState]:
    """Returns the state of each stream, MISSING for a key that does not exist."""
    keys = list(keys)
    replies = connection.call_all([("XINFO", "STREAM", key_bytes(key)) for key in keys])
    return {key: _state(connection, key, reply) for key, reply in zip(keys, replies, strict=True)}


def _state(connection: Connection, key: str, reply: Any) -> StreamState:
    if isinstance(reply, ReplyError):
        if str(reply) == "ERR no such key":
            return MISSING
        raise connection.refused(f"stream {key}", str(reply))
    return StreamState.from_reply(reply)


def first_after(connection: Connection, key: str, last: StreamID) -> StreamID:
    """Returns the ID of the first entry after an ID, 0 if there is none."""
    request = ("XRANGE", key_bytes(key), format_id(id_after(last)), b"+", "COUNT", 1)
    page = parse_page(connection.fetch(pack(request)))
    return parse_id(page.last_id) if len(page) else 0


def measure(connection: Connection, key: str, start: Position, steps: Sequence[int], until: StreamID) -> list[Position]:
    """Returns positions after `start`, each the next one of `steps` entries after the one before.

    The list ends with the first position at or after `until`, or at the end of the stream, where the last step may be
    shorter.
    """
    positions: list[Position] = []
    while len(positions) < len(steps):
        now = steps[len(positions) : len(positions) + STEPS_PER_TRIP]
        found = _measure_by_group(connection, key, start, now)
        if found is None:
            found = _measure_by_reading(connection, key, start, now, until)
        for position in found:
            if position.last <= start.last:
                return positions
            positions.append(position)
            start = position
            if position.last >= until:
                return positions
        if len(found) < len(now):
            return positions
    return positions


def _measure_by_group(connection: Connection, key: str, start: Position, steps: Sequence[int]) -> list[Position] | None:
    """Measures with a consumer group. Returns None if the server or the user's rights do not allow it."""
    name = RULER_PREFIX + os.urandom(8).hex()
    stream = key_bytes(key)
    if not _may_measure(connection, stream, name):
        return None
    entries_read = ("ENTRIESREAD", start.n) if start.n != UNKNOWN else ()
    requests: list[tuple[Argument, ...]] = [
        ("XGROUP", "CREATE", stream, name, format_id(start.last), *entries_read),
        ("XGROUP", "CREATECONSUMER", stream, name, "ruler"),
    ]
    for step in steps:
        requests += [
            ("CLIENT", "REPLY", "SKIP"),
            ("XREADGROUP", "GROUP", name, "ruler", "COUNT", step, "NOACK", "STREAMS", stream, ">"),
            ("XINFO", "GROUPS", stream),
        ]
    requests.append(("XGROUP", "DESTROY", stream, name))

    def ask() -> list[Any]:
        connection.send_all(requests)
        made = connection.receive(2)
        if isinstance(made[0], ReplyError):
            # The group was not made. Receive the other replies; SKIP also suppresses the errors of XREADGROUP.
            connection.receive(len(steps) + 1)
            return made[:1]
        return connection.receive(len(steps) + 1)

    replies = connection.retry(ask)
    if isinstance(replies[0], ReplyError):
        if replies[0].code in NOT_NOW:
            return None
        raise connection.refused(f"stream {key}", str(replies[0]))
    groups = [_group_row(reply, name) for reply in replies[:-1] if not isinstance(reply, ReplyError)]
    _remove_leftovers(connection, stream, replies[0])
    return [Position(parse_id(row[b"last-delivered-id"]), _count_of(row)) for row in groups if row is not None]


def _may_measure(connection: Connection, stream: bytes, missing: str) -> bool:
    """Whether the user may create, read and destroy a group, tested with a group that does not exist.

    Later the replies to reading are suppressed and could not show a missing right.
    """
    silence, *others = connection.call_all(
        [
            ("CLIENT", "REPLY", "ON"),
            ("XREADGROUP", "GROUP", missing, "ruler", "STREAMS", stream, ">"),
            ("XGROUP", "CREATECONSUMER", stream, missing, "ruler"),
            ("XGROUP", "DESTROY", stream, missing),
            ("XINFO", "GROUPS", stream),
            ("XINFO", "CONSUMERS", stream, missing),
        ]
    )
    return silence == b"OK" and not any(isinstance(reply, ReplyError) and reply.code in NOT_NOW for reply in others)


def _group_row(reply: Any, name: str) -> dict[bytes, Any] | None:
    for row in reply:
        known = dict(zip(row[::2], row[1::2], strict=True))
        if known[b"name"] == name.encode():
            return known
    return None


def _count_of(row: dict[bytes, Any]) -> int:
    count = row[b"entries-read"]
    return UNKNOWN if count is None else int(count)


def _remove_leftovers(connection: Connection, stream: bytes, reply: Any) -> None:
    """Destroys measuring groups left by crashes. Groups used recently may belong to another reader and are kept."""
    if isinstance(reply, ReplyError) or len(reply) < 2:
        return
    names = [dict(zip(row[::2], row[1::2], strict=True))[b"name"] for row in reply]
    rulers = [name for name in names if name.startswith(RULER_PREFIX.encode())]
    if len(rulers) < 2:
        return
    consumers = connection.call_all([("XINFO", "CONSUMERS", stream, name) for name in rulers])
    stale = []
    for name, rows in zip(rulers, consumers, strict=True):
        if not isinstance(rows, ReplyError) and all(
            dict(zip(row[::2], row[1::2], strict=True))[b"idle"] > LEFTOVER_IDLE_MS for row in rows
        ):
            stale.append(("XGROUP", "DESTROY", stream, name))
    if stale:
        connection.call_all(stale)


LEFTOVER_IDLE_MS: Final = 600_000


def _measure_by_reading(
    connection: Connection, key: str, start: Position, steps: Sequence[int], until: StreamID
) -> list[Position]:
    """Measures by reading the entries: slow, but it needs no right to write."""
    positions: list[Position] = []
    for step in steps:
        found = _read_over(connection, key, start, step)
        if found.last > start.last:
            positions.append(found)
        if found.last >= until or found == start:
            break
        start = found
    return positions


def _read_over(connection: Connection, key: str, start: Position, count: int) -> Position:
    """Returns the position `count` entries after `start`, or at the end of the stream."""
    last, left = start.last, count
    while left:
        wanted = min(left, PAGE_COUNT)
        request = ("XRANGE", key_bytes(key), b"(" + format_id(last), b"+", "COUNT", wanted)
        page = parse_page(connection.fetch(pack(request)))
        if len(page):
            last = parse_id(page.last_id)
        left -= len(page)
        if len(page) < wanted:
            break
    return Position(last, UNKNOWN if start.n == UNKNOWN else start.n + count - left)
