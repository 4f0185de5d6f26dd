"""The settings of a consumer group: what becomes of its pending entries. None of this is in Redis."""

from __future__ import annotations

from typing import Final

from ..pending_parts import DELIVERY_COUNT_MAX
from .settings import GROUP_SETTINGS, Kind

Value = int | bool | bytes | tuple[int, ...]


class GroupPolicy:
    """What `XGROUP CONFIG` has set. Times are in ms; 0, False and empty mean that an option is not set. It is not
    changed: other settings are another policy.
    """

    __slots__ = (
        "backoff_ms",
        "consumer_ttl_ms",
        "dead_letter_key",
        "deletes_dead",
        "deliveries_max",
        "group_pending_max",
        "guards",
        "is_bounded",
        "lease_max_ms",
        "order_field",
        "parked_max",
        "pending_max",
        "redeliver_ms",
        "releases_on_deletion",
        "spent_from",
    )

    def __init__(
        self,
        *,
        redeliver_ms: tuple[int, ...] = (),
        guards: bool = False,
        lease_max_ms: int = 0,
        deliveries_max: int = 0,
        dead_letter_key: bytes = b"",
        deletes_dead: bool = False,
        backoff_ms: tuple[int, ...] = (),
        pending_max: int = 0,
        group_pending_max: int = 0,
        releases_on_deletion: bool = False,
        consumer_ttl_ms: int = 0,
        order_field: bytes = b"",
        parked_max: int = 0,
    ) -> None:
        # An idle entry is given to a plain read after this time, by its delivery count.
        self.redeliver_ms: Final = redeliver_ms
        # An entry is not idle while the connection of its delivery is open, but no longer than `lease_max_ms`.
        self.guards: Final = guards
        self.lease_max_ms: Final = lease_max_ms
        # An entry that was delivered so often is not delivered again.
        self.deliveries_max: Final = deliveries_max
        # From this delivery count on an entry is not delivered again; 0 for never. XNACK FATAL sets the largest one.
        self.spent_from: Final = deliveries_max or (DELIVERY_COUNT_MAX if dead_letter_key else 0)
        # The stream that takes such entries, and whether they are deleted from their own.
        self.dead_letter_key: Final = dead_letter_key
        self.deletes_dead: Final = deletes_dead
        # How long an entry waits that XNACK FAIL has released, by its delivery count.
        self.backoff_ms: Final = backoff_ms
        # How many entries a consumer, and all of them together, may have unacknowledged.
        self.pending_max: Final = pending_max
        self.group_pending_max: Final = group_pending_max
        self.releases_on_deletion: Final = releases_on_deletion
        self.consumer_ttl_ms: Final = consumer_ttl_ms
        # Entries with equal values of this field are delivered one after the other.
        self.order_field: Final = order_field
        self.parked_max: Final = parked_max
        # Whether reads must count what a consumer or the group has.
        self.is_bounded: Final = bool(pending_max or group_pending_max)

    def values(self) -> dict[bytes, bytes]:
        """The options that are set, in the order of the table, with their values as a client writes them."""
        texts: dict[bytes, bytes] = {}
        for setting in GROUP_SETTINGS:
            value: Value = getattr(self, setting.attribute)
            if value:
                texts[setting.name] = _text(setting.kind, value)
        return texts

    def words(self) -> list[bytes]:
        """Names and values of the options that are set, one after the other."""
        return [word for pair in self.values().items() for word in pair]

    def backoff_after(self, count: int) -> int:
        """How long an entry waits, in ms, that is released with this delivery count."""
        return step_of(self.backoff_ms, count) if self.backoff_ms else 0

    def is_spent(self, count: int) -> bool:
        """Whether an entry with this delivery count is not delivered again."""
        return 0 < self.spent_from <= count


def step_of(steps: tuple[int, ...], count: int) -> int:
    """The step after the `count`-th delivery; the last one repeats."""
    return steps[min(max(count, 1), len(steps)) - 1]


def _text(kind: Kind, value: Value) -> bytes:
    if isinstance(value, tuple):
        return b",".join(b"%d" % each for each in value)
    if isinstance(value, bytes):
        return value
    if kind is Kind.NUMBER:
        return b"%d" % value
    return b"release" if kind is Kind.RELEASE else b"yes"
