"""A connection as the dispatcher sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ...commands.clients.client import Client

try:
    from mypy_extensions import mypyc_attr
except ImportError:  # it means something to the compiler only, and is nothing that users have to install

    def mypyc_attr(*attrs: Any, **kwattrs: Any) -> Any:  # type: ignore[misc]
        """Leaves a class as it is."""
        return lambda cls: cls


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """What the dispatcher and its driver know of a connection: its client, the output so far, and the requests that
    must wait. `Connection` is one with a socket.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        # Reply pieces not yet handed to the transport: bytes, or an iterator that makes the rest of a long range.
        self.out: list[Any] = []
        # Requests that were read together with one that must wait, or left for the client's next turn.
        self.backlog: deque[list[bytes]] = deque()
        # What arrived after the backlog: it is taken apart only when the backlog has been run.
        self.unread = bytearray()

    @property
    def has_more(self) -> bool:
        """Whether there are requests that wait to be run."""
        return bool(self.backlog or self.unread)

    def put_back(self, requests: Iterable[list[bytes]]) -> None:
        """Requests that were taken out and not run: they come before all that wait."""
        self.backlog.extendleft(reversed(list(requests)))

    def drop_requests(self) -> None:
        """Run none of the requests that wait."""
        self.backlog.clear()
        self.unread.clear()

    def send(self) -> None:
        """Hand over the output made so far. Only `Turns` calls this, once the log has what the output promises."""
        raise NotImplementedError

    def resume_soon(self) -> None:
        """Go on with the backlog when the others have had their turn."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once, without what is unsent."""
        raise NotImplementedError
