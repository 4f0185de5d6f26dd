"""Order of checks, what reaches the log, and which waiters are woken: the dispatcher driven by calls."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from differential.plain_requests import requests_to
from headrace.commands.clients.client import ReplyMode
from headrace.commands.core.table import TABLE, all_rows
from support.inprocess import Rig

UNKNOWN_CASES = (
    ("FOO", b"-ERR unknown command 'FOO'\r\n"),
    ("FOO a b", b"-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n"),
    ('"FO\\r\\nO" "a\\r\\nb"', b"-ERR unknown command 'FO  O', with args beginning with: 'a  b' \r\n"),
    ('""', b"-ERR unknown command ''\r\n"),
    ("FOO " + "x" * 200, b"-ERR unknown command 'FOO', with args beginning with: '" + b"x" * 128 + b"' \r\n"),
    ("F" * 150, b"-ERR unknown command '" + b"F" * 128 + b"'\r\n"),
    ("CLIENT foo", b"-ERR unknown subcommand 'foo'. Try CLIENT HELP.\r\n"),
    ("CLIENT", b"-ERR wrong number of arguments for 'client' command\r\n"),
    ("CLIENT ID x", b"-ERR wrong number of arguments for 'client|id' command\r\n"),
    ("XLEN", b"-ERR wrong number of arguments for 'xlen' command\r\n"),
    ("xlen a b", b"-ERR wrong number of arguments for 'xlen' command\r\n"),
)


@pytest.mark.parametrize(("line", "reply"), UNKNOWN_CASES)
def test_first_checks_name_what_was_sent(line: str, reply: bytes) -> None:
    assert Rig().connect().call(line) == reply


def test_mixed_case_names_are_the_same_command() -> None:
    caller = Rig().connect()
    assert caller.call("PiNg", "xLeN s", "ClIeNt Id") == b"+PONG\r\n:0\r\n:1\r\n"


def test_unknown_and_arity_errors_come_before_authentication() -> None:
    rig = Rig(requirepass=b"secret")
    caller = rig.connect()
    assert caller.call("FOO") == b"-ERR unknown command 'FOO'\r\n"
    assert caller.call("XLEN") == b"-ERR wrong number of arguments for 'xlen' command\r\n"
    assert caller.call("XLEN s", "PING") == b"-NOAUTH Authentication required.\r\n" * 2
    assert caller.call("AUTH secret", "XLEN s") == b"+OK\r\n:0\r\n"


def test_internal_error_is_logged_with_its_place_and_the_server_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(context: Any, argv: list[bytes]) -> Any:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(TABLE[b"XLEN"], "handler", broken)
    rig = Rig()
    caller = rig.connect()
    with caplog.at_level(logging.ERROR):
        assert caller.call("XLEN s", "PING") == b"-ERR internal error\r\n+PONG\r\n"
        assert caller.call("MULTI", "XLEN s", "EXEC") == b"+OK\r\n+QUEUED\r\n*1\r\n-ERR internal error\r\n"
    assert "internal error in XLEN with 1 arguments: ZeroDivisionError at" in caplog.text
    assert 'raise ZeroDivisionError("boom")' in caplog.text


def test_an_internal_error_shows_no_secret(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The server log has the command and the number of its words, and the type and the place of the exception."""

    def broken(context: Any, argv: list[bytes]) -> Any:
        return int(argv[1])

    monkeypatch.setattr(TABLE[b"AUTH"], "handler", broken)
    caller = Rig(requirepass=b"secret-word").connect()
    with caplog.at_level(logging.DEBUG):
        assert caller.call("AUTH secret-word") == b"-ERR internal error\r\n"
    assert "internal error in AUTH with 1 arguments" in caplog.text
    assert "ValueError at" in caplog.text
    assert "return int(argv[1])" in caplog.text
    assert "secret-word" not in caplog.text


