"""Messages that clients get without a request, and their place among the replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...commands.clients.courier import Courier
from ...protocol.encoder import encode2, encode3
from ...protocol.replies import Reply

if TYPE_CHECKING:
    from ...commands.clients.client import Client
    from .session import Session


class Pushes(Courier):
    """The way from a message to its clients' output."""

    def __init__(self) -> None:
        super().__init__()
        # The sessions by client ID.
        self.sessions: dict[int, Session] = {}
        # Sessions with new output, in order.
        self.outgoing: dict[Session, None] = {}
        # Messages for the running client, sent after its reply.
        self._own: list[bytes] = []
        self._own_size = 0

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send a message to clients. It is encoded once for each protocol. Clients that are about to be closed get
        nothing.
        """
        # Empty before there is a client with this protocol.
        pieces2: list[bytes] = []
        pieces3: list[bytes] = []
        running = self.running
        for client in clients:
            if client.close_after_reply:
                continue
            if client.protocol == 2:
                pieces = pieces2
                if not pieces:
                    encode2(message, pieces)
            else:
                pieces = pieces3
                if not pieces:
                    encode3(message, pieces)
            if client is running:
                self._own += pieces
                self._own_size += sum(map(len, pieces))
            else:
                session = self.sessions[client.id]
                session.out += pieces
                self.outgoing[session] = None

    def kept_size(self, client: Client) -> int:
        """Size of the messages that the client gets after its reply; 0 for any but the running client."""
        return self._own_size if client is self.running else 0

    def find(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        session = self.sessions.get(client_id)
        return None if session is None else session.client

    def deliver_now(self, client: Client) -> None:
        """Send the running client the messages that were held back until its reply."""
        self.hand_over(self.sessions[client.id])

    def end_run(self, session: Session) -> None:
        """The reply is written, or the client waits for it: now it hears what the command brought about."""
        self.running = None
        self.hand_over(session)

    def hand_over(self, session: Session) -> None:
        """Send the running client the messages that were held back until its reply."""
        if self._own:
            session.out += self._own
            self._own.clear()
            self._own_size = 0
            self.outgoing[session] = None
