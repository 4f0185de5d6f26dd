"""The idle time of a value, for OBJECT IDLETIME and DEBUG OBJECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...store.value import Value
    from ..execution.context import Context


def value_idle_s(context: Context, value: Value) -> int:
    """Seconds since a value was last used; 0 for a string."""
    if isinstance(value, bytes):
        return 0
    used_ms = value.used_ms or context.server.stats.started_ms
    return max(0, context.now_ms - used_ms) // 1000
