"""A connection as the dispatcher sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..commands.client import Client


class Session:
    """What the dispatcher knows of a connection: its client, the output so far, and the requests that must wait."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.out: list[Any] = []
        """Reply pieces not yet handed to the transport: bytes, or an iterator that makes the rest of a long range."""
        self.backlog: deque[list[bytes]] = deque()
        """Requests behind a blocked, held or slow-reading one, or left for the client's next turn."""

    def put_back(self, requests: Iterable[list[bytes]]) -> None:
        """Requests that were taken out and not run: they come before all that wait."""
        self.backlog.extendleft(reversed(list(requests)))
