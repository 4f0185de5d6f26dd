"""The benchmark's load that is sent at its times: what it counts as a delay, and that each job of its table runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import ROOT

# Runs every job with little data and load, on one server, and prints the names of the rows with their quantiles.
JOBS_PROGRAM = """
import sys
from pathlib import Path
from benchmarks import tails
from benchmarks.peers import PeerServer, find_peer
tails.PACE.rate, tails.PACE.is_fitted = 500, True
tails.WARM_S, tails.RUN_S, tails.JOB_S = 0.1, 0.4, 0.2
tails.ENTRIES, tails.PENDING, tails.STRINGS = 2000, 200, 2000
server = PeerServer(find_peer("headrace"), Path(sys.argv[1]), "--appendonly", "yes")
server.start()
try:
    for job, row in zip(tails.JOBS, tails.ROWS, strict=True):
        row.prepare(server)
        tail = row.measure(server).tail
        assert 0 < tail["p50"] <= tail["p99"] <= tail["p99.9"] <= tail["worst"], tail
        assert list(tail) == [*tails.QUANTILES, "rate"]
        with server.connect() as wire:
            assert wire.call("FLUSHALL") == b"+OK\\r\\n"
        print(row.name, job.name)
finally:
    server.kill()
"""
# A load on a server of its own that stops for a while: the delay of every request planned in that time.
STOPPED_PROGRAM = """
import sys
from pathlib import Path
from benchmarks.open_load import Disturbance, run
from support.servers import Server
from support.wire import encode
server = Server("headrace", Path(sys.argv[1]))
server.start()
try:
    stop = encode(("DEBUG", "SLEEP", 0.2))
    delays = run(server, 1000, 700, Disturbance([0.3], [stop]))
finally:
    server.kill()
print(len(delays.replied_s), *(f"{delays.replied_s[number]:.4f}" for number in (310, 350, 400, 450)))
"""
QUANTILE_PROGRAM = """
from benchmarks.tails import quantile
numbers = [float(number) for number in range(1, 1001)]
print(*(quantile(numbers, share) for share in (0.5, 0.99, 0.999, 1.0)), quantile([7.0], 0.5))
"""
PACE_PROGRAM = """
from benchmarks import open_load, tails
def run(server, rate, requests):
    return open_load.Delays([], [], client_share=rate / 16_000)
open_load.run = run
pace = tails.Pace()
pace.fit(None)
pace.fit(None)
print(pace.rate)
"""


def printed(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, check=True)


def test_requests_planned_while_the_server_stops_count_as_delayed(tmp_path: Path) -> None:
    count, *delays_s = map(float, printed(STOPPED_PROGRAM, str(tmp_path)).stdout.split())
    assert count == 700
    # The server stops from 0.3 s to 0.5 s, and a request of a later time waits for the rest of it.
    for planned_s, delay_s in zip((0.31, 0.35, 0.4, 0.45), delays_s, strict=True):
        assert delay_s >= 0.5 - planned_s - 0.001


def test_quantiles_are_those_of_the_ordered_numbers() -> None:
    assert printed(QUANTILE_PROGRAM).stdout.split() == ["500.0", "990.0", "999.0", "1000.0", "7.0"]


def test_rate_is_lowered_until_the_client_keeps_up_and_that_is_said() -> None:
    done = printed(PACE_PROGRAM)
    assert done.stdout.split() == ["10240"]
    assert done.stderr.count("of the client's processor") == 3


@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="redis-benchmark is not installed")
def test_every_job_is_measured(tmp_path: Path) -> None:
    rows = [line.split() for line in printed(JOBS_PROGRAM, str(tmp_path)).stdout.splitlines()]
    assert len(rows) > 10
    assert all(row == f"tail-{job}" for row, job in rows)
