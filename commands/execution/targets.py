"""Records of effects that do not go to both places, the log and the replicas, or have another form in each."""

from __future__ import annotations

from typing import TypeAlias

from ...persistence.policy_lines import ping_of_lines

# Database index and record.
Effects: TypeAlias = "list[tuple[int, bytes]]"


class LogRecord(bytes):
    """A record that replicas do not get: a script has chosen `REPL_AOF`."""

    __slots__ = ()


class StreamRecord(bytes):
    """A record that the log does not get: a message to subscribers, or a script has chosen `REPL_REPLICA`."""

    __slots__ = ()


class PolicyRecord(bytes):
    """A policy line in the form of the log. Replicas get it as a PING."""

    __slots__ = ()

    def for_replicas(self) -> StreamRecord:
        """The record that replicas get."""
        return StreamRecord(ping_of_lines(self))


def for_log(effects: Effects) -> Effects:
    """The effects that the log gets."""
    return [effect for effect in effects if type(effect[1]) is not StreamRecord]


def for_replicas(effects: Effects) -> Effects:
    """The effects that replicas get, each in the form for them."""
    return [
        (index, record.for_replicas() if isinstance(record, PolicyRecord) else record)
        for index, record in effects
        if type(record) is not LogRecord
    ]
