"""Texts in a block of memory, in both forms, compared with lists and dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.listpack import encode_text, pack, unpack
from headrace.store.companions import packed_texts_plain
from headrace.store.companions.places_plain import place_of
from headrace.store.key_slots import scan_keys

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


def listpacks() -> list[tuple[bytes, list[bytes]]]:
    """Listpacks of texts, numbers and long texts, with their texts."""
    draw, made = Random(SEED), list[tuple[bytes, list[bytes]]]()
    texts = [b"", b"a", b"-", b"007", b"-0", b"x" * 63, b"x" * 64, b"x" * 254, b"x" * 255, b"y" * 5_000]
    texts += [b"%d" % (sign * 2**bits) for sign in (1, -1) for bits in (0, 6, 7, 12, 13, 15, 23, 31, 62, 63)]
    for size in range(60):
        drawn = [draw.choice(texts) + draw.choice([b"", b"%d" % draw.randrange(10**6)]) for _ in range(size)]
        made.append((pack([encode_text(text) for text in drawn], size), drawn))
    return made


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_pairs_are_those_of_a_listpack_and_make_it_again() -> None:
    loaded = 0
    for data, texts in listpacks():
        pairs = packed_texts.PackedPairs()
        if len(set(texts)) < len(texts):
            assert pairs.load(data, 1) == -1
            assert not len(pairs)
        else:
            assert pairs.load(data, 1) == 0
            assert pairs.items() == [(text, b"") for text in texts]
            assert pairs.listpack(1) == data
            assert not texts or pairs.load(data, 1) == -1
            loaded += 1
        pairs = packed_texts.PackedPairs()
        assert pairs.fill(texts, 1) is (len(set(texts)) == len(texts))
        assert pairs.names() == (texts if len(pairs) else [])
        pairs = packed_texts.PackedPairs()
        if len(texts) % 2 or len(set(texts[::2])) < len(texts) // 2:
            assert pairs.load(data, 2) == -1
            assert not len(pairs)
        else:
            assert pairs.load(data, 2) == 0
            assert pairs.words() == texts
            assert pairs.listpack(2) == data
            assert not texts or not pairs.fill(texts, 2)
            filled = packed_texts.PackedPairs()
            assert filled.fill(texts, 2)
            assert filled.words() == texts
            assert filled.memory_size == pairs.memory_size
            twin = pairs.copy()
            assert all(twin.pop(name) == text for name, text in pairs.items())
            assert not len(twin)
            loaded += 1
    assert loaded > 20


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
@pytest.mark.parametrize("times", [[0, 0, 0], [5, 0, 2**48 - 1], [1, 1, 1]])
def test_pairs_are_read_with_their_times(times: list[int]) -> None:
    names = [b"f", b"12", b"x" * 300]
    words = [
        word for name, time_ms in zip(names, times, strict=True) for word in (name, b"v" * len(name), b"%d" % time_ms)
    ]
    data = pack([encode_text(word) for word in words], len(words))
    pairs = packed_texts.PackedPairs()
    assert pairs.load(data, 3) == min([time_ms for time_ms in times if time_ms], default=0)
    assert pairs.times() == {name: time_ms for name, time_ms in zip(names, times, strict=True) if time_ms}
    assert pairs.items() == [(name, b"v" * len(name)) for name in names]
    assert pairs.listpack(3) == data


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("in_order", [False, True])
def test_random_times_are_those_of_a_model(form: Any, in_order: bool) -> None:
    draw = Random(SEED)
    pairs, model = form.PackedPairs(), packed_texts_plain.PackedPairs()
    for step in range(6_000):
        name, text = b"%d" % draw.randrange(40) * draw.choice([1, 1, 1, 200]), text_of(draw)
        due_ms = draw.choice([0, 1, 5, 5, 2**46])
        names = [b"%d" % draw.randrange(40) for _ in range(draw.randrange(4))]
        match draw.randrange(8):
            case 0 | 1:
                assert pairs.put(name, text) is model.put(name, text)
            case 2:
                assert pairs.pop(name) == model.pop(name)
            case 3:
                assert pairs.set_time(name, due_ms, in_order) is model.set_time(name, due_ms, in_order)
            case 4:
                assert pairs.set_times(names, due_ms, in_order) == model.set_times(names, due_ms, in_order)
            case 5:
                assert pairs.drop_times(names, 3, in_order) == model.drop_times(names, 3, in_order)
            case 6 if not in_order:
                found = {name: draw.randrange(1, 9) for name in names}
                pairs.take_times(found)
                model.take_times(found)
            case _:
                twin = pairs.copy()
                pairs.put(name, b"changed")
                pairs.set_times(twin.names(), 7, False)
                pairs = twin
        assert pairs.items() == model.items()
        assert pairs.times() == model.times()
        assert pairs.timed_count == model.timed_count == len(model.times())
        assert pairs.first_timed() == model.first_timed()
        assert pairs.time(name) == model.time(name)
        assert pairs.times_of([name, *names]) == model.times_of([name, *names])
        assert pairs.get_all([name, *names]) == [model.get(each) for each in (name, *names)]
        assert pairs.texts() == [text for _, text in model.items()]
        assert pairs.words() == model.words()
        if in_order:
            times = [pairs.time(each) or 2**62 for each in pairs.names()]
            assert times == sorted(times)
        if len(model):
            index = draw.randrange(len(model))
            assert pairs.at(index) == model.names()[index]
        if not step % 100:
            words = [word for name, text in model.items() for word in (name, text, b"%d" % model.time(name))]
            assert pairs.listpack(3) in (None, pack([encode_text(word) for word in words], len(words)))


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
@pytest.mark.parametrize("time", [b"-1", b"%d" % 2**48, b"x", b""])
def test_unusual_times_are_left_to_the_caller(time: bytes) -> None:
    pairs = packed_texts.PackedPairs()
    assert pairs.load(pack([encode_text(word) for word in (b"f", b"v", b"5", b"g", b"x" * 300, time)], 6), 3) == -1
    assert not len(pairs)
    assert pairs.put(b"f", b"w")


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_damaged_listpacks_are_left_to_the_caller() -> None:
    draw = Random(SEED)
    data = pack([encode_text(text) for text in (b"a", b"500", b"-70000", b"x" * 300, b"5" * 18, b"7")], 6)
    for _ in range(5_000):
        damaged = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(data))] = draw.randrange(256)
        del damaged[draw.choice([len(data), draw.randrange(len(data))]) :]
        try:
            texts = [each if isinstance(each, bytes) else b"%d" % each for each in unpack(bytes(damaged))]
        except RdbError:
            texts = None
        for step in (1, 2, 3):
            pairs, scored = packed_texts.PackedPairs(), packed_texts.PackedTexts()
            found = pairs.load(bytes(damaged), step)
            if texts is None:
                assert found == -1
                assert not scored.load_scored(bytes(damaged))
            elif found >= 0 and step < 3:
                assert (pairs.words() if step == 2 else pairs.names()) == texts
            assert found >= 0 or not len(pairs)


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_places_are_those_of_a_listpack_of_members_and_scores() -> None:
    scored = [
        (b"m", b"-1e300"),
        (b"5", b"-2.5"),
        (b"a", b"0"),
        (b"b", b"0"),
        (b"c" * 300, b"0.1"),
        (b"z", b"17"),
        (b"y", b"1e20"),
    ]
    texts = packed_texts.PackedTexts()
    assert texts.load_scored(pack([encode_text(word) for pair in scored for word in pair], 14))
    assert texts.all() == [place_of(float(score), member) for member, score in scored]
    assert not packed_texts.PackedTexts().load_scored(pack([], 1))
    assert packed_texts.PackedTexts().load_scored(pack([], 0))
    for unusual in (
        [(b"a", b"2"), (b"b", b"1")], [(b"b", b"1"), (b"a", b"1")], [(b"a", b"1"), (b"a", b"2")],
        [(b"a", b"1"), (b"a", b"1")], [(b"a", b"nan")], [(b"a", b"inf")], [(b"a", b"-0")], [(b"a", b"0.0")],
        [(b"a", b"")], [(b"a", b"1_0")], [(b"a", b" 1.5")], [(b"a", b"1e5x")], [(b"a", b"1.5" + b"0" * 60)],
        [(b"a", b"--1")], [(b"x" * 400, b"1"), (b"x" * 400, b"2")],
    ):  # fmt: skip
        texts = packed_texts.PackedTexts()
        assert not texts.load_scored(pack([encode_text(word) for pair in unusual for word in pair], 2 * len(unusual)))
        assert texts.all() == []


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_more_names_than_a_block_takes_are_left_to_the_caller() -> None:
    names = [b"%d" % number for number in range(513)]
    assert packed_texts.PackedPairs().load(pack([encode_text(name) for name in names], 513), 1) == -1
    assert packed_texts.PackedPairs().load(pack([encode_text(name) for name in names[1:]], 512), 1) == 0
    assert not packed_texts.PackedPairs().fill(names, 1)
    assert packed_texts.PackedPairs().fill(names[1:], 1)
    assert not packed_texts.PackedPairs().fill([*names[2:], b"2"], 1)


def test_without_a_codec_every_listpack_is_left_to_the_caller() -> None:
    pairs = packed_texts_plain.PackedPairs()
    assert pairs.load(pack([], 0), 1) == -1
    assert not pairs.fill([], 1)
    assert pairs.listpack(1) is None
    assert not packed_texts_plain.PackedTexts().load_scored(pack([], 0))


@pytest.mark.skipif(packed_texts is packed_texts_plain, reason="there was no C compiler at installation")
def test_scores_are_the_nearest_doubles() -> None:
    draw = Random(SEED)
    scores = [draw.random() * 10 ** draw.randrange(-20, 20) * draw.choice([1, -1]) for _ in range(20_000)]
    texts = [repr(score).encode() for score in scores]
    # In the middle between two doubles, next to it, and with more digits than a double tells apart.
    texts += [b"9007199254740993.0", b"9007199254740993.1", b"1.00000000000000011102230246251565"]
    texts += [b"0.5", b"00.5", b"5."]
    texts += [b"%d.%d" % (draw.randrange(10**9), draw.randrange(10 ** draw.randrange(1, 20))) for _ in range(20_000)]
    for text in texts:
        places = packed_texts.PackedTexts()
        assert places.load_scored(pack([encode_text(b"m"), encode_text(text)], 2))
        assert places.all() == [place_of(float(text), b"m")], text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 3, 100, 512])
def test_names_are_found_among_few_and_many(form: Any, count: int) -> None:
    draw = Random(SEED)
    pairs, texts = form.PackedPairs(), form.PackedTexts()
    present = [text_of(draw) + b"%d" % number for number in range(count)]
    for number, name in enumerate(present):
        pairs.put(name, b"text")
        texts.put_sorted(b"%d" % (number % 10) + name, 1)
    pairs.set_times(present[: count // 2], 5, False)
    for asked in (present[:2], [*present[::2], b"none", b""], [*present, *present, b"%d" % count]):
        assert pairs.has_each(asked) == [int(name in present) for name in asked]
        for wanted in (True, False):
            expected = [name for name in asked if (name in present) is wanted]
            assert pairs.having(asked, wanted) == expected
            assert texts.having(asked, 1, wanted) == expected


@pytest.mark.parametrize("form", FORMS)
def test_many_names_are_found_after_each_change(form: Any) -> None:
    draw = Random(SEED)
    # More pairs than are noted at a time.
    kept = [(form.PackedPairs(), packed_texts_plain.PackedPairs()) for _ in range(80)]
    for pairs, model in kept:
        words = [word for number in range(draw.randrange(100, 500)) for word in (b"%d" % number, b"text")]
        for name, text in zip(words[::2], words[1::2], strict=True):
            pairs.put(name, text)
            model.put(name, text)
    index = 0
    for step in range(12_000):
        # Each is used for a while, so that its names are noted.
        if not step % 9:
            index = draw.randrange(len(kept))
        pairs, model = kept[index]
        name = b"%d" % draw.randrange(600)
        match draw.randrange(9):
            case 0 | 1 if len(model) < 520:
                text = draw.choice([b"text", b"TEXT", b"longer", b"x" * 300])
                assert pairs.put(name, text) is model.put(name, text)
            case 2:
                assert pairs.pop(name) == model.pop(name)
            case 3:
                due_ms, in_order = draw.choice([1, 2, 3]), draw.random() < 0.5
                assert pairs.set_time(name, due_ms, in_order) is model.set_time(name, due_ms, in_order)
            case 4 if name in model:
                place = draw.randrange(len(model))
                pairs.move(name, place)
                model.move(name, place)
            case 5 if not step % 50:
                kept[index] = (pairs.copy(), model.copy())
        for number in draw.sample(range(600), 12):
            name = b"%d" % number
            assert pairs.get(name) == model.get(name)
            assert (name in pairs) is (name in model)
        if not step % 40:
            assert pairs.words() == model.words()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 10, 300, 512])
def test_a_scan_returns_each_name_once(form: Any, count: int) -> None:
    draw = Random(SEED)
    pairs = form.PackedPairs()
    for number in range(count):
        pairs.put(b"n%d" % number, b"v%d" % number)
    for hint in (1, 3, 10, 1000):
        seen, cursor, calls = list[bytes](), 0, 0
        while True:
            assert scan_keys(pairs.names(), cursor, hint) == pairs.scan(cursor, hint, False)
            found, cursor = pairs.scan(cursor, hint, True)
            assert len(found) >= 2 * min(hint, count - len(seen) // 2)
            seen += found
            calls += 1
            if not cursor:
                break
        pairs_seen = list(zip(seen[::2], seen[1::2], strict=True))
        assert sorted(pairs_seen) == sorted(pairs.items())
        assert calls <= count // hint + 1
    start = draw.randrange(count + 1)
    assert pairs.part(start, 7) == pairs.names()[start : start + 7]
    for odd in (-1, count + 1):
        with pytest.raises(IndexError):
            pairs.part(odd, 1)
    with pytest.raises(ValueError, match="0"):
        pairs.scan(0, 0, False)


@pytest.mark.parametrize("form", FORMS)
def test_a_scan_finds_what_has_changed_since_the_last_one(form: Any) -> None:
    pairs = form.PackedPairs()
    for number in range(40):
        pairs.put(b"n%d" % number, b"v")
        assert pairs.scan(0, 5, False) == scan_keys(pairs.names(), 0, 5)
    changes: list[Callable[[], Any]] = [
        lambda: pairs.pop(b"n7"),
        lambda: pairs.put(b"n8", b"longer than before"),
        lambda: pairs.set_times([b"n9"], 5000, in_order=True),
        lambda: pairs.pop_all([b"n0", b"n39", b"n20"]),
        lambda: pairs.pop_all([b"n%d" % number for number in range(25, 37)]),
        lambda: pairs.put(b"new", b""),
    ]
    for change in changes:
        change()
        for cursor in (0, 1 << 42):
            assert pairs.scan(cursor, 5, False) == scan_keys(pairs.names(), cursor, 5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_timed", [False, True])
def test_many_names_are_removed_as_one_after_the_other(form: Any, is_timed: bool) -> None:
    draw = Random(SEED)
    for count in (0, 1, 8, 9, 20, 300, 512):
        pairs, others = form.PackedPairs(), form.PackedPairs()
        for each in (pairs, others):
            for number in range(count):
                # Some are long: they are objects of their own.
                each.put(b"n%d" % number * (1 + 40 * (number % 7 == 3)), b"v" * (1 + 90 * (number % 5 == 2)))
                if is_timed and number % 3 == 1:
                    each.set_time(b"n%d" % number, 5000 + number, in_order=True)
        for wanted in (1, 9, count // 2, count):
            # Some are named twice, some are not there.
            names = [*draw.sample(others.names(), min(wanted, len(others))), b"missing", *others.names()[:3]]
            draw.shuffle(names)
            assert pairs.pop_all(names) == [others.pop(name) for name in names]
            assert (pairs.words(), pairs.timed_count) == (others.words(), others.timed_count)
            assert pairs.times() == others.times()
            assert pairs.memory_size <= others.memory_size
