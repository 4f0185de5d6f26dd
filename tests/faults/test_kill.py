"""`kill -9` under load, again and again on the same folder: everything that was answered is there afterwards.

    make crash CYCLES=1000      the long run; CI kills 50 times

A failure names its seed, which chooses the load; when exactly the process dies is left to the machine.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from support.killable import Load, Reader, Writer
from support.promises import assert_promised
from support.servers import Server
from support.wire import Wire

CYCLES_COUNT = int(os.environ.get("HEADRACE_CRASH_CYCLES", "50"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 5 * CYCLES_COUNT)
POLICIES = ["always", "everysec"]
WRITERS_COUNT = 3
# The server is killed after 1 to so many answers, within the next.
ANSWERS_MAX = 1500
# After so many cycles the dataset starts anew: otherwise loading it would be all that is tested.
CYCLES_PER_DATASET = 10
GROUP_KEY = "s0"
DEADLINE_S = 60.0


class Expected:
    """What the dataset must hold."""

    def __init__(self) -> None:
        # Answered entries of each stream.
        self.numbers: dict[str, dict[bytes, int]] = {f"s{index}": {} for index in range(WRITERS_COUNT)}
        self.sent_counts = dict.fromkeys(self.numbers, 0)
        self.delivered: set[bytes] = set()
        self.acknowledging: set[bytes] = set()
        self.acknowledged: set[bytes] = set()

    def check_entries(self, wire: Wire, key: str) -> None:
        """Every answered entry is there, and only what was sent, once and in order."""
        entries = wire.ask("XRANGE", key, "-", "+")
        found = {entry_id: int(fields[1]) for entry_id, fields in entries}
        numbers = list(found.values())
        missing = [number for entry_id, number in self.numbers[key].items() if found.get(entry_id) != number]
        assert not missing, f"answered and lost from {key}: {missing[:10]}"
        assert len(entries) == len(found), f"an ID twice in {key}"
        assert numbers == sorted(set(numbers)), f"an entry twice, or out of order, in {key}"
        assert not numbers or numbers[-1] < self.sent_counts[key]
        self.numbers[key] = found

    def check_group(self, wire: Wire) -> None:
        """Deliveries that were answered are pending unless they are acknowledged; answered acknowledgements hold."""
        pending = {row[0] for row in wire.ask("XPENDING", GROUP_KEY, "g", "-", "+", 1_000_000)}
        assert not pending & self.acknowledged, "acknowledged and pending again"
        assert self.delivered - self.acknowledging <= pending, "delivered, not acknowledged, and not pending"
        self.delivered = pending | self.acknowledged | self.acknowledging
        self.acknowledging -= pending

    def learn(self, loads: list[Load]) -> None:
        """What the clients saw before the server was gone."""
        for load in loads:
            assert load.error is None, load.error
            if isinstance(load, Writer):
                self.numbers[load.key].update(load.answered)
                self.sent_counts[load.key] = load.sent_count
            elif isinstance(load, Reader):
                again = self.delivered & set(load.delivered)
                assert not again, f"delivered twice: {sorted(again)[:5]}"
                assert len(load.delivered) == len(set(load.delivered))
                self.delivered.update(load.delivered)
                self.acknowledging |= load.acknowledging
                self.acknowledged |= load.acknowledged


def run_until_killed(server: Server, expected: Expected, rnd: random.Random) -> list[Load]:
    """Load the server and kill it somewhere in the middle; all clients have ended."""
    answers_left = rnd.randrange(1, ANSWERS_MAX)
    lock, is_enough = threading.Lock(), threading.Event()

    def count_down(answers_count: int) -> None:
        nonlocal answers_left
        with lock:
            answers_left -= answers_count
            if answers_left <= 0:
                is_enough.set()

    loads: list[Load] = [Reader(server.port, rnd.randrange(10**6), count_down, GROUP_KEY)]
    for key, sent_count in expected.sent_counts.items():
        loads.append(Writer(server.port, rnd.randrange(10**6), count_down, key, sent_count))
    for load in loads:
        load.start()
    assert is_enough.wait(DEADLINE_S), "the server does not answer"
    server.kill()
    for load in loads:
        load.join(DEADLINE_S)
    return loads


@pytest.mark.parametrize("policy", POLICIES)
def test_answered_writes_survive_kill_9(policy: str, tmp_path: Path) -> None:
    assert_promised("kill", "prefix")
    seed = random.randrange(10**6)
    print("seed", seed)
    rnd = random.Random(seed)
    server = Server("headrace", tmp_path, "--appendonly", "yes", "--appendfsync", policy)
    expected = Expected()
    answers_count = 0
    try:
        for cycle in range(-(-CYCLES_COUNT // len(POLICIES))):
            server.start()
            with server.connect() as wire:
                for key in expected.numbers:
                    expected.check_entries(wire, key)
                if cycle % CYCLES_PER_DATASET:
                    expected.check_group(wire)
                else:
                    assert wire.call("FLUSHALL") == b"+OK\r\n"
                    assert wire.call("XGROUP", "CREATE", GROUP_KEY, "g", "0", "MKSTREAM") == b"+OK\r\n"
                    expected = Expected()
            loads = run_until_killed(server, expected, rnd)
            answers_count += sum(len(load.answered) for load in loads if isinstance(load, Writer))
            expected.learn(loads)
    finally:
        server.kill()
    print(f"{policy}: {answers_count} answered writes, none lost")
