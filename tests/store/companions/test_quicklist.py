"""Lists in nodes, in both forms: elements as in a Python list, and nodes that are alike in both."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

import pytest

from headrace.persistence.rdb.listpack import encode_texts, pack, unpack
from headrace.protocol.scalars import bulk
from headrace.store.companions import quicklist_plain
from headrace.store.companions.integers import as_integer

try:
    from headrace.store.companions import quicklist
except ImportError:  # there was no C compiler at installation
    quicklist = quicklist_plain  # type: ignore[assignment]

FORMS = [quicklist, quicklist_plain]
FILLS = (-1, -2, -5, 0, 1, 4, 100)
NUMBERS = [
    sign * (1 << bits) + step for bits in (0, 7, 12, 15, 23, 31, 63) for sign in (1, -1) for step in (-2, -1, 0, 1)
]
# Texts that look like numbers, and lengths at which the encoding of an element or of its length changes.
TEXTS = [
    *(b"%d" % number for number in NUMBERS), b"", b"-", b"-0", b"00", b"01", b"+1", b"1 ", b"1.0", b"9" * 20,
    *(b"x" * size for size in (1, 62, 63, 64, 124, 125, 126, 127, 4_093, 4_095, 4_096, 4_097)),
]  # fmt: skip
LARGE = [b"x" * size for size in (8_183, 8_192, 8_193, 16_377, 16_378, 16_379, 70_000, 2_097_150)]


def text_of(draw: Random, scale: int) -> bytes:
    if draw.random() < 0.3:
        return b"%d" % draw.randrange(8)
    if draw.random() < 0.01 * scale:
        return draw.choice(LARGE[:-1])
    return draw.choice(TEXTS) if draw.random() < 0.5 else draw.choice([b"a", b"b"]) * draw.choice((1, 30, 300, 2_000))


def shape(elements: Any) -> Any:
    nodes = [(elements.is_plain(at), elements.node(at)) for at in range(elements.nodes_count)]
    return elements.is_packed, nodes


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("scale", [0, 1, 5])
def test_random_changes_are_those_of_a_list_and_alike_in_both_forms(fill: int, scale: int) -> None:
    draw = Random(f"{fill} {scale}")
    both, model = [form.Quicklist(fill) for form in FORMS], list[bytes]()
    for step in range(250):
        size = len(model)
        start = draw.randrange(size + 1)
        count = draw.randrange(min(size - start, draw.choice((1, 5, 200))) + 1)
        text, at_left, at = text_of(draw, scale), draw.random() < 0.5, draw.randrange(size) if size else -1
        match draw.choice(("push", "push", "push", "pop", "take", "replace", "insert", "equal", "twin", "places")):
            case "push":
                more = [text_of(draw, scale) for _ in range(draw.choice((1, 2, 20)))]
                for each in both:
                    each.push(more, at_left, fill)
                model = more[::-1] + model if at_left else model + more
            case "pop" if size:
                popped = model.pop(0 if at_left else -1)
                assert [each.pop(at_left) for each in both] == [popped] * 2
            case "take":
                assert [each.copy().remove_range(start, count) for each in both] == [model[start : start + count]] * 2
                for each in both:
                    each.drop_range(start, count)
                    each.shrink(fill)
                del model[start : start + count]
            case "replace" if size:
                for each in both:
                    each.make_room([text], fill)
                    each.replace_at(at, text)
                    each.shrink(fill)
                model[at] = text
            case "insert" if size:
                pivot = model[at]
                for each in both:
                    each.make_room([text], fill)
                    assert each.insert(pivot, text, at_left)
                    assert not each.insert(b"none", text, at_left)
                model.insert(model.index(pivot) + at_left, text)
            case "equal":
                count = draw.choice((1, 2, size))
                places = [index for index, each in enumerate(model) if each == text]
                gone = places[:count] if at_left else places[len(places) - min(count, len(places)) :]
                assert [each.remove_equal(text, count, at_left) for each in both] == [len(gone)] * 2
                model = [each for index, each in enumerate(model) if index not in gone]
            case "twin":
                twins = [each.copy() for each in both]
                for each in both:
                    each.give_back(draw.choice((1, 1_000, 10**6)))
                both = twins
            case _:
                skipped, count, seen_max = draw.randrange(3), draw.randrange(1, 4), draw.randrange(size + 1)
                looked_at = range(seen_max) if at_left else range(size - 1, size - 1 - seen_max, -1)
                found = [index for index in looked_at if model[index] == text][skipped : skipped + count]
                assert [each.places(text, skipped, count, seen_max, at_left) for each in both] == [found] * 2
        assert shape(both[0]) == shape(both[1])
        for each in both:
            each.check()
            assert len(each) == len(model)
            assert list(chain.from_iterable(map(each.node, range(each.nodes_count)))) == model
        if model:
            start = draw.randrange(len(model))
            count = draw.randrange(len(model) - start + 1)
            part = model[start : start + count]
            for each in both:
                assert each.at(start) == model[start]
                assert each.between(start, count) == part
                if not step % 10:
                    assert each.encoded(start, count) == b"".join(map(bulk, part))
                    assert each.encoded(start, count, True) == b"".join(map(bulk, part[::-1]))


@pytest.mark.parametrize("form", FORMS)
def test_a_listpack_becomes_a_node_and_comes_back(form: Any) -> None:
    for texts in ([b"a"], TEXTS, LARGE, TEXTS * 1_500):
        data = pack([encode_texts(texts)], len(texts))
        elements = form.Quicklist(-2)
        if not elements.append_listpack(data):
            assert form is quicklist_plain
            elements.append_node(texts, False)
        elements.check()
        assert shape(elements) == (False, [(False, texts)])
        assert elements.listpack(0) in (data, None)
        elements.append_node([b"large"], True)
        assert elements.listpack(1) is None
        assert shape(elements) == (False, [(False, texts), (True, [b"large"])])


def test_a_listpack_is_taken_over_only_if_it_is_intact_and_short() -> None:
    data = pack([encode_texts([b"a", b"500", b"-70000", b"x" * 70, b"5" * 18])], 5)
    longer = [b"\xc0\x05\x02", b"\xf1\x05\x00\x03", b"\x815\x02", b"\xe0\x01a\x03", b"\xf0\x01\0\0\0a\x06"]
    changed = [data[:at] + bytes((byte,)) + data[at + 1 :] for at in range(len(data)) for byte in (0, 1, 0x7F, 0xF0)]
    for bent in (*(pack([each], 1) for each in longer), *changed, *(data[:at] for at in range(len(data))), pack([], 0)):
        elements = quicklist.Quicklist(-2)
        if not elements.append_listpack(bent):
            assert (len(elements), elements.nodes_count, elements.is_packed) == (0, 0, True)
        else:
            texts = [each if isinstance(each, bytes) else b"%d" % each for each in unpack(bent)]
            assert shape(elements) == (False, [(False, texts)])
            assert elements.listpack(0) == pack([encode_texts(texts)], int.from_bytes(bent[4:6], "little"))


@pytest.mark.parametrize("form", FORMS)
def test_a_place_or_a_node_that_is_not_there_is_an_index_error(form: Any) -> None:
    elements = form.Quicklist(-2)
    with pytest.raises(IndexError):
        elements.pop(at_left=True)
    with pytest.raises(IndexError):
        elements.pop(at_left=False)
    elements.push([b"a", b"b"], False, -2)
    for call in (
        lambda: elements.at(2),
        lambda: elements.at(-1),
        lambda: elements.between(1, 2),
        lambda: elements.between(0, -1),
        lambda: elements.between(1, 2**62),
        lambda: elements.encoded(-1, 1),
        lambda: elements.remove_range(0, 3),
        lambda: elements.drop_range(2, 1),
        lambda: elements.replace_at(2, b""),
        lambda: elements.node(1),
        lambda: elements.is_plain(-1),
        lambda: elements.listpack(1),
    ):
        with pytest.raises(IndexError):
            call()
    assert shape(elements) == (True, [(False, [b"a", b"b"])])


@pytest.mark.parametrize("form", FORMS)
def test_many_elements_get_the_nodes_of_one_after_the_other(form: Any) -> None:
    draw = Random(2)
    elements = [b"%d" % draw.randrange(10**6) * draw.choice((1, 1, 1, 20)) for _ in range(3_000)]
    elements[100], elements[2_000] = b"x" * 9_000, b"y" * 5_000
    for fill in (-2, 3, -1):
        at_once, one_by_one = form.Quicklist(fill), form.Quicklist(fill)
        for at_left in (False, True):
            at_once.push(elements, at_left, fill)
            for each in elements:
                one_by_one.push([each], at_left, fill)
        assert shape(at_once) == shape(one_by_one)
        assert at_once.between(0, len(at_once)) == elements[::-1] + elements


@pytest.mark.parametrize("form", FORMS)
def test_a_queue_of_many_nodes_keeps_no_memory_of_those_that_left(form: Any) -> None:
    elements = form.Quicklist(1)
    empty = elements.memory_size
    for turn in range(3):
        for number in range(5_000):
            elements.push([b"%d" % number], turn == 1, 1)
            if number % 3 == 2:
                elements.pop(turn == 0)
        elements.check()
        full = elements.memory_size
        elements.give_back(len(elements) - 1)
        assert len(elements) == 1
        assert elements.memory_size < full // 50
    elements.pop(at_left=True)
    assert elements.memory_size == empty


@pytest.mark.skipif(quicklist is quicklist_plain, reason="there was no C compiler at installation")
def test_lists_take_little_more_than_their_bytes() -> None:
    small, many = quicklist.Quicklist(-2), quicklist.Quicklist(-2)
    small.push([b"element:%d" % number for number in range(10)], False, -2)
    assert small.memory_size <= 240
    assert small.memory_size >= type(small).__basicsize__ + 10 * 11
    many.push([b"%05d" % number for number in range(10_000)], False, -2)
    assert many.memory_size <= 10_000 * 8


@pytest.mark.parametrize("text", [*TEXTS, *LARGE])
def test_sizes_of_elements_are_those_of_a_listpack(text: bytes) -> None:
    assert quicklist_plain.entry_size(text) == len(encode_texts([text]))
    assert (quicklist_plain.entry_size(text) <= 10 and len(text) < 9) or as_integer(text) is None or len(text) >= 9
