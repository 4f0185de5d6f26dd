"""The HELP of every command that has one is that of Redis, for the subcommands that are served."""

from __future__ import annotations

import pytest

from compat.differences import OWN_HELP
from headrace.commands.core.table import TABLE
from support.servers import Server

pytestmark = pytest.mark.oracle

# DEBUG has no rows for its subcommands.
CONTAINERS = sorted([*(name.decode() for name, row in TABLE.items() if b"HELP" in row.subcommands), "DEBUG"])


def subcommand_texts(lines: list[bytes]) -> list[tuple[bytes, ...]]:
    """The lines of each subcommand: its grammar, and the indented lines that follow."""
    texts: list[tuple[bytes, ...]] = []
    for line in lines[1:]:
        if line.startswith(b" "):
            texts[-1] += (line,)
        else:
            texts.append((line,))
    return texts


@pytest.mark.parametrize("container", CONTAINERS)
def test_help_has_the_words_of_redis(container: str, headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        here, there = (wire.ask(container, "HELP") for wire in (ours, theirs))
    if container != "DEBUG":
        assert here == there
        return
    known = subcommand_texts(there)
    shared = [text for text in subcommand_texts(here) if text[0].split()[0] not in OWN_HELP]
    assert here[0] == there[0]
    assert shared == [text for text in known if text in shared]
