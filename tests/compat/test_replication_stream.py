"""What replicas are sent for each command: the transcripts, replayed on Headrace, and on Redis if it is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from compat.differences import stream_alternatives
from conftest import StartServer
from support.append_only_file import one_claim_each
from support.lines import split
from support.replica import StreamReader, take_records
from support.replies import parse
from support.transcripts import DATA
from support.wire import Wire

BLOCKS = (DATA / "replication_stream.txt").read_text("utf-8").split("\n\n")


@dataclass(frozen=True)
class Step:
    """One line of a block: its commands on one connection, and what a replica receives."""

    line: int
    commands: tuple[str, ...]
    expected: tuple[str, ...] | None
    is_second: bool


def steps_of(block: str) -> Iterator[Step]:
    """`~` begins a set-up, `2>` a second connection; the log's own records, after `##`, are of other tests."""
    for number, line in enumerate(block.strip().splitlines(), 1):
        if line.startswith("~ "):
            yield Step(number, tuple(line[2:].split(" ; ")), None, False)
            continue
        text, _, received = line.partition("  =>  ")
        is_second = text.startswith("2> ")
        commands = tuple(text.removeprefix("2> ").split(" ; "))
        received = received.partition("  ## ")[0].strip()
        expected = {"(nothing)": (), "(same)": commands}.get(received, tuple(received.split(" | ")))
        yield Step(number, commands, expected, is_second)


def run(wire: Wire, command: str, *, may_block: bool) -> None:
    """Send a command; `wait n` lets that many ms of the server's clock pass."""
    name, _, rest = command.partition(" ")
    if name == "wait":
        end_us = now_us(wire) + int(rest) * 1000
        while now_us(wire) < end_us:
            continue
        return
    wire.send(*split(command))
    if not may_block:
        wire.receive()


def now_us(wire: Wire) -> int:
    """The server's clock."""
    seconds, micros = [int(node.value) for node in parse(wire.call("TIME")).value]
    return seconds * 1_000_000 + micros


def placed(records: Iterable[list[bytes]]) -> list[tuple[bytes, list[bytes]]]:
    """The records with their databases, without SELECT, MULTI and EXEC. The mark before them was in database 0."""
    found = []
    db = b"0"
    for record in records:
        if record[0] == b"SELECT":
            db = record[1]
        elif record[0] not in (b"MULTI", b"EXEC"):
            found.append((db, record))
    return found


def word_matches(pattern: bytes, word: bytes) -> bool:
    """Whether a word is the expected one. `<ms>` matches any number."""
    return re.fullmatch(rb"\d+".join(map(re.escape, pattern.split(b"<ms>"))), word) is not None


def are_as_written(expected: Iterable[str], records: list[list[bytes]]) -> bool:
    """Whether the records are the expected ones, in order and in their databases."""
    wanted, found = placed(map(split, expected)), placed(one_claim_each(records))
    return len(wanted) == len(found) and all(
        db == found_db and len(words) == len(record) and all(map(word_matches, words, record))
        for (db, words), (found_db, record) in zip(wanted, found, strict=True)
    )


def is_framed(records: list[list[bytes]]) -> bool:
    """Whether every MULTI has its EXEC, with several records between them."""
    text = b" ".join(b"M" if r == [b"MULTI"] else b"E" if r == [b"EXEC"] else b"r" for r in records)
    return re.fullmatch(rb"(?:(?:r|M r(?: r)+ E) ?)*", text) is not None


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_replicas_are_sent_what_is_written(name: str, block: str, start_server: StartServer) -> None:
    server = start_server(name, "--save", "", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600")
    wrong = []
    with (
        server.connect() as first,
        server.connect() as second,
        server.connect() as control,
        StreamReader(server.port) as reader,
    ):
        first.call("SET", "begin", 1)  # the stream begins with SELECT 0
        first.call("DEL", "begin")
        take_records(reader, control, b"begin")
        for step in steps_of(block):
            for command in step.commands:
                run(second if step.is_second else first, command, may_block=step.is_second)
            if step.is_second:
                wait_until_blocked(control)
            records = take_records(reader, control, b"%d" % step.line)
            if step.expected is None:
                continue
            allowed = [step.expected]
            if server.is_headrace:
                allowed += stream_alternatives(" ; ".join(step.commands))
            is_expected = is_framed(records) and any(are_as_written(each, records) for each in allowed)
            if not is_expected:
                received = "\n    ".join(b" ".join(record).decode("latin-1") for record in records)
                wrong.append(f"line {step.line}: {' ; '.join(step.commands)}\n  wants {allowed}\n  got {received}")
    assert not wrong, "\n".join(wrong)


def wait_until_blocked(control: Wire) -> None:
    """Until a client waits."""
    while b"blocked_clients:1" not in control.call("INFO", "clients"):
        continue
