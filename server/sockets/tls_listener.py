"""Accepting clients over TLS. Their handshakes go on beside everybody's requests, and who fails is told in the log.

The sockets are accepted from here, and not by the loop's own server, so that each new connection gets the context of
the moment: certificates change without a socket being closed.
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

# Longest handshake: who has a socket and says nothing must not keep it.
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
        """CONFIG SET: later handshakes use what the files hold now; connections that are there stay as they are.

        Raises ChangeRefused.
        """
        before = self._context

        def undo() -> None:
            self._context = before

        try:
            self._context = build_context(self._config)
        except TlsError as error:
            logger.warning("TLS goes on with the certificates it has: %s", error)
            raise ChangeRefused(f"Unable to update TLS configuration. {error}") from None
        return undo

    def add(self, listening: socket.socket) -> None:
        """A socket to accept clients from, once `start` is called."""
        self._sockets.append(listening)

    def start(self) -> None:
        """Let clients in."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each, self._accept, each)

    def stop(self) -> None:
        """Refuse new clients, and give up on those that shake hands."""
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
                connected.close()  # it could not read why before the handshake
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
