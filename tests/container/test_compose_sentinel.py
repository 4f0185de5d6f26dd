"""compose.sentinel.yaml: three servers, three Sentinels and a worker run as the file says, and survive the primary.

The scripts of the services run as processes of this machine. `test_image.py` starts the image by such a script.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from redis.sentinel import Sentinel

from support.links import until
from support.packaging import ROOT
from support.ports import free_port

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.sentinel.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = ("node-1", "node-2", "node-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
# What the image sets (Dockerfile).
IMAGE = {"HEADRACE_APPENDONLY": "yes", "HEADRACE_AOF_START_FROM_RDB": "yes", "HEADRACE_PROTECTED_MODE": "no"}
DEADLINE_S = 90.0

pytestmark = pytest.mark.oracle


def address(name: str) -> str:
    """The fixed address of a service."""
    return str(SERVICES[name]["networks"]["servers"]["ipv4_address"])


def test_every_address_is_that_of_a_service() -> None:
    known = {address(name): name for name in (*NODES, *SENTINELS)}
    assert len(known) == len(NODES) + len(SENTINELS)
    for name in SENTINELS:
        assert f"sentinel monitor mymaster {address('node-1')} 6379 2" in SERVICES[name]["command"][2]
    for name in NODES[1:]:
        assert SERVICES[name]["environment"]["FIRST_LINE"] == f"replicaof {address('node-1')} 6379"
    named = SERVICES["worker"]["environment"]["REDIS_SENTINELS"].split(",")
    assert named == [f"{address(name)}:26379" for name in SENTINELS]
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    assert [volume.partition(":")[0] for volume in volumes] == list(COMPOSE["volumes"])


def test_no_service_gets_the_fixed_address_of_another() -> None:
    """The engine takes addresses of the range for services without a fixed one, also while a server is down."""
    (config,) = COMPOSE["networks"]["servers"]["ipam"]["config"]
    subnet, dynamic = ipaddress.ip_network(config["subnet"]), ipaddress.ip_network(config["ip_range"])
    assert dynamic.subnet_of(subnet)  # type: ignore[arg-type]
    gateway, *free = subnet.hosts()
    for name in (*NODES, *SENTINELS):
        own = ipaddress.ip_address(address(name))
        assert own in free
        assert own != gateway
        assert own not in dynamic
    assert SERVICES["worker"]["deploy"]["replicas"] < dynamic.num_addresses - 2


def test_no_service_waits_for_the_health_of_another() -> None:
    """The short form of `depends_on` is an order of starts and stops: first the servers, then the Sentinels."""
    for name in NODES:
        assert "depends_on" not in SERVICES[name]
    for name in SENTINELS:
        assert SERVICES[name]["depends_on"] == list(NODES)
    assert SERVICES["worker"]["depends_on"] == list(SENTINELS)


def test_what_both_files_have_is_equal() -> None:
    other = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    assert SERVICES["worker"]["build"] == other["worker"]["build"]
    for key in ("image", "build", "user", "read_only", "cap_drop", "security_opt", "restart"):
        assert SERVICES["node-1"][key] == other["headrace"][key]


def script_of(name: str) -> str:
    """The shell script of a service, as Compose passes it on: `$$` is `$`."""
    program, option, script = SERVICES[name]["command"]
    assert (program, option) == ("sh", "-ec")
    return str(script).replace("$$", "$")


class Composition:
    """The services as processes of this machine, each on a port of its own instead of an address."""

    def __init__(self, oracle: Path, folder: Path) -> None:
        self.oracle = oracle
        self.folder = folder
        self.ports = {name: free_port() for name in (*NODES, *SENTINELS)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environments: dict[str, dict[str, str]] = {}

    def placed(self, text: str) -> str:
        """A text of the file, with ports of this machine instead of addresses."""
        for name in (*NODES, *SENTINELS):
            for separator in (" ", ":"):
                known = f"{address(name)}{separator}{6379 if name in NODES else 26379}"
                text = text.replace(known, f"127.0.0.1{separator}{self.ports[name]}")
        return text

    def start(self, name: str) -> None:
        """Start a server or a Sentinel on its volume, until it is healthy."""
        if name in NODES:
            self.start_node(name)
        else:
            self.start_sentinel(name)

    def start_node(self, name: str) -> None:
        """Start a server on its volume, until it is healthy."""
        service = SERVICES[name]
        assert (service["user"], service["read_only"]) == ("6379:6379", True)
        own = {
            "HEADRACE_DIR": str(self.folder / name),
            "HEADRACE_PORT": str(self.ports[name]),
            "HEADRACE_BIND": "127.0.0.1",
        }
        environment = {key: self.placed(str(value)) for key, value in service["environment"].items()}
        self._start(name, script_of(name), **IMAGE, **environment, **own)
        until(lambda: self._is_healthy(name), f"{name} does not become healthy", DEADLINE_S)

    def _is_healthy(self, name: str) -> bool:
        words = [sys.executable, str(ROOT / "container" / "health.py"), str(self.processes[name].pid)]
        return subprocess.run(words, env=self._environments[name], capture_output=True).returncode == 0

    def start_sentinel(self, name: str) -> None:
        """Start a Sentinel with the program of the oracle in place of the image of Redis."""
        script = self.placed(script_of(name)).replace("port 26379", f"port {self.ports[name]}\nbind 127.0.0.1")
        program = f"{self.oracle / 'redis-server'} /data/sentinel.conf --sentinel"
        assert "redis-sentinel /data/sentinel.conf" in script
        self._start(name, script.replace("redis-sentinel /data/sentinel.conf", program))
        until(lambda: self._passes_its_check(name), f"{name} does not become healthy", DEADLINE_S)

    def _passes_its_check(self, name: str) -> bool:
        """Whether the health check of a Sentinel succeeds, with the redis-cli of the oracle."""
        form, program, *words = SERVICES[name]["healthcheck"]["test"]
        assert (form, program) == ("CMD", "redis-cli")
        words = [str(self.ports[name]) if word == "26379" else word for word in words]
        done = subprocess.run([self.oracle / program, *words], capture_output=True, timeout=DEADLINE_S)
        return done.returncode == 0

    def _start(self, name: str, script: str, **variables: str) -> None:
        """Run the script of a service, with the first words of PATH for the program `headrace`."""
        data = self.folder / name
        data.mkdir(exist_ok=True)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environments[name] = {"PATH": path, **variables}
        with (data / "log").open("ab") as log:
            words = ["sh", "-ec", script.replace("/data", str(data))]
            self.processes[name] = subprocess.Popen(words, env=self._environments[name], stdout=log, stderr=log)

    def start_worker(self) -> Path:
        """Start the worker. Returns the file of what it says."""
        environment = {key: self.placed(value) for key, value in SERVICES["worker"]["environment"].items()}
        log = self.folder / "worker.log"
        with log.open("ab") as output:
            words = [sys.executable, str(ROOT / "examples" / "worker.py")]
            own = {**os.environ, **environment}
            self.processes["worker"] = subprocess.Popen(words, env=own, stdout=output, stderr=output)
        return log

    def kill(self, name: str) -> None:
        """End a service at once."""
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def composition(oracle_tools: Path, tmp_path: Path) -> Iterator[Composition]:
    """Nothing is started yet."""
    own = Composition(oracle_tools, tmp_path)
    yield own
    own.close()


def test_orders_are_packed_before_and_after_a_failover(composition: Composition) -> None:
    for name in (*SENTINELS, *NODES):
        composition.start(name)
    manager = Sentinel([("127.0.0.1", composition.ports[name]) for name in SENTINELS], socket_timeout=1)

    def primary_port() -> int:
        try:
            return int(manager.discover_master("mymaster")[1])
        except redis.ConnectionError:
            return 0

    def retrying(action: Callable[[], Any]) -> Callable[[], bool]:
        def is_done() -> bool:
            try:
                action()
            except redis.RedisError:
                return False
            return True

        return is_done

    def replicas_count() -> int:
        return len(manager.discover_slaves("mymaster")) if primary_port() else 0

    until(lambda: replicas_count() == 2, "the Sentinels do not find the replicas", DEADLINE_S)
    log = composition.start_worker()
    client = redis.Redis(port=composition.ports["node-1"])
    assert client.config_get("min-replicas-to-write") == {"min-replicas-to-write": "1"}
    client.xadd("orders", {"item": "tea", "quantity": 2})
    until(lambda: "packs 2 x tea" in log.read_text(), log.read_text(), DEADLINE_S)

    composition.kill("node-1")
    until(lambda: primary_port() not in (0, composition.ports["node-1"]), "no failover", DEADLINE_S)
    promoted = redis.Redis(port=primary_port())
    add = retrying(lambda: promoted.xadd("orders", {"item": "rum", "quantity": 3}))
    until(add, "the promoted server takes no writes", DEADLINE_S)
    until(lambda: "packs 3 x rum" in log.read_text(), "the worker does not continue", DEADLINE_S)

    # All other services start again while this server stays down.
    for name in ("worker", *SENTINELS, *NODES[1:]):
        composition.kill(name)
    for name in (*NODES[1:], *SENTINELS):
        composition.start(name)
    composition.start_worker()
    add = retrying(lambda: promoted.xadd("orders", {"item": "gin", "quantity": 4}))
    until(add, "the promoted server takes no writes after the start", DEADLINE_S)
    until(lambda: "packs 4 x gin" in log.read_text(), "the worker does not start again", DEADLINE_S)

    composition.start_node("node-1")
    path = composition.folder / "node-1" / "redis.conf"
    line = f"replicaof 127.0.0.1 {primary_port()}"
    until(lambda: line in path.read_text().splitlines(), "the former primary is not led to the new one", DEADLINE_S)
