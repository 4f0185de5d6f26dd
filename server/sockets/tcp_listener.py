"""Listening on TCP: on the addresses of `bind`, `port` and `tls-port`, also after CONFIG SET changed them.

Existing connections stay. The old sockets are closed before the new ones are opened, because an address may be among
both. If the new sockets cannot be opened, the old ones are opened again and CONFIG SET is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from ..configuration.config import ChangeRefused, Config, Undo
from .listener import ListenError, open_tcp_sockets
from .tls_listener import TlsListener

logger = logging.getLogger(__name__)

# `bind` and `port`.
Place = tuple[bytes, int]


class TcpListener:
    """The listening TCP sockets of a server. `new_connection` makes the protocol object of an accepted connection.
    Raises ListenError.
    """

    def __init__(
        self, config: Config, tls: TlsListener | None, new_connection: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._config = config
        self._tls = tls
        self._new_connection = new_connection
        self._listeners: list[asyncio.Server] = []
        # The sockets without TLS.
        self.sockets: list[socket.socket] = []
        self.tls_sockets: list[socket.socket] = []
        # The last start after a move. This reference keeps it from being collected.
        self._starting: asyncio.Task[None] | None = None
        self._place: Place = (config.bind, config.port)
        self._open(self._place)
        change = config.before_change
        change("port", lambda value: self._move("Unable to listen on this port. Check server logs."))
        change("bind", lambda value: self._move("Failed to bind to specified addresses."))

    def _open(self, place: Place) -> None:
        """Listen; connections are accepted after `start`. Raises ListenError, and then listens on no address."""
        config = self._config
        addresses, port = os.fsdecode(place[0]).split(), place[1]
        plain = open_tcp_sockets(addresses, port, config.tcp_backlog) if port else []
        try:
            if self._tls is not None:
                self.tls_sockets = open_tcp_sockets(
                    addresses, config.tls_port, config.tcp_backlog, directive="tls-port"
                )
                for each in self.tls_sockets:
                    self._tls.add(each)
        except ListenError:
            for each in plain:
                each.close()
            raise
        self.sockets, self._place = plain, place

    async def start(self) -> None:
        """Start accepting connections."""
        loop = asyncio.get_running_loop()
        sockets, backlog = self.sockets, self._config.tcp_backlog
        if self._tls is not None:
            self._tls.start()
        for each in sockets:
            listener = await loop.create_server(self._new_connection, sock=each, backlog=backlog)
            if sockets is not self.sockets:
                listener.close()  # moved meanwhile
                return
            self._listeners.append(listener)

    def stop(self) -> None:
        """Refuse new clients."""
        for listener in self._listeners:
            listener.close()
        for each in self.sockets:
            each.close()
        if self._tls is not None:
            self._tls.stop()
        self._listeners, self.sockets, self.tls_sockets = [], [], []

    def _move(self, refusal: str) -> Undo | None:
        """Listen on the present addresses of the directives. `refusal` is the error if that fails. Raises
        ChangeRefused.
        """
        config = self._config
        before, wanted = self._place, (config.bind, config.port)
        if wanted == before:
            return None
        self.stop()
        try:
            self._open(wanted)
        except ListenError as error:
            logger.warning("%s", error)
            self._reopen(before)
            raise ChangeRefused(refusal) from None
        finally:
            self._start_soon()
        return lambda: self._move_back(before)

    def _move_back(self, place: Place) -> None:
        self.stop()
        self._reopen(place)
        self._start_soon()

    def _start_soon(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self.start())

    def _reopen(self, place: Place) -> None:
        try:
            self._open(place)
        except ListenError as error:
            logger.error("No new clients until CONFIG SET names another port or address: %s", error)
