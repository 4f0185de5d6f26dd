"""XINFO: what a stream, its groups and its consumers look like."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..protocol.replies import Reply, SimpleString
from ..store.errors import NoGroup, no_such_key
from ..store.group import ENTRIES_READ_UNKNOWN, Group
from ..store.ids import ID_MAX, ID_MIN, StreamID, format_id
from ..store.pending import NEVER, Consumer
from ..store.stream import Stream
from .context import Context
from .group import bad_shape
from .long_replies import array_of
from .numbers import integer
from .stream import KEY_ARGUMENT
from .table import Argument, Flag, KeySpec, command, container

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
    complexity="O(1); FULL is O(N) in what it lists.",
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
    differs="`radix-tree-nodes` is that of a tree built afresh; after removals that of Redis can be a little higher.",
)  # fmt: skip
def xinfo_stream(context: Context, argv: list[bytes]) -> Reply:
    """XINFO STREAM key [FULL [COUNT count]]

    Returns a map of the stream's counters; FULL adds entries, groups, consumers and pending entries (COUNT of each,
    10 by default, 0 for all). Raises WrongType, GenericError. Source: redis.io/commands/xinfo-stream, Redis 8.6.
    """
    stream = _require_stream(context, argv[2])
    if len(argv) > 3:
        return _describe_fully(stream, _parse_full(argv))
    fields = _counters(stream)
    fields[b"groups"] = len(stream.groups)
    fields[b"first-entry"] = _entry(stream, stream.log.first_id)
    fields[b"last-entry"] = _entry(stream, stream.log.last_id)
    return fields


def _parse_full(argv: list[bytes]) -> int:
    """How many entries of each list to show; -1 for all."""
    if argv[3].upper() != b"FULL" or len(argv) not in (4, 6):
        raise bad_shape(argv)
    if len(argv) == 4:
        return FULL_COUNT_DEFAULT
    if argv[4].upper() != b"COUNT":
        raise bad_shape(argv)
    count = integer(argv[5])
    return FULL_COUNT_DEFAULT if count < 0 else count or -1


def _counters(stream: Stream) -> dict[bytes, Any]:
    """The fields that both forms begin with, in Redis' order."""
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
    """A count as a signed number of 64 bits, as Redis shows it: RESTORE may have brought any."""
    return (count + (1 << 63)) % (1 << 64) - (1 << 63)


def _entry(stream: Stream, entry_id: int) -> Reply:
    entry = stream.log.get(entry_id)
    return None if entry is None else (entry,)


def _describe_fully(stream: Stream, count: int) -> Reply:
    taken, pieces = stream.log.read(ID_MIN, ID_MAX, count)
    fields = _counters(stream)
    fields[b"entries"] = (b"*%d\r\n" % taken, *pieces)
    fields[b"groups"] = [_describe_group_fully(stream, group, count) for group in stream.sorted_groups()]
    return fields


def _first(items: Any, count: int) -> Any:
    return items if count < 0 else islice(items, count)


def _describe_group_fully(stream: Stream, group: Group, count: int) -> dict[bytes, Any]:
    pending = [
        [format_id(entry_id), delivery.consumer.name if delivery.consumer else b"", delivery.time_ms, delivery.count]
        for entry_id, delivery in _first(group.pending.walk(), count)
    ]
    return {
        b"name": group.name,
        b"last-delivered-id": format_id(group.last_id),
        b"entries-read": _entries_read(group),
        b"lag": stream.lag(group),
        b"pel-count": len(group.pending),
        b"nacked-count": len(group.pending.released),
        b"pending": pending,
        b"consumers": [_describe_consumer_fully(group, consumer, count) for consumer in group.sorted_consumers()],
    }


def _describe_consumer_fully(group: Group, consumer: Consumer, count: int) -> dict[bytes, Any]:
    owned = _first(group.pending.walk_owned(consumer), count)
    return {
        b"name": consumer.name,
        b"seen-time": consumer.seen_ms,
        b"active-time": consumer.active_ms,
        b"pel-count": consumer.pending_count,
        b"pending": [[format_id(entry_id), delivery.time_ms, delivery.count] for entry_id, delivery in owned],
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
