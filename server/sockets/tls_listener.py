"""Accepting clients over TLS. Handshakes run while other clients are served, and failed ones are in the server log.

Connections are accepted here, not by the loop's own server, so that each new one gets the present context: certificates
change without closing a socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ..configuration.config import ChangeRefused, Config, Undo
from ..reports.stats import Stats
from .tls import DIRECTIVES, TlsError, build_context

logger = logging.getLogger(__name__)

# Longest handshake: a silent client must not keep its socket.
HANDSHAKE_S: Final = 10.0


class TlsListener:
    """Listens on sockets that are open already. Raises TlsError if the directives do not make a context."""

    def __init__(
        self,
        config: Config,
        stats: Stats,
        new_connection: Callable[[], asyncio.BaseProtocol],
        count_clients: Callable[[], int],
    ) -> None:
        self._config = config
        self._stats = stats
        self._new_connection = new_connection
        # Returns the number of connected clients, for `maxclients`.
        self._count_clients = count_clients
        self._context = build_context(config)
        self._sockets: list[socket.socket] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        for name in DIRECTIVES:
            config.before_change(name, lambda value: self._renew(), is_reread=True)

    def _renew(self) -> Undo:
        """CONFIG SET: later handshakes use the present contents of the files; existing connections do not change.

        Raises ChangeRefused.
        """
        before = self._context

        def undo() -> None:
            self._context = before

        try:
            self._context = build_context(self._config)
        except TlsError as error:
            logger.warning("TLS continues with its present certificates: %s", error)
            raise ChangeRefused(f"Unable to update TLS configuration. {error}") from None
        return undo

    def add(self, listening: socket.socket) -> None:
        """Add a socket from which to accept clients, after `start`."""
        self._sockets.append(listening)

    def start(self) -> None:
        """Start accepting connections."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each, self._accept, each)

    def stop(self) -> None:
        """Refuse new clients, and close those that are in their handshake."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for task in self._handshakes:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._config.max_new_tls_connections_per_cycle):
            try:
                connected, _ = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                logger.warning("Accepting client connection: %s", error.strerror)
                return
            connected.setblocking(False)
            if len(self._handshakes) + self._count_clients() >= self._config.maxclients:
                self._stats.connections_rejected += 1
                connected.close()  # it could not receive the reason before the handshake
                continue
            task = asyncio.get_running_loop().create_task(self._shake_hands(connected))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connected: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            peer = connected.getpeername()
            await loop.connect_accepted_socket(
                self._new_connection, connected, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (ssl.SSLError, OSError) as error:
            reason = (
                error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error) or "connection lost"
            )
            logger.info(
                "Error accepting a client connection: %s (addr=%s:%s)", reason.lower().replace("_", " "), *peer[:2]
            )
            connected.close()
