"""The way from commands to what clients hear without having asked.

It is a class that the server extends, not a protocol, of which compiled code looks up the methods by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.replies import Reply
from .client import Client


class Courier:
    """Sends messages to clients: `server.requests.pushes.Pushes`."""

    def __init__(self) -> None:
        # The client whose command is running and whose reply is not yet written; None without one, or if its commands
        # need no check.
        self.running: Client | None = None

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send a message that is not a reply; the running client gets it after its reply."""
        raise NotImplementedError

    def deliver_now(self, client: Client) -> None:
        """Send the running client the messages that are held back until its reply."""
        raise NotImplementedError

    def kept_size(self, client: Client) -> int:
        """Size of the messages that are held back until the client has its reply; 0 unless it is running."""
        raise NotImplementedError

    def find(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        raise NotImplementedError
