"""Companions of streams in RDB data: every form that Redis has written is read, and damage is refused in one line."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

import pytest

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import payload
from headrace.persistence.rdb.arrays import encode_array, read_array
from headrace.persistence.rdb.listpack import encode_texts, pack
from headrace.persistence.rdb.source import Source
from headrace.persistence.rdb.values import read_value
from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.limits import Limits

SEED = 24
NOW_MS = 1_700_000_000_000
DUE_MS = 4_102_444_800_000


def string(data: bytes) -> bytes:
    assert len(data) < 64
    return bytes((len(data),)) + data


def ziplist(*elements: bytes) -> bytes:
    body, previous, tail = b"", 0, 10
    for element in elements:
        tail = 10 + len(body)
        each = bytes((previous,)) + element
        body += each
        previous = len(each)
    return struct.pack("<IIH", 11 + len(body), tail, len(elements)) + body + b"\xff"


def listpack(*texts: bytes) -> bytes:
    return pack([encode_texts(list(texts))], len(texts))


def read(kind: int, data: bytes) -> Any:
    return read_value(Source((data,)), kind, Limits(), now_ms=NOW_MS)


HASHES = {
    "fields": (4, b"\x02\x01f\x01v\x01n\xc0\x07", {}),
    "zipmap": (9, string(b"\x02\x01f\x01\x00v\x01n\x01\x01" + b"7!\xff"), {}),
    "ziplist": (13, string(ziplist(b"\x01f", b"\x01v", b"\x01n", b"\xf8")), {}),
    "listpack": (16, string(listpack(b"f", b"v", b"n", b"7")), {}),
    "early times": (22, b"\x02\x00\x01f\x01v\x05\x01n\xc0\x07", {b"n": 5}),
    "early listpack": (23, string(listpack(b"n", b"7", b"5", b"f", b"v", b"0")), {b"n": 5}),
    "times": (24, DUE_MS.to_bytes(8, "little") + b"\x02\x00\x01f\x01v\x03\x01n\xc0\x07", {b"n": DUE_MS + 2}),
    "listpack with times": (
        25,
        DUE_MS.to_bytes(8, "little") + string(listpack(b"n", b"7", b"%d" % DUE_MS, b"f", b"v", b"0")),
        {b"n": DUE_MS},
    ),
}
SETS = {
    "members": (2, b"\x03\x01a\xc0\x05\x0212", [b"a", b"5", b"12"]),
    "intset": (11, string(struct.pack("<IIhhh", 2, 3, -4, 5, 300)), [b"-4", b"5", b"300"]),
    "large intset": (11, string(struct.pack("<IIqq", 8, 2, -(2**40), 2**40)), [b"%d" % -(2**40), b"%d" % 2**40]),
    "listpack": (20, string(listpack(b"a", b"5", b"b")), [b"a", b"5", b"b"]),
}
LISTS = {
    "elements": (1, b"\x03\x01a\xc0\x05\x01a"),
    "ziplist": (10, string(ziplist(b"\x01a", b"\xf6", b"\x01a"))),
    "ziplists": (14, b"\x02" + string(ziplist(b"\x01a", b"\xf6")) + string(ziplist(b"\x01a"))),
    "listpacks": (18, b"\x02\x02" + string(listpack(b"a", b"5")) + b"\x02" + string(listpack(b"a"))),
    "large element": (18, b"\x02\x02" + string(listpack(b"a", b"5")) + b"\x01\x01a"),
}
SORTED_SETS = {
    "texts": (3, b"\x03\x01a\x011\x01b\xfe\xc0\x07\x04-2.5"),
    "doubles": (5, b"\x03\x01a" + struct.pack("<d", 1) + b"\x01b" + struct.pack("<d", math.inf) + b"\xc0\x07"
                + struct.pack("<d", -2.5)),
    "ziplist": (12, string(ziplist(b"\x017", b"\x04-2.5", b"\x01a", b"\xf2", b"\x01b", b"\x03inf"))),
    "listpack": (17, string(listpack(b"7", b"-2.5", b"a", b"1", b"b", b"inf"))),
}  # fmt: skip
ALL: dict[str, Any] = {
    f"{name} {form}": row
    for name, forms in (("hash", HASHES), ("set", SETS), ("list", LISTS), ("sorted set", SORTED_SETS))
    for form, row in forms.items()
}


@pytest.mark.parametrize(("kind", "data", "times"), HASHES.values(), ids=HASHES)
def test_each_form_of_a_hash_is_read(kind: int, data: bytes, times: dict[bytes, int]) -> None:
    value = read(kind, data)
    assert isinstance(value, HashValue)
    assert dict(value.items()) == {b"f": b"v", b"n": b"7"}
    assert {field: value.due_ms(field) for field in (b"f", b"n") if value.due_ms(field)} == times
    value.check()


@pytest.mark.parametrize(("kind", "data", "members"), SETS.values(), ids=SETS)
def test_each_form_of_a_set_is_read(kind: int, data: bytes, members: list[bytes]) -> None:
    value = read(kind, data)
    assert isinstance(value, SetValue)
    assert sorted(value.members()) == sorted(members)
    value.check()


@pytest.mark.parametrize(("kind", "data"), LISTS.values(), ids=LISTS)
def test_each_form_of_a_list_is_read(kind: int, data: bytes) -> None:
    value = read(kind, data)
    assert isinstance(value, ListValue)
    assert list(value) == [b"a", b"5", b"a"]
    value.check()


@pytest.mark.parametrize(("kind", "data"), SORTED_SETS.values(), ids=SORTED_SETS)
def test_each_form_of_a_sorted_set_is_read(kind: int, data: bytes) -> None:
    value = read(kind, data)
    assert isinstance(value, SortedSetValue)
    assert list(value.items()) == [(b"7", -2.5), (b"a", 1), (b"b", math.inf)]
    value.check()


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (2, b"\x02\x01a\x01a"),
        (3, b"\x01\x01a\xfd"),
        (3, b"\x01\x01a\x01x"),
        (5, b"\x01\x01a" + struct.pack("<d", math.nan)),
        (5, b"\x02\x01a" + bytes(8) + b"\x01a" + bytes(8)),
        (12, string(ziplist(b"\x01a"))),
        (17, string(listpack(b"a", b"x"))),
        (17, string(listpack(b"a", b"1", b"a", b"2"))),
        (10, string(b"")),
        (18, b"\x01\x03\x01a"),
        (4, b"\x02\x01f\x01v\x01f\x01v"),
        (11, string(struct.pack("<IIhh", 2, 2, 5, 5))),
        (11, string(struct.pack("<IIhh", 2, 3, 5, 6))),
        (11, string(struct.pack("<II", 3, 0))),
        (16, string(listpack(b"f"))),
        (16, string(listpack(b"f", b"v", b"f", b"w"))),
        (20, string(listpack(b"a", b"a"))),
        (25, bytes(8) + string(listpack(b"f", b"v"))),
        (25, bytes(8) + string(listpack(b"f", b"v", b"never"))),
        (25, bytes(8) + string(listpack(b"f", b"v", b"-1"))),
        (24, bytes(8) + b"\x01\x81" + b"\xff" * 8 + b"\x01f\x01v"),
        (13, string(ziplist(b"\x01f", b"\x01v")[:-1])),
        (13, string(ziplist(b"\x01f", b"\x05v"))),
        (13, string(ziplist(b"\xcf"))),
        (9, string(b"\x01\x01f\xff")),
        (9, string(b"")),
    ],
)
def test_damage_is_refused(kind: int, data: bytes) -> None:
    with pytest.raises(RdbError):
        read(kind, data)


@pytest.mark.parametrize(
    ("kind", "data"), [
        (1, b"\x00"), (2, b"\x00"), (3, b"\x00"), (4, b"\x00"), (5, b"\x00"), (18, b"\x00"),
        (20, string(listpack())), (16, string(listpack())), (17, string(listpack())),
        (18, b"\x01\x02" + string(listpack())), (10, string(ziplist())),
    ],
)  # fmt: skip
def test_a_value_without_members_is_none(kind: int, data: bytes) -> None:
    with pytest.raises(RdbError, match="a value without members"):
        read(kind, data)


@pytest.mark.parametrize("name", ALL)
def test_bent_bytes_end_in_a_value_or_in_one_line(name: str) -> None:
    draw = Random(SEED)
    kind, data = ALL[name][:2]
    for _ in range(2_000):
        bent = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            bent[draw.randrange(len(bent))] = draw.randrange(256)
        try:
            value = read(kind, bytes(bent[: draw.randrange(1, len(bent) + 1)]))
        except RdbError:
            continue
        value.check()
        assert len(value)


Value = ArrayValue | HashValue | ListValue | SetValue | SortedSetValue


def random_values() -> list[Value]:
    draw = Random(SEED)
    values: list[Value] = []
    for count in (1, 5, 100, 130, 600, 2_000):
        integers, texts = SetValue(Limits()), SetValue(Limits())
        plain, timed = HashValue(Limits()), HashValue(Limits())
        elements, ranked, array = ListValue(Limits()), SortedSetValue(Limits()), ArrayValue(Limits())
        for number in range(count):
            integers.add(b"%d" % draw.randrange(-(2 ** draw.randrange(63)), 2**40))
            texts.add(draw.randbytes(draw.randrange(70)))
            plain.set(b"f%d" % number, draw.randbytes(draw.randrange(70)))
            timed.set(b"f%d" % number, b"%d" % number)
            elements.push_right([draw.randbytes(draw.randrange(70)), b"%d" % draw.randrange(-(2**63), 2**63)])
            ranked.put(draw.randbytes(draw.randrange(70)), draw.choice([draw.gauss(0, 1e9), number, -math.inf]))
            array.put(draw.randrange(2**64 - 1), draw.choice([b"%d" % number, b"0.5", draw.randbytes(9)]))
            if draw.random() < 0.5:
                timed.expire_at(b"f%d" % number, NOW_MS + draw.randrange(1, 2**40))
        elements.push_left([b"x" * 9_000])
        values += [integers, texts, plain, timed, elements, ranked, array]
    return values


def content_of(value: Value) -> object:
    if isinstance(value, SetValue):
        return set(value.members())
    if isinstance(value, HashValue):
        return {(field, text, value.due_ms(field)) for field, text in value.items()}
    return list(value) if isinstance(value, ListValue) else list(value.items())


def test_what_is_dumped_is_restored() -> None:
    for value in random_values():
        data = b"".join(payload.dump(value, now_ms=NOW_MS))
        assert payload.is_intact(data)
        again = payload.restore(data, Limits(), now_ms=NOW_MS)
        assert isinstance(again, Value)
        assert again.encoding == value.encoding
        assert content_of(again) == content_of(value)
        again.check()


@pytest.mark.parametrize(
    ("element", "encoded"),
    [
        (b"-1", "01 ff ff ff ff ff ff ff ff"),
        (b"007", "03 03 30 30 37"),
        (b"1.5", "02 00 00 00 00 00 00 f8 3f"),
        (b"3.0", "02 00 00 00 00 00 00 08 40"),
        (b"0.1", "03 03 30 2e 31"),
        (b"abcdefgh", "00 08 61 62 63 64 65 66 67 68"),
        (b"2305843009213693951", "01 ff ff ff ff ff ff ff 1f"),
        (b"2305843009213693952", "00 13 32 33 30 35 38 34 33 30 30 39 32 31 33 36 39 33 39 35 32"),
    ],
)
def test_elements_of_arrays_are_encoded_as_in_redis(element: bytes, encoded: str) -> None:
    value = ArrayValue(Limits())
    value.put(300, element)
    value.cursor = 7
    data = b"".join(encode_array(value, compress=True))
    assert data == bytes.fromhex("01 01 07 41 2c" + encoded)
    found = read_array(Source([data]), Limits())
    assert (list(found.items()), found.cursor) == ([(300, element)], 7)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("01 00 00 04 00", "Unknown array element type 4"),
        ("02 00 00 03 00 00 03 00", "Duplicate array index detected"),
        ("01 00 81 ff ff ff ff ff ff ff ff 03 00", "Array index out of range"),
    ],
)
def test_a_damaged_array_is_refused(encoded: str, text: str) -> None:
    with pytest.raises(RdbError, match=text):
        read_array(Source([bytes.fromhex(encoded)]), Limits())


def small_values_of(text: bytes, limits: Limits) -> list[Value]:
    """A value in each encoding that is a listpack, with this text."""
    plain, timed, ranks = HashValue(limits), HashValue(limits), SortedSetValue(limits)
    imported = HashValue.of_template([b"f"], [text], limits)
    for value in (plain, timed):
        value.set(b"f", text)
    timed.expire_at(b"f", DUE_MS)
    ranks.put(text, 1.0)
    return [plain, timed, imported, ranks]


def test_a_listpack_with_long_texts_stays_one() -> None:
    """As in Redis: a limit of sizes that was lowered does not change the values of a payload or a file."""
    values = small_values_of(b"v" * 65, Limits(hash_value_max=65, sorted_set_value_max=65))
    encodings = [value.encoding for value in values]
    assert encodings == [b"listpack", b"listpackex", b"template-listpack", b"listpack"]
    payloads = [b"".join(payload.dump(value, now_ms=NOW_MS)) for value in values]
    restored = [payload.restore(data, Limits(), now_ms=NOW_MS) for data in payloads]
    assert [value.encoding for value in restored] == encodings
    few = Limits(hash_entries_max=0, sorted_set_entries_max=0)
    restored = [payload.restore(data, few, now_ms=NOW_MS) for data in payloads]
    assert [value.encoding for value in restored] == [b"hashtable", b"hashtable", b"template-array", b"skiplist"]
