"""The metrics endpoint: values of its series, both formats, the limit, and what it refuses; over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from headrace.commands.core.table import DECLARED
from headrace.persistence.syncing import FsyncTimes
from headrace.server.reports import metrics
from headrace.server.reports.series import ALL_SERIES, SERVER_SERIES, table_lines
from headrace.server.sockets import metrics_endpoint
from headrace.server.sockets.listener import ListenError
from headrace.server.sockets.metrics_endpoint import LIBRARY_MISSING, MetricsEndpoint
from support.inprocess import START_MS, Rig
from support.ports import free_port

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# By series and label values, in the alphabetical order of the labels.
Values = dict[tuple[str, ...], float]


def ask(rig: Rig, accept: str = "") -> tuple[str, str]:
    """The text and its content type, without HTTP."""
    steps = metrics.render_steps(rig.server, accept)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value[0].decode(), end.value[1]


def values(text: str, parse: Any = parse_text) -> Values:
    return {(sample.name, *sample.labels.values()): sample.value for family in parse(text) for sample in family.samples}


@pytest.fixture
def rig() -> Rig:
    """A stream whose group has had deliveries, acknowledgements, claims and releases, one of them fatal."""
    rig = Rig()
    caller = rig.connect()
    caller.call(*(f"XADD s {number}-1 f v" for number in range(1, 11)), "XGROUP CREATE s g 0")
    caller.call("XREADGROUP GROUP g ann COUNT 6 STREAMS s >", "XREADGROUP GROUP g bob COUNT 1 NOACK STREAMS s >")
    caller.call("XACK s g 1-1 1-1", "XACKDEL s g IDS 1 2-1")
    rig.pass_time(4000)
    caller.call("XCLAIM s g bob 0 3-1", "XNACK s g FAIL IDS 1 4-1", "XNACK s g FATAL IDS 1 5-1")
    caller.call("XREADGROUP GROUP g bob CLAIM 1000 COUNT 1 STREAMS s >", "XAUTOCLAIM s g bob 1000 0 COUNT 1")
    caller.call("XNACK s g SILENT IDS 1 3-1")
    rig.pass_time(2500)
    return rig


def test_group_series_count_the_ends_of_its_entries(rig: Rig) -> None:
    found = values(ask(rig)[0])
    group = {name[0].removeprefix("headrace_group_"): value for name, value in found.items() if "group_" in name[0]}
    assert {name for name in found if name[0].startswith("headrace_group_")} == {
        (f"headrace_group_{name}", "0", "g", "s") for name in group
    }
    assert group == {
        "consumers": 2,
        "pending": 4,
        "released": 1,
        "oldest_pending_seconds": 6.5,
        "lag": 3,
        "deliveries_total": 7,
        "claims_total": 3,
        "acks_total": 2,
        "releases_total": 3,
        "dead_letters_total": 1,
    }


def test_group_with_a_policy_has_series_of_what_it_does() -> None:
    rig = Rig()
    ann, bob = rig.connect(), rig.connect()
    bob.call(*(f"XADD s {number}-1 f v" for number in range(1, 5)), "XGROUP CREATE s g 0")
    bob.call("XGROUP CONFIG s g REDELIVER 1000 GUARD yes MAX-DELIVERIES 2 DEADLETTER dead CONSUMER-TTL 5000")
    bob.call("XREADGROUP GROUP g bob COUNT 1 STREAMS s >", "XNACK s g FAIL IDS 1 1-1 DELAY 60000")
    bob.call("XREADGROUP GROUP g bob COUNT 1 STREAMS s >", "XNACK s g FATAL IDS 1 2-1")
    bob.call("XREADGROUP GROUP g bob COUNT 1 STREAMS s >", "XNACK s g FAIL IDS 1 3-1")
    ann.call("XREADGROUP GROUP g ann COUNT 1 STREAMS s >")
    bob.session.close()
    rig.pass_time(5000)
    ann.call("SET text x", "XGROUP CONFIG s g DEADLETTER text", "XADD s 5-1 f v")
    ann.call("XREADGROUP GROUP g ann STREAMS s >", "XNACK s g FATAL IDS 1 5-1")
    found = values(ask(rig)[0])
    names = ("redeliveries_total", "moved_dead_letters_total", "dead_letter_failures_total", "expired_consumers_total")
    assert [found[f"headrace_group_{name}", "0", "g", "s"] for name in names] == [1, 1, 1, 1]
    assert found["headrace_group_delayed", "0", "g", "s"] == 1
    assert found["headrace_group_parked", "0", "g", "s"] == 1
    assert found["headrace_group_guarded", "0", "g", "s"] >= 1


def test_stream_series_count_entries_and_groups(rig: Rig) -> None:
    found = values(ask(rig)[0])
    assert found["headrace_stream_entries", "0", "s"] == 9
    assert found["headrace_stream_entries_added_total", "0", "s"] == 10
    assert found["headrace_stream_groups", "0", "s"] == 1


def test_lag_is_there_unless_it_is_unknowable() -> None:
    rig = Rig()
    rig.connect().call("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0")
    lag = ("headrace_group_lag", "0", "g", "s")
    assert values(ask(rig)[0])[lag] == 3
    rig.connect().call("XGROUP SETID s g 2-1", "XDEL s 3-1")
    assert b"$3\r\nlag\r\n$-1" in rig.connect().call("XINFO GROUPS s")
    assert lag not in values(ask(rig)[0])


def test_what_a_load_replays_is_not_counted(rig: Rig, tmp_path: Path) -> None:
    rig.config.dir = os.fsencode(tmp_path)
    rig.config.enable_debug_command = b"yes"
    rig.connect().call("DEBUG RELOAD")
    found = values(ask(rig)[0])
    assert found["headrace_group_pending", "0", "g", "s"] == 4
    assert found["headrace_group_claims_total", "0", "g", "s"] == 0


def test_server_series_come_from_the_server(rig: Rig) -> None:
    rig.connect().call("XLEN none", "SELECT 3", "SET k v PX 100000", "GET k", "XLEN k", "VADD h 0 f", "vadd h", "NONE")
    found = values(ask(rig)[0])
    assert found["headrace_start_time_seconds",] == START_MS / 1000
    assert found["headrace_keys", "3"] == found["headrace_expiring_keys", "3"] == 1
    assert found["headrace_command_calls_total", "xlen"] >= 2
    assert found["headrace_command_failures_total", "xlen"] >= 1
    assert found["headrace_errors_total", "WRONGTYPE"] == 1
    assert found["headrace_unserved_calls_total", "VADD"] == 2
    assert found["headrace_unserved_calls_total", "unknown"] == 1
    assert found["headrace_keyspace_misses_total",] == 1
    assert found["headrace_log_enabled",] == found["headrace_writes_refused",] == 0
    assert found["headrace_resident_memory_bytes",] > 1 << 20


def test_memory_cpu_and_descriptors_are_those_of_the_process(rig: Rig) -> None:
    rig.config.maxmemory = 1 << 30
    found = values(ask(rig)[0])
    assert 0 < found["headrace_used_memory_bytes",] < found["headrace_resident_memory_bytes",]
    assert found["headrace_memory_limit_bytes",] == 1 << 30
    assert found["headrace_cpu_seconds_total", "user"] > 0
    assert found["headrace_cpu_seconds_total", "system"] >= 0
    if Path("/proc/self/fd").exists():
        assert 3 <= found["headrace_open_descriptors",] <= found["headrace_descriptors_limit",]


def test_command_latencies_are_a_histogram(rig: Rig) -> None:
    """Each bucket has the calls of the shorter ones, and the last one all calls."""
    rig.server.stats.reset()
    row = DECLARED[b"XLEN"]
    for duration_ns in (500, 3_000, 3_000, 2_000_000, 60_000_000_000):
        row.durations.add(duration_ns)
    found = values(ask(rig)[0])
    name = "headrace_command_duration_seconds"
    buckets = {key[2]: value for key, value in found.items() if key[:2] == (f"{name}_bucket", "xlen")}
    expected = {"1e-06": 1, "4e-06": 3, "1.6e-05": 3, "0.001024": 3, "0.004096": 4, "4.194304": 4, "+Inf": 5}
    assert {edge: buckets[edge] for edge in expected} == expected
    assert len(buckets) == 13
    assert found[f"{name}_count", "xlen"] == 5
    assert found[f"{name}_sum", "xlen"] == pytest.approx(60, abs=1)


def test_counters_of_calls_count_those_that_the_histogram_leaves_out(rig: Rig) -> None:
    client = rig.connect()
    client.call("CONFIG RESETSTAT", "XLEN k", "CONFIG SET latency-tracking no", "XLEN k", "XLEN k")
    found = values(ask(rig)[0])
    client.call("CONFIG SET latency-tracking yes")
    assert found["headrace_command_duration_seconds_count", "xlen"] == 1
    assert found["headrace_command_calls_total", "xlen"] == 3
    histogram_s = found["headrace_command_duration_seconds_sum", "xlen"]
    assert found["headrace_command_seconds_total", "xlen"] > histogram_s > 0


def test_fsyncs_are_a_histogram_while_there_is_a_log(rig: Rig) -> None:
    assert "headrace_log_fsync_duration_seconds_count 0" not in ask(rig)[0]
    times = FsyncTimes()
    for duration_ns in (10_000, 300_000, 2_000_000_000, 60_000_000_000):
        times.add(duration_ns)
    log = SimpleNamespace(fsync_times=times, delayed_fsyncs_count=2, current_size=7)
    source = SimpleNamespace(log=log)
    named = {series.name: list(series.read(source)) for series in SERVER_SERIES if "_log_" in series.name}
    (((), histogram),) = named["headrace_log_fsync_duration_seconds"]
    assert [count for _, count in histogram.buckets] == [1, 1, 2, 2, 2, 2, 2, 2, 3, 3]
    assert (histogram.count, histogram.sum_s) == (4, pytest.approx(62.00031))
    assert named["headrace_log_delayed_fsyncs"] == [((), 2)]


def test_openmetrics_is_sent_on_request(rig: Rig) -> None:
    text, content_type = ask(rig, OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert text.count("# EOF\n") == 1
    assert values(text, parse_openmetrics).keys() == values(ask(rig)[0]).keys()
    assert ask(rig)[1].startswith("text/plain")


def test_streams_beyond_the_cap_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "GROUP_COUNT_MAX", 2)
    rig = Rig(metrics_streams_max=2)
    rig.connect().call("SET text v", *(f"XGROUP CREATE s{number} g $ MKSTREAM" for number in range(5)))
    rig.connect().call("XGROUP CREATE s0 h $", "XGROUP CREATE s0 i $")
    found = values(ask(rig)[0])
    assert {name[2] for name in found if name[0] == "headrace_stream_entries"} == {"s0", "s1"}
    assert found["headrace_metrics_streams_left_out",] == 3
    assert found["headrace_metrics_groups_left_out",] == 1


def test_names_that_are_no_text_are_shown_escaped() -> None:
    rig = Rig()
    rig.connect().call(r'XADD "s\xff\n\"" 1-1 f v')
    assert values(ask(rig)[0])["headrace_stream_entries", "0", '\\xff\n"'.join(("s", ""))] == 1


def test_walk_over_many_streams_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "STREAM_COUNT_PER_STEP", 10)
    rig = Rig()
    rig.connect().call(*(f"XADD s{number} * f v" for number in range(100)))
    assert sum(1 for _ in metrics.Harvest(rig.server, 60).steps()) == 6


def test_every_series_is_documented_and_shown(rig: Rig) -> None:
    text = DOCUMENT.read_text()
    found = re.search(r"<!-- series: [^\n]*-->\n(.*)\n<!-- end of series -->", text, re.DOTALL)
    assert found is not None
    assert found[1].splitlines() == list(table_lines())
    shown = ask(rig)[0]
    assert all(f"# TYPE {series.name}" in shown for series in ALL_SERIES)


# -- over HTTP -------------------------------------------------------------------------------------


@pytest.fixture
async def endpoint(rig: Rig) -> AsyncIterator[MetricsEndpoint]:
    rig.config.metrics_port = free_port()
    endpoint = MetricsEndpoint(rig.server.config, rig.server)
    await endpoint.start()
    yield endpoint
    endpoint.stop()


async def http(endpoint: MetricsEndpoint, request: str) -> tuple[str, dict[str, str], str]:
    """Status line, headers and body."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*endpoint.addresses[0])
        writer.write(request.encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
    status, *lines = head.split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def test_scrape_over_http(endpoint: MetricsEndpoint) -> None:
    status, headers, body = await http(
        endpoint, f"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\naccept: {OPENMETRICS},text/plain;q=0.1\r\n\r\n"
    )
    assert status == "HTTP/1.1 200 OK"
    assert int(headers["Content-Length"]) == len(body.encode())
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert 'headrace_group_pending{db="0",group="g",stream="s"} 4' in body


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
        ("HEAD /healthz HTTP/1.1\r\n\r\n", "200 OK"),
        ("GET /other HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("PING\r\n\r\n", "400 Bad Request"),
        ("GET /metrics HTTP/1.1\r\nX: " + "x" * 20000 + "\r\n\r\n", "431 Request Header Fields Too Large"),
    ],
)
async def test_other_requests_get_a_status(endpoint: MetricsEndpoint, request_text: str, status: str) -> None:
    answer, _, body = await http(endpoint, request_text)
    assert answer == f"HTTP/1.1 {status}"
    assert (body == "") == request_text.startswith("HEAD")


