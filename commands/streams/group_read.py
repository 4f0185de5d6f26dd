"""XREADGROUP: claims idle entries, delivers new ones, reads history, or waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.database import Database
from ...store.errors import GenericError, NoGroup
from ...store.events import XGROUP_CREATECONSUMER
from ...store.group import Group
from ...store.ids import ID_MAX, StreamID, format_id, id_after, parse_id
from ...store.pending import DELIVERY_COUNT_MAX, Consumer, PendingEntries
from ...store.policies.rules import UNLIMITED
from ...store.spans import Piece
from ...store.stream import Stream
from ..clients.blocking import Blocked
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..policies.absences import note_use
from ..policies.claim_log import ClaimLog, log_consumer, log_position
from ..policies.dead_letters import bury_spent
from ..policies.handing import begin_handing, end_handing
from ..policies.redelivery import Claim, Room, acknowledge, find_due, note_redelivered
from ..policies.skipping import Skipping
from .entries import COUNT_ARGUMENT
from .group_read_new import read_new
from .read_request import (
    BLOCK_ARGUMENT,
    HITS_OF_A_READ,
    LIMIT_ARGUMENTS,
    LIMITS_ADDED,
    STREAMS_ARGUMENT,
    ReadRequest,
    ReplyBudget,
    parse_read,
)


class GroupSource:
    """One stream of an XREADGROUP. `after` is None for `>`, otherwise the ID after which history is read."""

    __slots__ = ("after", "group", "key", "stream")

    def __init__(self, key: bytes, stream: Stream, group: Group, after: StreamID | None) -> None:
        self.key = key
        self.stream = stream
        self.group = group
        self.after = after


@command(
    "XREADGROUP",
    arity=-7,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(
            0,
            0,
            0,
            ("RO", "access"),
            keyword=b"STREAMS",
            start=4,
            note="Incomplete because a consumer/group named STREAMS (or options before GROUP) can shift the STREAMS "
            "keyword; fall back to xreadGetKeys",
        ),
    ),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Reads entries as a consumer of a group: new ones, its own pending ones, or idle ones of others.",
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
    differs="Delivery counts and times that a history read changes are logged, so they survive a restart.",
    traits=Trait.WAITS_FOR_GROUP,
)
def xreadgroup(context: Context, argv: list[bytes]) -> Reply:
    """XREADGROUP GROUP group consumer [COUNT n] [MAXCOUNT n] [MAXSIZE bytes] [BLOCK ms] [CLAIM min-idle-ms] [NOACK]
    STREAMS key [key ...] id [id ...]

    `>` delivers new entries and makes them pending; any other ID lists the consumer's own pending entries after it.
    CLAIM first claims released entries, and entries of any consumer that have been idle long enough; entries then have
    four elements, with idle time in ms and delivery count before the claim.

    Returns entries by stream, or null. Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xreadgroup, Redis 8.10.
    """
    if argv[len(argv) - 1] == b">":
        reply = read_new(context, argv)
        if reply is not None:
            return reply
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
    return Blocked(
        request.keys,
        list(argv),
        request.block_ms or None,
        _wake_in_ms(request, sources, context.now_ms),
        blocks_again=_Wait(request, context.client.id).blocks_again if request.claim_idle_ms is None else None,
    )


class _Wait:
    """A blocked XREADGROUP that waits for new entries, which another consumer of its group may have read meanwhile.

    If a thousand workers wait, one receives the new entry, and all others must be checked. This check takes a tenth of
    the time of a whole run.
    """

    __slots__ = ("connection", "consumer", "group", "keys")

    def __init__(self, request: ReadRequest, connection: int) -> None:
        assert request.group is not None
        self.connection = connection
        self.keys, self.group, self.consumer = request.keys, request.group, request.consumer

    def blocks_again(self, db: Database, now_ms: int) -> bool:
        """Whether a run would block again. If so, it updates seen times and hit counts as a run does."""
        idle: list[tuple[Stream, Consumer]] = []
        for key in self.keys:
            stream = db.streams.get(key)
            group = stream.groups.get(self.group) if stream is not None else None
            consumer = group.consumers.get(self.consumer) if group is not None else None
            if stream is None or group is None or consumer is None or key in db.expires:
                return False
            if len(stream) and stream.log.last_id > group.last_id:
                return False
            rules = group.pending.rules
            if rules is not None and not rules.is_quiet(now_ms):
                return False
            absences = None if rules is None else rules.absences
            if absences is not None and not absences.is_used_by(consumer.name, self.connection):
                return False
            idle.append((stream, consumer))
        for stream, consumer in idle:
            stream.used_ms = consumer.seen_ms = now_ms
        db.hits += HITS_OF_A_READ * len(idle)
        return True


def _find_sources(context: Context, request: ReadRequest) -> list[GroupSource]:
    """Looks up each stream and group and parses each ID, before anything is changed. Raises WrongType, NoGroup,
    GenericError.
    """
    assert request.group is not None
    sources: list[GroupSource] = []
    for number, key in enumerate(request.keys):
        token = request.id_tokens[number]
        stream = context.db.read_stream(key, context.now_ms)
        group = stream.find_group(request.group) if stream is not None else None
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


def _wake_in_ms(request: ReadRequest, sources: list[GroupSource], now_ms: int) -> int | None:
    """Returns the ms until a pending entry may be idle enough for CLAIM to take it, or to make it a dead letter; None
    without CLAIM.
    """
    if request.claim_idle_ms is None:
        return None
    oldest_ms = now_ms
    for source in sources:
        pending = source.group.pending
        for entry_id, delivery in pending.walk_claimable():
            rules = pending.rules
            # A dead letter that could not be moved is tried again by a visit of the group.
            is_stuck = rules is not None and rules.policy.is_spent(delivery.count) and not rules.may_bury(now_ms)
            if not is_stuck and source.stream.log.still_has(entry_id):
                oldest_ms = min(oldest_ms, delivery.time_ms)
                break
    return oldest_ms - now_ms + request.claim_idle_ms


class _GroupRead:
    """One run of XREADGROUP over its streams."""

    __slots__ = ("budget", "claim_idle_ms", "context", "request")

    def __init__(self, context: Context, request: ReadRequest) -> None:
        self.context = context
        self.request = request
        self.budget = ReplyBudget(request, context)
        self.claim_idle_ms = request.claim_idle_ms

    def visit(self, source: GroupSource) -> None:
        """Reads from one stream: claims first, then history or new entries."""
        stream, group, now_ms = source.stream, source.group, self.context.now_ms
        records_before = self.context.records_count
        self.context.db.count_read(source.key, True)
        consumer = group.consumers.get(self.request.consumer)
        rules = begin_handing(self.context, source.key, group)
        room = None
        if rules is not None and source.after is None:
            room = Room(rules, consumer, is_bounded=not self.request.no_ack)
        claims = [] if source.after is not None else self._claimable(source, consumer, room)
        has_new = source.after is None and len(stream) > 0 and stream.log.last_id > group.last_id
        is_created = consumer is None
        if consumer is None:
            consumer = group.add_consumer(self.request.consumer, now_ms)
            self.context.db.announce(XGROUP_CREATECONSUMER, source.key)
        consumer.seen_ms = now_ms
        if rules is not None:
            note_use(self.context, source.key, group, consumer)
        log = ClaimLog(self.context, source.key, group, group.last_id)
        position = (group.last_id, group.entries_read)
        if source.after is not None:
            # As in Redis, no stream after a history read is claimed from.
            self.claim_idle_ms = None
            self._read_history(source, consumer, source.after, log)
        elif claims or (has_new and self._new_max(group, consumer, room)):
            self._deliver(source, consumer, claims, room, log)
        log.flush()
        if rules is not None and rules.policy.is_bounded and room is not None and room.frees_others:
            self.context.db.signal_ready(source.key)
        end_handing(self.context, source.key, group)
        if (group.last_id, group.entries_read) != position:
            log_position(self.context, source.key, group)
        if is_created and (not log.count or self.request.no_ack):
            log_consumer(self.context, source.key, group, consumer.name)
        has_delivered = source.after is None and (bool(log.count) or (group.last_id, group.entries_read) != position)
        self.context.count_changes(is_created + has_delivered, records_before=records_before)

    def _claimable(self, source: GroupSource, consumer: Consumer | None, room: Room | None) -> list[Claim]:
        """Returns the pending entries that CLAIM, or without it the policy of the group, takes; oldest first."""
        context, stream, group = self.context, source.stream, source.group
        now_ms, count = context.now_ms, self.budget.stream_count()
        if self.claim_idle_ms is None:
            if room is None:
                return []
            only_fresh = self.request.no_ack
            return find_due(context, source.key, stream, group, consumer, room, count, only_fresh=only_fresh)
        claims: list[Claim] = []
        spent: list[StreamID] = []
        rules = group.pending.rules
        for entry_id, delivery in group.pending.walk_claimable():
            if now_ms - delivery.time_ms < self.claim_idle_ms or len(claims) == count:
                break
            if rules is not None and rules.policy.is_spent(delivery.count):
                spent.append(entry_id)
            elif stream.log.still_has(entry_id):
                claims.append((entry_id, delivery.time_ms, delivery.count))
                if room is not None and delivery.consumer is not None and delivery.consumer is not consumer:
                    room.frees_others = True
        if rules is not None and spent:
            rules.spent.update(dict.fromkeys(spent))
            bury_spent(context, source.key, stream, group)
        return claims

    def _new_max(self, group: Group, consumer: Consumer, room: Room | None) -> int:
        """How many new entries may be given now. CLAIM takes what is idle, and leaves less room for new entries."""
        rules = group.pending.rules
        if room is None or rules is None:
            return UNLIMITED
        if self.claim_idle_ms is None or self.request.no_ack:
            return room.new_max
        return max(rules.room_for_new(consumer), 0)

    def _deliver(
        self, source: GroupSource, consumer: Consumer, claims: list[Claim], room: Room | None, log: ClaimLog
    ) -> None:
        """Adds claimed entries to the reply, then new ones, up to the limits of the request and of the group."""
        stream, group = source.stream, source.group
        budget, count = self.budget, self.budget.stream_count()
        budget.open_stream(source.key)
        claiming, skipping, may_skip = self.claim_idle_ms is not None, None, _may_skip(stream, group)
        if not (claims or claiming or budget.is_limited_by_size or may_skip):
            new_max = self._new_max(group, consumer, room)
            most = count if new_max == UNLIMITED else new_max if count < 0 else min(count, new_max)
            ids, pieces = stream.log.read_with_ids(id_after(group.last_id), ID_MAX, most)
        else:
            taken = self._claim(source, consumer, claims, log)
            new_max = self._new_max(group, consumer, room)
            left = min(new_max, UNLIMITED if count < 0 else count - len(taken))
            skipping = Skipping(self.context, source.key, stream, group)
            entries = skipping.deliverable(
                stream.log.entries(id_after(group.last_id), ID_MAX), become_pending=not self.request.no_ack
            )
            if claiming:
                entries = _first_deliveries(entries)
            new = list(budget.admit(islice(entries, left))) if left > 0 else []
            ids = [entry_id for entry_id, _ in new]
            pieces = taken + [entry for _, entry in new]
        self._deliver_new(source, consumer, ids, log, skipping)
        if pieces or not may_skip:
            budget.close_stream(source.key, len(ids) if not (claims or claiming) else len(pieces), pieces)

    def _claim(self, source: GroupSource, consumer: Consumer, claims: list[Claim], log: ClaimLog) -> list[bytes]:
        """Claims idle entries and returns them: those of CLAIM with four elements each."""
        now_ms, pending = self.context.now_ms, source.group.pending
        counts = {entry_id: count for entry_id, _, count in claims}
        by_policy = self.claim_idle_ms is None
        entries = _claimed_entries(source.stream, claims, now_ms, with_delivery=not by_policy)
        pieces: list[bytes] = []
        run: list[StreamID] = []
        run_count = 0
        for entry_id, piece in list(self.budget.admit(entries)):
            pieces.append(piece)
            count = min(counts[entry_id] + 1, DELIVERY_COUNT_MAX)
            if run and count != run_count:
                pending.deliver(run, consumer, time_ms=now_ms, count=run_count)
                run = []
            run_count = count
            run.append(entry_id)
            log.add([entry_id], consumer.name, now_ms, count)
        if run:
            pending.deliver(run, consumer, time_ms=now_ms, count=run_count)
            consumer.active_ms = now_ms
            source.group.pending.claimed_total += len(pieces)
        if by_policy and pieces:
            note_redelivered(self.context, source.key, source.group, counts)
            if self.request.no_ack:
                log.flush()
                acknowledge(self.context, source.key, source.group, list(counts)[: len(pieces)])
        return pieces

    def _deliver_new(
        self, source: GroupSource, consumer: Consumer, ids: list[StreamID], log: ClaimLog, skipping: Skipping | None
    ) -> None:
        """Advances the group past new entries, and makes them pending unless NOACK is given."""
        if skipping is not None and (skipping.due_of or skipping.passed):
            source.stream.advance(source.group, sorted([*ids, *skipping.due_of, *skipping.passed]))
            skipping.apply()
        elif ids:
            source.stream.advance(source.group, ids)
        if not ids:
            return
        now_ms = self.context.now_ms
        source.group.pending.delivered_total += len(ids)
        if not self.request.no_ack:
            source.group.pending.deliver(ids, consumer, time_ms=now_ms, count=1)
            consumer.active_ms = now_ms
            log.add(ids, consumer.name, now_ms, 1)

    def _read_history(self, source: GroupSource, consumer: Consumer, after: StreamID, log: ClaimLog) -> None:
        """Adds the consumer's pending entries after an ID to the reply. Deleted ones keep their delivery count."""
        budget, entries, pending = self.budget, source.stream.log, source.group.pending
        budget.open_stream(source.key)
        ids = pending.owned_ids(consumer, id_after(after), budget.stream_count())
        pieces: Sequence[Piece]
        if ids and not budget.is_limited_by_size and entries.still_has_all(ids[0], ids[-1]):
            count, pieces = len(ids), entries.get_many(ids)
        else:
            history = _history_entries(source.stream, ids, self.context.client.protocol)
            admitted = list(budget.admit(history))
            ids = [entry_id for entry_id, _ in admitted if entries.still_has(entry_id)]
            count, pieces = len(admitted), [piece for _, piece in admitted]
        self._deliver_again(pending, ids, consumer, log)
        budget.close_stream(source.key, count, pieces)

    def _deliver_again(self, pending: PendingEntries, ids: list[StreamID], consumer: Consumer, log: ClaimLog) -> None:
        """Sets the delivery times of a consumer's entries to now, and raises their delivery counts."""
        now_ms = self.context.now_ms
        counts: list[int] = []
        for entry_id in ids:
            delivery = pending.get(entry_id)
            assert delivery is not None
            counts.append(min(delivery.count + 1, DELIVERY_COUNT_MAX))
        start = 0
        while start < len(ids):
            end, count = start + 1, counts[start]
            while end < len(ids) and counts[end] == count:
                end += 1
            run = ids[start:end]
            pending.deliver(run, consumer, time_ms=now_ms, count=count)
            log.add(run, consumer.name, now_ms, count)
            start = end


