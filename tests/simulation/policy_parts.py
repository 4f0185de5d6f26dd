"""What a model of a group with policies is made of: its settings, pending entries, dead letters and waits."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.model import Entry, Pending, Wait

# What a read is given: entries, and with CLAIM also their idle times (ms) and delivery counts before.
Given = Entry | tuple[int, bytes, int, int]

# Values that begin so are of another field than that of ORDER-BY.
UNORDERED = b"-"
# MAX-PARKED where it is not set.
PARKED_MAX = 10_000


@dataclass
class Settings:
    """What `XGROUP CONFIG` has set, times in ms. Empty, 0 and False mean that an option is not set."""

    redeliver_ms: tuple[int, ...] = ()
    guards: bool = False
    lease_max_ms: int = 0
    deliveries_max: int = 0
    has_dead_letters: bool = False
    deletes_dead: bool = False
    backoff_ms: tuple[int, ...] = ()
    pending_max: int = 0
    group_pending_max: int = 0
    releases_on_deletion: bool = False
    consumer_ttl_ms: int = 0
    is_ordered: bool = False
    parked_max: int = 0

    def words(self, dead_letter_key: bytes) -> bytes:
        """All options as words of `XGROUP CONFIG`, those that are not set as well."""
        pairs = {
            b"REDELIVER": b",".join(b"%d" % each for each in self.redeliver_ms) or b"0",
            b"GUARD": b"yes" if self.guards else b"no",
            b"LEASE-MAX": b"%d" % self.lease_max_ms,
            b"MAX-DELIVERIES": b"%d" % self.deliveries_max,
            b"DEADLETTER": dead_letter_key if self.has_dead_letters else b"no",
            b"DEADLETTER-DELETE": b"yes" if self.deletes_dead else b"no",
            b"BACKOFF": b",".join(b"%d" % each for each in self.backoff_ms) or b"0",
            b"MAX-PENDING": b"%d" % self.pending_max,
            b"MAX-PENDING-GROUP": b"%d" % self.group_pending_max,
            b"ON-DELCONSUMER": b"release" if self.releases_on_deletion else b"no",
            b"CONSUMER-TTL": b"%d" % self.consumer_ttl_ms,
            b"ORDER-BY": field_of(b"") if self.is_ordered else b"no",
            b"MAX-PARKED": b"%d" % self.parked_max,
        }
        return b" ".join(b"%b %b" % pair for pair in pairs.items())


def field_of(value: bytes) -> bytes:
    """The field of an entry with this value."""
    return b"w" if value.startswith(UNORDERED) else b"v"


def step_of(steps: tuple[int, ...], count: int) -> int:
    """The place of the step after the `count`-th delivery; the last one repeats."""
    return min(max(count, 1), len(steps)) - 1


@dataclass(eq=False)
class PolicyPending(Pending):
    """A pending entry, and what policies know of it. It equals a `Pending` with the same owner, time and count."""

    # Order of releases and deliveries.
    rank: int = 0
    # When a released entry became, or becomes, one that may be had. `is_delayed`: it waits, or has waited, for that.
    ready_ms: int = 0
    is_delayed: bool = False
    # Whether it was delayed before any consumer had it: a plain read is given it like a new one.
    is_new: bool = False
    # Whether a released entry waits for an earlier one of its value.
    is_parked: bool = False
    # The connection that guards an owned entry.
    holder: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and (
            (self.consumer, self.time_ms, self.count) == (other.consumer, other.time_ms, other.count)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass
class DeadLetter:
    """An entry of the dead-letter stream."""

    value: bytes
    entry_id: int
    group: bytes
    consumer: bytes
    deliveries: int
    time_ms: int
    # Why the entry is not delivered again.
    reason: bytes


@dataclass
class PolicyWait(Wait):
    """A blocked XREADGROUP, and its connection."""

    connection: int
