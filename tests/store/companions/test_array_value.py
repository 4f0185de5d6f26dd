"""Arrays: elements by index, the cursor, and rings."""

from __future__ import annotations

from random import Random

import pytest

from headrace.store.companions.array_value import INDEX_MAX, ArrayValue
from headrace.store.limits import Limits


def array_of(*indexes: int, next_index: int = 0) -> ArrayValue:
    """An array with the text of each index as the element there."""
    value = ArrayValue(Limits())
    for index in indexes:
        value.put(index, b"%d" % index)
    value.cursor = next_index - 1 if next_index else None
    return value


def test_random_changes_leave_what_a_dict_would_have() -> None:
    random = Random(7)
    value, model = ArrayValue(Limits()), dict[int, bytes]()
    places = [*range(20), *range(4090, 4100), 1 << 40, INDEX_MAX - 1, INDEX_MAX]
    for number in range(3000):
        index = random.choice(places)
        if random.random() < 0.6:
            assert value.put(index, b"%d" % number) == (index not in model)
            model[index] = b"%d" % number
        elif random.random() < 0.9:
            assert value.remove(index) == (model.pop(index, None) is not None)
        else:
            first, last = sorted(random.choices(places, k=2))
            gone = [each for each in model if first <= each <= last]
            assert value.remove_range(first, last) == len(gone)
            for each in gone:
                del model[each]
        assert list(value.items()) == sorted(model.items())
        assert value.end == max(model, default=-1) + 1
        value.check()


def test_a_range_is_read_in_both_directions() -> None:
    value = array_of(1, 5, 4095, 4096, 9000)
    assert [index for index, _ in value.items(5, 4096)] == [5, 4095, 4096]
    assert [index for index, _ in value.items(5, 4096, descending=True)] == [4096, 4095, 5]


@pytest.mark.parametrize(
    ("value", "size", "last", "left"),
    [
        (array_of(0, 1, 2, next_index=3), 3, 0, {0: b"new", 1: b"1", 2: b"2"}),
        (array_of(0, 1, 2, next_index=3), 5, 3, {0: b"0", 1: b"1", 2: b"2", 3: b"new"}),
        # A ring that has wrapped and grows is put in the order of age.
        (array_of(0, 1, 2, next_index=1), 5, 3, {0: b"1", 1: b"2", 2: b"0", 3: b"new"}),
        # A smaller ring keeps the newest elements.
        (array_of(*range(6), next_index=3), 2, 0, {0: b"new", 1: b"2"}),
        (array_of(0, 1, 5), 4, 1, {0: b"5", 1: b"new"}),
        (array_of(4, 5, next_index=INDEX_MAX + 1), 4, 0, {0: b"new"}),
    ],
)
def test_a_ring_of_another_size_keeps_what_redis_keeps(
    value: ArrayValue, size: int, last: int, left: dict[int, bytes]
) -> None:
    assert value.insert_in_ring(size, [b"new"]) == last
    assert dict(value.items()) == left
    assert value.cursor == last
    value.check()


def test_a_copy_does_not_change_with_its_original() -> None:
    value = array_of(0, 5000, next_index=3)
    twin = value.copy()
    value.put(0, b"other")
    value.remove(5000)
    assert list(twin.items()) == [(0, b"0"), (5000, b"5000")]
    assert (twin.end, twin.next_index) == (5001, 3)
    twin.check()


def test_the_last_index_follows_index_0_as_in_a_ring() -> None:
    value = array_of(0, 1, 3, 4, next_index=2)
    one, nothing = b"$1\r\n%b\r\n", b"_\r\n"
    assert value.encoded_newest(2, True, nothing) == one % b"1" + one % b"0"
    assert value.encoded_newest(4, True, nothing) == b"".join(one % each for each in (b"1", b"0", b"4", b"3"))
    assert value.encoded_newest(4, False, nothing) == b"".join(one % each for each in (b"3", b"4", b"0", b"1"))
    assert array_of(0, 2, next_index=2).encoded_newest(2, False, nothing) == one % b"0" + nothing
    assert array_of(0, 2).encoded_newest(2, True, nothing) == one % b"2" + nothing