def _may_skip(stream: Stream, group: Group) -> bool:
    """Whether there may be new entries that the group may not have yet."""
    return stream.later is not None or (group.pending.rules is not None and group.pending.rules.order is not None)


def _first_deliveries(entries: Iterator[tuple[StreamID, bytes]]) -> Iterator[tuple[StreamID, bytes]]:
    """Yields new entries with four elements each, as a read with CLAIM returns them."""
    for entry_id, entry in entries:
        yield entry_id, _with_delivery(entry, 0, 0)


def _claimed_entries(
    stream: Stream, claims: list[Claim], now_ms: int, *, with_delivery: bool
) -> Iterator[tuple[StreamID, bytes]]:
    """Yields the claimed entries, with four elements each if `with_delivery`, without deleted ones."""
    for entry_id, time_ms, count in claims:
        entry = stream.log.get(entry_id)
        if entry is not None:
            yield entry_id, _with_delivery(entry, now_ms - time_ms, count) if with_delivery else entry


def _history_entries(stream: Stream, ids: list[StreamID], protocol: int) -> Iterator[tuple[StreamID, bytes]]:
    """Yields entries as a history read returns them; a deleted entry is `[id, null array]`."""
    null = b"*-1\r\n" if protocol == 2 else b"_\r\n"
    for entry_id in ids:
        entry = stream.log.get(entry_id)
        if entry is None:
            text = format_id(entry_id)
            entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, null)
        yield entry_id, entry


def _with_delivery(entry: bytes, idle_ms: int, count: int) -> bytes:
    """Returns an encoded entry with four elements: `[id, fields, idle-ms, delivery-count]`."""
    return b"*4\r\n%b:%d\r\n:%d\r\n" % (entry[4:], idle_ms, count)
