"""XREAD and XREADGROUP: parsing, reading, delivering, claiming, and when to wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ..protocol.replies import NULL_ARRAY, PairList, Reply
from ..store.errors import GenericError, NoGroup, syntax_error
from ..store.events import XGROUP_CREATECONSUMER
from ..store.group import Group
from ..store.ids import ID_MAX, StreamID, format_id, parse_id
from ..store.log import Piece
from ..store.pending import DELIVERY_COUNT_MAX, Consumer
from ..store.stream import Stream
from .blocking import Blocked
from .claim_log import ClaimLog, log_consumer, log_position
from .context import Context
from .numbers import integer
from .stream import COUNT_ARGUMENT
from .table import Argument, Flag, KeySpec, command

INT64_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class ReadRequest:
    """The arguments of XREAD and XREADGROUP. Counts are -1 for "all"; times in ms."""

    name: bytes
    group: bytes | None = None
    consumer: bytes = b""
    count: int = -1
    block_ms: int | None = None
    count_max: int | None = None
    size_max: int | None = None
    claim_idle_ms: int | None = None
    no_ack: bool = False
    keys: list[bytes] = field(default_factory=list)
    id_tokens: list[bytes] = field(default_factory=list)
    ids_index: int = 0
    """Where the IDs begin among the arguments."""


def parse_read(argv: list[bytes], *, is_group: bool, now_ms: int) -> ReadRequest:
    """Read all options and split what follows STREAMS into keys and IDs."""
    request = ReadRequest(b"xreadgroup" if is_group else b"xread")
    argc = len(argv)
    index = 1
    while index < argc:
        word = argv[index].upper()
        more = argc - 1 - index
        if word == b"STREAMS" and more:
            _split_streams(argv, index + 1, request, is_group=is_group)
            break
        if word in (b"GROUP", b"NOACK", b"CLAIM") and (word == b"NOACK" or more >= (2 if word == b"GROUP" else 1)):
            if not is_group:
                raise GenericError(b"The %b option is only supported by XREADGROUP. You called XREAD instead." % word)
            index += _read_group_option(argv, index, word, request)
        elif word in _NUMBER_OPTIONS and more:
            _read_number(word, argv[index + 1], request, now_ms)
            index += 2
        else:
            raise syntax_error()
    if not request.keys:
        raise syntax_error()
    if is_group and request.group is None:
        raise GenericError(b"Missing GROUP option for XREADGROUP")
    if request.count_max is not None and request.count > 0 and request.count_max < request.count:
        raise GenericError(b"MAXCOUNT must be greater than or equal to COUNT")
    return request


_NUMBER_OPTIONS: Final = (b"COUNT", b"BLOCK", b"MAXCOUNT", b"MAXSIZE")


def _split_streams(argv: list[bytes], first: int, request: ReadRequest, *, is_group: bool) -> None:
    count = len(argv) - first
    if count % 2:
        ids = b"an ID or '>'" if is_group else b"an ID, '+', or '$'"
        raise GenericError(
            b"Unbalanced '%b' list of streams: for each stream key %b must be specified." % (request.name, ids)
        )
    request.ids_index = first + count // 2
    request.keys = argv[first : request.ids_index]
    request.id_tokens = argv[request.ids_index :]


def _read_group_option(argv: list[bytes], index: int, word: bytes, request: ReadRequest) -> int:
    if word == b"GROUP":
        request.group, request.consumer = argv[index + 1], argv[index + 2]
        return 3
    if word == b"NOACK":
        request.no_ack = True
        return 1
    message = b"min-idle-time is not an integer or out of range"
    request.claim_idle_ms = _integer_or(argv[index + 1], message)
    if request.claim_idle_ms < 0:
        raise GenericError(b"min-idle-time must be a positive integer")
    return 2


def _read_number(word: bytes, token: bytes, request: ReadRequest, now_ms: int) -> None:
    if word == b"BLOCK":
        request.block_ms = _integer_or(token, b"timeout is not an integer or out of range")
        if request.block_ms < 0:
            raise GenericError(b"timeout is negative")
        if request.block_ms > INT64_MAX - now_ms:
            raise GenericError(b"timeout is out of range")
        return
    number = integer(token)
    if word == b"COUNT":
        request.count = number if number > 0 else -1
        return
    if number <= 0:
        raise GenericError(word + b" must be a positive integer")
    if word == b"MAXCOUNT":
        request.count_max = number
    else:
        request.size_max = number


def _integer_or(token: bytes, message: bytes) -> int:
    try:
        return integer(token)
    except GenericError:
        raise GenericError(message) from None


class ReplyBudget:
    """How much a read may still send: COUNT per stream, MAXCOUNT and MAXSIZE over all streams.

    MAXSIZE counts the reply bytes written so far except headers that are still open, and never stops the first
    entry; so it depends on the protocol by the four bytes of RESP2's `*2` around key and entries.
    """

    __slots__ = ("_count_left", "_per_stream", "_size", "_size_max", "_stream_header_size", "sent", "streams")

    def __init__(self, request: ReadRequest, protocol: int) -> None:
        self._per_stream = request.count
        self._count_left = request.count_max
        self._size_max = request.size_max
        self._size = 0
        self._stream_header_size = 4 if protocol == 2 else 0
        self.sent = 0
        self.streams = PairList()

    def may_visit(self) -> bool:
        """Whether a further stream may be looked at."""
        return not self._is_spent() and (self._count_left is None or self._count_left > 0)

    def stream_count(self) -> int:
        """Entries that the next stream may contribute; -1 for all."""
        if self._count_left is None:
            return self._per_stream
        return self._count_left if self._per_stream < 0 else min(self._per_stream, self._count_left)

    def open_stream(self, key: bytes) -> None:
        """The stream appears in the reply."""
        self._size += self._stream_header_size + len(b"$%d\r\n%b\r\n" % (len(key), key))

    def admit(self, entries: Iterator[tuple[StreamID, bytes]]) -> Iterator[tuple[StreamID, bytes]]:
        """Entries one by one until MAXSIZE is used up."""
        for entry_id, entry in entries:
            if self._is_spent():
                return
            self._size += len(entry)
            self.sent += 1
            yield entry_id, entry

    def close_stream(self, key: bytes, count: int, pieces: Sequence[Piece]) -> None:
        """The stream's entries are complete."""
        header = b"*%d\r\n" % count
        self._size += len(header)
        if self._count_left is not None:
            self._count_left -= count
        self.streams.append((key, (header, *pieces)))

    @property
    def is_limited_by_size(self) -> bool:
        """Whether entries must be measured one by one."""
        return self._size_max is not None

    def _is_spent(self) -> bool:
        return self._size_max is not None and self.sent > 0 and self._size >= self._size_max


