"""How long a failover takes: the time from `kill -9` of the primary to the first write that the new one accepts.

    python -m benchmarks.failover [--runs 5]

A primary and two replicas of one kind, watched by three of Redis' Sentinels with their own periods and
`down-after-milliseconds 1000`, on this machine. Headrace and Redis take turns. A line is a run, in seconds: until the
Sentinels name another primary, and until that one has accepted a write.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

from support.replies import Node
from support.watched import Watched
from support.wire import Wire

NAMES = ("headrace", "oracle")
TITLES = {"headrace": "Headrace", "oracle": "Redis"}
DOWN_AFTER_MS = 1000
POLL_S = 0.005
DEADLINE_S = 60.0


def measure(name: str, folder: Path) -> tuple[float, float]:
    """One failover: seconds until another primary is named, and until it writes. Raises TimeoutError."""
    watched = Watched(folder, (name,) * 3, down_after_ms=DOWN_AFTER_MS, is_quick=False)
    try:
        sentinels = watched.watch()
        with watched.primary.connect() as wire:
            wire.call("XADD", "s", "*", "f", "v")
            wire.call("WAIT", 2, 1000)
        watched.primary.kill()
        started_s = time.monotonic()
        named_s = None
        while time.monotonic() < started_s + DEADLINE_S:
            _, port = sentinels.wires[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "orders")
            if int(port) != watched.link.port:
                named_s = named_s or time.monotonic() - started_s
                with contextlib.suppress(OSError), Wire(int(port)) as wire:
                    if not isinstance(wire.ask("XADD", "s", "*", "f", "v"), Node):
                        return named_s, time.monotonic() - started_s
            time.sleep(POLL_S)
        raise TimeoutError(f"no failover of {name} in {DEADLINE_S:g} s")
    finally:
        watched.close()


def main() -> None:
    """Run, and print a line for each run, and the medians."""
    parser = argparse.ArgumentParser("python -m benchmarks.failover", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="failovers of each server (default: %(default)s)")
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory(prefix="headrace-failover-") as folder:
        for number in range(arguments.runs):
            for name in NAMES if number % 2 == 0 else reversed(NAMES):
                found[name].append(measure(name, Path(folder) / f"{name}-{number}"))
                named_s, written_s = found[name][-1]
                print(f"{TITLES[name]:10}{named_s:8.2f}{written_s:8.2f}", flush=True)
    for name, rows in found.items():
        named_s, written_s = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{TITLES[name]:10}{named_s:8.2f}{written_s:8.2f}  median of {len(rows)}")


if __name__ == "__main__":
    main()
