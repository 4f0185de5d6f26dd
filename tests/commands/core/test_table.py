"""Every row has what COMMAND, the ACL and the README need, and agrees with Redis."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import reference

from headrace.commands import registry
from headrace.commands.admin.introspection import acl_categories, all_rows, describe, flag_names
from headrace.commands.core.keys import NOT_KEY
from headrace.commands.core.table import TABLE, Argument, Flag, Row
from support.servers import Server

assert registry.FAMILIES

ROWS = list(all_rows())
ARGUMENT_TYPES = {"string", "integer", "double", "key", "pattern", "unix-time", "pure-token", "oneof", "block"}
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def arguments_of(row: Row) -> list[Argument]:
    """All arguments, inner ones included."""
    found = list(row.arguments)
    for argument in found:
        found += argument.arguments
    return found


@by_name
def test_row_has_its_metadata(row: Row) -> None:
    assert row.name == row.name.upper()
    assert row.handler is not None or row.subcommands
    assert row.summary.endswith(".")
    assert re.fullmatch(r"\d+\.\d+\.\d+|headrace \d+\.\d+", row.since)
    assert row.group
    assert row.subcommands or row.complexity


@by_name
def test_arguments_are_described_in_known_terms(row: Row) -> None:
    for argument in arguments_of(row):
        assert argument.type in ARGUMENT_TYPES
        assert bool(argument.arguments) == (argument.type in ("oneof", "block"))
        assert argument.type != "key" or argument.key_spec_index is not None
        assert argument.key_spec_index is None or argument.key_spec_index < len(row.keys)


@by_name
def test_commands_with_keys_read_or_write(row: Row) -> None:
    are_keys = [spec for spec in row.keys if NOT_KEY not in spec.access]
    if are_keys and row.name != "WATCH" and not row.flags & Flag.SCRIPT_RUNNER:
        assert bool(row.flags & Flag.WRITE) != bool(row.flags & Flag.READONLY)
    assert all(spec.access for spec in row.keys)


def test_subcommands_are_in_their_container() -> None:
    for name, row in TABLE.items():
        assert row.name.encode() == name
        for word, sub in row.subcommands.items():
            assert sub.name.encode() == name + b"|" + word


@pytest.mark.oracle
def test_rows_say_what_redis_says(oracle: Server) -> None:
    wrong = []
    with oracle.connect() as wire:
        for row in ROWS:
            (theirs,) = wire.ask("COMMAND", "INFO", row.name)
            if theirs is None:
                continue  # a command of our own
            ours = describe(row)
            facts = {
                "arity": (row.arity, theirs[1]),
                "flags": (set(flag_names(row)), {flag.decode() for flag in theirs[2]}),
                "keys": (list(ours[3:6]), theirs[3:6]),
                "categories": ([f"@{name}" for name in acl_categories(row)], [word.decode() for word in theirs[6]]),
            }
            wrong += [f"{row.name} {name}: {a} != {b}" for name, (a, b) in facts.items() if a != b]
    assert not wrong, "\n".join(wrong)


def test_reference_has_a_line_for_every_callable_row() -> None:
    lines = [line for line in reference.document_lines() if line.startswith("| `")]
    assert len(lines) == sum(row.handler is not None for row in ROWS)
    assert all(line.count("|") - line.count("\\|") == 4 for line in lines)


def test_reference_shows_grammar_as_one_writes_it() -> None:
    row = TABLE[b"XADD"]
    assert reference.syntax(row).startswith("XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] ")
    assert reference.syntax(row).endswith(" <* | id> field value [field value ...]")
    assert reference.syntax(TABLE[b"XACK"]) == "XACK key group id [id ...]"


def test_reference_is_a_program() -> None:
    command = [sys.executable, reference.__file__]
    assert "| `XADD key" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
