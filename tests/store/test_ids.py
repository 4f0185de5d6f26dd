"""Entry IDs: every text form that Redis takes, and every one it refuses."""

from __future__ import annotations

import pytest

from headrace.store.errors import GenericError
from headrace.store.ids import (
    ID_MAX,
    U64_MAX,
    format_id,
    id_after,
    id_before,
    make_id,
    parse_edge,
    parse_id,
    parse_ids,
    parse_range_end,
    parse_range_start,
)


@pytest.mark.parametrize(
    ("text", "ms", "seq"),
    [
        (b"5-3", 5, 3),
        (b"5", 5, 0),
        (b"07-05", 7, 5),
        (b"+8-+9", 8, 9),
        (b" 9-1", 9, 1),
        (b"10- 1", 10, 1),
        (b"11- -1", 11, U64_MAX),
        (b"11--9223372036854775809", 11, 2**63 - 1),
        (b"0" * 47 + b"14-1", 14, 1),
        (b"0" * 126 + b"5", 5, 0),
        (b"5-1\0abc", 5, 1),
        (b"18446744073709551615-18446744073709551615", U64_MAX, U64_MAX),
    ],
)
def test_loose_text_forms_are_read_as_strtoull_reads_them(text: bytes, ms: int, seq: int) -> None:
    assert parse_id(text) == make_id(ms, seq)


def test_ids_are_read_from_where_they_begin_in_whatever_form_each_has() -> None:
    assert parse_ids([b"s", b"5-3", b"6"], 1) == [make_id(5, 3), make_id(6, 0)]
    assert parse_ids([b"5-3", b"+7-5", b"6"]) == [make_id(5, 3), make_id(7, 5), make_id(6, 0)]


@pytest.mark.parametrize(
    "text",
    [b"", b"-", b"+", b"$", b">", b"*", b"5-", b"-1", b"-5-1", b"11--1", b"11--9223372036854775808", b"12-1-1",
     b"12 -1", b"1e3", b"0x10", b"18446744073709551616", b"1-18446744073709551616", b"(5", b"((5", b"\xff",
     b"0" * 127 + b"5"],
)  # fmt: skip
def test_anything_else_is_an_invalid_id(text: bytes) -> None:
    with pytest.raises(GenericError, match="Invalid stream ID specified as stream command argument"):
        parse_id(text)


def test_an_incomplete_id_means_the_whole_millisecond_only_at_the_end_of_a_range() -> None:
    assert parse_range_start(b"5") == make_id(5, 0)
    assert parse_range_end(b"5") == make_id(5, U64_MAX)
    assert parse_range_start(b"(5") == make_id(5, 1)
    assert parse_range_end(b"(5") == make_id(5, U64_MAX - 1)


def test_exclusive_ends_that_exclude_everything_are_errors_of_their_own() -> None:
    with pytest.raises(GenericError, match="invalid start ID for the interval"):
        parse_range_start(b"(" + format_id(ID_MAX))
    with pytest.raises(GenericError, match="invalid end ID for the interval"):
        parse_range_end(b"(0-0")
    with pytest.raises(GenericError, match="Invalid stream ID"):
        parse_range_start(b"(-")


def test_minus_and_plus_are_the_edges_of_all_ids() -> None:
    assert (parse_edge(b"-"), parse_edge(b"+"), parse_edge(b"5")) == (0, ID_MAX, make_id(5, 0))
    assert format_id(ID_MAX) == b"18446744073709551615-18446744073709551615"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0, 0), (0, 1)),
        ((5, 7), (5, 8)),
        ((5, U64_MAX - 1), (5, U64_MAX)),
        ((5, U64_MAX), (6, 0)),
        ((U64_MAX - 1, U64_MAX), (U64_MAX, 0)),
    ],
)
def test_ids_follow_each_other_over_the_end_of_a_millisecond(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert id_after(make_id(*first)) == make_id(*second)
    assert id_before(make_id(*second)) == make_id(*first)
    assert make_id(*first) < make_id(*second)


def test_nothing_is_larger_than_what_follows_the_largest_id() -> None:
    assert id_after(ID_MAX) > ID_MAX == make_id(U64_MAX, U64_MAX)


@pytest.mark.parametrize("entries_per_ms", [1, 10, 100, 1000, 2000])
def test_ids_of_neighbouring_milliseconds_hash_apart(entries_per_ms: int) -> None:
    hashes = {hash(make_id(1_700_000_000_000 + n // entries_per_ms, n % entries_per_ms)) for n in range(20_000)}
    assert len(hashes) == 20_000
