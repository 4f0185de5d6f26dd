"""The stream itself: XADD, XLEN, XRANGE, XREVRANGE, XDEL, XDELEX, XSETID."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..protocol.packing import BULK_HEADERS, pack_added, pack_command
from ..protocol.replies import NULL_ARRAY, Reply
from ..store import events
from ..store.errors import GenericError, no_such_key, syntax_error, wrong_number_of_arguments
from ..store.idempotence import automatic_iid
from ..store.ids import StreamID, format_id, parse_id, parse_ids, parse_range_end, parse_range_start
from ..store.stream import References, Stream
from ..store.trimming import Trim, default_limit, trim
from .context import Context
from .numbers import integer
from .stream_trim import (
    REFERENCE_ARGUMENT,
    REFERENCE_WORDS,
    TRIM_STRATEGY_ARGUMENTS,
    StreamOptions,
    exact_record,
    log_acked_trim,
    require_pairs,
    scan_options,
)
from .table import FIRST_KEY_READ, Argument, Flag, KeySpec, command

INT64_DIGITS: Final = 19
"""Of the longest number; with fewer, any number fits."""
ENTRY_SIZE_MAX = 2**30
"""Sum of all field and value bytes of one entry."""

KEY_ARGUMENT = Argument("key", "key", key_spec_index=0)
PAIRS_ARGUMENT = Argument("data", "block", multiple=True, arguments=(Argument("field"), Argument("value")))
COUNT_ARGUMENT = Argument("count", "integer", token="COUNT", optional=True)
IDS_ARGUMENT = Argument(
    "ids", "block", token="IDS", arguments=(Argument("numids", "integer"), Argument("id", "string", multiple=True))
)


@command(
    "XADD",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Appends an entry to a stream, creating the stream if need be.",
    complexity="O(1) to add; trimming costs O(N) in the number of entries removed.",
    arguments=(
        KEY_ARGUMENT,
        Argument("nomkstream", "pure-token", token="NOMKSTREAM", optional=True, since="6.2.0"),
        REFERENCE_ARGUMENT,
        Argument(
            "idmp",
            "oneof",
            optional=True,
            since="8.6.0",
            arguments=(
                Argument("pid", "string", token="IDMPAUTO"),
                Argument("idmp", "block", token="IDMP", arguments=(Argument("pid"), Argument("iid"))),
            ),
        ),
        Argument("trim", "block", optional=True, arguments=TRIM_STRATEGY_ARGUMENTS),
        Argument(
            "id-selector",
            "oneof",
            arguments=(Argument("auto-id", "pure-token", token="*"), Argument("id", "string")),
        ),
        PAIRS_ARGUMENT,
    ),
    history=(
        ("6.2.0", "Added the `NOMKSTREAM`, `MINID` and `LIMIT` options."),
        ("7.0.0", "Added the `<ms>-*` form of the ID."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
    ),
    tips=("nondeterministic_output",),
    differs="An IDMP duplicate is not logged, and a new IDMP entry is logged as XADD plus XIDMPRECORD: "
    "a restart loses no entry whose idempotent ID was used again.",
)
def xadd(context: Context, argv: list[bytes]) -> Reply:
    """XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid]
    [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | ms-* | id> field value [field value ...]

    Returns the entry's ID; null with NOMKSTREAM when the key is missing. Raises WrongType, GenericError.
    Source: redis.io/commands/xadd, Redis 8.6.
    """
    # `XADD key * field value ...` is the hot form (benchmark rows XADD): it needs no option scan.
    if argv[2] != b"*":
        return _xadd_with_options(context, argv)
    if not len(argv) & 1:
        raise wrong_number_of_arguments(b"xadd")
    key, db = argv[1], context.db
    stream = db.get_stream(key, context.now_ms)
    is_new = stream is None
    if stream is None:
        stream = Stream(context.stream_limits)
        stream.used_ms = context.now_ms
    entry_id = stream.next_id(context.now_ms)
    id_text = format_id(entry_id)
    id_bulk = BULK_HEADERS[len(id_text)] + id_text + b"\r\n"
    entry, record = pack_added(argv, 3, id_bulk)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[3:])
    if is_new:
        db.put(key, stream)
    stream.append(entry_id, entry)
    context.effects.append((db.index, record))
    if db.is_observed:
        db.touch(key, events.XADD)
    db.ready[key] = None
    return (id_bulk,)


def _is_plainly_capped(context: Context, argv: list[bytes]) -> bool:
    """Whether this is `XADD key MAXLEN ~ n * field value ...` with nothing to find fault with."""
    return (
        len(argv) >= 8
        and argv[5] == b"*"
        and argv[3] == b"~"
        and argv[2] in (b"MAXLEN", b"maxlen")
        and not len(argv) & 1
        and argv[4].isdigit()
        and len(argv[4]) < INT64_DIGITS
        and not context.loading
    )


def _xadd_capped(context: Context, argv: list[bytes], stream: Stream) -> Reply:
    """`XADD key MAXLEN ~ n * field value ...` on a stream that is there: most bounded streams are fed by nothing else
    (benchmark row XADD MAXLEN ~)."""
    db, key = context.db, argv[1]
    entry_id = stream.next_id(context.now_ms)
    id_text = format_id(entry_id)
    id_bulk = BULK_HEADERS[len(id_text)] + id_text + b"\r\n"
    entry, _ = pack_added(argv, 6, id_bulk)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[6:])
    stream.append(entry_id, entry)
    removed, _ = trim(stream, _cap(argv[4], default_limit(context.stream_limits.node_entries_max)))
    db.touch(key, events.XADD)
    if removed:
        db.announce(events.XTRIM, key)
    db.signal_ready(key)
    context.log(argv[0], key, argv[2], b"=", b"%d" % stream.log.length, id_text, *argv[6:])
    return (id_bulk,)


@lru_cache(maxsize=256)
def _cap(threshold: bytes, limit: int) -> Trim:
    """What `MAXLEN ~ threshold` asks for. Nobody changes it."""
    return Trim(length_max=int(threshold), approximate=True, limit=limit)


def _is_plain_idempotent(context: Context, argv: list[bytes]) -> bool:
    """Whether this is `XADD key IDMP pid iid * field value ...` with nothing to find fault with."""
    return (
        len(argv) >= 8
        and argv[2] == b"IDMP"
        and argv[5] == b"*"
        and not len(argv) & 1
        and bool(argv[3] and argv[4])
        and not context.loading
    )


def _xadd_idempotent(context: Context, argv: list[bytes], stream: Stream) -> Reply:
    """`XADD key IDMP pid iid * field value ...` on a stream that is there.

    Producers that repeat themselves send nothing else, and a lot of it (`benchmarks.pipeline`, row sink).
    """
    db, key, producer_id, iid = context.db, argv[1], argv[3], argv[4]
    known_id = stream.idempotence.find(producer_id, iid)
    if known_id is not None:
        stream.idempotence.duplicates += 1
        return format_id(known_id)
    entry_id = stream.next_id(context.now_ms)
    id_text = format_id(entry_id)
    entry, record = pack_added(argv, 6, b"%b%b\r\n" % (BULK_HEADERS[len(id_text)], id_text))
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[6:])
    stream.append(entry_id, entry)
    stream.idempotence.record(producer_id, iid, entry_id)
    db.touch(key, events.XADD)
    db.signal_ready(key)
    if context.logging:
        # As `_log_add` has it: the entry, and what it is known by as a record of its own.
        context.effects.append((db.index, record))
        context.effects.append((db.index, pack_command((b"XIDMPRECORD", key, producer_id, iid, id_text))))
    else:
        context.unlogged_count += 2
    return id_text


def _xadd_with_options(context: Context, argv: list[bytes]) -> Reply:
    is_capped = _is_plainly_capped(context, argv)
    if is_capped or _is_plain_idempotent(context, argv):
        known_stream = context.db.get_stream(argv[1], context.now_ms)
        if known_stream is not None:
            return (_xadd_capped if is_capped else _xadd_idempotent)(context, argv, known_stream)
    options = scan_options(argv, is_add=True, context=context)
    require_pairs(argv, options.id_index + 1)
    pairs = argv[options.id_index + 1 :]
    if options.entry_id == 0:
        raise GenericError(b"The ID specified in XADD must be greater than 0-0")
    key = argv[1]
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None and options.no_create:
        return None
    is_new = stream is None
    if stream is None:
        stream = Stream(context.stream_limits)
        stream.used_ms = context.now_ms
    iid = b""
    if options.producer_id is not None:
        iid = automatic_iid(pairs) if options.iid is None else options.iid
        known_id = stream.idempotence.find(options.producer_id, iid)
        if known_id is not None and options.entry_id is not None:
            # Only a log names the ID: the pair was used again, so the first use had expired by then.
            stream.idempotence.forget(options.producer_id, iid)
        elif known_id is not None:
            stream.idempotence.duplicates += 1
            return format_id(known_id)
    entry_id = _choose_id(stream, options, context.now_ms)
    stream.require_new_id(entry_id)
    _require_entry_size(pairs)
    if is_new:
        context.db.put(key, stream)
    id_text = format_id(entry_id)
    stream.append(entry_id, b"*2\r\n" + pack_command((id_text,))[4:] + pack_command(pairs))
    if options.producer_id is not None:
        stream.idempotence.record(options.producer_id, iid, entry_id)
    removed, trimmed_to = trim(stream, options.trim) if options.trim is not None else (0, 0)
    context.db.touch(key, events.XADD)
    if removed:
        context.db.announce(events.XTRIM, key)
    context.db.signal_ready(key)
    _log_add(context, argv, options, stream, id_text, iid, trimmed_to)
    return id_text


def _choose_id(stream: Stream, options: StreamOptions, now_ms: int) -> StreamID:
    if options.entry_id is not None:
        return options.entry_id
    if options.id_ms is not None:
        if options.id_ms == 0 and not stream.last_id:
            return 1  # 0-0 is no entry's ID
        return stream.next_id_in(options.id_ms)
    return stream.next_id(now_ms)


def _require_entry_size(pairs: list[bytes] | tuple[bytes, ...]) -> None:
    if sum(map(len, pairs)) > ENTRY_SIZE_MAX:
        raise GenericError(b"Elements are too large to be stored")


def _log_add(
    context: Context,
    argv: list[bytes],
    options: StreamOptions,
    stream: Stream,
    id_text: bytes,
    iid: bytes,
    trimmed_to: StreamID,
) -> None:
    """Record an XADD: final ID, exact trimming, and idempotence as a record of its own.

    Redis logs `XADD .. IDMP pid iid id`. After the pair has expired and is used again, a replay takes the second
    one for a duplicate and drops an acknowledged entry; with the pair apart, the entry always comes back.
    """
    record = exact_record(argv, options, stream, trimmed_to)
    record[options.id_index] = id_text
    acked = options.trim is not None and options.trim.references is References.ACKED
    if acked or options.producer_id is not None:
        record = _without_options(record, options, keep_trim=not acked)
    context.log(*record)
    if acked and trimmed_to:
        log_acked_trim(context, argv[1], trimmed_to)
    if options.producer_id is not None:
        context.log(b"XIDMPRECORD", argv[1], options.producer_id, iid, id_text)


def _without_options(record: list[bytes], options: StreamOptions, *, keep_trim: bool) -> list[bytes]:
    """The command without idempotence, and without trimming unless told to keep it."""
    kept: list[bytes] = []
    if keep_trim and options.trim is not None:
        word = b"MAXLEN" if options.trim.length_max is not None else b"MINID"
        kept = [word, b"=", record[options.threshold_index]]
        if options.trim.references is not References.KEEP:
            kept.append(options.trim.references.value)
    return [*record[:2], *kept, *record[options.id_index :]]


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
    """XLEN key. Returns the number of live entries, 0 if the key is missing. Source: Redis 5.0."""
    stream = context.db.read_stream(argv[1], context.now_ms)
    return 0 if stream is None else len(stream)


def _parse_count(argv: list[bytes]) -> int | None:
    """[COUNT n], repeatable, the last one wins; None if not given."""
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

    Returns entries with start <= ID <= end; null array for a count below 1. Raises WrongType, GenericError.
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
    """XREVRANGE key end start [COUNT count]: XRANGE from the end down. Source: Redis 6.2."""
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
    summary="Deletes entries by ID; pending entries of them stay.",
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
    ids = parse_ids(argv, 2)
    deleted = sum(stream.delete(entry_id) for entry_id in ids)
    if deleted:
        context.db.touch(argv[1], events.XDEL)
        context.log(*argv)
    return deleted


def parse_ids_options(argv: list[bytes], first: int) -> tuple[References, list[bytes]]:
    """[KEEPREF | DELREF | ACKED] and IDS numids id [id ...], in either order (XDELEX, XACKDEL): mode and raw IDs."""
    references: References | None = None
    tokens: list[bytes] | None = None
    index = first
    while index < len(argv):
        word = argv[index].upper()
        if word in REFERENCE_WORDS and references is None:
            references = REFERENCE_WORDS[word]
            index += 1
        elif word == b"IDS" and index + 1 < len(argv):
            count = _parse_ids_count(argv[index + 1])
            if count > len(argv) - index - 2:
                raise GenericError(b"The `numids` parameter must match the number of arguments")
            tokens = argv[index + 2 : index + 2 + count]
            index += 2 + count
        else:
            raise syntax_error()
    if tokens is None:
        raise GenericError(b"IDS option is required")
    return references or References.KEEP, tokens


def _parse_ids_count(token: bytes) -> int:
    message = b"Number of IDs must be a positive integer"
    try:
        count = integer(token)
    except GenericError:
        raise GenericError(message) from None
    if count < 1:
        raise GenericError(message)
    return count


@command(
    "XDELEX",
    arity=-5,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("stream",),
    group="stream",
    since="8.2.0",
    summary="Deletes entries by ID, saying what becomes of their pending entries.",
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
    ids = parse_ids(tokens)
    results: list[int] = []
    dropped = False
    for entry_id in ids:
        if references is References.DELETE:
            dropped |= any(entry_id in group.pending for group in stream.groups.values())
            stream.drop_references(entry_id)
        if references is References.ACKED and stream.is_referenced(entry_id):
            results.append(2)
        else:
            results.append(1 if stream.delete(entry_id) else -1)
    if 1 in results:
        context.db.touch(argv[1], events.XDEL)
    if 1 in results or dropped:
        context.log(*argv)
    return results


@command(
    "XSETID",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Sets a stream's last ID and counters; for replication and rewriting.",
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
    context.log(*argv)
    return (b"+OK\r\n",)


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
