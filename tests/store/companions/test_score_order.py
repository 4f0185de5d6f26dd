"""Places in order, in both forms, compared with a sorted list."""

from __future__ import annotations

from bisect import bisect_left, insort
from random import Random
from typing import Any

import pytest

from headrace.protocol.encoder import encode2
from headrace.store.companions import score_order_plain
from headrace.store.companions.places_plain import pack_score, unpack_score, words_of
from headrace.store.companions.places_plain import place_of as place_of_member

try:
    from headrace.store.companions import score_order
except ImportError:  # there was no C compiler at installation
    score_order = score_order_plain  # type: ignore[assignment]

FORMS = [score_order, score_order_plain]
SEED = 24
LENGTHS = (8, 8, 8, 9, 20, 254, 255, 300)


def place_of(draw: Random, universe: int) -> bytes:
    number = draw.randrange(universe)
    return b"%08d" % number + b"m" * (LENGTHS[number % len(LENGTHS)] - 8)


def array_of(texts: list[bytes]) -> bytes:
    pieces: list[bytes] = []
    encode2(texts, pieces)
    return b"".join(pieces)


@pytest.mark.parametrize("universe", [10, 1_000, 50_000])
@pytest.mark.parametrize("form", FORMS)
def test_random_changes_are_those_of_a_sorted_list(form: Any, universe: int) -> None:
    draw = Random(SEED)
    order, model = form.ScoreOrder(), list[bytes]()
    # More come than go at first, then more go.
    for step in range(30_000):
        place = place_of(draw, universe)
        at = bisect_left(model, place)
        is_there = model[at : at + 1] == [place]
        assert order.rank(place) == at
        if not is_there and draw.random() < (0.9 if step < 20_000 else 0.2):
            order.add(place)
            insort(model, place)
        elif is_there:
            order.remove(place)
            del model[at]
        if not step % 97 and model:
            start = draw.randrange(len(model))
            stop = min(start + draw.randrange(600), len(model))
            assert order.between(start, stop) == model[start:stop]
            assert order.between(start, stop, 8) == [each[8:] for each in model[start:stop]]
            if not step % 3:
                order.remove_range(start, stop)
                del model[start:stop]
        if not step % 1_500:
            order.check()
            twin = order.copy()
            order.add(b"~")
            assert list(twin) == model
            twin.check()
            order = twin
        assert len(order) == len(model)
    assert list(order) == model
    order.check()


@pytest.mark.parametrize("form", FORMS)
def test_places_that_come_in_order_or_backwards_are_found(form: Any) -> None:
    for numbers in (range(5_000), range(5_000, 0, -1)):
        order = form.ScoreOrder()
        for number in numbers:
            order.add(b"%08d" % number)
        order.check()
        assert list(order) == [b"%08d" % number for number in sorted(numbers)]
        assert [order.rank(b"%08d" % number) for number in sorted(numbers)] == list(range(5_000))
        order.remove_range(0, 5_000)
        assert len(order) == 0
        assert order.between(0, 10) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_place_that_is_not_there_cannot_be_removed(form: Any) -> None:
    order = form.ScoreOrder()
    for places in ([], [b"a"], [b"a", b"c"]):
        for place in places:
            if place not in list(order):
                order.add(place)
        for missing in (b"", b"b", b"d"):
            with pytest.raises(ValueError):  # noqa: PT011 the texts of the two forms differ
                order.remove(missing)


@pytest.mark.skipif(score_order is score_order_plain, reason="there was no C compiler at installation")
def test_many_places_take_little_more_than_their_bytes() -> None:
    draw = Random(SEED)
    order = score_order.ScoreOrder()
    for number in draw.sample(range(100_000), 50_000):
        order.add(b"%08d" % number)
    assert order.memory_size <= 50_000 * 14


@pytest.mark.parametrize("form", FORMS)
def test_places_that_come_in_order_are_those_of_a_sorted_list(form: Any) -> None:
    draw = Random(SEED)
    order, model = form.ScoreOrder(), list[bytes]()
    for number in range(30_000):
        order.add(b"%08d" % number)
        model.append(b"%08d" % number)
        if not number % 5_000:
            order.check()
            at = draw.randrange(len(model))
            order.remove(model.pop(at))
            order.remove_range(len(model) - 3, len(model))
            del model[-3:]
    assert list(order) == model
    assert all(order.rank(place) == at for at, place in enumerate(model))
    order.check()


