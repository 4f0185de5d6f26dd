"""Records of effects that do not go to both places, the log and the replicas."""

from __future__ import annotations


class LogRecord(bytes):
    """A record that replicas do not get: a script has chosen `REPL_AOF`."""

    __slots__ = ()


class StreamRecord(bytes):
    """A record that the log does not get: a message to subscribers, or a script has chosen `REPL_REPLICA`."""

    __slots__ = ()
