"""Where clients come in, and who is let in."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from ..commands.permissions.enforcement import log_in_by_certificate
from .connection import Connection
from .listener import PROTECTED_MODE, TOO_MANY_CLIENTS, is_loopback
from .tls import common_name

if TYPE_CHECKING:
    from .app import Server
    from .tcp_door import TcpDoor


class Doors:
    """The listening sockets of a server. They are open from the start; nobody is let in before `open`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sockets: list[socket.socket] = []
        self._listeners: list[asyncio.Server] = []
        self.tcp: TcpDoor | None = None
        """Set where a process serves."""

    def add(self, listening: socket.socket) -> None:
        """A socket to accept clients from."""
        self._sockets.append(listening)

    async def open(self) -> None:
        """Let clients in."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            listen = loop.create_unix_server if each.family == socket.AF_UNIX else loop.create_server
            backlog = self._server.config.tcp_backlog
            self._listeners.append(await listen(self.new_connection, sock=each, backlog=backlog))
        if self.tcp is not None:
            await self.tcp.start()

    def close(self) -> None:
        """Let nobody in any more."""
        for listener in self._listeners:
            listener.close()
        if self.tcp is not None:
            self.tcp.stop()

    def new_connection(self) -> asyncio.BaseProtocol:
        """What reads and writes the next socket."""
        return cast(asyncio.BaseProtocol, Connection(self._server))

    def admit(self, connection: Connection) -> bytes | None:
        """Let a new connection in, or answer what to tell it before it is closed."""
        server, config = self._server, self._server.config
        if len(server.dispatcher.sessions) >= config.maxclients:
            server.stats.connections_rejected += 1
            return TOO_MANY_CLIENTS
        peer = connection.transport.get_extra_info("peername")
        if config.protected_mode and server.users.default.nopass and not is_loopback(peer):
            server.stats.connections_rejected += 1
            return PROTECTED_MODE
        server.stats.connections_received += 1
        client = connection.client
        client.db = server.store.databases[0]
        client.created_ms = client.last_active_ms = server.clock()
        server.dispatcher.attach(connection)
        if config.tls_auth_clients_user == b"CN":
            name = common_name(connection.transport.get_extra_info("peercert"))
            if name is not None:
                server.context.now_ms = client.created_ms
                log_in_by_certificate(server.context, client, name)
                server.dispatcher.refresh_client(client)
        return None
