"""What counts as a call, a failure and an error in INFO and CLIENT LIST. Each test runs on both servers."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from headrace.commands.clients.client import CLIENT_SIZE
from support.servers import Server
from support.wire import REPLY_TIMEOUT_S, Wire, encode

# Fields of INFO that are zero at first, and how CONFIG RESETSTAT finds them greater.
COUNTERS = {
    "rdb_saves", "rdb_saves_consecutive_failures", "aof_rewrites", "keyspace_hits", "keyspace_misses", "expired_keys",
    "evicted_scripts", "total_forks", "slowlog_commands_count", "total_error_replies",
    "client_query_buffer_limit_disconnections", "acl_access_denied_auth", "acl_access_denied_cmd",
}  # fmt: skip

# (calls, rejected calls, failed calls) of one command.
Counts = tuple[int, int, int]

SCRIPTS: dict[str, tuple[tuple[str, ...], dict[str, Counts], dict[str, int]]] = {
    "a failing command inside EXEC fails as outside": (
        ("SET k 1", "CONFIG RESETSTAT", "MULTI", "XADD k * a 1", "PING", "EXEC"),
        {"config|resetstat": (1, 0, 0), "multi": (1, 0, 0), "xadd": (1, 0, 1), "ping": (1, 0, 0), "exec": (1, 0, 0)},
        {"WRONGTYPE": 1},
    ),
    "a refused command is a rejected call, and an unknown one is no call": (
        ("CONFIG RESETSTAT", "XLEN", "XGROUP CREATE", "XGROUP NOSUCH a b", "CLIENT", "NOSUCH", "EXEC a"),
        {
            "config|resetstat": (1, 0, 0),
            "xlen": (0, 1, 0),
            "xgroup|create": (0, 1, 0),
            "client": (0, 1, 0),
            "exec": (0, 1, 0),
        },
        {"ERR": 5, "EXECABORT": 1},
    ),
    "EXEC after a refused command fails": (
        ("CONFIG RESETSTAT", "MULTI", "XLEN", "EXEC", "EXEC"),
        {"config|resetstat": (1, 0, 0), "multi": (1, 0, 0), "xlen": (0, 1, 0), "exec": (2, 0, 2)},
        {"ERR": 2, "EXECABORT": 1},
    ),
    "the error of DEBUG ERROR is not counted": (
        ("CONFIG RESETSTAT", "DEBUG ERROR XX", "MULTI", "DEBUG ERROR XX", "EXEC"),
        {"config|resetstat": (1, 0, 0), "debug": (2, 0, 0), "multi": (1, 0, 0), "exec": (1, 0, 0)},
        {},
    ),
    "a command that times out counts once": (
        ("CONFIG RESETSTAT", "XREAD BLOCK 10 STREAMS none $", "WAIT 1 10"),
        {"config|resetstat": (1, 0, 0), "xread": (1, 0, 0), "wait": (1, 0, 0)},
        {},
    ),
    "AUTH with a wrong password fails": (
        ("CONFIG RESETSTAT", "AUTH a b", "HELLO 2 AUTH a b", "AUTH x"),
        {"config|resetstat": (1, 0, 0), "auth": (2, 0, 2), "hello": (1, 0, 1)},
        {"ERR": 1, "WRONGPASS": 2},
    ),
}


def read_fields(wire: Wire, section: str) -> dict[str, str]:
    lines = wire.ask("INFO", section).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def read_calls(wire: Wire) -> dict[str, Counts]:
    """The counts of every command in `# Commandstats`. The INFO request itself is not counted yet."""
    found: dict[str, Counts] = {}
    for field, value in read_fields(wire, "commandstats").items():
        counts = dict(part.split("=") for part in value.split(","))
        calls, rejected, failed = (int(counts[name]) for name in ("calls", "rejected_calls", "failed_calls"))
        found[field.removeprefix("cmdstat_")] = calls, rejected, failed
    return found


def read_errors(wire: Wire) -> dict[str, int]:
    fields = read_fields(wire, "errorstats")
    return {field.removeprefix("errorstat_"): int(value.removeprefix("count=")) for field, value in fields.items()}


def read_command_count(wire: Wire) -> int:
    """`tot-cmds` of this client. The request for it is not counted yet."""
    match = re.search(rb"tot-cmds=(\d+)", wire.ask("CLIENT", "INFO"))
    assert match is not None
    return int(match[1])


def wait_for_blocked(wire: Wire, count: int) -> None:
    deadline_s = time.monotonic() + REPLY_TIMEOUT_S
    while read_fields(wire, "clients")["blocked_clients"] != str(count):
        assert time.monotonic() < deadline_s, f"never were {count} clients blocked"


@pytest.mark.parametrize("claim", SCRIPTS)
def test_calls_and_errors_are_counted_as_redis_counts(server: Server, claim: str) -> None:
    lines, calls, errors = SCRIPTS[claim]
    with server.connect() as wire:
        for line in lines:
            wire.call(*line.split())
        assert read_calls(wire) == calls
        assert read_errors(wire) == errors
        stats = read_fields(wire, "stats")
    assert int(stats["total_error_replies"]) == sum(errors.values())
    calls_count = sum(counts[0] for counts in calls.values())
    assert int(stats["total_commands_processed"]) == calls_count + len(("commandstats", "errorstats"))


def test_blocked_read_counts_once_and_only_when_it_ends(server: Server) -> None:
    with server.connect() as wire, server.connect() as first, server.connect() as second:
        wire.call("XADD", "s", "*", "a", "1")
        wire.call("XGROUP", "CREATE", "s", "g", "$")
        wire.call("CONFIG", "RESETSTAT")
        for reader in (first, second):
            reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
        wait_for_blocked(wire, 2)
        assert "xreadgroup" not in read_calls(wire)
        # The client that is not served runs again without success.
        wire.call("XADD", "s", "*", "a", "1")
        wait_for_blocked(wire, 1)
        assert read_calls(wire)["xreadgroup"] == (1, 0, 0)
        wire.call("DEL", "s")
        wait_for_blocked(wire, 0)
        assert read_calls(wire)["xreadgroup"] == (2, 0, 1)
        assert read_errors(wire) == {"NOGROUP": 1}


def test_unblocking_with_an_error_fails_for_both_sides(server: Server) -> None:
    with server.connect() as wire, server.connect() as reader:
        reader_id = reader.ask("CLIENT", "ID")
        wire.call("CONFIG", "RESETSTAT")
        for way in ("TIMEOUT", "ERROR"):
            reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
            wait_for_blocked(wire, 1)
            wire.call("CLIENT", "UNBLOCK", reader_id, way)
            reader.receive()
        calls = read_calls(wire)
        assert (calls["xread"], calls["client|unblock"]) == ((2, 0, 1), (2, 0, 1))
        assert read_errors(wire) == {"UNBLOCKED": 1}


def test_blocked_command_whose_connection_closes_is_no_call(server: Server) -> None:
    with server.connect() as wire:
        wire.call("CONFIG", "RESETSTAT")
        with server.connect() as reader:
            reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
            wait_for_blocked(wire, 1)
        wait_for_blocked(wire, 0)
        assert "xread" not in read_calls(wire)


def test_unblocking_does_not_change_the_client_of_the_caller(server: Server) -> None:
    with server.connect() as wire, server.connect() as waiting:
        own_id, waiting_id = wire.ask("CLIENT", "ID"), waiting.ask("CLIENT", "ID")
        waiting.send("WAIT", 1, 0)
        wait_for_blocked(wire, 1)
        wire.send_bytes(encode(["CLIENT", "UNBLOCK", waiting_id]) + encode(["CLIENT", "ID"]))
        assert (wire.receive(), wire.receive()) == (b":1\r\n", b":%d\r\n" % own_id)


def test_client_counts_commands_that_ran_and_not_queued_or_refused_ones(server: Server) -> None:
    with server.connect() as wire:
        assert read_command_count(wire) == 0
        for line in ("MULTI", "PING", "NOSUCH", "EXEC", "MULTI", "PING", "PING", "EXEC", "XLEN", "PING a b"):
            wire.call(*line.split())
        # CLIENT INFO, MULTI, EXEC, MULTI, PING, PING, EXEC, PING.
        assert read_command_count(wire) == 8


def test_client_counts_within_one_pipeline(server: Server) -> None:
    with server.connect() as wire:
        words = ("PING", "PING", "CLIENT INFO", "NOSUCH", "PING", "CLIENT INFO", "PING")
        wire.send_bytes(b"".join(encode(word.split()) for word in words))
        replies = b"".join(wire.receive() for _ in words)
        assert re.findall(rb"tot-cmds=(\d+)", replies) == [b"2", b"4"]
        assert read_command_count(wire) == 6


def test_latency_is_shown_for_every_command_that_was_called(server: Server) -> None:
    with server.connect() as wire:
        wire.call("CONFIG", "RESETSTAT")
        for line in ("XLEN s", "XLEN", "NOSUCH", "MULTI", "CLIENT ID", "EXEC", "XREAD BLOCK 10 STREAMS s $", "PING"):
            wire.call(*line.split())
        wire.call("CONFIG", "SET", "latency-tracking-info-percentiles", "0 50.50 100")
        fields = read_fields(wire, "latencystats")
        called = ("config|resetstat", "xlen", "multi", "client|id", "exec", "xread", "ping", "config|set")
        assert fields.keys() == {f"latency_percentiles_usec_{name}" for name in called}
        assert all(re.fullmatch(r"p0=\d+\.\d{3},p50\.5=\d+\.\d{3},p100=\d+\.\d{3}", each) for each in fields.values())
        wire.call("CONFIG", "SET", "latency-tracking", "no")
        assert read_fields(wire, "latencystats") == {}
        wire.call("CONFIG", "SET", "latency-tracking", "yes", "latency-tracking-info-percentiles", "50 99 99.9")
        wire.call("CONFIG", "RESETSTAT")
        assert read_fields(wire, "latencystats").keys() == {"latency_percentiles_usec_config|resetstat"}


def sampled_calls(wire: Wire, command: str) -> int:
    """Calls of this command that LATENCY HISTOGRAM counts; its first number."""
    found = re.search(rb":(\d+)", wire.call("LATENCY", "HISTOGRAM", command))
    return int(found[1]) if found else 0


def test_calls_are_not_sampled_while_latency_tracking_is_off(server: Server) -> None:
    with server.connect() as wire:
        wire.call("CONFIG", "SET", "latency-tracking", "yes")
        wire.call("CONFIG", "RESETSTAT")
        for _ in range(2):
            wire.call("GET", "k")
        wire.call("CONFIG", "SET", "latency-tracking", "no")
        for line in ("GET k", "GET k", "MULTI", "SET k v", "GET k", "EXEC", "XREAD BLOCK 1 STREAMS s $"):
            wire.call(*line.split())
        commands = ("get", "set", "xread", "exec", "config|set")
        assert [sampled_calls(wire, name) for name in commands] == [2, 0, 0, 0, 0]
        wire.call("CONFIG", "SET", "latency-tracking", "yes")
        assert [sampled_calls(wire, name) for name in commands] == [2, 0, 0, 0, 1]
        for line in ("GET k", "SET k v", "XREAD BLOCK 1 STREAMS s $"):
            wire.call(*line.split())
        assert [sampled_calls(wire, name) for name in commands] == [3, 1, 1, 0, 1]
        fields = read_fields(wire, "commandstats")
        assert [re.match(r"calls=(\d+)", fields[f"cmdstat_{name}"])[1] for name in commands] == [
            "6",
            "2",
            "2",
            "1",
            "2",
        ]
        assert "latency_percentiles_usec_exec" not in read_fields(wire, "latencystats")


def fields_of_client(line: bytes) -> dict[str, str]:
    """The fields of one line of CLIENT LIST."""
    return dict(part.split("=", 1) for part in line.decode().split())


def read_sizes(line: bytes) -> tuple[int, ...]:
    """`qbuf`, `argv-mem` and `multi-mem`."""
    fields = fields_of_client(line)
    return tuple(int(fields[name]) for name in ("qbuf", "argv-mem", "multi-mem"))


def test_client_holds_its_request_and_what_it_has_queued(server: Server) -> None:
    with server.connect() as wire, server.connect() as other:
        other_id = other.ask("CLIENT", "ID")
        request = encode(["CLIENT", "INFO"])
        assert read_sizes(wire.ask("CLIENT", "INFO")) == (len(request), len("CLIENTINFO"), 0)
        assert read_sizes(wire.ask("CLIENT", "LIST", "ID", other_id)) == (0, 0, 0)
        other.call("MULTI")
        other.call("SET", "k", "v" * 1000)
        assert read_sizes(wire.ask("CLIENT", "LIST", "ID", other_id)) == (0, 0, len("SETk") + 1000)
        other.call("DISCARD")
        other.send("XREAD", "BLOCK", 0, "STREAMS", "s", "0-0")
        wait_for_blocked(wire, 1)
        waiting = (0, len("XREADBLOCK0STREAMSs0-0"), 0)
        assert read_sizes(wire.ask("CLIENT", "LIST", "ID", other_id)) == waiting


def test_total_memory_of_a_client_is_the_sum_of_its_parts(headrace: Server) -> None:
    if not headrace.is_headrace:
        pytest.skip("Redis adds its structures and buffers")
    with headrace.connect() as wire, headrace.connect() as reader:
        reader_id = reader.ask("CLIENT", "ID")
        wire.call("SET", "k", b"x" * 8_000_000)
        reader.send("GET", "k")
        while not int((line := fields_of_client(wire.ask("CLIENT", "LIST", "ID", reader_id)))["oll"]):
            pass
        names = ("qbuf", "argv-mem", "multi-mem", "omem")
        assert int(line["omem"]) > 0
        assert int(line["tot-mem"]) == CLIENT_SIZE + sum(int(line[name]) for name in names)


def test_resetting_statistics_keeps_the_count_of_refused_passwords(server: Server) -> None:
    with server.connect() as wire:
        before = int(read_fields(wire, "stats")["acl_access_denied_auth"])
        for line in ("AUTH a b", "HELLO 2 AUTH a b", "AUTH x", "CONFIG RESETSTAT"):
            wire.call(*line.split())
        assert int(read_fields(wire, "stats")["acl_access_denied_auth"]) == before + 2


def arguments(count: int, size: int) -> bytes:
    """An MSET with so many values of this size."""
    return encode([b"MSET", *(word for number in range(count) for word in (b"k%d" % number, b"x" * size))])


LIMIT = 1 << 20
HALF = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n"


@pytest.mark.parametrize(
    ("requests", "is_closed"),
    [
        (encode([b"SET", b"k", b"x" * (LIMIT - 2)]), False),
        (encode([b"SET", b"k", b"x" * (LIMIT - 1)]), True),
        (encode([b"SET", b"k", b"x" * LIMIT]), True),
        (encode([b"ECHO", b"x" * (LIMIT - 2)]), False),
        (encode([b"ECHO", b"x" * (LIMIT - 1)]), True),
        (arguments(5, 300_000), False),
        (arguments(300, 20_000), False),
        (arguments(200_000, 5), False),
        (encode([b"PING"]) * 80_000, False),
        (encode([b"SET", b"k", b"x" * 40_000]) * 100, False),
        (HALF + b"x" * (LIMIT + 1), True),
    ],
)
def test_the_query_buffer_limit_counts_what_is_no_complete_argument(
    server: Server, requests: bytes, is_closed: bool
) -> None:
    with server.connect() as control, server.connect() as wire:
        control.call("CONFIG", "SET", "client-query-buffer-limit", LIMIT)
        try:
            reading = Thread(target=wire.send_bytes, args=(requests,), daemon=True)
            reading.start()
            if is_closed:
                assert wire.wait_for_close() == b""
            else:
                while reading.is_alive():
                    wire.receive_if_arrived()
                wire.send("ECHO", "end")
                while wire.receive() != b"$3\r\nend\r\n":
                    pass
        finally:
            control.call("CONFIG", "SET", "client-query-buffer-limit", 1 << 30)


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + REPLY_TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline_s


def count_everything(server: Server) -> None:
    """Let every counter of INFO grow that a test can let grow."""
    with server.connect() as wire, server.connect() as other:

        def save(command: str) -> None:
            wire.call(command)
            until(
                lambda: (
                    {"rdb_bgsave_in_progress:0", "aof_rewrite_in_progress:0"} <= set(wire.ask("INFO").decode().split())
                )
            )

        wire.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        for line in (
            "SET k v",
            "GET k",
            "GET no",
            "NOSUCH",
            "AUTH x y",
            "SET e 1 PX 1",
            "DEBUG SLEEP 0.002",
            "EXISTS e",
        ):
            wire.call(*line.split())
        save("BGREWRITEAOF")
        save("BGSAVE")
        (server.folder / "dump.rdb").unlink()
        (server.folder / "dump.rdb").mkdir()
        (server.folder / "dump.rdb" / "in the way").touch()
        save("BGSAVE")
        for number in range(502):
            wire.call("EVAL", f"return {number}", 0)
        wire.call("ACL", "SETUSER", "bob", "on", "nopass", "-@all")
        other.call("AUTH", "bob", "x")
        other.call("GET", "k")
        wire.call("CONFIG", "SET", "client-query-buffer-limit", 1 << 20)
        with server.connect() as large:
            large.send_bytes(b"*2\r\n$4\r\nECHO\r\n$3000000\r\n" + b"x" * 2_000_000)
            large.wait_for_close()


@pytest.mark.oracle
def test_resetting_statistics_resets_what_redis_resets(tmp_path: Path, oracle_tools: Path) -> None:
    reset: dict[str, set[str]] = {}
    for name in ("headrace", "oracle"):
        server = Server(name, tmp_path / name, "--appendonly", "no", "--save", "1000 1000").start()
        try:
            count_everything(server)
            with server.connect() as wire:
                before = read_fields(wire, "everything")
                wire.call("CONFIG", "RESETSTAT")
                after = read_fields(wire, "everything")
        finally:
            server.kill()
        grown = {each for each, value in before.items() if value.isdigit() and int(value)}
        assert grown >= COUNTERS
        reset[name] = {each for each in grown & COUNTERS if after[each] == "0"}
    assert reset["headrace"] == reset["oracle"]


def test_keys_removed_by_the_active_cycle_are_counted_separately(server: Server) -> None:
    with server.connect() as wire:
        wire.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        wire.call("CONFIG", "RESETSTAT")
        for key in ("asked", "forgotten"):
            wire.call("SET", key, "1", "PX", 1)
        while wire.call("EXISTS", "asked") != b":0\r\n":
            pass
        wire.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        deadline_s = time.monotonic() + REPLY_TIMEOUT_S
        while (stats := read_fields(wire, "stats"))["expired_keys"] != "2":
            assert time.monotonic() < deadline_s
        assert stats["expired_keys_active"] == "1"


def test_readers_of_a_group_also_wait_for_the_deletion_of_the_key(server: Server) -> None:
    with server.connect() as wire, server.connect() as first, server.connect() as second:
        wire.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        first.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
        second.send("XREAD", "BLOCK", 0, "STREAMS", "s", "t", "$", "$")
        wait_for_blocked(wire, 2)
        clients = read_fields(wire, "clients")
        assert (clients["total_blocking_keys"], clients["total_blocking_keys_on_nokey"]) == ("2", "1")


def test_protocol_error_is_counted(server: Server) -> None:
    with server.connect() as wire:
        wire.call("CONFIG", "RESETSTAT")
        with server.connect() as broken:
            broken.send_bytes(b"*1\r\n$-5\r\n")
            assert broken.wait_for_close() == b"-ERR Protocol error: invalid bulk length\r\n"
        assert read_errors(wire) == {"ERR": 1}
        assert read_fields(wire, "stats")["total_error_replies"] == "1"


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_protocol_error_is_not_answered_while_replies_are_off(server: Server, mode: str) -> None:
    with server.connect() as broken:
        broken.send_bytes(encode(["CLIENT", "REPLY", mode]) + b"*1\r\n$-5\r\n")
        # Redis leaves such a connection open until the peer closes it.
        broken.socket.shutdown(socket.SHUT_WR)
        assert broken.wait_for_close() == b""


def test_inline_request_above_the_limit_is_refused_before_its_end_arrives(server: Server) -> None:
    # If the request is complete, it depends on the sizes of Redis' reads whether it is accepted. Headrace never accepts
    # it (tests/protocol).
    with server.connect() as wire:
        wire.send_bytes(b"ECHO " + b"a" * 70_000)
        assert wire.receive() == b"-ERR Protocol error: too big inline request\r\n"


def test_lengths_of_pipelines_are_counted_over_all_clients(server: Server) -> None:
    def read() -> tuple[int, int]:
        fields = read_fields(asking, "stats")
        return int(fields["avg_pipeline_length_sum"]), int(fields["avg_pipeline_length_cnt"])

    with server.connect() as asking:
        asking.call("CONFIG", "RESETSTAT")
        first = read()
        assert first[0] <= 2
        with server.connect() as other:
            other.send_bytes(encode([b"PING"]) * 10)
            for _ in range(10):
                other.receive()
        second = read()
        # The INFO request itself is one read of one request.
        assert (second[0] - first[0], second[1] - first[1]) == (11, 2)


def test_saves_are_counted_except_for_those_of_a_shutdown(server: Server) -> None:
    obstacle = server.folder / "dump.rdb"
    obstacle.mkdir()
    try:
        with server.connect() as wire:
            wire.call("CONFIG", "RESETSTAT")
            assert wire.call("SAVE") == b"-ERR\r\n"
            assert wire.call("SHUTDOWN", "SAVE") == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
            assert read_fields(wire, "persistence")["rdb_saves"] == "1"
    finally:
        obstacle.rmdir()
