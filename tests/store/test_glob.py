"""Glob patterns match what Redis matches (every row was asked of Redis 8.10.2 through KEYS), in bounded time."""

from __future__ import annotations

from itertools import product
from time import process_time
from types import ModuleType

import pytest

from headrace.store import glob_match_plain
from headrace.store.glob import literal_prefix, matching_keys

try:
    from headrace.store import glob_match
except ImportError:
    glob_match = None  # type: ignore[assignment]

FORMS = [glob_match_plain, *([glob_match] if glob_match is not None else [])]

TEXTS = [b"", b"a", b"b", b"ab", b"abc", b"a-", b"-", b"[", b"]", b"^", b"\\", b"\xc3\xa9"]

ALL = set(TEXTS)
SINGLE = {b"a", b"b", b"-", b"[", b"]", b"^", b"\\"}


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (b"", {b""}),
        (b"*", ALL - {b""}),
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
        (b"[a-\xff]*", {b"a", b"ab", b"abc", b"a-", b"-", b"[", b"]", b"^", b"\\"}),
        (b"[\x80-\xff]?", {b"\xc3\xa9"}),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_pattern_matches_these_texts(form: ModuleType, pattern: bytes, matched: set[bytes]) -> None:
    assert {text for text in TEXTS if form.matches(pattern, text)} == matched


@pytest.mark.parametrize("form", FORMS)
def test_patterns_and_texts_that_match_keep_their_order(form: ModuleType) -> None:
    assert form.matching_texts(b"?b*", iter([b"cb", b"a", b"abc", b"", b"bb"])) == [b"cb", b"abc", b"bb"]
    patterns = dict.fromkeys((b"n*", b"o*", b"*w", b"new"))
    assert form.matching_patterns(patterns, b"new") == [b"n*", b"*w", b"new"]


def test_one_star_is_every_key_and_several_are_not() -> None:
    assert matching_keys(b"*", TEXTS) == TEXTS
    assert set(matching_keys(b"**", TEXTS)) == ALL - {b""}


@pytest.mark.parametrize("form", FORMS)
def test_newline_and_regex_signs_are_ordinary_bytes(form: ModuleType) -> None:
    assert form.matches(b"a?b*", b"a\nb\n")
    assert form.matches(b"(a+|$.{2})", b"(a+|$.{2})")
    assert not form.matches(b"a+", b"aa")
    assert not form.matches(b"a", b"a\n")


@pytest.mark.parametrize("form", FORMS)
def test_case_is_ignored_on_request(form: ModuleType) -> None:
    assert form.matches(b"MaX[A-c]*", b"maxbytes", ignore_case=True)
    assert form.matches(b"*X[B-C]YT*", b"maxbytes", ignore_case=True)
    assert not form.matches(b"MAX*", b"maxbytes")
    # Two oddities of Redis: the ends of a range are swapped before their case is ignored, and an escape in a class
    # keeps its case.
    assert not form.matches(b"[Z-a]*", b"maxbytes", ignore_case=True)
    assert not form.matches(b"[\\M]*", b"maxbytes", ignore_case=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tail", [b"", b"*", b"**", b"b"])
def test_a_thousand_stars_match_and_one_more_does_not(form: ModuleType, tail: bytes) -> None:
    text = b"a" * 1100 + tail.strip(b"*")
    assert form.matches(b"*a" * 1000 + tail, text)
    assert not form.matches(b"*a" * 1001 + tail, text)


def fits(pattern: bytes, text: bytes) -> bool:
    """The definition, for stars and letters."""
    if not pattern:
        return not text
    if pattern[:1] == b"*":
        return any(fits(pattern[1:], text[index:]) for index in range(len(text) + 1))
    return text[:1] == pattern[:1] and fits(pattern[1:], text[1:])


@pytest.mark.parametrize("form", FORMS)
def test_stars_match_whatever_some_division_of_the_text_allows(form: ModuleType) -> None:
    texts = [bytes(letters) for size in range(1, 6) for letters in product(b"ab", repeat=size)]
    for size in range(6):
        for letters in product(b"ab*", repeat=size):
            pattern = bytes(letters)
            found = {text for text in texts if form.matches(pattern, text)}
            assert found == {text for text in texts if fits(pattern, text)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "pattern",
    [
        b"*a" * 400_000,
        b"a*" * 400_000 + b"b",
        b"[ab]" * 200_000,
        b"[" + b"a" * 800_000,
        b"?" * 800_000 + b"b",
        b"\\a" * 400_000 + b"b",
        b"*" + b"a" * 400_000 + b"b" + b"a" * 400_000 + b"*",
        b"*" * 800_000,
    ],
    ids=lambda pattern: pattern[:6].decode(),
)
def test_a_pattern_of_800_kb_takes_linear_time(form: ModuleType, pattern: bytes) -> None:
    """A second in the twin, milliseconds in C. One step for each pair of bytes would take minutes in C."""
    started = process_time()
    form.matches(pattern, b"a" * 1_000_000)
    form.matches(pattern, b"a")
    assert process_time() - started < 10


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (b"", b""),
        (b"*", b""),
        (b"user:*", b"user:"),
        (b"a?b", b"a"),
        (b"ab[c]", b"ab"),
        (b"a\\*", b"a"),
        (b"abc", b"abc"),
    ],
)
def test_what_a_pattern_matches_begins_with_its_literal_prefix(pattern: bytes, prefix: bytes) -> None:
    assert literal_prefix(pattern) == prefix
