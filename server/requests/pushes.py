"""What clients hear without having asked, and where it stands among their replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply

if TYPE_CHECKING:
    from ...commands.clients.client import Client
    from ...commands.execution.context import Context
    from .session import Session


class Pushes:
    """The way from a message to its clients' output."""

    def __init__(self, context: Context, sessions: dict[int, Session], outgoing: dict[Session, None]) -> None:
        self._context = context
        self._sessions = sessions
        self._outgoing = outgoing
        # What the running client is to hear behind its reply.
        self._own: list[bytes] = []
        self._own_size = 0

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send a message to clients. It is encoded once for each protocol; who is about to be closed gets nothing."""
        encoded: dict[int, list[bytes]] = {}
        for client in clients:
            if client.close_after_reply:
                continue
            pieces = encoded.get(client.protocol)
            if pieces is None:
                pieces = encoded[client.protocol] = []
                ENCODERS[client.protocol](message, pieces)
            if client is self._context.running:
                self._own += pieces
                self._own_size += sum(map(len, pieces))
            else:
                session = self._sessions[client.id]
                session.out += pieces
                self._outgoing[session] = None

    def kept_size(self, client: Client) -> int:
        """Bytes that the client is to hear behind its reply: none but to the one that is running."""
        return self._own_size if client is self._context.running else 0

    def end_run(self, session: Session, argv: list[bytes]) -> None:
        """The reply to `argv` is written, or the client waits for it: now it hears what the command brought about."""
        context = self._context
        if context.tracking.own_changes:
            context.tracking.tell_own(session.client)
        if session.client.tracking is not None:
            context.tracking.spend_caching_word(session.client, argv)
        context.running = None
        self.hand_over(session)

    def hand_over(self, session: Session) -> None:
        """The running client hears now what it was to hear behind its reply."""
        if self._own:
            session.out += self._own
            self._own.clear()
            self._own_size = 0
            self._outgoing[session] = None
