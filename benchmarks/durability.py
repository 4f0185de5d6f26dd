"""Rows about persistence: loading a log, and the delays of clients during a rewrite."""

from __future__ import annotations

import shutil
from pathlib import Path
from time import monotonic, perf_counter

from benchmarks.load import Refused, cpu_time
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import deliver, fill, new_group

from support.wire import Wire, encode

RELOAD_ENTRIES = 500_000
RELOAD_PENDING = 100_000
RELOAD_CONSUMERS = 10
RELOAD_DEADLINE_S = 600.0
REWRITE_ENTRIES = 1_000_000
REWRITE_PENDING = 100_000
# PINGs between two looks at whether the rewrite has ended.
PINGS_PER_LOOK = 200
IDLE_S = 2.0


def reload_seconds(server: PeerServer) -> Sample:
    """From the start of the process to the first PONG, on a rewritten log of 500,000 entries, 100,000 of them pending.

    The log is what Redis writes: one XADD an entry and one XCLAIM a pending entry, consumer by consumer. Ten consumers
    took turns in reading, so times of delivery do not ascend in the log.
    """
    folder = server.folder / "reload"
    shutil.rmtree(folder, ignore_errors=True)
    write_log(folder / "appendonlydir")
    loading = PeerServer(server.peer, folder, "--appendonly", "yes", start_deadline_s=RELOAD_DEADLINE_S)
    started_s = perf_counter()
    loading.start()
    sample = Sample(perf_counter() - started_s, cpu_time(loading) * 1e6 / (RELOAD_ENTRIES + RELOAD_PENDING))
    loading.kill()
    return sample


def write_log(folder: Path) -> None:
    """A manifest, a base and an empty increment."""
    folder.mkdir(parents=True)
    names = "appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof"
    (folder / "appendonly.aof.manifest").write_text(f"file {names[0]} seq 1 type b\nfile {names[1]} seq 1 type i\n")
    (folder / names[1]).touch()
    start_ms = 1_700_000_000_000
    with (folder / names[0]).open("wb") as base:
        base.write(encode(("SELECT", 0)))
        for number in range(RELOAD_ENTRIES):
            fields = ("sensor", f"sensor-{number:012}", "kind", "temperature", "value", f"{number:012}")
            base.write(encode(("XADD", "s", f"{start_ms + number}-0", *fields)))
        base.write(encode(("XGROUP", "CREATE", "s", "g", f"{start_ms + RELOAD_PENDING - 1}-0")))
        for consumer in range(RELOAD_CONSUMERS):
            for number in range(consumer, RELOAD_PENDING, RELOAD_CONSUMERS):
                entry_id, time_ms = f"{start_ms + number}-0", start_ms + number
                claim = ("XCLAIM", "s", "g", f"c{consumer}", 0, entry_id, "TIME", time_ms, "RETRYCOUNT", 1)
                base.write(encode((*claim, "JUSTID", "FORCE")))


def prepare_rewrite(server: PeerServer) -> None:
    """A million entries, a tenth of them pending."""
    fill(server, "rewritten", REWRITE_ENTRIES)
    new_group(server, "rewritten")
    deliver(server, "rewritten", REWRITE_PENDING)


def worst_ping_during_rewrite(server: PeerServer) -> Sample:
    """The longest of the PINGs that follow each other from BGREWRITEAOF, which another connection has just sent, until
    it has ended, in ms."""
    deadline_s = monotonic() + RELOAD_DEADLINE_S
    worst_s = 0.0
    with server.connect() as asking, server.connect() as wire:
        wire.call("PING")
        asking.send("BGREWRITEAOF")
        while True:
            worst_s = max(worst_s, worst_ping(wire, PINGS_PER_LOOK))
            if b"aof_rewrite_in_progress:1" not in wire.ask("INFO", "persistence") or monotonic() > deadline_s:
                break
        reply = asking.receive()
    if reply.startswith(b"-") or monotonic() > deadline_s:
        raise Refused(reply.decode().strip())
    return Sample(worst_s * 1000)


def worst_ping_of_an_idle_server(server: PeerServer) -> Sample:
    """The worst PING in the time of Headrace's rewrite, while the server has nothing else to do: what the machine and
    this client make of it."""
    end_s = monotonic() + IDLE_S
    worst_s = 0.0
    with server.connect() as wire:
        while monotonic() < end_s:
            worst_s = max(worst_s, worst_ping(wire, PINGS_PER_LOOK))
    return Sample(worst_s * 1000)


def worst_ping(wire: Wire, count: int) -> float:
    """The longest of `count` PINGs, in seconds."""
    worst_s = 0.0
    for _ in range(count):
        started_s = perf_counter()
        wire.call("PING")
        worst_s = max(worst_s, perf_counter() - started_s)
    return worst_s


ROWS = (
    Row(
        "reload",
        "reload of 500 k entries, 100 k pending",
        "s",
        reload_seconds,
        target=10.0,
        runs=1,
        is_rate=False,
        is_usual=False,
    ),
    Row(
        "rewrite",
        "worst PING while 1 M entries are rewritten",
        "ms",
        worst_ping_during_rewrite,
        prepare_rewrite,
        target=5.0,
        runs=7,
        is_rate=False,
        is_usual=False,
    ),
    Row(
        "idle",
        "worst PING in two seconds of nothing else",
        "ms",
        worst_ping_of_an_idle_server,
        runs=7,
        is_rate=False,
        is_usual=False,
    ),
)
