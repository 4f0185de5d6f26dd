"""compose.yaml and examples/worker.py: what happens to orders, and that both images run as the file says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from conftest import StartServer
from support.image import Image
from support.packaging import ROOT
from support.ports import free_port
from support.servers import Server

WORKER = ROOT / "examples" / "worker.py"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
DEADLINE_S = 60

StartWorker = Callable[..., "subprocess.Popen[bytes]"]


def wait_until(is_true: Callable[[], bool]) -> None:
    """Ask a server until it is so; each asking waits for its answer."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline_s


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A client in addition to the workers."""
    with redis.Redis(port=server.port, protocol=2, decode_responses=True) as connected:
        yield connected


@pytest.fixture
def start_worker(server: Server, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers; what they say goes to the file `log`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(claim_idle_ms: int = 60_000, login: str = "", url: str = "") -> subprocess.Popen[bytes]:
        url = url or f"redis://{login}127.0.0.1:{server.port}"
        environment = {**os.environ, "REDIS_URL": url, "CLAIM_IDLE_MS": str(claim_idle_ms)}
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen([sys.executable, WORKER], env=environment, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_done(client: redis.Redis) -> bool:
    """Whether every order was delivered, and none is pending."""
    groups = client.xinfo_groups("orders") if client.exists("orders") else []
    return [(group["lag"], group["pending"]) for group in groups] == [(0, 0)]


def test_orders_are_packed_and_acknowledged(client: redis.Redis, start_worker: StartWorker, tmp_path: Path) -> None:
    for item in ("tea", "rum"):
        client.xadd("orders", {"item": item, "quantity": 2})
    start_worker()
    wait_until(lambda: is_done(client))
    said = (tmp_path / "log").read_text()
    assert "packs 2 x tea\n" in said
    assert "packs 2 x rum\n" in said


def test_orders_that_a_dead_worker_held_are_claimed(client: redis.Redis, start_worker: StartWorker) -> None:
    client.xgroup_create("orders", "packers", "0", mkstream=True)
    client.xadd("orders", {"item": "tea", "quantity": 2})
    client.xreadgroup("packers", "dead", {"orders": ">"})
    start_worker(claim_idle_ms=1)
    wait_until(lambda: is_done(client))
    assert not client.exists("orders:dead")


def test_an_order_that_can_never_be_packed_ends_among_the_dead(client: redis.Redis, start_worker: StartWorker) -> None:
    order = client.xadd("orders", {"item": "tea", "quantity": "many"})
    start_worker()
    wait_until(lambda: client.exists("orders:dead") == 1 and is_done(client))
    ((_, fields),) = client.xrange("orders:dead")
    assert fields == {"item": "tea", "quantity": "many", "order": order}


def test_an_order_that_fails_for_now_is_tried_five_times(
    client: redis.Redis, start_worker: StartWorker, tmp_path: Path
) -> None:
    client.xadd("orders", {"quantity": 2})  # nothing to pack: a KeyError
    start_worker(claim_idle_ms=1)
    wait_until(lambda: client.exists("orders:dead") == 1 and is_done(client))
    assert (tmp_path / "log").read_text().count("could not pack") == 5


def test_a_worker_that_is_asked_to_stop_deletes_its_consumer(client: redis.Redis, start_worker: StartWorker) -> None:
    worker = start_worker()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0
    assert client.xinfo_consumers("orders", "packers") == []


def test_a_worker_whose_wait_is_ended_reads_again(
    client: redis.Redis, start_worker: StartWorker, tmp_path: Path
) -> None:
    """A server that becomes a replica ends the waits of its clients so."""
    start_worker()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    (waiting,) = (row["id"] for row in client.client_list() if "b" in row["flags"])
    assert client.execute_command("CLIENT", "UNBLOCK", waiting, "ERROR") == 1
    client.xadd("orders", {"item": "tea", "quantity": 2})
    wait_until(lambda: is_done(client))
    assert "packs 2 x tea" in (tmp_path / "log").read_text()


def test_a_worker_says_once_that_it_waits_for_its_server(
    start_server: StartServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker(url=f"unix://{tmp_path}/socket")
    log = tmp_path / "log"
    wait_until(lambda: "cannot reach the server" in log.read_text())
    start_server("headrace", "--unixsocket", f"{tmp_path}/socket")
    wait_until(lambda: "is ready" in log.read_text())
    assert log.read_text().count("cannot reach the server") == 1
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0


def test_a_worker_that_waits_is_ended_by_ctrl_c_without_a_traceback(start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(url=f"unix://{tmp_path}/socket")
    log = tmp_path / "log"
    wait_until(lambda: "cannot reach the server" in log.read_text() and log.read_text().endswith("\n"))
    worker.send_signal(signal.SIGINT)
    assert worker.wait(DEADLINE_S) == 1
    assert log.read_text().splitlines()[1:] == [f"{log.read_text().split()[0]} ends before it is ready"]


def test_a_worker_that_is_asked_to_stop_while_its_server_is_down_ends(
    start_server: StartServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    server = start_server("headrace", "--unixsocket", f"{tmp_path}/socket")
    worker = start_worker(url=f"unix://{tmp_path}/socket")
    log = tmp_path / "log"
    wait_until(lambda: "is ready" in log.read_text())
    server.kill()
    wait_until(lambda: "cannot reach the server" in log.read_text())
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 1
    assert "ends without its server" in log.read_text().splitlines()[-1]


def test_a_worker_without_redis_py_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", WORKER], capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "This worker needs redis-py: pip install 'redis>=8'\n"


def test_the_user_of_the_security_page_may_do_what_a_worker_does_and_no_more(
    client: redis.Redis, start_worker: StartWorker
) -> None:
    """One order of each kind: packed, impossible to pack, and left to be released by a stop."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    rules = re.findall(r"^user worker (.*)$", page, re.MULTILINE)[0]
    client.execute_command("ACL", "SETUSER", "worker", *re.findall(r"\([^)]*\)|\S+", rules))
    client.xadd("orders", {"item": "tea", "quantity": "many"})
    client.xadd("orders", {"item": "tea", "quantity": 2})
    client.config_resetstat()
    worker = start_worker(login="worker:w-secret@")
    wait_until(lambda: client.exists("orders:dead") == 1 and is_done(client))
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0
    assert client.xinfo_consumers("orders", "packers") == []
    assert client.acl_log() == [], "nothing is refused, not even the introduction of redis-py"
    used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert set(re.findall(r"\+([a-z|]+)", rules)) <= used
    assert client.execute_command("ACL", "DRYRUN", "worker", "XADD", "orders", "*", "f", "v") != "OK"


