"""The dispatcher's view of a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from ...commands.clients.client import Client
from ...store.class_marks import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """The client of a connection, its output so far, and its requests that wait. `Connection` is a session with a
    socket.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        # Reply pieces not yet handed to the transport: bytes, or an iterator that makes the rest of a long range.
        self.out: list[Any] = []
        # Requests that were read together with one that must wait, or left for the client's next turn.
        self.backlog: deque[list[bytes]] = deque()
        # Bytes that arrived after the backlog. They are parsed when the backlog has been run.
        self.unread = bytearray()
        self._is_turn_scheduled = False

    @property
    def has_more(self) -> bool:
        """Whether requests wait to be run."""
        return bool(self.backlog or self.unread)

    def put_back(self, requests: Iterable[list[bytes]]) -> None:
        """Put requests back that were taken out and not run, before all that wait."""
        self.backlog.extendleft(reversed(list(requests)))

    def drop_requests(self) -> None:
        """Run none of the requests that wait."""
        self.backlog.clear()
        self.unread.clear()

    def send(self) -> None:
        """Give the transport the output made so far. Only `Turns` calls this, once the log has what the output
        promises.
        """
        raise NotImplementedError

    def resume_soon(self) -> None:
        """Continue with the backlog when other clients have had their turn."""
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_scheduled = False
        self.resume()

    def resume(self) -> None:
        """Run the next requests of the backlog."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once, without sending the unsent output."""
        raise NotImplementedError
