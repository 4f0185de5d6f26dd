"""INFO's text: sections, order, and numbers that come from the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import __version__
from headrace.commands import registry
from headrace.commands.admin import info as info_command
from headrace.commands.clients.blocking import Blocked
from headrace.commands.clients.client import Client
from headrace.commands.core.durations import Durations
from headrace.commands.core.slow_tally import SlowTally
from headrace.commands.core.table import TABLE
from headrace.commands.execution.context import Context
from headrace.replication.history import History
from headrace.server.configuration.config import Config
from headrace.server.replication.failover import State
from headrace.server.reports.info import render
from headrace.server.reports.info_storage import human_size
from headrace.server.reports.stats import Stats
from headrace.server.storage.job_results import JobResults
from headrace.server.storage.key_walks import ActiveExpiry
from headrace.store.database import Store
from support.inprocess import Rig

NOW_MS = 1_700_000_100_000

assert registry.FAMILIES, "importing the registry fills the command table"


def make_context() -> Context:
    """A context without clients, whose clock stands still."""
    context = Rig().server.context
    context.clock_us = lambda: NOW_MS * 1000
    return context


@dataclass
class FakeServer:
    config: Config = field(default_factory=Config)
    stats: Stats = field(default_factory=lambda: Stats(started_ms=NOW_MS - 90_000_000))
    store: Store = field(default_factory=Store)
    log: Any = None
    started_ms: int = NOW_MS - 90_000_000
    supervised_by: str = "no"
    context: Context = field(default_factory=make_context)
    clients: dict[int, Client] = field(default_factory=dict)
    loading: Any = field(
        default_factory=lambda: SimpleNamespace(
            started_ms=NOW_MS, total_size=200, read_size=50, eta_s=9, keys_loaded=0, keys_expired=0
        )
    )
    primary: Any = field(
        default_factory=lambda: SimpleNamespace(
            history=History(), backlog=None, replicas=[], good_count=0, memory_size=0, info_lines=lambda now_ms: []
        )
    )
    following: Any = field(default_factory=lambda: SimpleNamespace(address=None))
    failover: Any = field(default_factory=lambda: SimpleNamespace(state=State.NONE))
    stopping: Any = field(default_factory=lambda: SimpleNamespace(remaining_ms=None))
    backups: Any = field(default_factory=lambda: SimpleNamespace(backup=SimpleNamespace(is_running=False)))
    snapshots: Any = field(
        default_factory=lambda: SimpleNamespace(
            rewrite=JobResults(),
            is_rewrite_scheduled=False,
            save=JobResults(),
            keys_done=0,
            keys_total=0,
            changes_count=3,
            last_save_ms=NOW_MS,
        )
    )

    memory: Any = field(
        default_factory=lambda: SimpleNamespace(
            measure=lambda: 2048,
            peak_size=4096,
            peak_ms=NOW_MS,
            dataset_size=1024,
            clients_size=512,
            fragmentation=lambda used, resident: (1.25, 4096),
        )
    )

    expiry: ActiveExpiry = field(default_factory=lambda: ActiveExpiry(Store()))

    def clock(self) -> int:
        return NOW_MS


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def fields(server: FakeServer, *sections: bytes) -> dict[str, str]:
    lines = render(server, sections).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def titles(server: FakeServer, *sections: bytes) -> str:
    return " ".join(line[2:] for line in render(server, sections).decode().split("\r\n") if line.startswith("# "))


def test_default_sections_are_in_the_order_of_redis(server: FakeServer) -> None:
    expected = (
        "Server Clients Memory Persistence Threads Stats Replication CPU Hotkeys Modules Errorstats Cluster "
        "Keyspace Keysizes"
    )
    assert titles(server) == titles(server, b"default") == expected


def test_everything_adds_commandstats_and_latencystats(server: FakeServer) -> None:
    expected = (
        "Server Clients Memory Persistence Threads Stats Replication CPU Hotkeys Modules Commandstats Errorstats "
        "Latencystats Cluster Keyspace Keysizes"
    )
    assert titles(server, b"all") == titles(server, b"everything") == expected


def test_sections_are_separated_by_one_blank_line(server: FakeServer) -> None:
    assert render(server, [b"cluster", b"keyspace"]) == b"# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n"


def test_unknown_section_is_empty(server: FakeServer) -> None:
    assert render(server, [b"nosuch"]) == b""


def test_server_section_has_version_uptime_and_listeners(server: FakeServer) -> None:
    server.config.unixsocket = b"/run/h.sock"
    found = fields(server, b"server")
    assert found["redis_version"] == "8.10.2"
    assert (found["uptime_in_seconds"], found["uptime_in_days"]) == ("90000", "1")
    assert found["listener0"] == "name=tcp,bind=*,bind=-::*,port=6379"
    assert found["listener1"] == "name=unix,bind=/run/h.sock"
    assert len(found["run_id"]) == 40


def test_each_kind_of_listener_has_its_number_whichever_others_there_are(server: FakeServer) -> None:
    server.config.port, server.config.unixsocket, server.config.tls_port = 0, b"/run/h.sock", 7000
    names = {field: value.split(",")[0] for field, value in fields(server, b"server").items() if "listener" in field}
    assert names == {"listener1": "name=unix", "listener2": "name=tls"}


# By these fields tools take a server for Valkey, Dragonfly, KeyDB, Kvrocks or Garnet, most by their mere presence.
MARKS_OF_OTHER_SERVERS = (
    "server_name", "valkey_version", "valkey_release_stage", "availability_zone", "dragonfly_version", "server_threads",
    "kvrocks_version", "kvrocks_mode", "garnet_version", "mvcc_depth", "memurai_edition",
)  # fmt: skip


def test_no_field_marks_another_server_than_redis(server: FakeServer) -> None:
    found = fields(server, b"everything")
    assert not set(MARKS_OF_OTHER_SERVERS) & set(found)
    assert found["headrace_version"] == __version__


def test_clients_section_counts_waiting_clients(server: FakeServer) -> None:
    database = server.store.databases[0]
    waiting = Blocked(keys=[b"a", b"b"], argv=[b"XREAD", b"STREAMS", b"a", b"b", b"0", b"0"], block_ms=5)
    server.clients = {1: Client(1, db=database), 2: Client(2, db=database, blocked=waiting)}
    server.clients[1].transaction.watched[0, b"k"] = None
    found = fields(server, b"clients")
    assert found["connected_clients"] == "2"
    assert found["blocked_clients"] == "1"
    assert found["total_blocking_keys"] == "2"
    assert found["clients_in_timeout_table"] == "1"
    assert found["watching_clients"] == "1"


def test_memory_section_is_measured(server: FakeServer) -> None:
    found = fields(server, b"memory")
    assert (found["used_memory"], found["used_memory_peak"]) == ("2048", "4096")
    assert int(found["used_memory_rss"]) > 1 << 20
    assert found["maxmemory_policy"] == "noeviction"


def test_persistence_section_shows_the_log_only_if_there_is_one(server: FakeServer) -> None:
    assert fields(server, b"persistence")["aof_enabled"] == "0"
    assert "aof_current_size" not in fields(server, b"persistence")
    server.config.appendonly = True
    server.log = SimpleNamespace(current_size=123, base_size=100, last_write_ok=False)
    server.snapshots.rewrite.begin(NOW_MS - 2500)
    server.context.loading = True
    found = fields(server, b"persistence")
    assert (found["aof_enabled"], found["aof_current_size"], found["aof_base_size"]) == ("1", "123", "100")
    assert (found["aof_last_write_status"], found["loading"]) == ("err", "1")
    assert (found["loading_loaded_perc"], found["loading_eta_seconds"]) == ("25.00", "9")
    assert (found["aof_rewrite_in_progress"], found["aof_current_rewrite_time_sec"]) == ("1", "2")


def test_keyspace_section_names_only_databases_with_keys(server: FakeServer) -> None:
    database = server.store.databases[3]
    database.put(b"a", b"1")
    database.put(b"b", b"2")
    database.expires[b"b"] = NOW_MS + 500
    assert fields(server, b"keyspace") == {"db3": "keys=2,expires=1,avg_ttl=500,subexpiry=0"}


def test_stats_and_errors_come_from_the_counters(server: FakeServer) -> None:
    server.stats.connections_received = 4
    for code in (b"WRONGTYPE", b"ERR", b"ERR"):
        server.stats.count_error(code)
    found = fields(server, b"stats", b"errorstats")
    assert (found["total_connections_received"], found["total_error_replies"]) == ("4", "3")
    lines = render(server, [b"errorstats"])
    assert lines == b"# Errorstats\r\nerrorstat_ERR:count=2\r\nerrorstat_WRONGTYPE:count=1\r\n"


def test_commandstats_come_from_the_table(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert info_command.info is TABLE[b"INFO"].handler
    row = TABLE[b"INFO"]
    monkeypatch.setattr(row, "durations", Durations())
    for duration_ns in (1_000_000, 3_000_000):
        row.durations.add(duration_ns)
    monkeypatch.setattr(row, "failed_calls", 1)
    found = fields(server, b"commandstats")
    plain = "calls=2,usec=4000,usec_per_call=2000.00,rejected_calls=0,failed_calls=1"
    assert found["cmdstat_info"] == plain
    monkeypatch.setattr(row, "slow_tally", SlowTally(count=2, total_us=4000, longest_us=3000))
    found = fields(server, b"commandstats")
    assert found["cmdstat_info"] == f"{plain},slowlog_count=2,slowlog_time_ms_sum=4.00,slowlog_time_ms_max=3.00"


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0B"), (1023, "1023B"), (801576, "782.79K"), (25276502016, "23.54G"), (1 << 60, "1024.00P")]
)
def test_human_sizes_are_those_of_redis(size: int, shown: str) -> None:
    assert human_size(size) == shown


def following(**changes: Any) -> SimpleNamespace:
    """What INFO reads of a replica whose link is down, with these changes."""
    facts: dict[str, Any] = {
        "address": (b"10.0.0.1", 6379), "link": None, "is_up": False, "up_s": 0, "down_s": -1, "down_total_ms": 0,
        "attempts": SimpleNamespace(current_count=1, total_count=2), "last_error": "", "is_refusing": False,
    }  # fmt: skip
    return SimpleNamespace(**facts | changes)


def link(**changes: Any) -> SimpleNamespace:
    """What INFO reads of a link, with these changes."""
    payload = SimpleNamespace(size=-1, read_size=0)
    facts: dict[str, Any] = {"payload": payload, "incoming": None, "is_arriving": False, "silent_s": 3}
    return SimpleNamespace(**facts | changes)


# The lines of Redis that differ between the states of a link.
SYNCING = [
    "master_sync_total_bytes", "master_sync_read_bytes", "master_sync_left_bytes", "master_sync_perc",
    "master_sync_last_io_seconds_ago",
]  # fmt: skip
STATES: dict[str, tuple[SimpleNamespace, dict[str, str], list[str]]] = {
    "never up": (
        following(),
        {"master_link_status": "down", "master_link_down_since_seconds": "-1", "master_last_io_seconds_ago": "-1"},
        ["master_link_up_since_seconds", "master_link_error", *SYNCING],
    ),
    "handshake": (
        following(link=link()),
        {"master_link_status": "down", "master_sync_in_progress": "0"},
        ["master_link_up_since_seconds", *SYNCING],
    ),
    "before the size": (
        following(link=link(is_arriving=True)),
        {"master_sync_in_progress": "1", "master_sync_total_bytes": "-1", "master_sync_perc": "0.00"},
        ["master_link_up_since_seconds"],
    ),
    "transfer": (
        following(link=link(is_arriving=True, payload=SimpleNamespace(size=400, read_size=100)), down_s=7),
        {
            "master_sync_total_bytes": "400", "master_sync_read_bytes": "100", "master_sync_left_bytes": "300",
            "master_sync_perc": "25.00", "master_sync_last_io_seconds_ago": "3", "master_link_down_since_seconds": "7",
        },
        ["master_link_up_since_seconds"],
    ),
    "up": (
        following(link=link(incoming=SimpleNamespace(received=9)), is_up=True, up_s=5, down_total_ms=2500),
        {
            "master_link_status": "up", "master_last_io_seconds_ago": "3", "slave_read_repl_offset": "9",
            "slave_repl_offset": "0", "master_link_up_since_seconds": "5", "total_disconnect_time_sec": "2",
            "slave_priority": "100",
        },
        ["master_link_down_since_seconds", "master_link_error", *SYNCING],
    ),
    "refusing": (
        following(is_refusing=True, last_error="no\r\nlists", down_s=1),
        {"slave_priority": "0", "master_link_error": "no  lists"},
        ["master_link_up_since_seconds"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_replication_section_shows_the_state_of_a_replica(server: FakeServer, state: str) -> None:
    server.following, expected, absent = STATES[state]
    shown = fields(server, b"replication")
    assert shown["role"] == "slave"
    assert {name: shown.get(name) for name in expected} == expected
    assert not shown.keys() & set(absent)


def test_role_is_before_what_belongs_to_it(server: FakeServer) -> None:
    """Sentinel reads line by line."""
    server.following = following()
    names = list(fields(server, b"replication"))
    assert names[:4] == ["role", "master_host", "master_port", "master_link_status"]
    assert names.index("slave_priority") < names.index("connected_slaves")
