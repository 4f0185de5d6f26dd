"""Subscriptions to channels, patterns of channels, and shard channels, by name and by client."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...protocol.replies import Push
from ...store.glob import matching_patterns, matching_texts
from .client import Client
from .courier import Courier

# Bytes of one name in the tables of names and of clients, without the name itself, as measured over a hundred thousand
# channels.
SUBSCRIPTION_SIZE: Final = 350

# The subscribed names of one client, oldest first.
Names = dict[bytes, None]


class Listeners:
    """Subscriptions of one kind. The clients of a name and the names of a client always agree."""

    def __init__(self, names_of: Callable[[Client], Names]) -> None:
        self.names_of = names_of
        # The clients of each name; none is empty.
        self.by_name: dict[bytes, dict[Client, None]] = {}

    def add(self, client: Client, name: bytes) -> None:
        """Subscribe the client to a name. A repeated subscription changes nothing."""
        names = self.names_of(client)
        if name in names:
            return
        names[name] = None
        client.subscriptions_size += SUBSCRIPTION_SIZE + len(name)
        self.by_name.setdefault(name, {})[client] = None

    def remove(self, client: Client, name: bytes) -> None:
        """Unsubscribe the client from a name. A name without its subscription is not an error."""
        if name not in self.names_of(client):
            return
        del self.names_of(client)[name]
        client.subscriptions_size -= SUBSCRIPTION_SIZE + len(name)
        clients = self.by_name[name]
        del clients[client]
        if not clients:
            del self.by_name[name]

    def remove_client(self, client: Client) -> None:
        """End all subscriptions of the client."""
        for name in list(self.names_of(client)):
            self.remove(client, name)

    def names_matching(self, pattern: bytes | None) -> list[bytes]:
        """Names with subscribers: all, or those that match."""
        if pattern is None:
            return list(self.by_name)
        return matching_texts(pattern, self.by_name)

    def count(self, name: bytes) -> int:
        """The number of clients that are subscribed to this name."""
        return len(self.by_name.get(name, ()))


class Patterns(Listeners):
    """Subscriptions to patterns: each message is compared with all patterns."""

    def matching(self, channel: bytes) -> list[bytes]:
        """The patterns that match a channel, oldest first."""
        return matching_patterns(self.by_name, channel)


class Subscriptions:
    """All subscriptions of a server."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self.channels = Listeners(attrgetter("channels"))
        self.patterns = Patterns(attrgetter("patterns"))
        self.shard_channels = Listeners(attrgetter("shard_channels"))

    @property
    def has_listeners(self) -> bool:
        """Whether there are subscribers, apart from those of shard channels."""
        return bool(self.channels.by_name or self.patterns.by_name)

    def publish(self, channel: bytes, payload: bytes) -> int:
        """Send to the channel's subscribers, then to those of each matching pattern. Returns the number of messages."""
        sent = 0
        if (clients := self.channels.by_name.get(channel)) is not None:
            sent = self._send(clients, Push([b"message", channel, payload]))
        if self.patterns.by_name:
            for pattern in self.patterns.matching(channel):
                sent += self._send(self.patterns.by_name[pattern], Push([b"pmessage", pattern, channel, payload]))
        return sent

    def publish_to_shard(self, channel: bytes, payload: bytes) -> int:
        """Send to the subscribers of a shard channel. Returns their number."""
        clients = self.shard_channels.by_name.get(channel)
        return 0 if clients is None else self._send(clients, Push([b"smessage", channel, payload]))

    def _send(self, clients: dict[Client, None], message: Push) -> int:
        self._courier.deliver(clients, message)
        return len(clients)

    def remove_client(self, client: Client) -> None:
        """End all subscriptions, after RESET or when the connection ends."""
        for listeners in (self.channels, self.patterns, self.shard_channels):
            listeners.remove_client(client)
