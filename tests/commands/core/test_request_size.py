"""The counted size of waiting requests is the memory that they take."""

from __future__ import annotations

import tracemalloc

import pytest

from headrace.commands.clients.blocking import WAITING_KEY_SIZE
from headrace.commands.core.request_size import request_size
from headrace.persistence.grammar.streams import addition_splitter, words_of
from headrace.protocol.reader import RequestReader
from support.inprocess import Caller, Rig, running_server
from support.wire import encode

COUNT = 10_000
SHARE_MAX = 0.2


def fed(line: tuple[str, ...]) -> list[list[bytes]]:
    """Requests as the reader makes them."""
    reader = RequestReader(split=addition_splitter())
    return [words_of(request) for request in reader.feed(encode(line) * COUNT)]


@pytest.mark.parametrize(
    "line", [("PING",), ("GET", "key:1"), ("SET", "key:1", "v" * 20), ("XADD", "stream", "1-1", "field", "v" * 100)]
)
def test_size_of_queued_requests_is_that_of_their_memory(line: tuple[str, ...]) -> None:
    tracemalloc.start()
    try:
        queue = fed(line)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert abs(sum(map(request_size, queue)) - size) < SHARE_MAX * size


def queue_pings(caller: Caller) -> int:
    caller.call("MULTI", *["PING"] * COUNT)
    return COUNT * request_size([b"PING"])


def wait_for_keys(caller: Caller) -> int:
    keys = [f"key:{number}" for number in range(COUNT)]
    caller.call(" ".join(["XREAD", "BLOCK", "0", "STREAMS", *keys, *["0-1"] * COUNT]))
    return COUNT * (WAITING_KEY_SIZE + len("key:1234"))


@pytest.mark.parametrize("grow", [queue_pings, wait_for_keys])
def test_what_waits_counts_as_memory_of_its_client(grow: object) -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    before, used_before = caller.client.memory_size, rig.server.memory.measure()
    assert callable(grow)
    size = grow(caller)
    assert caller.client.memory_size - before >= size
    assert rig.server.memory.measure() - used_before >= size
    shown = dict(word.split(b"=", 1) for word in other.call("CLIENT LIST ID 1").split() if b"=" in word)
    assert int(shown[b"tot-mem"]) == caller.client.memory_size
    assert int(shown[b"multi-mem"]) in (0, COUNT * len("PING")), "the arguments alone, as in Redis"


async def test_a_queue_of_small_requests_is_closed_at_the_query_buffer_limit() -> None:
    limit = 1 << 20
    async with running_server(client_query_buffer_limit=limit) as running:
        peer = await running.connect()
        peer.send("MULTI")
        await peer.expect(b"+OK\r\n")
        peer.writer.write(encode(("PING",)) * (limit // request_size([b"PING"]) + 1))
        await peer.reader.read()
        assert running.server.stats.query_buffer_limit_disconnections == 1
