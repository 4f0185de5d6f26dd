"""What the server must know of a command is in the command's row: no other code decides by a handler or a name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from headrace.commands import registry
from headrace.commands.core.table import all_rows
from test_import_directions import ROOT, imports_of, module_of

assert registry.FAMILIES

HANDLERS = ("admin", "connections", "keyspace", "scripting", "streams", "strings")
NAMES = {name for row in all_rows() for name in (row.name, *row.name.split("|"))}
# Modules whose words are names of commands for another reason.
EXEMPT = {
    "commands/core/keys.py": "options of commands that have names of commands",
    "commands/core/member_scan.py": "an option that has the name of a command",
    "commands/execution/context.py": "the record of an expired key is DEL",
    "commands/execution/migration.py": "another server gets RESTORE",
    "commands/permissions/user.py": "whether the user's rules allow MONITOR",
    "server/eviction/cycle.py": "the record of an evicted key is DEL or UNLINK",
    "server/requests/admission.py": "an error that begins with the name of a command",
    "server/sockets/metrics_endpoint.py": "GET of HTTP",
}
PLACES = ("server", *(f"commands/{room}" for room in ("clients", "core", "execution", "observing", "permissions")))


def modules(place: str) -> list[Path]:
    """The Python modules of a folder."""
    return sorted((ROOT / place).rglob("*.py"))


def names_in(source: str) -> list[str]:
    """The names of commands that are constants of a source, each with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            word = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if word in NAMES:
                found.append(f"line {node.lineno}: {word}")
    return found


@pytest.mark.parametrize("place", ["server/requests", "server/storage"])
def test_no_handler_is_imported(place: str) -> None:
    rooms = tuple(f"commands.{room}." for room in HANDLERS)
    imports = [one for path in modules(place) for one in imports_of(module_of(path), path)]
    assert [str(one) for one in imports if one.target.startswith(rooms)] == []


@pytest.mark.parametrize("place", PLACES)
def test_no_command_is_known_by_its_name(place: str) -> None:
    named = {str(path.relative_to(ROOT)): names_in(path.read_text("utf-8")) for path in modules(place)}
    assert {path: names for path, names in named.items() if names and path not in EXEMPT} == {}


@pytest.mark.parametrize("path", EXEMPT)
def test_exempt_module_names_a_command(path: str) -> None:
    assert names_in((ROOT / path).read_text("utf-8"))


def test_name_of_a_command_is_found_in_any_comparison() -> None:
    source = 'if row.name == "EXEC" or row.name in {"COPY", "copy"} or argv[0].upper() == b"ACL|SETUSER": ...'
    assert sorted(names_in(source)) == ["line 1: ACL|SETUSER", "line 1: COPY", "line 1: EXEC"]
