"""A stop waits for replicas that lag: how long, what clients see meanwhile, and what ends the wait."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.server import lifecycle
from support.fake_primary import until
from support.inprocess import Clock, Peer, Running, running_server

GETACK = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"
FAILED = b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


class Scene:
    """A primary with a replica that has not confirmed a write, and the clock of the test."""

    def __init__(self, running: Running, clock: Clock, replica: Peer) -> None:
        self.running, self.clock, self.replica = running, clock, replica
        self.server = running.server

    def confirm(self) -> None:
        self.replica.send("REPLCONF", "ACK", self.server.primary.history.offset)

    async def sent(self, *words: Any) -> Peer:
        peer = await self.running.connect()
        peer.send(*words)
        return peer

    async def ask(self, *words: Any) -> bytes:
        return await (await self.sent(*words)).line()

    async def shutdown(self, *words: str) -> Peer:
        """SHUTDOWN that waits."""
        peer = await self.sent("SHUTDOWN", *words)
        await until(lambda: self.server.blocked_count)
        return peer

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.server.periodic.run()
        self.server.turns.run_timers()


@asynccontextmanager
async def scene(**directives: Any) -> AsyncIterator[Scene]:
    clock = Clock()
    async with running_server(clock=clock, repl_diskless_sync_delay=0, **directives) as running:
        replica = await running.connect()
        replica.send("REPLCONF", "listening-port", 7, "capa", "psync2", "capa", "eof")
        await replica.expect(b"+OK\r\n")
        replica.send("PSYNC", "?", -1)
        primary = running.server.primary
        await until(lambda: primary.online)
        replica.send("REPLCONF", "ACK", 0)
        await until(lambda: primary.links[0].is_following)
        now = Scene(running, clock, replica)
        assert await now.ask("SET", "k", "v") == b"+OK\r\n"
        yield now


async def test_writes_are_held_until_the_replica_has_everything(caplog):
    async with scene() as now:
        stopper = await now.shutdown()
        writer = await now.sent("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held)
        assert await now.ask("EXISTS", "k") == b":1\r\n"
        assert b"shutdown_in_milliseconds:10000\r\n" in now.server.context.server.reports.info([b"server"])
        assert now.server.primary.backlog is not None
        now.pass_time(5000)
        assert b"shutdown_in_milliseconds:5000\r\n" in now.server.context.server.reports.info([b"server"])
        assert not now.server.stopped.is_set()
        await now.replica.reader.readuntil(GETACK)
        now.confirm()
        await until(lambda: not now.server.stopping._lagging())
        now.pass_time(100)
        assert now.server.stopped.is_set()
        assert "1 of 1 replicas are in sync when shutting down." in caplog.text
        assert "Lagging replica" not in caplog.text
    await stopper.expect_end()
    await writer.expect_end()


async def test_the_wait_ends_after_shutdown_timeout(caplog):
    async with scene(shutdown_timeout=3) as now:
        await now.shutdown()
        now.pass_time(2999)
        assert not now.server.stopped.is_set()
        now.pass_time(1)
        assert now.server.stopped.is_set()
        assert "0 of 1 replicas are in sync when shutting down." in caplog.text
        assert "Lagging replica 127.0.0.1:7 reported offset" in caplog.text


@pytest.mark.parametrize(("words", "timeout_s"), [(("NOW",), 10), ((), 0)])
async def test_a_stop_at_once_does_not_wait(words, timeout_s, caplog):
    async with scene(shutdown_timeout=timeout_s) as now:
        offset = now.server.primary.history.offset
        await now.sent("SHUTDOWN", *words)
        await until(now.server.stopped.is_set)
        assert now.server.primary.history.offset == offset, "no confirmation is asked for"
        assert "0 of 1 replicas are in sync when shutting down." in caplog.text
        assert "Waiting for replicas" not in caplog.text


async def test_without_a_replica_that_lags_there_is_no_wait(caplog):
    async with scene() as now:
        now.confirm()
        await until(lambda: not now.server.stopping._lagging())
        await now.sent("SHUTDOWN")
        await until(now.server.stopped.is_set)
        assert "Waiting for replicas" not in caplog.text


async def test_abort_gives_all_that_wait_an_error_and_runs_what_was_held():
    async with scene() as now:
        first, second = await now.shutdown(), await now.sent("SHUTDOWN", "NOSAVE", "NOW")
        writer = await now.sent("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held and now.server.blocked_count == 2)
        client = next(iter(now.server.dispatcher.waiters.by_client))
        assert await now.ask("CLIENT", "UNBLOCK", client) == b":0\r\n"
        assert await now.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
        assert await now.ask("SHUTDOWN", "ABORT", "NOW") == b"-ERR syntax error\r\n"
        assert await now.ask("SHUTDOWN", "ABORT") == b"+OK\r\n"
        assert await first.line() == await second.line() == FAILED
        assert await writer.line() == b"+OK\r\n"
        assert await now.ask("SHUTDOWN", "ABORT") == b"-ERR No shutdown in progress.\r\n"
        now.pass_time(20_000)
        assert not now.server.stopped.is_set()


async def test_a_client_that_leaves_does_not_end_the_stop():
    async with scene() as now:
        stopper = await now.shutdown()
        stopper.writer.close()
        await until(lambda: not now.server.blocked_count)
        now.pass_time(10_000)
        assert now.server.stopped.is_set()


async def test_a_stop_that_cannot_save_lets_the_server_continue(monkeypatch, caplog):
    async with scene() as now:
        monkeypatch.setattr(now.server, "prepare_stop", lambda save: False)
        stopper = await now.shutdown("SAVE")
        now.pass_time(10_000)
        assert await stopper.line() == FAILED
        assert "Errors trying to shut down the server." in caplog.text
        assert await now.ask("SET", "k", "v") == b"+OK\r\n"


async def test_signals_wait_too_and_a_second_sigint_does_not(monkeypatch, caplog):
    codes: list[int] = []
    monkeypatch.setattr(lifecycle.os, "_exit", codes.append)
    monkeypatch.setattr(lifecycle.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(lifecycle.signal, "set_wakeup_fd", lambda number: -1)
    async with scene() as now:
        lifecycle.on_stop_signal(now.server, signal.SIGTERM)
        lifecycle.on_stop_signal(now.server, signal.SIGTERM)
        assert caplog.messages.count("User requested shutdown...") == 1
        assert (now.server.stopped.is_set(), codes) == (False, [])
        lifecycle.on_stop_signal(now.server, signal.SIGINT)
        assert codes == [1]
        now.pass_time(10_000)
        assert now.server.stopped.is_set()
