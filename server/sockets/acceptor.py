"""Accepting connections, and refusing those that may not be served."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from ...commands.execution.enforcement import log_in_by_certificate
from ...commands.permissions.users import Users
from .connection import Connection, Shared
from .listener import PROTECTED_MODE, TOO_MANY_CLIENTS, is_loopback
from .tcp_listener import TcpListener
from .tls import common_name


class Acceptor:
    """The listening sockets of a server. They listen from the start, and accept no connection before `open`."""

    def __init__(self, shared: Shared, users: Users) -> None:
        self._shared = shared
        self._users = users
        self._sockets: list[socket.socket] = []
        self._listeners: list[asyncio.Server] = []
        # Set if a process serves clients.
        self.tcp: TcpListener | None = None

    def add(self, listening: socket.socket) -> None:
        """Add a socket from which to accept clients."""
        self._sockets.append(listening)

    async def open(self) -> None:
        """Start accepting connections."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            listen = loop.create_unix_server if each.family == socket.AF_UNIX else loop.create_server
            backlog = self._shared.config.tcp_backlog
            self._listeners.append(await listen(self.new_connection, sock=each, backlog=backlog))
        if self.tcp is not None:
            await self.tcp.start()

    def close(self) -> None:
        """Stop accepting connections."""
        for listener in self._listeners:
            listener.close()
        if self.tcp is not None:
            self.tcp.stop()

    def new_connection(self) -> asyncio.BaseProtocol:
        """Returns the protocol object of a new connection."""
        return cast(asyncio.BaseProtocol, Connection(self._shared, self.admit))

    def admit(self, connection: Connection) -> bytes | None:
        """Accept a new connection; else return the error that it gets before it is closed."""
        shared, config = self._shared, self._shared.config
        if len(shared.dispatcher.sessions) >= config.maxclients:
            shared.stats.connections_rejected += 1
            return TOO_MANY_CLIENTS
        peer = connection.transport.get_extra_info("peername")
        if config.protected_mode and self._users.default.nopass and not is_loopback(peer):
            shared.stats.connections_rejected += 1
            return PROTECTED_MODE
        shared.stats.connections_received += 1
        client = connection.client
        client.db = shared.context.store.databases[0]
        client.created_ms = client.last_active_ms = shared.clock()
        shared.dispatcher.attach(connection)
        if config.tls_auth_clients_user == b"CN":
            name = common_name(connection.transport.get_extra_info("peercert"))
            if name is not None:
                shared.context.now_ms = client.created_ms
                log_in_by_certificate(shared.context, client, name)
                shared.dispatcher.refresh_client(client)
        return None
