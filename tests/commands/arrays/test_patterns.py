"""Regular expressions of ARGREP. What matches is as observed with Redis 8.10.2."""

from __future__ import annotations

import pytest

from headrace.commands.arrays.patterns import program_of
from headrace.store.companions.array_value import ArraySearch
from headrace.store.companions.search_terms import RE
from headrace.store.errors import GenericError


def searched(pattern: bytes, *, ignore_case: bool = False) -> ArraySearch:
    return ArraySearch([(RE, pattern, program_of(pattern, ignore_case=ignore_case))], False, ignore_case)


TEXTS = (b"", b"a", b"ab", b"aab", b"A1", b"a b", b"(a)", b"a-c", b"x\ny", b"\\d")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (b"^a+b$", (b"ab", b"aab")),
        (b"a{2}", (b"aab",)),
        (b"x|1", (b"A1", b"x\ny")),
        (b"(?i)^a1", (b"A1",)),
        (b"^.$", (b"a",)),
        (b"x.y", (b"x\ny",)),
        (b"[[:digit:]]", (b"A1",)),
        (b"[^]a-z \n()]", (b"A1", b"a-c", b"\\d")),
        (b"\\d", (b"A1",)),
        (b"\\s", (b"a b", b"x\ny")),
        (b"\\<b", (b"a b",)),
        (b"\\Q(a)\\E$", (b"(a)",)),
        (b"\\x2d", (b"a-c",)),
        (b"(?:a|b)+ b", (b"a b",)),
        (b"^(ab)?$", (b"", b"ab")),
        (b"*", TEXTS),
    ],
)
def test_pattern_matches(pattern: bytes, matching: tuple[bytes, ...]) -> None:
    search = searched(pattern)
    assert tuple(text for text in TEXTS if search.accepts(text)) == matching


def test_case_is_ignored_in_sets_too() -> None:
    assert searched(b"^[a-c]\\x42$", ignore_case=True).accepts(b"Ab")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (b"", "regular expression is empty"),
        (b"(a", "invalid regular expression: Missing ')'"),
        (b"[a", "invalid regular expression: Missing ']'"),
        (b"a{1", "invalid regular expression: Missing '}'"),
        (b"a{2,1}", "invalid regular expression: Invalid contents of {}"),
        (b"a{300}", "invalid regular expression: Maximum repetition in {} larger than 255"),
        (b"a**", "invalid regular expression: Invalid use of repetition operators"),
        (b"\\", "invalid regular expression: Trailing backslash"),
        (b"(a)\\1", "regular expression backreferences are not supported"),
        (b"((((a{250}){250}){250}){250})", "invalid regular expression: Out of memory"),
    ],
)
def test_pattern_is_refused(pattern: bytes, text: str) -> None:
    with pytest.raises(GenericError, match=text.replace("{", r"\{").replace(")", r"\)").replace("]", r"\]")):
        program_of(pattern, ignore_case=False)


def test_nested_counts_take_no_exponential_time() -> None:
    assert not searched(b"(a+)+$").accepts(b"a" * 2000 + b"b")
