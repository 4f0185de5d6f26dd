"""Claiming of pending entries: XCLAIM, XAUTOCLAIM."""

from __future__ import annotations

from typing import Final

from ...persistence.grammar.kept import CLAIMS
from ...persistence.grammar.streams import read_claimed
from ...protocol.replies import Reply
from ...store.errors import GenericError
from ...store.events import XGROUP_CREATECONSUMER
from ...store.group import Group
from ...store.ids import StreamID, bulk_ids, format_id, parse_ids, parse_range_start
from ...store.pending import DELIVERY_COUNT_MAX, Consumer, Delivery
from ...store.policies.rules import NO_HOLDER, PendingRules
from ...store.spans import Piece
from ...store.stream import Stream
from ..core.table import Argument, Flag, KeySpec, command, run_form
from ..execution.context import Context
from ..policies.absences import note_use
from ..policies.claim_log import ClaimLog, drop_dangling, log_consumer, log_position
from ..policies.dead_letters import bury
from ..policies.handing import begin_handing, end_handing
from .claim_request import ClaimRequest, parse_autoclaim_options, parse_claim, parse_min_idle, require_memory
from .entries import KEY_ARGUMENT
from .pending import GROUP_ARGUMENT, WRITE_KEY, group_of, is_nothing_idle, require_group

CONSUMER_ARGUMENT = Argument("consumer")
JUSTID_ARGUMENT = Argument("justid", "pure-token", token="JUSTID", optional=True)

# XAUTOCLAIM checks at most this many pending entries for each one that it may return.
AUTOCLAIM_LOOKS_PER_COUNT: Final = 10


class Claiming:
    """Collects the claims of one command: its reply, its log records, and deliveries in runs of equal count."""

    __slots__ = (
        "_context", "_key", "_log", "_run", "_run_count", "_run_holder", "consumer",
        "dropped_count", "frees_others", "group", "just_ids", "one_by_one", "rules", "stream", "taken", "time_ms",
    )  # fmt: skip

    def __init__(
        self, context: Context, key: bytes, stream: Stream, group: Group, consumer: Consumer, *, just_ids: bool
    ) -> None:
        self._context = context
        self._key = key
        # The rules of the group, None if it has none.
        self.rules = begin_handing(context, key, group)
        self.consumer = consumer
        self._log = ClaimLog(context, key, group, group.last_id)
        self._run: list[StreamID] = []
        self._run_count = 0
        # The connection that guards the run, if the group has GUARD.
        self._run_holder = NO_HOLDER
        self.stream = stream
        context.db.apply_policy_soon(key, stream)
        self.group = group
        self.just_ids = just_ids
        self.time_ms = context.now_ms
        # Whether each claim is applied before the next; needed if an ID may be repeated.
        self.one_by_one = False
        self.taken: list[StreamID] = []
        # Entries that were dropped since they are deleted.
        self.dropped_count = 0
        # Whether another consumer has less pending than before, if the group has rules.
        self.frees_others = False

    def take(self, entry_id: StreamID, count: int, delivery: Delivery | None) -> None:
        """Claims an entry with this delivery count (benchmark row XAUTOCLAIM). `delivery` is the one that it was in."""
        if count != self._run_count:
            self._settle()
            self._run_count = count
        if self.rules is not None:
            if delivery is not None and delivery.consumer is not None and delivery.consumer is not self.consumer:
                self.frees_others = True
            if self.rules.lease is not None:
                self._choose_holder(self.rules, delivery)
        self._run.append(entry_id)
        self.taken.append(entry_id)
        if self.one_by_one:
            self._settle()

    def _choose_holder(self, rules: PendingRules, delivery: Delivery | None) -> None:
        """Finds which connection guards the entry: this one, or with JUSTID by its owner, which is no delivery, the one
        that did before.
        """
        holder = self._context.client.id
        if self.just_ids and delivery is not None and delivery.consumer is self.consumer and rules.lease is not None:
            holder = rules.lease.holder_of(delivery) or NO_HOLDER
        if holder != self._run_holder:
            self._settle()
            self._run_holder = holder

    def may_take(self, entry_id: StreamID, delivery: Delivery, *, passes_over_held: bool, is_delivery: bool) -> bool:
        """Whether the policies of the group let a pending entry be claimed. One that was delivered too often moves to
        the dead letters, if there are any.
        """
        rules = self.rules
        if rules is None:
            return True
        if passes_over_held and rules.is_held(entry_id, delivery):
            return False
        if not is_delivery or not rules.policy.is_spent(delivery.count):
            return True
        if rules.may_bury(self._context.now_ms):
            self._settle()
            self._log.flush()
            bury(self._context, self._key, self.stream, self.group, entry_id)
        return False

    def drop_dangling(self, key: bytes, entry_id: StreamID, delivery: Delivery) -> None:
        """Drops a pending entry whose entry is deleted: see `claim_log.drop_dangling`."""
        self._settle()
        drop_dangling(self._context, self._log, key, self.group, entry_id, delivery)
        self.dropped_count += 1

    def finish(self) -> int:
        """Applies and logs the claims still collected. Returns the number of entries logged."""
        self._settle()
        self._log.flush()
        self.group.pending.claimed_total += len(self.taken)
        if self.rules is not None and self.rules.policy.is_bounded and (self.frees_others or self.dropped_count):
            self._context.db.signal_ready(self._key)
        end_handing(self._context, self._key, self.group)
        return self._log.count

    def _settle(self) -> None:
        run = self._run
        if run:
            consumer, count = self.consumer, self._run_count
            consumer.active_ms = self._context.now_ms
            self._log.add(run, consumer.name, self.time_ms, count)
            if self.rules is not None:
                self.rules.holder = self._run_holder
            self.group.pending.deliver(run, consumer, time_ms=self.time_ms, count=count)
            self._run = []

    @property
    def changes_count(self) -> int:
        """Entries that were claimed or dropped."""
        return len(self.taken) + self.dropped_count

    def reply(self) -> tuple[Piece, ...]:
        """Returns the claimed entries in the order of the claims; with JUSTID, their IDs."""
        taken = self.taken
        if self.just_ids:
            return (b"*%d\r\n" % len(taken), bulk_ids(taken))
        return (b"*%d\r\n" % len(taken), *self.stream.log.get_many(taken))


