"""XNACK: consumers release pending entries."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError, NoGroup, shown
from ...store.group import Group
from ...store.ids import StreamID, parse_ids
from ...store.pending import DELIVERY_COUNT_MAX, Delivery
from ...store.policies.group_policy import GroupPolicy
from ...store.stream import Stream
from ..core.numbers import integer, parse_integer
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from ..policies.dead_letters import bury, bury_spent
from ..policies.handing import begin_handing, end_handing
from ..policies.release import delay_released, log_released
from .entries import IDS_ARGUMENT, KEY_ARGUMENT
from .pending import GROUP_ARGUMENT, WRITE_KEY, with_group

NUMIDS_MAX: Final = 2**31 - 1
# More than a hundred thousand years.
DELAY_MS_MAX: Final = 2**52


class NackRequest:
    """XNACK's arguments after the mode word."""

    __slots__ = ("delay_ms", "force", "ids", "retry_count")

    def __init__(self, ids: list[StreamID], retry_count: int | None, force: bool, delay_ms: int | None) -> None:
        self.ids: Final = ids
        self.retry_count: Final = retry_count
        self.force: Final = force
        # None without DELAY.
        self.delay_ms: Final = delay_ms


def _parse_nack(argv: list[bytes]) -> NackRequest:
    if argv[4] == b"IDS" and parse_integer(argv[5]) == len(argv) - 6:
        return NackRequest(parse_ids(argv, 6), None, False, None)  # the usual form (benchmark row XNACK)
    tokens: list[bytes] | None = None
    retry_count: int | None = None
    delay_ms: int | None = None
    force = False
    index = 4
    while index < len(argv):
        word = argv[index].upper()
        more = len(argv) - 1 - index
        if word == b"IDS" and more:
            count = _parse_numids(argv[index + 1])
            if count > more - 1:
                raise GenericError(b"number of IDs doesn't match numids")
            tokens = argv[index + 2 : index + 2 + count]
            index += 2 + count
        elif word == b"RETRYCOUNT" and more:
            retry_count = integer(argv[index + 1])
            if retry_count < 0:
                raise GenericError(b"Invalid RETRYCOUNT value, must be >= 0")
            index += 2
        elif word == b"FORCE":
            force = True
            index += 1
        elif word == b"DELAY" and more and tokens is not None:
            delay_ms = integer(argv[index + 1])
            if not 0 <= delay_ms <= DELAY_MS_MAX:
                raise GenericError(b"Invalid DELAY value, must be >= 0 and at most %d" % DELAY_MS_MAX)
            index += 2
        else:
            raise GenericError(b"Unrecognized XNACK option '%b'" % shown(argv[index]))
    if tokens is None:
        raise GenericError(b"syntax error, expected IDS keyword")
    return NackRequest(parse_ids(tokens), retry_count, force, delay_ms)


def _parse_numids(token: bytes) -> int:
    message = b"numids must be a positive integer"
    try:
        count = integer(token)
    except GenericError:
        raise GenericError(message) from None
    if not 1 <= count <= NUMIDS_MAX:
        raise GenericError(message)
    return count


def _released_count(mode: bytes, request: NackRequest, delivery: Delivery | None) -> int:
    """Returns the delivery count of an entry after its release. `delivery` is None if FORCE makes the entry pending."""
    if request.retry_count is not None:
        return request.retry_count
    if mode == b"FATAL":
        return DELIVERY_COUNT_MAX
    if delivery is None:
        return 0
    return max(delivery.count - 1, 0) if mode == b"SILENT" else delivery.count


