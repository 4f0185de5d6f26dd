"""Lists of ascending IDs, alike in both forms."""

from __future__ import annotations

import random
from bisect import bisect_right
from types import ModuleType

import pytest

from headrace.store import id_list_plain
from headrace.store.ids import ID_MAX, U64_MAX, id_after, make_id

try:
    from headrace.store import id_list as compiled_list
except ImportError:
    compiled_list = None  # type: ignore[assignment]

FORMS = [id_list_plain, *([compiled_list] if compiled_list is not None else [])]
HALVES = [0, 1, 2**18, 2**32, 1_700_000_000_000, 2**48, 2**63, U64_MAX - 1, U64_MAX]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_an_id_list_agrees_with_a_list(form: ModuleType, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    ids, model, last = form.IDList(), [], 0
    left_behind = []
    for _ in range(600):
        action = rng.random()
        if action < 0.5:
            for _ in range(rng.choice((1, 1, 60))):
                last += make_id(rng.randrange(2**20), 1) if rng.random() < 0.5 else 1
                ids.append(last)
                model.append(last)
        elif action < 0.52:
            left_behind.append((ids.copy(), list(model)))
        else:
            index = rng.choice((0, 0, rng.randrange(len(model) + 1)))
            count = rng.randrange(min(40, len(model) - index) + 1)
            ids.remove(index, count)
            del model[index : index + count]
        assert (len(ids), bool(ids)) == (len(model), bool(model))
        sought = rng.choice([0, last, last + 1, *model[:1], *rng.sample(model, min(len(model), 2))])
        assert ids.index_of(sought) == bisect_right(model, sought) - 1
        if model:
            at = rng.randrange(-len(model), len(model))
            assert ids[at] == model[at]
    left_behind.append((ids, model))
    for each, expected in left_behind:
        assert list(each) == expected


@pytest.mark.parametrize("form", FORMS)
def test_every_id_has_its_place_in_a_list(form: ModuleType) -> None:
    ids, model = form.IDList(), sorted(make_id(ms, seq) for ms in HALVES for seq in HALVES)
    assert ids.index_of(ID_MAX) == -1
    for entry_id in model:
        ids.append(entry_id)
    assert [ids.index_of(entry_id) for entry_id in model] == list(range(len(model)))
    assert ids.index_of(id_after(ID_MAX)) == len(model) - 1


@pytest.mark.parametrize("form", FORMS)
def test_ids_outside_of_a_list_are_refused(form: ModuleType) -> None:
    ids = form.IDList()
    for number in range(3):
        ids.append(number)
    for index in (-4, 3):
        with pytest.raises(IndexError):
            ids[index]
    for index, count in ((-1, 1), (0, 4), (3, 1), (1, -1)):
        with pytest.raises(IndexError):
            ids.remove(index, count)
    assert list(ids) == [0, 1, 2]


@pytest.mark.parametrize("form", FORMS)
def test_a_list_gives_memory_back(form: ModuleType) -> None:
    ids = form.IDList()
    for number in range(10_000):
        ids.append(number)
    full_size = ids.memory_size
    for _ in range(9_900):
        ids.remove(0, 1)
    assert ids.memory_size < full_size / 10
    for number in range(10_000, 200_000):  # a window that moves
        ids.append(number)
        ids.remove(0, 1)
    assert ids.memory_size < full_size / 10
    assert list(ids) == list(range(199_900, 200_000))