def test_both_services_run_as_the_file_says(image: Image, data: Path, tmp_path: Path) -> None:
    """Read-only, as their users, the worker finding the server by its address."""
    headrace, worker = COMPOSE["services"]["headrace"], COMPOSE["services"]["worker"]
    assert (headrace["build"], headrace["read_only"], worker["read_only"]) == (".", True, True)
    worker_image = Image(tmp_path / "worker", worker["build"]["dockerfile_inline"], ROOT / worker["build"]["context"])
    port = free_port()
    url = worker["environment"]["REDIS_URL"].replace("headrace:6379", f"127.0.0.1:{port}")
    server = image.start(data, user=headrace["user"], HEADRACE_PORT=str(port), **headrace["environment"])
    try:
        wait_until(server.is_healthy)  # as depends_on says
        packer = worker_image.start(tmp_path, REDIS_URL=url)
        with redis.Redis(port=port, protocol=2, decode_responses=True) as client:
            assert client.config_get("maxmemory") == {"maxmemory": str(256 << 20)}
            client.xadd("orders", {"item": "tea", "quantity": 2})
            wait_until(lambda: is_done(client))
        assert (packer.stop(), server.stop()) == (0, 0)
        assert "packs 2 x tea" in packer.log.read_text()
    finally:
        server.kill()
        worker_image.close()
