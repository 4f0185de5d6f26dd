"""The transcripts, replayed on Headrace, and on Redis if it is installed."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from compat.differences import NO_RESP3, is_known_difference, log_alternatives
from support.append_only_file import AppendOnlyFile, one_claim_each, without_transaction
from support.replies import Node, parse
from support.servers import Server
from support.transcripts import (
    Case,
    Step,
    as_resp3,
    matches,
    parse_expected,
    read_cases,
    read_log_steps,
    text_matches,
)
from support.wire import Wire

CASES = read_cases("easy_to_get_wrong.txt")
LOG_STEPS = read_log_steps("append_only_file.txt")


def case_id(case: Case) -> str:
    """The number of a case: `12` for the title `12. CLAIM skips..`."""
    return case.title.partition(".")[0]


def expected_reply(step: Step, *, protocol: int) -> Node:
    """The expected reply of the line, in the protocol in which it runs."""
    assert step.expected is not None
    expected = parse_expected(step.expected)
    return as_resp3(expected, step.argv) if protocol == 3 and step.protocol == 2 else expected


def replay(case: Case, server: Server, *, resp3_only: bool) -> list[str]:
    """Run a case, and describe every reply that differs from the expected one."""
    wrong = []
    with ExitStack() as stack:
        wires: dict[int, Wire] = {}
        # Without a pause, the cron could remove pairs with old IDs between two lines of a case.
        control = stack.enter_context(server.connect())
        control.call("DEBUG", "PAUSE-CRON", 1)
        stack.callback(control.call, "DEBUG", "PAUSE-CRON", 0)
        for step in case.steps:
            protocol = 3 if resp3_only else step.protocol
            if protocol not in wires:
                wires[protocol] = stack.enter_context(server.connect(protocol))
            raw = wires[protocol].call(*step.argv)
            if step.expected is None:
                if raw.startswith(b"-"):
                    wrong.append(f"line {step.line}: set-up {step.command!r} failed: {raw!r}")
                continue
            if resp3_only and any(step.command.startswith(beginning) for beginning in NO_RESP3):
                continue
            is_expected = matches(expected_reply(step, protocol=protocol), parse(raw))
            if not is_expected and not (server.is_headrace and is_known_difference(step.command, raw)):
                wrong.append(
                    f"line {step.line} (RESP{protocol}): {step.command}\n  wants {step.expected}\n  got {raw!r}"
                )
    return wrong


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_replies_are_as_written(case: Case, server: Server) -> None:
    wrong = replay(case, server, resp3_only=False)
    assert not wrong, f"{case.title}\n" + "\n".join(wrong)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_replies_on_resp3_differ_only_in_nulls_and_maps(case: Case, server: Server) -> None:
    wrong = replay(case, server, resp3_only=True)
    assert not wrong, f"{case.title}\n" + "\n".join(wrong)


def record_matches(pattern: str, record: list[bytes]) -> bool:
    """Whether a logged command is the expected one. `<ms>` matches any number."""
    words = pattern.split(" ")
    return len(words) == len(record) and all(map(text_matches, words, record))


def records_match(patterns: tuple[str, ...], records: list[list[bytes]]) -> bool:
    """Whether all records are the expected ones, in order."""
    return len(patterns) == len(records) and all(map(record_matches, patterns, records))


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def test_log_gets_what_is_written(name: str, start_server) -> None:
    server = start_server(name, "--appendonly", "yes", "--appendfsync", "always")
    log = AppendOnlyFile(server.folder)
    wrong = []
    with server.connect() as wire:
        for step in LOG_STEPS:
            reply = wire.call(*step.argv)
            records = one_claim_each(without_transaction(log.take_records()))
            if step.expected is None:
                continue
            expected = tuple(text for text in step.appended if text not in ("MULTI", "EXEC"))
            allowed = [expected, *(log_alternatives(step.command) if server.is_headrace else [])]
            if not any(records_match(patterns, records) for patterns in allowed):
                logged = "\n    ".join(b" ".join(record).decode("latin-1") for record in records)
                wrong.append(f"line {step.line}: {step.command} (-> {reply!r})\n  wants {allowed}\n  got {logged}")
    assert not wrong, "\n".join(wrong)
