"""What must be true of a stream and its group, whatever has happened; each broken rule is a line."""

from __future__ import annotations

from bisect import bisect_right

from headrace.store.group import ENTRIES_READ_UNKNOWN, Group
from headrace.store.pending import Delivery
from headrace.store.stream import Stream
from simulation.model import Model, Pending

RECENT_COUNT = 300
"""IDs whose fate is looked up one by one after each step."""


def differences(model: Model, stream: Stream | None, *, is_restarted: bool = False) -> list[str]:
    """Where the store does not hold what the model holds."""
    if stream is None:
        return ["the stream is gone"]
    wrong = []
    live = [entry_id for pairs in stream.log.copy().all_entries() for entry_id, _ in pairs]
    if live != list(model.entries):
        wrong.append(f"entries {set(live) ^ set(model.entries)}")
    if stream.last_id != model.last_id:
        wrong.append(f"last ID {stream.last_id}, not {model.last_id}")
    group = stream.groups[b"g"]
    if group.last_id != model.last_delivered:
        wrong.append(f"last delivered {group.last_id}, not {model.last_delivered}")
    pending = {entry_id: _seen(delivery) for entry_id, delivery in group.pending.walk()}
    # A rewritten log leaves out pending entries that are gone.
    expected = {
        entry_id: delivery
        for entry_id, delivery in model.pending.items()
        if not is_restarted or entry_id in model.entries or entry_id in pending
    }
    if pending != expected:
        different = {each for each in pending.keys() | expected.keys() if pending.get(each) != expected.get(each)}
        wrong.append(f"pending: {[(each, pending.get(each), expected.get(each)) for each in sorted(different)]}")
    elif is_restarted:
        for lost in model.pending.keys() - pending.keys():
            model._drop(lost)
    return wrong


def check_stream(model: Model, stream: Stream | None) -> list[str]:
    """All rules."""
    wrong = differences(model, stream)
    if stream is None or wrong:
        return wrong
    stream.check()
    group = stream.groups[b"g"]
    return _check_lists(group) + _check_fates(model) + _check_counters(model, stream, group)


def _seen(delivery: Delivery) -> Pending:
    if delivery.consumer is None:
        return Pending(None, 0, delivery.count)
    return Pending(delivery.consumer.name, delivery.time_ms, delivery.count)


def _check_lists(group: Group) -> list[str]:
    """The group's pending list is those of its consumers and the released entries, each exactly once."""
    parts = [[entry_id for entry_id, _ in group.pending.walk_owned(each)] for each in group.consumers.values()]
    parts.append(list(group.pending.released))
    together = [entry_id for part in parts for entry_id in part]
    if sorted(together) != [entry_id for entry_id, _ in group.pending.walk()]:
        return [f"consumers and released entries together: {sorted(together)}"]
    return []


def _check_fates(model: Model) -> list[str]:
    """Every ID is exactly one of: not yet delivered, pending, acknowledged, dropped, deleted before it was read."""
    recent = model.ever[-RECENT_COUNT:]
    if recent != sorted(set(recent)):
        return ["IDs do not increase"]
    wrong = []
    for entry_id in recent:
        is_delivered = entry_id <= model.last_delivered
        fates = (
            entry_id in model.pending,
            entry_id in model.acknowledged,
            entry_id in model.dropped,
            not is_delivered and entry_id in model.entries,
        )
        is_deleted_unread = not any(fates) and entry_id in model.deleted
        if sum(fates) + is_deleted_unread != 1:
            wrong.append(f"{entry_id} is {fates}, deleted unread: {is_deleted_unread}")
    return wrong


def _check_counters(model: Model, stream: Stream, group: Group) -> list[str]:
    """Counters that are defined agree with counting."""
    wrong = []
    if stream.entries_added != len(model.ever):
        wrong.append(f"entries-added {stream.entries_added}, not {len(model.ever)}")
    unread = sum(entry_id > group.last_id for entry_id in model.entries)
    lag = stream.lag(group)
    if lag is not None and lag != unread:
        wrong.append(f"lag {lag}, not {unread}")
    # The group was made at 0-0 and moves by reading only: each entry up to its position was added before.
    read = bisect_right(model.ever, group.last_id)
    has_read_all = read > 0 and group.last_id == stream.last_id
    if group.entries_read != read and (has_read_all or group.entries_read != ENTRIES_READ_UNKNOWN):
        wrong.append(f"entries-read {group.entries_read}, not {read}")
    return wrong
