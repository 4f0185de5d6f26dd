"""Searches in arrays: the form in C finds what the plain one finds."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest

from headrace.commands.arrays.patterns import program_of
from headrace.store.companions import array_search, array_slices_plain
from headrace.store.companions.search_terms import EXACT, GLOB, MATCH, RE, Predicate

try:
    from headrace.store.companions import array_slices
except ImportError:
    array_slices = array_slices_plain  # type: ignore[assignment]

SLICES = [array_slices, array_slices_plain]
INDEX_MAX = (1 << 64) - 2
# What patterns and texts are made of.
ATOMS = (b"a", b"b", b"B", b"[ab]", b"[^a]", b".", b"\\w", b"\\d", b" ", b"(?i)b")
CONDITIONS = (b"^", b"$", b"\\<", b"\\>", b"\\b", b"\\B")
COUNTS = (b"", b"", b"", b"*", b"+", b"?", b"{2}", b"{1,3}")


def pattern_of(random: Random, depth: int = 2) -> bytes:
    """A regular expression."""
    pieces = []
    for _ in range(random.randrange(1, 4)):
        if depth and not random.randrange(3):
            one, other = pattern_of(random, depth - 1), pattern_of(random, depth - 1)
            piece = b"(%b|%b)" % (one, other) if random.randrange(2) else b"(%b)" % one
        elif not random.randrange(4):
            piece = random.choice(CONDITIONS)
        else:
            piece = random.choice(ATOMS)
        pieces.append(piece + random.choice(COUNTS))
    return b"".join(pieces)


def text_of(random: Random) -> bytes:
    return bytes(random.choices(b"aaabbBcA1 _\xe9\0", k=random.randrange(8)))


def predicate_of(random: Random, ignores_case: bool) -> Predicate:
    kind = random.choice((EXACT, MATCH, GLOB, RE, RE))
    if kind == RE:
        pattern = pattern_of(random)
        return kind, pattern, program_of(pattern, ignore_case=ignores_case)
    if kind == GLOB:
        return kind, b"".join(random.choices((b"*", b"?", b"a", b"B", b"[a-c]", b"[^b]"), k=random.randrange(5))), []
    return kind, text_of(random), []


@pytest.mark.parametrize("seed", range(40))
def test_both_forms_accept_the_same_texts(seed: int) -> None:
    random = Random(seed)
    for _ in range(25):
        ignores_case, needs_all = random.random() < 0.3, random.random() < 0.5
        predicates = [predicate_of(random, ignores_case) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        ours = array_slices.ArraySearch(predicates, needs_all, ignores_case)
        plain = array_search.ArraySearch(predicates, needs_all, ignores_case)
        for _ in range(30):
            text = text_of(random)
            assert ours.accepts(text) == plain.accepts(text), (predicates, needs_all, ignores_case, text)


def test_a_pattern_of_many_states_is_matched_in_bounded_memory() -> None:
    # Each of the last twelve bytes matters: there are thousands of different sets of threads.
    pattern = b"a.{12}b"
    search = array_slices.ArraySearch([(RE, pattern, program_of(pattern, ignore_case=False))], False, False)
    random = Random(5)
    for _ in range(40):
        text = bytes(random.choices(b"aab", k=400))
        found = any(text[at] == ord("a") and text[at + 13] == ord("b") for at in range(len(text) - 13))
        assert search.accepts(text) == found
        quiet = text.replace(b"b", b"c")
        assert not search.accepts(quiet)


def test_a_long_program_is_matched() -> None:
    pattern = b"(a{200}b{200}|c){20}$"
    search = array_slices.ArraySearch([(RE, pattern, program_of(pattern, ignore_case=False))], False, False)
    piece = b"a" * 200 + b"b" * 200
    assert search.accepts(piece * 20)
    assert search.accepts(piece * 10 + b"c" * 10)
    assert not search.accepts(piece * 19)


@pytest.mark.parametrize("form", SLICES)
def test_matches_are_encoded_with_and_without_elements(form: ModuleType) -> None:
    search_class = getattr(form, "ArraySearch", array_search.ArraySearch)
    slices = form.ArraySlices(256)
    slices.put_all(7, [b"1", b"two", b"1.5", b"a long element", b"TWO", b"x" * 600, b"two"], 0)
    search = search_class([(MATCH, b"Two", [])], False, True)
    assert slices.encoded_matches(search, 0, INDEX_MAX, 9, False, False) == (3, b":8\r\n:11\r\n:13\r\n")
    assert slices.encoded_matches(search, 0, INDEX_MAX, 2, True, True) == (
        2, b"*2\r\n:13\r\n$3\r\ntwo\r\n*2\r\n:11\r\n$3\r\nTWO\r\n",
    )  # fmt: skip
    assert slices.encoded_matches(search_class([(EXACT, b"1.5", [])], False, False), 0, 9, 9, False, False) == (
        1, b":9\r\n",
    )  # fmt: skip
    assert [slices.count_equal(0, INDEX_MAX, text) for text in (b"two", b"x" * 600, b"1", b"01")] == [2, 1, 1, 0]
