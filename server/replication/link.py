"""The connection to one replica: its snapshot, then the stream from its place in the backlog, as fast as it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ...commands.clients.client import Client
from ...commands.clients.replica import Replica, ReplicaState
from ...replication.backlog import Backlog

# With more unsent bytes in the transport, a replica gets no more for now. With as many, a connection is not yet told
# that its peer is slow, nor later that it has read: it must get more.
UNSENT_SIZE_MAX: Final = 256 * 1024


class Peer(Protocol):
    """The socket of a replica: `server.sockets.connection.Connection`."""

    client: Client
    is_closed: bool
    # What is notified when the peer has read, and when it has gone.
    follower: Follower | None

    @property
    def has_output(self) -> bool:
        """Whether a reply has not been taken yet."""
        ...

    def unsent_size(self) -> int:
        """Bytes that the peer has not taken yet."""
        ...

    def write_stream(self, data: bytes | memoryview) -> None:
        """Send bytes that are no reply."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def close(self) -> None:
        """Close when everything is sent."""
        ...


class Follower(Protocol):
    """What a connection tells about its peer."""

    def resume(self) -> None:
        """The peer has read: more may be sent."""
        ...

    def end(self) -> None:
        """The connection is closed."""
        ...


class Link:
    """One replica. `position` is the offset of the last byte of the stream that it was sent, or has in its snapshot."""

    def __init__(self, peer: Peer, replica: Replica, now_ms: int, on_end: Callable[[Link], None]) -> None:
        self.peer = peer
        self.replica = replica
        self.position = 0
        # Where the stream is read; None until the replica may get it.
        self._backlog: Backlog | None = None
        # The rest of a snapshot that was made before; None without one.
        self._snapshot: Iterator[bytes] | None = None
        # Whether it was sent a whole snapshot.
        self.has_snapshot = False
        self._on_snapshot_sent: Callable[[], None] = lambda: None
        self._on_end = on_end
        # When the replica was above the soft limit of its output for the first time; None while it is not. Unix ms.
        self.soft_since_ms: int | None = None
        # When it asked to be synchronized, and when it last took something; Unix ms.
        self.asked_ms = self.moved_ms = now_ms
        self._seen_sent_size = -1
        peer.follower = self

    @property
    def is_following(self) -> bool:
        """Whether it gets the stream."""
        return self._backlog is not None

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self.peer.is_closed

    def has_moved(self) -> bool:
        """Whether the replica has taken bytes since the last call."""
        sent_size = self.peer.client.sent_size - self.peer.unsent_size()
        before, self._seen_sent_size = self._seen_sent_size, sent_size
        return sent_size != before

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes outside of the stream."""
        self.peer.write_stream(data)

    def send_snapshot(self, pieces: Iterator[bytes], on_sent: Callable[[], None]) -> None:
        """Send a snapshot that is complete, a piece at a time; then call `on_sent`."""
        self._snapshot, self._on_snapshot_sent = pieces, on_sent
        self.resume()

    def follow(self, backlog: Backlog) -> None:
        """Send the stream from now on, from the position."""
        self.replica.state = ReplicaState.ONLINE
        self._backlog = backlog
        self.resume()

    def send(self, data: bytes, end: int) -> None:
        """Send the newest bytes of the stream, which end at this offset, if the replica has all before them and reads
        fast enough. Otherwise it gets them from the backlog.
        """
        peer = self.peer
        if self.position + len(data) == end and peer.unsent_size() < UNSENT_SIZE_MAX:
            self.position = end
            peer.write_stream(data)
        else:
            self.resume()

    def resume(self) -> None:
        """Send what the replica can take now."""
        peer = self.peer
        while not peer.is_closed and peer.unsent_size() <= UNSENT_SIZE_MAX:
            if self._snapshot is not None:
                piece = next(self._snapshot, None)
                if piece is None:
                    self._snapshot = None
                    self._on_snapshot_sent()
                else:
                    peer.write_stream(piece)
            elif self._backlog is not None and (data := self._backlog.read(self.position)):
                self.position += len(data)
                peer.write_stream(data)
            else:
                return

    def end(self) -> None:
        """The connection is closed."""
        self._snapshot = None
        self._on_end(self)

    def close(self) -> None:
        """Close the connection."""
        self.peer.abort()


def address_of(link: Link) -> bytes:
    """The address at which clients reach the replica of a link."""
    return replica_address(link.replica, link.peer.client)


def replica_address(replica: Replica, client: Client) -> bytes:
    """The address at which clients reach a replica: what it has announced, else that of its connection."""
    return replica.address or client.address.rpartition(b":")[0].strip(b"[]")


def lag_s(link: Link, now_ms: int) -> int:
    """Seconds since a replica that follows has confirmed anything; 0 for others."""
    is_online = link.replica.state is ReplicaState.ONLINE
    return max(0, now_ms - link.replica.confirmed_ms) // 1000 if is_online else 0
