"""A row of the benchmark: its preparation, its measurement, and the result of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.peers import PeerServer


@dataclass(frozen=True)
class Sample:
    """One run on one server."""

    # In the unit of its row.
    number: float
    # Processor time of the server for each request, all its threads together; None where there are no requests.
    cpu_us: float | None = None
    # The shortest time of the client for each request: its processor time by the threads it has. None where that was
    # not measured.
    client_us: float | None = None
    # Delays in ms by the name of their quantile, with the rate of the load; empty where none were measured.
    tail: dict[str, float] = field(default_factory=dict)


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
    # The wanted ratio to Redis.
    target: float | None = None
    runs: int = 5
    # Whether more is better; otherwise less is.
    is_rate: bool = True
    # Whether it runs if no rows are named; rows that take minutes do not.
    is_usual: bool = True
    # Whether it has few enough entries for a server that is a hundred times slower.
    is_light: bool = False
    # Whether its servers share one processor: it compares their processor time.
    is_on_one_processor: bool = False
    # The table in which it is; empty for the main one.
    table: str = ""
    # Rows of one series differ by `size` alone: a line of a plot.
    series: str = ""
    size: int = 0
    # Rows next to each other with the same one share their servers, which are prepared for the first; empty: none do.
    dataset: str = ""
