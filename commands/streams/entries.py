"""Commands on the entries of a stream: XLEN, XRANGE, XREVRANGE, XDEL, XDELEX, XSETID."""

from __future__ import annotations

from typing import Final

from ...persistence.grammar.kept import STREAMS
from ...persistence.grammar.streams import read_streams
from ...protocol.replies import NULL_ARRAY, Reply
from ...store import events
from ...store.errors import GenericError, no_such_key, syntax_error
from ...store.ids import StreamID, parse_id, parse_ids, parse_range_end, parse_range_start
from ...store.stream import References, Stream
from ...store.value import Value
from ..core.numbers import integer, parse_integer
from ..core.table import FIRST_KEY_READ, Argument, Flag, KeySpec, command, run_form
from ..execution.context import Context
from ..policies.turns import note_deleted
from .trim import REFERENCE_ARGUMENT, REFERENCE_WORDS

KEY_ARGUMENT = Argument("key", "key", key_spec_index=0)
KEEP: Final = References.KEEP
DELETE: Final = References.DELETE
ACKED: Final = References.ACKED

NUMIDS_MISMATCH: Final = b"The `numids` parameter must match the number of arguments"

COUNT_ARGUMENT = Argument("count", "integer", token="COUNT", optional=True)
IDS_ARGUMENT = Argument(
    "ids", "block", token="IDS", arguments=(Argument("numids", "integer"), Argument("id", "string", multiple=True))
)


