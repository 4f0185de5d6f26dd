"""Rows about every command: processor time of one request, on data that has been there for a while.

The forms are in `command_forms.py`. A run of a form sends pipelines of sixteen over ten connections, as many as fit in
a fraction of a second of the server's time.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Extent:
    """How much one measurement of a form sends: requests with numbers from `first` on, as many as fit in `run_s`."""

    requests_max: int = REQUESTS_MAX
    run_s: float = RUN_S
    first: int = 0
    # The requests are sent in so many parts, of which the cheapest counts.
    parts: int = 1


USUAL: Final = Extent()


class RepliedBatch:
    """Requests sent in one piece, `times` times, of whose replies only the number is known."""

    def __init__(self, requests: list[Words], *, may_fail: bool, times: int = 1) -> None:
        self.requests = b"".join(map(encode, requests)) * times
        self._left = len(requests) * times
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


def measure(server: PeerServer, form: Form, extent: Extent = USUAL) -> Sample:
    """The form, with as many requests as fit in the time of one run: a single one if that takes longer."""
    numbers = range(extent.first, extent.first + extent.requests_max)
    with ExitStack() as stack:
        wire = stack.enter_context(server.connect())
        for first in numbers[::FILL_PIPELINE] if form.fresh else ():
            send(wire, form.fresh, range(first, first + FILL_PIPELINE))
        send(wire, form.once)
        for others in form.others:
            begin_reading(stack.enter_context(server.connect()), others)
        sent = 0
        for count in (1, ROUND):
            before_s = cpu_time(server)
            sample = run(server, form, numbers[sent : sent + count])
            spent_s = cpu_time(server) - before_s
            sent += count
            if spent_s >= extent.run_s:
                return sample
        more = min(extent.requests_max - sent, int(extent.run_s / max(spent_s, 1e-6)) * ROUND + ROUND)
        size = max(ROUND, more // extent.parts // ROUND * ROUND)
        samples = [run(server, form, part) for part in _parts(numbers[sent : sent + more], size)]
        # A clock that has not moved during a part has measured nothing.
        return min(samples, key=lambda sample: sample.cpu_us or math.inf)


def _parts(numbers: range, size: int) -> list[range]:
    return [numbers[start : start + size] for start in range(0, len(numbers) - size + 1, size)]


def run(server: PeerServer, form: Form, numbers: range) -> Sample:
    """The requests of these numbers, dealt out among the connections."""
    lanes = [
        [batch(form, numbers[start : start + PIPELINE]) for start in range(lane * PIPELINE, len(numbers), ROUND)]
        for lane in range(min(LANES, len(numbers[::PIPELINE])))
    ]
    (opening,) = requests_of(form.opening, range(1))
    return prepared(server, len(numbers), lanes, opening)


def batch(form: Form, numbers: range) -> RepliedBatch:
    """The requests of these numbers."""
    times = 1 if "{" in form.text else len(numbers)
    requests = [words for each in requests_of(form.text, numbers[::times]) for words in each]
    return RepliedBatch(requests, may_fail=bool(form.refused), times=times)


def begin_reading(wire: Wire, text: str) -> None:
    """Send the requests, and take what arrives until `wire` is closed."""
    (requests,) = requests_of(text, range(1))
    for words in requests:
        wire.call(*words)
    read_in_background(wire.socket)


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
        is_on_one_processor=True,
        table=TABLE,
    )
    for name, title, form in all_forms()
)
