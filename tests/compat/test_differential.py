"""Scripts on Headrace and on Redis, in both protocols: every reply and the state at the end are the same."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from compat.differences import is_known_difference
from support.comparison import first_difference, report
from support.scripts import Observation, Player, Script, read_scripts
from support.servers import Server

pytestmark = pytest.mark.oracle

SCRIPTS = read_scripts()


def describe(script: Script, headrace: list[Observation], oracle: list[Observation]) -> list[str]:
    """Each reply that differs, except for the known differences."""
    wrong = []
    for ours, theirs in zip_longest(headrace, oracle):
        if ours is None or theirs is None or ours.name != theirs.name:
            wrong.append(f"{script.family}.txt: not the same step\n  redis    {theirs}\n  headrace {ours}")
        elif not ours.agrees_with(theirs) and not is_known_difference(theirs.command, ours.reply):
            place = f"{script.family}.txt:{theirs.number or 'end'}"
            wrong.append(f"{place}  {theirs.name}\n{first_difference(ours.reply, theirs.reply)}")
    return wrong


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.family}: {script.title}"[:90])
def test_replies_and_state_are_the_same(script: Script, protocol: int, headrace: Server, oracle: Server) -> None:
    wrong = describe(script, Player(headrace, protocol).play(script), Player(oracle, protocol).play(script))
    if wrong:
        pytest.fail(report(repr(script.title), wrong), pytrace=False)


def test_there_are_enough_steps() -> None:
    assert sum(len(script.lines) for script in SCRIPTS) >= 1_000