@command(
    "XLEN",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Counts the entries of a stream.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def xlen(context: Context, argv: list[bytes]) -> Reply:
    """XLEN key. Returns the number of entries; 0 if the key is missing. Source: Redis 5.0."""
    stream = context.db.read_stream(argv[1], context.now_ms)
    return 0 if stream is None else len(stream)


def _parse_count(argv: list[bytes]) -> int | None:
    """Parses `[COUNT n] ...` and returns the last count; None if there is none."""
    count = None
    index = 4
    while index < len(argv):
        if argv[index].upper() != b"COUNT" or index + 1 == len(argv):
            raise syntax_error()
        count = integer(argv[index + 1])
        index += 2
    return count


@command(
    "XRANGE",
    arity=-4,
    flags=Flag.READONLY,
    keys=FIRST_KEY_READ,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists entries within a range of IDs, ascending.",
    complexity="O(N) in the number of entries returned.",
    arguments=(KEY_ARGUMENT, Argument("start"), Argument("end"), COUNT_ARGUMENT),
    history=(("6.2.0", "Added exclusive range ends."),),
)
def xrange(context: Context, argv: list[bytes]) -> Reply:
    """XRANGE key start end [COUNT count]

    Returns the entries with start <= ID <= end; a null array if count is below 1. Raises WrongType, GenericError.
    Source: redis.io/commands/xrange, Redis 6.2.
    """
    start, end = parse_range_start(argv[2]), parse_range_end(argv[3])
    count = _parse_count(argv)
    stream = context.db.read_stream(argv[1], context.now_ms)
    if stream is None:
        return []
    if count is not None and count <= 0:
        return NULL_ARRAY
    taken, pieces = stream.log.read(start, end, -1 if count is None else count)
    return (b"*%d\r\n" % taken, *pieces)


@command(
    "XREVRANGE",
    arity=-4,
    flags=Flag.READONLY,
    keys=FIRST_KEY_READ,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists entries within a range of IDs, descending.",
    complexity="O(N) in the number of entries returned.",
    arguments=(KEY_ARGUMENT, Argument("end"), Argument("start"), COUNT_ARGUMENT),
    history=(("6.2.0", "Added exclusive range ends."),),
)
def xrevrange(context: Context, argv: list[bytes]) -> Reply:
    """XREVRANGE key end start [COUNT count]

    Returns the entries with start <= ID <= end, the largest ID first; a null array if count is below 1.
    Raises WrongType, GenericError. Source: Redis 6.2.
    """
    start, end = parse_range_start(argv[3]), parse_range_end(argv[2])
    count = _parse_count(argv)
    stream = context.db.read_stream(argv[1], context.now_ms)
    if stream is None:
        return []
    if count is not None and count <= 0:
        return NULL_ARRAY
    taken, pieces = stream.log.read_back(start, end, -1 if count is None else count)
    return (b"*%d\r\n" % taken, *pieces)


@command(
    "XDEL",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Deletes entries by ID; they stay in the pending lists of groups.",
    complexity="O(log N) for each ID.",
    arguments=(KEY_ARGUMENT, Argument("id", "string", multiple=True)),
)
def xdel(context: Context, argv: list[bytes]) -> Reply:
    """XDEL key id [id ...]

    Returns the number of entries deleted. Raises WrongType, GenericError. Source: redis.io/commands/xdel, Redis 5.0.
    """
    stream = context.db.get_stream(argv[1], context.now_ms)
    if stream is None:
        return 0
    deleted = 0
    for entry_id in parse_ids(argv, 2):
        if stream.delete(entry_id):
            deleted += 1
    if deleted:
        context.db.touch(argv[1], events.XDEL)
        context.log_words(argv, deleted)
        if stream.heeds_deletions:
            note_deleted(context, argv[1], stream, parse_ids(argv, 2))
    return deleted


def parse_ids_options(argv: list[bytes], first: int) -> tuple[References, list[bytes]]:
    """Parses [KEEPREF | DELREF | ACKED] and IDS numids id [id ...], in either order, for XDELEX and XACKDEL.

    Returns the mode and the unparsed IDs. Raises GenericError.
    """
    if argv[first] == b"IDS" and parse_integer(argv[first + 1]) == len(argv) - first - 2:
        return KEEP, argv[first + 2 :]  # the usual form (benchmark row XACKDEL)
    references: References | None = None
    tokens: list[bytes] | None = None
    index = first
    while index < len(argv):
        word = argv[index].upper()
        if word == b"IDS" and index + 1 < len(argv):
            count = parse_ids_count(argv[index + 1])
            if count > len(argv) - index - 2:
                raise GenericError(NUMIDS_MISMATCH)
            tokens = argv[index + 2 : index + 2 + count]
            index += 2 + count
        elif references is None and word in REFERENCE_WORDS:
            references = REFERENCE_WORDS[word]
            index += 1
        else:
            raise syntax_error()
    # The arity leaves no room for a request without IDS that is not a syntax error.
    assert tokens is not None
    return KEEP if references is None else references, tokens


def parse_ids_count(token: bytes) -> int:
    """Parses `numids`. Raises GenericError."""
    count = parse_integer(token)
    if count is None or count < 1:
        raise GenericError(b"Number of IDs must be a positive integer")
    return count


@command(
    "XDELEX",
    arity=-5,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("stream",),
    group="stream",
    since="8.2.0",
    summary="Deletes entries by ID, with a mode for entries that are pending in groups.",
    complexity="O(log N) for each ID, times the groups for DELREF and ACKED.",
    arguments=(KEY_ARGUMENT, REFERENCE_ARGUMENT, IDS_ARGUMENT),
)
def xdelex(context: Context, argv: list[bytes]) -> Reply:
    """XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]

    Returns for each ID 1 (deleted), -1 (no such entry) or 2 (ACKED: still referenced). Raises WrongType, GenericError.
    Source: redis.io/commands/xdelex, Redis 8.2.
    """
    stream = context.db.get_stream(argv[1], context.now_ms)
    references, tokens = parse_ids_options(argv, 2)
    if stream is None:
        return [-1] * len(tokens)
    results: list[int] = []
    dropped, deleted = False, 0
    for entry_id in parse_ids(tokens):
        if references is DELETE and stream.drop_references(entry_id):
            dropped = True
        if references is ACKED and stream.is_referenced(entry_id):
            results.append(2)
        elif stream.delete(entry_id):
            results.append(1)
            deleted += 1
        else:
            results.append(-1)
    if deleted:
        context.db.touch(argv[1], events.XDEL)
    if deleted or dropped:
        context.log_words(argv, deleted)
        if stream.heeds_deletions:
            note_deleted(context, argv[1], stream, parse_ids(tokens))
    return results


@command(
    "XSETID",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Sets a stream's last ID and counters; used by the log.",
    complexity="O(1)",
    arguments=(
        KEY_ARGUMENT,
        Argument("last-id"),
        Argument("entries-added", "integer", token="ENTRIESADDED", optional=True, since="7.0.0"),
        Argument("max-deleted-id", "string", token="MAXDELETEDID", optional=True, since="7.0.0"),
    ),
    history=(("7.0.0", "Added the `ENTRIESADDED` and `MAXDELETEDID` arguments."),),
)
def xsetid(context: Context, argv: list[bytes]) -> Reply:
    """XSETID key last-id [ENTRIESADDED n] [MAXDELETEDID id]

    Returns OK. Raises WrongType, GenericError. Source: redis.io/commands/xsetid, Redis 7.0.
    """
    last_id = parse_id(argv[2])
    entries_added, max_deleted_id = _parse_setid_options(argv, last_id)
    stream = context.db.get_stream(argv[1], context.now_ms)
    if stream is None:
        raise no_such_key()
    if last_id < stream.max_deleted_id:
        raise GenericError(b"The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if len(stream) and last_id < stream.log.last_id:
        raise GenericError(b"The ID specified in XSETID is smaller than the target stream top item")
    if entries_added is not None and entries_added < len(stream):
        raise GenericError(b"The entries_added specified in XSETID is smaller than the target stream length")
    stream.set_last_id(last_id)
    if entries_added is not None:
        stream.entries_added = entries_added
    if max_deleted_id:
        stream.max_deleted_id = max_deleted_id
    context.db.announce(events.XSETID, argv[1])
    context.log_words(argv)
    return (b"+OK\r\n",)


@run_form("XSETID", STREAMS)
def add_streams(context: Context, run: list[bytes]) -> bool:
    """Adds the streams of `[STREAMS, b"", sent, count]`, records of new keys with few entries, while a log is loaded.

    It is only valid while no client watches or waits for the keys. Returns False, and changes nothing, if one of the
    keys exists.
    """
    db, limits, now_ms = context.db, context.limits, context.now_ms
    streams = read_streams(run, limits.idmp_duration_s, limits.idmp_entries_max)
    values: list[tuple[bytes, Value, int | None]] = []
    for key, short in streams:
        stream = Stream.of_short(short, limits)
        stream.used_ms = now_ms
        values.append((key, stream, None))
    if any(key in db.keys for key, _ in streams) or len({key for key, _ in streams}) < len(streams):
        return False
    db.add_many(values)
    return True


def _parse_setid_options(argv: list[bytes], last_id: StreamID) -> tuple[int | None, StreamID]:
    entries_added: int | None = None
    max_deleted_id: StreamID = 0
    for index in range(3, len(argv), 2):
        word = argv[index].upper()
        if index + 1 == len(argv) or word not in (b"ENTRIESADDED", b"MAXDELETEDID"):
            raise syntax_error()
        if word == b"ENTRIESADDED":
            entries_added = integer(argv[index + 1])
            if entries_added < 0:
                raise GenericError(b"entries_added must be positive")
        else:
            max_deleted_id = parse_id(argv[index + 1])
            if last_id < max_deleted_id:
                raise GenericError(b"The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
    return entries_added, max_deleted_id
