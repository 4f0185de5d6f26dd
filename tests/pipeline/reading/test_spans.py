"""Arithmetic of positions: spans, backlogs, and losses."""

from __future__ import annotations

import random

import pytest

from headrace.pipeline.reading.spans import (
    Expected,
    Position,
    Span,
    StreamState,
    backlog,
    choose_cuts,
    even_steps,
    find_loss,
    find_unread,
    offsets_from_json,
    offsets_to_json,
    share,
    spans_between,
    split,
)
from headrace.store.ids import make_id

STATE = StreamState(length=10, last_id=20, first_id=11, entries_added=20)


def test_positions_survive_the_checkpoint() -> None:
    offsets = {"b": Position(make_id(5, 1), 7, (make_id(3, 0),), deleted=2, since=1), "a": Position(0, following=9)}
    assert offsets_from_json(offsets_to_json(offsets)) == offsets
    assert offsets_to_json(offsets, with_cuts=False)["b"] == {"id": "5-1", "n": 7, "deleted": "0-2", "since": "0-1"}


def test_pieces_cover_the_span_without_overlap() -> None:
    assert split("s", 0, 10, [4, 7]) == [Span("s", 1, 4), Span("s", 5, 7), Span("s", 8, 10)]
    assert split("s", 5, 10, [2, 5, 10, 12, 7, 7]) == [Span("s", 6, 7), Span("s", 8, 10)]
    assert split("s", 5, 5, []) == []


def test_batch_reads_from_offset_to_offset() -> None:
    start = {"a": Position(5), "gone": Position(9)}
    end = {"a": Position(10, cuts=(7,)), "new": Position(3), "gone": Position(4, since=0)}
    spans = [Span("a", 6, 7), Span("a", 8, 10), Span("gone", 1, 4), Span("new", 1, 3)]
    assert spans_between(start, end) == [(span, Expected()) for span in spans]
    assert spans_between(end, end) == []


def test_uncounted_parts_begin_at_the_following_entry_and_know_earlier_losses() -> None:
    start, end = {"s": Position(5, following=8)}, {"s": Position(20, 20, cuts=(14,))}
    found = spans_between(start, end, {"s": STATE})
    assert found == [(Span("s", 8, 14), Expected(None, 10)), (Span("s", 15, 20), Expected(None, 10))]


@pytest.mark.parametrize(
    ("start", "end", "counts"),
    [
        (Position(5, 5), Position(10, 10), [5]),
        (Position(5, 5), Position(10, 10, cuts=(8,)), [3, 2]),
        (Position(5, 5), Position(10, 10, cuts=(8,), deleted=5), [3, 2]),
        (Position(5, 5), Position(10, 9, cuts=(8,), deleted=7), [None, None]),
        (Position(5), Position(10, 10), [None]),
        (Position(5, 5), Position(10), [None]),
        (Position(50, 50), Position(4, 4, since=0), [None]),
    ],
)
def test_entries_of_a_part_are_counted_if_none_was_deleted(
    start: Position, end: Position, counts: list[int | None]
) -> None:
    assert [expected.count for _, expected in spans_between({"s": start}, {"s": end})] == counts


@pytest.mark.parametrize(
    ("expected", "read", "state", "reason"),
    [
        (Expected(10), 10, StreamState(0, 99, 0, 0, 99), ""),
        (Expected(10), 7, StreamState(9, 99, 13, 0, 99), "3 of 10 entries from 0-10 to 0-20 were trimmed or deleted"),
        (Expected(10), 9, StreamState(9, 99, 1, 15, 99), "1 of 10 entries"),
        (Expected(10), 9, StreamState(9, 99, 1, 5, 99), ""),  # the stream knows of no loss: the count was wrong
        (Expected(10), 0, StreamState(), "10 of 10 entries"),
        (Expected(None, 5), 3, StreamState(90, 99, 13, 0, 99), "up to 4 may have been trimmed"),
        (Expected(None, 5), 3, StreamState(90, 99, 10, 0, 99), ""),
        (Expected(None, 9), 3, StreamState(90, 99, 13, 0, 99), ""),
        (Expected(None, 5), 3, StreamState(), "it was deleted while entries from 0-10 to 0-20 were read"),
    ],
)
def test_entries_lost_before_reading_are_described(
    expected: Expected, read: int, state: StreamState, reason: str
) -> None:
    found = find_unread(Span("s", 10, 20), expected, read, state)
    assert reason in found
    assert bool(reason) == bool(found)


