"""XINFO: describes a stream, its groups and its consumers."""

from __future__ import annotations

from typing import Final

from ...protocol.maps import map_forms
from ...protocol.replies import Reply, status_lines
from ...store.errors import NoGroup, no_such_key
from ...store.group import ENTRIES_READ_UNKNOWN, Group
from ...store.ids import ID_MAX, ID_MIN, StreamID, format_id
from ...store.pending import ConsumerRow, Listing, idle_states
from ...store.stream import Stream
from ..core.long_replies import array_of, maps_of
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, Trait, command, container
from ..execution.context import Context
from .entries import KEY_ARGUMENT
from .group import bad_shape

FULL_COUNT_DEFAULT = 10
INFO_KEYS = (KeySpec(2, 2, 1, ("RO", "ACCESS")),)

# The first fields of XINFO STREAM, with FULL and without, in Redis' order.
COUNTERS: Final = (
    b"length",
    b"radix-tree-keys",
    b"radix-tree-nodes",
    b"last-generated-id",
    b"max-deleted-entry-id",
    b"entries-added",
    b"recorded-first-entry-id",
    b"idmp-duration",
    b"idmp-maxsize",
    b"pids-tracked",
    b"iids-tracked",
    b"iids-added",
    b"iids-duplicates",
)
# Its last ones without FULL.
ENDS: Final = (b"groups", b"first-entry", b"last-entry")
STREAM_FORMS: Final = map_forms(*COUNTERS, *ENDS)
# The entries and the groups follow.
FULL_FORMS: Final = map_forms(*COUNTERS, more=2)
FULL_GROUP_FORMS: Final = map_forms(
    b"name", b"last-delivered-id", b"entries-read", b"lag", b"pel-count", b"nacked-count", b"pending", b"consumers"
)
FULL_CONSUMER_FORMS: Final = map_forms(b"name", b"seen-time", b"active-time", b"pel-count", b"pending")
GROUP_FORMS: Final = map_forms(b"name", b"consumers", b"pending", b"last-delivered-id", b"entries-read", b"lag")
CONSUMER_FORMS: Final = map_forms(b"name", b"pending", b"idle", b"inactive")

container("XINFO", group="stream", since="5.0.0", summary="Commands that describe streams.", traits=Trait.ORDINARY)


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
    ends = len(stream.groups), _entry(stream, stream.log.first_id), _entry(stream, stream.log.last_id)
    if stream.policy is not None:
        names, values = zip(*stream.policy.fields(), strict=True)
        form = map_forms(*COUNTERS, *ENDS, *names)[context.client.protocol]
        return (form.encode([(*_counters(stream), *ends, *values)]),)
    return (STREAM_FORMS[context.client.protocol].encode([(*_counters(stream), *ends)]),)


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


def _counters(stream: Stream) -> tuple[int | bytes, ...]:
    """Returns the values of `COUNTERS`."""
    stream.settle_nodes()
    idempotence = stream.idempotence
    return (
        len(stream),
        len(stream.nodes.nodes),
        stream.nodes.radix_nodes_count,
        format_id(stream.last_id),
        format_id(stream.max_deleted_id),
        stream.entries_added,
        format_id(stream.log.first_id),
        idempotence.duration_s,
        idempotence.entries_max,
        len(idempotence.producers),
        idempotence.pairs_count,
        _wrapped(idempotence.added),
        _wrapped(idempotence.duplicates),
    )


def _wrapped(count: int) -> int:
    """Returns a count as a signed 64-bit number, as Redis shows it. A RESTORE payload may contain any count."""
    return (count + (1 << 63)) % (1 << 64) - (1 << 63)


def _entry(stream: Stream, entry_id: StreamID) -> tuple[bytes] | None:
    entry = stream.log.get(entry_id)
    return None if entry is None else (entry,)


def _describe_fully(stream: Stream, count: int, protocol: int) -> Reply:
    taken, pieces = stream.log.read(ID_MIN, ID_MAX, count)
    states = [_state_of(stream, group, count) for group in stream.sorted_groups()]
    group_form = FULL_GROUP_FORMS[protocol]
    groups = array_of(states, lambda part: group_form.encode([_group_row(each, protocol) for each in part]))
    policy: tuple[bytes, ...] = ()
    form = FULL_FORMS[protocol]
    if stream.policy is not None:
        fields = stream.policy.fields()
        form = map_forms(*COUNTERS, more=2 + len(fields))[protocol]
        policy = tuple(map(_field, fields))
    return (
        form.encode([_counters(stream)]),
        b"$7\r\nentries\r\n*%d\r\n" % taken,
        *pieces,
        b"$6\r\ngroups\r\n",
        *groups,
        *policy,
    )


def _field(field: tuple[bytes, bytes | int]) -> bytes:
    """Returns a field of a map and its value, encoded for both protocols."""
    name, value = field
    head = b"$%d\r\n%b\r\n" % (len(name), name)
    return head + (b":%d\r\n" % value if isinstance(value, int) else b"$%d\r\n%b\r\n" % (len(value), value))


# Name, last-delivered ID, entries read, lag, number of pending entries, number of released entries, pending entries to
# show, consumers if there are any. A tuple, because the garbage collector stops tracking tuples of numbers and names.
GroupState = tuple[bytes, StreamID, int | None, int | None, int, int, Listing, list[ConsumerRow] | None]
NOTHING: Final[Listing] = (0, b"")


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
        pending.list_times(count) if pending_count else NOTHING,
        pending.list_consumers(group.sorted_consumers(), count) if group.consumers else None,
    )


def _group_row(state: GroupState, protocol: int) -> tuple[bytes | int | tuple[bytes, ...] | None, ...]:
    name, last_id, entries_read, lag, pending_count, released_count, pending, consumers = state
    return (
        name,
        format_id(last_id),
        entries_read,
        lag,
        pending_count,
        released_count,
        _listed(pending),
        (FULL_CONSUMER_FORMS[protocol].encode_array(consumers or []),),
    )


def _listed(listing: Listing) -> tuple[bytes, bytes]:
    return b"*%d\r\n" % listing[0], listing[1]


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
    rows = [
        (
            group.name,
            len(group.consumers),
            len(group.pending),
            format_id(group.last_id),
            _entries_read(group),
            stream.lag(group),
        )
        for group in stream.sorted_groups()
    ]
    return maps_of(rows, GROUP_FORMS[context.client.protocol])


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
    rows = idle_states(group.sorted_consumers(), context.now_ms)
    return maps_of(rows, CONSUMER_FORMS[context.client.protocol])


HELP = status_lines(
    (
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
    return HELP
