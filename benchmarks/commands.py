"""Rows about every command: processor time of one request, on data that has been there for a while.

The forms are in `command_forms.py`. A run of a form sends pipelines of sixteen over ten connections, as many as fit in
a fraction of a second of the server's time.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

import hiredis
from benchmarks.command_forms import FILL, FILL_ONCE, REQUESTS_MAX, WARM_KEYS, Form, all_forms, requests_of
from benchmarks.load import Refused, Words, cpu_time, prepared, read_in_background
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample

from support.wire import Wire, encode

TABLE: Final = "commands"
PIPELINE: Final = 16
LANES: Final = 10
ROUND: Final = PIPELINE * LANES
FILL_PIPELINE: Final = 100
# Processor time of the server that one run may take.
RUN_S: Final = 0.1


class RepliedBatch:
    """Requests sent in one piece, of whose replies only the number is known."""

    def __init__(self, requests: list[Words], *, may_fail: bool) -> None:
        self.requests = b"".join(map(encode, requests))
        self._left = len(requests)
        self._may_fail = may_fail
        self._read_size = 0
        self._reader = hiredis.Reader(notEnoughData=Ellipsis)

    def is_answered_by(self, received: bytes) -> bool:
        """Whether these are all replies. Raises Refused if there is an error among them."""
        self._reader.feed(received, self._read_size, len(received) - self._read_size)
        self._read_size = len(received)
        while (reply := self._reader.gets()) is not Ellipsis:
            self._left -= 1
            if isinstance(reply, hiredis.ReplyError) and not self._may_fail:
                raise Refused(str(reply))
        return self._left == 0


def fill(server: PeerServer) -> None:
    """The data that commands meet."""
    with server.connect() as wire:
        for first in range(0, WARM_KEYS, FILL_PIPELINE):
            send(wire, FILL, range(first, first + FILL_PIPELINE))
        send(wire, FILL_ONCE)


def send(wire: Wire, text: str, numbers: range = range(1)) -> None:
    """Send the requests of all these numbers together, and wait for the replies. Errors are no concern."""
    requests = [words for each in requests_of(text, numbers) for words in each]
    wire.send_bytes(b"".join(map(encode, requests)))
    for _ in requests:
        wire.receive()


def measure(server: PeerServer, form: Form) -> Sample:
    """The form, with as many requests as fit in the time of one run."""
    with ExitStack() as stack:
        wire = stack.enter_context(server.connect())
        for first in range(0, REQUESTS_MAX if form.fresh else 0, FILL_PIPELINE):
            send(wire, form.fresh, range(first, first + FILL_PIPELINE))
        send(wire, form.once)
        for others in form.others:
            begin_reading(stack.enter_context(server.connect()), others)
        before_s = cpu_time(server)
        run(server, form, range(ROUND))
        spent_s = cpu_time(server) - before_s
        count = min(REQUESTS_MAX - ROUND, int(RUN_S / max(spent_s, 1e-6)) * ROUND + ROUND)
        return run(server, form, range(ROUND, ROUND + count // ROUND * ROUND))


def run(server: PeerServer, form: Form, numbers: range) -> Sample:
    """The requests of these numbers, dealt out among the connections."""
    firsts = numbers[::PIPELINE]
    lanes = [[batch(form, range(first, first + PIPELINE)) for first in firsts[lane::LANES]] for lane in range(LANES)]
    (opening,) = requests_of(form.opening, range(1))
    return prepared(server, len(numbers), lanes, opening)


def batch(form: Form, numbers: range) -> RepliedBatch:
    """The requests of these numbers."""
    requests = [words for each in requests_of(form.text, numbers) for words in each]
    return RepliedBatch(requests, may_fail=bool(form.refused))


def begin_reading(wire: Wire, text: str) -> None:
    """Send the requests, and take what arrives until `wire` is closed."""
    (requests,) = requests_of(text, range(1))
    for words in requests:
        wire.call(*words)
    read_in_background(wire)


def row_name(name: str) -> str:
    """The name of the row of the form with this name."""
    return f"command-{name}"


ROWS = tuple(
    Row(
        row_name(name),
        title,
        "requests/s",
        partial(measure, form=form),
        fill,
        runs=3,
        is_usual=False,
        table=TABLE,
    )
    for name, title, form in all_forms()
)