@command(
    "XNACK",
    arity=-7,
    flags=Flag.WRITE | Flag.FAST,
    keys=WRITE_KEY,
    categories=("stream",),
    group="stream",
    since="8.8.0",
    summary="Releases pending entries: no consumer owns them, and any consumer may claim them at once.",
    complexity="O(1) for each ID.",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        Argument(
            "mode",
            "oneof",
            arguments=(
                Argument("silent", "pure-token", token="SILENT"),
                Argument("fail", "pure-token", token="FAIL"),
                Argument("fatal", "pure-token", token="FATAL"),
            ),
        ),
        IDS_ARGUMENT,
        Argument("count", "integer", token="RETRYCOUNT", optional=True),
        Argument("force", "pure-token", token="FORCE", optional=True),
        Argument("milliseconds", "integer", token="DELAY", optional=True, since="headrace 0.1"),
    ),
    differs="`DELAY` is not in Redis. The log gets XNACK and a line with the due time, which Redis skips.",
)
def xnack(context: Context, argv: list[bytes]) -> Reply:
    """XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE] [DELAY ms]

    Releases pending entries to the group. SILENT lowers the delivery count by one, FAIL keeps it, FATAL sets it to
    DELIVERY_COUNT_MAX. Released entries form a FIFO queue, which XREADGROUP CLAIM serves first. With DELAY, and after
    FAIL in a group with BACKOFF, they enter it only after that time; entries that the policy of the group does not
    deliver again become dead letters.

    Returns the number of entries released. Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xnack, Redis 8.8.
    """
    key = argv[1]
    found = with_group(context.db.get_stream(key, context.now_ms), argv[2])
    if found is None:
        raise NoGroup.for_key(key, argv[2])
    stream, group = found
    mode = argv[3].upper()
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise GenericError(b"mode must be SILENT, FAIL, or FATAL")
    request = _parse_nack(argv)
    policy = None if context.replaying else group.policy
    if request.delay_ms is not None or policy is not None:
        return _release_by_policy(context, key, stream, group, mode, request, policy)
    released = 0
    for entry_id in request.ids:
        delivery = group.pending.get(entry_id)
        if delivery is None and not (request.force and entry_id in stream.log):
            continue
        group.release(entry_id, count=_released_count(mode, request, delivery))
        released += 1
    if released:
        _count_released(context, key, group, mode, released)
        context.log_words(argv, released)
    return released


def _count_released(context: Context, key: bytes, group: Group, mode: bytes, released: int) -> None:
    group.pending.released_total += released
    if mode == b"FATAL":
        group.pending.fatal_released_total += released
    context.db.signal_ready(key)


def _release_by_policy(
    context: Context,
    key: bytes,
    stream: Stream,
    group: Group,
    mode: bytes,
    request: NackRequest,
    policy: GroupPolicy | None,
) -> int:
    """Releases entries with DELAY, or in a group with a policy: they may have a due time, or become dead letters."""
    counts: dict[StreamID, int] = {}
    due_of: dict[StreamID, int] = {}
    buried_count = 0
    rules = begin_handing(context, key, group)
    for entry_id in request.ids:
        delivery = group.pending.get(entry_id)
        if delivery is None and not (request.force and entry_id in stream.log):
            continue
        count = _released_count(mode, request, delivery)
        is_last = mode != b"SILENT" and policy is not None and policy.is_spent(count)
        # A release would lose its consumer, and how often it was delivered.
        can_be_buried = is_last and delivery is not None and rules is not None and rules.may_bury(context.now_ms)
        if can_be_buried and bury(context, key, stream, group, entry_id, is_fatal=mode == b"FATAL"):
            buried_count += 1
            continue
        group.release(entry_id, count=count)
        counts.pop(entry_id, None)
        counts[entry_id] = count
    released = len(counts) + buried_count
    if not released:
        return 0
    _count_released(context, key, group, mode, released)
    for count, run in groupby(counts.items(), key=itemgetter(1)):
        ids = [entry_id for entry_id, _ in run]
        log_released(context, key, group, ids, count)
        delay_ms = request.delay_ms
        if policy is not None and mode != b"SILENT" and policy.is_spent(count):
            continue
        if delay_ms is None and policy is not None and mode == b"FAIL":
            delay_ms = policy.backoff_after(count)
        if delay_ms:
            due_of.update(dict.fromkeys(ids, context.now_ms + delay_ms))
    delay_released(context, key, group, due_of)
    bury_spent(context, key, stream, group)
    end_handing(context, key, group)
    return released
