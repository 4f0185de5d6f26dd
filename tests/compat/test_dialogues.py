"""Dialogues with Headrace and with Redis: every connection receives the same, in the same order."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from support.comparison import first_difference, report
from support.dialogue import Dialogue, Heard, Stage, read_dialogues
from support.servers import Server

pytestmark = pytest.mark.oracle


def describe(ours: Heard | None, theirs: Heard | None) -> str:
    """The difference between what two servers sent."""
    if ours is None or theirs is None or (ours.number, ours.who) != (theirs.number, theirs.who):
        steps = (f"  {name} {heard and heard.step}: {heard}" for name, heard in (("redis", theirs), ("headrace", ours)))
        return "\n".join(["not the same step", *steps])
    return f"line {theirs.number}  {theirs.step}: {theirs.who} receives\n{first_difference(ours.data, theirs.data)}"


@pytest.mark.parametrize("dialogue", read_dialogues(), ids=lambda each: f"{each.family}: {each.title}"[:90])
def test_every_connection_receives_the_same(dialogue: Dialogue, headrace: Server, oracle: Server) -> None:
    played = zip_longest(Stage(headrace).play(dialogue), Stage(oracle).play(dialogue))
    wrong = [describe(ours, theirs) for ours, theirs in played if ours != theirs]
    if wrong:
        pytest.fail(report(repr(dialogue.title), wrong), pytrace=False)
