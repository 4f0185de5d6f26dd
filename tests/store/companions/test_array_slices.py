"""Slices of arrays: both forms behave as a dict, and have slices of the same shape."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest

from headrace.protocol.scalars import bulk, integer
from headrace.store.companions import array_slices_plain

try:
    from headrace.store.companions import array_slices
except ImportError:
    array_slices = array_slices_plain  # type: ignore[assignment]

FORMS = [array_slices, array_slices_plain]

INDEX_MAX = (1 << 64) - 2
# Integers, digits with a point, short and long texts, and texts that are nearly one of them.
TEXTS = [
    b"", b"0", b"-1", b"-0", b"007", b"2305843009213693951", b"2305843009213693952", b"-2305843009213693952",
    b"-2305843009213693953", b"9223372036854775807", b"9223372036854775808", b"1.5", b"-0.0", b"0.30000000000000004",
    b"72057594037927935.5", b"7205759403792793.5", b"-12345678.000", b"00012345.5", b"12345678.", b".12345678",
    b"-.1234567", b"0.0000000001", b"0." + b"0" * 30 + b"1", b"0." + b"0" * 31 + b"1", b"1.2.3456789", b"-", b".",
    b"--1234567.8", b"1234567e10.5", b"sevens!", b"\0\0\0\0\0\0\0", b"\xff" * 7, b"eight ch", b"x" * 40, b"x" * 510,
    b"x" * 511, b"y" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_each_text_is_returned_as_it_was(form: ModuleType) -> None:
    slices = form.ArraySlices(256)
    assert slices.put_all(5, TEXTS, 10) == len(TEXTS)
    assert [slices.at(5 + place) for place in range(len(TEXTS))] == TEXTS
    assert slices.texts(0, INDEX_MAX) == TEXTS
    slices.check()


def places(random: Random) -> int:
    """An index: most are near others."""
    near = random.randrange(40)
    return random.choice(
        (near, near * 8, random.randrange(2000), 5 * 256 + near, 2047 * 256 + near, (1 << 40) + near, INDEX_MAX - near)
    )


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_leave_the_same_elements_and_shapes(seed: int) -> None:
    random = Random(seed)
    size = random.choice((256, 1024))
    ours, plain = array_slices.ArraySlices(size), array_slices_plain.ArraySlices(size)
    model: dict[int, bytes] = {}
    least, most = random.choice(((5, 10), (0, 0), (2, 3), (12, 40)))
    for _ in range(1500):
        index, kind = places(random), random.randrange(12)
        if kind < 3:
            texts = random.choices(TEXTS, k=random.choice((1, 3, 12, 300)))
            if index + len(texts) - 1 > INDEX_MAX:
                continue
            added = len([at for at in range(index, index + len(texts)) if at not in model])
            assert ours.put_all(index, texts, most) == plain.put_all(index, texts, most) == added
            model.update(zip(range(index, index + len(texts)), texts, strict=True))
        elif kind < 6:
            text = random.choice(TEXTS)
            assert ours.put(index, text, most) == plain.put(index, text, most) == (index not in model)
            model[index] = text
        elif kind < 7:
            indexes = [places(random) for _ in range(random.choice((0, 1, 5)))]
            there = [model.pop(at, None) is not None for at in indexes]
            assert ours.remove_each(indexes, least, most) == plain.remove_each(indexes, least, most) == sum(there)
        elif kind < 9:
            was_there = model.pop(index, None) is not None
            assert ours.remove(index, least, most) == plain.remove(index, least, most) == was_there
        elif kind < 11:
            last = min(index + random.choice((0, 10, 300, 5000)), INDEX_MAX)
            gone = [at for at in model if index <= at <= last]
            counts = ours.remove_range(index, last, least, most), plain.remove_range(index, last, least, most)
            assert counts == (len(gone), len(gone))
            for at in gone:
                del model[at]
        else:
            ours, plain = ours.copy(), plain.copy()
        first, last = sorted((places(random), places(random)))
        expected = [[at, model[at]] for at in sorted(model) if first <= at <= last]
        for slices in (ours, plain):
            assert len(slices) == len(model)
            assert slices.end == max(model, default=-1) + 1
            assert slices.pairs(first, last, 50) == expected[:50]
            assert slices.pairs(first, last, 50, True) == expected[::-1][:50]
            for descending in (False, True):
                count, replies = slices.encoded_pairs(first, last, 50, descending)
                wanted = slices.pairs(first, last, 50, descending)
                assert count == len(wanted)
                assert replies == b"".join([b"*2\r\n" + integer(at) + bulk(text) for at, text in wanted])
            assert slices.count_between(first, last) == len(expected)
            assert slices.many([first, last]) == [model.get(first), model.get(last)]
            stop = min(first + 30, INDEX_MAX)
            found = [model.get(at) for at in range(first, stop + 1)]
            assert slices.between(first, stop) == found
            elements = [b"_\r\n" if text is None else bulk(text) for text in found]
            assert slices.encoded_range(first, stop, False, b"_\r\n") == b"".join(elements)
            assert slices.encoded_range(first, stop, True, b"_\r\n") == b"".join(elements[::-1])
            slices.check()
        if model:
            assert ours.directory() == plain.directory()
            assert ours.shapes() == plain.shapes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("texts", "results"),
    [
        ([b"5"], (5, 5, 5, 5, 5, 5)),
        ([b"-3", b"6", b"4"], (7, -3, 6, 4, -1, -1)),
        ([b"5", b"1.5"], None),
        ([b"2305843009213693951"] * 2, (4611686018427387902, *(2305843009213693951,) * 4, 0)),
        ([b"2305843009213693951"] * 3, None),
        ([b"2305843009213693952"], None),
        ([], None),
    ],
)
def test_integers_are_combined(form: ModuleType, texts: list[bytes], results: object) -> None:
    slices = form.ArraySlices(256)
    for index, text in enumerate(texts):
        slices.put(index * 100, text, 10)
    assert slices.integers(0, INDEX_MAX) == results


@pytest.mark.parametrize("form", FORMS)
def test_a_ring_is_written_and_read_around_its_end(form: ModuleType) -> None:
    slices = form.ArraySlices(256)
    assert slices.put_in_ring(2, 5, [b"d", b"e", b"a", b"b"], 10) == 1
    assert slices.between(0, 4) == [b"a", b"b", None, b"d", b"e"]
    assert slices.put_in_ring(1, 1, [b"x", b"y"], 10) == 0
    assert slices.between(0, 4) == [b"y", b"b", None, b"d", b"e"]


@pytest.mark.parametrize("form", FORMS)
def test_memory_is_given_back_from_the_end(form: ModuleType) -> None:
    slices = form.ArraySlices(256)
    slices.put_all(0, [b"%030d" % number for number in range(1000)], 10)
    slices.give_back(300)
    assert len(slices) == 512
    slices.check()
    slices.give_back(10**6)
    assert len(slices) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [4, 300, 1 << 17])
def test_the_size_of_slices_is_a_power_of_two(form: ModuleType, size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        form.ArraySlices(size)


@pytest.mark.skipif(array_slices is array_slices_plain, reason="there was no C compiler at installation")
def test_an_integer_takes_eight_bytes() -> None:
    slices = array_slices.ArraySlices(4096)
    slices.put_all(0, [b"%d" % number for number in range(100_000)], 10)
    assert slices.memory_size < 8.4 * 100_000
