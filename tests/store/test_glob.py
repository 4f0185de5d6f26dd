"""Glob patterns match what Redis matches (every row was asked of Redis 8.10.2 through KEYS), in bounded time."""

from __future__ import annotations

from itertools import product
from time import perf_counter

import pytest

from headrace.store.glob import matches

TEXTS = [b"", b"a", b"b", b"ab", b"abc", b"a-", b"-", b"[", b"]", b"^", b"\\", b"\xc3\xa9"]

ALL = set(TEXTS)
SINGLE = {b"a", b"b", b"-", b"[", b"]", b"^", b"\\"}


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (b"", {b""}),
        (b"*", ALL),
        (b"**", ALL - {b""}),
        (b"?", SINGLE),
        (b"**?", ALL - {b""}),
        (b"*?*", ALL - {b""}),
        (b"a*", {b"a", b"ab", b"abc", b"a-"}),
        (b"a*b?", {b"abc"}),
        (b"a*[bc]", {b"ab", b"abc"}),
        (b"*[b-]*", {b"]", b"^", b"a", b"ab", b"b"}),
        (b"a\\b", {b"ab"}),
        (b"\\ab", {b"ab"}),
        (b"\\", {b"\\"}),
        (b"\\\\", {b"\\"}),
        (b"*\\", {b"\\"}),
        (b"[", set()),
        (b"[a", {b"a"}),
        (b"[a\\", {b"\\", b"a"}),
        (b"[^a", SINGLE - {b"a"}),
        (b"[^", SINGLE),
        (b"[^]", SINGLE),
        (b"[^]b", {b"ab"}),
        (b"[]", set()),
        (b"[]]", set()),
        (b"*[]", set()),
        (b"[a-", {b"a", b"-"}),
        (b"[a-c", {b"a", b"b"}),
        (b"[a-c]", {b"a", b"b"}),
        (b"[c-a]", {b"a", b"b"}),
        (b"[^a-c]", {b"[", b"\\", b"-", b"^", b"]"}),
        (b"[a-]", {b"^", b"]", b"a"}),
        (b"[-a]", {b"-", b"a"}),
        (b"[--a]", SINGLE - {b"b"}),
        (b"[\\]]", {b"]"}),
        (b"[\\\\]", {b"\\"}),
        (b"[a\\]", {b"]", b"a"}),
        (b"[\\a-c]", {b"-", b"a"}),
        (b"[a\\-c]", {b"-", b"a"}),
        (b"[a-b-c]", {b"-", b"a", b"b"}),
        (b"ab[", set()),
        (b"ab[^", {b"abc"}),
        (b"ab[^c]", set()),
        (b"ab[a-c", {b"abc"}),
        (b"a[b", {b"ab"}),
    ],
)
def test_pattern_matches_these_texts(pattern: bytes, matched: set[bytes]) -> None:
    assert {text for text in TEXTS if matches(pattern, text)} == matched


def test_newline_and_regex_signs_are_ordinary_bytes() -> None:
    assert matches(b"a?b*", b"a\nb\n")
    assert matches(b"(a+|$.{2})", b"(a+|$.{2})")
    assert not matches(b"a+", b"aa")
    assert not matches(b"a", b"a\n")


def test_case_is_ignored_on_request() -> None:
    assert matches(b"MaX[A-c]*", b"maxbytes", ignore_case=True)
    assert not matches(b"MAX*", b"maxbytes")


def fits(pattern: bytes, text: bytes) -> bool:
    """The definition, for stars and letters."""
    if not pattern:
        return not text
    if pattern[:1] == b"*":
        return any(fits(pattern[1:], text[index:]) for index in range(len(text) + 1))
    return text[:1] == pattern[:1] and fits(pattern[1:], text[1:])


def test_stars_match_whatever_some_division_of_the_text_allows() -> None:
    texts = [bytes(letters) for size in range(6) for letters in product(b"ab", repeat=size)]
    for size in range(6):
        for letters in product(b"ab*", repeat=size):
            pattern = bytes(letters)
            if len(pattern) < 2 or pattern.strip(b"*"):
                assert {text for text in texts if matches(pattern, text)} == {t for t in texts if fits(pattern, t)}


def test_many_stars_do_not_multiply_the_time() -> None:
    started = perf_counter()
    assert not matches(b"*a" * 50 + b"b", b"a" * 20_000)
    assert not matches(b"a*" * 50 + b"b", b"a" * 20_000)
    # A backtracking matcher needs longer than the universe has; the bound only has to tell the two apart.
    assert perf_counter() - started < 10
