"""Headrace and Redis describe commands in the same way: arity errors, COMMAND INFO, COMMAND DOCS, COMMAND GETKEYS."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compat.differences import DOCUMENTED_OTHERWISE, NOT_COMPARABLE, is_known_difference
from differential.grammar import bend, draw_request
from differential.plain_requests import always_waits
from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import all_rows
from headrace.commands.permissions.known import REDIS_COMMANDS
from support.comparison import first_difference, report
from support.normalise import agree, normalise
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

OWN_ROWS = {row.name_lower for row in all_rows() if row.is_own}
WAITING = {row.name_lower for row in all_rows() if always_waits(row)}


def shared_rows(headrace: Wire, oracle: Wire) -> list[tuple[list[bytes], int]]:
    """(command words, arity) of every Headrace command and subcommand that Redis has as well."""
    names = sorted(headrace.ask("COMMAND", "LIST"))
    rows = []
    for ours, theirs in zip(*(wire.ask("COMMAND", "INFO", *names) for wire in (headrace, oracle)), strict=True):
        if theirs is not None:
            rows += _rows(ours)
    return rows


def _rows(row: list[Any]) -> list[tuple[list[bytes], int]]:
    if row[0] in OWN_ROWS:
        return []
    rows = [(row[0].split(b"|"), row[1])]
    for subcommand in row[9]:
        rows += _rows(subcommand)
    return rows


def too_short_and_too_long(words: list[bytes], arity: int) -> list[list[bytes]]:
    """Argument vectors that are one word too long, and every one that is too short."""
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
            is_of_ours = theirs.ask(*argv) == [None]
            if replies[0] != replies[1] and not is_of_ours:
                wrong.append(f"{name.decode()}\n{first_difference(*replies)}")
    assert not wrong, report("COMMAND INFO", wrong)


@pytest.mark.parametrize("protocol", [2, 3])
def test_refusals_of_a_cluster_are_the_same(protocol: int, headrace: Server, oracle: Server) -> None:
    refused = [row for row in all_rows() if row.handler is refuse]
    assert refused
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for row in refused:
            words = [*row.name.split("|"), *["0"] * (abs(row.arity) - 1 - row.name.count("|"))]
            for argv in (words, words[:-1], [*words, "1"]):
                replies = [wire.call(*argv) for wire in (ours, theirs) if argv]
                assert replies[:1] == replies[1:], argv


def structure(documents: dict[bytes, Any]) -> dict[bytes, Any]:
    """The reply to COMMAND DOCS for each command and subcommand, without the prose."""
    found: dict[bytes, Any] = {}
    for name, document in documents.items():
        found |= structure(document.get(b"subcommands", {}))
        found[name] = {key: value for key, value in document.items() if key not in (b"summary", b"subcommands")}
        found[name][b"complexity"] = b"complexity" in document
        found[name][b"history"] = [version for version, _ in document.get(b"history", [])]
    return found


def test_command_docs_have_the_same_structure(headrace: Server, oracle: Server) -> None:
    with headrace.connect(3) as ours, oracle.connect(3) as theirs:
        here, there = (structure(wire.ask("COMMAND", "DOCS")) for wire in (ours, theirs))
    different = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    expected = set(DOCUMENTED_OTHERWISE) if headrace.is_headrace else set()
    assert different == expected, {name: (here[name], there[name]) for name in different - expected}


REQUESTS_COUNT = 4000
# How often a request is bent, in addition to the bends of `draw_request`.
BENDS_MAX = 2


@pytest.mark.parametrize("seed", range(4))
def test_keys_of_random_requests_are_the_same(seed: int, headrace: Server, oracle: Server) -> None:
    rnd = random.Random(seed)
    wrong = []
    with headrace.connect() as ours, oracle.connect() as theirs:
        for _ in range(REQUESTS_COUNT):
            words = list(draw_request(rnd))
            for _ in range(rnd.randint(0, BENDS_MAX)):
                words = bend(rnd, words)
            request = [word if isinstance(word, bytes) else b"0" for word in words]
            argv = [b"COMMAND", rnd.choice((b"GETKEYS", b"GETKEYSANDFLAGS")), *request]
            replies = [wire.call(*argv) for wire in (ours, theirs)]
            if replies[0] != replies[1]:
                wrong.append(f"{argv}\n{first_difference(*replies)}")
    assert not wrong, report(f"keys, seed {seed}", wrong)


SET_OPTIONS = (
    "", "NX", "XX", "KEEPTTL", "EX 10", "GET", "GET NX", "IFEQ x", "IFNE x", "IFDEQ x", "ifdne x", "IFEQ x GET",
    "IFEQ GET", "EX IFEQ", "IFEQ",
)  # fmt: skip


def test_access_of_set_follows_its_options(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for options in SET_OPTIONS:
            argv = ["COMMAND", "GETKEYSANDFLAGS", "SET", "k", "v", *options.split()]
            assert ours.call(*argv) == theirs.call(*argv), options


def test_every_stream_command_of_redis_is_present(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        wanted = set(theirs.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "stream"))
        assert wanted <= set(ours.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "stream"))


TRAPS = [
    b"", b"0", b"1", b"-1", b"+1", b"01", b" 1", b"1.5", b"1e3", b"9223372036854775807", b"9223372036854775808", b"-",
    b"+", b"$", b">", b"*", b"(5", b"5-", b"5-1", b"STREAMS", b"COUNT", b"GROUP", b"IDS", b"NX", b"EX", b"GET", b"\xff",
    b"k", b"s", b"x", b"FORCE", b"~", b"MAXLEN", b"a b", b"on",
]  # fmt: skip
# Random argument lists per command.
TRIES = 25


def reply_of(wire: Wire, argv: list[bytes]) -> bytes:
    """The reply. A command that would wait is sent in a transaction."""
    if argv[0] not in WAITING:
        return wire.call(*argv)
    wire.call("MULTI")
    refusal = wire.call(*argv)
    reply = wire.call("EXEC")
    return reply if refusal == b"+QUEUED\r\n" else refusal


def test_bad_input_to_every_command_gets_the_same_answers(headrace: Server, oracle: Server) -> None:
    """Every command gets random words. The seed is fixed, so a failure is repeatable."""
    if not headrace.is_headrace:
        pytest.skip("the server in Headrace's place has commands that block and subscribe")
    wrong = []
    left_out = {name for names in NOT_COMPARABLE.values() for name in names}
    with headrace.connect() as ours, oracle.connect() as theirs:
        for words, arity in shared_rows(ours, theirs):
            if b"|".join(words) in left_out:
                continue
            # A seed for each command, so that a new command does not change the words of other commands.
            source = random.Random(b"|".join(words))
            for wire in (ours, theirs):
                wire.call("FLUSHALL")
                wire.call("SET", "k", "5")
                wire.call("XADD", "s", "5-1", "a", "b")
            for _ in range(TRIES):
                count = max(abs(arity) - len(words), 0) + (source.randrange(4) if arity < 0 else 0)
                argv = words + [source.choice(TRAPS) for _ in range(count)]
                replies = [normalise(reply_of(wire, argv), argv) for wire in (ours, theirs)]
                text = b" ".join(argv).decode("latin-1")
                if not agree(*replies) and not is_known_difference(text, replies[0]):
                    wrong.append(f"{text!r}\n{first_difference(*replies)}")
    if wrong:
        pytest.fail(report("random arguments", wrong), pytrace=False)


def test_acl_rules_know_every_command_of_redis(oracle: Server) -> None:
    with oracle.connect() as wire:
        assert {name.lower() for name in wire.ask("COMMAND", "LIST")} == REDIS_COMMANDS
