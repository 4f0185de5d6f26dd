"""XADD, with fast paths for the forms that producers send most."""

from __future__ import annotations

from functools import lru_cache

from ...persistence.grammar.kept import ADDITION, ADDITIONS
from ...persistence.grammar.streams import (
    pack_added,
    pack_sent,
    read_added,
    record_sent,
    without_options,
    words_of,
)
from ...protocol.packing import pack_command
from ...protocol.replies import Reply
from ...store import events
from ...store.chunk import Body
from ...store.errors import GenericError, wrong_number_of_arguments
from ...store.idempotence import automatic_iid
from ...store.ids import SEQ_BITS, SEQ_MASK, StreamID, format_id, read_id
from ...store.stream import References, Stream
from ...store.trimming import Trim, default_limit, trim
from ..core.table import Argument, Flag, KeySpec, command, run_form, sent_form
from ..execution.context import Context
from ..policies.later import delay_added
from ..policies.turns import note_deleted
from .entries import KEY_ARGUMENT
from .trim import (
    REFERENCE_ARGUMENT,
    TRIM_STRATEGY_ARGUMENTS,
    StreamOptions,
    exact_record,
    log_acked_trim,
    require_pairs,
    scan_options,
)

# Maximum size in bytes of all fields and values of one entry.
ENTRY_SIZE_MAX = 2**30


class NoOwnId(GenericError):
    """An effect has no complete ID. IDs are made by the server that a client has asked, and by no replica.

    Redis sends an idempotent addition that was a duplicate. It has no ID, and adds nothing where its pair is known.
    Where the pair has expired by now, an ID of this server's clock would part the two datasets.
    """

    def __init__(self) -> None:
        super().__init__(b"The primary sent an XADD without an ID, and its idempotent ID is not known any more")


DUE_ARGUMENT = Argument(
    "due",
    "oneof",
    optional=True,
    since="headrace 0.1",
    arguments=(
        Argument("milliseconds", "integer", token="DELAY"),
        Argument("unix-time-milliseconds", "unix-time", token="AT"),
    ),
)
PAIRS_ARGUMENT = Argument("data", "block", multiple=True, arguments=(Argument("field"), Argument("value")))


@command(
    "XADD",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(
        KeySpec(1, 1, 1, ("RW", "update"), note="UPDATE instead of INSERT because of the optional trimming feature"),
    ),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Appends an entry to a stream; creates the stream if it does not exist.",
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
        DUE_ARGUMENT,
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
    differs="An IDMP duplicate is not logged. A pair that is used again after it has expired adds an entry when a log "
    "is read as well, where Redis takes it for a duplicate and loses the entry. `DELAY` and `AT` are not in Redis: the "
    "log gets XADD and a line with the due time, which Redis skips.",
)
def xadd(context: Context, argv: list[bytes]) -> Reply:
    """XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid]
    [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] [DELAY ms | AT unix-ms] <* | id> field value [field value ...]

    The server completes an ID of the form `ms-*`. With DELAY or AT, the entry is in the stream at once, but consumer
    groups do not hand it out before that time.

    Returns the entry's ID; null with NOMKSTREAM when the key is missing. Raises WrongType, GenericError.
    Source: redis.io/commands/xadd, Redis 8.6.
    """
    # `XADD key * field value ...` is the most frequent form and needs no option scan (benchmark rows XADD).
    if argv[2] != b"*":
        if context.client.is_primary:
            return _xadd_of_primary(context, argv)
        return _xadd_with_options(context, argv)
    if not len(argv) & 1:
        raise wrong_number_of_arguments(b"xadd")
    if context.client.is_primary:
        raise NoOwnId()
    key, db = argv[1], context.db
    stream = db.get_stream(key, context.now_ms)
    is_new = stream is None
    if stream is None:
        stream = _new_stream(context)
    id_bulk, record = _append_next(context, stream, argv, 2, 3)
    if is_new:
        db.add(key, stream)
    _log_and_notify(context, key, record)
    return (id_bulk,)


@sent_form("XADD", ADDITION)
def xadd_sent(context: Context, request: list[bytes]) -> Reply:
    """Runs `XADD key [MAXLEN ~ cap] * field value ...`, which the reader passes as `[ADDITION, key, sent, cap]`.

    Returns the ID of the new entry. Raises WrongType, GenericError.
    """
    key, cap, db = request[1], request[3], context.db
    stream = db.get_stream(key, context.now_ms)
    is_new = stream is None
    if stream is None:
        stream = _new_stream(context)
    entry_id = stream.next_id(context.now_ms)
    id_bulk, entry = pack_sent(request, entry_id >> SEQ_BITS, entry_id & SEQ_MASK)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(words_of(request)[6 if cap else 3 :])
    record = b"" if cap else record_sent(request, id_bulk, 0)
    stream.append(entry_id, entry)
    if is_new:
        db.add(key, stream)
    removed = 0
    if cap:
        removed, _ = trim(stream, _cap(cap, default_limit(context.limits.node_entries_max)))
        record = record_sent(request, id_bulk, stream.log.length)
    _log_and_notify(context, key, record, removed)
    if removed and stream.heeds_deletions:
        note_deleted(context, key, stream)
    return (id_bulk,)


