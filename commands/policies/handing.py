"""Around each command that gives entries of a group to a consumer, takes them from one, or releases them."""

from __future__ import annotations

from ...store.group import Group
from ...store.policies.rules import NO_HOLDER, PendingRules
from ..clients.client import Client
from ..execution.context import Context
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
    if rules.policy.guards:
        client = context.client
        rules.holder = client.id
        client.guarded[rules] = (context.db.index, key, group.name)
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
    if rules.policy.is_bounded:
        context.db.signal_ready(key)
    end_handing(context, key, group)


def end_guards(context: Context, client: Client) -> None:
    """A connection is closed or reset: what it guarded is idle since its delivery."""
    for rules, place in client.guarded.items():
        rules.end_guard(client.id)
        if rules.absences is not None:
            rules.absences.note_close(client.id, context.clock_us() // 1000)
        context.visits.note(place, 0)
    client.guarded.clear()
