"""Bookkeeping of blocked reads: order, deadlines, wake times; no loop and no sockets."""

from __future__ import annotations

from headrace.commands.clients.blocking import Blocked
from headrace.commands.clients.client import Client
from headrace.server.requests.waiters import VOID_TIMERS_MAX, Waiters

ARGV = [b"XREAD"]


def blocked(*keys: bytes) -> Blocked:
    return Blocked(list(keys), ARGV, None)


def test_longest_wait_is_served_first_on_each_key() -> None:
    waiters = Waiters()
    first = waiters.add(Client(1), 0, blocked(b"a", b"b"))
    second = waiters.add(Client(2), 0, blocked(b"b"))
    assert waiters.in_line(0, b"a") == [first]
    assert waiters.in_line(0, b"b") == [first, second]
    assert waiters.in_line(1, b"b") == []


def test_waiter_that_ran_without_success_is_last_in_all_its_lines() -> None:
    waiters = Waiters()
    first = waiters.add(Client(1), 0, blocked(b"a", b"b"))
    second = waiters.add(Client(2), 0, blocked(b"b"))
    waiters.requeue(first, None)
    assert waiters.in_line(0, b"b") == [second, first]


def test_key_named_twice_is_one_place_in_line() -> None:
    waiters = Waiters()
    waiter = waiters.add(Client(1), 0, blocked(b"a", b"a"))
    assert waiters.in_line(0, b"a") == [waiter]
    waiters.remove(waiter)
    assert not waiters.lines


def test_removed_waiter_leaves_nothing() -> None:
    waiters = Waiters()
    client = Client(1)
    waiter = waiters.add(client, 3, blocked(b"a"), deadline_ms=100, wake_ms=50)
    assert waiters.databases == {3: 1}
    waiters.remove(waiter)
    assert (len(waiters), waiters.lines, waiters.databases, waiters.of(client)) == (0, {}, {}, None)
    assert waiters.next_due_ms() is None
    assert waiters.take_due(10**15) == ([], [])


def test_deadline_is_never_early() -> None:
    waiters = Waiters()
    waiter = waiters.add(Client(1), 0, blocked(b"a"), deadline_ms=100)
    assert waiters.take_due(100) == ([], [])
    assert waiters.next_due_ms() == 101
    assert waiters.take_due(101) == ([waiter], [])
    assert waiters.take_due(102) == ([], [])


def test_no_deadline_is_never_due() -> None:
    waiters = Waiters()
    waiters.add(Client(1), 0, blocked(b"a"))
    assert waiters.next_due_ms() is None


def test_wake_time_names_all_keys_once_and_strictly_after() -> None:
    waiters = Waiters()
    waiters.add(Client(1), 2, blocked(b"a", b"b"), wake_ms=100)
    assert waiters.take_due(100) == ([], [])
    assert waiters.take_due(101) == ([], [(2, b"a"), (2, b"b")])
    assert waiters.take_due(500) == ([], [])


def test_deadline_survives_a_run_without_success_and_the_wake_time_is_new() -> None:
    waiters = Waiters()
    waiter = waiters.add(Client(1), 0, blocked(b"a"), deadline_ms=300, wake_ms=100)
    waiters.requeue(waiter, 200)
    assert waiters.take_due(150) == ([], [])
    assert waiters.take_due(201) == ([], [(0, b"a")])
    assert waiters.take_due(301) == ([waiter], [])


def test_deadline_and_wake_time_may_fall_together() -> None:
    waiters = Waiters()
    waiter = waiters.add(Client(1), 0, blocked(b"a"), deadline_ms=100, wake_ms=100)
    expired, _ = waiters.take_due(101)
    assert expired == [waiter]


def test_timers_of_ended_waits_do_not_pile_up() -> None:
    waiters = Waiters()
    client = Client(1)
    for _ in range(3 * VOID_TIMERS_MAX):
        waiters.remove(waiters.add(client, 0, blocked(b"a"), deadline_ms=10**15))
    assert len(waiters._timers) <= VOID_TIMERS_MAX + 4
