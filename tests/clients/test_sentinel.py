"""Clients that ask Sentinels for the primary live through its loss: redis-py, FastStream and examples/worker.py."""

# No `from __future__ import annotations`: FastStream reads the annotations of handlers.

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from support.clients import require_client
from support.links import until
from support.packaging import ROOT
from support.secured import Secured
from support.sentinels import NAME, Sentinels
from support.watched import FAILOVER_DEADLINE_S, Lost, StartWatched, Watched, start_all

pytestmark = pytest.mark.oracle

THREE = ("headrace", "headrace", "headrace")
COUNT = 200
ATTEMPTS_COUNT = 600
PAUSE = Event()


@pytest.fixture
def watched(oracle_tools: Path, tmp_path: Path) -> Iterator[Watched]:
    """A primary and two replicas, watched by three Sentinels."""
    for start in start_all(tmp_path):
        own: StartWatched = start
        watched = own(THREE)
        watched.watch()
        yield watched


@pytest.fixture
def secured(oracle_tools: Path, tmp_path: Path) -> Iterator[Watched]:
    """A primary and two replicas, watched by three Sentinels, all of which use TLS alone."""
    for start in start_all(tmp_path):
        own: StartWatched = start
        watched = own(THREE, secured=Secured(tmp_path))
        watched.watch()
        yield watched


def addresses(sentinels: Sentinels) -> list[tuple[str, int]]:
    """The Sentinels as redis-py takes them."""
    return [("127.0.0.1", port) for port in sentinels.ports]


def client_of(watched: Watched) -> redis.Redis:
    """A client of whatever server is the primary."""
    assert watched.sentinels is not None
    tls: dict[str, Any] = watched.secured.options if watched.secured else {}
    manager = Sentinel(addresses(watched.sentinels), sentinel_kwargs={"socket_timeout": 1, **tls})
    return manager.master_for(NAME, socket_timeout=5, decode_responses=True, retry=Retry(NoBackoff(), 0), **tls)


