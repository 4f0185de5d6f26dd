"""Kills a query's driver or its workers (SIGKILL) while batches are running, until the query ends.

The moment of a kill is drawn as a number of changes to be seen after a batch was planned: entries that are written,
files that come, grow and go. So kills fall on planning, reading, writing and committing, however fast the machine is.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.processes import command_of, descendants, parents
from support.wire import Wire

PROGRAM = Path(__file__).parent / "spark_query.py"
POLL_S = 0.02
# A query that plans no batch for this long is stuck.
STUCK_S = 300.0
# About as many changes as one batch makes, checked every POLL_S.
CHANGES_MAX = 12


class Query:
    """A query that is restarted whenever it is killed."""

    def __init__(self, mode: str, port: int, folder: Path, batch_size: int, seed: int) -> None:
        self._port = port
        self._folder = folder
        self._words = [sys.executable, str(PROGRAM), mode, str(port), str(folder), str(batch_size)]
        self._log = folder / "query.log"
        self._checkpoint = folder / ("out/_headrace_checkpoint" if mode == "archive" else "checkpoint")
        self._rnd = random.Random(seed)
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.kills = {"driver": 0, "worker": 0}

    def run(self, kills: dict[str, int]) -> None:
        """Kills the query the given number of times and waits for its end. Raises AssertionError if it fails."""
        victims = [victim for victim, count in kills.items() for _ in range(count)]
        self._rnd.shuffle(victims)
        try:
            for victim in victims:
                if not self._wait_for_batch():
                    return
                if not self._wait_for_changes(self._rnd.randrange(CHANGES_MAX)):
                    return
                self._kill(victim)
            self._start_if_needed()
            assert self._process is not None
            assert self._process.wait(STUCK_S) == 0, self._tail()
        finally:
            self._end()

    def planned(self) -> int:
        """Returns the number of planned batches in Spark's checkpoint."""
        return sum(1 for path in (self._checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit())

    def _start_if_needed(self) -> None:
        if self._process is None or self._process.poll() not in (None, 0):
            self.starts += 1
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait_for_batch(self) -> bool:
        """Waits until another batch is planned; False if the query ended before."""
        self._start_if_needed()
        assert self._process is not None
        # A batch planned before a kill is repeated first; the one after it shows that the query runs.
        before, deadline = self.planned(), time.monotonic() + STUCK_S
        while self.planned() <= before:
            if self._process.poll() == 0:
                return False
            if self._process.poll() is not None:
                self._start_if_needed()
            assert time.monotonic() < deadline, self._tail()
            self._give_it_a_moment()
        return True

    def _wait_for_changes(self, count: int) -> bool:
        """Waits until so many changes were seen; False if the query ended before."""
        assert self._process is not None
        seen, deadline = self._footprint(), time.monotonic() + STUCK_S
        while count:
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self._tail()
            self._give_it_a_moment()
            now = self._footprint()
            count -= now != seen
            seen = now
        return True

    def _footprint(self) -> tuple[bytes, dict[str, int]]:
        """Returns the output of the query: the length of its stream, and the sizes of its files."""
        with Wire(self._port) as wire:
            length = wire.call("XLEN", "out")
        sizes = {}
        for folder, _, names in os.walk(self._folder):  # which does not mind folders that go meanwhile
            for path in (Path(folder) / name for name in names):
                with contextlib.suppress(FileNotFoundError):
                    sizes[str(path)] = path.stat().st_size
        return length, sizes

    def _give_it_a_moment(self) -> None:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(POLL_S)

    def _kill(self, victim: str) -> None:
        assert self._process is not None
        below = list(descendants(self._process.pid))
        if victim == "driver":
            # Python workers are not killed: they continue to write for a moment, as on other machines.
            targets = [
                self._process.pid,
                *(pid for pid in below if "org.apache.spark.deploy.SparkSubmit" in command_of(pid)),
            ]
        else:
            workers = [pid for pid in below if "pyspark.daemon" in command_of(pid) and parents().get(pid) in below]
            forked = [pid for pid in workers if "pyspark.daemon" in command_of(parents().get(pid, 0))]
            targets = [self._rnd.choice(forked)] if forked else []
        for pid in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if targets:
            self.kills[victim] += 1
        if victim == "driver":
            self._process.wait()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            below = list(descendants(self._process.pid))
            for pid in [self._process.pid, *below]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def _tail(self) -> str:
        return self._log.read_text("utf-8", "replace")[-3000:]
