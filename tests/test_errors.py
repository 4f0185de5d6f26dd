"""docs/errors.md lists exactly the errors in the source: none is missing, and none is left over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.commands.core.table import DECLARED
from support.error_texts import ROOT, Source
from support.inprocess import Rig
from support.servers import Server
from support.starts import attempt
from support.wire import encode

LINE = re.compile(r"- (?:`` (?P<ticked>.*?) ``|`(?P<plain>.*?)`): (?P<when>\S.*)")


def described() -> dict[str, str]:
    """The cause of each error, by its text."""
    lines = (ROOT / "docs" / "errors.md").read_text("utf-8").splitlines()
    matches = [LINE.fullmatch(line) for line in lines if line.startswith("- ")]
    assert all(matches), [line for line, match in zip(lines, matches, strict=False) if match is None]
    return {match["ticked"] or match["plain"]: match["when"] for match in matches if match}


@pytest.fixture(scope="module")
def said() -> set[str]:
    return {text.replace("\n", " ") for text in Source().texts()}


def test_every_error_of_the_source_is_described(said: set[str]) -> None:
    assert said - described().keys() == set(), "docs/errors.md does not tell when these are given"


def test_every_error_described_is_in_the_source(said: set[str]) -> None:
    assert described().keys() - said == set(), "the source does not say these any more: see docs/errors.md"


def test_texts_are_found_however_they_reach_an_error(said: set[str]) -> None:
    """Goal: the search itself works. Method: one text for each way in which texts reach errors."""
    assert "EXEC without MULTI" in said, "a literal"
    assert "source and destination objects are the same" in said, "a constant"
    assert "Increment is not an integer or out of range" in said, "an argument that is passed on"
    assert "number of IDs doesn't match numids" in said, "a choice"
    assert "client unblocked via CLIENT UNBLOCK" in said, "the class itself"
    assert "Authentication required." in said, "the default of a class"
    assert "appendfilename can't be a path, just a filename" in said, "a field of a table's row"
    assert "Can't chdir to '…': …; …" in said, "filled in"
    assert "max number of clients reached" in said, "bytes that are already on the wire"


# Requests that get the error, by its text in docs/errors.md: what the page says of it is true.
PROVOKED = {
    "RESP2 is not supported by this command": [["DEBUG", "PROTOCOL", "push"]],
    "Error trying to load the RDB dump, check server logs.": [["DEBUG", "RELOAD", "NOSAVE"]],
    "syntax error, expected IDS keyword": [["XNACK", "s", "g", "FAIL", "RETRYCOUNT", "1", "FORCE"]],
    "syntax error": [["XDELEX", "s", "KEEPREF", "1", "1-1"], ["XACKDEL", "s", "g", "KEEPREF", "1", "1-1"]],
    "Unrecognized XNACK option '…'": [["XNACK", "s", "g", "FAIL", "OTHER", "1", "1-1"]],
}
# Records that stop a start, by the text of its error.
STOPPING = {
    "Bad record in the append only file: …": [["XADD"], ["XGROUP", "NOSUCH", "s"], ["SET", "k"]],
    "Unknown command '…' reading the append only file … at offset …": [["NOSUCH"]],
    "Unknown command '…' reading the append only file … at offset …; …": [["VADD", "k", "0", "v"]],
}


def as_pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split("…"))


def test_errors_are_given_for_the_described_reason(headrace: Server) -> None:
    with headrace.connect() as wire:
        wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        for text, requests in PROVOKED.items():
            assert text in described()
            for request in requests:
                assert re.fullmatch(f"-ERR {as_pattern(text)}\r\n", wire.call(*request).decode()), request


@pytest.mark.parametrize(("text", "record"), [(text, record) for text in STOPPING for record in STOPPING[text]])
def test_records_stop_a_start_for_the_described_reason(text: str, record: list[str], tmp_path: Path) -> None:
    assert text in described()
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("file one.aof seq 1 type i\n")
    (tmp_path / "appendonlydir" / "one.aof").write_bytes(encode(record))
    ended = attempt([b"--appendonly", b"yes"], tmp_path)
    assert ended.code == 1
    assert re.search(as_pattern(text), ended.output), ended.output


# Texts whose description names a command as a remedy, not as a cause.
NAMES_A_REMEDY = {"No such key '…' or consumer group '…'"}
# Commands whose error replies are those of other commands, or that keep the connection.
NOT_ASKED = {
    "EVAL",
    "EVALSHA",
    "EXEC",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "SHUTDOWN",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SYNC",
}


def error_replies() -> Iterator[tuple[str, str]]:
    """(command, text) of the errors in the scripts of tests/compat. Each line has a client, as one may block."""
    for path in sorted((ROOT / "tests" / "compat" / "data" / "scripts").glob("*.txt")):
        rig = Rig(enable_debug_command=b"yes")
        for line in path.read_text("utf-8").splitlines():
            name = line.partition(" ")[0].upper()
            if name.encode() in DECLARED and name not in NOT_ASKED:
                reply = re.match(rb"-\S+ (.*)\r\n", rig.connect().call(line), re.DOTALL)
                if reply is not None:
                    yield name, reply[1].decode("utf-8", "replace")


def test_a_described_cause_names_the_commands_that_give_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a description names commands, no other command gives the error in any script."""
    monkeypatch.chdir(tmp_path)  # some lines save the dataset
    texts = sorted(described(), key=lambda text: len(text.replace("…", "")), reverse=True)
    patterns = {text: re.compile(as_pattern(text), re.DOTALL) for text in texts}
    rows = {name.decode() for name in DECLARED}
    checked = 0
    for command, text in set(error_replies()):
        found = next((each for each in texts if patterns[each].fullmatch(text)), None)
        assert found is not None, (command, text)
        words = " ".join(re.findall(r"`([^`]+)`", described()[found]))
        named = set(re.findall(r"[A-Z_]{2,}", words)) & rows
        if named and found not in NAMES_A_REMEDY:
            assert command in named, (command, text, described()[found])
            checked += 1
    assert checked >= 30