def call(command: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a command again while the primary is away. Retries of redis-py stay with the server that was lost."""
    for _ in range(ATTEMPTS_COUNT):
        with contextlib.suppress(redis.ConnectionError, redis.TimeoutError):
            return command(*arguments, **options)
        PAUSE.wait(0.1)
    raise AssertionError("the primary does not come back")


class Producer(Thread):
    """Adds one order after another; a repeated one is recognised by its number."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.added: list[int] = []
        self.is_over = Event()

    def run(self) -> None:
        """Add orders until the end."""
        while not self.is_over.is_set():
            number = len(self.added)
            call(self.client.xadd, "orders", {"number": number}, idmp=("producer", str(number).encode()))
            self.added.append(number)

    def end(self) -> list[int]:
        """The orders that were acknowledged."""
        self.is_over.set()
        self.join(FAILOVER_DEADLINE_S)
        assert not self.is_alive()
        return self.added


class Consumer(Thread):
    """Reads and acknowledges orders, and blocks while there are none."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.handled: set[int] = set()
        self.is_over = Event()

    def run(self) -> None:
        """Handle orders until the end."""
        while not self.is_over.is_set():
            options = {"block": 1000, "claim_min_idle_time": 1000}
            reply = call(self.client.xreadgroup, "g", "ann", {"orders": ">"}, **options)
            for _, entries in reply or ():
                for entry_id, fields, *_ in entries:
                    self.handled.add(int(fields["number"]))
                    call(self.client.xack, "orders", "g", entry_id)


@pytest.mark.parametrize("how", [Lost.KILLED, Lost.STOPPED], ids=lambda how: how.name)
def test_producers_and_blocked_readers_of_redis_py_continue(watched: Watched, how: Lost) -> None:
    client = client_of(watched)
    client.xgroup_create("orders", "g", "0", mkstream=True)
    producer, consumer = Producer(client_of(watched)), Consumer(client_of(watched))
    producer.start()
    consumer.start()
    until(lambda: len(producer.added) >= COUNT, "too few orders before the failover")
    watched.lose(how)
    promoted = watched.await_failover()
    reached = len(producer.added)
    until(lambda: len(producer.added) >= reached + COUNT, "the producer does not continue", FAILOVER_DEADLINE_S)
    assert call(client.info, "server")["tcp_port"] == promoted.port
    added = producer.end()
    until(lambda: consumer.handled >= set(added), "the consumer does not continue", FAILOVER_DEADLINE_S)
    consumer.is_over.set()
    consumer.join(FAILOVER_DEADLINE_S)
    numbers = [int(fields["number"]) for _, fields in call(client.xrange, "orders")]
    assert sorted(numbers) == sorted(set(numbers)), "no order is there twice"
    assert set(numbers) >= set(added), "an acknowledged order is lost"


def test_a_reader_of_replicas_finds_them_and_may_not_write(watched: Watched) -> None:
    assert watched.sentinels is not None
    manager = Sentinel(addresses(watched.sentinels), socket_timeout=1)
    assert manager.discover_master(NAME) == ("127.0.0.1", watched.link.port)
    found = {port for _, port in manager.discover_slaves(NAME)}
    assert found == {replica.port for replica in watched.replicas}
    client_of(watched).xadd("orders", {"f": "v"})
    reader = manager.slave_for(NAME)
    until(lambda: reader.xlen("orders") == 1, "the entry does not arrive")
    with pytest.raises(redis.ReadOnlyError):
        reader.xadd("orders", {"f": "v"})


def connections_count(listener: socket.socket) -> int:
    """How many connections wait to be accepted."""
    listener.setblocking(False)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def check_worker(watched: Watched, how: Lost, url: str, tmp_path: Path) -> None:
    """Let the worker of the examples pack an order before the primary is lost, and one afterwards. The first Sentinel
    that it knows does not answer.
    """
    assert watched.sentinels is not None
    silent = socket.create_server(("127.0.0.1", 0), backlog=ATTEMPTS_COUNT)
    log = tmp_path / "worker.log"
    for server in watched.nodes:
        with server.connect() as wire:
            assert wire.call("ACL", "SETUSER", "packer", "on", ">secret", "~*", "&*", "+@all") == b"+OK\r\n"
    environment = {
        **os.environ,
        "REDIS_URL": url,
        "REDIS_SENTINELS": f"127.0.0.1:{silent.getsockname()[1]},{watched.sentinels.addresses}",
        "REDIS_MASTER": NAME,
    }
    with log.open("wb") as output:
        words = [sys.executable, str(ROOT / "examples" / "worker.py")]
        worker = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
    try:
        client = client_of(watched)
        client.xadd("orders", {"item": "tea", "quantity": 2})
        until(lambda: "packs 2 x tea" in log.read_text(), log.read_text())
        until(lambda: client.info("clients")["blocked_clients"] == 1, "the worker does not wait")
        assert [each["user"] for each in client.client_list() if each["cmd"] == "xreadgroup"] == ["packer"]
        assert connections_count(silent) == 1, "a Sentinel that does not answer is asked again"
        watched.lose(how)
        watched.await_failover()
        call(client.xadd, "orders", {"item": "rum", "quantity": 3})
        until(lambda: "packs 3 x rum" in log.read_text(), "the worker does not continue", FAILOVER_DEADLINE_S)
        until(lambda: client.xpending("orders", "packers")["pending"] == 0, "an order stays pending")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(FAILOVER_DEADLINE_S) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
        silent.close()


@pytest.mark.parametrize("how", [Lost.KILLED, Lost.STOPPED], ids=lambda how: how.name)
def test_the_worker_of_the_examples_continues(watched: Watched, how: Lost, tmp_path: Path) -> None:
    check_worker(watched, how, "redis://packer:secret@", tmp_path)


def test_the_worker_of_the_examples_continues_over_tls(secured: Watched, tmp_path: Path) -> None:
    assert secured.secured is not None
    check_worker(secured, Lost.KILLED, secured.secured.url("packer:secret"), tmp_path)


async def test_a_broker_of_faststream_continues(watched: Watched) -> None:
    require_client("faststream")
    from faststream.redis import RedisSentinelBroker, StreamSub

    assert watched.sentinels is not None
    broker = RedisSentinelBroker(
        sentinels=addresses(watched.sentinels), sentinel_master_name=NAME, socket_timeout=1, logger=None
    )
    handled: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(stream=StreamSub("orders", group="g", consumer="ann", polling_interval=100))
    async def handle(order: str) -> None:
        await handled.put(order)

    async with asyncio.timeout(FAILOVER_DEADLINE_S):
        await broker.start()
        await broker.publish("tea", stream="orders")
        assert await handled.get() == "tea"
        watched.lose(Lost.KILLED)
        await asyncio.to_thread(watched.await_failover)
        await broker.publish("rum", stream="orders")
        assert await handled.get() == "rum"
    await broker.stop()
