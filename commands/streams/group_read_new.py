"""The fast path of XREADGROUP: new entries of one stream, with no options but COUNT and BLOCK.

It has the same effects and reply as `group_read`, without the objects for other options and several streams (benchmark
rows XREADGROUP COUNT 1 and the cycle of workers).
"""

from __future__ import annotations

from typing import Final

from ...store.ids import ID_MAX, id_after
from ..core.numbers import parse_integer
from ..execution.context import Context
from .claim_log import log_delivery, log_position
from .read_request import HITS_OF_A_READ

# A number of so few digits is below every limit, so it needs no range check.
DIGITS_MAX: Final = 10


def read_new(context: Context, argv: list[bytes]) -> tuple[bytes, ...] | None:
    """Runs `XREADGROUP GROUP group consumer [COUNT n [BLOCK ms]] STREAMS key >` and returns its reply.

    Returns None, and changes nothing, if the request has another form, the group or consumer does not exist, or the
    stream has no new entry.
    """
    words_count = len(argv)
    count = -1
    if words_count > 7:
        if not (words_count == 9 or (words_count == 11 and _number(argv, 6, b"BLOCK") >= 0)):
            return None
        count = _number(argv, 4, b"COUNT")
        if count < 1:
            return None
    if argv[words_count - 3].upper() != b"STREAMS" or argv[1].upper() != b"GROUP":
        return None
    key, db, now_ms = argv[words_count - 2], context.db, context.now_ms
    stream = db.streams.get(key)
    group = stream.find_group(argv[2]) if stream is not None else None
    consumer = group.consumers.get(argv[3]) if group is not None else None
    if stream is None or group is None or consumer is None or key in db.expires:
        return None
    last_id = group.last_id
    ids, pieces = stream.log.read_with_ids(id_after(last_id), ID_MAX, count)
    if not ids:
        return None
    db.hits += HITS_OF_A_READ
    stream.used_ms = now_ms
    stream.advance(group, ids)
    group.deliveries_count += len(ids)
    group.pending.deliver(ids, consumer, time_ms=now_ms, count=1)
    consumer.seen_ms = consumer.active_ms = now_ms
    log_delivery(context, key, group, consumer.name, ids, time_ms=now_ms, count=1, last_id=last_id)
    log_position(context, key, group)
    context.counted_apart -= 1  # two records, one change
    head = b"*1\r\n*2\r\n$%d\r\n%b\r\n*%d\r\n" if context.client.protocol == 2 else b"%%1\r\n$%d\r\n%b\r\n*%d\r\n"
    return (head % (len(key), key, len(ids)), *pieces)


def _number(argv: list[bytes], place: int, word: bytes) -> int:
    """The number that follows the option `word` at `argv[place]`; -1 if another word is there, or the number may be
    invalid.
    """
    token = argv[place + 1]
    if argv[place].upper() != word or len(token) > DIGITS_MAX:
        return -1
    number = parse_integer(token)
    return -1 if number is None else number
