"""Turns: which requests are run while the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.inprocess import Clock, Running, running_server
from support.wire import encode

NAMES = ("ending", "other", "long", "held", "claiming")


def connection_named(running: Running, name: str) -> Any:
    return next(each for each in running.server.connections if each.client.name == name.encode())


def lines(*requests: str) -> bytes:
    return b"".join(encode(request.split()) for request in requests)


# How a request may come to be run besides being next in its pipeline.
WAYS_TO_RUN: dict[str, Callable[[Running], object]] = {
    "a request of another client": lambda running: connection_named(running, "other").data_received(lines("SET k o")),
    "a request behind a long pipeline": lambda running: connection_named(running, "long").resume(),
    "a request that was held": lambda running: running.server.context.server.clients.unpause(),
    "a claim whose time has come": lambda running: running.server.turns.run_timers(),
    "the periodic work": lambda running: running.server.periodic.run(),
}


async def until(is_reached: Callable[[], bool]) -> None:
    """On a busy machine a client's turn may end between two of its requests."""
    async with asyncio.timeout(10):
        while not is_reached():
            await asyncio.sleep(0)


@pytest.mark.parametrize("way", WAYS_TO_RUN)
async def test_no_request_is_run_once_the_server_ends(way: str) -> None:
    clock = Clock()
    async with running_server(clock=clock) as running:
        server = running.server
        peers = [await running.connect() for _ in NAMES]
        for peer, name in zip(peers, NAMES, strict=True):
            peer.send("CLIENT", "SETNAME", name)
            await peer.expect(b"+OK\r\n")
        ending, _, long, held, claiming = (connection_named(running, name) for name in NAMES)
        ending.data_received(
            lines("XGROUP CREATE s g 0 MKSTREAM", "XADD s 1-1 f v", "XREADGROUP GROUP g owner STREAMS s >")
        )
        await until(lambda: not ending.has_more)
        claiming.data_received(lines("XREADGROUP GROUP g claiming BLOCK 0 CLAIM 500 STREAMS s >"))
        long.backlog.append([b"SET", b"k", b"long"])
        if way == "a request that was held":
            held.data_received(lines("CLIENT PAUSE 100000 WRITE", "SET k held"))
            await until(lambda: held.client.is_held)
        await until(lambda: claiming.client.blocked is not None)
        clock.advance(1000)
        count = server.changes_count
        ending.data_received(lines("SHUTDOWN NOSAVE", "SET k same"))
        await until(server.stopped.is_set)
        WAYS_TO_RUN[way](running)
        for _ in range(10):
            await asyncio.sleep(0)
        assert server.changes_count == count
        assert b"k" not in server.store.databases[0].keys
        assert claiming.client.blocked is not None
