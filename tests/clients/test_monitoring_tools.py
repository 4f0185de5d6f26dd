"""What monitoring tools send, from their documented lists of commands: each call gets the kind of answer Redis gives.

An error must be the very error of Redis: tools ask for what a server may not have, and read that from the text.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from conftest import StartServer
from support.lines import split
from support.ports import free_port
from support.servers import Server

# oliver006/redis_exporter, with --check-keys, --check-streams and the rest of its flags.
REDIS_EXPORTER = """
    CLIENT SETNAME redis_exporter
    CONFIG GET *
    INFO ALL
    INFO MODULES
    LATENCY LATEST
    LATENCY HISTOGRAM
    LATENCY HISTOGRAM xadd xreadgroup
    SLOWLOG LEN
    SLOWLOG GET 1
    CLIENT LIST
    SENTINEL MASTERS
    SELECT 0
    SCAN 0 MATCH * COUNT 1000
    TYPE orders
    MEMORY USAGE orders
    MEMORY USAGE lock
    MEMORY USAGE nosuch
    XLEN orders
    STRLEN lock
    GET lock
    XINFO STREAM orders
    XINFO GROUPS orders
    XINFO CONSUMERS orders packers
    XINFO STREAM nosuch
    DBSIZE
    CONFIG GET maxmemory
    COMMAND COUNT
    ACL WHOAMI
    ROLE
    LASTSAVE
"""

REDIS_INSIGHT = """
    CLIENT SETNAME redisinsight-common-1
    INFO
    INFO server
    INFO keyspace
    COMMAND
    COMMAND DOCS xadd
    MODULE LIST
    ACL WHOAMI
    ACL DRYRUN default get k
    CONFIG GET databases
    DBSIZE
    SCAN 0 MATCH * COUNT 500 TYPE stream
    TYPE orders
    TTL orders
    PTTL lock
    OBJECT ENCODING orders
    OBJECT IDLETIME orders
    OBJECT REFCOUNT lock
    OBJECT FREQ lock
    OBJECT HELP
    MEMORY USAGE orders SAMPLES 0
    XINFO STREAM orders FULL
    XREVRANGE orders + - COUNT 500
    XINFO GROUPS orders
    XINFO CONSUMERS orders packers
    XPENDING orders packers - + 500 ann
    SLOWLOG GET 50
    SLOWLOG GET -1
    CONFIG GET slowlog-*
    CONFIG SET slowlog-max-len 200
    CONFIG SET slowlog-max-len 128
    SLOWLOG RESET
    SLOWLOG HELP
    CLIENT INFO
    CLIENT ID
    CLIENT GETNAME
    CLIENT NO-EVICT on
    CLIENT TRACKINGINFO
    PUBSUB CHANNELS *
    PUBSUB NUMSUB a
    MEMORY DOCTOR
    MEMORY STATS
    MEMORY MALLOC-STATS
    MEMORY PURGE
    MEMORY HELP
    LATENCY DOCTOR
    LATENCY GRAPH command
    LATENCY HISTORY command
    LATENCY RESET
    LATENCY HELP
    MODULE HELP
    MODULE LOAD /tmp/x.so
    MODULE LOADEX /tmp/x.so
    MODULE UNLOAD x
    FT._LIST
    JSON.GET orders
    TIME
    ROLE
    REPLICAOF NO ONE
    REPLICAOF x y
    SLAVEOF NO ONE
    LOLWUT
    LOLWUT VERSION x
    LOLWUT VERSION 1
    LOLWUT VERSION 5
    WAIT 0 1
    CONFIG RESETSTAT
"""


def fill(server: Server) -> None:
    with server.connect() as wire:
        for number in range(20):
            wire.call("XADD", "orders", f"{number + 1}-1", "item", "tea")
        wire.call("XGROUP", "CREATE", "orders", "packers", "0")
        wire.call("XREADGROUP", "GROUP", "packers", "ann", "COUNT", "5", "STREAMS", "orders", ">")
        wire.call("SET", "lock", "ann", "PX", "100000")


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", [REDIS_EXPORTER, REDIS_INSIGHT], ids=["exporter", "insight"])
def test_every_call_of_a_tool_is_answered_as_by_redis(
    script: str, protocol: int, headrace: Server, oracle: Server
) -> None:
    for server in (headrace, oracle):
        fill(server)
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for line in script.split("\n"):
            if line.strip():
                replies = [wire.call(*split(line.strip())) for wire in (ours, theirs)]
                if b"-" in (replies[0][:1], replies[1][:1]):
                    assert replies[0] == replies[1], line
                else:
                    assert replies[0][:1] == replies[1][:1], line


def test_fields_that_tools_compute_with_are_numbers(server: Server) -> None:
    """Those from which dashboards make rates and shares, wherever INFO has them."""
    names = (
        "uptime_in_seconds", "connected_clients", "blocked_clients", "maxclients", "used_memory", "used_memory_rss",
        "used_memory_peak", "maxmemory", "mem_fragmentation_ratio", "loading", "rdb_changes_since_last_save",
        "rdb_last_save_time", "total_connections_received", "total_commands_processed", "instantaneous_ops_per_sec",
        "total_net_input_bytes", "total_net_output_bytes", "rejected_connections", "expired_keys", "evicted_keys",
        "keyspace_hits", "keyspace_misses", "pubsub_channels", "latest_fork_usec", "connected_slaves",
        "master_repl_offset", "used_cpu_sys", "used_cpu_user", "total_error_replies", "slowlog_commands_count",
    )  # fmt: skip
    fill(server)
    with server.connect() as wire:
        fields = dict(line.split(":", 1) for line in wire.ask("INFO", "ALL").decode().splitlines() if ":" in line)
    assert not [name for name in names if not re.fullmatch(r"[\d.]+", fields[name])]
    assert re.fullmatch(r"keys=2,expires=1,avg_ttl=\d+,subexpiry=0", fields["db0"])


def test_metrics_port_of_a_real_server_is_scraped(start_server: StartServer) -> None:
    pytest.importorskip("prometheus_client")
    from urllib.request import urlopen

    port = free_port()
    server = start_server("headrace", "--metrics-port", str(port), "--appendonly", "yes")
    if not server.is_headrace:
        pytest.skip("Redis has no metrics endpoint")
    fill(server)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: Any = answer.read().decode()
    assert 'headrace_group_deliveries_total{db="0",group="packers",stream="orders"} 5.0' in text
    assert "headrace_log_enabled 1.0" in text