def test_calls_and_errors_are_counted() -> None:
    rig = Rig()
    rig.server.context.server.reports.reset()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "XADD s 1-1 f v", "XADD s", "CLIENT ID")
    row = TABLE[b"XADD"]
    assert (row.calls, row.failed_calls, row.rejected_calls) == (2, 1, 1)
    assert row.durations.total_ns > 0
    assert rig.server.stats.errors == {b"ERR": 2}
    assert rig.server.stats.commands_processed == 3
    assert caller.client.commands_count == 3


# -- the log -------------------------------------------------------------------------------------


def test_each_command_is_a_unit_and_several_records_are_a_group() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "XADD s 1-2 f v", "XGROUP CREATE s g 0", "XLEN s", "XREADGROUP GROUP g c STREAMS s >")
    assert [len(unit) for unit in rig.log.units] == [1, 1, 1, len(rig.log.units[3])]
    assert len(rig.log.units[3]) > 1
    assert rig.log.units[0] == [b"XADD s 1-1 f v"]


def test_transaction_is_one_group_and_a_single_write_is_bare() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(
        "MULTI", "XADD s 1-1 f v", "XLEN s", "XADD s 1-2 f v", "EXEC", "MULTI", "XLEN s", "XADD s 2-1 f v", "EXEC"
    )
    caller.call("MULTI", "XLEN s", "EXEC")
    assert rig.log.units == [[b"XADD s 1-1 f v", b"XADD s 1-2 f v"], [b"XADD s 2-1 f v"]]


def test_expired_key_is_logged_before_the_command_that_found_it() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 5-1 f v")
    db = rig.server.store.databases[0]
    db.expires[b"s"] = rig.clock() + 10
    rig.clock.advance(11)
    assert caller.call("XADD s 1-1 f v") == b"$3\r\n1-1\r\n"
    assert rig.log.units[1:] == [[b"DEL s", b"XADD s 1-1 f v"]]
    assert rig.server.stats.expired_keys == 1


def test_expired_keys_of_several_databases_are_logged_each_in_its_own() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET a 1 PX 10", "SELECT 3", "SET b 1 PX 10")
    rig.log.databases.clear()
    rig.pass_time(11)
    caller.call("MULTI", "GET b", "SELECT 0", "GET a", "EXEC")
    assert rig.log.units[-1] == [b"DEL b", b"DEL a"]
    assert rig.log.databases == [3, 0]


def test_expired_key_inside_a_transaction_is_logged_in_its_place() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 5-1 f v")
    rig.server.store.databases[0].expires[b"s"] = rig.clock() + 10
    rig.clock.advance(11)
    caller.call("MULTI", "XADD t 1-1 f v", "XADD s 1-1 f v", "EXEC")
    assert rig.log.units[1:] == [[b"XADD t 1-1 f v", b"DEL s", b"XADD s 1-1 f v"]]


# -- waiting -------------------------------------------------------------------------------------

READ = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n%b\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def test_fed_reader_is_answered_before_the_next_command_and_continues_with_its_backlog() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    assert reader.call("XREAD BLOCK 0 STREAMS s $", "PING") == b""
    assert reader.client.blocked is not None
    writer.call("XADD s 1-1 f v", "XADD s 1-2 f v")
    assert reader.output() == READ % b"1-1" + b"+PONG\r\n"
    assert reader.client.blocked is None


def test_all_plain_readers_are_served_and_one_reader_of_a_group() -> None:
    rig = Rig()
    writer, readers = rig.connect(), [rig.connect() for _ in range(4)]
    writer.call("XGROUP CREATE s g $ MKSTREAM")
    for index, reader in enumerate(readers):
        command = "XREAD BLOCK 0 STREAMS s $" if index < 2 else f"XREADGROUP GROUP g c{index} BLOCK 0 STREAMS s >"
        assert reader.call(command) == b""
    writer.call("XADD s 1-1 f v")
    assert [reader.output() != b"" for reader in readers] == [True, True, True, False]


