"""Hashes that HIMPORT made: damaged ones are refused."""

from __future__ import annotations

import pytest

from headrace.persistence.errors import EmptyValue, RdbError
from headrace.persistence.rdb.file import FileReader
from headrace.persistence.rdb.imported_hashes import Templates
from headrace.persistence.rdb.source import Source
from headrace.persistence.rdb.values import read_value
from headrace.store.companions.hash_value import HashValue
from headrace.store.limits import Limits

NAMES = b"\x01\x02\x01a\x01b"
ARRAY, NUMBERED_LISTPACK, NUMBERED_ARRAY = 31, 30, 32
# A listpack of 5, 1, 2.
FIVE_ONE_TWO = b"\x0d\x0d\0\0\0\x03\0\x05\x01\x01\x01\x02\x01\xff"


def read(content: bytes) -> object:
    return read_value(Source((content,)), ARRAY, Limits(), now_ms=0)


def templates(content: bytes) -> Templates:
    """The templates of a file that has these."""
    found = Templates()
    found.read(Source((content,)))
    return found


def test_a_whole_one_is_read() -> None:
    value = read(NAMES + b"\x011\x012")
    assert isinstance(value, HashValue)
    assert list(value.items()) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize("names", [b"\x01\x02\x01b\x01a", b"\x01\x02\x01a\x01a", b"\x02\x02\x01a\x01b"])
def test_names_that_are_not_in_order_or_of_an_unknown_form_are_refused(names: bytes) -> None:
    with pytest.raises(RdbError):
        read(names + b"\x011\x012")


def test_one_without_fields_is_left_out() -> None:
    with pytest.raises(EmptyValue):
        read(b"\x01\x00")


@pytest.mark.parametrize(("kind", "content"), [(NUMBERED_LISTPACK, FIVE_ONE_TWO), (NUMBERED_ARRAY, b"\x05\x011\x012")])
def test_names_are_found_by_their_number(kind: int, content: bytes) -> None:
    value = templates(b"\x05\x02\x01a\x01b").read_hash(Source((content,)), kind, Limits())
    assert list(value.items()) == [(b"a", b"1"), (b"b", b"2")]
    with pytest.raises(RdbError, match="not in the file"):
        templates(b"\x04\x02\x01a\x01b").read_hash(Source((content,)), kind, Limits())


def test_values_that_are_too_few_are_refused() -> None:
    three = templates(b"\x05\x03\x01a\x01b\x01c")
    with pytest.raises(RdbError, match="a field without a value"):
        three.read_hash(Source((FIVE_ONE_TWO,)), NUMBERED_LISTPACK, Limits())


@pytest.mark.parametrize(
    ("before", "encoding"),
    [
        (b"", b"template-listpack"),
        # The names of a hash that comes later, and a hash.
        (b"\xf2\x01\x01\x01c", b"listpack"),
        (b"\x1f\x01i\x01\x01\x01c\x01v", b"listpack"),
    ],
)
def test_the_directives_of_loads_leave_a_file_with_imported_hashes_as_it_is(before: bytes, encoding: bytes) -> None:
    data = b"REDIS0012" + before + b"\x04\x01h\x02\x01b\x012\x01a\x011\xff" + bytes(8)
    keys = list(FileReader((data,), Limits(loaded_template_entries_min=2), now_ms=0))
    value = keys[-1].value
    assert isinstance(value, HashValue)
    assert value.encoding == encoding
    value.check()