@pytest.mark.parametrize("form", FORMS)
def test_members_that_get_scores_are_in_their_order(form: Any) -> None:
    draw = Random(SEED)
    order, model = form.ScoreOrder(), dict[bytes, bytes]()
    for step in range(20_000):
        member = b"m" * draw.choice(LENGTHS) + b"%d" % draw.randrange(2_000)
        score = draw.choice((0.0, -0.0, 1.5, -2.0, 1e300, float("inf"), float(draw.randrange(-500, 500))))
        old = model.get(member)
        packed = order.put(member, score, old)
        if old is not None and unpack_score(old) == score:
            assert packed is old
        else:
            assert packed == pack_score(score)
        model[member] = packed
        if not step % 400:
            order.check()
            places = sorted(place_of_member(unpack_score(each), name) for name, each in model.items())
            assert list(order) == places
            start = draw.randrange(len(places))
            stop = start + draw.randrange(600)
            assert order.words(start, stop, False) == words_of(places[start:stop])
            assert order.words(start, stop, True) == words_of(places[start:stop][::-1])
            for skip in (0, 8, 20):
                texts = [place[skip:] for place in places[start:stop]]
                assert order.array(start, stop, skip, False) == array_of(texts)
                assert order.array(start, stop, skip, True) == array_of(texts[::-1])


@pytest.mark.parametrize("form", FORMS)
def test_a_score_cannot_be_in_the_place_of_another_that_is_not_there(form: Any) -> None:
    order = form.ScoreOrder()
    order.put(b"m", 1.0, None)
    for old in (pack_score(2.0), b"short"):
        with pytest.raises(ValueError):  # noqa: PT011 the texts of the two forms differ
            order.put(b"m", 3.0, old)
    assert order.words(0, 2, False) == [b"m", 1.0]


@pytest.mark.parametrize("form", FORMS)
def test_a_place_without_a_score_has_no_words(form: Any) -> None:
    order = form.ScoreOrder()
    order.add(b"short")
    assert order.words(1, 1, False) == []
    assert order.array(1, 1, 0, False) == b"*0\r\n"
    with pytest.raises(ValueError):  # noqa: PT011 the texts of the two forms differ
        order.words(0, 1, False)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 48, 49, 192, 193, 1_000])
def test_new_members_get_places_before_among_and_after_others(form: Any, size: int) -> None:
    draw, order, model = Random(SEED), form.ScoreOrder(), list[bytes]()
    for first in (0, -5_000, -10_000, 5_000, 20, -15_000):
        numbers = [first + number for number in range(size)]
        draw.choice([draw.shuffle, lambda each: None, list.reverse])(numbers)
        members = [b"%d" % number * draw.choice([1, 1, 100]) for number in numbers]
        scores = [number / 2 + (0.25 if first == 20 else 0) for number in numbers]
        words = order.put_new(members, scores)
        assert words == [word for pair in zip(members, map(pack_score, scores), strict=True) for word in pair]
        model = sorted([*model, *map(place_of_member, scores, members)])
        assert list(order) == model
        order.check()
    order.remove_range(3, len(model) - 2)
    assert list(order) == model[:3] + model[-2:] if len(model) > 5 else model
    assert order.put_new([], []) == []
    order.check()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 5, 3_000])
def test_ranks_of_scores_are_those_of_their_places(form: Any, count: int) -> None:
    draw = Random(SEED)
    order = form.ScoreOrder()
    scores = [float(draw.randrange(-500, 500)) for _ in range(count)]
    order.put_new([b"m%d" % number for number in range(count)], scores)
    ranges = [(first, first + draw.randrange(3)) for first in map(float, range(-520, 520, 7))] + [(5.0, -5.0)]
    expected = [(sum(s < first for s in scores), sum(s < after for s in scores)) for first, after in ranges]
    assert order.score_ranks(ranges) == [(start, stop) for start, stop in expected if start < stop]
