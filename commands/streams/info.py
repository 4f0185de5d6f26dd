"""XINFO: describes a stream, its groups and its consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ...protocol.replies import Reply, SimpleString
from ...store.errors import NoGroup, no_such_key
from ...store.group import ENTRIES_READ_UNKNOWN, Group
from ...store.ids import ID_MAX, ID_MIN, StreamID, format_id
from ...store.pending import NEVER, Consumer, Delivery
from ...store.stream import Stream
from ..core.long_replies import array_of, map_with_array
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command, container
from ..execution.context import Context
from .entries import KEY_ARGUMENT
from .group import bad_shape

FULL_COUNT_DEFAULT = 10
INFO_KEYS = (KeySpec(2, 2, 1, ("RO", "ACCESS")),)

container("XINFO", group="stream", since="5.0.0", summary="Commands that describe streams.")


def _require_stream(context: Context, key: bytes) -> Stream:
    stream = context.db.read_stream(key, context.now_ms)
    if stream is None:
        raise no_such_key()
    return stream


@command(
    "XINFO|STREAM",
    arity=-3,
    flags=Flag.READONLY,
    keys=INFO_KEYS,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Describes a stream.",
    complexity="O(1); FULL is O(N) in the number of listed entries, groups and consumers.",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "full-block",
            "block",
            optional=True,
            arguments=(
                Argument("full", "pure-token", token="FULL"),
                Argument("count", "integer", token="COUNT", optional=True),
            ),
        ),
    ),
    history=(
        ("6.0.0", "Added the `FULL` modifier."),
        ("7.0.0", "Added the deletion and entries-read counters and the lag."),
        ("7.2.0", "Added `active-time`; `seen-time` is that of the last attempt."),
        ("8.6.0", "Added the settings and counters of idempotent IDs."),
        ("8.8.0", "Added `nacked-count` to the groups of `FULL`."),
    ),
    differs="`radix-tree-nodes` is that of a newly built tree; after removals Redis can show a few more.",
)  # fmt: skip
def xinfo_stream(context: Context, argv: list[bytes]) -> Reply:
    """XINFO STREAM key [FULL [COUNT count]]

    Returns a map of the stream's counters; FULL adds entries, groups, consumers and pending entries (COUNT of each,
    10 by default, 0 for all). Raises WrongType, GenericError. Source: redis.io/commands/xinfo-stream, Redis 8.6.
    """
    stream = _require_stream(context, argv[2])
    if len(argv) > 3:
        return _describe_fully(stream, _parse_full(argv), context.client.protocol)
    fields = _counters(stream)
    fields[b"groups"] = len(stream.groups)
    fields[b"first-entry"] = _entry(stream, stream.log.first_id)
    fields[b"last-entry"] = _entry(stream, stream.log.last_id)
    return fields


def _parse_full(argv: list[bytes]) -> int:
    """Parses FULL [COUNT n] and returns how many entries of each list to show; -1 for all. Raises GenericError."""
    if argv[3].upper() != b"FULL" or len(argv) not in (4, 6):
        raise bad_shape(argv)
    if len(argv) == 4:
        return FULL_COUNT_DEFAULT
    if argv[4].upper() != b"COUNT":
        raise bad_shape(argv)
    count = integer(argv[5])
    return FULL_COUNT_DEFAULT if count < 0 else count or -1


def _counters(stream: Stream) -> dict[bytes, Any]:
    """Returns the first fields of XINFO STREAM, with FULL and without, in Redis' order."""
    stream.settle_nodes()
    idempotence = stream.idempotence
    return {
        b"length": len(stream),
        b"radix-tree-keys": len(stream.nodes.nodes),
        b"radix-tree-nodes": stream.nodes.radix_nodes_count,
        b"last-generated-id": format_id(stream.last_id),
        b"max-deleted-entry-id": format_id(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": format_id(stream.log.first_id),
        b"idmp-duration": idempotence.duration_s,
        b"idmp-maxsize": idempotence.entries_max,
        b"pids-tracked": len(idempotence.producers),
        b"iids-tracked": idempotence.pairs_count,
        b"iids-added": _wrapped(idempotence.added),
        b"iids-duplicates": _wrapped(idempotence.duplicates),
    }


def _wrapped(count: int) -> int:
    """Returns a count as a signed 64-bit number, as Redis shows it. A RESTORE payload may contain any count."""
    return (count + (1 << 63)) % (1 << 64) - (1 << 63)


def _entry(stream: Stream, entry_id: int) -> Reply:
    entry = stream.log.get(entry_id)
    return None if entry is None else (entry,)


def _describe_fully(stream: Stream, count: int, protocol: int) -> Reply:
    taken, pieces = stream.log.read(ID_MIN, ID_MAX, count)
    fields = _counters(stream)
    fields[b"entries"] = (b"*%d\r\n" % taken, *pieces)
    groups = [_state_of(stream, group, count) for group in stream.sorted_groups()]
    return map_with_array(fields, b"groups", groups, _describe_group_fully, protocol)


# Entry ID, name of the owner, delivery time and delivery count.
PendingState = tuple[StreamID, bytes, int, int]


# Name, seen time, active time, number of pending entries, pending entries to show.
ConsumerState = tuple[bytes, int, int, int, Sequence[PendingState]]
# Name, last-delivered ID, entries read, lag, number of pending entries, number of released entries, pending entries to
# show, consumers. A tuple, because the garbage collector stops tracking tuples of numbers and names.
GroupState = tuple[bytes, StreamID, int | None, int | None, int, int, Sequence[PendingState], Sequence[ConsumerState]]


def _state_of(stream: Stream, group: Group, count: int) -> GroupState:
    pending = group.pending
    pending_count = len(pending)
    return (
        group.name,
        group.last_id,
        _entries_read(group),
        stream.lag(group),
        pending_count,
        len(pending.released) if pending_count else 0,
        _states_of(pending.walk(), count) if pending_count else (),
        [_state_of_consumer(group, each, count) for each in group.sorted_consumers()] if group.consumers else (),
    )


def _state_of_consumer(group: Group, consumer: Consumer, count: int) -> ConsumerState:
    pending_count = consumer.pending_count
    owned = _states_of(group.pending.walk_owned(consumer), count) if pending_count else ()
    return consumer.name, consumer.seen_ms, consumer.active_ms, pending_count, owned


def _states_of(entries: Iterator[tuple[StreamID, Delivery]], count: int) -> Sequence[PendingState]:
    """Returns the first `count` pending entries; all if `count` is negative."""
    return [
        (entry_id, delivery.consumer.name if delivery.consumer else b"", delivery.time_ms, delivery.count)
        for entry_id, delivery in (entries if count < 0 else islice(entries, count))
    ]


def _describe_group_fully(state: GroupState) -> dict[bytes, Any]:
    name, last_id, entries_read, lag, pending_count, released_count, pending, consumers = state
    return {
        b"name": name,
        b"last-delivered-id": format_id(last_id),
        b"entries-read": entries_read,
        b"lag": lag,
        b"pel-count": pending_count,
        b"nacked-count": released_count,
        b"pending": [[format_id(entry_id), owner, time_ms, count] for entry_id, owner, time_ms, count in pending],
        b"consumers": list(map(_describe_consumer_fully, consumers)),
    }


def _describe_consumer_fully(state: ConsumerState) -> dict[bytes, Any]:
    name, seen_ms, active_ms, pending_count, pending = state
    return {
        b"name": name,
        b"seen-time": seen_ms,
        b"active-time": active_ms,
        b"pel-count": pending_count,
        b"pending": [[format_id(entry_id), time_ms, count] for entry_id, _, time_ms, count in pending],
    }


def _entries_read(group: Group) -> int | None:
    return None if group.entries_read == ENTRIES_READ_UNKNOWN else group.entries_read


@command(
    "XINFO|GROUPS",
    arity=3,
    flags=Flag.READONLY,
    keys=INFO_KEYS,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists a stream's consumer groups.",
    complexity="O(1) for each group.",
    arguments=(KEY_ARGUMENT,),
    history=(("7.0.0", "Added the `entries-read` and `lag` fields"),),
)
def xinfo_groups(context: Context, argv: list[bytes]) -> Reply:
    """XINFO GROUPS key. Returns a map per group, by name. Raises WrongType, GenericError. Source: Redis 7.0."""
    stream = _require_stream(context, argv[2])
    states = [
        (group.name, len(group.consumers), len(group.pending), group.last_id, _entries_read(group), stream.lag(group))
        for group in stream.sorted_groups()
    ]
    return array_of(states, _describe_group, context.client.protocol)


def _describe_group(state: tuple[bytes, int, int, StreamID, int | None, int | None]) -> dict[bytes, Any]:
    name, consumers_count, pending_count, last_id, entries_read, lag = state
    return {
        b"name": name,
        b"consumers": consumers_count,
        b"pending": pending_count,
        b"last-delivered-id": format_id(last_id),
        b"entries-read": entries_read,
        b"lag": lag,
    }


@command(
    "XINFO|CONSUMERS",
    arity=4,
    flags=Flag.READONLY,
    keys=INFO_KEYS,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists the consumers of a group.",
    complexity="O(1) for each consumer.",
    arguments=(KEY_ARGUMENT, Argument("group")),
    history=(("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`."),),
    tips=("nondeterministic_output",),
)
def xinfo_consumers(context: Context, argv: list[bytes]) -> Reply:
    """XINFO CONSUMERS key group

    Returns a map per consumer, by name: pending entries, ms since last seen, ms since last active (-1: never).
    Raises WrongType, NoGroup, GenericError. Source: Redis 7.2.
    """
    stream = _require_stream(context, argv[2])
    group = stream.groups.get(argv[3])
    if group is None:
        raise NoGroup.for_group(argv[2], argv[3])
    now_ms = context.now_ms
    states = [
        (
            each.name,
            each.pending_count,
            max(now_ms - each.seen_ms, 0),
            NEVER if each.active_ms == NEVER else max(now_ms - each.active_ms, 0),
        )
        for each in group.sorted_consumers()
    ]
    return array_of(states, _describe_consumer, context.client.protocol)


def _describe_consumer(state: tuple[bytes, int, int, int]) -> dict[bytes, Any]:
    name, pending_count, idle_ms, inactive_ms = state
    return {
        b"name": name,
        b"pending": pending_count,
        b"idle": idle_ms,
        b"inactive": inactive_ms,
    }


HELP_LINES = (
    b"XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"CONSUMERS <key> <groupname>",
    b"    Show consumers of <groupname>.",
    b"GROUPS <key>",
    b"    Show the stream consumer groups.",
    b"STREAM <key> [FULL [COUNT <count>]",
    b"    Show information about the stream.",
    b"HELP",
    b"    Print this help.",
)


@command(
    "XINFO|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists the subcommands of XINFO.",
    complexity="O(1)",
)
def xinfo_help(context: Context, argv: list[bytes]) -> Reply:
    """XINFO HELP. Source: Redis 5.0."""
    return [SimpleString(line) for line in HELP_LINES]
