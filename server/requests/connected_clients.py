"""Commands on other clients: CLIENT KILL, UNBLOCK, PAUSE and UNPAUSE."""

from __future__ import annotations

from ...commands.clients.client import Client
from .dispatch import Dispatcher


class ConnectedClients:
    """The clients of one dispatcher: `commands.execution.services.Clients`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def in_order(self) -> list[Client]:
        """Connected clients, oldest first."""
        return [session.client for session in self._dispatcher.sessions.values()]

    def find(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        return self._dispatcher.pushes.find(client_id)

    def kill(self, client: Client) -> None:
        """Close a connection. A client that kills itself gets its reply first."""
        if client is self._dispatcher.context.client:
            client.close_after_reply = True
            return
        session = self._dispatcher.sessions.get(client.id)
        if session is not None:
            client.killed = True
            session.abort()

    def unblock(self, client: Client, *, with_error: bool) -> bool:
        """End a blocked read early; False if the client was not blocked."""
        return self._dispatcher.serving.unblock(client, with_error=with_error)

    def pause(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold back commands for `pause_ms`."""
        self._dispatcher.begin_pause(pause_ms, writes_only=writes_only)

    def unpause(self) -> None:
        """Run the commands that were held back."""
        self._dispatcher.end_pause()
