"""redis-benchmark ends at the first error reply: a run that ends well, and the count of commands, are the claim."""

from __future__ import annotations

import csv
import shutil
import subprocess

import pytest

from support.servers import Server, is_oracle_required

DEADLINE_S = 60

SERVED = "ping,set,get,incr,mset"
ROWS = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"]
COMMAND = ("XADD", "s", "*", "f", "__rand_int__")


@pytest.fixture(scope="module")
def program() -> str:
    """Where redis-benchmark is."""
    found = shutil.which("redis-benchmark")
    if found is None:
        message = "no redis-benchmark found: apt-get install redis-tools"
        if is_oracle_required():
            pytest.fail(message)
        pytest.skip(message)
    return found


def rates(program: str, server: Server, *words: str, stdin: bytes = b"") -> list[str]:
    """The names of the rows measured. Fails unless redis-benchmark ends well."""
    command = [program, "-p", str(server.port), "-c", "5", "-n", "500", "--csv", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    header, *rows = csv.reader(line for line in done.stdout.decode().splitlines() if line.startswith('"'))
    assert header[0] == "test"
    assert all(float(row[1]) > 0 for row in rows)
    return [row[0] for row in rows]


def calls_count(server: Server, command: str) -> tuple[int, int]:
    """How often a command was called, and how often it failed."""
    with server.connect() as wire:
        lines = wire.ask("INFO", "commandstats").decode().splitlines()
    (line,) = (line for line in lines if line.startswith(f"cmdstat_{command}:"))
    fields = dict(field.split("=") for field in line.partition(":")[2].split(","))
    return int(fields["calls"]), int(fields["failed_calls"])


@pytest.fixture(autouse=True)
def _fresh_statistics(server: Server) -> None:
    with server.connect() as wire:
        assert wire.ask("CONFIG", "RESETSTAT") == b"OK"


def test_the_named_tests_run_to_their_end(program: str, server: Server) -> None:
    assert rates(program, server, "-t", SERVED) == ROWS
    assert [calls_count(server, command) for command in ("set", "get", "incr", "mset")] == [(500, 0)] * 4
    assert calls_count(server, "ping") == (1000, 0)


@pytest.mark.parametrize(
    "words",
    [
        ("-P", "16"),
        ("-3",),
        ("-3", "-P", "4", "-r", "100"),
        ("--threads", "2"),
        ("-k", "0"),
        ("-d", "10000"),
        ("--dbnum", "3"),
        ("-a", "any", "--user", "default"),
    ],
    ids=" ".join,
)
def test_every_flag_is_served(program: str, server: Server, words: tuple[str, ...]) -> None:
    assert rates(program, server, "-t", SERVED, *words) == ROWS


def test_a_command_of_ones_own_runs_as_often_as_asked(program: str, server: Server) -> None:
    rates(program, server, "-r", "1000", "-P", "8", *COMMAND)
    count, failed_count = calls_count(server, "xadd")
    assert (count >= 500, failed_count) == (True, 0)  # whole pipelines are sent, so some more
    with server.connect() as wire:
        assert wire.ask("XLEN", "s") == count


def test_the_last_argument_may_come_from_standard_input(program: str, server: Server) -> None:
    rates(program, server, "-x", "SET", "k", stdin=b"payload")
    with server.connect() as wire:
        assert wire.ask("GET", "k") == b"payload"


def test_quiet_output_is_a_rate_per_test(program: str, server: Server) -> None:
    words = [program, "-p", str(server.port), "-q", "-c", "2", "-n", "100", "-t", "ping,get"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S)
    last = [line.split("\r")[-1] for line in done.stdout.split("\n") if "requests per second" in line]
    assert [line.split(":")[0] for line in last] == ["PING_INLINE", "PING_MBULK", "GET"]
    assert (done.returncode, done.stderr) == (0, "")
