"""docs/workers.md: its programs are saved under the names that the page gives them, and run by its command lines."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from support.clients import require_client
from support.documents import ROOT
from support.servers import Server

DEADLINE_S = 60
PAGE = (ROOT / "docs" / "workers.md").read_text("utf-8")


def section(title: str) -> str:
    """The text under a heading."""
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def saved(title: str, folder: Path, server: Server) -> list[list[str]]:
    """Save the program of a section, and return its command lines except those of pip."""
    text = section(title)
    (name,) = set(re.findall(r"Save this as `([\w.]+)`", text))
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "6379" in program
    (folder / name).write_text(program.replace("6379", str(server.port)))
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [shlex.split(line) for line in lines if not line.startswith("pip install")]


class Program:
    """A command line of the page that is running, with its output in a file."""

    def __init__(self, words: list[str], folder: Path) -> None:
        words = [sys.executable, *words[1:]] if words[0] == "python" else [str(program(words[0])), *words[1:]]
        self.log = folder / f"log-{Path(words[0]).name}"
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)

    def wait_for(self, text: str) -> None:
        """Until it has printed the text."""
        deadline_s = time.monotonic() + DEADLINE_S
        while text not in self.log.read_text("utf-8", "replace"):
            assert time.monotonic() < deadline_s, self.log.read_text("utf-8", "replace")
            assert self.process.poll() is None or text in self.log.read_text(), self.log.read_text()

    def stop(self) -> None:
        """Stop it in order, and its children with it."""
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def program(name: str) -> Path:
    """A program that was installed with this Python."""
    return Path(sys.executable).parent / name


@pytest.fixture
def raw(headrace: Server) -> Iterator[redis.Redis]:
    with redis.Redis(port=headrace.port, protocol=2, decode_responses=True) as client:
        yield client


def wait_until_acknowledged(raw: redis.Redis, stream: str, group: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while raw.xpending(stream, group)["pending"]:
        assert time.monotonic() < deadline_s


def test_worker_of_redis_py_handles_and_acknowledges(headrace: Server, raw: redis.Redis, tmp_path: Path) -> None:
    (line,) = saved("redis-py", tmp_path, headrace)
    raw.xadd("mails", {"to": "ann@example.com"})
    worker = Program(line, tmp_path)
    try:
        worker.wait_for("sending to ann@example.com")
        wait_until_acknowledged(raw, "mails", "senders")
    finally:
        worker.stop()
    assert worker.process.returncode == 0


def test_worker_of_redis_py_keeps_apart_what_cannot_be_sent(headrace: Server, raw: redis.Redis, tmp_path: Path) -> None:
    (line,) = saved("redis-py", tmp_path, headrace)
    path = tmp_path / line[1]
    send = 'print("sending to", address, flush=True)'
    assert send in path.read_text()
    path.write_text(path.read_text().replace(send, f'{send}\n    if address == "down":\n        raise ConnectionError'))
    raw.xadd("mails", {"subject": "without an address"}, id="1-1")
    raw.xadd("mails", {"to": "down"}, id="2-1")
    raw.xadd("mails", {"to": "ann@example.com"}, id="3-1")
    worker = Program(line, tmp_path)
    try:
        worker.wait_for("sending to ann@example.com")
        wait_until_acknowledged(raw, "mails", "senders")
    finally:
        worker.process.send_signal(signal.SIGINT)
        worker.stop()
    assert [fields for _, fields in raw.xrange("mails:dead")] == [
        {"subject": "without an address", "entry": "1-1"},
        {"to": "down", "entry": "2-1"},
    ]
    assert worker.log.read_text().count("sending to down") == 5
    assert worker.process.returncode == 0
    assert "Traceback" not in worker.log.read_text()


def test_application_of_faststream_handles_and_acknowledges(headrace: Server, raw: redis.Redis, tmp_path: Path) -> None:
    require_client("faststream")
    require_client("typer")
    (line,) = saved("FastStream", tmp_path, headrace)
    application = Program(line, tmp_path)
    try:
        application.wait_for("packing 2 x tea")
        wait_until_acknowledged(raw, "baskets", "cashiers")
    finally:
        application.stop()


def test_task_of_taskiq_runs_in_a_worker(headrace: Server, raw: redis.Redis, tmp_path: Path) -> None:
    require_client("taskiq_redis")
    worker_line, client_line = saved("taskiq", tmp_path, headrace)
    worker = Program([*worker_line, "--workers", "1"], tmp_path)
    client = None
    try:
        client = Program(client_line, tmp_path)
        client.wait_for("result 5")
        wait_until_acknowledged(raw, "taskiq", "taskiq")
    finally:
        worker.stop()
        if client is not None:
            client.stop()


def test_names_that_the_table_for_celery_has_exist() -> None:
    require_client("taskiq_redis")
    import taskiq
    from taskiq_redis import RedisStreamBroker

    table = section("Coming from Celery")
    assert "`SimpleRetryMiddleware`" in table
    assert hasattr(taskiq, "SimpleRetryMiddleware")
    assert "idle_timeout" in RedisStreamBroker.__init__.__code__.co_varnames
    commands = importlib.metadata.entry_points(group="taskiq_cli")
    assert {"worker", "scheduler"} <= {each.name for each in commands}
