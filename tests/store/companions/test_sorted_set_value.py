"""Sorted sets are in the order of scores, then of members, however they changed."""

from __future__ import annotations

import math
from random import Random

import pytest

from headrace.store.companions.places_plain import place_of
from headrace.store.companions.scores import CHANGED, NEW, SAME
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.limits import Limits

SEED = 24
SCORES = [-math.inf, -1e300, -2.5, -1.0, -5e-324, 0.0, 5e-324, 0.5, 1.0, 2.0, 1e17, 1.7e308, math.inf]


@pytest.mark.parametrize("universe", [10, 100, 3_000])
def test_random_changes_are_those_of_a_model(universe: int) -> None:
    draw = Random(SEED)
    value, model = SortedSetValue(Limits()), dict[bytes, float]()
    for _ in range(6_000):
        member = b"m%d" % draw.randrange(universe)
        kind = draw.randrange(10)
        if kind < 6:
            score = draw.choice([draw.choice(SCORES), float(draw.randrange(5))])
            assert value.put(member, score) == (
                NEW if member not in model else SAME if model[member] == score else CHANGED
            )
            model[member] = score
        elif kind < 9:
            assert value.discard(member) is (member in model)
            model.pop(member, None)
        elif model and universe < 1_000:
            start = draw.randrange(len(model))
            stop = min(start + draw.randrange(3), len(model))
            for name in value.members(start, stop):
                del model[name]
            assert value.remove_range(start, stop) == stop - start
        assert len(value) == len(model)
    ordered = sorted((score, member) for member, score in model.items())
    assert [(score, member) for member, score in value.items()] == ordered
    for rank in range(0, len(ordered), 97):
        score, member = ordered[rank]
        assert (value.rank(member), value.score(member)) == (rank, score)
        assert value.place_at(rank) == place_of(score, member)
    asked = [b"m%d" % draw.randrange(universe + 5) for _ in range(40)]
    for names in (asked, asked[:2]):
        assert value.having(names) == [name for name in names if name in model]
        assert value.scores(names) == [model.get(name) for name in names]
    indexes = [draw.randrange(len(model)) for _ in range(20)]
    assert value.words_at(indexes) == [word for name in value.at_each(indexes) for word in (name, model[name])]
    ranges = [(-1.0, 0.5), (0.5, 0.5), (1.0, math.inf), (3.0, 2.0)]
    ranks = [(sum(s < first for s, _ in ordered), sum(s < after for s, _ in ordered)) for first, after in ranges]
    assert value.score_ranks(ranges) == [(start, stop) for start, stop in ranks if start < stop]
    value.check()


def test_the_encoding_follows_from_members_and_never_goes_back() -> None:
    value = SortedSetValue(Limits())
    for number in range(128):
        value.put(b"%d" % number, number)
    assert value.encoding == b"listpack"
    value.put(b"one more", 1)
    assert value.encoding == b"skiplist"
    value.discard(b"one more")
    assert value.encoding == b"skiplist"
    value.shrink()
    assert value.encoding == b"listpack"
    value.put(b"x" * 65, 1)
    assert value.encoding == b"skiplist"


def test_only_a_skiplist_has_a_negative_zero() -> None:
    small, large = SortedSetValue(Limits()), SortedSetValue(Limits())
    large.become_skiplist()
    for value in (small, large):
        value.put(b"m", -0.0)
    scores = [score for value in (small, large) for _, score in value.items()]
    assert [math.copysign(1, score) for score in scores] == [1, -1]


@pytest.mark.parametrize("count", [10, 2_000])
def test_a_copy_is_independent(count: int) -> None:
    value = SortedSetValue(Limits())
    for number in range(count):
        value.put(b"%d" % number, number)
    twin = value.copy()
    value.put(b"0", 10_000)
    value.discard(b"1")
    assert (twin.score(b"0"), twin.score(b"1")) == (0, 1)
    twin.check()
    value.check()


@pytest.mark.parametrize("is_small", [True, False])
def test_only_a_listpack_forgets_the_sign_of_zero(is_small: bool) -> None:
    value = SortedSetValue(Limits())
    if not is_small:
        value.become_skiplist()
    value.put(b"a", -0.0)
    value.put(b"b", 0.0)
    signs = [math.copysign(1.0, score) for _, score in value.scored(0, 2)]
    assert signs == [1.0 if is_small else -1.0, 1.0]
    assert [score for _, score in value.items()] == [value.score(b"a"), value.score(b"b")]
