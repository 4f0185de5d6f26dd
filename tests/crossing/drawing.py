"""Sequences beyond the pairs: some clients do several things in a state, one after the other or together.

Each is drawn from its seed and number alone. One that fails is made as small as it can be and still fail by the same
rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from crossing.acts import Act, all_acts, draw
from crossing.crossing import STOPS, Cell, Step, play
from crossing.scene import Violation
from crossing.states import BEHIND, MULTI, PLAIN, SCRIPT, STATES

STEPS_MAX = 3
ACTS_MAX = 4
CLIENTS_COUNT = 2
DRAWN_SHARE = 0.4
"""Share of the acts that are drawn from the grammar of the command table, bent now and then."""
MODES = ("", "", "", PLAIN, MULTI, MULTI, SCRIPT, BEHIND)
ABOUT_DISK = (
    "BACKUP", "BGREWRITEAOF", "BGSAVE", "CLIENT|", "CONFIG|SET append", "CONFIG|SET save", "DEBUG", "FLUSH", "SAVE",
    "SHUTDOWN", "WAIT", "XREAD", "connection", "signal",
)  # fmt: skip
"""What acts begin with that are drawn as often as all others together."""


def draw_cell(seed: int, number: int) -> Cell:
    """One sequence."""
    rnd = Random(f"{seed}/{number}")
    state = rnd.choice(list(STATES.values()))
    steps = tuple(
        Step(
            tuple(_draw_act(rnd) for _ in range(rnd.randint(1, ACTS_MAX))),
            rnd.randrange(CLIENTS_COUNT),
            rnd.choice(MODES),
        )
        for _ in range(rnd.randint(1, STEPS_MAX))
    )
    return Cell(state.name, rnd.choice(state.policies), steps, rnd.choice(STOPS), rnd.randrange(1 << 16))


def _draw_act(rnd: Random) -> Act:
    if rnd.random() < DRAWN_SHARE:
        request = draw(rnd, may_bend=True)
        return Act(b" ".join(request[:2]).decode("latin-1")[:40], request)
    acts = all_acts()
    if rnd.random() < 0.5:
        acts = tuple(act for act in acts if act.name.startswith(ABOUT_DISK))
    return rnd.choice(acts)


def failure_of(cell: Cell) -> str | None:
    """What is wrong with a cell, None if nothing is."""
    try:
        play(cell)
    except Violation as violation:
        return str(violation)
    return None


def shrink(cell: Cell, failure: str) -> tuple[Cell, str]:
    """The smallest cell found that fails by the same rule."""
    rule = _rule_of(failure)
    found = True
    while found:
        found = False
        for smaller in _smaller(cell):
            again = failure_of(smaller)
            if again is not None and _rule_of(again) == rule:
                cell, failure, found = smaller, again, True
                break
    return cell, failure


def _rule_of(failure: str) -> str:
    return failure.partition(":")[0].partition(" ")[0]


def _smaller(cell: Cell) -> Iterator[Cell]:
    steps = cell.steps
    for index, step in enumerate(steps):
        if len(steps) > 1:
            yield replace(cell, steps=steps[:index] + steps[index + 1 :])
        for place in range(len(step.acts)):
            if len(step.acts) > 1:
                fewer = replace(step, acts=step.acts[:place] + step.acts[place + 1 :])
                yield replace(cell, steps=(*steps[:index], fewer, *steps[index + 1 :]))
        if step.mode:
            yield replace(cell, steps=(*steps[:index], replace(step, mode=""), *steps[index + 1 :]))
    if cell.state != "serving":
        yield replace(cell, state="serving")
    if cell.stop != "kill":
        yield replace(cell, stop="kill")
