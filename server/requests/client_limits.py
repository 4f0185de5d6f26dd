"""Limits of clients: unsent output by class, memory of all clients together, and idle time.

Replies, messages and pushes all leave through `Connection.send`, which calls `closes` while the peer does not read fast
enough. The periodic work checks the other limits. Sizes are bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ...commands.clients.client import Client
from ...commands.clients.client_line import describe
from ..configuration.config import Config
from ..configuration.directive_kinds import Limit
from ..reports.activity import log_idle
from ..reports.stats import Stats

logger = logging.getLogger(__name__)

NO_LIMIT = 2**63

# Redis' smallest limit for all clients together: with a smaller one, no client could raise it again.
EVICTION_LIMIT_MIN = 128 * 1024

# Unsent output at which a client that has not logged in is closed: room for many errors, and harmless.
UNAUTHENTICATED_OUTPUT_SIZE_MAX = 16 * 1024 + 1024


class Limited(Protocol):
    """A connection as the limits use it: `sockets.connection.Connection`."""

    client: Client
    is_closed: bool

    @property
    def must_log_in(self) -> bool:
        """Whether the client has not logged in and must."""
        ...

    def output_size(self) -> int:
        """Size of the output that the peer has not taken yet."""
        ...

    def has_taken_output(self) -> bool:
        """Whether its unsent bytes have changed since the last call."""
        ...

    def configure_output(self) -> None:
        """Apply changed limits to the transport's buffer."""
        ...

    def abort(self) -> None:
        """Close at once, without sending the unsent output."""
        ...


class ClientLimits:
    """`client-output-buffer-limit`, `maxmemory-clients` and `timeout` of one server."""

    def __init__(
        self,
        config: Config,
        stats: Stats,
        connections: Callable[[], Iterable[Limited]],
        clock: Callable[[], int],
        monotonic: Callable[[], int],
    ) -> None:
        self._config = config
        self._stats = stats
        self._connections = connections
        self._clock = clock
        self._monotonic = monotonic
        # Connections above their soft limit, with the time since when.
        self._soft_since_ms: dict[Limited, int] = {}
        self._by_class = config.buffer_limits
        config.on_change("client-output-buffer-limit", lambda value: self._configure())

    def _configure(self) -> None:
        self._by_class = self._config.buffer_limits
        for connection in self._connections():
            connection.configure_output()

    def smallest_output_limit(self) -> int:
        """The smallest hard or soft limit of the classes that clients are of."""
        limits = [size for name in (b"normal", b"pubsub") for size in self._by_class[name][:2]]
        return min((size for size in limits if size), default=NO_LIMIT)

    def _output_limit(self, connection: Limited) -> Limit:
        if connection.must_log_in:
            return UNAUTHENTICATED_OUTPUT_SIZE_MAX, 0, 0
        return self._by_class[b"pubsub" if connection.client.is_subscriber else b"normal"]

    # -- output ----------------------------------------------------------------------------------

    def closes(self, connection: Limited) -> bool:
        """Close the connection if its peer reads too slowly for its class. Returns whether it was closed."""
        hard_size, soft_size, soft_s = self._output_limit(connection)
        size = connection.output_size()
        if not (hard_size and size >= hard_size):
            if not soft_size or size < soft_size:
                self._soft_since_ms.pop(connection, None)
                return False
            now_ms = self._monotonic()
            if now_ms - self._soft_since_ms.setdefault(connection, now_ms) <= soft_s * 1000:
                return False
        self._soft_since_ms.pop(connection, None)
        self._stats.output_buffer_limit_disconnections += 1
        logger.warning(
            "Client %s closed for overcoming of output buffer limits.",
            describe(connection.client, self._clock()).decode("utf-8", "replace"),
        )
        connection.abort()
        return True

    # -- periodic --------------------------------------------------------------------------------

    def cron(self, now_ms: int) -> None:
        """Close clients that were above a soft limit for too long, and the largest ones if all take too much memory."""
        for connection in list(self._soft_since_ms):
            if connection.is_closed:
                del self._soft_since_ms[connection]
            else:
                self.closes(connection)
        if self._config.maxmemory_clients:
            self.evict()

    def evict(self) -> None:
        """Close the largest clients until all together are within `maxmemory-clients`."""
        limit: int = self._config.maxmemory_clients
        if limit < 0:
            limit = -limit * self._config.maxmemory // 100
        if not limit:
            return
        limit = max(limit, EVICTION_LIMIT_MIN)
        sized = [(each.client.memory_size, each) for each in self._connections() if _may_evict(each.client)]
        total = sum(size for size, _ in sized)
        if total <= limit:
            return
        sized.sort(key=lambda pair: pair[0])
        while total > limit and sized:
            size, connection = sized.pop()
            total -= size
            self._stats.evicted_clients += 1
            described = describe(connection.client, self._clock()).decode("utf-8", "replace")
            logger.info("Evicting client: %s", described)
            connection.abort()

    def close_idle(self, now_ms: int) -> None:
        """Close clients that were silent for `timeout` seconds. A blocked or subscribed client is not idle."""
        timeout_ms = self._config.timeout * 1000
        if not timeout_ms:
            return
        for connection in self._connections():
            client = connection.client
            is_waiting = client.blocked is not None or client.is_held or client.is_subscriber
            if is_waiting or client.is_monitor or client.is_replica or now_ms - client.last_active_ms <= timeout_ms:
                continue
            if connection.has_taken_output():
                client.last_active_ms = now_ms
            else:
                log_idle(client, now_ms)
                connection.abort()


def _may_evict(client: Client) -> bool:
    """Whether `maxmemory-clients` concerns it. A replica has limits of its own."""
    return not (client.no_evict or client.is_replica)
