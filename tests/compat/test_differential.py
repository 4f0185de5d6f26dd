"""The same scripts on Headrace and on Redis, in both protocols: every reply and the state left behind are the same."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from compat.differences import find_reply_difference
from support.scripts import Observation, Player, Script, read_scripts
from support.servers import Server

pytestmark = pytest.mark.oracle

SCRIPTS = read_scripts()
SHOWN_MAX = 12
"""One wrong reply often makes many: the first few tell."""


def describe(script: Script, headrace: list[Observation], oracle: list[Observation]) -> list[str]:
    """Each reply that is not the same, the known differences left out."""
    wrong = []
    for ours, theirs in zip_longest(headrace, oracle):
        if ours == theirs or (theirs is not None and find_reply_difference(theirs.command)):
            continue
        number = (theirs or ours).number
        wrong.append(f"{script.family}.txt:{number or 'end'}\n  redis    {theirs}\n  headrace {ours}")
    return wrong


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.family}: {script.title}"[:90])
def test_replies_and_state_are_the_same(script: Script, protocol: int, headrace: Server, oracle: Server) -> None:
    wrong = describe(script, Player(headrace, protocol).play(script), Player(oracle, protocol).play(script))
    assert not wrong, f"{len(wrong)} differ in {script.title!r}:\n" + "\n".join(wrong[:SHOWN_MAX])


def test_there_are_enough_steps() -> None:
    assert sum(len(script.lines) for script in SCRIPTS) >= 1_000