def test_one_entry_for_many_waiting_workers_is_one_run_and_a_look_at_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    writer, workers = rig.connect(), [rig.connect() for _ in range(50)]
    writer.call("XGROUP CREATE s g $ MKSTREAM")
    for index, worker in enumerate(workers):
        worker.call(f"XREADGROUP GROUP g c{index} BLOCK 0 STREAMS s >")
    row, runs = TABLE[b"XREADGROUP"], []
    handler = row.handler
    assert handler is not None
    monkeypatch.setattr(row, "handler", lambda context, argv: (runs.append(argv[3]), handler(context, argv))[1])
    for index in range(3):
        writer.call(f"XADD s 1-{index + 1} f v")
        assert workers[index].output() == READ % b"1-%d" % (index + 1)
    assert runs == [b"c0", b"c1", b"c2"]


def without_times(info: bytes) -> bytes:
    """The reply to INFO without what real clocks measure, and without its length, which depends on that."""
    return re.sub(rb"\A\$\d+|eventloop_duration_\w+:\d+", b"", info)


@pytest.mark.parametrize("stream_ids", ["s >", "s t > >"])
def test_a_look_at_a_waiting_worker_leaves_what_a_run_leaves(stream_ids: str) -> None:
    def remaining(*, by_runs: bool) -> list[bytes]:
        # Without the slow log: INFO counts what it has, and a command can be slow on a busy machine.
        rig = Rig(slowlog_log_slower_than=-1)
        writer, workers = rig.connect(), [rig.connect() for _ in range(4)]
        writer.call("XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM")
        for index, worker in enumerate(workers):
            worker.call(f"XREADGROUP GROUP g c{index} BLOCK {500 + index} STREAMS {stream_ids}")
        if by_runs:
            for waiter in rig.dispatcher.waiters.by_client.values():
                waiter.blocked.blocks_again = None
        for index in range(2):
            rig.clock.advance(100)
            writer.call(f"XADD s 1-{index + 1} f v")
        rig.clock.advance(50)
        shown = [
            writer.call("XINFO CONSUMERS s g"),
            writer.call("OBJECT IDLETIME t"),
            without_times(writer.call("INFO stats")),
        ]
        rig.pass_time(252)
        shown += [worker.output() for worker in workers]
        writer.call("XADD s 2-1 f v")
        return shown + [worker.output() for worker in workers] + [b"%r" % rig.log.units]

    assert remaining(by_runs=False) == remaining(by_runs=True)


def test_served_readers_are_units_of_their_own_after_the_transaction() -> None:
    rig = Rig()
    writer, first, second = rig.connect(), rig.connect(), rig.connect()
    writer.call("XGROUP CREATE s g $ MKSTREAM")
    first.call("XREADGROUP GROUP g c1 COUNT 1 BLOCK 0 STREAMS s >")
    second.call("XREADGROUP GROUP g c2 BLOCK 0 STREAMS s >")
    rig.log.units.clear()
    writer.call("MULTI", "XADD s 1-1 f v", "XADD s 1-2 f v", "EXEC")
    assert rig.log.units[0] == [b"XADD s 1-1 f v", b"XADD s 1-2 f v"]
    assert [unit[0].split()[:6] for unit in rig.log.units[1:]] == [
        [b"XCLAIM", b"s", b"g", b"c1", b"0", b"1-1"],
        [b"XCLAIM", b"s", b"g", b"c2", b"0", b"1-2"],
    ]


def test_only_the_end_of_a_transaction_counts() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    reader.call("XREAD BLOCK 0 STREAMS s $")
    writer.call("MULTI", "XADD s 1-1 f v", "XDEL s 1-1", "EXEC")
    assert reader.output() == b""
    writer.call("XADD s 1-2 f v")
    assert reader.output() == READ % b"1-2"


def test_deadline_answers_null_and_is_not_moved_by_runs_without_success() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    reader.call("HELLO 3")
    assert reader.call("XREAD BLOCK 100 STREAMS s 9", "PING") == b""
    rig.pass_time(60)
    writer.call("XADD s 1-1 f v")
    rig.pass_time(40)
    assert reader.output() == b""
    rig.pass_time(1)
    assert reader.output() == b"_\r\n+PONG\r\n"


