"""Rows about growth: every form of every command, with little data around it and with much.

Each form is measured by the processor time of a request, as in the table of commands. The data grows in one dimension
at a time: entries, of which a tenth is pending; groups; consumers; keys. Rows of one dimension and size share their
servers: what a form adds is removed after it, and numbers and IDs are different in each form.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from benchmarks import commands
from benchmarks.command_forms import WARM_KEYS, Form, all_forms
from benchmarks.commands import Extent, batch, send
from benchmarks.load import Batch, Refused, prepared
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import START_MS, ask

from support.wire import encode

TABLE: Final = "growth"
FILL_PIPELINE: Final = 100
ADD_PIPELINE: Final = 1_000
# Entries with which a stream has more than one chunk, for the dimensions that do not grow entries.
ENTRIES_USUAL: Final = 10_000
# Entries are added before those that the forms add to their stream `w`, whose IDs begin at START_MS.
EARLIER_MS: Final = START_MS - 100_000_000
READERS_COUNT: Final = 10
# What a form sends at most, and for how long: enough for a factor, little enough for thousands of rows.
REQUESTS_MAX: Final = 2_400
RUN_S: Final = 0.03
PARTS: Final = 3
# A snapshot or a rewrite of ten million entries that a form started ends within this time.
JOB_DEADLINE_S: Final = 600.0
JOBS_OVER: Final = (b"rdb_bgsave_in_progress:0", b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0")
POLL_S: Final = 0.1
# Texts in the forms, and what the table has in place of them: the stream that grows is the one that is changed, and
# nothing is trimmed from it.
CHANGES: Final = {"XADD a ": "XADD w ", "XTRIM s MAXLEN 100000": "XTRIM s MAXLEN 100000000"}
# Sent for each number after the form of that name, besides the removal of keys that have the number in their name.
UNDONE_BY: Final = {
    "xgroup-create": "XGROUP DESTROY s g{n}",
    "xgroup-createconsumer": "XGROUP DELCONSUMER s g c{n}",
}
# Forms after which others cannot be measured: the last of their servers, in this order. The ID of an entry that XADD
# makes is larger than those of the forms. The data that a form empties is measured once, by its only request.
LAST: Final = ("xadd", "flushdb", "flushall")
EMPTYING: Final = ("flushdb", "flushall")


@dataclass(frozen=True)
class Dimension:
    """What grows, and the sizes that are compared: the last with the first."""

    name: str
    sizes: tuple[int, ...]
    # Adds so many to the data of the forms.
    grow: Callable[[PeerServer, int], None]


def _send_numbered(server: PeerServer, text: str, count: int) -> None:
    batches = (
        batch(Form(text), range(first, min(first + FILL_PIPELINE, count))) for first in range(0, count, FILL_PIPELINE)
    )
    prepared(server, count, [batches])


def add_entries(server: PeerServer, count: int) -> None:
    """Entries of both streams of the forms, a multiple of ADD_PIPELINE; of `s`, a tenth is pending with ten
    consumers.
    """
    # `s` has entries from START_MS on already.
    prepared(server, 2 * count, [_added("s", START_MS + WARM_KEYS, count), _added("w", EARLIER_MS, count)])
    read = f"XREADGROUP GROUP g {{}} COUNT {FILL_PIPELINE} STREAMS s >"
    batches = (
        batch(Form(read.format(f"reader-{number % READERS_COUNT}")), range(1))
        for number in range(max(1, count // 10 // FILL_PIPELINE))
    )
    prepared(server, count, [batches])


def _added(key: str, first_ms: int, count: int) -> Iterator[Batch]:
    """Requests that add so many entries with three fields, whose IDs follow each other; ID by ID they are made from
    one text, as ten million take long otherwise.
    """
    fields = [("sensor", f"sensor-{number}", "kind", "temperature", "value", number) for number in range(ADD_PIPELINE)]
    size = len(f"{first_ms}-0")
    marked = b"".join(encode(("XADD", key, "I" * size, *words)) for words in fields)
    requests = marked.replace(b"I" * size, b"%d-0")
    replies = (b"$%d\r\n" % size + b"%d-0\r\n") * ADD_PIPELINE
    for first in range(first_ms, first_ms + count, ADD_PIPELINE):
        ids = tuple(range(first, first + ADD_PIPELINE))
        yield Batch(requests % ids, replies % ids)


def add_groups(server: PeerServer, count: int) -> None:
    """Groups of both streams."""
    add_entries(server, ENTRIES_USUAL)
    _send_numbered(server, "XGROUP CREATE s more{n} 0; XGROUP CREATE w more{n} 0", count)


def add_consumers(server: PeerServer, count: int) -> None:
    """Consumers of the group `g` of `s`, with an entry each."""
    add_entries(server, max(ENTRIES_USUAL, 2 * count))
    _send_numbered(server, "XREADGROUP GROUP g more{n} COUNT 1 STREAMS s >", count)


def add_keys(server: PeerServer, count: int) -> None:
    """Strings."""
    add_entries(server, ENTRIES_USUAL)
    _send_numbered(server, "SET more{n} value-{n}-of-some-length", count)


DIMENSIONS: Final = (
    Dimension("entries", (10_000, 100_000, 1_000_000, 10_000_000), add_entries),
    Dimension("groups", (10, 10_000), add_groups),
    Dimension("consumers", (10, 10_000), add_consumers),
    Dimension("keys", (10, 10_000), add_keys),
)


def fill(server: PeerServer, dimension: Dimension, size: int) -> None:
    """The data of the forms, and that of the dimension."""
    commands.fill(server)
    dimension.grow(server, size)
    os.sync()  # writing the rest later would count as a cost of the first rows


def measure(server: PeerServer, name: str, form: Form, first: int) -> Sample:
    """Processor time of a request of the form, its numbers from `first` on. The group `g` of `w` begins after the
    entries that were there before the form's own.
    """
    once = form.once.replace("XGROUP CREATE w g 0", f"XGROUP CREATE w g {START_MS + first - 1}-0")
    extent = Extent(REQUESTS_MAX, RUN_S, first, PARTS)
    if name in EMPTYING:
        extent = replace(extent, run_s=0.0)
    sample = commands.measure(server, replace(form, once=once), extent)
    _undo(server, name, form, range(first, first + REQUESTS_MAX))
    assert sample.cpu_us is not None
    return Sample(sample.cpu_us, sample.cpu_us)


def _undo(server: PeerServer, name: str, form: Form, numbers: range) -> None:
    """Remove what the form has left, and wait for the end of a job that it has started."""
    with server.connect() as wire:
        for text in undoing(name, form):
            for first in numbers[::FILL_PIPELINE]:
                send(wire, text, range(first, first + FILL_PIPELINE))
        ended_s = time.monotonic() + JOB_DEADLINE_S
        while not all(line in (info := ask(wire, "INFO", "persistence")) for line in JOBS_OVER):
            if time.monotonic() > ended_s:
                raise Refused(f"a job does not end: {info!r}")
            time.sleep(POLL_S)


def undoing(name: str, form: Form) -> list[str]:
    """The texts of requests which, sent for each number, remove what the form has left."""
    texts = [f"DEL {word}" for word in _numbered_words(form)]
    if form.fresh.startswith("XADD w "):
        texts.append("XDEL w {id}")
    return [*texts, UNDONE_BY[name]] if name in UNDONE_BY else texts


def _numbered_words(form: Form) -> list[str]:
    """The words of the form that end with its number: the names of what it makes are among them."""
    texts = f"{form.text};{form.fresh}"
    return sorted({word for word in texts.replace(";", " ").split() if word.endswith("{n}")})


def changed(text: str) -> str:
    """The text of a form, or its title, as this table has it."""
    for old, new in CHANGES.items():
        text = text.replace(old, new)
    return text


def forms() -> list[tuple[int, str, str, Form]]:
    """The forms with their names and titles, and the first number of their requests, in the order of the rows."""
    in_order = sorted(all_forms(), key=lambda each: LAST.index(each[0]) if each[0] in LAST else -1)
    return [
        (place * REQUESTS_MAX, name, changed(title), replace(form, text=changed(form.text)))
        for place, (name, title, form) in enumerate(in_order)
    ]


def _rows() -> Iterator[Row]:
    for dimension in DIMENSIONS:
        for size in dimension.sizes:
            for first, name, title, form in forms():
                yield Row(
                    f"growth-{dimension.name}-{size}-{name}",
                    f"{title}, {size:,} {dimension.name}",
                    "CPU us",
                    partial(measure, name=name, form=form, first=first),
                    partial(fill, dimension=dimension, size=size),
                    runs=1,
                    is_rate=False,
                    is_usual=False,
                    is_on_one_processor=True,
                    table=TABLE,
                    series=f"{title}|{dimension.name}",
                    size=size,
                    # FLUSHALL empties what FLUSHDB would have left.
                    dataset=f"growth-{dimension.name}-{size}{'-again' if name == LAST[-1] else ''}",
                )


ROWS = tuple(_rows())
