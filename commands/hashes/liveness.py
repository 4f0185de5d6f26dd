"""Reading fields of a hash: those that are due are removed, as Redis does when a command reads one by its name."""

from __future__ import annotations

from ...store.companions.hash_value import HashValue
from ..execution.context import Context


def live_value(context: Context, key: bytes, value: HashValue, field: bytes) -> bytes | None:
    """The value of a field; None if there is none, or if it was due. The last field takes the key with it."""
    db = context.db
    if value.is_due(field, db.member_time_ms(context.now_ms)):
        db.expire_field(key, value, field)
        return None
    return value.get(field)
