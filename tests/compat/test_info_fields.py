"""Which fields of Redis' INFO are there, and why the others are not."""

from __future__ import annotations

import pytest

from compat.differences import ABSENT_INFO_FIELDS, OWN_INFO_FIELDS
from support.servers import Server

pytestmark = pytest.mark.oracle

# Lines for what has happened so far.
OF_COMMANDS = ("cmdstat_", "latency_percentiles_usec_", "errorstat_")


def field_names(server: Server) -> list[str]:
    with server.connect() as wire:
        wire.call("SET", "k", "v")
        lines = wire.ask("INFO", "everything").decode().split("\r\n")
    return [line.split(":")[0] for line in lines if ":" in line and not line.startswith(OF_COMMANDS)]


def test_every_field_of_redis_is_there_or_absent_for_a_reason(headrace: Server, oracle: Server) -> None:
    if not headrace.is_headrace:
        pytest.skip("the server in Headrace's place has every field")
    ours, theirs = field_names(headrace), field_names(oracle)
    assert set(theirs) - set(ours) == {name for names in ABSENT_INFO_FIELDS.values() for name in names}
    assert set(ours) - set(theirs) == OWN_INFO_FIELDS
    assert [name for name in ours if name in theirs] == [name for name in theirs if name in ours]
