"""Load on a server: redis-benchmark, and what the kernel says of the process."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from pathlib import Path

from support.servers import Server

CLIENTS = 50
"""Connections of every measured run."""


class MissingTool(Exception):
    """A program the benchmark needs is not installed."""


def find_redis_benchmark() -> str:
    """The path of redis-benchmark. Raises MissingTool."""
    found = shutil.which("redis-benchmark")
    if found is None:
        raise MissingTool("redis-benchmark is not installed: apt-get install redis-tools")
    return found


def requests_per_second(
    server: Server,
    requests: int,
    *command: str,
    pipeline: int = 1,
    clients: int = CLIENTS,
    random_below: int = 0,
    threads: int = 1,
) -> float:
    """Send `command` so many times and return the rate redis-benchmark measured.

    `__rand_int__` in the command becomes twelve random digits when `random_below` is given. `threads`: those of the
    client, which spends longer on parsing a large reply than a server on making it.
    """
    words = [find_redis_benchmark(), "-p", str(server.port), "-c", str(clients), "-n", str(requests)]
    words += ["--threads", str(threads)] if threads > 1 else []
    words += ["-P", str(pipeline), "--csv", *(["-r", str(random_below)] if random_below else []), *command]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    return float(rows[-1]["rps"])


def resident_size(server: Server) -> int:
    """Bytes of memory the server process occupies now (VmRSS)."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def cpu_time(server: Server) -> float:
    """Seconds of processor time the server has taken since it started, all its threads together."""
    # The command's name stands in parentheses and may itself hold blanks.
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
