"""Calls of commands that are not served: a warning for the first of each, and counts that no client can inflate."""

from __future__ import annotations

import pytest

from headrace.commands.core.table import DECLARED
from headrace.commands.observing.unserved import MODULE_PREFIXES
from headrace.commands.permissions.known import REDIS_COMMANDS
from headrace.server.reports.logs import ROOT
from support.inprocess import Caller, Rig

UNSERVED = sorted(
    name.upper() for name in REDIS_COMMANDS if b"|" not in name and name.upper() not in DECLARED
)  # fmt: skip


@pytest.fixture
def caller() -> Caller:
    return Rig().connect()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name.startswith(f"{ROOT}.commands")]


def counted(caller: Caller) -> int:
    """The field of INFO."""
    line = next(line for line in caller.call("INFO stats").split(b"\r\n") if line.startswith(b"unserved_calls:"))
    return int(line.partition(b":")[2])


def test_every_command_of_redis_is_served_or_warned_of_once(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caller.call("CLIENT SETNAME worker")
    for name in UNSERVED:
        for spelling in (name.decode().lower(), name.decode()):
            reply = caller.call(f"{spelling} a b")
            assert reply.startswith(b"-ERR unknown command '%b', with args beginning with: 'a' 'b'" % spelling.encode())
    assert [message.split(" called ")[1].split(",")[0] for message in warnings(caplog)] == [
        name.decode() for name in UNSERVED
    ]
    address = caller.client.address.decode()
    assert all(message.startswith(f"Client {address} (worker) called ") for message in warnings(caplog))
    assert all("docs/clients.md" in message for message in warnings(caplog))
    assert counted(caller) == 2 * len(UNSERVED)


def test_invented_names_fill_neither_the_server_log_nor_the_memory(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        caller.call(f"NAME{number} secret")
        caller.call(f"JSON.NAME{number} secret")
    assert len(warnings(caplog)) == 1
    assert "called JSON.*, which" in warnings(caplog)[0]
    assert caller.rig.server.context.unserved.calls == {b"unknown": 1000, b"JSON.*": 1000}
    assert counted(caller) == 2000


@pytest.mark.parametrize("prefix", MODULE_PREFIXES)
def test_a_module_is_named_once(prefix: bytes, caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caller.call(f"{prefix.decode().lower()}add k v", f"{prefix.decode()}info k")
    (warning,) = warnings(caplog)
    assert f"called {prefix.decode()}*, which" in warning


def test_calls_in_transactions_and_scripts_are_noted(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caller.call("MULTI", "VADD h 0 f")
    assert caller.call("EXEC").startswith(b"-EXECABORT ")
    assert "called VADD, which" in warnings(caplog)[0]
    pytest.importorskip("lupa")
    argv = [b"EVAL", b"return redis.pcall('VDIM', 'z')", b"0"]
    caller.rig.dispatcher.execute(caller.session, [argv], caller.rig.clock())
    assert caller.output() == b"-ERR Unknown Redis command called from script\r\n"
    assert "called VDIM, which" in warnings(caplog)[1]
    assert warnings(caplog)[1].startswith(f"Client {caller.client.address.decode()}")


def test_resetstat_counts_anew_and_warns_no_second_time(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caller.call("VADD h 0 f", "CONFIG RESETSTAT")
    assert counted(caller) == 0
    caller.call("VADD h 0 f")
    assert counted(caller) == 1
    assert len(warnings(caplog)) == 1


def test_renamed_commands_are_not_taken_for_unserved_ones(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caller.call("NO-SUCH-NAME", "GET", "XGROUP NOSUCH", "CLIENT NOSUCH")
    assert warnings(caplog) == []
    assert counted(caller) == 1
