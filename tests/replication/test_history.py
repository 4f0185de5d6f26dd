"""Which replicas have followed the same history."""

from __future__ import annotations

from itertools import count

from headrace.replication.history import NO_ID, History


def numbered() -> History:
    """A history whose IDs are `a...a1`, `a...a2`, .."""
    numbers = count(1)
    return History(lambda: f"{next(numbers):a>40}")


def test_a_new_history_continues_no_other() -> None:
    history = numbered()
    assert history.includes(history.replid, 1)
    assert (history.former_id, history.former_end) == (NO_ID, -1)
    assert not history.includes(NO_ID, 1)
    assert not history.includes("?", -1)


def test_the_case_of_an_id_does_not_matter() -> None:
    history = numbered()
    assert history.includes(history.replid.upper(), 1)


def test_after_a_takeover_the_former_history_counts_up_to_where_they_part() -> None:
    history = numbered()
    former_id, history.offset = history.replid, 114
    history.take_over()
    assert (history.former_id, history.former_end, history.offset) == (former_id, 115, 114)
    assert [history.includes(former_id, wanted) for wanted in (1, 114, 115, 116)] == [True, True, True, False]
    assert history.includes(history.replid, 116)


def test_a_restarted_history_continues_neither_itself_nor_a_former_one() -> None:
    history = numbered()
    first_id = history.replid
    history.take_over()
    second_id = history.replid
    history.restart()
    assert not history.includes(first_id, 1)
    assert not history.includes(second_id, 1)
