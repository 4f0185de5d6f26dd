"""Many clients that wait for one key: each gets the reply that Redis sends, and is counted as in Redis."""

from __future__ import annotations

import select
import time
from contextlib import ExitStack

import pytest

from support.servers import Server
from support.wire import REPLY_TIMEOUT_S, Wire

# Protocol and request of each reader.
READERS = (
    *[(2, "XREAD BLOCK 0 STREAMS s $")] * 3,
    (3, "XREAD BLOCK 0 STREAMS s $"),
    (2, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"),
    *[(3, "XREAD BLOCK 0 STREAMS s $")] * 2,
    *[(2, "XREAD COUNT 1 BLOCK 0 STREAMS s $")] * 2,
    *[(2, "xread BLOCK 0 STREAMS s 3-1")] * 2,
    (2, "XREAD BLOCK 0 STREAMS s 5-1"),
    *[(2, "XREAD BLOCK 0 STREAMS s t $ $")] * 2,
    *[(2, "XREAD MAXSIZE 40 BLOCK 0 STREAMS s $")] * 2,
)
# Number of readers without an ID: they block in every round. The others block only in the first round.
NEWS_READERS_COUNT = sum("$" in line or ">" in line for _, line in READERS)
# (number of blocked readers, requests of the writer).
ROUNDS = (
    (len(READERS), ("MULTI", "XADD s 5-1 f v", "XADD s 5-2 f w", "EXEC")),
    (NEWS_READERS_COUNT, ("XADD s 6-1 f v",)),
    (NEWS_READERS_COUNT, ("MULTI", "XADD s 7-1 f v", "XDEL s 7-1", "XADD s 7-2 f v", "EXEC")),
    (NEWS_READERS_COUNT, ("MULTI", "XADD t 8-1 f v", "XADD s 8-1 f v", "EXEC")),
)


def counts_of(wire: Wire) -> dict[bytes, bytes]:
    """The numbers of hits, misses and calls of reads."""
    lines = (wire.ask("INFO", "stats") + wire.ask("INFO", "commandstats")).split(b"\r\n")
    fields = dict(line.split(b":", 1) for line in lines if b":" in line)
    found = {name: fields[name] for name in (b"keyspace_hits", b"keyspace_misses")}
    return found | {name: value.split(b",")[0] for name, value in fields.items() if name.startswith(b"cmdstat_xread")}


def wait_for_readers(wire: Wire, readers: list[Wire], waiting_count: int) -> None:
    """Wait until so many readers are blocked, and all others have their reply."""
    deadline_s = time.monotonic() + REPLY_TIMEOUT_S
    blocked = b"\r\nblocked_clients:%d\r\n" % waiting_count
    answered_count = len(readers) - waiting_count
    sockets = [reader.socket for reader in readers]
    while blocked not in wire.ask("INFO", "clients") or len(select.select(sockets, [], [], 0)[0]) != answered_count:
        assert time.monotonic() < deadline_s


def served(server: Server) -> list[object]:
    """The replies to the readers and the counts after each round."""
    seen: list[object] = []
    with ExitStack() as stack:
        writer = stack.enter_context(server.connect())
        readers = [stack.enter_context(server.connect(protocol)) for protocol, _ in READERS]
        for line in ("XADD s 3-1 f v", "XGROUP CREATE s g $", "CONFIG RESETSTAT"):
            writer.call(*line.split())
        for waiting_count, lines in ROUNDS:
            for reader, (_, line) in zip(readers, READERS, strict=True):
                reader.send(*line.split())
            wait_for_readers(writer, readers, waiting_count)
            for line in lines:
                writer.call(*line.split())
            seen += [[reader.receive() for reader in readers], counts_of(writer)]
        writer.call("XADD", "s", "9-1", "f", "v")
        # `$` was 7-2 in the last round. No reader has entries left from then.
        last = [line.replace("$", "7-2") for _, line in READERS]
        seen += [reader.call(*line.split()) for reader, line in zip(readers, last, strict=True)]
    return seen


@pytest.mark.oracle
def test_readers_of_one_key_get_what_redis_gives_them(headrace: Server, oracle: Server) -> None:
    assert served(headrace) == served(oracle)
