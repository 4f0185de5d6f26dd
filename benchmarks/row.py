"""A row of the benchmark: what is loaded, what is measured, and what a run of it yields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.peers import PeerServer


@dataclass(frozen=True)
class Sample:
    """One run on one server."""

    # In the unit of its row.
    number: float
    # Processor time of the server for each request, all its threads together; None where there are no requests.
    cpu_us: float | None = None
    # How long the client needs at least for each request: its processor time by the threads it has. None where that was
    # not measured.
    client_us: float | None = None


Measure = Callable[[PeerServer], Sample]


@dataclass(frozen=True)
class Row:
    """One line of the table. Its servers are started for it alone."""

    name: str
    title: str
    unit: str
    measure: Measure
    # Done once per server, before the first run.
    prepare: Callable[[PeerServer], None] = lambda server: None
    # How many times better than Redis it shall be.
    target: float | None = None
    runs: int = 5
    # More is better; else less is.
    is_rate: bool = True
    # Run when no rows are named; those that take minutes are not.
    is_usual: bool = True
    # Few enough entries for a server that is a hundred times slower.
    is_light: bool = False
    # Rows of one series differ by `size` alone: a line of a plot.
    series: str = ""
    size: int = 0
