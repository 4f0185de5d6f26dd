"""Pending entries in RDB files: both forms make the same bytes and the same runs, and refuse the same damage."""

from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import pending_codec_plain
from headrace.persistence.rdb.ids import ID_SIZE, encode_id
from headrace.persistence.rdb.lengths import encode_length, encode_time_ms
from headrace.store.ids import SEQ_BITS, SEQ_MASK, StreamID, make_id
from headrace.store.pending import DELIVERY_COUNT_MAX

try:
    from headrace.persistence.rdb import pending_codec
except ImportError:
    pending_codec = None  # type: ignore[assignment]

FORMS = [pending_codec_plain, *([pending_codec] if pending_codec is not None else [])]

# ID, delivery time, delivery count, number of the owner, -1 for a released entry.
Pending = tuple[StreamID, int, int, int]

IDS = some.one_of(
    some.builds(make_id, some.integers(0, 9), some.integers(0, 3)),
    some.builds(make_id, some.integers(0, 2**64 - 1), some.integers(0, 2**64 - 1)),
)
PENDING = some.tuples(
    IDS,
    some.integers(-1, 3) | some.integers(-(2**63), 2**63 - 1),
    some.integers(0, 3) | some.sampled_from([63, 64, 2**14, 2**32, DELIVERY_COUNT_MAX]),
    some.integers(-1, 2),
)


def columns(entries: list[Pending]) -> list[array[int]]:
    ids = [entry_id for entry_id, *_ in entries]
    return [
        array("Q", [entry_id >> SEQ_BITS for entry_id in ids]),
        array("Q", [entry_id & SEQ_MASK for entry_id in ids]),
        *(array("q", [entry[column] for entry in entries]) for column in (1, 2, 3)),
    ]


def expected_bytes(entries: list[Pending]) -> bytes:
    return b"".join(
        encode_id(entry_id) + encode_time_ms(time_ms) + encode_length(count) for entry_id, time_ms, count, _ in entries
    )


def decoded(form: ModuleType, pel: bytes, count: int, lists: list[bytes], released: bytes) -> object:
    """The runs and the released entries; None for damage."""
    decoder = form.PendingDecoder()
    try:
        taken, position = decoder.add(b"before" + pel, len(b"before"), count)
        for start in range(position - len(b"before"), len(pel), 25):
            if taken < count:
                one = pel[start : start + 25]
                decoder.add_one(one[:ID_SIZE], int.from_bytes(one[ID_SIZE:24], "little", signed=True), one[24])
                taken += 1
        for number, ids in enumerate(lists):
            decoder.own(ids, number)
        decoder.release(released)
        return decoder.finish()
    except RdbError:
        return None


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=300, deadline=None)
@given(some.lists(PENDING, unique_by=lambda entry: entry[0], max_size=12), some.integers(0, 12))
def test_entries_are_written_as_redis_writes_them(form: ModuleType, entries: list[Pending], cut: int) -> None:
    encoder = form.PendingEncoder(3)
    made = b"".join(encoder.add(*columns(part)) for part in (entries[:cut], entries[cut:]))
    assert made == expected_bytes(entries)
    for number in range(3):
        ids = [entry_id for entry_id, _, _, owner in entries if owner == number]
        assert encoder.owned(number) == b"".join(map(encode_id, ids))
        assert encoder.owned(number) == b""


@pytest.mark.parametrize("form", FORMS)
def test_an_encoder_has_its_consumers_and_no_others(form: ModuleType) -> None:
    encoder = form.PendingEncoder(1)
    with pytest.raises(IndexError):
        encoder.add(*columns([(1, 0, 0, 1)]))
    with pytest.raises(IndexError):
        encoder.owned(1)


@settings(max_examples=400, deadline=None)
@given(some.data(), some.lists(PENDING, max_size=10))
def test_both_forms_read_the_same(data: some.DataObject, entries: list[Pending]) -> None:
    """In any order, also with entries that are there twice, are of two owners, or of none."""
    lists = [b"".join(encode_id(entry[0]) for entry in entries if entry[3] == number) for number in range(3)]
    released = b"".join(encode_id(entry[0]) for entry in entries if entry[3] == -1)
    more = data.draw(some.sampled_from([b"", encode_id(make_id(1, 1)), *(encode_id(entry[0]) for entry in entries)]))
    pel, count = expected_bytes(entries) + bytes(33), len(entries)
    for owned, left in ((lists, released), ([*lists, more], released), (lists, released + more)):
        assert len({repr(decoded(form, pel, count, owned, left)) for form in FORMS}) == 1


@pytest.mark.parametrize("form", FORMS)
def test_entries_come_back_by_time_in_runs(form: ModuleType) -> None:
    entries = [(make_id(1, 0), 9, 1, 0), (make_id(2, 0), 5, 1, 0), (make_id(3, 0), 5, 1, 0), (make_id(4, 0), 0, 7, -1)]
    lists = [b"".join(encode_id(entry_id) for entry_id, *_ in entries[:3])]
    read = decoded(form, expected_bytes(entries), 4, lists, encode_id(make_id(4, 0)))
    runs = [([make_id(2, 0), make_id(3, 0)], 0, 5, 1), ([make_id(1, 0)], 0, 9, 1)]
    assert read == (runs, [(make_id(4, 0), 7)])


@pytest.mark.parametrize("form", FORMS)
def test_only_complete_entries_are_taken_from_a_block(form: ModuleType) -> None:
    """An entry with the longest count may begin where it does; nothing is read beyond the block."""
    entries: list[Pending] = [(make_id(number, 0), 1, 1, 0) for number in range(1, 5)]
    pel = expected_bytes(entries)
    for size in range(len(pel) + 1):
        taken, position = form.PendingDecoder().add(pel[:size], 0, 9)
        assert taken == max(0, (size - 8) // 25)
        assert position == 25 * taken


@pytest.mark.parametrize("form", FORMS)
def test_a_count_that_is_no_length_is_refused(form: ModuleType) -> None:
    for first in (0x82, 0xBF, 0xC0, 0xFF):
        with pytest.raises(RdbError):
            form.PendingDecoder().add(bytes(24) + bytes((first,)) + bytes(40), 0, 1)


@pytest.mark.parametrize("form", FORMS)
def test_counts_saturate(form: ModuleType) -> None:
    entry = encode_id(make_id(1, 0)) + encode_time_ms(5)
    for sent, kept in ((2**63 - 1, 2**63 - 1), (2**63, 2**63 - 1), (2**64 - 1, 2**63 - 1)):
        read = decoded(form, entry + encode_length(sent) + bytes(33), 1, [encode_id(make_id(1, 0))], b"")
        assert read == ([([make_id(1, 0)], 0, 5, kept)], [])


@pytest.mark.parametrize("form", FORMS)
@given(some.lists(IDS, max_size=5))
def test_ids_are_encoded_in_their_order(form: ModuleType, ids: list[StreamID]) -> None:
    assert form.encode_ids(ids) == b"".join(map(encode_id, ids))
