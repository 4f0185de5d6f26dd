"""Texts in a block of memory, in both forms, compared with lists and dictionaries."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headrace.store.companions import packed_texts_plain

try:
    from headrace.store.companions import packed_texts
except ImportError:  # there was no C compiler at installation
    packed_texts = packed_texts_plain  # type: ignore[assignment]

FORMS = [packed_texts, packed_texts_plain]
SEED = 24
LENGTHS = (0, 1, 5, 63, 254, 255, 256, 70_000)


def text_of(draw: Random) -> bytes:
    return draw.choice([b"a", b"b", b"\0", b"%d" % draw.randrange(50)]) * draw.choice(LENGTHS)


@pytest.mark.parametrize("form", FORMS)
def test_random_changes_are_those_of_a_list(form: Any) -> None:
    draw = Random(SEED)
    texts, model = form.PackedTexts(), list[bytes]()
    for step in range(4_000):
        size = len(model)
        start = draw.randrange(size + 1)
        stop = draw.randrange(start, size + 1)
        text = text_of(draw)
        match draw.randrange(5):
            case 0 | 1:
                assert texts.put_sorted(text, 0) == (0 if text in model else 2)
                model = sorted({*model, text})
            case 2 if stop - start < 5 or size > 60:
                texts.remove(start, stop)
                del model[start:stop]
            case 3:
                twin = texts.copy()
                texts.remove(start, stop)
                assert twin.all() == model
                texts = twin
            case _:
                skipped = draw.choice([0, 1, 8])
                places = [index for index, each in enumerate(model) if each[skipped:] == text and len(each) >= skipped]
                assert texts.find(text, skipped) == (places[0] if places else -1)
        assert len(texts) == len(model)
        if model:
            index = draw.randrange(len(model))
            assert texts.at(index) == model[index]
            assert texts.between(index, len(model), 2) == [each[2:] for each in model[index:]]
        if not step % 100:
            assert texts.all() == model
            assert texts.memory_size >= sum(map(len, model))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_put_in_order_stays_ascending(form: Any) -> None:
    draw = Random(SEED)
    texts, model = form.PackedTexts(), dict[bytes, bytes]()
    for _ in range(600):
        head, tail = draw.choice([b"a", b"b", b"c"]), text_of(draw)
        assert texts.rank(head + tail) == sum(each < head + tail for each in sorted(h + t for t, h in model.items()))
        assert texts.ending(tail, 1) == (model[tail] + tail if tail in model else None)
        assert texts.put_sorted(head + tail, 1) == (2 if tail not in model else 0 if model[tail] == head else 1)
        model[tail] = head
        assert texts.all() == sorted(h + t for t, h in model.items())
    with pytest.raises(ValueError, match="5"):
        texts.put_sorted(b"abcd", 5)


@pytest.mark.parametrize("form", FORMS)
def test_random_changes_are_those_of_a_dictionary(form: Any) -> None:
    draw = Random(SEED)
    pairs, model = form.PackedPairs(), dict[bytes, bytes]()
    for _ in range(6_000):
        name, text = b"%d" % draw.randrange(60) * draw.choice([1, 1, 1, 200]), text_of(draw)
        match draw.randrange(5):
            case 0 | 1:
                assert pairs.put(name, text) is (name not in model)
                model[name] = text
            case 2:
                assert pairs.pop(name) == model.pop(name, None)
            case 3 if name in model:
                rest = [each for each in model.items() if each[0] != name]
                index = draw.randrange(len(model))
                pairs.move(name, index)
                model = dict([*rest[:index], (name, model[name]), *rest[index:]])
            case _:
                twin = pairs.copy()
                pairs.put(name, b"changed")
                pairs = twin
        assert pairs.get(name) == model.get(name)
        assert (name in pairs) is (name in model)
        assert len(pairs) == len(model)
        assert pairs.items() == list(model.items())
        assert pairs.names() == list(model)
        assert pairs.words() == [word for pair in model.items() for word in pair]
        if model:
            index = draw.randrange(len(model))
            assert pairs.at(index) == list(model)[index]


@pytest.mark.parametrize("form", FORMS)
def test_a_place_that_is_not_there_is_an_index_error(form: Any) -> None:
    texts, pairs = form.PackedTexts(), form.PackedPairs()
    texts.put_sorted(b"a", 0)
    texts.put_sorted(b"b", 0)
    pairs.put(b"name", b"text")
    for call in (
        lambda: texts.at(2),
        lambda: texts.at(-1),
        lambda: texts.between(1, 3),
        lambda: texts.between(2, 1),
        lambda: texts.remove(0, 3),
        lambda: pairs.at(1),
        lambda: pairs.at(-1),
    ):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(IndexError):
        pairs.move(b"other", 0)
    assert texts.all() == [b"a", b"b"]


@pytest.mark.parametrize("form", FORMS)
def test_the_size_follows_what_is_held(form: Any) -> None:
    texts = form.PackedTexts()
    empty = texts.memory_size
    texts.put_sorted(b"x" * 10_000, 0)
    texts.put_sorted(b"short", 0)
    assert 10_000 <= texts.memory_size - empty <= 10_300
    texts.remove(0, 2)
    assert texts.memory_size - empty < 100


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_many_short_texts_take_little_more_than_their_bytes() -> None:
    texts = packed_texts.PackedTexts()
    for number in range(1000):
        texts.put_sorted(b"%05d" % number, 0)
    assert texts.memory_size <= 1000 * 8
