"""Every command, directive, signal and connection in every state of the server: nothing lost, nothing left.

    make crossing                                        what CI runs: some pairs of each state, then sequences
    make crossing MINUTES=60                             every pair with every policy and stop; an hour of sequences
    make crossing ONLY='rewriting/CONFIG|SET appendonly no'    one pair, with every policy and stop
    make crossing ONLY=7/123                             sequence 123 of seed 7

A failure prints the state, what was sent and the command that plays it again.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, product
from random import Random

import pytest

from crossing.acts import BY_HAND, NEVER_TAKEN, TAKEN_IN, Act, Asking, all_acts, command_acts, directive_acts
from crossing.crossing import ACCEPTED, STOPS, Cell, Step, play
from crossing.drawing import draw_cell, failure_of, shrink
from crossing.scene import Violation
from crossing.states import STATES, State
from headrace.commands.core.table import TABLE, Flag, all_rows
from headrace.server.configuration.directives import DIRECTIVES, Change

MINUTES = float(os.environ.get("HEADRACE_TEST_CROSSING_MINUTES", "0.1"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 120 * MINUTES)
SEED = int(os.environ.get("HEADRACE_TEST_CROSSING_SEED") or "1")
ONLY = os.environ.get("HEADRACE_TEST_CROSSING_ONLY", "")
WHOLE_MINUTES = 20
"""With so many minutes every pair is played, with every policy and every stop."""
QUICK_SHARE = 0.015
"""Share of the pairs that `make test` plays."""
QUICK_MINUTES = 0.5
"""With fewer minutes it is the quick form."""
UNLIKELY_SHARE = 0.05
"""Share of the pairs that CI plays of acts that only read, and of directives that have nothing to do with the disk."""
SHOWN_MAX = 8
"""Failures of a state that are shown."""
ABOUT_DISK = ("append", "aof", "auto-aof", "save", "rdb", "dir", "dbfilename", "stop-writes", "maxmemory", "proto-max")
READONLY_ROWS = {row.name for row in all_rows() if row.flags & Flag.READONLY}


def is_likely(act: Act) -> bool:
    """Whether an act has to do with what is kept, or changes something."""
    if act.row_name == "CONFIG|SET":
        return act.request[2].decode().startswith(ABOUT_DISK)
    return act.row_name not in READONLY_ROWS


def pairs_of(state: State) -> Iterator[Cell]:
    """The pairs of a state that are to be played."""
    if MINUTES >= WHOLE_MINUTES:
        for act, policy, stop in product(all_acts(), state.policies, STOPS):
            yield Cell(state.name, policy, (Step((act,)),), stop, SEED)
        return
    for act in all_acts():
        rnd = Random(f"{SEED} {state.name} {act.name}")
        share = QUICK_SHARE if MINUTES < QUICK_MINUTES else 1.0 if is_likely(act) else UNLIKELY_SHARE
        if rnd.random() < share * state.share:
            yield Cell(state.name, rnd.choice(state.policies), (Step((act,)),), rnd.choice(STOPS), SEED)


@pytest.mark.skipif(bool(ONLY), reason="one cell is asked for")
@pytest.mark.parametrize("name", STATES)
def test_pair_of_state_and_act_breaks_no_rule(name: str, record_property: Callable[[str, object], None]) -> None:
    failures = []
    cells_count = 0
    for cell in pairs_of(STATES[name]):
        cells_count += 1
        failure = failure_of(cell)
        if failure is not None:
            failures.append(f"{failure}\n  again: make crossing ONLY='{cell.name}' SEED={SEED}")
    record_property("states", 1)
    record_property("pairs", cells_count)
    print(f"{cells_count} pairs")
    assert not failures, f"{len(failures)} pairs of {cells_count} fail:\n\n" + "\n\n".join(failures[:SHOWN_MAX])


@pytest.mark.skipif(bool(ONLY), reason="one cell is asked for")
def test_sequence_of_acts_breaks_no_rule(record_property: Callable[[str, object], None]) -> None:
    end_s = time.monotonic() + MINUTES * 60
    kinds: Counter[str] = Counter()
    for number in count():
        if time.monotonic() > end_s:
            break
        cell = draw_cell(SEED, number)
        kinds[cell.state] += 1
        failure = failure_of(cell)
        if failure is not None:
            _, failure = shrink(cell, failure)
            pytest.fail(f"{failure}\n  the whole: make crossing ONLY={SEED}/{number}\n{cell}")
    record_property("sequences", sum(kinds.values()))
    print(f"\n{sum(kinds.values())} sequences of seed {SEED}, in {len(kinds)} states")


@pytest.mark.skipif(not ONLY, reason="no cell is asked for")
def test_cell_that_is_asked_for() -> None:
    first, _, rest = ONLY.partition("/")
    if first.isdigit():
        cell = draw_cell(int(first), int(rest))
        print(cell)
        play(cell)
        return
    acts = [act for act in all_acts() if act.name == rest]
    assert acts, f"there is no act of the name {rest}: {[act.name for act in all_acts() if rest in act.name]}"
    for policy, stop in product(STATES[first].policies, STOPS):
        play(Cell(first, policy, (Step((acts[0],)),), stop, SEED))


# -- the walk is whole -----------------------------------------------------------------------------


def test_every_command_has_an_act_whose_arguments_a_server_takes() -> None:
    tried = {act.row_name for act in command_acts()} | {"CONFIG|SET"}
    assert {row.name for row in all_rows() if row.handler is not None} <= tried
    for name in set(BY_HAND) - set(NEVER_TAKEN) - set(TAKEN_IN):
        acts = [act for act in command_acts() if act.row_name == name]
        replies = [Asking().ask(act.request, act.opening) for act in acts]
        assert any(not each or each[0].kind not in b"-!" for each in replies), (name, replies)


def test_every_reason_for_leaving_out_is_still_one() -> None:
    assert set(NEVER_TAKEN) <= {row.name for row in all_rows()}
    for name in NEVER_TAKEN:
        (act,) = (each for each in command_acts() if each.row_name == name)
        assert Asking().ask(act.request)[0].kind == b"-", name


def test_every_directive_is_set() -> None:
    assert {act.request[2] for act in directive_acts()} == {each.name for each in DIRECTIVES}


@pytest.mark.skipif(MINUTES < QUICK_MINUTES or bool(ONLY), reason="the quick form plays a sample")
def test_everything_that_can_succeed_does_in_some_state() -> None:
    """The pairs above have played most of it: what is left is looked for here."""
    subjects = {subject for act in all_acts() for subject in act.subjects}
    immutable = {f"CONFIG SET {each.name.decode()}" for each in DIRECTIVES if each.change is Change.IMMUTABLE}
    never = set(NEVER_TAKEN) | immutable
    for name in (*TAKEN_IN.values(), "serving", "compat-config", "serving without a log"):
        for act in all_acts():
            if set(act.subjects) - never - set(ACCEPTED):
                play(Cell(name, STATES[name].policies[0], (Step((act,)),)))
    print(f"never played with success: {', '.join(sorted(subjects - set(ACCEPTED)))}")
    assert subjects - set(ACCEPTED) == never


def test_a_new_command_of_which_nothing_is_taken_fails_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    get = TABLE[b"GET"]
    monkeypatch.setattr(get, "arguments", ())
    with pytest.raises(AssertionError, match="no arguments of GET were taken"):
        command_acts.__wrapped__()


def test_the_long_form_plays_each_pair_with_every_policy_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MINUTES", WHOLE_MINUTES)
    serving = STATES["serving"]
    played = [(cell.steps[0].acts[0].name, cell.policy, cell.stop) for cell in pairs_of(serving)]
    assert sorted(played) == sorted(product((act.name for act in all_acts()), serving.policies, STOPS))


def test_a_cell_is_the_same_each_time() -> None:
    acts = [act for act in all_acts() if act.name in ("XADD", "BGREWRITEAOF", "CONFIG|SET appendonly yes")]
    for act, name in product(acts, ("rewriting", "in MULTI")):
        cell = Cell(name, b"always", (Step((act,)),))
        assert failure_of(cell) == failure_of(cell)
    assert draw_cell(3, 4) == draw_cell(3, 4)


def test_violation_of_a_sequence_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    (culprit,) = (act for act in all_acts() if act.name == "FLUSHALL")
    others = tuple(act for act in all_acts() if act.name in ("PING", "ECHO"))
    whole = Cell("rewriting", b"no", (Step((*others, culprit), mode="multi"), Step(others)), "SIGTERM")

    def broken(cell: Cell) -> None:
        if any(culprit in step.acts for step in cell.steps):
            raise Violation("told: lost")

    monkeypatch.setattr("crossing.drawing.play", broken)
    smallest, _ = shrink(whole, "told: lost")
    assert smallest == Cell("serving", b"no", (Step((culprit,)),), "kill")
