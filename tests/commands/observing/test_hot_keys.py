"""HOTKEYS: bounded memory, the end of DURATION, the sample, INFO, and no cost while nothing is measured."""

from __future__ import annotations

import random

import pytest

from headrace.commands.core.table import TABLE
from headrace.commands.observing.hot_keys import Ranking
from support.inprocess import Caller, Rig

FAST_COMMANDS = [b"SET", b"GET", b"XADD", b"XREADGROUP"]


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def caller(rig: Rig) -> Caller:
    return rig.connect()


def run_cron(rig: Rig) -> None:
    rig.server.context.hot_keys.cron(rig.clock())


def test_clients_take_the_fast_path_except_while_keys_are_measured(rig: Rig, caller: Caller) -> None:
    other = rig.connect()
    assert all(name in other.client.rows and TABLE[name].keys for name in FAST_COMMANDS)
    seen = [other.client.is_plain]
    for line in ("HOTKEYS START METRICS 1 NET", "HOTKEYS STOP", "HOTKEYS RESET"):
        caller.call(line)
        seen.append(other.client.is_plain)
    assert seen == [True, False, True, True]


def test_new_clients_are_measured_too(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 NET")
    rig.connect().call("SET k v")
    assert b"$1\r\nk\r\n:32\r\n" in caller.call("HOTKEYS GET")


def test_the_timer_ends_a_measurement_with_a_duration(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 NET DURATION 2", "SET k v")
    rig.clock.advance(1999)
    run_cron(rig)
    assert b"tracking-active\r\n:1\r\n" in caller.call("HOTKEYS GET")
    rig.clock.advance(1)
    run_cron(rig)
    caller.call("SET k v")
    rig.clock.advance(500)
    result = caller.call("HOTKEYS GET")
    assert b"tracking-active\r\n:0\r\n" in result
    assert b"collection-duration-ms\r\n:2000\r\n" in result
    assert b"total-net-bytes\r\n:32\r\n" in result
    assert caller.client.rows
    assert caller.call("HOTKEYS STOP") == b"$-1\r\n"


def test_a_measurement_without_a_duration_has_no_end(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 NET")
    rig.clock.advance(10**9)
    run_cron(rig)
    assert b"tracking-active\r\n:1\r\n" in caller.call("HOTKEYS GET")


def test_the_sample_has_the_requested_share_of_commands(rig: Rig, caller: Caller) -> None:
    hot_keys = rig.server.context.hot_keys
    hot_keys._random = random.Random(1)
    caller.call("HOTKEYS START METRICS 1 NET SAMPLE 4")
    caller.call(*["MSET a 1 b 2"] * 4000)
    assert hot_keys.last is not None
    sums = dict(hot_keys.last.by_net_size.largest(2))
    assert sums[b"a"] == sums[b"b"]
    assert hot_keys.last.net_size / 4 == pytest.approx(hot_keys.last.ranked_net_size, rel=0.1)


def test_cpu_time_is_that_of_the_calls(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 CPU")
    rig.server.context.hot_keys.note(caller.client, TABLE[b"MSET"], [b"MSET", b"a", b"1", b"b", b"2"], None, 9_000_000)
    result = caller.call("HOTKEYS GET")
    assert b"all-commands-all-slots-us\r\n:9000\r\n" in result
    assert result.endswith(b"by-cpu-time-us\r\n*4\r\n$1\r\na\r\n:4500\r\n$1\r\nb\r\n:4500\r\n")


def test_keys_whose_calls_took_no_whole_microsecond_are_not_shown(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 CPU")
    for key, duration_ns in ((b"a", 999), (b"b", 600), (b"b", 600)):
        rig.server.context.hot_keys.note(caller.client, TABLE[b"GET"], [b"GET", key], None, duration_ns)
    assert caller.call("HOTKEYS GET").endswith(b"by-cpu-time-us\r\n*2\r\n$1\r\nb\r\n:1\r\n")


def test_info_shows_whether_keys_are_measured(caller: Caller) -> None:
    assert caller.call("INFO hotkeys") == b"$11\r\n# Hotkeys\r\n\r\n"
    for line, is_active in (("HOTKEYS START METRICS 1 CPU", 1), ("HOTKEYS STOP", 0)):
        caller.call(line)
        assert b"# Hotkeys\r\nhotkeys-tracking-active:%d\r\nhotkeys-cmd-cpu-time:0\r\n" % is_active in caller.call(
            "INFO hotkeys"
        )


def test_a_transaction_that_fails_leaves_no_trace_for_the_next_command(rig: Rig, caller: Caller) -> None:
    caller.call("HOTKEYS START METRICS 1 NET", "MULTI", "INCR k", "HELLO 9", "EXEC")
    assert rig.server.context.hot_keys.running_exec is None
    caller.call("SET other v")
    assert b"$5\r\nother\r\n:36\r\n" in caller.call("HOTKEYS GET")


def test_sums_are_exact_until_there_are_too_many_keys() -> None:
    ranking = Ranking(100)
    for round_number in range(3):
        for number in range(100):
            ranking.add(b"%d" % number, number + round_number)
    assert ranking.largest(2) == [(b"99", 3 * 99 + 3), (b"98", 3 * 98 + 3)]


def test_hot_keys_are_found_among_any_number_of_keys_in_bounded_memory() -> None:
    ranking = Ranking(100)
    rnd = random.Random(7)
    total = 0
    for number in range(50_000):
        ranking.add(b"cold %d" % rnd.randrange(10**6), 1)
        total += 1
        if number % 20 == 0:
            ranking.add(b"hot %d" % (number % 3), 2)
            total += 2
        assert len(ranking) <= 100
    largest = ranking.largest(3)
    assert {key for key, _ in largest} == {b"hot 0", b"hot 1", b"hot 2"}
    exact = sum(2 for number in range(0, 50_000, 20) if number % 3 == 0)
    found = dict(largest)[b"hot 0"]
    assert exact <= found <= exact + total / 50
