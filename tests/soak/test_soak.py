"""Work and harm at the same time, over real TCP: at the end every entry is accounted for, and nothing is left over.

make soak MINUTES=30
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from soak.chaos import Chaos, descriptors_count, slope
from soak.workers import GROUP, KEY, Consumer, Producer, Worker
from support.servers import Server

MINUTES = float(os.environ.get("HEADRACE_TEST_SOAK_MINUTES", "0.25"))
PRODUCERS_COUNT = 3
CONSUMERS_COUNT = 5
DRAIN_DEADLINE_S = 60.0
POLL_S = 0.1
DESCRIPTORS_COUNT_MAX = 40
FLAT_AFTER_MINUTES = 2
"""What a server takes at first it may keep: its memory is to be flat from so long after its last start on."""
WATCHED_S_MIN = 60.0
SLOPE_MIB_PER_MINUTE_MAX = 1.0


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DRAIN_DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        threading.Event().wait(POLL_S)


def is_drained(server: Server) -> bool:
    with server.connect() as wire:
        return wire.ask("XLEN", KEY) == 0 and wire.ask("XPENDING", KEY, GROUP)[0] == 0


def test_every_entry_is_accounted_for_and_nothing_is_left(tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_SOAK_SEED") or random.randrange(10**6))
    print("\nseed", seed)
    server = Server("headrace", tmp_path, "--appendonly", "yes", "--appendfsync", "everysec")
    server.start()
    with server.connect() as wire:
        assert wire.call("XGROUP", "CREATE", KEY, GROUP, "0", "MKSTREAM") == b"+OK\r\n"
    enough, over = threading.Event(), threading.Event()
    workers: list[Worker] = []
    try:
        producers = [Producer(f"p{n}", lambda: server.port, enough, seed + n) for n in range(PRODUCERS_COUNT)]
        consumers = [Consumer(f"c{n}", lambda: server.port, over, seed + 50 + n) for n in range(CONSUMERS_COUNT)]
        workers = [*producers, *consumers]
        for worker in workers:
            worker.start()
        chaos = Chaos(server, seed, over)
        chaos.run(MINUTES * 60)
        enough.set()
        for producer in producers:
            producer.join(DRAIN_DEADLINE_S)
        wait_until(lambda: is_drained(server), "entries are left that nobody acknowledges")
        over.set()
        for worker in workers:
            worker.join(DRAIN_DEADLINE_S)
            assert worker.error is None, worker.error
        _check_accounts(producers, consumers)
        _check_leftovers(server)
        assert chaos.counts, "no harm was done"
        print(dict(chaos.counts))
        _check_memory(chaos.resident)
    finally:
        enough.set()
        over.set()
        server.kill()


def _check_accounts(producers: list[Producer], consumers: list[Consumer]) -> None:
    answered = {entry_id: value for producer in producers for entry_id, value in producer.answered.items()}
    delivered = {entry_id: value for consumer in consumers for entry_id, value in consumer.delivered.items()}
    acknowledged = [entry_id for consumer in consumers for entry_id in consumer.acknowledged]
    assert answered.keys() <= delivered.keys(), f"answered and never delivered: {answered.keys() - delivered.keys()}"
    assert all(delivered[entry_id] == value for entry_id, value in answered.items()), "delivered with another value"
    values = list(delivered.values())
    assert len(values) == len(set(values)), "an entry was added twice"
    assert len(acknowledged) == len(set(acknowledged)), "acknowledged by two consumers"
    sent_count = sum(producer.sent_count for producer in producers)
    assert len(delivered) <= sent_count, "entries that nobody sent"
    assert answered, "no XADD was answered"
    assert acknowledged, "no entry was acknowledged"
    ended = set(acknowledged).union(*(consumer.unanswered for consumer in consumers))
    assert delivered.keys() <= ended, f"gone, and acknowledged by nobody: {delivered.keys() - ended}"
    print(
        f"{sent_count} entries sent, {len(answered)} answered, {len(delivered)} delivered, {len(acknowledged)} "
        f"acknowledgements answered, {sum(worker.reconnects_count for worker in [*producers, *consumers])} reconnects"
    )


def _check_memory(resident: list[tuple[float, float]]) -> None:
    """Flat, once it has been looked at for long enough: in a run of five minutes, not in one of one."""
    watched = [point for point in resident if point[0] >= FLAT_AFTER_MINUTES * 60]
    watched_s = watched[-1][0] - watched[0][0] if watched else 0.0
    if watched_s < WATCHED_S_MIN:
        print(f"resident {resident[-1][1]:.0f} MiB; too short a run to tell whether memory is flat")
        return
    per_minute = slope(watched) * 60
    print(f"resident {watched[-1][1]:.0f} MiB, {per_minute:+.2f} MiB a minute over {watched_s:.0f} s")
    assert per_minute <= SLOPE_MIB_PER_MINUTE_MAX


def _check_leftovers(server: Server) -> None:
    """Connections, waiters and file descriptors return to what a server without clients has."""
    with server.connect() as wire:

        def is_alone() -> bool:
            clients = wire.ask("INFO", "clients")
            return b"connected_clients:1\r\n" in clients and b"blocked_clients:0\r\n" in clients

        wait_until(is_alone, "clients or waiters are left")
        wait_until(lambda: b"aof_rewrite_in_progress:0" in wire.ask("INFO", "persistence"), "a rewrite does not end")
        before = descriptors_count(server.pid)
        with server.connect() as other:
            other.call("PING")
            assert descriptors_count(server.pid) == before + 1
        wait_until(lambda: descriptors_count(server.pid) == before, "a descriptor is left")
    assert before <= DESCRIPTORS_COUNT_MAX, "more descriptors than a server with one client needs"
    print(f"nobody connected or waiting, {before} descriptors")
