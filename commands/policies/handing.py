"""Around each command that gives entries of a group to a consumer, takes them from one, or releases them."""

from __future__ import annotations

from ...store.group import Group
from ...store.policies.rules import NO_HOLDER, PendingRules
from ..clients.client import GOVERNED_MAX, Client
from ..execution.context import Context
from ..execution.visits import Place
from .turns import log_turns, require_order


def begin_handing(context: Context, key: bytes, group: Group) -> PendingRules | None:
    """Take along what has become due, and let the connection guard what it is given. Returns the rules of the group,
    None if it has none. While a log is loaded or a primary is followed, nothing becomes due.
    """
    rules = group.pending.rules
    if rules is None or context.replaying:
        return None
    if rules.policy.order_field:
        require_order(context, key, group, rules)
    rules.settle(context.now_ms)
    if rules.policy.is_bounded:
        # Deleted entries may make room for readers that wait.
        context.db.streams[key].heeds_deletions = True
    if rules.policy.guards:
        rules.holder = context.client.id
        note_connection(context, key, group, rules)
    return rules


def end_handing(context: Context, key: bytes, group: Group) -> None:
    """Note when the group must be looked after. Call it after each change of its pending entries."""
    rules = group.pending.rules
    if rules is None:
        return
    rules.holder = NO_HOLDER
    if rules.order is not None:
        log_turns(context, key, group, rules)
    if not rules.is_needed:
        group.pending.forget_unneeded_rules()
        return
    due_ms = rules.next_due_ms(context.now_ms)
    if due_ms < rules.noted_ms:
        rules.noted_ms = due_ms
        context.visits.note((context.db.index, key, group.name), due_ms)


def note_dropped(context: Context, key: bytes, group: Group) -> None:
    """Entries have left the pending list of a group with rules: consumers may be given others."""
    rules = group.pending.rules
    assert rules is not None
    if rules.policy.is_bounded or rules.order is not None:
        context.db.signal_ready(key)
    end_handing(context, key, group)


def note_connection(context: Context, key: bytes, group: Group, rules: PendingRules) -> None:
    """The end of the running connection will matter to a group."""
    client = context.client
    rules.place = (key, group.name)
    client.governed[rules] = None
    if len(client.governed) > client.governed_max:
        for each in [each for each in client.governed if _place_of(context, each) is None]:
            del client.governed[each]
        client.governed_max = GOVERNED_MAX + 2 * len(client.governed)


def end_guards(context: Context, client: Client) -> None:
    """A connection is closed or reset: what it guarded is idle since its delivery."""
    for rules in client.governed:
        rules.end_guard(client.id)
        if rules.absences is not None:
            rules.absences.note_close(client.id, context.clock_us() // 1000)
        place = _place_of(context, rules)
        if place is not None:
            context.visits.note(place, 0)
    client.governed.clear()


def _place_of(context: Context, rules: PendingRules) -> Place | None:
    """Where the group of these rules is now; None if it is gone. SWAPDB may have moved it to another database."""
    key, name = rules.place
    for db in context.store.databases:
        stream = db.streams.get(key)
        group = None if stream is None else stream.groups.get(name)
        if group is not None and group.pending.rules is rules:
            return db.index, key, name
    return None
