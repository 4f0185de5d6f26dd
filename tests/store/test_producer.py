"""The pairs of an idempotent producer, in both forms, compared with a dictionary."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.store import producer_plain
from headrace.store.ids import SEQ_BITS, make_id

try:
    from headrace.store import producer
except ImportError:  # there was no C compiler at installation
    producer = producer_plain  # type: ignore[assignment]

FORMS = [producer, producer_plain]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_a_producer_does_what_a_dictionary_does(form: Any, seed: int) -> None:
    source = random.Random(seed)
    pairs, model = form.Producer(), dict[bytes, int]()
    copies: list[tuple[Any, list[tuple[bytes, int]]]] = []
    now_ms = 0
    for turn in range(3000):
        iid, step = b"i" * source.choice((0, 1, 30)) + b"%d" % source.randrange(400), source.randrange(100)
        now_ms += source.randrange(3)
        if step < 80:
            assert (pairs.get(iid), iid in pairs) == (model.get(iid), iid in model)
            if iid not in model:
                entries_max = 300 if turn % 1000 < 900 else 20
                pairs.add(iid, make_id(now_ms, turn), entries_max)
                model[iid] = make_id(now_ms, turn)
                while len(model) > entries_max:
                    del model[next(iter(model))]
        elif step < 95 and iid in model:
            pairs.forget(iid)
            del model[iid]
        elif step < 96:
            before_ms = now_ms - source.randrange(400)
            pairs.expire(before_ms)
            model = {iid: entry_id for iid, entry_id in model.items() if entry_id >> SEQ_BITS > before_ms}
        elif step < 97:
            copies.append((pairs.copy(), list(model.items())))
        assert len(pairs) == len(model)
        if turn % 50 == 0:
            pairs.check()
            assert pairs.pairs() == list(model.items())
    for copy, expected in copies:
        copy.check()
        assert copy.pairs() == expected
        copy.add(b"another", make_id(now_ms, 1), 1000)
        assert copy.pairs() == [*expected, (b"another", make_id(now_ms, 1))]


@pytest.mark.parametrize("form", FORMS)
def test_a_pair_that_is_not_remembered_cannot_be_forgotten(form: Any) -> None:
    pairs = form.Producer()
    with pytest.raises(KeyError):
        pairs.forget(b"iid")
    pairs.expire(5)
    assert (len(pairs), pairs.get(b"iid"), pairs.pairs(), pairs.copy().pairs()) == (0, None, [], [])


@pytest.mark.parametrize("form", FORMS)
def test_memory_is_given_back_with_the_pairs(form: Any) -> None:
    pairs = form.Producer()
    empty_size = pairs.memory_size
    for number in range(10_000):
        pairs.add(b"iid-%d" % number, make_id(number, 0), 10_000)
    full_size = pairs.memory_size
    pairs.expire(9_989)
    assert len(pairs) == 10
    assert pairs.memory_size - empty_size < (full_size - empty_size if form is producer_plain else full_size // 50)


@pytest.mark.skipif(producer is producer_plain, reason="a number of any size is stored")
def test_a_number_that_is_no_id_is_refused() -> None:
    pairs = producer.Producer()
    with pytest.raises(OverflowError):
        pairs.add(b"iid", 1 << 200, 5)
    assert len(pairs) == 0


@pytest.mark.parametrize("form", FORMS)
def test_an_automatic_id_is_that_of_redis(form: Any) -> None:
    # From Redis 8.10.2.
    assert form.automatic_iid([b"f", b"v"]).hex() == "6e95729ee727f0814aedffba55730079"
    assert form.automatic_iid([b"a", b"1", b"b", b"2", b"c", b"3"]).hex() == "021fe0625ffb3a1d870f793875991bfb"
    assert form.automatic_iid([b"name", b"value"] * 2).hex() == "32689fc5675f1aafd68c763039b9bdc3"
    assert form.automatic_iid([b"XADD", b"s", b"f", b"v"], 2) == form.automatic_iid([b"f", b"v"])


@pytest.mark.parametrize("form", FORMS)
def test_an_automatic_id_depends_on_the_pairs_and_not_on_their_order(form: Any) -> None:
    one = form.automatic_iid([b"a", b"1", b"b", b"2"])
    assert one == form.automatic_iid([b"b", b"2", b"a", b"1"])
    assert one != form.automatic_iid([b"a", b"2", b"b", b"1"])


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_make_the_same_automatic_id(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(300):
        words = [source.randbytes(source.choice((0, 1, 7, 40, 300))) for _ in range(2 * source.randrange(6))]
        assert producer.automatic_iid(words) == producer_plain.automatic_iid(words)