def _seen_consumer(context: Context, key: bytes, group: Group, name: bytes) -> tuple[Consumer, bool]:
    """Returns the consumer, with its seen time set to now, and whether it was created for this request."""
    consumer = group.consumers.get(name)
    if consumer is None:
        context.db.announce(XGROUP_CREATECONSUMER, key)
        consumer = group.add_consumer(name, context.now_ms)
        note_use(context, key, group, consumer)
        return consumer, True
    consumer.seen_ms = context.now_ms
    note_use(context, key, group, consumer)
    return consumer, False


def _is_idle_enough(delivery: Delivery, min_idle_ms: int, now_ms: int) -> bool:
    """Whether an entry has been idle for `min_idle_ms`; a released entry always has."""
    return not min_idle_ms or delivery.consumer is None or now_ms - delivery.time_ms >= min_idle_ms


@command(
    "XCLAIM",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=WRITE_KEY,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Takes ownership of pending entries that have been idle long enough.",
    complexity="O(log N) for each ID.",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        CONSUMER_ARGUMENT,
        Argument("min-idle-time"),
        Argument("id", "string", multiple=True),
        Argument("ms", "integer", token="IDLE", optional=True),
        Argument("unix-time-milliseconds", "unix-time", token="TIME", optional=True),
        Argument("count", "integer", token="RETRYCOUNT", optional=True),
        Argument("force", "pure-token", token="FORCE", optional=True),
        JUSTID_ARGUMENT,
        Argument("lastid", "string", token="LASTID", optional=True),
        Argument("ifowned", "pure-token", token="IFOWNED", optional=True, since="headrace 0.1"),
    ),
    tips=("nondeterministic_output",),
    differs="A consumer created by a claim that claims no entry is logged, so it survives a restart. `IFOWNED` is not "
    "in Redis.",
)
def xclaim(context: Context, argv: list[bytes]) -> Reply:
    """XCLAIM key group consumer min-idle-ms id [id ...] [IDLE ms] [TIME unix-ms] [RETRYCOUNT count] [FORCE] [JUSTID]
    [LASTID id] [IFOWNED]

    Makes the consumer the owner of pending entries. IDLE and TIME set the delivery time. RETRYCOUNT sets the delivery
    count; without it the count grows by one, or with JUSTID not at all. FORCE also claims entries that are not pending.
    IFOWNED claims only what the consumer owns already: so a worker renews its claim, and learns if another has it now.

    Returns the claimed entries, or their IDs with JUSTID. Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xclaim, Redis 7.0.
    """
    key, now_ms, records_before = argv[1], context.now_ms, context.records_count
    stream, group = require_group(context, key, argv[2])
    min_idle_ms = parse_min_idle(argv[4], b"XCLAIM")
    request = parse_claim(argv, now_ms, is_replayed=context.replaying)
    if request.if_owned and argv[3] not in group.consumers:
        return []
    moved = request.last_id is not None and request.last_id > group.last_id
    if moved and request.last_id is not None:
        group.last_id = request.last_id
    consumer, is_created = _seen_consumer(context, key, group, argv[3])
    has_repeats = len(request.ids) > 1 and len(set(request.ids)) < len(request.ids)
    if context.loading and request.is_settled and not (min_idle_ms or has_repeats):
        return _claim_as_logged(context, stream, group, consumer, request)
    claiming = Claiming(context, key, stream, group, consumer, just_ids=request.just_ids)
    claiming.time_ms = request.time_ms
    claiming.one_by_one = has_repeats
    for entry_id in request.ids:
        _claim_one(context, key, entry_id, request, min_idle_ms, claiming)
    logged = claiming.finish()
    moved_alone = moved and not logged
    if moved_alone:
        log_position(context, key, group)
    if is_created and not claiming.taken:
        log_consumer(context, key, group, consumer.name)
    context.count_changes(moved_alone + is_created + claiming.changes_count, records_before=records_before)
    return claiming.reply()


