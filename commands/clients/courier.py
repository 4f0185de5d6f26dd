"""The way from commands to what clients hear without having asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ...protocol.replies import Reply
from .client import Client


class Courier(Protocol):
    """Sends messages to clients: `server.requests.pushes.Pushes`."""

    # The client whose command is running and whose reply is not yet written; None without one, or if its
    # commands need no check.
    running: Client | None

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send a message that is not a reply; the running client gets it after its reply."""
        ...

    def deliver_now(self, client: Client) -> None:
        """Send the running client the messages that are held back until its reply."""
        ...

    def kept_size(self, client: Client) -> int:
        """Size of the messages that are held back until the client has its reply; 0 unless it is running."""
        ...

    def find(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        ...
