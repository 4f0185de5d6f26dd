"""The same scripts on Headrace and on Redis, in both protocols: every reply and the state left behind are the same."""

from __future__ import annotations

import os
from itertools import zip_longest

import pytest

from compat.differences import find_reply_difference
from support.scripts import Observation, Player, Script, read_scripts
from support.servers import Server

pytestmark = pytest.mark.oracle

SCRIPTS = read_scripts()
SHOWN_MAX = 12
"""One wrong reply often makes many: the first few tell."""
SHOWN_BEFORE, SHOWN_AFTER = 60, 160
"""Bytes of a reply shown around the first difference."""


def describe(script: Script, headrace: list[Observation], oracle: list[Observation]) -> list[str]:
    """Each reply that is not the same, the known differences left out."""
    wrong = []
    for ours, theirs in zip_longest(headrace, oracle):
        if ours == theirs or (theirs is not None and find_reply_difference(theirs.command)):
            continue
        place = f"{script.family}.txt:{(theirs or ours).number or 'end'}"
        wrong.append(f"{place}  {theirs.name if theirs else ours.name}\n{first_difference(ours, theirs)}")
    return wrong


def first_difference(ours: Observation | None, theirs: Observation | None) -> str:
    """Both replies around the first byte that differs."""
    if ours is None or theirs is None or ours.name != theirs.name:
        return f"  redis    {theirs}\n  headrace {ours}"
    same = len(os.path.commonprefix([ours.reply, theirs.reply]))
    start = max(same - SHOWN_BEFORE, 0)
    return "\n".join(
        f"  {name:8} {'..' if start else ''}{reply[start : same + SHOWN_AFTER]!r}"
        for name, reply in (("redis", theirs.reply), ("headrace", ours.reply))
    )


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.family}: {script.title}"[:90])
def test_replies_and_state_are_the_same(script: Script, protocol: int, headrace: Server, oracle: Server) -> None:
    wrong = describe(script, Player(headrace, protocol).play(script), Player(oracle, protocol).play(script))
    if wrong:
        pytest.fail(f"{len(wrong)} differ in {script.title!r}:\n" + "\n".join(wrong[:SHOWN_MAX]), pytrace=False)


def test_there_are_enough_steps() -> None:
    assert sum(len(script.lines) for script in SCRIPTS) >= 1_000