@run_form("XADD", ADDITIONS)
def add_run(context: Context, run: list[bytes]) -> bool:
    """Adds the entries of `[ADDITIONS, key, sent, count]`, consecutive XADD records of one key, while a log is loaded.

    It is only valid while no client watches or waits for the key. Returns False, and changes nothing, if the entries
    cannot be added together.
    """
    key, db = run[1], context.db
    value = db.keys.get(key)
    if value is not None and not isinstance(value, Stream):
        return False
    data, ms, seq, ends = read_added(run)
    if len(data) > ENTRY_SIZE_MAX:
        return False
    stream = _new_stream(context) if value is None else value
    added = Body.of_columns(data, ms, seq, ends)
    if added.id_at(0) <= stream.last_id:
        return False
    stream.append_run(added)
    stream.used_ms = context.now_ms
    if value is None:
        db.add(key, stream)
    return True


def _new_stream(context: Context) -> Stream:
    stream = Stream(context.limits)
    stream.used_ms = context.now_ms
    return stream


def _xadd_of_primary(context: Context, argv: list[bytes]) -> Reply:
    """Runs `XADD key [MAXLEN = count] id field value ...` on an existing stream, and returns the entry's ID. Of other
    forms, it does what `_xadd_with_options` does.

    A primary sends almost only these forms, and they are their own records (benchmark rows of replicas).
    """
    id_at = 5 if argv[2] == b"MAXLEN" and argv[3] == b"=" and argv[4].isdigit() and len(argv[4]) < 10 else 2
    entry_id = read_id(argv[id_at]) if len(argv) >= id_at + 3 and (len(argv) - id_at) % 2 else None
    if not entry_id or b"-" not in argv[id_at]:
        return _xadd_with_options(context, argv)
    stream = context.db.get_stream(argv[1], context.now_ms)
    if stream is None:
        return _xadd_with_options(context, argv)
    stream.require_new_id(entry_id)
    id_bulk, entry, record = pack_added(argv, id_at, id_at + 1, entry_id >> SEQ_BITS, entry_id & SEQ_MASK)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[id_at + 1 :])
    stream.append(entry_id, entry)
    removed = 0
    if id_at == 5 and len(stream) > (length_max := int(argv[4])):
        removed, _ = trim(stream, Trim(length_max=length_max))
    _log_and_notify(context, argv[1], record, removed)
    if removed and stream.heeds_deletions:
        note_deleted(context, argv[1], stream)
    return (id_bulk,)


def _log_and_notify(context: Context, key: bytes, record: bytes, removed: int = 0) -> None:
    """Logs an added entry, and notifies clients that watch or wait for the key. `removed` entries were trimmed."""
    db = context.db
    context.effects.append((db.index, record))
    if db.is_observed:
        if removed:
            db.announce(events.XADD, key)
        db.touch(key, events.XTRIM if removed else events.XADD)
    db.ready[key] = None


def _append_next(context: Context, stream: Stream, argv: list[bytes], id_at: int, pairs_at: int) -> tuple[bytes, bytes]:
    """Adds an entry with the next ID and the fields and values from `argv[pairs_at]` on.

    Returns the ID as a bulk string, and the record: the words before `argv[id_at]`, the ID, and the pairs. Raises
    GenericError if the entry is too large.
    """
    entry_id = stream.next_id(context.now_ms)
    id_bulk, entry, record = pack_added(argv, id_at, pairs_at, entry_id >> SEQ_BITS, entry_id & SEQ_MASK)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[pairs_at:])
    stream.append(entry_id, entry)
    return id_bulk, record


@lru_cache(maxsize=256)
def _cap(threshold: bytes, limit: int) -> Trim:
    """Returns the shared, unmodified trim request for `MAXLEN ~ threshold`."""
    return Trim(length_max=int(threshold), approximate=True, limit=limit)


def _known(context: Context, stream: Stream, known_id: StreamID) -> bytes:
    """The reply to an addition whose pair is known. WAIT and WAITAOF after it wait for the first addition, which
    another connection may have made: in Redis they wait for the duplicate, which is replicated.
    """
    stream.idempotence.duplicates += 1
    context.counted_apart += 1
    if not context.replaying:
        client, server = context.client, context.server
        client.write_offset = server.replicas.offset
        if server.storage.log is not None:
            client.write_mark = server.storage.log.mark
    return format_id(known_id)


def _is_simple_idempotent(context: Context, argv: list[bytes]) -> bool:
    """Whether the request is a valid `XADD key IDMP pid iid * field value ...` without other options."""
    return (
        len(argv) >= 8
        and argv[2] == b"IDMP"
        and argv[5] == b"*"
        and not len(argv) & 1
        and bool(argv[3] and argv[4])
        and not context.replaying
    )


