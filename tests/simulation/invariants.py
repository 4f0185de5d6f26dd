"""Rules that a stream and its groups always obey. Each function returns one line of text for each broken rule."""

from __future__ import annotations

from traceback import extract_tb

from headrace.store.database import Database
from headrace.store.group import ENTRIES_READ_UNKNOWN, Group
from headrace.store.pending import Delivery
from headrace.store.stream import Stream
from simulation.model import GroupModel, Model, Pending

# The idempotent IDs that the simulation sends, all by producer `p`.
IDEMPOTENT_IDS = [b"i%d" % number for number in range(12)]
# How many of the newest IDs are checked one by one after each step.
RECENT_COUNT = 120


def differences(model: Model, stream: Stream | None) -> list[str]:
    """Differences between the entries, IDs and groups of the store and of the model."""
    if stream is None:
        return ["the stream is gone"]
    wrong = []
    live = [entry_id for pairs in stream.log.copy().all_entries() for entry_id, _ in pairs]
    if live != list(model.entries):
        wrong.append(f"entries {set(live) ^ set(model.entries)}")
    if stream.last_id != model.last_id:
        wrong.append(f"last ID {stream.last_id}, not {model.last_id}")
    if stream.max_deleted_id != model.max_deleted:
        wrong.append(f"highest deleted ID {stream.max_deleted_id}, not {model.max_deleted}")
    if stream.groups.keys() != model.groups.keys():
        return [*wrong, f"groups {sorted(stream.groups)}"]
    for name, group in model.groups.items():
        found = _group_differences(group, stream.groups[name])
        wrong += [f"group {name.decode()}: {each}" for each in found]
    return wrong


def _group_differences(model: GroupModel, group: Group) -> list[str]:
    wrong = []
    if group.last_id != model.last_delivered:
        wrong.append(f"last delivered {group.last_id}, not {model.last_delivered}")
    if group.consumers.keys() != model.consumers:
        wrong.append(f"consumers {sorted(group.consumers)}, not {sorted(model.consumers)}")
    pending = {entry_id: _seen(delivery) for entry_id, delivery in group.pending.walk()}
    expected = model.pending
    if pending != expected:
        different = {each for each in pending.keys() | expected.keys() if pending.get(each) != expected.get(each)}
        wrong.append(f"pending: {[(each, pending.get(each), expected.get(each)) for each in sorted(different)]}")
    return wrong


def pair_differences(model: Model, stream: Stream, now_ms: int) -> list[str]:
    """Idempotent IDs that the stream should remember and does not, and those that it should have forgotten."""
    wrong = []
    for each in IDEMPOTENT_IDS:
        found, expected = stream.idempotence.find(b"p", each), model.remembers(each, now_ms)
        if found != expected and not model.is_in_doubt(each, now_ms):
            wrong.append(f"{each.decode()} made {found}, not {expected}")
    return wrong


def string_differences(strings: dict[bytes, tuple[bytes, int]], db: Database, now_ms: int) -> list[str]:
    """Strings that differ in the database. `strings` has the value and the expiry time (Unix ms) by key."""
    wrong = []
    for key, (value, end_ms) in strings.items():
        found = db.keys.get(key), db.expires.get(key)
        if found != (value, end_ms) and (now_ms <= end_ms or found != (None, None)):
            wrong.append(f"{key.decode()} is {found}, not {(value, end_ms)}")
    return wrong


def check_stream(model: Model, stream: Stream | None, *, is_whole: bool = False) -> list[str]:
    """Checks all rules. With `is_whole`, every ID that was ever added is checked, not only the last `RECENT_COUNT`."""
    wrong = differences(model, stream)
    if stream is None or wrong:
        return wrong
    try:
        stream.check()
    except AssertionError as error:
        place = extract_tb(error.__traceback__)[-1]
        return [f"its views do not agree, {place.filename}:{place.lineno}: {place.line} {error}"]
    if stream.entries_added != len(model.ever):
        wrong.append(f"entries-added {stream.entries_added}, not {len(model.ever)}")
    ids = model.ever if is_whole else model.ever[-RECENT_COUNT:]
    if ids != sorted(set(ids)):
        wrong.append("IDs do not increase")
    live = {entry_id: entry_id in stream.log for entry_id in ids}
    mistaken = [each for each in ids if live[each] == (each in model.deleted)]
    wrong += [f"{each} is {'there' if live[each] else 'not there'}" for each in mistaken]
    for name, of_model in model.groups.items():
        group = stream.groups[name]
        found = _check_lists(group) + _check_fates(of_model, live, group)
        wrong += [f"group {name.decode()}: {each}" for each in found + _check_counters(of_model, stream, group)]
    return wrong


def _seen(delivery: Delivery) -> Pending:
    if delivery.consumer is None:
        return Pending(None, 0, delivery.count)
    return Pending(delivery.consumer.name, delivery.time_ms, delivery.count)


def _check_lists(group: Group) -> list[str]:
    """Each pending entry of the group is in the list of exactly one consumer, or in the list of released entries."""
    parts = [[entry_id for entry_id, _ in group.pending.walk_owned(each)] for each in group.consumers.values()]
    parts.append(list(group.pending.released))
    together = [entry_id for part in parts for entry_id in part]
    if sorted(together) != [entry_id for entry_id, _ in group.pending.walk()]:
        return [f"consumers and released entries together: {sorted(together)}"]
    return []


def _check_fates(model: GroupModel, live: dict[int, bool], group: Group) -> list[str]:
    """Every ID is exactly one of: not yet delivered, pending, acknowledged, dropped, deleted before it was read.

    The server must agree for each ID. It does not distinguish delivered IDs that are no longer pending.
    """
    wrong = []
    entries, deleted = model.stream.entries, model.stream.deleted
    for entry_id, is_live in live.items():
        is_delivered = entry_id <= model.last_delivered
        fates = {
            "pending": entry_id in model.pending,
            "acknowledged": entry_id in model.acknowledged,
            "dropped": entry_id in model.dropped,
            "not yet delivered": not is_delivered and entry_id in entries,
        }
        fates["deleted unread"] = not any(fates.values()) and entry_id in deleted
        found = [name for name, is_true in fates.items() if is_true]
        seen = _fate(entry_id, is_live, group)
        is_seen = seen == ("done with" if is_delivered and found != ["pending"] else "".join(found))
        if len(found) != 1 or not is_seen:
            wrong.append(f"{entry_id} is {found}, and on the server {seen}")
    return wrong


def _fate(entry_id: int, is_live: bool, group: Group) -> str:
    """The state of one ID on the server."""
    is_pending, is_delivered = entry_id in group.pending, entry_id <= group.last_id
    if is_pending:
        return "pending" if is_delivered else "pending, and not delivered"
    if is_delivered:
        return "done with"
    return "not yet delivered" if is_live else "deleted unread"


def _check_counters(model: GroupModel, stream: Stream, group: Group) -> list[str]:
    """The lag and entries-read of the group are those of the model, including where Redis replies with null."""
    wrong = []
    if stream.lag(group) != model.lag():
        wrong.append(f"lag {stream.lag(group)}, not {model.lag()}")
    read = None if group.entries_read == ENTRIES_READ_UNKNOWN else group.entries_read
    if read != model.entries_read():
        wrong.append(f"entries-read {read}, not {model.entries_read()}")
    return wrong
