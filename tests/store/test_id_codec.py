"""IDs to and from text and columns, alike in both forms."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest

from headrace.store import plain_id_codec
from headrace.store.ids import ID_MAX, U64_MAX, id_after, id_before, make_id

try:
    from headrace.store import id_codec
except ImportError:
    id_codec = None  # type: ignore[assignment]

FORMS = [plain_id_codec, *([id_codec] if id_codec is not None else [])]
HALVES = [
    0,
    1,
    9,
    10,
    99,
    2**18 - 1,
    2**18,
    2**31,
    2**32,
    1_700_000_000_000,
    2**48 - 1,
    2**48,
    2**60,
    10**18,
    10**19 - 1,
    2**63,
    U64_MAX - 1,
    U64_MAX,
]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read(form: ModuleType) -> None:
    for ms in HALVES:
        for seq in HALVES:
            text = form.format_id(make_id(ms, seq))
            assert text == b"%d-%d" % (ms, seq)
            is_plain = max(ms, seq) < 10**19
            assert form.read_id(text) == (make_id(ms, seq) if is_plain else None)
            assert form.read_ids([b"s", text, text], 1) == ([make_id(ms, seq)] * 2 if is_plain else None)
        assert form.read_id(b"%d" % ms, seq) == (make_id(ms, seq) if ms < 10**19 else None)
    assert form.read_id(b"5") == make_id(5, 0)
    assert form.read_ids([b"5", b"6-1"], 0) == [make_id(5, 0), make_id(6, 1)]


@pytest.mark.parametrize("form", FORMS)
def test_bulk_strings_of_ids_stand_one_behind_the_other(form: ModuleType) -> None:
    ids = [make_id(ms, seq) for ms in HALVES for seq in HALVES]
    texts = [form.format_id(entry_id) for entry_id in ids]
    assert form.bulk_ids(ids) == b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)
    assert form.bulk_ids([]) == b""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("token", [b"", b"-", b"5-", b"-5", b"5-5-5", b"+5", b" 5", b"5-+", b"5\0", b"a", b"1" * 20])
def test_what_is_not_plain_is_left_to_others(form: ModuleType, token: bytes) -> None:
    assert form.read_id(token) is None
    assert form.read_ids([b"1-1", token], 0) is None


@pytest.mark.parametrize("form", FORMS)
def test_columns_give_back_the_ids_that_were_added(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    ids = [make_id(rnd.choice(HALVES), rnd.choice(HALVES)) for _ in range(500)]
    ms, seq, ends = array("Q"), array("Q"), array("Q")
    for index, entry_id in enumerate(ids):
        form.add_row(ms, seq, ends, entry_id, 3 * index)
    assert list(ends) == list(range(0, 1500, 3))
    for low, high in ((0, 500), (0, 0), (500, 500), (17, 18), (100, 333)):
        assert form.ids_between(ms, seq, low, high) == ids[low:high], f"seed {seed}"
    ms.append(7), seq.append(8), ends.append(9)
    assert (len(ms), ms[500], seq[500], ends[500]) == (501, 7, 8, 9)


@pytest.mark.parametrize("form", FORMS)
def test_positions_are_found_among_sorted_ids(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    ids = sorted({make_id(rnd.choice(HALVES), rnd.choice(HALVES)) for _ in range(60)})
    ms, seq, ends = array("Q"), array("Q"), array("Q")
    for entry_id in ids:
        form.add_row(ms, seq, ends, entry_id, 0)
    for wanted in [0, *ids, *map(id_after, ids), *map(id_before, ids[1:]), ID_MAX, id_after(ID_MAX)]:
        assert form.position_of(ms, seq, wanted) == sum(entry_id < wanted for entry_id in ids), f"seed {seed}"


@pytest.mark.skipif(id_codec is None, reason="not compiled")
def test_columns_are_not_read_past_their_end() -> None:
    ms, seq = array("Q", [1, 2]), array("Q", [1, 2])
    for low, high in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(IndexError):
            id_codec.ids_between(ms, seq, low, high)
    with pytest.raises(OverflowError):
        id_codec.format_id(-1)
    with pytest.raises(OverflowError):
        id_codec.add_row(ms, seq, array("Q"), make_id(U64_MAX + 1, 0), 5)


@pytest.mark.parametrize("form", FORMS)
def test_a_column_and_its_differences_say_the_same(form: ModuleType) -> None:
    for numbers in ([], [7], [U64_MAX], [0, 0, 5, 5, 2**40, U64_MAX]):
        column = array("Q", numbers)
        steps = form.differences(column)
        assert list(steps) == [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]
        assert form.running_sums(steps) == column


@pytest.mark.parametrize("form", FORMS)
def test_an_id_above_all_that_exist_stands_behind_every_column(form: ModuleType) -> None:
    columns = array("Q", (1, U64_MAX)), array("Q", (1, U64_MAX))
    assert form.position_of(*columns, ID_MAX) == 1
    assert form.position_of(*columns, id_after(ID_MAX)) == 2
