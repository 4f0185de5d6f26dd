"""Rows about growth: every form of every command, with little data and with much.

Each form is measured by the processor time of a request, as in the table of commands. The data grows in one dimension
at a time: entries, of which a tenth is pending; groups; consumers; keys. Rows of one dimension and size share their
servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from benchmarks import commands
from benchmarks.command_forms import WARM_KEYS, Form, all_forms
from benchmarks.commands import send
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import START_MS

from support.wire import Wire, encode

TABLE: Final = "growing"
FILL_PIPELINE: Final = 100
# Entries with which a stream has more than one chunk, for the dimensions that do not grow entries.
ENTRIES_USUAL: Final = 10_000
# Entries are added before those that the forms add to their stream `w`, whose IDs begin at START_MS.
EARLIER_MS: Final = START_MS - 100_000_000
READERS_COUNT: Final = 10
# Forms after which the data is of another size, so that they have servers of their own.
ALONE: Final = ("flushall", "flushdb", "swapdb", "xgroup-create", "xgroup-createconsumer", "xtrim")


@dataclass(frozen=True)
class Dimension:
    """What grows, and the sizes that are compared: the last with the first."""

    name: str
    sizes: tuple[int, ...]
    # Adds so many to the data of the forms.
    grow: Callable[[Wire, int], None]


def _send_numbered(wire: Wire, text: str, count: int) -> None:
    for first in range(0, count, FILL_PIPELINE):
        send(wire, text, range(first, min(first + FILL_PIPELINE, count)))


def add_entries(wire: Wire, count: int) -> None:
    """Entries of both streams of the forms; of `s`, a tenth is pending with ten consumers."""
    for first in range(0, count, FILL_PIPELINE):
        numbers = range(first, min(first + FILL_PIPELINE, count))
        fields = [("sensor", f"sensor-{number}", "kind", "temperature", "value", number) for number in numbers]
        # `s` has entries from START_MS on already.
        ids = [(f"{START_MS + WARM_KEYS + number}-0", f"{EARLIER_MS + number}-0") for number in numbers]
        requests = [
            encode(("XADD", key, each[place], *words))
            for words, each in zip(fields, ids, strict=True)
            for place, key in enumerate(("s", "w"))
        ]
        wire.send_bytes(b"".join(requests))
        for _ in requests:
            wire.receive()
    deliveries = max(1, count // 10 // FILL_PIPELINE)
    for number in range(deliveries):
        read = f"XREADGROUP GROUP g reader-{number % READERS_COUNT} COUNT {FILL_PIPELINE} STREAMS s >"
        send(wire, read)


def add_groups(wire: Wire, count: int) -> None:
    """Groups of both streams."""
    add_entries(wire, ENTRIES_USUAL)
    _send_numbered(wire, "XGROUP CREATE s more{n} 0; XGROUP CREATE w more{n} 0", count)


def add_consumers(wire: Wire, count: int) -> None:
    """Consumers of the group `g` of `s`, with an entry each."""
    add_entries(wire, max(ENTRIES_USUAL, 2 * count))
    _send_numbered(wire, "XREADGROUP GROUP g more{n} COUNT 1 STREAMS s >", count)


def add_keys(wire: Wire, count: int) -> None:
    """Strings."""
    add_entries(wire, ENTRIES_USUAL)
    _send_numbered(wire, "SET more{n} value-{n}-of-some-length", count)


DIMENSIONS: Final = (
    Dimension("entries", (10_000, 100_000, 1_000_000, 10_000_000), add_entries),
    Dimension("groups", (10, 10_000), add_groups),
    Dimension("consumers", (10, 10_000), add_consumers),
    Dimension("keys", (10, 10_000), add_keys),
)


def fill(server: PeerServer, dimension: Dimension, size: int) -> None:
    """The data of the forms, and that of the dimension."""
    commands.fill(server)
    with server.connect() as wire:
        dimension.grow(wire, size)


def measure(server: PeerServer, form: Form) -> Sample:
    """Processor time of a request. A form that changes `w` gets a copy of it, whose group `g` begins after the entries
    that were there before the form's own.
    """
    own = replace(form, text=_on_copy(form.text), fresh=_on_copy(form.fresh), once=_on_copy(form.once))
    if own != form:
        with server.connect() as wire:
            send(wire, "DEL own; COPY w own")
    sample = commands.measure(server, own)
    assert sample.cpu_us is not None
    return Sample(sample.cpu_us, sample.cpu_us)


def _on_copy(text: str) -> str:
    text = text.replace("XGROUP CREATE w g 0", f"XGROUP CREATE w g {START_MS - 1}-0")
    return text.replace(" w ", " own ")


def _rows() -> Iterator[Row]:
    for dimension in DIMENSIONS:
        for size in dimension.sizes:
            for name, title, form in sorted(all_forms(), key=lambda each: each[0] in ALONE):
                yield Row(
                    f"growing-{dimension.name}-{size}-{name}",
                    f"{title}, {size:,} {dimension.name}",
                    "CPU us",
                    partial(measure, form=form),
                    partial(fill, dimension=dimension, size=size),
                    runs=1,
                    is_rate=False,
                    is_usual=False,
                    table=TABLE,
                    series=f"{title}|{dimension.name}",
                    size=size,
                    dataset=f"growing-{dimension.name}-{size}-{name if name in ALONE else ''}",
                )


ROWS = tuple(_rows())
