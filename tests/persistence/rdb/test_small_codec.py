"""Keys with small values, many at a time: both forms write what single ones are written as, and read the same keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import small_codec_plain
from headrace.persistence.rdb.file import FileKey, FileKeys, FileReader, write_file
from headrace.persistence.rdb.lengths import encode_string
from headrace.persistence.rdb.member_codec_plain import pack_places, pack_texts
from headrace.persistence.rdb.small_codec_plain import READ_SIZE
from headrace.persistence.rdb.values import packed_value, packing
from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.companion import Companion
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.kinds import COMPANIONS
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.places_plain import place_of
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.database import Store
from headrace.store.image import KeyImage, PackedImage, StoreImage, keys_now, parts_now
from headrace.store.limits import Limits

try:
    from headrace.persistence.rdb import small_codec
except ImportError:
    small_codec = None  # type: ignore[assignment]

FORMS = [small_codec_plain, *([small_codec] if small_codec is not None else [])]

NOW_MS = 1_700_000_000_000
TEXTS = [b"", b"a", b"7", b"-129", b"x" * 30, b"x" * 63, b"x" * 64, b"y" * 254, b"z" * 300, bytes(range(200))]


def array(texts: list[bytes]) -> ArrayValue:
    value = ArrayValue(Limits())
    value.put_all(3, texts)
    value.cursor = 3
    return value


def hash_of(texts: list[bytes]) -> HashValue:
    value = HashValue(Limits())
    for text in texts:
        value.set(text, text[::-1])
    return value


def timed_hash(texts: list[bytes]) -> HashValue:
    value = hash_of(texts)
    value.expire_at(texts[0], NOW_MS)
    return value


def list_of(texts: list[bytes]) -> ListValue:
    value = ListValue(Limits())
    for text in texts:
        value.make_room(text)
        value.push_right([text])
    return value


def set_of(texts: list[bytes]) -> SetValue:
    value = SetValue(Limits())
    for text in texts:
        value.add(text)
    return value


def integer_set(texts: list[bytes]) -> SetValue:
    return set_of([b"%d" % (len(text) * 1000) for text in texts])


def sorted_set(texts: list[bytes]) -> SortedSetValue:
    value = SortedSetValue(Limits())
    for index, text in enumerate(texts):
        value.put(text, (index - 2) * 1.5)
    return value


MAKERS: dict[str, Callable[[list[bytes]], Companion]] = {
    "array": array, "hash": hash_of, "hash with times": timed_hash, "list": list_of, "set": set_of,
    "set of integers": integer_set, "sorted set": sorted_set,
}  # fmt: skip
# By type: whether the values are read many at a time.
ARE_READ = {ArrayValue: False, HashValue: True, ListValue: True, SetValue: True, SortedSetValue: True}


def test_there_are_values_of_every_type() -> None:
    assert {type(make([b"a"])) for make in MAKERS.values()} == set(COMPANIONS) == set(ARE_READ)


def store_of(make: Callable[[list[bytes]], Companion], count: int) -> Store:
    """Keys with values of a type, every third of which expires."""
    store = Store(2)
    for number in range(count):
        store.databases[1].put(b"k%04d" % number, make(TEXTS[1 + number % 5 : 7]))
        if not number % 3:
            store.databases[1].expires[b"k%04d" % number] = NOW_MS + number
    return store


def file_of(parts: Any, *, compress: bool) -> bytes:
    return b"".join(write_file(parts, {}, now_ms=NOW_MS, compress=compress))


def content(value: Any) -> Any:
    """What a value shows of itself."""
    value.check()
    members = (
        list(value) if isinstance(value, ListValue)
        else sorted(value.members()) if isinstance(value, SetValue)
        else list(value.items())
    )  # fmt: skip
    times = value.times_by_name() if isinstance(value, HashValue) else {}
    return value.encoding, members, dict(times), value.cursor if isinstance(value, ArrayValue) else None


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("compress", [True, False])
def test_packed_values_are_written_as_single_ones(make: Callable[[list[bytes]], Companion], compress: bool) -> None:
    store = store_of(make, 300)
    parts = list(parts_now(store, packing(compress=compress)))
    assert {type(part) for part in parts} == {PackedImage}
    assert len(parts) < 20
    assert file_of(parts, compress=compress) == file_of(keys_now(store), compress=compress)
    assert list(StoreImage(store).parts(packing(compress=compress))) == parts


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_small_values_are_read_in_blocks_of_any_size(make: Callable[[list[bytes]], Companion]) -> None:
    """Those that are complete in a block many at a time. Those that have expired are left out."""
    store = store_of(make, 200)
    data = file_of(parts_now(store, packing(compress=True)), compress=True)
    for size in (1, 70, 1000, len(data)):
        blocks = (data[start : start + size] for start in range(0, len(data), size))
        reader = FileReader(blocks, Limits(), now_ms=NOW_MS + 100)
        parts = list(reader.parts())
        keys = [key for part in parts for key in (part.keys() if isinstance(part, FileKeys) else [part])]
        assert all(isinstance(key, FileKey) for key in keys)
        found = {key.key: (content(key.value), key.expires_ms) for key in keys}
        assert found == {
            each.key: (content(each.value), each.expires_ms)
            for each in keys_now(store)
            if each.expires_ms is None or each.expires_ms >= NOW_MS + 100
        }
        assert (reader.keys_count, reader.expired_count) == (len(keys), 200 - len(keys))
    assert (len(parts) < 20) == ARE_READ[type(make([b"a"]))]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_value_that_changes_while_an_image_is_read_is_packed_as_it_was(
    make: Callable[[list[bytes]], Companion],
) -> None:
    store, before = store_of(make, 400), file_of(keys_now(store_of(make, 400)), compress=True)
    image = StoreImage(store)
    packed: list[Any] = []
    for part in image.parts(packing(compress=True)):
        packed.append(part)
        for key in store.databases[1].keys:
            value = store.databases[1].keys[key]
            assert isinstance(value, Companion)
            image.preserve(value)
            if isinstance(value, HashValue):
                value.set(b"new", b"field")
            elif isinstance(value, SetValue):
                value.add(b"1234567")
            elif isinstance(value, SortedSetValue):
                value.put(b"new", 9.5)
            elif isinstance(value, ListValue):
                value.push_left([b"new"])
            else:
                assert isinstance(value, ArrayValue)
                value.put(50, b"new")
    assert file_of(packed, compress=True) == before
    assert image.keys_read == image.keys_count == 400


def test_large_values_are_not_packed() -> None:
    many = [b"%d:x" % number for number in range(2000)]
    hash_value, set_value, scored = HashValue(Limits()), SetValue(Limits()), SortedSetValue(Limits())
    hash_value.set_words(many)
    set_value.add_all(many)
    scored.become_skiplist()
    scored.add_new(many, [float(number) for number in range(2000)])
    list_value = list_of([b"x" * 1000 for _ in range(50)])
    template = HashValue.of_template([b"a", b"b"], [b"v", b"w"], Limits())
    store = Store(1)
    for value in (hash_value, set_value, scored, list_value, template, array(many)):
        assert packed_value(value, compress=True) is None
        store.databases[0].put(value.type_name + value.encoding, value)
    parts = list(parts_now(store, packing(compress=False)))
    assert {type(part) for part in parts} == {KeyImage}
    assert file_of(parts, compress=False) == file_of(keys_now(store), compress=False)


HEADS = some.sampled_from([b"\x10", b"\x0b", b"\x11", b"\x14", b"\x12\x01\x02", b"\x19" + bytes(range(8))])
NAMES = some.sampled_from(TEXTS) | some.binary(max_size=40)
TIMES = some.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(some.lists(some.tuples(NAMES, some.tuples(HEADS, NAMES)), max_size=12), some.data(), some.booleans())
def test_keys_come_back(form: ModuleType, values: Any, data: some.DataObject, compress: bool) -> None:
    names = [key for key, _ in values]
    expires = data.draw(some.dictionaries(some.sampled_from([b"another", *names]), TIMES, max_size=5))
    made = form.encode_small(values, expires, compress)
    assert made == small_codec_plain.encode_small(values, expires, compress)
    keys = form.read_small(b"before" + made + b"\xff", len(b"before"))
    assert [key[:4] for key in keys] == [(key, head[0], text, expires.get(key)) for key, (head, text) in values]
    assert not values or keys[-1][4] == len(b"before") + len(made)


@pytest.mark.parametrize("form", FORMS)
def test_a_value_without_a_string_is_written_after_its_key(form: ModuleType) -> None:
    values = [(b"a", (b"\x1cabc", None)), (b"b", (b"\x10", b"7"))]
    assert form.encode_small(values, {}, True) == b"\x1c\x01aabc\x10\x01b\xc0\x07"
    assert form.read_small(b"\x1c\x01aabc", 0) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_call_reads_a_limited_number_of_bytes(form: ModuleType) -> None:
    made = form.encode_small([(b"%d" % number, (b"\x10", b"v" * 40)) for number in range(1000)], {}, False)
    keys = form.read_small(made, 0)
    assert READ_SIZE <= keys[-1][4] < READ_SIZE + 60
    assert form.read_small(made, len(made)) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", [b"\x12\x01q\x02\x02", b"\x12\x01q\x01\x01", b"\x1b\x01q", b"\x00\x01q"])
def test_other_values_are_left_to_the_caller(form: ModuleType, before: bytes) -> None:
    first = form.encode_small([(b"k", (b"\x10", b"v"))], {}, False)
    assert [key[0] for key in form.read_small(first + before + b"\x01v", 0)] == [b"k"]


def test_every_truncation_and_every_changed_byte_is_read_alike() -> None:
    """A key that is incomplete or damaged is left to the caller, and the position is before it."""
    values = [
        (b"a", (b"\x10", b"abc" * 40)), (b"b" * 70, (b"\x12\x01\x02", b"70000")), (b"c", (b"\x19" + bytes(8), b"v")),
    ]  # fmt: skip
    made = small_codec_plain.encode_small(values, {b"a": -1, b"c": 5}, True)
    for size in range(len(made)):
        for data in [made[:size], *(made[:size] + bytes((value,)) + made[size + 1 :] for value in range(256))]:
            results = [form.read_small(data, 0) for form in FORMS]
            assert all(result == results[0] for result in results), data.hex()


SCORES = (
    some.floats(allow_nan=False)
    | some.integers(-(2**60), 2**60).map(float)
    | some.builds(lambda number, places: number / 10**places, some.integers(-(10**15), 10**15), some.integers(0, 8))
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(some.lists(some.tuples(SCORES, some.binary(max_size=246)), max_size=30))
def test_joined_places_are_packed_as_single_ones(form: ModuleType, members: list[tuple[float, bytes]]) -> None:
    places = [place_of(score, member) for score, member in members]
    joined = b"".join(bytes((len(place),)) + place + bytes((len(place),)) for place in places)
    assert form.pack_joined_places(joined) == pack_places(places)


@pytest.mark.parametrize("form", FORMS)
def test_places_that_are_cut_off_are_refused(form: ModuleType) -> None:
    place = place_of(math.inf, b"member")
    joined = bytes((len(place),)) + place + bytes((len(place),))
    for size in range(1, len(joined)):
        with pytest.raises(ValueError, match=r"cut off|short"):
            form.pack_joined_places(joined[:size])
    with pytest.raises(ValueError, match=r"cut off|abc"):
        form.pack_joined_places(b"\x03abc\x03")


def record(key: bytes, kind: int, text: bytes) -> bytes:
    return bytes((kind,)) + encode_string(key, compress=False) + encode_string(text, compress=False)


def test_an_empty_value_is_left_out() -> None:
    good, empty = pack_texts([b"a", b"1"]), pack_texts([])
    for kind in (16, 17, 20):
        body = b"REDIS0015" + record(b"a", kind, good) + record(b"b", kind, empty) + record(b"c", kind, good) + b"\xff"
        reader = FileReader((body + bytes(8),), Limits(), now_ms=NOW_MS)
        assert [key.key for key in reader] == [b"a", b"c"]
        assert reader.keys_count == 2


def test_a_damaged_value_is_an_error_after_which_the_offset_is_its_end() -> None:
    good, bad = record(b"a", 16, pack_texts([b"f", b"v"])), record(b"b", 16, pack_texts([b"f", b"v", b"f", b"w"]))
    body = b"REDIS0015" + good + bad + good + b"\xff" + bytes(8)
    reader = FileReader((body,), Limits(), now_ms=NOW_MS)
    with pytest.raises(RdbError, match="Hash integrity check failed: a field twice"):
        list(reader)
    assert reader.offset == 9 + len(good) + len(bad)
