"""A stop with a replica that lags, compared with Redis: replies, INFO, log lines, and when it ends."""

from __future__ import annotations

import re
import signal

import pytest

from conftest import StartServer
from support.links import field, follow, until
from support.wire import Wire

pytestmark = pytest.mark.oracle

FAST = ("--repl-diskless-sync-delay", "0")
LINES = re.compile(r"[*#] (User requested.*|Waiting for.*|Shutdown .*|Lagging .*|\d of .*|Errors trying to .*)")


def observed(start_server: StartServer, name: str) -> list[str]:
    """What clients and the log show of stops that wait, are aborted, go wrong, and end."""
    primary, replica = start_server(name, *FAST), start_server("oracle", *FAST)
    seen: list[bytes] = []
    with replica.connect() as below, primary.connect() as above, primary.connect() as writer:
        follow(below, primary)
        first, second = primary.connect(), primary.connect()
        assert replica.process is not None
        replica.process.send_signal(signal.SIGSTOP)
        above.call("SET", "k", 1)
        first.send("SHUTDOWN")
        until(lambda: field(above, "blocked_clients", "clients") == "1", "the stop does not wait")
        second.send("SHUTDOWN", "NOW", "NOSAVE")
        until(lambda: field(above, "blocked_clients", "clients") == "2", "the second stop does not wait")
        assert 0 < int(field(above, "shutdown_in_milliseconds", "server")) <= 10_000
        writer.send("SET", "k", 2)
        until(lambda: field(above, "blocked_clients", "clients") == "3", "the write is not held")
        for words in (["GET", "k"], ["CLIENT", "UNPAUSE"], ["SHUTDOWN", "ABORT", "NOW"], ["SHUTDOWN", "ABORT"]):
            seen.append(above.call(*words))
        seen += [first.receive(), second.receive(), writer.receive(), above.call("SHUTDOWN", "ABORT")]
        seen.append(b"%d" % (b"shutdown_in_milliseconds" in above.ask("INFO", "server")))
        above.call("CONFIG", "SET", "shutdown-timeout", 1)
        primary.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
        seen += [above.wait_for_close(), first.wait_for_close()]
        assert primary.process is not None
        assert primary.process.wait(10) == 0
        replica.process.send_signal(signal.SIGCONT)
        until(lambda: below.ask("GET", "k") == b"2", "what was sent does not arrive")
        primary.start()
        above = Wire(primary.port)
        follow(below, primary)
        replica.process.send_signal(signal.SIGSTOP)
        above.call("SET", "k", 3)
        assert primary.process is not None
        primary.process.send_signal(signal.SIGTERM)
        until(lambda: b"shutdown_in_milliseconds" in above.ask("INFO", "server"), "the stop does not wait")
        replica.process.send_signal(signal.SIGCONT)
        assert primary.process.wait(10) == 0
        assert below.ask("GET", "k") == b"3"
    lines = LINES.findall(primary.log_path.read_text("utf-8", "replace"))
    told = [line.replace(str(replica.port), "PORT") for line in lines]
    return [repr(each) for each in seen] + [re.sub(r"offset \d+|lag=\d+", "N", line) for line in told]


def test_a_stop_shows_what_that_of_redis_shows(start_server: StartServer) -> None:
    assert observed(start_server, "headrace") == observed(start_server, "oracle")