STREAMS_ARGUMENT = Argument(
    "streams",
    "block",
    token="STREAMS",
    arguments=(Argument("key", "key", key_spec_index=0, multiple=True), Argument("id", "string", multiple=True)),
)
BLOCK_ARGUMENT = Argument("milliseconds", "integer", token="BLOCK", optional=True)
LIMIT_ARGUMENTS = (
    Argument("maxcount", "integer", token="MAXCOUNT", optional=True, since="8.10.0"),
    Argument("maxsize", "integer", token="MAXSIZE", optional=True, since="8.10.0"),
)
LIMITS_ADDED = ("8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options.")


@command(
    "XREAD",
    arity=-4,
    flags=Flag.READONLY | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(KeySpec(0, 0, 0, ("RO", "access"), keyword=b"STREAMS", start=1),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Reads entries beyond given IDs from several streams, waiting for new ones if told to.",
    complexity="O(N) in the number of entries returned, for each stream.",
    arguments=(COUNT_ARGUMENT, *LIMIT_ARGUMENTS, BLOCK_ARGUMENT, STREAMS_ARGUMENT),
    history=(LIMITS_ADDED,),
)
def xread(context: Context, argv: list[bytes]) -> Reply:
    """XREAD [COUNT n] [BLOCK ms] [MAXCOUNT n] [MAXSIZE bytes] STREAMS key [key ...] id [id ...]

    Returns the entries with IDs greater than those given, by stream; null if there are none, or at the end of BLOCK
    (0 waits for ever). Raises WrongType, GenericError. Source: redis.io/commands/xread, Redis 8.10.
    """
    request = parse_read(argv, is_group=False, now_ms=context.now_ms)
    budget = ReplyBudget(request, context.client.protocol)
    sources: list[tuple[bytes, Stream | None, StreamID, bool]] = []
    for key, token in zip(request.keys, request.id_tokens, strict=True):
        stream = context.db.read_stream(key, context.now_ms)
        sources.append((key, stream, _resolve_read_id(stream, token), token == b"+"))
    for key, stream, after, only_last in sources:
        if not budget.may_visit():
            break
        context.db.count_read(key, stream is not None)
        if stream is not None and len(stream) and stream.log.last_id > after:
            budget.open_stream(key)
            _read_stream(stream, key, after, budget, 1 if only_last else budget.stream_count())
    if budget.streams:
        return budget.streams
    if request.block_ms is None or not context.may_block:
        return NULL_ARRAY
    again = list(argv)
    for offset, (token, (_, _, after, _)) in enumerate(zip(request.id_tokens, sources, strict=True)):
        if token == b"$":
            again[request.ids_index + offset] = format_id(after)
    return Blocked(request.keys, again, _deadline_ms(request.block_ms, context.now_ms), sent=argv)


def _resolve_read_id(stream: Stream | None, token: bytes) -> StreamID:
    """The ID after which XREAD reads: `$` is the last generated ID, `+` stands just before the last live entry."""
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
        taken, pieces = stream.log.read(after + 1, ID_MAX, count)
        budget.close_stream(key, taken, pieces)
        return
    entries = stream.log.entries(after + 1, ID_MAX)
    admitted = [entry for _, entry in budget.admit(islice(entries, count) if count >= 0 else entries)]
    budget.close_stream(key, len(admitted), admitted)


def _deadline_ms(block_ms: int, now_ms: int) -> int | None:
    return now_ms + block_ms if block_ms else None


@dataclass(slots=True)
class GroupSource:
    """One stream of an XREADGROUP. `after` is None for `>`, else the ID after which history is read."""

    key: bytes
    stream: Stream
    group: Group
    after: StreamID | None


@command(
    "XREADGROUP",
    arity=-7,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(KeySpec(0, 0, 0, ("RO", "access"), keyword=b"STREAMS", start=4),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Reads as a consumer of a group: new entries, its own pending ones, or idle ones of others.",
    complexity="O(N) in the number of entries returned, for each stream.",
    arguments=(
        Argument("group-block", "block", token="GROUP", arguments=(Argument("group"), Argument("consumer"))),
        COUNT_ARGUMENT,
        *LIMIT_ARGUMENTS,
        BLOCK_ARGUMENT,
        Argument("min-idle-time", "integer", token="CLAIM", optional=True, since="8.4.0"),
        Argument("noack", "pure-token", token="NOACK", optional=True),
        STREAMS_ARGUMENT,
    ),
    history=(("8.4.0", "Added the `CLAIM` option."), LIMITS_ADDED),
    differs="Delivery counts and times that a history read raises are logged, so they survive a restart.",
)
def xreadgroup(context: Context, argv: list[bytes]) -> Reply:
    """XREADGROUP GROUP group consumer [COUNT n] [BLOCK ms] [CLAIM min-idle-ms] [NOACK] [MAXCOUNT n] [MAXSIZE bytes]
    STREAMS key [key ...] id [id ...]

    `>` delivers new entries and makes them pending; any other ID lists the consumer's own pending entries after it.
    CLAIM first takes over entries of anyone that have been idle long enough, and released ones; entries then have four
    elements, with idle time in ms and delivery count before the claim.

    Returns entries by stream, or null. Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xreadgroup, Redis 8.10.
    """
    request = parse_read(argv, is_group=True, now_ms=context.now_ms)
    sources = _find_sources(context, request)
    read = _GroupRead(context, request)
    for source in sources:
        if not read.budget.may_visit():
            break
        read.visit(source)
    if read.budget.streams:
        return read.budget.streams
    if request.block_ms is None or not context.may_block:
        return NULL_ARRAY
    deadline_ms = _deadline_ms(request.block_ms, context.now_ms)
    return Blocked(request.keys, list(argv), deadline_ms, _wake_ms(request, sources, context.now_ms))


def _find_sources(context: Context, request: ReadRequest) -> list[GroupSource]:
    """Look every stream and group up and parse its ID, so that an error leaves nothing behind."""
    assert request.group is not None
    sources: list[GroupSource] = []
    for key, token in zip(request.keys, request.id_tokens, strict=True):
        stream = context.db.read_stream(key, context.now_ms)
        group = stream.groups.get(request.group) if stream is not None else None
        if stream is None or group is None:
            raise NoGroup.for_read(key, request.group)
        if token in (b"$", b"+"):
            raise GenericError(
                b"The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
                b"by specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty "
                b"result set." % (token, token)
            )
        after = ID_MAX if token == b">" else parse_id(token)
        sources.append(GroupSource(key, stream, group, None if after == ID_MAX else after))
    return sources


def _wake_ms(request: ReadRequest, sources: list[GroupSource], now_ms: int) -> int | None:
    """When a pending entry may have become idle enough for CLAIM."""
    if request.claim_idle_ms is None:
        return None
    oldest_ms = now_ms
    for source in sources:
        for entry_id, delivery in source.group.pending.walk_by_time():
            if source.stream.log.still_has(entry_id):
                oldest_ms = min(oldest_ms, delivery.time_ms)
                break
    return oldest_ms + request.claim_idle_ms


class _GroupRead:
    """One run of XREADGROUP over its streams."""

    __slots__ = ("budget", "claim_idle_ms", "context", "request")

    def __init__(self, context: Context, request: ReadRequest) -> None:
        self.context = context
        self.request = request
        self.budget = ReplyBudget(request, context.client.protocol)
        self.claim_idle_ms = request.claim_idle_ms

    def visit(self, source: GroupSource) -> None:
        """Serve one stream, in the order: claims, then history or new entries."""
        stream, group, now_ms = source.stream, source.group, self.context.now_ms
        self.context.db.count_read(source.key, True)
        claims = [] if source.after is not None else self._claimable(source)
        has_new = source.after is None and len(stream) > 0 and stream.log.last_id > group.last_id
        consumer = group.consumers.get(self.request.consumer)
        is_created = consumer is None
        if consumer is None:
            consumer = group.add_consumer(self.request.consumer, now_ms)
            self.context.db.announce(XGROUP_CREATECONSUMER, source.key)
        consumer.seen_ms = now_ms
        log = ClaimLog(self.context, source.key, group, group.last_id)
        position = (group.last_id, group.entries_read)
        if source.after is not None:
            self.claim_idle_ms = None  # Redis: a history read ends claiming for the streams after it.
            self._read_history(source, consumer, source.after, log)
        elif claims or has_new:
            self._deliver(source, consumer, claims, log)
        log.flush()
        if (group.last_id, group.entries_read) != position:
            log_position(self.context, source.key, group)
        if is_created and (not log.count or self.request.no_ack):
            log_consumer(self.context, source.key, group, consumer.name)

    def _claimable(self, source: GroupSource) -> list[tuple[StreamID, int, int]]:
        """(ID, delivery time, count) of the live pending entries that CLAIM takes, in time order."""
        if self.claim_idle_ms is None:
            return []
        now_ms, count = self.context.now_ms, self.budget.stream_count()
        claims: list[tuple[StreamID, int, int]] = []
        for entry_id, delivery in source.group.pending.walk_by_time():
            if now_ms - delivery.time_ms < self.claim_idle_ms or len(claims) == count:
                break
            if source.stream.log.still_has(entry_id):
                claims.append((entry_id, delivery.time_ms, delivery.count))
        return claims

    def _deliver(
        self, source: GroupSource, consumer: Consumer, claims: list[tuple[StreamID, int, int]], log: ClaimLog
    ) -> None:
        """Claimed entries first, then new ones, as far as the limits go."""
        budget, count = self.budget, self.budget.stream_count()
        budget.open_stream(source.key)
        claiming = self.claim_idle_ms is not None
        if not claiming and not budget.is_limited_by_size:
            ids, pieces = source.stream.log.read_with_ids(source.group.last_id + 1, ID_MAX, count)
        else:
            taken = self._claim(source, consumer, claims, log)
            left = -1 if count < 0 else count - len(taken)
            entries = source.stream.log.entries(source.group.last_id + 1, ID_MAX)
            if claiming:
                entries = ((entry_id, _with_delivery(entry, 0, 0)) for entry_id, entry in entries)
            new = list(budget.admit(islice(entries, left) if left >= 0 else entries)) if left else []
            ids = [entry_id for entry_id, _ in new]
            pieces = taken + [entry for _, entry in new]
        self._give(source, consumer, ids, log)
        budget.close_stream(source.key, len(ids) if not claiming else len(pieces), pieces)

    def _claim(
        self, source: GroupSource, consumer: Consumer, claims: list[tuple[StreamID, int, int]], log: ClaimLog
    ) -> list[bytes]:
        """Take over idle entries; answers their four-element forms."""
        now_ms, pending = self.context.now_ms, source.group.pending
        details = {entry_id: (time_ms, count) for entry_id, time_ms, count in claims}
        entries = (
            (entry_id, _with_delivery(entry, now_ms - details[entry_id][0], details[entry_id][1]))
            for entry_id, entry in _live_entries(source.stream, [claim[0] for claim in claims])
        )
        pieces: list[bytes] = []
        run: list[StreamID] = []
        run_count = 0
        for entry_id, piece in list(self.budget.admit(entries)):
            pieces.append(piece)
            count = min(details[entry_id][1] + 1, DELIVERY_COUNT_MAX)
            if run and count != run_count:
                pending.deliver(run, consumer, time_ms=now_ms, count=run_count)
                run = []
            run_count = count
            run.append(entry_id)
            log.add([entry_id], consumer.name, now_ms, count)
        if run:
            pending.deliver(run, consumer, time_ms=now_ms, count=run_count)
            consumer.active_ms = now_ms
            source.group.claims_count += len(pieces)
        return pieces

    def _give(self, source: GroupSource, consumer: Consumer, ids: list[StreamID], log: ClaimLog) -> None:
        """New entries: the group moves on, and unless NOACK they become pending."""
        if not ids:
            return
        now_ms = self.context.now_ms
        source.stream.advance(source.group, ids)
        source.group.deliveries_count += len(ids)
        if not self.request.no_ack:
            source.group.pending.deliver(ids, consumer, time_ms=now_ms, count=1)
            consumer.active_ms = now_ms
            log.add(ids, consumer.name, now_ms, 1)

    def _read_history(self, source: GroupSource, consumer: Consumer, after: StreamID, log: ClaimLog) -> None:
        """The consumer's own pending entries after an ID; live ones count as delivered once more."""
        budget, now_ms, pending = self.budget, self.context.now_ms, source.group.pending
        budget.open_stream(source.key)
        count = budget.stream_count()
        owned = pending.owned_ids(consumer, after + 1)
        chosen = list(islice(owned, count) if count >= 0 else owned)
        pieces: list[bytes] = []
        for entry_id, piece in list(
            budget.admit(_history_entries(source.stream, chosen, self.context.client.protocol))
        ):
            pieces.append(piece)
            if source.stream.log.still_has(entry_id):
                delivery_count = min(pending.by_id[entry_id].count + 1, DELIVERY_COUNT_MAX)
                pending.deliver([entry_id], consumer, time_ms=now_ms, count=delivery_count)
                log.add([entry_id], consumer.name, now_ms, delivery_count)
        budget.close_stream(source.key, len(pieces), pieces)


def _live_entries(stream: Stream, ids: list[StreamID]) -> Iterator[tuple[StreamID, bytes]]:
    for entry_id in ids:
        entry = stream.log.get(entry_id)
        if entry is not None:
            yield entry_id, entry


def _history_entries(stream: Stream, ids: list[StreamID], protocol: int) -> Iterator[tuple[StreamID, bytes]]:
    """Entries as a history read shows them; one that was deleted is `[id, null array]`."""
    null = b"*-1\r\n" if protocol == 2 else b"_\r\n"
    for entry_id in ids:
        entry = stream.log.get(entry_id)
        if entry is None:
            text = format_id(entry_id)
            entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, null)
        yield entry_id, entry


def _with_delivery(entry: bytes, idle_ms: int, count: int) -> bytes:
    """The four-element form of an entry: `[id, fields, idle-ms, delivery-count]`."""
    return b"*4\r\n%b:%d\r\n:%d\r\n" % (entry[4:], idle_ms, count)
