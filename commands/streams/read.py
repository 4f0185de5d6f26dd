"""XREAD: reads entries after given IDs, at once or when they are added."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...protocol.encoder import ENCODERS
from ...protocol.replies import NULL_ARRAY, PairList, Reply
from ...store.errors import GenericError
from ...store.ids import ID_MAX, StreamID, format_id, id_after, parse_id
from ...store.stream import Stream
from ..clients.blocking import Blocked
from ..core.table import Flag, KeySpec, command
from ..execution.context import Context
from .entries import COUNT_ARGUMENT
from .read_request import (
    BLOCK_ARGUMENT,
    HITS_OF_A_READ,
    LIMIT_ARGUMENTS,
    LIMITS_ADDED,
    STREAMS_ARGUMENT,
    ReplyBudget,
    parse_read,
)


@command(
    "XREAD",
    arity=-4,
    flags=Flag.READONLY | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(
            0,
            0,
            0,
            ("RO", "access"),
            keyword=b"STREAMS",
            start=1,
            note="Incomplete because a stream key named STREAMS (or options before it) can shift the STREAMS keyword; "
            "fall back to xreadGetKeys",
        ),
    ),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Reads entries after given IDs from several streams, and can wait for new ones.",
    complexity="O(N) in the number of entries returned, for each stream.",
    arguments=(COUNT_ARGUMENT, *LIMIT_ARGUMENTS, BLOCK_ARGUMENT, STREAMS_ARGUMENT),
    history=(LIMITS_ADDED,),
)
def xread(context: Context, argv: list[bytes]) -> Reply:
    """XREAD [COUNT n] [MAXCOUNT n] [MAXSIZE bytes] [BLOCK ms] STREAMS key [key ...] id [id ...]

    Returns the entries with IDs greater than the given ones, by stream. Returns null if there are none; with BLOCK,
    when that time has passed (0 waits forever). Raises WrongType, GenericError.
    Source: redis.io/commands/xread, Redis 8.10.
    """
    if context.shared_reads and (known := context.shared_reads.get((context.client.protocol, tuple(argv)))) is not None:
        context.db.hits += HITS_OF_A_READ
        context.db.use(known[0], context.now_ms)
        return known[1]
    request = parse_read(argv, is_group=False, now_ms=context.now_ms)
    sources: list[tuple[bytes, Stream | None, StreamID, bool]] = []
    for number, key in enumerate(request.keys):
        token = request.id_tokens[number]
        stream = context.db.read_stream(key, context.now_ms)
        sources.append((key, stream, _resolve_read_id(stream, token), token == b"+"))
    budget = ReplyBudget(request, context)
    for key, stream, after, only_last in sources:
        if not budget.may_visit():
            break
        context.db.count_read(key, stream is not None)
        if stream is not None and len(stream) and stream.log.last_id > after:
            budget.open_stream(key)
            _read_stream(stream, key, after, budget, 1 if only_last else budget.stream_count())
    if budget.streams:
        if context.shared_reads is None or len(request.keys) > 1:
            return budget.streams
        return _share(context, argv, request.keys[0], budget.streams)
    if request.block_ms is None or not context.may_block:
        return NULL_ARRAY
    again = list(argv)
    for offset, (token, (_, _, after, _)) in enumerate(zip(request.id_tokens, sources, strict=True)):
        if token == b"$":
            again[request.ids_index + offset] = format_id(after)
    return Blocked(request.keys, again, request.block_ms or None, sent=argv)


def _share(context: Context, argv: list[bytes], key: bytes, streams: PairList) -> Reply:
    """Encodes the reply, and keeps it for other clients that wait with an equal request (benchmark row wake-up).

    A reply that is encoded while it is sent is not kept.
    """
    assert context.shared_reads is not None
    pieces: list[Any] = []  # bytes, and iterators over the rest of long parts
    protocol = context.client.protocol
    ENCODERS[protocol](streams, pieces)
    if not all(type(piece) is bytes for piece in pieces):
        return tuple(pieces)
    reply = (b"".join(pieces),)
    context.shared_reads[protocol, tuple(argv)] = key, reply
    return reply


def _resolve_read_id(stream: Stream | None, token: bytes) -> StreamID:
    """Returns the ID after which XREAD reads.

    `$` is the last generated ID; `+` is the ID before the last entry. Raises GenericError.
    """
    if token == b"$":
        return stream.last_id if stream is not None else 0
    if token == b"+":
        return stream.log.last_id - 1 if stream is not None and len(stream) else 0
    if token == b">":
        raise GenericError(
            b"The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
        )
    return parse_id(token)


def _read_stream(stream: Stream, key: bytes, after: StreamID, budget: ReplyBudget, count: int) -> None:
    if not budget.is_limited_by_size:
        taken, pieces = stream.log.read(id_after(after), ID_MAX, count)
        budget.close_stream(key, taken, pieces)
        return
    entries = stream.log.entries(id_after(after), ID_MAX)
    admitted = [entry for _, entry in budget.admit(islice(entries, count) if count >= 0 else entries)]
    budget.close_stream(key, len(admitted), admitted)
