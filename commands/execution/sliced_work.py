"""The steps of a command on large values. The server of this process takes them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...store.database import Database
from ..clients.blocking import Blocked
from ..clients.client import Client

# Each step takes about a millisecond. The last one returns the result, or raises what the command would.
Steps = Generator[None, None, Any]


class SlicedWork:
    """The steps of one command: they are taken for its client, in its database, at its time (Unix ms)."""

    __slots__ = ("_failure", "_result", "blocked", "client", "db", "now_ms", "steps")

    def __init__(self, client: Client, db: Database, now_ms: int, argv: list[bytes], steps: Steps) -> None:
        self.client = client
        self.db = db
        self.now_ms = now_ms
        # The wait for the last step.
        self.blocked = Blocked([], argv, None, can_be_unblocked=False)
        self.steps = steps
        self._result: Any = None
        self._failure: Exception | None = None

    def take_step(self) -> bool:
        """Take a step. Returns False if it was the last one."""
        try:
            next(self.steps)
        except StopIteration as end:
            self._result = end.value
            return False
        except Exception as failure:
            # The command raises it when it is run again, so that its client has a reply.
            self._failure = failure
            return False
        return True

    def result(self) -> Any:
        """The result of the last step. Raises what it raised."""
        if self._failure is not None:
            raise self._failure
        return self._result
