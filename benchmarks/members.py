"""Rows about members: processor time of every command on values with members, by the number of members.

The forms are in `member_forms.py`. Rows of one number share their servers, whose values are made once. A run sends a
form in pipelines of sixteen over up to ten connections, as often as fits in a fraction of a second of the server's
time.

Headrace frees removed and replaced values later, a little at a time, and so does Redis after UNLINK. That is a cost of
the request: what a server spends until nothing is left to free is added. What a run has made is removed and freed
before the next one begins.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.command_forms import Form
from benchmarks.commands import FILL_PIPELINE, run, send
from benchmarks.load import Refused, cpu_time
from benchmarks.member_forms import all_texts, fill_texts, form_of, is_measured
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask

from support.lines import quote, split
from support.replies import parse
from support.wire import Wire

TABLE: Final = "members"
COUNTS: Final = (10, 100, 200, 500, 1_000, 10_000, 100_000)
# Processor time of the server for a run. Half of it is enough, and REQUESTS_MAX requests are.
RUN_S: Final = 0.02
REQUESTS_MAX: Final = 8_000
# Bytes of the requests of a run.
REQUESTS_SIZE_MAX: Final = 16_000_000
# Copies that are made for a run, and their members.
COPIES_MAX: Final = 4_000
COPIED_MEMBERS_MAX: Final = 200_000
# A part of a run has so many times as many requests as the part before it, at most, until one takes long enough.
MORE: Final = 16
# A part that is to take RUN_S has so many times as many requests, as later requests take less time than the first.
MARGIN: Final = 1.2
FREED_DEADLINE_S: Final = 60.0
# Each question takes a fiftieth of the time in which Headrace frees something meanwhile.
POLL_S: Final = 0.02
# Keys that one request removes.
REMOVED_COUNT: Final = 1_000
DUMP: Final = re.compile(r"\{(\w+)_dump\}")


def fill(server: PeerServer, count: int) -> None:
    """The values of all types, with so many members."""
    with server.connect() as wire:
        for text in fill_texts(count):
            ask(wire, *split(text))
        wait_until_freed(server, wire)


def measure(server: PeerServer, command: str, text: str, count: int) -> Sample:
    """Processor time of a request of the form, with so many members.

    Parts of more and more requests are sent. The first that takes long enough counts, or the last.
    """
    with server.connect() as wire:
        form = with_dumps(wire, form_of(command, text, count))
        numbers = numbers_of(form, count)
        for first in numbers[::FILL_PIPELINE] if form.fresh else ():
            send(wire, form.fresh, numbers[first : first + FILL_PIPELINE])
        size = 1
        while True:
            part, numbers = numbers[:size], numbers[size:]
            sample = run(server, form, part)
            assert sample.cpu_us is not None
            spent_s = sample.cpu_us * len(part) / 1e6 + wait_until_freed(server, wire)
            if spent_s >= RUN_S / 2 or not numbers:
                break
            size = min(len(part) * MORE, math.ceil(len(part) * MARGIN * RUN_S / max(spent_s, 1e-6)))
        remove(wire, text, range(numbers.stop))
        wait_until_freed(server, wire)
    cpu_us = spent_s * 1e6 / len(part)
    return Sample(cpu_us, cpu_us)


def numbers_of(form: Form, count: int) -> range:
    """The numbers of as many requests as a run may send."""
    copies_max = min(COPIES_MAX, COPIED_MEMBERS_MAX // count) if form.fresh else REQUESTS_MAX
    return range(max(1, min(REQUESTS_MAX, REQUESTS_SIZE_MAX // len(form.text), copies_max)))


def with_dumps(wire: Wire, form: Form) -> Form:
    """The form with what this server returns for DUMP, of the keys that it names so."""
    return Form(DUMP.sub(lambda match: _dump(wire, match[1]), form.text), fresh=form.fresh, opening=form.opening)


def _dump(wire: Wire, key: str) -> str:
    payload = parse(ask(wire, "DUMP", key)).value
    # Braces and semicolons have a meaning in the text of a form.
    return quote([payload]).replace("{", r"\x7b").replace(";", r"\x3b")


def remove(wire: Wire, text: str, numbers: range) -> None:
    """Remove what the requests of these numbers have left, in both databases that forms use."""
    names = {word.removesuffix("{n}") for word in text.replace(";", " ").split() if word.endswith("{n}")}
    for database in (1, 0) if text.startswith("MOVE ") else (0,):
        ask(wire, "SELECT", database)
        for first in numbers[::REMOVED_COUNT]:
            part = numbers[first : first + REMOVED_COUNT]
            ask(wire, "DEL", "to", *(f"{name}{number}" for name in names for number in part))


def wait_until_freed(server: PeerServer, wire: Wire) -> float:
    """Wait until the server has freed all values that were removed. Returns the processor time that took, in seconds.

    It is 0 if nothing was left to free: then the server has only closed connections.
    """
    before_s, ends_s = cpu_time(server), time.monotonic() + FREED_DEADLINE_S
    if is_freed(wire):
        return 0.0
    while not is_freed(wire):
        if time.monotonic() > ends_s:
            raise Refused("the server does not free what was removed")
        time.sleep(POLL_S)
    return cpu_time(server) - before_s


def is_freed(wire: Wire) -> bool:
    """Whether the server has nothing left to free."""
    return b"\r\nlazyfree_pending_objects:0\r\n" in ask(wire, "INFO", "memory")


def _rows() -> Iterator[Row]:
    for count in COUNTS:
        for name, command, text in all_texts():
            if is_measured(command, text, count):
                yield Row(
                    f"{TABLE}-{count}-{name}",
                    f"{text}, {count:,} members",
                    "CPU us",
                    partial(measure, command=command, text=text, count=count),
                    partial(fill, count=count),
                    runs=3,
                    is_rate=False,
                    is_usual=False,
                    is_on_one_processor=True,
                    table=TABLE,
                    series=f"{command.replace('|', ' ')}|{text}",
                    size=count,
                    dataset=f"{TABLE}-{count}",
                )


ROWS: Final = tuple(_rows())
