"""Releasing entries with a due time (DELAY, BACKOFF), and how that is logged.

A Redis that reads the log knows the released entries. The due times are a line that it skips, so it would hand them out
at once.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from ...store.group import Group
from ...store.ids import StreamID, format_id
from ...store.policies.due_words import due_words
from ..execution.context import Context


def log_released(context: Context, key: bytes, group: Group, ids: list[StreamID], count: int) -> None:
    """Log that entries were released, with this delivery count."""
    words = [b"XNACK", key, group.name, b"FAIL", b"IDS", b"%d" % len(ids), *map(format_id, ids)]
    context.log_words([*words, b"RETRYCOUNT", b"%d" % count, b"FORCE"], len(ids))


def log_due(context: Context, key: bytes, group: Group, due_of: dict[StreamID, int]) -> None:
    """Log the due times of released entries, Unix ms."""
    for words in due_words(key, group.name, due_of.items()):
        context.log_policy(words)


def delay_released(context: Context, key: bytes, group: Group, due_of: dict[StreamID, int]) -> None:
    """Let released entries not be had before their due times, and log that."""
    if due_of:
        rules = group.require_rules()
        for entry_id, due_ms in due_of.items():
            rules.delay(entry_id, due_ms)
        log_due(context, key, group, due_of)


def release_owned(context: Context, key: bytes, group: Group, name: bytes) -> int:
    """Release what a consumer owns, in the order of IDs. Returns the number of entries."""
    consumer = group.consumers.get(name)
    if consumer is None or not consumer.pending_count:
        return 0
    owned = [(entry_id, delivery.count) for entry_id, delivery in group.pending.walk_owned(consumer)]
    for count, run in groupby(owned, key=itemgetter(1)):
        ids = [entry_id for entry_id, _ in run]
        for entry_id in ids:
            group.release(entry_id, count=count)
        words = [b"XNACK", key, group.name, b"SILENT", b"IDS", b"%d" % len(ids), *map(format_id, ids)]
        context.log_words([*words, b"RETRYCOUNT", b"%d" % count], len(ids))
    group.pending.released_total += len(owned)
    context.db.signal_ready(key)
    return len(owned)
