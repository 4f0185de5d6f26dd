"""The fast path of XREADGROUP: new entries of one stream, or none, with no options but COUNT, BLOCK and CLAIM.

It has the same effects and reply as `group_read`, without the objects for other options and several streams (benchmark
rows XREADGROUP COUNT 1 and the cycle of workers).
"""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.ids import ID_MAX, id_after
from ..core.numbers import parse_integer
from ..execution.context import Context
from ..policies.absences import note_use
from ..policies.claim_log import log_delivery, log_position
from ..policies.handing import begin_handing, end_handing
from .pending import is_nothing_idle
from .read_request import HITS_OF_A_READ

# A number of so few digits is below every limit, so it needs no range check.
DIGITS_MAX: Final = 10


def read_new(context: Context, argv: list[bytes]) -> Reply:
    """Runs `XREADGROUP GROUP group consumer [COUNT n] [BLOCK ms] [CLAIM ms] STREAMS key >` and returns its reply.

    Returns None, and changes nothing, if the request has another form, the group or consumer does not exist, an entry
    may be claimed, the reply has claimed and new entries to tell apart, policies decide, or the client must wait.
    """
    words_count = len(argv)
    if argv[words_count - 3].upper() != b"STREAMS" or argv[1].upper() != b"GROUP" or not words_count & 1:
        return None
    count, claim_idle_ms, is_blocking = -1, 0, False
    for place in range(4, words_count - 3, 2):
        word, number = argv[place].upper(), _number(argv[place + 1])
        if word == b"BLOCK" and number >= 0:
            is_blocking = True
        elif number < 1:
            return None
        elif word == b"COUNT":
            count = number
        elif word == b"CLAIM":
            claim_idle_ms = number
        else:
            return None
    key, db, now_ms = argv[words_count - 2], context.db, context.now_ms
    stream = db.streams.get(key)
    group = stream.find_group(argv[2]) if stream is not None else None
    consumer = group.consumers.get(argv[3]) if group is not None else None
    if stream is None or group is None or consumer is None or key in db.expires:
        return None
    rules = group.pending.rules
    if rules is not None:
        if rules.policy.order_field or not rules.is_quiet(now_ms):
            return None
        if rules.policy.is_bounded:
            room = rules.room_for_new(consumer)
            count = room if count < 0 else min(count, room)
            if count < 1:
                return None
    if stream.later is not None:
        return None
    last_id = group.last_id
    has_new = stream.log.last_id > last_id
    if not has_new and not is_blocking and (not claim_idle_ms or is_nothing_idle(group, claim_idle_ms, now_ms)):
        db.hits += HITS_OF_A_READ
        stream.used_ms = consumer.seen_ms = now_ms
        if rules is not None:
            note_use(context, key, group, consumer)
        return NULL_ARRAY
    if not has_new or claim_idle_ms:
        return None
    ids, pieces = stream.log.read_with_ids(id_after(last_id), ID_MAX, count)
    db.hits += HITS_OF_A_READ
    stream.used_ms = now_ms
    stream.advance(group, ids)
    group.pending.delivered_total += len(ids)
    if rules is not None:
        if rules.absences is not None:
            note_use(context, key, group, consumer)
        if rules.policy.guards:
            begin_handing(context, key, group)
    group.pending.deliver(ids, consumer, time_ms=now_ms, count=1)
    consumer.seen_ms = consumer.active_ms = now_ms
    log_delivery(context, key, group, consumer.name, ids, time_ms=now_ms, count=1, last_id=last_id)
    log_position(context, key, group)
    if rules is not None and (rules.policy.guards or rules.quiet_until_ms < rules.noted_ms):
        end_handing(context, key, group)
    context.counted_apart -= 1  # two records, one change
    head = b"*1\r\n*2\r\n$%d\r\n%b\r\n*%d\r\n" if context.client.protocol == 2 else b"%%1\r\n$%d\r\n%b\r\n*%d\r\n"
    return (head % (len(key), key, len(ids)), *pieces)


def _number(token: bytes) -> int:
    """The number that `token` spells; -1 if it may be invalid."""
    number = parse_integer(token) if len(token) <= DIGITS_MAX else None
    return -1 if number is None else number
