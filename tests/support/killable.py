"""Clients of a server that is killed, and the data that they must find after its restart."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from support.replies import parse, plain
from support.wire import Argument, Wire

PIPELINE_MAX = 8
# Share of the writers' turns that begin with BGREWRITEAOF.
REWRITE_SHARE = 0.01

Request = tuple[Argument, ...]


class Load(threading.Thread):
    """One connection that works until the server is gone. `on_answers` gets the number of replies of each turn."""

    def __init__(self, port: int, seed: int, on_answers: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(port)
        self._on_answers = on_answers
        self.rnd = random.Random(seed)
        # An error other than the end of the server.
        self.error: Exception | None = None

    def run(self) -> None:
        """See `Load`."""
        try:
            while True:
                self.turn()
        except (ConnectionError, OSError):
            return
        except Exception as error:
            self.error = error
        finally:
            self._wire.close()

    def turn(self) -> None:
        """Some requests."""
        raise NotImplementedError

    def ask(self, requests: list[Request], on_reply: Callable[[Any], None] = lambda reply: None) -> None:
        """Send a pipeline; each reply is reported when it arrives."""
        for request in requests:
            self._wire.send(*request)
        for _ in requests:
            on_reply(plain(parse(self._wire.receive())))
        self._on_answers(len(requests))


class Writer(Load):
    """Adds numbered entries to a stream of its own: `sent_count` numbers were sent, `answered` have their IDs."""

    def __init__(self, port: int, seed: int, on_answers: Callable[[int], None], key: str, number: int) -> None:
        super().__init__(port, seed, on_answers)
        self.key = key
        self.sent_count = number
        # Number by entry ID.
        self.answered: dict[bytes, int] = {}

    def turn(self) -> None:
        """A pipeline of XADD."""
        if self.rnd.random() < REWRITE_SHARE:
            self.ask([("BGREWRITEAOF",)])
        first = self.sent_count
        self.sent_count += self.rnd.randrange(1, PIPELINE_MAX + 1)
        numbers = iter(range(first, self.sent_count))

        def note(entry_id: Any) -> None:
            self.answered[entry_id] = next(numbers)

        self.ask([("XADD", self.key, "*", "n", number) for number in range(first, self.sent_count)], note)


class Reader(Load):
    """Reads a stream through a group and acknowledges some of what it gets."""

    def __init__(self, port: int, seed: int, on_answers: Callable[[int], None], key: str) -> None:
        super().__init__(port, seed, on_answers)
        self.key = key
        # IDs in replies of XREADGROUP.
        self.delivered: list[bytes] = []
        # IDs in requests of XACK.
        self.acknowledging: set[bytes] = set()
        # IDs whose XACK was answered.
        self.acknowledged: set[bytes] = set()

    def turn(self) -> None:
        """Read, and acknowledge a part of it."""
        fresh: list[bytes] = []

        def note(reply: Any) -> None:
            fresh.extend(entry_id for _, entries in reply or [] for entry_id, _ in entries)

        self.ask([("XREADGROUP", "GROUP", "g", "c", "COUNT", 5, "STREAMS", self.key, ">")], note)
        self.delivered += fresh
        done = {entry_id for entry_id in fresh if self.rnd.random() < 0.7}
        if done:
            self.acknowledging |= done
            self.ask([("XACK", self.key, "g", *sorted(done))])
            self.acknowledged |= done
