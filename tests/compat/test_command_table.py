"""What Headrace says of its commands is what Redis says of them: arity errors, COMMAND INFO, COMMAND GETKEYS."""

from __future__ import annotations

from typing import Any

import pytest

from compat.differences import COMMANDS
from support.comparison import first_difference, report
from support.normalise import normalise
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle


def shared_rows(headrace: Wire, oracle: Wire) -> list[tuple[list[bytes], int]]:
    """(command words, arity) of every Headrace command and subcommand that Redis has as well."""
    names = sorted(headrace.ask("COMMAND", "LIST"))
    rows = []
    for ours, theirs in zip(*(wire.ask("COMMAND", "INFO", *names) for wire in (headrace, oracle)), strict=True):
        if theirs is not None:
            rows += _rows(ours)
    return rows


def _rows(row: list[Any]) -> list[tuple[list[bytes], int]]:
    rows = [(row[0].split(b"|"), row[1])]
    for subcommand in row[9]:
        rows += _rows(subcommand)
    return rows


def too_short_and_too_long(words: list[bytes], arity: int) -> list[list[bytes]]:
    """Argument vectors that miss the arity by one, and every shorter one down to the bare name."""
    shorter = [words + [b"x"] * extra for extra in range(abs(arity) - len(words))]
    longer = [words + [b"x"] * (arity + 1 - len(words))] if arity > 0 else []
    return shorter + longer


def test_arity_errors_are_the_same(headrace: Server, oracle: Server) -> None:
    wrong = []
    with headrace.connect() as ours, oracle.connect() as theirs:
        for words, arity in shared_rows(ours, theirs):
            for argv in too_short_and_too_long(words, arity):
                replies = [wire.call(*argv) for wire in (ours, theirs)]
                assert replies[1].startswith(b"-"), (argv, replies)
                if replies[0] != replies[1]:
                    wrong.append(b" ".join(argv).decode() + "\n" + first_difference(*replies))
    assert not wrong, report("arity errors", wrong)


@pytest.mark.parametrize("protocol", [2, 3])
def test_command_info_is_the_same(protocol: int, headrace: Server, oracle: Server) -> None:
    wrong = []
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for name in sorted(ours.ask("COMMAND", "LIST")):
            argv = [b"COMMAND", b"INFO", name]
            replies = [normalise(wire.call(*argv), argv) for wire in (ours, theirs)]
            is_known = name.decode() in COMMANDS or theirs.ask(*argv) == [None]
            if replies[0] != replies[1] and not is_known:
                wrong.append(f"{name.decode()}\n{first_difference(*replies)}")
    assert not wrong, report("COMMAND INFO", wrong)


def test_every_stream_command_of_redis_is_there(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        wanted = set(theirs.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "stream"))
        assert wanted <= set(ours.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "stream"))