def _claim_as_logged(
    context: Context, stream: Stream, group: Group, consumer: Consumer, request: ClaimRequest
) -> Reply:
    """Applies a claim from a log, without a record or a reply (benchmark row reload)."""
    pending, log = group.pending, stream.log
    ids: list[StreamID] = []
    for entry_id in request.ids:
        if entry_id not in pending:
            if entry_id in log:
                ids.append(entry_id)
        elif log.still_has(entry_id):
            ids.append(entry_id)
        else:
            pending.drop(entry_id)
    if ids:
        consumer.active_ms = context.now_ms
        pending.deliver(ids, consumer, time_ms=request.time_ms, count=request.retry_count or 0)
    return None


@run_form("XCLAIM", CLAIMS)
def claim_run(context: Context, run: list[bytes]) -> bool:
    """Applies the claims of `[CLAIMS, key, sent, count]`, consecutive XCLAIM records, while a log is loaded.

    Returns False, and changes nothing, if an ID is invalid, repeated or of a deleted entry, or the group is missing.
    """
    stream = context.db.keys.get(run[1])
    if not isinstance(stream, Stream):
        return False
    group_name, consumer_name, tokens, records = read_claimed(run)
    group = stream.find_group(group_name)
    try:
        ids = parse_ids(tokens)
    except GenericError:
        return False
    if group is None or len(set(ids)) < len(ids) or not stream.log.has_all(ids):
        return False
    now_ms, start = context.now_ms, 0
    # As many hits as single records would count.
    context.db.hits += len(records)
    stream.used_ms = now_ms
    consumer, _ = _seen_consumer(context, run[1], group, consumer_name)
    consumer.active_ms = now_ms
    for ids_count, time_ms, count in records:
        claimed = ids[start : start + ids_count]
        group.pending.deliver(claimed, consumer, time_ms=time_ms, count=count)
        start += ids_count
    return True


def _claim_one(
    context: Context, key: bytes, entry_id: StreamID, request: ClaimRequest, min_idle_ms: int, claiming: Claiming
) -> None:
    delivery = claiming.group.pending.get(entry_id)
    if request.if_owned and (delivery is None or delivery.consumer is not claiming.consumer):
        return
    if delivery is None:
        if not request.force or entry_id not in claiming.stream.log:
            return
        count = 1
    elif not claiming.stream.log.still_has(entry_id):
        claiming.drop_dangling(key, entry_id, delivery)
        return
    elif not _is_idle_enough(delivery, min_idle_ms, context.now_ms) or not claiming.may_take(
        entry_id,
        delivery,
        passes_over_held=min_idle_ms > 0,
        is_delivery=request.retry_count is None and not request.just_ids,
    ):
        return
    else:
        count = delivery.count
    if request.retry_count is not None:
        count = request.retry_count
    elif not request.just_ids:
        count = min(count + 1, DELIVERY_COUNT_MAX)
    claiming.take(entry_id, count, delivery)


