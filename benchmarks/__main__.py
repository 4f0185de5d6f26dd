"""Runs the rows on both servers in turn and prints the median of the ratios.

Both servers run on this machine, each with `appendonly yes` and `appendfsync everysec` in a folder of its own. Runs
alternate (Headrace, Redis; Redis, Headrace; ..) so that a slow minute of the machine meets both. A ratio is Headrace
divided by Redis of one pair; the median over the pairs is shown. `CPU` is the ratio of processor time the servers took
for the same work, Redis divided by Headrace: where the client is slower than both servers, only that tells them apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import MissingTool, cpu_time, find_redis_benchmark
from benchmarks.rows import ROWS, Row

from support.servers import Server, oracle_folder

PERSISTENCE = ("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")
"""Rewrites have a row of their own: in the others they would begin in the middle of some runs and not of others."""


@dataclass
class Result:
    """Numbers of one row, by server name, in order of the runs."""

    row: Row
    numbers: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    """Processor time of the server in each run."""

    def median(self, name: str) -> float:
        """The middle number of one server."""
        return statistics.median(self.numbers[name])

    @property
    def ratio(self) -> float | None:
        """Median over the pairs of Headrace / Redis; None without Redis."""
        return median_ratio(self.numbers, "headrace", "oracle")

    @property
    def cpu_ratio(self) -> float | None:
        """Median over the pairs of Redis' processor time / Headrace's; None without Redis."""
        return median_ratio(self.cpu_s, "oracle", "headrace")


def median_ratio(numbers: dict[str, list[float]], upper: str, lower: str) -> float | None:
    """The middle one of the ratios of paired runs; None if only one server ran."""
    if len(numbers) < 2:
        return None
    return statistics.median(above / below for above, below in zip(numbers[upper], numbers[lower], strict=True))


@contextmanager
def running_servers() -> Iterator[list[Server]]:
    """Headrace, and Redis where there is one, each in its own temporary folder."""
    names = ["headrace", *(["oracle"] if oracle_folder() else [])]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        servers = [Server(name, Path(folder) / name, *PERSISTENCE) for name in names]
        try:
            yield [server.start() for server in servers]
        finally:
            for server in servers:
                server.kill()


def measure(row: Row, servers: list[Server], runs: int | None) -> Result:
    """All runs of one row, the servers taking turns in being first."""
    result = Result(row)
    for server in servers:
        row.prepare(server)
    for number in range(min(runs or row.runs, row.runs)):
        for server in servers if number % 2 == 0 else reversed(servers):
            cpu_before_s = cpu_time(server)
            result.numbers.setdefault(server.name, []).append(row.measure(server))
            result.cpu_s.setdefault(server.name, []).append(cpu_time(server) - cpu_before_s)
    return result


def shown(result: Result, name: str) -> str:
    """One server's number; small ones with decimals."""
    number = result.median(name)
    return f"{number:>12,.0f}" if number >= 100 else f"{number:>12.2f}"


def table_line(result: Result) -> str:
    """One line of the printed table."""
    numbers = shown(result, "headrace")
    if result.ratio is None:
        return f"{result.row.title:26}{numbers}{'-':>12}{'-':>8}{'-':>8}  {result.row.unit}"
    ratios = f"{result.ratio:>8.2f}{result.cpu_ratio:>8.2f}"
    return f"{result.row.title:26}{numbers}{shown(result, 'oracle')}{ratios}  {result.row.unit}"


def as_json(results: list[Result]) -> str:
    """All numbers, for comparing one day with another."""
    rows = [
        {
            "row": result.row.name,
            "unit": result.row.unit,
            "numbers": result.numbers,
            "ratio": result.ratio,
            "cpu_s": result.cpu_s,
            "cpu_ratio": result.cpu_ratio,
        }
        for result in results
    ]
    return json.dumps({"rows": rows}, indent=2)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="ROW[,ROW]", help="run these rows: " + ", ".join(row.name for row in ROWS))
    parser.add_argument("--runs", type=int, help="pairs of runs per row, if fewer than its own (3; what takes long 1)")
    parser.add_argument("--json", metavar="FILE", help="also write every number to FILE (`-`: print it instead)")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [row.name for row in ROWS if row.is_usual]
    unknown = set(wanted) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    try:
        find_redis_benchmark()
        results = run([row for row in ROWS if row.name in wanted], options.runs, quiet=options.json == "-")
    except (MissingTool, subprocess.CalledProcessError) as error:
        print(f"{error}\n{getattr(error, 'stderr', None) or ''}", file=sys.stderr)
        return 1
    if options.json == "-":
        print(as_json(results))
    elif options.json:
        Path(options.json).write_text(as_json(results) + "\n")
    return 0


def run(rows: list[Row], runs: int | None, *, quiet: bool) -> list[Result]:
    """Measure the rows, printing each line when it is known."""
    results = []
    with running_servers() as servers:
        if len(servers) == 1:
            print("no redis-server to compare with: `make oracle` installs it", file=sys.stderr)
        if not quiet:
            print(f"{'':26}{'Headrace':>12}{'Redis':>12}{'ratio':>8}{'CPU':>8}")
        for row in rows:
            results.append(measure(row, servers, runs))
            if not quiet:
                print(table_line(results[-1]), flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