def _xadd_idempotent(context: Context, argv: list[bytes], stream: Stream) -> Reply:
    """Runs `XADD key IDMP pid iid * field value ...` on an existing stream, and returns the entry's ID.

    Idempotent producers send almost only this form (`benchmarks.pipeline`, row sink).
    """
    key, producer_id, iid = argv[1], argv[3], argv[4]
    # An addition that fails because the IDs are exhausted registers its producer too, as in Redis.
    known_id = stream.idempotence.register(producer_id).get(iid)
    if known_id is not None:
        return _known(context, stream, known_id)
    id_bulk, record = _append_next(context, stream, argv, 5, 6)
    stream.idempotence.record(producer_id, iid, stream.last_id)
    _log_and_notify(context, key, record)
    return (id_bulk,)


def _xadd_with_options(context: Context, argv: list[bytes]) -> Reply:
    if _is_simple_idempotent(context, argv):
        known_stream = context.db.get_stream(argv[1], context.now_ms)
        if known_stream is not None:
            return _xadd_idempotent(context, argv, known_stream)
    options = scan_options(argv, is_add=True, context=context)
    if options.due_ms is not None:
        argv = _without_due(argv, options)
    id_at = options.id_index
    require_pairs(argv, id_at + 1)
    if options.entry_id == 0:
        raise GenericError(b"The ID specified in XADD must be greater than 0-0")
    key, db = argv[1], context.db
    stream = db.get_stream(key, context.now_ms)
    if stream is None and options.no_create:
        return None
    is_new = stream is None
    if stream is None:
        stream = _new_stream(context)
    producer_id, iid = options.producer_id, b""
    if producer_id is not None:
        iid = automatic_iid(argv, id_at + 1) if options.iid is None else options.iid
        known_id = stream.idempotence.register(producer_id).get(iid)
        if known_id is not None and options.entry_id is not None:
            # Only a log has an ID here: the pair was used again after its first use had expired.
            stream.idempotence.forget(producer_id, iid)
        elif known_id is not None:
            return _known(context, stream, known_id)
    if options.entry_id is None and context.client.is_primary:
        raise NoOwnId()
    entry_id = _choose_id(stream, options, context.now_ms)
    stream.require_new_id(entry_id)
    id_bulk, entry, record = pack_added(argv, id_at, id_at + 1, entry_id >> SEQ_BITS, entry_id & SEQ_MASK)
    if len(entry) > ENTRY_SIZE_MAX:
        _require_entry_size(argv[id_at + 1 :])
    if is_new:
        db.add(key, stream)
    stream.append(entry_id, entry)
    if producer_id is not None:
        stream.idempotence.record(producer_id, iid, entry_id)
    removed, trimmed_to = (0, 0) if options.trim is None else trim(stream, options.trim)
    if removed:
        db.announce(events.XADD, key)
    db.touch(key, events.XTRIM if removed else events.XADD)
    db.signal_ready(key)
    if options.trim is None:
        context.log_record(record)
    else:
        _log_with_trim(context, argv, options, stream, entry_id, iid, trimmed_to)
        if stream.heeds_deletions:
            note_deleted(context, key, stream)
    if options.due_ms is not None:
        delay_added(context, key, stream, entry_id, options.due_ms)
    return (id_bulk,)


def _without_due(argv: list[bytes], options: StreamOptions) -> list[bytes]:
    """The words without DELAY or AT, which is not in Redis, and so in no record. `options` is changed accordingly."""
    at = options.due_index
    options.id_index -= 2
    if options.threshold_index > at:
        options.threshold_index -= 2
    return [*argv[:at], *argv[at + 2 :]]


def _log_with_trim(
    context: Context,
    argv: list[bytes],
    options: StreamOptions,
    stream: Stream,
    entry_id: StreamID,
    iid: bytes,
    trimmed_to: StreamID,
) -> None:
    """Logs an entry that was added, and the entries that were trimmed up to `trimmed_to`."""
    record = exact_record(argv, options, stream, trimmed_to)
    record[options.id_index] = format_id(entry_id)
    if options.trim is None or options.trim.references is not References.ACKED:
        context.log_record(pack_command(record))
        return
    context.log(*without_options(record, options.id_index, options.producer_id, iid))
    if trimmed_to:
        log_acked_trim(context, argv[1], trimmed_to)
        context.counted_apart -= 1


def _choose_id(stream: Stream, options: StreamOptions, now_ms: int) -> StreamID:
    if options.entry_id is not None:
        return options.entry_id
    if options.id_ms is not None:
        if options.id_ms == 0 and not stream.last_id:
            return 1  # 0-0 is not a valid entry ID
        return stream.next_id_in(options.id_ms)
    return stream.next_id(now_ms)


def _require_entry_size(pairs: list[bytes] | tuple[bytes, ...]) -> None:
    if sum(map(len, pairs)) > ENTRY_SIZE_MAX:
        raise GenericError(b"Elements are too large to be stored")
