"""Arithmetic of positions: what to read, how much of it, and what can no longer be read."""

from __future__ import annotations

import random

import pytest

from headrace.pipeline.spans import (
    Position,
    Span,
    StreamState,
    backlog,
    choose_cuts,
    even_steps,
    find_loss,
    offsets_from_json,
    offsets_to_json,
    share,
    spans_between,
    split,
)
from headrace.store.ids import make_id

STATE = StreamState(length=10, last_id=20, first_id=11, entries_added=20)


def test_positions_survive_the_checkpoint() -> None:
    offsets = {"b": Position(make_id(5, 1), 7, (make_id(3, 0),), deleted=2, since=1), "a": Position(0)}
    assert offsets_from_json(offsets_to_json(offsets)) == offsets
    assert offsets_to_json(offsets, with_cuts=False)["b"] == {"id": "5-1", "n": 7, "deleted": "0-2", "since": "0-1"}


def test_pieces_cover_the_span_without_overlap() -> None:
    assert split("s", 0, 10, [4, 7]) == [Span("s", 1, 4), Span("s", 5, 7), Span("s", 8, 10)]
    assert split("s", 5, 10, [2, 5, 10, 12, 7, 7]) == [Span("s", 6, 7), Span("s", 8, 10)]
    assert split("s", 5, 5, []) == []


def test_batch_reads_from_offset_to_offset() -> None:
    start = {"a": Position(5), "gone": Position(9)}
    end = {"a": Position(10, cuts=(7,)), "new": Position(3), "gone": Position(4, since=0)}
    assert spans_between(start, end) == [Span("a", 6, 7), Span("a", 8, 10), Span("gone", 1, 4), Span("new", 1, 3)]
    assert spans_between(end, end) == []


def test_steps_are_even_and_exact() -> None:
    assert even_steps(10, 4) == [3, 3, 2, 2]
    assert even_steps(2, 4) == [1, 1]
    assert even_steps(0, 4) == [0]


def test_cuts_are_chosen_evenly() -> None:
    assert choose_cuts([10, 20, 30, 40], 2) == [30]
    assert choose_cuts([10, 20, 30, 40], 4) == [20, 30, 40]
    assert choose_cuts([], 4) == choose_cuts([1, 2], 1) == []


def test_backlog_is_exact_by_counter_and_bounded_without() -> None:
    assert backlog(STATE, Position(15, 15)) == 5
    assert backlog(STATE, Position(15)) == 10
    assert backlog(STATE, Position(20, 20)) == 0


def test_limit_is_shared_exactly() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    for _ in range(300):
        backlogs = {str(key): rnd.choice([0, 1, 5, rnd.randrange(10**6)]) for key in range(rnd.randrange(1, 6))}
        limit = rnd.randrange(1, 10**6)
        shares = share(backlogs, limit)
        assert sum(shares.values()) == min(limit, sum(backlogs.values())), f"seed {seed}"
        assert all(0 <= shares[key] <= backlogs[key] for key in backlogs), f"seed {seed}"


@pytest.mark.parametrize(
    ("start", "state", "reason"),
    [
        (Position(15, 15), STATE, None),
        (Position(10, 10), STATE, None),
        (Position(5, 5), STATE, "5 entries after 0-5 were trimmed"),
        (Position(5), STATE, None),
        (Position(30, 30), STATE, "deleted and made anew"),
        (Position(3, 3), StreamState(), "deleted and made anew"),
        (Position(15, 15), StreamState(9, 99, 90, 0, 9), "it has had 9 entries, and 15 were read: it was deleted and"),
        (Position(3, 3), StreamState(0, 9, 0, 0, 9), "6 entries after 0-3"),
        (Position(5), StreamState(9, 20, 6, 8, 20), "0-8 was deleted"),
        (Position(5, deleted=8), StreamState(9, 20, 6, 8, 20), None),
        (Position(8), StreamState(9, 20, 9, 8, 20), None),
    ],
)
def test_loss_is_found_by_what_the_stream_remembers(start: Position, state: StreamState, reason: str | None) -> None:
    loss = find_loss("s", start, state)
    assert (reason is None) == (loss is None)
    if loss is not None:
        assert reason is not None
        assert reason in str(loss)


def test_beginning_knows_its_count_only_without_deletions() -> None:
    assert STATE.beginning == Position(10, 10)
    assert StreamState(9, 20, 11, 13, 20).beginning == Position(10, -1, deleted=13)
    assert StreamState().beginning == Position(0, 0)