async def test_root_links_to_what_there_is(endpoint: MetricsEndpoint) -> None:
    status, headers, body = await http(endpoint, "GET / HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"].startswith("text/html")
    for path in re.findall(r'href="([^"]*)"', body):
        assert (await http(endpoint, f"GET {path} HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK", path
    assert body.count("href") == 2


async def test_health_says_why_clients_are_not_served(endpoint: MetricsEndpoint, rig: Rig) -> None:
    request = "GET /healthz HTTP/1.1\r\n\r\n"
    assert (await http(endpoint, request))[::2] == ("HTTP/1.1 200 OK", "ok\n")
    rig.server.context.loading = True
    loading = await http(endpoint, request)
    assert loading[::2] == ("HTTP/1.1 503 Service Unavailable", "the dataset is being loaded\n")
    rig.server.context.loading = False
    rig.dispatcher.admission.is_save_failing = True
    refusing = await http(endpoint, request)
    assert refusing[::2] == (
        "HTTP/1.1 503 Service Unavailable",
        "writes are refused: the log or the snapshot cannot be written\n",
    )


async def test_half_a_request_ends_when_its_time_is_over(
    endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_endpoint, "SECONDS_MAX", 0.01)
    assert await http(endpoint, "GET /metrics HTTP/1.1\r\n") == ("", {}, "")


async def test_a_peer_that_does_not_read_ends_when_its_time_is_over(
    endpoint: MetricsEndpoint, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is larger than the buffers of the sockets."""

    def text(*_: object) -> metrics.Steps:
        yield
        return b"x" * (64 << 20), "text/plain"

    endpoint._render_steps = text
    monkeypatch.setattr(metrics_endpoint, "SECONDS_MAX", 0.1)
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*endpoint.addresses[0])
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        while not endpoint._answering:
            await asyncio.sleep(0)
        while endpoint._answering:
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionResetError):
            assert len(await reader.read()) < 64 << 20
        writer.close()


async def test_half_requests_take_no_more_than_their_places_and_delay_no_other(
    endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_endpoint, "SECONDS_MAX", 1000)
    async with asyncio.timeout(20):
        peers = []
        for _ in range(300):
            reader, writer = await asyncio.open_connection(*endpoint.addresses[0])
            writer.write(b"GET /metrics HTTP/1.1\r\n")
            peers.append((reader, writer))
        assert (await http(endpoint, "GET /metrics HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"
        for reader, _ in peers[: -metrics_endpoint.WAITING_COUNT_MAX]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        for _, writer in peers:
            writer.close()


async def test_too_many_at_one_time_get_status_503(endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "SCRAPE_COUNT_MAX", 0)
    answer, _, _ = await http(endpoint, "GET /metrics HTTP/1.1\r\n\r\n")
    assert answer == "HTTP/1.1 503 Service Unavailable"


async def test_metrics_are_where_metrics_bind_says(rig: Rig) -> None:
    rig.config.metrics_port, rig.config.metrics_bind = free_port(), b"127.0.0.2 127.0.0.3"
    endpoint = MetricsEndpoint(rig.server.config, rig.server)
    await endpoint.start()
    assert [address for address, _ in endpoint.addresses] == ["127.0.0.2", "127.0.0.3"]
    assert (await http(endpoint, "GET /metrics HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"
    endpoint.stop()


async def test_without_a_port_nothing_listens(rig: Rig) -> None:
    endpoint = MetricsEndpoint(rig.server.config, rig.server)
    await endpoint.start()
    assert endpoint.addresses == []


async def test_missing_library_is_said_in_one_line(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.config.metrics_port = free_port()
    monkeypatch.setitem(sys.modules, "headrace.server.reports.metrics", None)
    with pytest.raises(ListenError) as refusal:
        await MetricsEndpoint(rig.server.config, rig.server).start()
    assert str(refusal.value) == LIBRARY_MISSING


async def test_port_in_use_names_the_directive(endpoint: MetricsEndpoint, rig: Rig) -> None:
    with pytest.raises(ListenError, match=r"choose another port \(--metrics-port\)"):
        await MetricsEndpoint(rig.server.config, rig.server).start()
