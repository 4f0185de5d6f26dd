"""What the policies of a group do by themselves, when their time has come: only on a primary that serves clients."""

from __future__ import annotations

from ...store.database import Database
from ...store.group import Group
from ...store.policies.agenda import NEVER_MS
from ...store.stream import Stream
from ..execution.context import Context
from ..execution.visits import Place
from .absences import delete_absent
from .dead_letters import bury_spent
from .handing import end_handing
from .later import forget_due
from .turns import require_order


def visit(context: Context, place: Place) -> None:
    """Look after one group: move its dead letters, wake readers that may be given something, and note the next visit.
    Without a group, look after the due times of the stream's entries.

    A place that is gone is forgotten. The database of the context is that of the place afterwards.
    """
    index, key, group_name = place
    context.db = db = context.store.databases[index]
    stream = db.get(key, context.now_ms)
    if not isinstance(stream, Stream):
        return
    if group_name is None:
        forget_due(context, key, stream)
        return
    group = stream.groups.get(group_name)
    if group is None or group.pending.rules is None:
        return
    if context.image is not None:
        context.image.preserve(stream)
    _look_after(context, key, stream, group)
    if context.is_counting:
        db.recount(stream)


def _look_after(context: Context, key: bytes, stream: Stream, group: Group) -> None:
    rules = group.pending.rules
    assert rules is not None
    if rules.policy.order_field:
        require_order(context, key, group, rules)
    rules.settle(context.now_ms)
    delete_absent(context, key, group, rules)
    bury_spent(context, key, stream, group)
    context.db.signal_ready(key)
    rules.noted_ms = NEVER_MS
    end_handing(context, key, group)


def note_stream(context: Context, db: Database, key: bytes) -> None:
    """Visit a stream soon, and its groups, that has come to this key, or whose state is not known here."""
    stream = db.streams.get(key)
    if stream is not None:
        if stream.later is not None:
            context.visits.note((db.index, key, None), 0)
        for group in stream.groups.values():
            if group.pending.rules is not None:
                group.pending.rules.order = None
                group.pending.rules.place = (key, group.name)
                context.visits.note((db.index, key, group.name), 0)
