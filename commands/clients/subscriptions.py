"""Who listens to what: channels, patterns of channels, and shard channels, seen from the name and from the client."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...protocol.replies import Push
from ...store.glob import matches
from .client import Client
from .courier import Courier

# Bytes of one name on both sides beside the name itself, as measured over a hundred thousand channels.
SUBSCRIPTION_SIZE: Final = 350

# What one client listens to, in the order in which it asked.
Names = dict[bytes, None]


class Listeners:
    """One kind of names. The clients of a name and the names of a client are kept in step here."""

    def __init__(self, names_of: Callable[[Client], Names]) -> None:
        self.names_of = names_of
        # Never an empty one.
        self.by_name: dict[bytes, dict[Client, None]] = {}

    def add(self, client: Client, name: bytes) -> None:
        """Let the client listen; again is no change."""
        names = self.names_of(client)
        if name in names:
            return
        names[name] = None
        client.subscriptions_size += SUBSCRIPTION_SIZE + len(name)
        self.by_name.setdefault(name, {})[client] = None

    def remove(self, client: Client, name: bytes) -> None:
        """Let it listen no more; a name it does not listen to is no error."""
        if name not in self.names_of(client):
            return
        del self.names_of(client)[name]
        client.subscriptions_size -= SUBSCRIPTION_SIZE + len(name)
        clients = self.by_name[name]
        del clients[client]
        if not clients:
            del self.by_name[name]

    def remove_client(self, client: Client) -> None:
        """The client listens to nothing any more."""
        for name in list(self.names_of(client)):
            self.remove(client, name)

    def names_matching(self, pattern: bytes | None) -> list[bytes]:
        """Names that somebody listens to: all, or those that match."""
        if pattern is None:
            return list(self.by_name)
        return [name for name in self.by_name if matches(pattern, name)]

    def count(self, name: bytes) -> int:
        """How many clients listen to this name."""
        return len(self.by_name.get(name, ()))


class Patterns(Listeners):
    """Patterns: a message is tried on all of them."""

    def matching(self, channel: bytes) -> list[bytes]:
        """The patterns that match a channel, oldest first."""
        return [pattern for pattern in self.by_name if matches(pattern, channel)]


class Subscriptions:
    """All subscriptions of a server."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self.channels = Listeners(attrgetter("channels"))
        self.patterns = Patterns(attrgetter("patterns"))
        self.shard_channels = Listeners(attrgetter("shard_channels"))

    @property
    def has_listeners(self) -> bool:
        """Whether anybody could hear what is published, shard channels apart."""
        return bool(self.channels.by_name or self.patterns.by_name)

    def publish(self, channel: bytes, payload: bytes) -> int:
        """Send to the channel's listeners, then to those of each matching pattern; how many messages that made."""
        sent = self._send(self.channels, channel, Push([b"message", channel, payload]))
        for pattern in self.patterns.matching(channel):
            sent += self._send(self.patterns, pattern, Push([b"pmessage", pattern, channel, payload]))
        return sent

    def publish_to_shard(self, channel: bytes, payload: bytes) -> int:
        """Send to the listeners of a shard channel; how many there are."""
        return self._send(self.shard_channels, channel, Push([b"smessage", channel, payload]))

    def _send(self, listeners: Listeners, name: bytes, message: Push) -> int:
        clients = listeners.by_name.get(name)
        if clients is None:
            return 0
        self._courier.deliver(clients, message)
        return len(clients)

    def remove_client(self, client: Client) -> None:
        """RESET, or the end of a connection."""
        for listeners in (self.channels, self.patterns, self.shard_channels):
            listeners.remove_client(client)
