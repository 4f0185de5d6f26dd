"""Rows about replicas: what they cost the primary, how fast they get a snapshot, how late they are, and what they are
sent after a cut.

Primary and replicas are servers of the same program, so each row compares Headrace with its own replicas to Redis with
its own. Replicas that run on the machine of their primary also take its caches and processors, so that the primary is
dearer by more than it does for them. Readers that take the stream and do nothing show that part alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from benchmarks.load import Batch, benchmark, prepared, read_in_background, resident_size
from benchmarks.peers import PeerServer
from benchmarks.relay import Relay
from benchmarks.row import Row, Sample
from benchmarks.stalls import Pings
from benchmarks.streams import FIELDS, RANDOM_BELOW, ask, deliver, fill, new_group

from support.replica import StreamReader
from support.servers import Server
from support.wire import Wire, encode

TABLE: Final = "replicas"
COUNTS: Final = (0, 1, 3)
REQUESTS: Final = 600_000
PIPELINE: Final = 16
ENTRIES: Final = 1_000_000
PENDING: Final = 100_000
# Between two looks at whether a replica has caught up.
LOOK_S: Final = 0.002
CAUGHT_UP_S: Final = 300.0
# Between two PINGs of the primary during a snapshot.
PING_PAUSE_S: Final = 0.001
# The load while the lag is measured: batches of XADD at even distances.
RATE: Final = 50_000
BATCH: Final = 50
LOAD_S: Final = 4.0
QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "worst": 1.0}
BACKLOG_SIZE: Final = 64 << 20
# Requests before a link is cut, until it is healed (ten seconds of the rate above), and after that.
BEFORE_CUT: Final = 50_000
DURING_CUT: Final = 10 * RATE
AFTER_CUT: Final = 100_000
# More than what is missed in the time of a cut.
CUT_BACKLOG_SIZE: Final = 256 << 20
KEY: Final = "added"
ADD: Final = ("XADD", KEY, "MAXLEN", "~", "100000", "*", *FIELDS)


def info(wire: Wire, section: str) -> dict[str, str]:
    """The fields of a section of INFO."""
    lines = ask(wire, "INFO", section).decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def offset(server: Server) -> int:
    """The end of the replication stream."""
    with server.connect() as wire:
        return int(info(wire, "replication")["master_repl_offset"])


def has_all(replica: Server, wanted_offset: int) -> bool:
    """Whether a replica follows, and has the stream up to this offset."""
    with replica.connect() as wire:
        fields = info(wire, "replication")
    return fields["master_link_status"] == "up" and int(fields["slave_repl_offset"]) >= wanted_offset


def wait_until(is_done: Callable[[], bool]) -> None:
    """Look again and again. Raises RuntimeError if it takes too long."""
    deadline_s = time.monotonic() + CAUGHT_UP_S
    while not is_done():
        if time.monotonic() > deadline_s:
            raise RuntimeError("the replica does not catch up")
        time.sleep(LOOK_S)


@contextmanager
def replicas(server: PeerServer, number: int) -> Iterator[list[PeerServer]]:
    """So many new servers of the same program, without logs; they follow no primary yet."""
    with TemporaryDirectory(prefix="headrace-bench-replica-") as folder:
        started = [PeerServer(server.peer, Path(folder) / str(index)) for index in range(number)]
        with server.connect() as wire:
            ask(wire, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
        try:
            for replica in started:
                replica.start()
            yield started
        finally:
            for replica in started:
                replica.kill()


def follow(replica: Server, server: Server | Relay) -> None:
    """Let a replica follow a server. Does not wait."""
    with replica.connect() as wire:
        ask(wire, "REPLICAOF", "127.0.0.1", server.port)


def catch_up(followers: list[PeerServer], server: Server) -> None:
    """Wait until the replicas have all of the stream."""
    for replica in followers:
        wait_until(lambda replica=replica: has_all(replica, offset(server)))  # type: ignore[misc]


def xadd(server: PeerServer, number: int) -> Sample:
    """XADD of three short fields, sixteen at a time, while so many replicas follow. The processor time is that of the
    primary."""
    with server.connect() as wire:
        wire.call("DEL", KEY)
    with replicas(server, number) as followers:
        for replica in followers:
            follow(replica, server)
        catch_up(followers, server)
        return add_entries(server)


def read_xadd(server: PeerServer, number: int) -> Sample:
    """XADD while so many readers take the stream, as replicas on machines of their own would."""
    with server.connect() as wire:
        wire.call("DEL", KEY)
        ask(wire, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
    with ExitStack() as stack:
        for _ in range(number):
            read_in_background(stack.enter_context(StreamReader(server.port)).socket)
        return add_entries(server)


def add_entries(server: PeerServer) -> Sample:
    """Requests in pipelines from fifty clients."""
    return benchmark(server, server.scaled(REQUESTS), *ADD, pipeline=PIPELINE, random_below=RANDOM_BELOW)


def fill_pending(server: PeerServer) -> None:
    """A long stream, a tenth of it pending."""
    fill(server, KEY, server.scaled(ENTRIES))
    new_group(server, KEY)
    deliver(server, KEY, server.scaled(PENDING))


def full_sync(server: PeerServer) -> Sample:
    """Seconds from REPLICAOF until the replica follows, and the longest PING of the primary meanwhile."""
    with replicas(server, 1) as (replica,), Pings(server, pause_s=PING_PAUSE_S) as pings:
        started_s = time.perf_counter()
        follow(replica, server)
        catch_up([replica], server)
        taken_s = time.perf_counter() - started_s
    return Sample(taken_s, tail={"worst PING": pings.worst_s * 1000})


def lag(server: PeerServer) -> Sample:
    """Milliseconds from the reply to a SET on the primary until the replica has it, under a steady load of XADD."""
    add = encode(("XADD", KEY, "MAXLEN", "~", 100_000, "*", "sensor", "sensor-1", "kind", "temperature", "value", "17"))
    lags_ms: list[float] = []
    with replicas(server, 1) as (replica,), server.connect() as probe, replica.connect() as reader:
        follow(replica, server)
        catch_up([replica], server)
        load = Thread(target=_add_steadily, args=(server, add * BATCH))
        load.start()
        for number in count():
            if not load.is_alive():
                break
            ask(probe, "SET", "probe", number)
            started_s = time.perf_counter()
            wanted = b"$%d\r\n%d\r\n" % (len(str(number)), number)
            while reader.call("GET", "probe") != wanted:
                pass
            lags_ms.append((time.perf_counter() - started_s) * 1000)
        load.join()
    lags_ms.sort()
    tail = {name: lags_ms[min(int(share * len(lags_ms)), len(lags_ms) - 1)] for name, share in QUANTILES.items()}
    return Sample(tail["p99"], tail=tail)


def _add_steadily(server: Server, batch: bytes) -> None:
    """Send the batch at even distances, and take the replies."""
    with server.connect() as wire:
        started_s = time.perf_counter()
        for number in range(int(LOAD_S * RATE / BATCH)):
            time.sleep(max(0.0, started_s + number * BATCH / RATE - time.perf_counter()))
            wire.send_bytes(batch)
            for _ in range(BATCH):
                wire.receive()


def backlog(server: PeerServer) -> Sample:
    """Resident bytes for each byte of a backlog that is full."""
    with server.connect() as wire:
        ask(wire, "CONFIG", "SET", "repl-backlog-size", BACKLOG_SIZE)
        ask(wire, "SET", "text", "")
    with replicas(server, 1) as (replica,):
        follow(replica, server)
        catch_up([replica], server)
        request = encode(("SET", "text", "x" * 1000))
        batches = [Batch(request * PIPELINE, b"+OK\r\n" * PIPELINE)] * (BACKLOG_SIZE // len(request) // PIPELINE)
        before = resident_size(server)
        prepared(server, len(batches) * PIPELINE, [batches])
        catch_up([replica], server)
        return Sample((resident_size(server) - before) / BACKLOG_SIZE)


def cut(server: PeerServer) -> Sample:
    """Bytes that a replica is sent after a cut of its link until it has all, for each byte of the stream that it had
    not when the link was cut; and ms until it has what it had missed in the time of the cut. There are writes before,
    meanwhile and afterwards. Raises RuntimeError if it is sent a snapshot.
    """
    with server.connect() as wire:
        ask(wire, "CONFIG", "SET", "repl-backlog-size", CUT_BACKLOG_SIZE)
    with replicas(server, 1) as (replica,), Relay(server.port) as relay, server.connect() as probe:
        follow(replica, relay)
        catch_up([replica], server)
        before = info(probe, "stats")
        begun = int(before["total_commands_processed"])
        requests = server.scaled(BEFORE_CUT + DURING_CUT + AFTER_CUT)
        load = Thread(target=_add_in_pipelines, args=(server, requests))
        load.start()
        cut_at = begun + server.scaled(BEFORE_CUT)
        wait_until(lambda: int(info(probe, "stats")["total_commands_processed"]) >= cut_at)
        relay.cut()
        wait_until(lambda: not has_all(replica, 0))
        had = offset(replica)
        heal_at = cut_at + server.scaled(DURING_CUT)
        wait_until(lambda: int(info(probe, "stats")["total_commands_processed"]) >= heal_at)
        missed_end, started_s = offset(server), time.perf_counter()
        relay.heal()
        wait_until(lambda: has_all(replica, missed_end))
        taken_s = time.perf_counter() - started_s
        load.join()
        catch_up([replica], server)
        sent_size, missed_size = relay.passed_size, offset(replica) - had
        after = info(probe, "stats")
    if after["sync_full"] != before["sync_full"] or after["sync_partial_ok"] == before["sync_partial_ok"]:
        raise RuntimeError("the replica was sent a snapshot after the cut")
    return Sample(sent_size / missed_size, tail={"caught up": taken_s * 1000})


def _add_in_pipelines(server: Server, requests: int) -> None:
    benchmark(server, requests, *ADD, pipeline=PIPELINE, random_below=RANDOM_BELOW)


def row_name(number: int) -> str:
    """The name of the row of XADD with so many replicas."""
    return f"replicas-{number}"


def _xadd_row(number: int) -> Row:
    followers = {0: "no replica", 1: "one replica"}.get(number, f"{number} replicas")
    return _row(row_name(number), followers, partial(xadd, number=number))


def _read_row(number: int) -> Row:
    readers = "one reader" if number == 1 else f"{number} readers"
    return _row(f"replicas-read-{number}", f"{readers} of the stream", partial(read_xadd, number=number))


def _row(name: str, with_whom: str, run: Callable[[PeerServer], Sample]) -> Row:
    return Row(name, f"XADD, pipeline {PIPELINE}, {with_whom}", "requests/s", run, runs=5)


ROWS = tuple(
    replace(row, is_usual=False, table=TABLE)
    for row in (
        *map(_xadd_row, COUNTS),
        *map(_read_row, COUNTS[1:]),
        Row(
            "replicas-full-sync",
            "full synchronization of 1 M entries, 100 k pending",
            "s",
            full_sync,
            fill_pending,
            target=3,
            runs=3,
            is_rate=False,
        ),
        Row("replicas-lag", f"lag at {RATE:,} XADD/s, p99", "ms", lag, target=1, runs=3, is_rate=False),
        Row(
            "replicas-cut",
            f"bytes sent for each byte missed, cut of {DURING_CUT:,} XADD",
            "bytes",
            cut,
            target=1,
            runs=3,
            is_rate=False,
        ),
        Row("replicas-backlog", "resident bytes of a full backlog, each", "bytes", backlog, runs=1, is_rate=False),
    )
)
