"""Commands on pending entries: XACK, XACKDEL, XPENDING; and the group lookup that all commands on them share."""

from __future__ import annotations

from ...protocol.replies import NULL_ARRAY, Reply
from ...store import events
from ...store.errors import NoGroup, WrongType, syntax_error
from ...store.group import Group
from ...store.ids import parse_ids, parse_range_end, parse_range_start
from ...store.pending import Consumer
from ...store.stream import Stream
from ...store.value import Value
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..policies.handing import note_dropped
from ..policies.turns import note_deleted
from .entries import ACKED, DELETE, IDS_ARGUMENT, KEY_ARGUMENT, parse_ids_options
from .trim import REFERENCE_ARGUMENT

WRITE_KEY = (KeySpec(1, 1, 1, ("RW", "update")),)
GROUP_ARGUMENT = Argument("group")


def find_group(context: Context, key: bytes, name: bytes) -> tuple[Stream, Group] | None:
    """Returns the stream and its group; None if either is missing. Counts a hit or a miss. Raises WrongType."""
    return with_group(context.db.read_stream(key, context.now_ms), name)


def with_group(stream: Stream | None, name: bytes) -> tuple[Stream, Group] | None:
    group = None if stream is None else stream.find_group(name)
    return None if stream is None or group is None else (stream, group)


def require_group(context: Context, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """Returns the stream and its group, and counts a hit or a miss. Raises WrongType, NoGroup."""
    return group_of(context.db.read(key, context.now_ms), key, name)


def group_of(value: Value | None, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """Returns `value`, which was read from `key`, as a stream, and its group. Raises WrongType, NoGroup."""
    if value is not None and not isinstance(value, Stream):
        raise WrongType
    found = with_group(value, name)
    if found is None:
        raise NoGroup.for_key(key, name)
    return found


@command(
    "XACK",
    arity=-4,
    flags=Flag.WRITE | Flag.FAST,
    keys=WRITE_KEY,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Acknowledges entries: they leave the group's pending list.",
    complexity="O(1) for each ID.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, Argument("id", "string", multiple=True)),
)
def xack(context: Context, argv: list[bytes]) -> Reply:
    """XACK key group id [id ...]. Returns the number of pending entries removed. Raises WrongType, GenericError.

    Source: redis.io/commands/xack, Redis 5.0.
    """
    found = find_group(context, argv[1], argv[2])
    if found is None:
        return 0
    pending = found[1].pending
    acknowledged = pending.drop_all(parse_ids(argv, 3))
    if acknowledged:
        pending.acked_total += acknowledged
        context.log_words(argv, acknowledged)
        if pending.rules is not None:
            note_dropped(context, argv[1], found[1])
    return acknowledged


@command(
    "XACKDEL",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update", "delete")),),
    categories=("stream",),
    group="stream",
    since="8.2.0",
    summary="Acknowledges entries and deletes them from the stream.",
    complexity="O(log N) for each ID, times the groups for DELREF and ACKED.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, REFERENCE_ARGUMENT, IDS_ARGUMENT),
)
def xackdel(context: Context, argv: list[bytes]) -> Reply:
    """XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]

    Returns for each ID 1 (acknowledged and deleted), -1 (not pending here) or 2 (ACKED: still referenced elsewhere).
    Raises WrongType, GenericError. Source: redis.io/commands/xackdel, Redis 8.2.
    """
    found = find_group(context, argv[1], argv[2])
    references, tokens = parse_ids_options(argv, 3)
    if found is None:
        return [-1] * len(tokens)
    stream, group = found
    results: list[int] = []
    deleted, acknowledged = False, 0
    for entry_id in parse_ids(tokens):
        if not group.pending.drop(entry_id):
            results.append(-1)
            continue
        acknowledged += 1
        if references is DELETE:
            stream.drop_references(entry_id)
        if references is ACKED and stream.is_referenced(entry_id):
            results.append(2)
            continue
        if stream.delete(entry_id):
            deleted = True
        results.append(1)
    if deleted:
        context.db.touch(argv[1], events.XDEL)
    if acknowledged:
        group.pending.acked_total += acknowledged
        context.log_words(argv, acknowledged)
        if group.pending.rules is not None:
            note_dropped(context, argv[1], group)
        if stream.heeds_deletions:
            note_deleted(context, argv[1], stream, parse_ids(tokens))
    return results


# -- XPENDING --------------------------------------------------------------------------------------


@command(
    "XPENDING",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Shows the pending entries of a group: a summary, or each entry.",
    complexity="O(N) in the number of entries returned or passed over; the summary is O(consumers).",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        Argument(
            "filters",
            "block",
            optional=True,
            arguments=(
                Argument("min-idle-time", "integer", token="IDLE", optional=True, since="6.2.0"),
                Argument("start"),
                Argument("end"),
                Argument("count", "integer"),
                Argument("consumer", "string", optional=True),
            ),
        ),
    ),
    history=(("6.2.0", "Added the `IDLE` option and exclusive range ends."),),
    tips=("nondeterministic_output",),
)
def xpending(context: Context, argv: list[bytes]) -> Reply:
    """XPENDING key group [[IDLE min-idle-ms] start end count [consumer]]

    Without a range, returns the number of entries, their smallest and largest ID, and the number of each consumer. With
    a range, returns ID, consumer, idle time in ms and delivery count of each entry (released: consumer "", idle -1).
    Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xpending, Redis 6.2.
    """
    if len(argv) == 3:
        return _pending_summary(require_group(context, argv[1], argv[2])[1])
    if not 6 <= len(argv) <= 9:
        raise syntax_error()
    min_idle_ms, first = 0, 3
    if argv[3].upper() == b"IDLE":
        min_idle_ms = integer(argv[4])
        if len(argv) < 8:
            raise syntax_error()
        first = 5
    count = integer(argv[first + 2])
    start, end = parse_range_start(argv[first]), parse_range_end(argv[first + 1])
    _, group = require_group(context, argv[1], argv[2])
    consumer: Consumer | None = None
    if len(argv) > first + 3:
        consumer = group.consumers.get(argv[first + 3])
        if consumer is None:
            return []
    now_ms = context.now_ms
    if count <= 0 or is_nothing_idle(group, min_idle_ms, now_ms):
        return []
    taken, rows = group.pending.list_idle(start, end, count, now_ms=now_ms, idle_ms_min=min_idle_ms, consumer=consumer)
    return (b"*%d\r\n" % taken, rows)


def _pending_summary(group: Group) -> Reply:
    if not len(group.pending):
        return [0, None, None, NULL_ARRAY]
    return (group.pending.summary(group.sorted_consumers()),)


def is_nothing_idle(group: Group, min_idle_ms: int, now_ms: int) -> bool:
    """Whether even the oldest delivery is younger than `min_idle_ms`, so that no entry needs a check."""
    if not min_idle_ms or group.pending.released:
        return False
    oldest_ms = group.pending.oldest_time_ms()
    return oldest_ms is None or now_ms - oldest_ms < min_idle_ms
