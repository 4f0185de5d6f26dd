"""Dead letters: entries that were delivered too often move to another stream of the same database."""

from __future__ import annotations

import logging
from typing import Final

from ...persistence.grammar.streams import pack_acknowledged, pack_added
from ...store import events
from ...store.entry_form import fields_of
from ...store.errors import GenericError, ReplyError, WrongType
from ...store.group import Group
from ...store.ids import SEQ_BITS, SEQ_MASK, StreamID, format_id
from ...store.pending import DELIVERY_COUNT_MAX
from ...store.policies.rules import PendingRules
from ...store.stream import Stream
from ..execution.context import Context

logger = logging.getLogger(__name__)

# After a failure, the dead letters of a group are tried again so much later.
RETRY_MS: Final = 1000
# One line of the log in this time, however many fail.
LOG_INTERVAL_MS: Final = 60_000
# Entries that one call moves.
BURIED_MAX: Final = 256


class BuriesItself(GenericError):
    """The dead-letter stream is the stream itself (after a RENAME)."""

    def __init__(self) -> None:
        super().__init__(b"the dead-letter stream is the stream itself")


def bury_spent(context: Context, key: bytes, stream: Stream, group: Group) -> int:
    """Move entries of the group that are not delivered again, if it has a dead-letter stream. Returns how many."""
    rules = group.pending.rules
    if rules is None or not rules.spent or not rules.may_bury(context.now_ms):
        return 0
    moved = 0
    while rules.spent and moved < BURIED_MAX and bury(context, key, stream, group, next(iter(rules.spent))):
        moved += 1
    return moved


def bury(
    context: Context, key: bytes, stream: Stream, group: Group, entry_id: StreamID, *, is_fatal: bool = False
) -> bool:
    """Move one pending entry to the dead-letter stream of the group. Returns False if that failed, which is counted,
    logged, and tried again later. An entry that was deleted only leaves the pending list.

    `is_fatal`: its consumer has said so (XNACK FATAL).
    """
    rules, pending = group.pending.rules, group.pending
    assert rules is not None
    entry, delivery = stream.log.get(entry_id), pending.get(entry_id)
    assert delivery is not None
    id_text = format_id(entry_id)
    if entry is None:
        pending.drop(entry_id)
        context.log_record(pack_acknowledged(key, group.name, id_text))
        return True
    target_key = rules.policy.dead_letter_key
    reason = b"fatal" if is_fatal or delivery.count == DELIVERY_COUNT_MAX else b"deliveries"
    words = [
        b"XADD", target_key, b"*", *fields_of(entry),
        b"_stream", key, b"_id", id_text, b"_group", group.name,
        b"_consumer", b"" if delivery.consumer is None else delivery.consumer.name,
        b"_deliveries", b"%d" % delivery.count, b"_reason", reason, b"_time_ms", b"%d" % context.now_ms,
    ]  # fmt: skip
    try:
        if target_key == key:
            raise BuriesItself
        append_entry(context, target_key, words)
    except ReplyError as error:
        _note_failure(context, key, group, rules, error)
        return False
    pending.drop(entry_id)
    context.log_record(pack_acknowledged(key, group.name, id_text))
    if rules.policy.deletes_dead and not stream.is_referenced(entry_id) and stream.delete(entry_id):
        context.db.touch(key, events.XDEL)
        context.log(b"XDEL", key, id_text)
    context.db.announce(events.XDEADLETTER, key)
    # A consumer or the group may have had as many as it may.
    context.db.signal_ready(key)
    rules.counts.dead_letters += 1
    return True


def append_entry(context: Context, target_key: bytes, words: list[bytes]) -> None:
    """Run `XADD target_key * field value ...` on a stream that the running command may not name; it is created if there
    is none. Raises ReplyError.
    """
    refusal = context.server.memory.refusal()
    if refusal is not None:
        raise refusal
    db, now_ms = context.db, context.now_ms
    target = db.get(target_key, now_ms)
    if target is not None and not isinstance(target, Stream):
        raise WrongType
    is_new = target is None
    if target is None:
        target = Stream(context.limits)
    elif context.image is not None:
        context.image.preserve(target)
    target.used_ms = now_ms
    new_id = target.next_id(now_ms)
    _, entry, record = pack_added(words, 2, 3, new_id >> SEQ_BITS, new_id & SEQ_MASK)
    target.append(new_id, entry)
    if is_new:
        db.add(target_key, target)
    context.log_record(record)
    db.touch(target_key, events.XADD)
    db.signal_ready(target_key)
    if context.is_counting:
        db.recount(target)


def _note_failure(context: Context, key: bytes, group: Group, rules: PendingRules, error: ReplyError) -> None:
    rules.counts.dead_letter_failures += 1
    rules.postpone_dead_letters(context.now_ms + RETRY_MS)
    if context.now_ms >= context.dead_letters_logged_ms + LOG_INTERVAL_MS:
        context.dead_letters_logged_ms = context.now_ms
        logger.warning(
            "dead letters of group %r of stream %r cannot be moved to %r: %s. They stay pending, and are tried again",
            group.name, key, rules.policy.dead_letter_key, error.wire_text.decode(errors="replace"),
        )  # fmt: skip
