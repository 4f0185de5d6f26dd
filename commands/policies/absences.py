"""CONSUMER-TTL: consumers that are absent for too long are deleted. What they have pending is released first."""

from __future__ import annotations

from typing import Final

from ...store import events
from ...store.group import Group
from ...store.pending import Consumer
from ...store.policies.rules import PendingRules
from ..execution.context import Context
from .handing import note_connection
from .release import release_owned

# Consumers that one visit looks at.
LOOKED_AT_MAX: Final = 256


def note_use(context: Context, key: bytes, group: Group, consumer: Consumer) -> None:
    """The running command uses a consumer, which is not absent while its connection is open."""
    rules = group.pending.rules
    if rules is not None and rules.absences is not None and not context.replaying:
        rules.absences.note_use(consumer.name, context.client.id)
        note_connection(context, key, group, rules)


def delete_absent(context: Context, key: bytes, group: Group, rules: PendingRules) -> None:
    """Delete the consumers of a group that are absent for too long, if it has such a limit."""
    absences = rules.absences
    if absences is None:
        return
    for name in absences.take_due(context.now_ms, LOOKED_AT_MAX):
        consumer = group.consumers.get(name)
        if consumer is None:
            continue
        since_ms = context.now_ms if absences.is_connected(name) else absences.absent_since_ms(consumer)
        if since_ms + absences.ttl_ms > context.now_ms:
            absences.expect(name, since_ms)
            continue
        release_owned(context, key, group, name)
        group.remove_consumer(name)
        rules.counts.consumers_expired += 1
        context.db.announce(events.XGROUP_DELCONSUMER, key)
        context.log(b"XGROUP", b"DELCONSUMER", key, group.name, name)
