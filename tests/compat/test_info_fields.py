"""Which fields of Redis' INFO are there, and why the others are not."""

from __future__ import annotations

import pytest

from support.servers import Server

pytestmark = pytest.mark.oracle

ABSENT = {
    "there are no C atomics": ("atomicvar_api",),
    "clients are not counted over a stretch of time": ("active_clients",),
    "each payload is checked while it is read": ("dump_payload_sanitizations",),
    "the event loop is not ours": (
        "eventloop_cycles", "eventloop_duration_sum", "eventloop_duration_cmd_sum",
        "instantaneous_eventloop_cycles_per_sec", "instantaneous_eventloop_duration_usec",
        "eventloop_cycles_with_clients_processing", "total_client_processing_events",
    ),
    "there are no modules": ("module",),
    "sizes of keys would take a walk over all of them": ("db0_distrib_strings_sizes",),
}  # fmt: skip
"""Fields of Redis that are not there, by reason."""

OUR_OWN = {"server_name", "headrace_version", "python_version"}
OF_COMMANDS = ("cmdstat_", "latency_percentiles_usec_", "errorstat_")
"""Lines for what has happened so far."""


def field_names(server: Server) -> list[str]:
    with server.connect() as wire:
        wire.call("SET", "k", "v")
        lines = wire.ask("INFO", "everything").decode().split("\r\n")
    return [line.split(":")[0] for line in lines if ":" in line and not line.startswith(OF_COMMANDS)]


def test_every_field_of_redis_is_there_or_absent_for_a_reason(headrace: Server, oracle: Server) -> None:
    if not headrace.is_headrace:
        pytest.skip("the server in Headrace's place has every field")
    ours, theirs = field_names(headrace), field_names(oracle)
    assert set(theirs) - set(ours) == {name for names in ABSENT.values() for name in names}
    assert set(ours) - set(theirs) == OUR_OWN
    assert [name for name in ours if name in theirs] == [name for name in theirs if name in ours]
