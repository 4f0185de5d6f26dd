"""The Python block of docs/policies.md, and examples/simple_worker.py.

tests/documents/test_shown.py runs the command lines of the page.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from support.documents import ROOT, blocks, commands
from support.links import until
from support.servers import Server
from support.wire import Wire

PAGE = ROOT / "docs" / "policies.md"
WORKER = ROOT / "examples" / "simple_worker.py"
TIMEOUT_S = 60


def test_a_guarded_entry_is_delivered_again_when_the_connection_is_closed(headrace: Server, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert "6379" in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace("6379", str(headrace.port))],
        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


class Worker:
    """The example, running with short times."""

    def __init__(self, port: int, log: Path) -> None:
        self.log = log
        times = {"REDELIVER_MS": "50", "BACKOFF_MS": "1"}
        environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{port}", **times}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER)], env=environment, stdout=output, stderr=output
            )

    def wait_for(self, text: str) -> None:
        """Until it has printed the text."""
        until(lambda: text in self.log.read_text(), f"the worker does not print {text}", TIMEOUT_S)


@pytest.fixture
def left(headrace: Server) -> Iterator[redis.Redis]:
    """A client. A worker has read an order, and died."""
    with redis.Redis(port=headrace.port, protocol=2, decode_responses=True) as raw:
        raw.xgroup_create("orders", "packers", "0", mkstream=True)
        raw.xadd("orders", {"item": "ale", "quantity": 4}, id="1-0")
        with redis.Redis(port=headrace.port, protocol=2) as dying:
            dying.xreadgroup("packers", "dying", {"orders": ">"})
        yield raw


@pytest.fixture
def worker(headrace: Server, left: redis.Redis, tmp_path: Path) -> Iterator[Worker]:
    started = Worker(headrace.port, tmp_path / "log")
    yield started
    started.process.kill()
    started.process.wait()


def test_the_simple_worker_leaves_retries_and_dead_letters_to_the_server(worker: Worker, left: redis.Redis) -> None:
    worker.wait_for("packs 4 x ale")
    left.xadd("orders", {"item": "tea", "quantity": 2}, id="2-0")
    left.xadd("orders", {"item": "rum", "quantity": "many"}, id="3-0")
    left.xadd("orders", {"item": "glass", "quantity": 1}, id="4-0")
    worker.wait_for("packs 2 x tea")
    until(lambda: left.xlen("orders:dead") == 2, "dead letters are missing", TIMEOUT_S)
    dead = {fields["_id"]: fields for _, fields in left.xrange("orders:dead")}
    reasons = {entry_id: fields["_reason"] for entry_id, fields in dead.items()}
    assert reasons == {"3-0": "fatal", "4-0": "deliveries"}
    assert dead["4-0"]["_deliveries"] == "5"
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(TIMEOUT_S) == 0, worker.log.read_text()
    assert left.xpending("orders", "packers")["pending"] == 0
    assert [row["name"] for row in left.xinfo_consumers("orders", "packers")] == ["dying"]


def state_of(wire: Wire) -> dict[bytes, Any]:
    """The entries of each stream, and the position and pending entries of each group."""
    found: dict[bytes, Any] = {}
    for key in sorted(wire.ask("KEYS", "*")):
        groups = [dict(zip(row[::2], row[1::2], strict=True)) for row in wire.ask("XINFO", "GROUPS", key)]
        pending = {
            group[b"name"]: [
                (row[0], row[1], row[3]) for row in wire.ask("XPENDING", key, group[b"name"], "-", "+", 100)
            ]
            for group in groups
        }
        positions = [(group[b"name"], group[b"last-delivered-id"]) for group in groups]
        found[key] = wire.ask("XRANGE", key, "-", "+"), positions, pending
    return found


@pytest.mark.oracle
def test_redis_reads_the_log_of_all_that_the_page_shows(start_server: Callable[..., Server]) -> None:
    ours = start_server("headrace", "--appendonly", "yes")
    for block in blocks(PAGE):
        for line, _ in commands(block) if block.language == "console" else ():
            with ours.connect() as wire:
                wire.call(*shlex.split(line)[1:])
    # All settings stay in the log, and CONSUMER-TTL does not act between the two looks.
    with ours.connect() as wire:
        wire.call("XGROUP", "CONFIG", "visits", "guides", "CONSUMER-TTL", 0)
        before = state_of(wire)
    assert len(before) > 8
    ours.kill()
    assert b"#HR" in b"".join(path.read_bytes() for path in ours.folder.rglob("*.aof"))
    theirs = start_server("oracle", "--appendonly", "yes", "--dir", str(ours.folder))
    with theirs.connect() as wire:
        assert state_of(wire) == before
