"""A client that is, or becomes, a replica of this server: what it has announced and confirmed."""

from __future__ import annotations

from enum import Enum, auto


class ReplicaState(Enum):
    """The steps from a request for synchronization to a replica that follows. CLIENT LIST and INFO show them."""

    # It has only announced itself (REPLCONF).
    ANNOUNCED = auto()
    # It waits for a snapshot to be taken.
    WAITING = auto()
    # It is being sent a snapshot.
    SENDING = auto()
    # It follows the stream.
    ONLINE = auto()


# As INFO names them.
STATE_NAMES = {
    ReplicaState.WAITING: "wait_bgsave",
    ReplicaState.SENDING: "send_bulk",
    ReplicaState.ONLINE: "online",
}


class Replica:
    """What one replica has said about itself. Offsets are bytes of the stream, times are Unix ms."""

    def __init__(self) -> None:
        self.state = ReplicaState.ANNOUNCED
        # The port and the address at which clients reach it; 0 and empty if it did not say.
        self.port = 0
        self.address = b""
        # Whether it accepts a snapshot whose size is not known before (`capa eof`).
        self.accepts_eof = False
        # Whether it accepts another ID with +CONTINUE (`capa psync2`).
        self.accepts_new_id = False
        # Whether it reads the form of rows (`capa headrace-rows-1`), and this server can write it.
        self.takes_rows = False
        # Whether it wants a snapshot, and nothing after it (`rdb-only`).
        self.wants_only_snapshot = False
        # Whether it wants a snapshot without keys, and without libraries of functions (`rdb-filter-only`).
        self.wants_no_keys = False
        self.wants_no_libraries = False
        # Whether it sent SYNC, as old replicas and redis-cli do: it gets no status line, and confirms nothing.
        self.is_plain = False
        # Whether it has confirmed anything: then it has read its snapshot.
        self.has_confirmed = False
        # What it has applied, and what of it is on its stable storage, as far as it has told.
        self.confirmed_offset = 0
        self.synced_offset = 0
        self.confirmed_ms = 0
