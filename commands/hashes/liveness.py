"""Reading fields of a hash: those that are due are removed, as Redis does when a command reads them by their names."""

from __future__ import annotations

from ...store.companions.hash_value import HashValue
from ...store.events import HEXPIRED
from ..execution.context import Context


def live_value(context: Context, key: bytes, value: HashValue, field: bytes) -> bytes | None:
    """The value of a field; None if there is none, or if it was due. The last field takes the key with it."""
    db = context.db
    if value.is_due(field, db.member_time_ms(context.now_ms)):
        db.expire_field(key, value, field)
        return None
    return value.get(field)


def live_values(context: Context, key: bytes, value: HashValue, fields: list[bytes]) -> list[bytes | None]:
    """The values of fields, None for those that are missing or were due. A hash without fields is left, for the caller
    to discard."""
    db = context.db
    live_ms = db.member_time_ms(context.now_ms)
    if value.first_due_ms >= live_ms:
        return value.get_all(fields)
    has_expired = False
    texts: list[bytes | None] = []
    for field in fields:
        if value.is_due(field, live_ms):
            has_expired |= db.drop_field(key, value, field)
            texts.append(None)
        else:
            texts.append(value.get(field))
    if has_expired:
        db.announce(HEXPIRED, key)
    return texts


def expire_all(context: Context, key: bytes, value: HashValue) -> None:
    """Remove all fields that are due. The last one takes the key with it."""
    db = context.db
    live_ms = db.member_time_ms(context.now_ms)
    if value.first_due_ms >= live_ms or db.keeps_expired:
        return
    has_expired = False
    while (field := value.first_due(live_ms)) is not None:
        has_expired |= db.drop_field(key, value, field)
    if has_expired:
        db.announce(HEXPIRED, key)
    if not len(value):
        db.discard(key)
