"""The latency monitor: which samples it keeps, its report and its drawing; histograms of calls."""

from __future__ import annotations

import re
import time
from itertools import count
from pathlib import Path

import pytest

from headrace.commands.core.durations import Durations
from headrace.commands.observing.latency import SAMPLE_COUNT_MAX, History, LatencyMonitor
from headrace.commands.observing.latency_report import age, doctor, graph
from support.inprocess import Rig
from support.servers import Server
from support.wire import Wire

MS = 1_000_000
LETTER_PAIRS = 2_000
# Headrace needs less time for each. With more, Redis would refuse for lack of memory.
LETTER_PAIRS_OF_HEADRACE = 5_700
NOW_S = 1_700_000_000


def monitor(**samples: list[tuple[int, int]]) -> LatencyMonitor:
    """A monitor with these samples (seconds ago, ms) by event; `_` in a name replaces a dash."""
    found = LatencyMonitor()
    found.threshold_ms = 1
    for event, pairs in samples.items():
        for ago_s, duration_ms in pairs:
            found.note(event.replace("_", "-"), duration_ms * MS, (NOW_S - ago_s) * 1000)
    return found


def test_what_is_below_the_threshold_or_unwatched_is_not_kept() -> None:
    latency = LatencyMonitor()
    latency.note("command", 10 * MS, 0)
    latency.threshold_ms = 10
    latency.note("command", 10 * MS - 1, 0)
    assert latency.histories == {}
    latency.note("command", 10 * MS, 0)
    assert list(latency.histories) == ["command"]


def test_longest_of_each_second_stays() -> None:
    history = History()
    for time_s, duration_ms in ((1, 5), (1, 9), (1, 7), (2, 3)):
        history.add(time_s, duration_ms)
    assert [(sample.time_s, sample.duration_ms) for sample in history.samples] == [(1, 9), (2, 3)]
    assert history.longest_ms == 9


def test_only_the_last_samples_stay() -> None:
    history = History()
    for time_s in range(SAMPLE_COUNT_MAX + 5):
        history.add(time_s, 100 - time_s % 100)
    assert len(history.samples) == SAMPLE_COUNT_MAX
    assert history.samples[0].time_s == 5


def test_drawing_has_twelve_heights_and_ages_below() -> None:
    latency = monitor(command=[(7200, 10), (60, 22), (3, 34), (0, 130)])
    assert graph("command", latency.histories["command"], NOW_S) == (
        "command - high 130 ms, low 10 ms (all time high 130 ms)\n"
        + "-" * 80
        + "\n   #\n   |\n   |\n_o#|\n    \n2130\nhmss\n"
    )


def test_drawing_of_many_samples_is_cut_into_lines() -> None:
    latency = monitor(command=[(100 - number, 5) for number in range(100)])
    _, _, *rows = graph("command", latency.histories["command"], NOW_S).split("\n")
    assert max(map(len, rows)) == 80
    assert sum(row.count("_") for row in rows) == 100


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86400 * 3, "3d")])
def test_ages(seconds: int, text: str) -> None:
    assert age(seconds) == text


def test_report_counts_and_advises() -> None:
    text = doctor(monitor(command=[(10, 20), (0, 40)], aof_fsync_always=[(0, 5)]), NOW_S)
    assert (
        "1. command: 2 latency spikes (average 30ms, mean deviation 10ms, period 5.00 sec). Worst all time event 40ms."
        in text
    )
    assert "2. aof-fsync-always: 1 latency spikes" in text
    assert "SLOWLOG GET" in text
    assert "appendfsync everysec" in text
    assert "expire" not in text


def test_report_without_monitoring_says_how_to_begin() -> None:
    assert "CONFIG SET latency-monitor-threshold" in doctor(LatencyMonitor(), NOW_S)
    assert "no latency spike" in doctor(monitor(), NOW_S)


def take_time(wire: Wire, pairs: int) -> None:
    """Run a command that has enough to do for many milliseconds: it compares all letters of one text with all of
    another.
    """
    wire.call("MSET", "one", "ab" * pairs, "other", "ba" * pairs)
    assert wire.ask("LCS", "one", "other", "LEN") == 2 * pairs - 1


def latest(wire: Wire) -> dict[bytes, list[int]]:
    """LATENCY LATEST by event: a slow machine may have other events than the expected one."""
    return {event: numbers for event, *numbers in wire.ask("LATENCY", "LATEST")}