@command(
    "XAUTOCLAIM",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("stream",),
    group="stream",
    since="6.2.0",
    summary="Walks the pending list and takes ownership of entries that have been idle long enough.",
    complexity="O(1) for a small COUNT.",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        CONSUMER_ARGUMENT,
        Argument("min-idle-time"),
        Argument("start"),
        Argument("count", "integer", token="COUNT", optional=True),
        JUSTID_ARGUMENT,
    ),
    history=(("7.0.0", "Deleted entries are dropped from the pending list and listed in the reply."),),
    tips=("nondeterministic_output",),
    differs="A consumer created by a claim that claims no entry is logged, so it survives a restart.",
)
def xautoclaim(context: Context, argv: list[bytes]) -> Reply:
    """XAUTOCLAIM key group consumer min-idle-ms start [COUNT count] [JUSTID]

    Checks up to ten times COUNT (default 100) pending entries from `start` on, claims those that are idle long enough,
    and drops those whose entry is deleted.

    Returns the ID to continue from (`0-0` at the end), the claimed entries or IDs, and the dropped IDs.
    Raises WrongType, NoGroup, GenericError. Source: redis.io/commands/xautoclaim, Redis 7.0.
    """
    key, now_ms, records_before = argv[1], context.now_ms, context.records_count
    # Redis looks the key up before it parses the arguments, so a miss counts even if these are invalid.
    value = context.db.read(key, now_ms)
    min_idle_ms = parse_min_idle(argv[4], b"XAUTOCLAIM")
    start = parse_range_start(argv[5])
    count, just_ids = parse_autoclaim_options(argv)
    stream, group = group_of(value, key, argv[2])
    require_memory(count)
    consumer, is_created = _seen_consumer(context, key, group, argv[3])
    claiming = Claiming(context, key, stream, group, consumer, just_ids=just_ids)
    looks = count * AUTOCLAIM_LOOKS_PER_COUNT
    dropped: list[bytes] = []
    cursor = _skip_busy(stream, group, start, looks, min_idle_ms, now_ms)
    if cursor is None:
        cursor = _autoclaim(context, key, start, min_idle_ms, count, claiming, dropped)
    claiming.finish()
    if is_created and not claiming.taken:
        log_consumer(context, key, group, consumer.name)
    context.count_changes(is_created + claiming.changes_count, records_before=records_before)
    return [format_id(cursor), claiming.reply(), dropped]


def _skip_busy(
    stream: Stream, group: Group, start: StreamID, looks: int, min_idle_ms: int, now_ms: int
) -> StreamID | None:
    """Returns the next cursor if a check of the whole range finds nothing to claim or drop, else None."""
    if not is_nothing_idle(group, min_idle_ms, now_ms):
        return None
    stretch = group.pending.stretch(start, looks)
    if stretch is None:
        return 0
    first_id, last_id, cursor = stretch
    return cursor if stream.log.still_has_all(first_id, last_id) else None


def _autoclaim(
    context: Context,
    key: bytes,
    start: StreamID,
    min_idle_ms: int,
    count: int,
    claiming: Claiming,
    dropped: list[bytes],
) -> StreamID:
    """Claims and drops up to `count` entries from `start` on. Returns the ID to continue from, 0 at the end."""
    log, pending, more = claiming.stream.log, claiming.group.pending, 0 if claiming.just_ids else 1
    looks = count * AUTOCLAIM_LOOKS_PER_COUNT
    cursor = start
    looked: Delivery | None = None
    is_idle = False
    while count and looks:
        # One more ID than is checked now: the next round, or the next call, starts from it.
        size = min(count, looks)
        ids = pending.first_ids(cursor, min(size, len(pending)) + 1)
        cursor = ids.pop() if len(ids) > size else 0
        looks -= len(ids)
        is_whole = bool(ids) and log.still_has_all(ids[0], ids[-1])
        for entry_id in ids:
            delivery = pending.get(entry_id)
            assert delivery is not None
            if not is_whole and not log.still_has(entry_id):
                claiming.drop_dangling(key, entry_id, delivery)
                dropped.append(format_id(entry_id))
            else:
                if delivery is not looked:
                    looked, is_idle = delivery, _is_idle_enough(delivery, min_idle_ms, context.now_ms)
                if not is_idle or (
                    claiming.rules is not None
                    and not claiming.may_take(entry_id, delivery, passes_over_held=True, is_delivery=bool(more))
                ):
                    continue
                claiming.take(entry_id, min(delivery.count + more, DELIVERY_COUNT_MAX), delivery)
            count -= 1
        if not cursor:
            break
    return cursor