def test_steps_are_even_and_exact() -> None:
    assert even_steps(10, 4) == [3, 3, 2, 2]
    assert even_steps(2, 4) == [1, 1]
    assert even_steps(0, 4) == [0]


def test_cuts_are_chosen_evenly() -> None:
    assert choose_cuts(4, 2) == [2]
    assert choose_cuts(4, 4) == [1, 2, 3]
    assert choose_cuts(0, 4) == choose_cuts(2, 1) == []


def test_backlog_is_exact_with_a_count_and_an_upper_bound_without() -> None:
    assert backlog(STATE, Position(15, 15)) == 5
    assert backlog(STATE, Position(15)) == 10
    assert backlog(STATE, Position(20, 20)) == 0


def test_limit_is_shared_exactly() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    for _ in range(300):
        backlogs = {str(key): rnd.choice([0, 1, 5, rnd.randrange(10**6)]) for key in range(rnd.randrange(1, 6))}
        limit = rnd.choice([rnd.randrange(1, 10), rnd.randrange(1, 10**6)])
        shares = share(backlogs, limit, rnd.randrange(9))
        assert sum(shares.values()) == min(limit, sum(backlogs.values())), f"seed {seed}"
        assert all(0 <= shares[key] <= backlogs[key] for key in backlogs), f"seed {seed}"


def test_small_stream_is_not_starved_by_a_large_one() -> None:
    backlogs = {"full": 10**6, "few": 3, "none": 0, "one": 1}
    assert share(backlogs, 5) == {"full": 3, "few": 1, "none": 0, "one": 1}
    first = [max(shares, key=shares.__getitem__) for shares in (share(backlogs, 1, turn) for turn in range(4))]
    assert first == ["full", "few", "one", "full"]


@pytest.mark.parametrize(
    ("start", "state", "reason"),
    [
        (Position(15, 15), STATE, None),
        (Position(10, 10), STATE, None),
        (Position(5, 5), STATE, "5 entries after 0-5 were trimmed"),
        (Position(5), STATE, None),  # of a checkpoint that says neither its count nor what follows
        (Position(5, following=8), STATE, "entries from 0-8 on were trimmed or deleted unread"),
        (Position(5, following=8), StreamState(0, 20, 0, 0, 20), "entries from 0-8 on were trimmed or deleted unread"),
        (Position(5, following=11), STATE, None),  # trimmed as far as it was read
        (Position(30, 30), STATE, "deleted and created again"),
        (Position(3, 3), StreamState(), "deleted and created again"),
        (
            Position(15, 15),
            StreamState(9, 99, 90, 0, 9),
            "9 entries were ever added to it, but 15 were read: it was deleted",
        ),
        (
            Position(15, 15),
            StreamState(15, 99, 90, 0, 15),
            "15 entries were read, none of which is left, but only 0 were removed",
        ),
        (Position(15, 15), StreamState(20, 99, 90, 0, 25), "none of which is left, but only 5 were removed"),
        (Position(15, 15), StreamState(10, 99, 16, 0, 25), None),
        (Position(3, 3), StreamState(0, 9, 0, 0, 9), "6 entries after 0-3"),
        (Position(5), StreamState(9, 20, 6, 8, 20), "0-8 was deleted"),
        (Position(5, deleted=8), StreamState(9, 20, 6, 8, 20), None),
        (Position(8), StreamState(9, 20, 9, 8, 20), None),
    ],
)
def test_loss_is_found_from_the_state_of_the_stream(start: Position, state: StreamState, reason: str | None) -> None:
    loss = find_loss("s", start, state)
    assert (reason is None) == (loss is None)
    if loss is not None:
        assert reason is not None
        assert reason in str(loss)


def test_beginning_has_a_count_only_without_deletions() -> None:
    assert STATE.beginning == Position(10, 10)
    assert StreamState(9, 20, 11, 13, 20).beginning == Position(10, -1, deleted=13, following=11)
    assert StreamState().beginning == Position(0, 0)
