"""The idle time of a value, for OBJECT IDLETIME and DEBUG OBJECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store.key_uses import UseKind

if TYPE_CHECKING:
    from ...store.value import Value
    from ..execution.context import Context


def key_idle_s(context: Context, key: bytes, value: Value) -> int:
    """Seconds since the key was last used, or under an LRM policy changed; 0 for a string of whose uses nothing is
    recorded."""
    uses = context.db.uses
    if uses is not None and uses.rules.kind is not UseKind.LFU:
        return uses.idle_ms(key, value, context.now_ms) // 1000
    if isinstance(value, bytes):
        return 0
    used_ms = value.used_ms or context.server.stats.started_ms
    return max(0, context.now_ms - used_ms) // 1000
