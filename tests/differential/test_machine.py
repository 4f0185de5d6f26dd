"""Random sequences of every command get the replies of Redis, and result in the state of Redis.

    make differential N=20000           runs 20,000 sequences; CI runs 2,000
    make differential SEED=12345        runs other sequences
    make differential FIRST=77 N=1      runs only sequence 77

A failure is shrunk and printed as a script for redis-cli.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.differences import ADMIN_SENT, LEFT_OUT
from differential.attribution import Attribution, comparable
from differential.duel import Duel, Mismatch
from differential.grammar import ROWS
from differential.machine import draw_sequence
from differential.openings import LONG_IDLE, Request, Step
from differential.payloads import make_payloads
from differential.shrinking import failure_of, shrink
from differential.side import SET_UP, Frames, Side
from headrace.commands.core.table import all_rows
from support.lines import quote
from support.servers import Server

SEQUENCES_COUNT = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEQUENCES", "200"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 2 * SEQUENCES_COUNT)
FIRST = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_FIRST", "0"))
# After so many sequences, every option of every command must have been accepted once.
REACHING_COUNT = 2000
SEED = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEED", "1"))


@pytest.fixture
def duel(headrace: Server, oracle: Server) -> Iterator[Duel]:
    """Both servers, with the same serialized values for RESTORE."""
    sides = Side(headrace), Side(oracle)
    sides[0].payloads = sides[1].payloads = make_payloads(oracle)
    yield Duel(*sides)
    for side in sides:
        side.close()


@pytest.mark.oracle
def test_random_sequences_are_answered_the_same(duel: Duel, record_property: Callable[[str, object], None]) -> None:
    steps_count = 0
    for number in range(FIRST, FIRST + SEQUENCES_COUNT):
        steps = draw_sequence(SEED, number)
        steps_count += len(steps)
        failure = failure_of(duel, steps)
        if failure is not None:
            smallest = shrink(duel, steps)
            note = "" if smallest is not None else ", and not again when repeated"
            pytest.fail(f"seed {SEED}, sequence {number}{note}: {smallest or failure}", pytrace=False)
    record_property("sequences", SEQUENCES_COUNT)
    record_property("requests", steps_count)
    print(f"\n{SEQUENCES_COUNT} sequences, {steps_count} steps, seed {SEED}")
    missing = duel.reach.missing()
    assert not missing or SEQUENCES_COUNT < REACHING_COUNT, f"never taken: {sorted(missing)}"


def bend_last_reply(duel: Duel, steps_count: int, old: bytes, new: bytes) -> list[bytes]:
    """Change only the last reply before the machine gets it. Returns a list that collects all replies."""
    settle = duel.headrace.settle
    seen: list[bytes] = []

    def bent() -> Frames:
        frames = settle()
        for name, each in frames.items():
            seen.extend(each)
            if len(seen) == steps_count:
                frames[name] = [*each[:-1], each[-1].replace(old, new, 1)]
        return frames

    duel.headrace.settle = bent  # type: ignore[method-assign]
    return seen


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("request_", "old", "new"),
    [
        ((b"XLEN", b"s"), b":4\r\n", b":5\r\n"),
        ((b"XRANGE", b"s", b"-", b"+"), b"5-1", b"5-2"),
        ((b"EXPIREAT", b"s", b"4102444800"), b":1\r\n", b":0\r\n"),
        ((b"PEXPIRETIME", b"far"), b"4102444800000", b"4102444801000"),
        ((b"TTL", b"str"), b":-1\r\n", b":-2\r\n"),
        ((b"PTTL", b"far"), b":", b":1"),
        ((b"XPENDING", b"s", b"g", b"-", b"+", b"1"), b":1\r\n", b":2\r\n"),
        ((b"XINFO", b"STREAM", b"s"), b"radix-tree-nodes\r\n:", b"radix-tree-nodes\r\n:1"),
        ((b"XPENDING", b"s", b"g", b"-", b"+", b"1"), b":5000", b":4000"),
        ((b"GET", b"none"), b"$-1\r\n", b"$0\r\n\r\n"),
    ],
)
def test_a_reply_that_is_not_quite_the_same_is_found(duel: Duel, request_: Request, old: bytes, new: bytes) -> None:
    steps: list[Step] = [*LONG_IDLE, ("a", (b"SET", b"far", b"x", b"PXAT", b"4102444800000")), ("a", request_)]
    duel.play(steps)
    seen = bend_last_reply(duel, len(steps), old, new)
    with pytest.raises(Mismatch):
        duel.play(steps)
    assert old in seen[-1]


@pytest.mark.oracle
def test_shape_of_a_tree_of_generated_ids_is_not_compared(duel: Duel) -> None:
    """The shape depends on which IDs are in the same millisecond."""
    lines = ("CONFIG SET stream-node-max-entries 1", "XADD s * f v", "XADD s * f v", "XINFO STREAM s")
    steps: list[Step] = [("a", tuple(line.encode().split())) for line in lines]
    seen = bend_last_reply(duel, len(steps), b"radix-tree-nodes\r\n:", b"radix-tree-nodes\r\n:1")
    duel.play(steps)
    assert b"radix-tree-keys\r\n:2\r\n" in seen[-1]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("fault", "told"), [(signal.SIGKILL, "headrace has ended with -9"), (signal.SIGSTOP, "headrace is still there")]
)
def test_a_server_that_ends_or_hangs_is_named_with_the_smallest_sequence(
    duel: Duel, fault: signal.Signals, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = duel.headrace.send

    def send_and_break(client: str, requests: list[list[bytes]]) -> None:
        send(client, requests)
        if any(request[0] == b"ECHO" for request in requests):
            pid = duel.headrace.server.pid
            os.kill(pid, fault)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)

    monkeypatch.setattr(duel.headrace, "send", send_and_break)
    monkeypatch.setattr("differential.shrinking.HANG_S", 1.0)
    smallest = shrink(duel, [("a", (b"ECHO", b"x")), ("c", (b"XLEN", b"s"))])
    assert told in str(smallest)
    assert str(smallest).endswith("\n:client a\nECHO")
    monkeypatch.undo()
    duel.play(LONG_IDLE)


@pytest.mark.oracle
def test_script_of_a_failure_can_be_pasted_into_redis_cli(duel: Duel, oracle: Server, cli: Path) -> None:
    steps: list[Step] = [
        ("a", (b"SET", b"str", b'a "b"\xff')),
        ("a", (b"MULTI",)),
        ("a", (b"STRLEN", b"str")),
        ("a", (b"EXEC",)),
        ("b", (b"APPEND", b"str", b"")),
    ]
    bend_last_reply(duel, len(steps), b":6", b":7")
    with pytest.raises(Mismatch) as failure:
        duel.play(steps)
    script = str(failure.value).split("\n\n")[-1]
    assert script.splitlines() == [
        ":client control", *map(quote, SET_UP), ":client b", "HELLO 3",
        ":client a, 4 requests in one pipeline", 'SET str "a \\x22b\\x22\\xff"', "MULTI", "STRLEN str", "EXEC",
        ":client b", 'APPEND str ""',
    ]  # fmt: skip
    done = subprocess.run([cli, "-p", str(oracle.port)], input=script.encode(), capture_output=True, check=True)
    told = [line for line in done.stdout.splitlines() if b"redis-cli internal command" not in line]
    assert told[:2] == [b"OK", b"0"]
    assert told[-5:] == [b"OK", b"OK", b"QUEUED", b"6", b"6"]
    assert not any(line.startswith((b"ERR", b"Invalid")) for line in told)


def test_reply_that_may_differ_is_found_between_replies_of_subscriptions() -> None:
    requests = [[b"MULTI"], [b"CLIENT", b"ID"], [b"UNSUBSCRIBE", b"y", b"z"], [b"CLIENT", b"ID"], [b"EXEC"]]
    gone = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\n%b\r\n:0\r\n"
    frames = [b"+OK\r\n", *[b"+QUEUED\r\n"] * 3, b"*3\r\n:%d\r\n" + gone % b"y" + gone % b"z", b":%d\r\n"]
    seen = []
    for number in (324, 320):
        attribution = Attribution()
        attribution.sent(requests)
        told = [frame % number if b"%d" in frame else frame for frame in frames]
        seen.append([comparable(frame, *attribution.arrived(frame)) for frame in told])
    assert seen[0] == seen[1]
    assert seen[0][4:] == [b"*3\r\n:<ms>\r\n" + gone % b"y" + gone % b"z", b":<ms>\r\n"]


def test_refused_subscription_has_one_reply_in_a_transaction() -> None:
    attribution = Attribution()
    attribution.sent([[b"MULTI"], [b"SSUBSCRIBE", b"x", b"y"], [b"SUBSCRIBE", b"x"], [b"CLIENT", b"ID"], [b"EXEC"]])
    told = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"
    for frame in (b"+OK\r\n", *[b"+QUEUED\r\n"] * 3, b"*3\r\n-ERR no\r\n%b:7\r\n" % told):
        seen = comparable(frame, *attribution.arrived(frame))
    assert seen == b"*3\r\n-ERR no\r\n%b:<ms>\r\n" % told


def test_every_command_is_sent_or_left_out_with_a_reason() -> None:
    names = {row.name for row in all_rows() if row.handler is not None and not row.is_own}
    sent = {row.name for row in ROWS}
    assert names == sent | LEFT_OUT.keys()
    assert not sent & LEFT_OUT.keys()
    assert names >= ADMIN_SENT