def test_commands_are_kept_by_their_kind(server: Server) -> None:
    with server.connect() as wire:
        wire.call("LATENCY", "RESET")
        began_s = time.monotonic()
        wire.call("CONFIG", "SET", "latency-monitor-threshold", "1")
        take_time(wire, LETTER_PAIRS_OF_HEADRACE if server.is_headrace else LETTER_PAIRS)
        wire.call("CONFIG", "SET", "latency-monitor-threshold", "0")
        spent_ms = (time.monotonic() - began_s) * 1000
        last_s, last_ms, longest_ms = latest(wire)[b"command"]
        assert 1 <= longest_ms <= spent_ms
        samples = wire.ask("LATENCY", "HISTORY", "command")
        assert samples[-1] == [last_s, last_ms]
        assert max(duration_ms for _, duration_ms in samples) == longest_ms
        assert b". command: %d latency spikes (average " % len(samples) in wire.ask("LATENCY", "DOCTOR")
        history = History()
        for sample in samples:
            history.add(*sample)
        asked_s = int(time.time())
        drawn = wire.ask("LATENCY", "GRAPH", "command").decode()
        assert drawn in [graph("command", history, now_s) for now_s in range(asked_s, int(time.time()) + 1)]
        assert wire.ask("LATENCY", "HISTORY", "nosuch") == []
        assert wire.call("LATENCY", "GRAPH", "nosuch") == b"-ERR No samples available for event 'nosuch'\r\n"
        assert wire.ask("LATENCY", "RESET", "nosuch", "command") == 1
        assert b"command" not in latest(wire)


def test_histograms_name_commands_as_redis_does(server: Server) -> None:
    with server.connect(3) as wire:
        wire.call("CONFIG", "RESETSTAT")
        for _ in range(3):
            wire.call("GET", "k")
        wire.call("CLIENT", "ID")
        found = wire.ask("LATENCY", "HISTOGRAM", "GET", "client", "config|resetstat", "nosuch", "config|nosuch", "set")
        assert found.keys() == {b"get", b"client|id", b"config|resetstat"}
        assert found[b"get"][b"calls"] == 3
        assert list(found[b"get"][b"histogram_usec"].values())[-1] == 3
        assert found.keys() < wire.ask("LATENCY", "HISTOGRAM").keys()


def test_edges_of_histograms_are_those_of_redis(headrace: Server) -> None:
    durations = Durations()
    for exponent in range(10, 34):
        durations.add((1 << exponent) - 1)
    edges = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816, 67633, 135266, 270532]
    assert [shown for shown, _ in durations.cumulative_us()][: len(edges)] == edges
    last_us, total = durations.cumulative_us()[-1]
    assert (last_us, total) == (1_082_130, 24)
    with headrace.connect(3) as wire:
        wire.call("CONFIG", "RESETSTAT")
        take_time(wire, LETTER_PAIRS)
        (spent_us,) = re.findall(rb"cmdstat_lcs:calls=1,usec=(\d+),", wire.ask("INFO", "commandstats"))
        ((edge_us, count),) = wire.ask("LATENCY", "HISTOGRAM", "lcs")[b"lcs"][b"histogram_usec"].items()
        assert count == 1
        spent_ns = int(spent_us) * 1000
        assert edge_us in {_edge_us(spent_ns), _edge_us(spent_ns + 999)}, "INFO leaves out what is below a microsecond"


def _edge_us(duration_ns: int) -> int:
    durations = Durations()
    durations.add(duration_ns)
    ((edge_us, _),) = durations.cumulative_us()
    return edge_us


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which everything takes 7 ms."""
    for module in ("commands.observing.latency", "server.storage.snapshots"):
        monkeypatch.setattr(f"headrace.{module}.perf_counter_ns", count(step=7 * MS).__next__)


@pytest.mark.usefixtures("slow_machine")
def test_server_notes_what_it_does_besides_commands(tmp_path: Path) -> None:
    rig = Rig(appendfsync=b"always", appendonly=True, dir=bytes(tmp_path), latency_monitor_threshold=5)
    server = rig.server
    server.snapshots.runner.call_later = lambda _, call: None
    server.load_now()
    rig.connect().call("SET k v")
    server.dispatcher.outgoing.clear()
    server.log_keeper.write()
    server.periodic.run()
    server.storage.rewrite_log(may_start=True)
    server.snapshots.stop()
    server.log_keeper.lock.release()
    found = {event: history.longest_ms for event, history in server.context.latency.histories.items()}
    assert found == {"aof-write": 7, "aof-fsync-always": 7, "expire-cycle": 7, "fork": 7}
    assert (server.stats.forks, server.stats.latest_fork_us) == (1, 7000)


@pytest.mark.usefixtures("slow_machine")
def test_unwatched_work_is_not_timed() -> None:
    latency = LatencyMonitor()
    assert latency.run("expire-cycle", lambda: 5, lambda: 0) == 5
    assert latency.histories == {}
