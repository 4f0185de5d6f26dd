"""Headrace has every field of Redis' INFO, except for fields with a known reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.differences import ABSENT_INFO_FIELDS, OTHER_INFO_VALUES, OWN_INFO_FIELDS
from support.servers import Server

pytestmark = pytest.mark.oracle

# Beginnings of fields that exist only for commands and errors that have occurred.
OF_COMMANDS = ("cmdstat_", "latency_percentiles_usec_", "errorstat_")


def field_names(server: Server) -> list[str]:
    with server.connect() as wire:
        wire.call("SET", "k", "v")
        lines = wire.ask("INFO", "everything").decode().split("\r\n")
    return [line.split(":")[0] for line in lines if ":" in line and not line.startswith(OF_COMMANDS)]


def test_page_on_compatibility_names_every_absent_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text("utf-8")
    missing = [name for names in ABSENT_INFO_FIELDS.values() for name in names if f"`{name}`" not in page]
    own = [name for name in OWN_INFO_FIELDS if f"`{name}`" not in page]
    other = [name for name, (value, _) in OTHER_INFO_VALUES.items() if f"`{name}` is `{value}`" not in page]
    assert missing + own + other == []


@pytest.mark.parametrize("name", OTHER_INFO_VALUES)
def test_fields_with_values_of_their_own_have_them(name: str, headrace: Server, oracle: Server) -> None:
    for server, value in zip((headrace, oracle), OTHER_INFO_VALUES[name], strict=True):
        with server.connect() as wire:
            assert f"{name}:{value}" in wire.ask("INFO", "everything").decode().split("\r\n")


PAYLOADS = """
SET k 5
XADD s 1-1 f v
CONFIG SET sanitize-dump-payload yes
RESTORE k1 0 <k>
RESTORE s1 0 <s>
CONFIG SET sanitize-dump-payload clients
RESTORE s2 0 <s>
CONFIG SET sanitize-dump-payload no
RESTORE s3 0 <s>
""".strip().splitlines()


def test_checked_payloads_are_counted_as_in_redis(headrace: Server, oracle: Server) -> None:
    counts = []
    for server in (headrace, oracle):
        with server.connect() as wire:
            wire.call("CONFIG", "RESETSTAT")
            for line in PAYLOADS:
                *words, last = line.encode().split()
                wire.call(*words, wire.ask("DUMP", last[1:-1]) if last.startswith(b"<") else last)
            text = wire.ask("INFO", "stats")
            counts.append([line for line in text.split(b"\r\n") if line.startswith(b"dump_payload_sanit")])
    assert counts[0] == counts[1] == [b"dump_payload_sanitizations:2"]


def test_client_that_asks_is_active_and_idle_one_is_not(headrace: Server, oracle: Server) -> None:
    for server in (headrace, oracle):
        with server.connect(), server.connect() as wire:
            while b"active_clients:1\r\n" not in wire.ask("INFO", "clients"):
                pass


def test_every_field_of_redis_is_present_or_absent_for_a_reason(headrace: Server, oracle: Server) -> None:
    if not headrace.is_headrace:
        pytest.skip("the server in Headrace's place has every field")
    ours, theirs = field_names(headrace), field_names(oracle)
    assert set(theirs) - set(ours) == {name for names in ABSENT_INFO_FIELDS.values() for name in names}
    assert set(ours) - set(theirs) == OWN_INFO_FIELDS
    assert [name for name in ours if name in theirs] == [name for name in theirs if name in ours]
