"""Clients that reconnect after their connection ends, and record the replies that they got."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from support.replies import Node, parse, plain
from support.wire import Argument, Wire

KEY = "jobs"
GROUP = "workers"
# Entries that are pending for longer than this are claimed by other consumers.
IDLE_MS_MIN = 500
RETRY_S = 0.05
REPLY_TIMEOUT_S = 5.0


class Worker(threading.Thread):
    """One client. `find_port` returns the present port of the server; `stopping` ends the client between two turns."""

    def __init__(self, name: str, find_port: Callable[[], int], stopping: threading.Event, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._find_port = find_port
        self._stopping = stopping
        self.rnd = random.Random(seed)
        self.turns_count = 0
        self.reconnects_count = 0
        # An error other than a lost connection.
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run turns until `stopping` is set, with a new connection after each lost one."""
        wire: Wire | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if wire is None:
                        wire = Wire(self._find_port(), timeout_s=REPLY_TIMEOUT_S)
                    self.turn(wire)
                    self.turns_count += 1
                except (OSError, _NotServing):
                    self.reconnects_count += 1
                    if wire is not None:
                        wire.close()
                    wire = None
                    self._stopping.wait(RETRY_S)
        except BaseException as error:
            self.error = error
        finally:
            if wire is not None:
                wire.close()

    def turn(self, wire: Wire) -> None:
        """Send some requests."""
        raise NotImplementedError


class _NotServing(Exception):
    """The server is running, and does not serve commands yet."""


def ask(wire: Wire, *arguments: Argument) -> Any:
    """Send a request, and return the reply as Python values. Raises OSError when the connection is lost."""
    return _value(wire.call(*arguments), arguments)


def _value(raw: bytes, arguments: tuple[Argument, ...]) -> Any:
    reply = plain(parse(raw))
    if isinstance(reply, Node):
        if reply.value.startswith((b"LOADING", b"UNBLOCKED")):
            raise _NotServing
        raise AssertionError(f"{arguments} got {reply.value!r}")
    return reply


def note(values: dict[bytes, bytes], entry_id: bytes, value: bytes) -> None:
    """Note the value of an ID. Raises AssertionError if the ID has another one."""
    if values.setdefault(entry_id, value) != value:
        raise AssertionError(f"{entry_id!r} has two values: {values[entry_id]!r} and {value!r}")


class Producer(Worker):
    """Adds numbered entries."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sent_count = 0
        # Value by ID of every XADD that got its reply.
        self.answered: dict[bytes, bytes] = {}

    def turn(self, wire: Wire) -> None:
        """Add some entries in a pipeline."""
        values = [b"%b-%d" % (self.name.encode(), self.sent_count + index) for index in range(self.rnd.randrange(1, 9))]
        self.sent_count += len(values)
        for value in values:
            wire.send("XADD", KEY, "*", "v", value)
        for value in values:
            note(self.answered, _value(wire.receive(), ("XADD", value)), value)
        self._stopping.wait(0.002)


class Consumer(Worker):
    """Reads, claims entries that other consumers left pending, and acknowledges most entries with XACKDEL."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Value by ID of every entry that was delivered to it.
        self.delivered: dict[bytes, bytes] = {}
        # IDs for which XACKDEL replied with 1.
        self.acknowledged: set[bytes] = set()
        # IDs whose XACKDEL was sent and got no reply. The server may have run it.
        self.unanswered: set[bytes] = set()

    def turn(self, wire: Wire) -> None:
        """Read or claim, and acknowledge."""
        if self.rnd.random() < 0.1:
            entries = ask(wire, "XAUTOCLAIM", KEY, GROUP, self.name, IDLE_MS_MIN, "0", "COUNT", 50)[1]
        else:
            read = ["XREADGROUP", "GROUP", GROUP, self.name, "COUNT", 20, "BLOCK", 50, "STREAMS", KEY, ">"]
            reply = ask(wire, *read)
            entries = reply[0][1] if reply else []
        for entry_id, fields in entries:
            note(self.delivered, entry_id, fields[1])
        ids = [entry_id for entry_id, _ in entries if self.rnd.random() < 0.95]
        if not ids:
            return
        try:
            replies = ask(wire, "XACKDEL", KEY, GROUP, "IDS", len(ids), *ids)
        except OSError:
            self.unanswered.update(ids)
            raise
        for entry_id, done in zip(ids, replies, strict=True):
            if done == 1:
                if entry_id in self.acknowledged:
                    raise AssertionError(f"{entry_id!r} was acknowledged twice")
                self.acknowledged.add(entry_id)
