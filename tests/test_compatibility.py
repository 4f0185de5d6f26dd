"""docs/compatibility.md is made from the command table, and its facts about Redis and clients are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import compatibility
import pytest

ROOT = Path(__file__).parent.parent


def test_document_is_what_the_table_makes() -> None:
    written = (ROOT / "docs" / "compatibility.md").read_text("utf-8").splitlines()
    assert written == list(compatibility.document_lines()), "run python tools/compatibility.py"


def test_groups_in_scope_are_served_whole() -> None:
    served = compatibility.served_names()
    names = {group: set(text.split()) for group, text in compatibility.COMMANDS_OF_REDIS.items()}
    assert not served & {name for group in compatibility.OUT_OF_SCOPE for name in names[group]}
    wanted = {name for group in names.keys() - compatibility.OUT_OF_SCOPE.keys() for name in names[group]}
    assert {name for name in wanted if "|" not in name} <= served
    assert compatibility.OUT_OF_SCOPE.keys() <= names.keys()


def test_every_client_named_is_tried_and_every_one_tried_is_named() -> None:
    modules = {path.stem for path in (ROOT / "tests" / "clients").glob("test_*.py")}
    assert compatibility.CLIENTS.keys() == modules


@pytest.mark.oracle
def test_commands_of_redis_are_those_it_documents(oracle: Any) -> None:
    with oracle.connect(3) as wire:
        documents = wire.ask("COMMAND", "DOCS")
    theirs: dict[str, set[str]] = {}
    for name, document in documents.items():
        names = {name.lower().decode(), *(each.lower().decode() for each in document.get(b"subcommands", {}))}
        theirs.setdefault(document[b"group"].decode(), set()).update(names)
    assert {group: set(text.split()) for group, text in compatibility.COMMANDS_OF_REDIS.items()} == theirs
