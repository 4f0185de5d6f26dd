"""Dramatiq: `python dramatiq_actors.py URL` sends messages at once, delayed, and to an actor that fails."""

from __future__ import annotations

import sys
import threading

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

RETRIES = 2
broker = RedisBroker(url=sys.argv[1])
broker.add_middleware(Results(backend=RedisBackend(url=sys.argv[1])))
dramatiq.set_broker(broker)
calls = threading.Semaphore(0)


@dramatiq.actor(store_results=True)
def add(left: int, right: int) -> int:
    return left + right


@dramatiq.actor(max_retries=RETRIES, min_backoff=10, max_backoff=20)
def fail() -> None:
    calls.release()
    raise ValueError("as it should")


worker = dramatiq.Worker(broker, worker_timeout=100)
worker.start()
assert add.send(1, 2).get_result(block=True, timeout=30_000) == 3
assert add.send_with_options(args=(3, 4), delay=200).get_result(block=True, timeout=30_000) == 7
fail.send()
for _ in range(RETRIES + 1):
    assert calls.acquire(timeout=30)
worker.stop()