def test_deleted_group_ends_the_wait_with_its_error() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    writer.call("XGROUP CREATE s g $ MKSTREAM")
    reader.call("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    writer.call("XGROUP DESTROY s g")
    assert reader.output().startswith(b"-NOGROUP ")


def test_another_type_under_the_name_concerns_group_readers_only() -> None:
    rig = Rig()
    plain, grouped, writer = rig.connect(), rig.connect(), rig.connect()
    writer.call("XGROUP CREATE s g $ MKSTREAM")
    plain.call("XREAD BLOCK 0 STREAMS s $")
    grouped.call("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    writer.call("SET s v")
    assert grouped.output().startswith(b"-WRONGTYPE ")
    assert plain.output() == b""
    writer.call("DEL s", "XADD s 1-1 f v")
    assert plain.output() == READ % b"1-1"


def test_claim_wakes_when_an_entry_has_become_idle_enough() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    writer.call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c1 STREAMS s >")
    assert reader.call("XREADGROUP GROUP g c2 BLOCK 0 CLAIM 50 STREAMS s >") == b""
    rig.pass_time(50)
    assert reader.output() == b""
    rig.pass_time(1)
    assert b"1-1" in reader.output()


def test_no_command_blocks_inside_a_transaction() -> None:
    caller = Rig().connect()
    assert caller.call("MULTI", "XREAD BLOCK 0 STREAMS s $", "EXEC") == b"+OK\r\n+QUEUED\r\n*1\r\n*-1\r\n"


def test_gone_reader_leaves_no_trace() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    reader.call("XREAD BLOCK 0 STREAMS s $", "PING")
    rig.dispatcher.detach(reader.session)
    assert len(rig.dispatcher.waiters) == 0
    writer.call("XADD s 1-1 f v")
    assert reader.output() == b""


def test_reader_of_another_database_is_not_woken() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    reader.call("SELECT 1", "XREAD BLOCK 0 STREAMS s $")
    reader.output()
    writer.call("XADD s 1-1 f v")
    assert reader.output() == b""
    writer.call("SELECT 1", "XADD s 1-1 f v")
    assert reader.output() == READ % b"1-1"


def test_touched_keys_are_forgotten_if_no_client_waits() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v")
    assert not any(db.ready for db in rig.server.store.databases)


@pytest.mark.parametrize(
    ("lines", "stays_on_fast_path"),
    [
        (["CLIENT REPLY OFF", "GET k"], True),
        (["CLIENT REPLY SKIP", "GET k"], True),
        (["CLIENT REPLY SKIP", "NOSUCH", "GET k"], True),
        (["MULTI", "CLIENT REPLY SKIP", "EXEC", "GET k"], True),
        (["MULTI", "GET k", "CLIENT REPLY SKIP", "EXEC", "GET k"], True),
        (["MULTI", "GET k"], True),
        (["MULTI", "GET k", "EXEC"], True),
        (["MULTI", "NOSUCH", "EXEC", "GET k"], True),
        (["MULTI", "EXEC much", "GET k"], True),
        (["CLIENT REPLY SKIP"], False),
        (["CLIENT NO-TOUCH on", "GET k"], False),
        (["CLIENT NO-TOUCH on", "GET k", "CLIENT NO-TOUCH off"], True),
    ],
)
def test_what_hinders_a_client_or_changes_its_commands_holds_as_long_as_it_lasts(
    lines: list[str], stays_on_fast_path: bool
) -> None:
    caller = Rig().connect()
    caller.call(*lines)
    assert caller.client.rows
    assert caller.client.is_plain is stays_on_fast_path


def test_a_wait_whose_reply_is_skipped_leaves_its_client_plain() -> None:
    rig = Rig()
    caller = rig.connect()
    assert caller.call("CLIENT REPLY SKIP", "BLPOP k 0") == b""
    rig.connect().call("RPUSH k a")
    assert caller.call("LLEN k") == b":0\r\n"
    assert caller.client.is_plain


def test_a_transaction_that_must_fail_queues_no_more_commands() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("MULTI", "GET k", "NOSUCH", "GET k", "GET k")
    assert b" multi=1 " in other.call(f"CLIENT LIST ID {caller.client.id}")
    caller.call("DISCARD", "WATCH k", "MULTI", "GET k")
    other.call("SET k 1")
    caller.call("GET k")
    assert b" multi=1 " in other.call(f"CLIENT LIST ID {caller.client.id}")
    assert caller.call("EXEC", "GET k") == b"*-1\r\n$1\r\n1\r\n"


def test_commands_that_do_not_change_their_client_leave_it_the_commands_that_it_may_run() -> None:
    """The dispatcher does not look at the client again after them."""
    rig = Rig()
    dispatcher, tried = rig.dispatcher, set()
    for row in all_rows():
        if row.handler is None or row.may_change_client:
            continue
        caller = rig.connect()
        client = caller.client
        for words in requests_to(row, 20):
            dispatcher.execute(caller.session, [list(words)], rig.clock())
            rows, needs_only_acl_check, is_plain = client.rows, client.needs_only_acl_check, client.is_plain
            dispatcher.refresh_client(client)
            assert (client.rows is rows, client.needs_only_acl_check) == (True, needs_only_acl_check), words
            assert client.is_plain is is_plain, words
            assert (client.protocol, client.reply_mode) == (2, ReplyMode.ON), words
            assert row.name == "SELECT" or client.db.index == 0, words
            assert not client.close_after_reply, words
            tried.add(row.name)
            if client.blocked is not None:  # it takes no request before the wait ends
                break
            caller.call("DISCARD")
        dispatcher.detach(caller.session)
    assert len(tried) > 150


def test_a_quick_command_may_change_what_the_next_requests_of_its_pipeline_need() -> None:
    caller = Rig().connect()
    assert caller.call("SET k 0", "SELECT 1", "GET k", "SET k 1", "SELECT 0", "GET k") == (
        b"+OK\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n$1\r\n0\r\n"
    )
    assert caller.call("HELLO 3", "GET none", "HELLO 2", "GET none").count(b"_\r\n") == 1
    assert caller.call("SUBSCRIBE a", "GET k", "UNSUBSCRIBE a", "GET k").endswith(
        b"allowed in this context\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$1\r\n0\r\n"
    )
    assert caller.call("MULTI", "SELECT 1", "GET k", "EXEC", "GET k") == (
        b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n$1\r\n1\r\n"
    )


def test_confirmations_of_quick_commands_are_sent_while_replies_are_not() -> None:
    caller = Rig().connect()
    assert caller.call("CLIENT REPLY OFF", "SELECT 1", "SUBSCRIBE a", "UNSUBSCRIBE") == (
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"
    )


def test_a_quick_command_of_two_databases_wakes_the_reader_of_the_other_one() -> None:
    rig = Rig()
    reader, caller = rig.connect(), rig.connect()
    reader.call("SELECT 1", "BLPOP l 0")
    caller.call("RPUSH l a", "MOVE l 1")
    assert reader.output() == b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"


def test_touched_keys_of_a_database_that_is_left_are_forgotten() -> None:
    rig = Rig()
    rig.connect().call("SET a 1", "SELECT 1", "SET b 1", "SELECT 2")
    assert not any(db.ready for db in rig.server.store.databases)


def test_failing_log_refuses_writes_and_ping_and_keeps_reading() -> None:
    rig = Rig()
    caller = rig.connect()
    rig.dispatcher.admission.write_error = b"No space left on device"
    rig.dispatcher.refresh_clients()
    refusal = b"-MISCONF Errors writing to the AOF file: No space left on device\r\n"
    assert caller.call("XADD s 1-1 f v", "PING", "XLEN s", "XREADGROUP GROUP g c STREAMS s >") == (
        refusal * 2 + b":0\r\n" + refusal
    )
    assert caller.call("MULTI", "XADD s 1-1 f v", "EXEC") == (
        b"+OK\r\n" + refusal + b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    )
    rig.dispatcher.admission.write_error = None
    rig.dispatcher.refresh_clients()
    assert caller.call("PING") == b"+PONG\r\n"
