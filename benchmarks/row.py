"""A row of the benchmark: what is loaded, what is measured, and what a run of it yields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.peers import PeerServer


@dataclass(frozen=True)
class Sample:
    """One run on one server."""

    number: float
    """In the unit of its row."""
    cpu_us: float | None = None
    """Processor time of the server for each request, all its threads together; None where there are no requests."""
    client_us: float | None = None
    """How long the client needs at least for each request: its processor time by the threads it has. None where that
    was not measured."""


Measure = Callable[[PeerServer], Sample]


@dataclass(frozen=True)
class Row:
    """One line of the table. Its servers are started for it alone."""

    name: str
    title: str
    unit: str
    measure: Measure
    prepare: Callable[[PeerServer], None] = lambda server: None
    """Done once per server, before the first run."""
    target: float | None = None
    """How many times better than Redis it shall be."""
    runs: int = 5
    is_rate: bool = True
    """More is better; else less is."""
    is_usual: bool = True
    """Run when no rows are named; those that take minutes are not."""
    is_light: bool = False
    """Few enough entries for a server that is a hundred times slower."""
    series: str = ""
    """Rows of one series differ by `size` alone: a line of a plot."""
    size: int = 0
