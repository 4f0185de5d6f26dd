"""Random sequences of every command get the same answers, and leave the same state behind, as at Redis.

    make differential N=20000           so many sequences; CI runs 2,000
    make differential SEED=12345        other sequences

A failure is shrunk and printed as a script for redis-cli.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from differential.duel import Duel, Mismatch
from differential.grammar import ROWS
from differential.left_out import ADMIN_SENT, LEFT_OUT, is_left_out
from differential.machine import DifferentialMachine
from differential.shrinking import shrink
from differential.side import Side
from headrace.commands.table import all_rows
from support.replies import parse
from support.servers import Server

SEQUENCES_COUNT = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEQUENCES", "200"))
STEPS_COUNT = 60
SEED = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEED", "1"))


@pytest.fixture
def duel(headrace: Server, oracle: Server) -> Iterator[Duel]:
    """Both servers, with the same serialized values to restore."""
    sides = Side(headrace), Side(oracle)
    sides[0].payloads = sides[1].payloads = make_payloads(oracle)
    yield Duel(*sides)
    for side in sides:
        side.close()


def make_payloads(oracle: Server) -> list[bytes]:
    """What Redis makes of a string, a stream with a group, a stream without entries, and one with deleted entries."""
    with oracle.connect() as wire:
        wire.call("SET", "p0", "value")
        for number in range(1, 8):
            wire.call("XADD", "p1", f"{number}-1", "f", "v")
            wire.call("XADD", "p3", f"{number}-1", "f", number)
        wire.call("XGROUP", "CREATE", "p1", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "p1", ">")
        wire.call("XGROUP", "CREATE", "p2", "h", "$", "MKSTREAM")
        wire.call("XDEL", "p3", "2-1", "3-1", "7-1")
        return [parse(wire.call("DUMP", f"p{number}")).value for number in range(4)]


@pytest.mark.oracle
def test_random_sequences_are_answered_the_same(duel: Duel) -> None:
    DifferentialMachine.duel = duel
    machine = settings(
        max_examples=SEQUENCES_COUNT,
        stateful_step_count=STEPS_COUNT,
        deadline=None,
        database=None,
        print_blob=False,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with contextlib.suppress(Mismatch, Flaky):
        run_state_machine_as_test(seed(SEED)(DifferentialMachine), settings=machine)
    if duel.failures:
        steps, failure = duel.failures[0]
        smallest = shrink(duel, steps)
        note = ", and not again when repeated" if smallest is None else ""
        pytest.fail(f"seed {SEED}{note}: {smallest or failure}", pytrace=False)
    print(f"\n{DifferentialMachine.sequences_count} sequences, {DifferentialMachine.steps_count} steps, seed {SEED}")


def test_every_command_is_sent_or_left_out() -> None:
    sent = {row.name for row in ROWS}
    callable_rows = [row for row in all_rows() if row.handler is not None]
    assert {row.name for row in callable_rows} == sent | {row.name for row in callable_rows if is_left_out(row)}


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert LEFT_OUT.keys() | ADMIN_SENT <= {row.name for row in all_rows()}
