"""The options of `XGROUP CONFIG`, as a table: their names, kinds and places in a `GroupPolicy`."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple


class Kind(Enum):
    """The form of a value. Each has a value that takes the option back."""

    # Milliseconds, separated by commas: the n-th is for the n-th delivery, the last one for all later ones. 0 takes
    # back.
    TIMES = auto()
    # Milliseconds, or a number of entries. 0 takes back.
    NUMBER = auto()
    # `yes`; `no` takes back.
    FLAG = auto()
    # `release`; `no` takes back.
    RELEASE = auto()
    # A key or a field, any bytes. The empty string takes back.
    NAME = auto()


class Setting(NamedTuple):
    """One option: its name, its kind, and the attribute of `GroupPolicy` that has its value."""

    name: bytes
    kind: Kind
    attribute: str
    # The option without which this one has no meaning, if there is one.
    needs: bytes | None = None


GROUP_SETTINGS: Final = (
    Setting(b"REDELIVER", Kind.TIMES, "redeliver_ms"),
    Setting(b"GUARD", Kind.FLAG, "guards"),
    Setting(b"LEASE-MAX", Kind.NUMBER, "lease_max_ms", b"GUARD"),
    Setting(b"MAX-DELIVERIES", Kind.NUMBER, "deliveries_max"),
    Setting(b"DEADLETTER", Kind.NAME, "dead_letter_key"),
    Setting(b"DEADLETTER-DELETE", Kind.FLAG, "deletes_dead", b"DEADLETTER"),
    Setting(b"BACKOFF", Kind.TIMES, "backoff_ms"),
    Setting(b"MAX-PENDING", Kind.NUMBER, "pending_max"),
    Setting(b"MAX-PENDING-GROUP", Kind.NUMBER, "group_pending_max"),
    Setting(b"ON-DELCONSUMER", Kind.RELEASE, "releases_on_deletion"),
    Setting(b"CONSUMER-TTL", Kind.NUMBER, "consumer_ttl_ms"),
    Setting(b"ORDER-BY", Kind.NAME, "order_field"),
    Setting(b"MAX-PARKED", Kind.NUMBER, "parked_max", b"ORDER-BY"),
)
BY_NAME: Final = {setting.name: setting for setting in GROUP_SETTINGS}
