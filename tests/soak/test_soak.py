"""Load and faults at the same time, over real TCP: no entry is lost or duplicated, and no resource leaks.

make soak MINUTES=30
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

import pytest

from soak.chaos import Chaos, slope
from soak.workers import GROUP, KEY, Consumer, Producer, Worker, note
from support.processes import descriptors_count
from support.servers import Server
from support.wire import Wire

MINUTES = float(os.environ.get("HEADRACE_TEST_SOAK_MINUTES", "0.25"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 120 * MINUTES)
PRODUCERS_COUNT = int(os.environ.get("HEADRACE_TEST_SOAK_PRODUCERS", "3"))
CONSUMERS_COUNT = int(os.environ.get("HEADRACE_TEST_SOAK_CONSUMERS", "5"))
DRAIN_DEADLINE_S = 60.0
# (seconds to skip after the last start, least number of seconds to measure, largest growth in MiB a minute). The first
# row for which the run is long enough is used. A server may keep what it takes at first. So a short run detects only a
# leak of a hundred bytes for each entry, at a hundred thousand entries a minute.
WATCHES = ((120.0, 60.0, 1.0), (15.0, 20.0, 10.0))


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DRAIN_DEADLINE_S
    while not is_true():  # each call asks the server or the kernel
        assert time.monotonic() < deadline, what


def is_drained(server: Server) -> bool:
    with server.connect() as wire:
        return wire.ask("XLEN", KEY) == 0 and wire.ask("XPENDING", KEY, GROUP)[0] == 0


def test_no_entry_is_lost_or_duplicated_and_nothing_is_left(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_SOAK_SEED") or 1)
    print("\nseed", seed)
    server = Server("headrace", tmp_path, "--appendonly", "yes", "--appendfsync", "everysec")
    server.start()
    enough, over = threading.Event(), threading.Event()
    workers: list[Worker] = []
    try:
        with server.connect() as wire:
            assert wire.call("XGROUP", "CREATE", KEY, GROUP, "0", "MKSTREAM") == b"+OK\r\n"
            _wait_until_alone(wire)
            fresh_count = descriptors_count(server.pid)
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
        wait_until(lambda: is_drained(server), "entries are left that no consumer acknowledges")
        over.set()
        for worker in workers:
            worker.join(DRAIN_DEADLINE_S)
            assert worker.error is None, worker.error
        _check_accounts(producers, consumers)
        record_property("entries", sum(producer.sent_count for producer in producers))
        record_property("reconnects", sum(worker.reconnects_count for worker in workers))
        _check_leftovers(server, fresh_count)
        for name, number in chaos.counts.items():
            record_property(name, number)
        print(dict(chaos.counts))
        assert all(chaos.counts.values()), f"faults that were never injected: {chaos.counts}"
        summary = check_memory(chaos.resident)
        print(summary)
        assert MINUTES < 1 or "too short" not in summary, summary
    finally:
        enough.set()
        over.set()
        server.kill()


def _check_accounts(producers: list[Producer], consumers: list[Consumer]) -> None:
    answered = _merge(producer.answered for producer in producers)
    delivered = _merge(consumer.delivered for consumer in consumers)
    acknowledged = [entry_id for consumer in consumers for entry_id in consumer.acknowledged]
    assert answered.keys() <= delivered.keys(), f"answered and never delivered: {answered.keys() - delivered.keys()}"
    assert all(delivered[entry_id] == value for entry_id, value in answered.items()), "delivered with another value"
    values = list(delivered.values())
    assert len(values) == len(set(values)), "an entry was added twice"
    assert len(acknowledged) == len(set(acknowledged)), "acknowledged by two consumers"
    sent_count = sum(producer.sent_count for producer in producers)
    assert len(delivered) <= sent_count, "entries that no producer sent"
    assert answered, "no XADD was answered"
    assert acknowledged, "no entry was acknowledged"
    ended = set(acknowledged).union(*(consumer.unanswered for consumer in consumers))
    assert delivered.keys() <= ended, f"gone, and acknowledged by no consumer: {delivered.keys() - ended}"
    print(
        f"{sent_count} entries sent, {len(answered)} answered, {len(delivered)} delivered, {len(acknowledged)} "
        f"acknowledgements answered, {sum(worker.reconnects_count for worker in [*producers, *consumers])} reconnects"
    )


def _merge(parts: Iterable[dict[bytes, bytes]]) -> dict[bytes, bytes]:
    merged: dict[bytes, bytes] = {}
    for part in parts:
        for entry_id, value in part.items():
            note(merged, entry_id, value)
    return merged


def check_memory(resident: list[tuple[float, float]]) -> str:
    """A summary of the resident memory. Raises AssertionError if it grows more than WATCHES allows."""
    for after_s, watched_s_min, slope_max in WATCHES:
        watched = [point for point in resident if point[0] >= after_s]
        watched_s = watched[-1][0] - watched[0][0] if watched else 0.0
        if watched_s >= watched_s_min:
            per_minute = slope(watched) * 60
            summary = f"resident {watched[-1][1]:.0f} MiB, {per_minute:+.2f} MiB a minute over {watched_s:.0f} s"
            assert per_minute <= slope_max, summary
            return summary
    return f"resident {resident[-1][1]:.0f} MiB; too short a run to tell whether memory is flat"


def _wait_until_alone(wire: Wire) -> None:
    """Wait until this is the only client, and nothing runs in the background."""

    def is_alone() -> bool:
        clients = wire.ask("INFO", "clients")
        return b"connected_clients:1\r\n" in clients and b"blocked_clients:0\r\n" in clients

    wait_until(is_alone, "clients or waiters are left")
    wait_until(lambda: b"aof_rewrite_in_progress:0" in wire.ask("INFO", "persistence"), "a rewrite does not end")


def _check_leftovers(server: Server, fresh_count: int) -> None:
    """The numbers of connections, waiters and file descriptors return to those of a new server with one client."""
    with server.connect() as wire:
        _wait_until_alone(wire)
        wait_until(
            lambda: descriptors_count(server.pid) == fresh_count, f"not the {fresh_count} descriptors of a fresh server"
        )
        with server.connect() as other:
            other.call("PING")
            assert descriptors_count(server.pid) == fresh_count + 1
        wait_until(lambda: descriptors_count(server.pid) == fresh_count, "a descriptor is left")
    print(f"no client connected or waiting, {fresh_count} descriptors")


@pytest.mark.parametrize(
    ("minutes", "mib_per_minute", "is_leak"),
    [(5, 0.8, False), (5, 1.2, True), (1, 5, False), (1, 15, True), (0.25, 1000, False)],
)
def test_leak_is_distinguished_from_the_growth_of_a_young_server(
    minutes: float, mib_per_minute: float, is_leak: bool
) -> None:
    seconds = range(int(minutes * 60))
    points = [(float(s), 40 + min(s, 10) + s / 60 * mib_per_minute + s % 2) for s in seconds]
    with pytest.raises(AssertionError) if is_leak else nullcontext():
        check_memory(points)
