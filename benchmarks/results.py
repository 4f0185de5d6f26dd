"""Results: numbers by row and server, their ratios, and all of it as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer
from benchmarks.row import Row, Sample

SUBJECT = "headrace"
MAIN_PEER = "redis"


@dataclass
class Result:
    """Numbers of one row, by server name, in order of the runs."""

    row: str
    title: str
    unit: str
    is_rate: bool
    target: float | None
    series: str
    size: int
    table: str = ""
    numbers: dict[str, list[float]] = field(default_factory=dict)
    # Processor time of the server for each request; empty where none was measured.
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    # The shortest time of the client for each request; empty where none was measured.
    client_us: dict[str, list[float]] = field(default_factory=dict)
    # Delays in ms by quantile, with the rate of the load; empty where none were measured.
    tails: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> Result:
        """No runs yet."""
        return cls(row.name, row.title, row.unit, row.is_rate, row.target, row.series, row.size, row.table)

    def add(self, name: str, sample: Sample) -> None:
        """One run of one server."""
        self.numbers.setdefault(name, []).append(sample.number)
        if sample.cpu_us is not None:
            self.cpu_us.setdefault(name, []).append(sample.cpu_us)
        if sample.client_us is not None:
            self.client_us.setdefault(name, []).append(sample.client_us)
        if sample.tail:
            self.tails.setdefault(name, []).append(sample.tail)

    def median(self, name: str) -> float:
        """The middle number of one server."""
        return statistics.median(self.numbers[name])

    def cpu_median(self, name: str) -> float | None:
        """The middle processor time of one server; None if none was measured."""
        return statistics.median(self.cpu_us[name]) if self.cpu_us.get(name) else None

    def tail_median(self, name: str, quantile: str) -> float:
        """The middle delay of one server in ms."""
        return statistics.median(tail[quantile] for tail in self.tails[name])

    def ceiling(self, peer: str) -> float | None:
        """How many times better than `peer` a server without any processor time would be, as the client takes time with
        it; None where that was not measured."""
        if not self.is_rate or not self.client_us.get(SUBJECT) or peer not in self.numbers:
            return None
        return 1e6 / self.median(peer) / statistics.median(self.client_us[SUBJECT])

    def ratios(self, peer: str) -> list[float]:
        """How many times better than `peer` Headrace was, pair by pair of runs; empty without both.

        A pair is left out if one of its runs was too short for the clock of the system.
        """
        mine, theirs = self.numbers.get(SUBJECT, []), self.numbers.get(peer, [])
        if not self.is_rate:
            mine, theirs = theirs, mine
        return [above / below for above, below in zip(mine, theirs, strict=False) if above and below]

    def cpu_ratios(self, peer: str) -> list[float]:
        """How many times less processor time than `peer` Headrace took, pair by pair."""
        pairs = zip(self.cpu_us.get(peer, []), self.cpu_us.get(SUBJECT, []), strict=False)
        return [theirs / mine for theirs, mine in pairs if theirs and mine]


def figure(number: float | None) -> str:
    """A number with three digits that matter, thousands apart; nothing for None."""
    if number is None:
        return ""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


@dataclass
class Run:
    """One run of the benchmark: where, when, which servers, and the results."""

    machine: dict[str, str]
    servers: dict[str, str]
    results: list[Result]

    def as_json(self) -> str:
        """For `from_json`, and for comparing one day with another."""
        document = {"machine": self.machine, "servers": self.servers, "rows": []}
        rows: list[dict[str, Any]] = []
        for result in self.results:
            peers = [name for name in self.servers if name != SUBJECT and name in result.numbers]
            ratios = {name: statistics.median(found) for name in peers if (found := result.ratios(name))}
            cpu_ratios = {name: statistics.median(found) for name in peers if (found := result.cpu_ratios(name))}
            rows.append({**asdict(result), "ratio": ratios, "cpu_ratio": cpu_ratios})
        return json.dumps({**document, "rows": rows}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Run:
        """The inverse of `as_json`."""
        document = json.loads(text)
        results = []
        for row in document["rows"]:
            del row["ratio"], row["cpu_ratio"]
            results.append(Result(**row))
        return cls(document["machine"], document["servers"], results)


def describe_machine() -> dict[str, str]:
    """The facts that a reader needs to repeat the run; nothing that identifies this machine."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def run_of(peers: Sequence[Peer], results: list[Result]) -> Run:
    """The run with its results."""
    return Run(describe_machine(), {peer.name: peer.title for peer in peers}, results)
