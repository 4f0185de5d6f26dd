"""The longest common subsequence: its length, Redis' choice among equally long ones, and speed for long strings."""

from __future__ import annotations

import random
import time

import pytest

from headrace.commands.strings.subsequence import Match, common_matches, common_size


def walk_back(a: bytes, b: bytes) -> list[tuple[int, int]]:
    """Returns pairs of indexes by a walk through the full table of lengths, as in Redis."""
    sizes = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            grown = sizes[i - 1][j - 1] + 1
            sizes[i][j] = grown if a[i - 1] == b[j - 1] else max(sizes[i - 1][j], sizes[i][j - 1])
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif sizes[i - 1][j] > sizes[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs


@pytest.mark.parametrize("seed", range(8))
def test_matches_are_those_of_a_walk_through_the_full_table(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(60):
        letters = b"abcdefgh"[: source.randint(1, 8)]
        a, b = (bytes(source.choices(letters, k=source.randint(0, 40))) for _ in range(2))
        pairs = walk_back(a, b)
        matches = common_matches(a, b)
        found = [(m.a_start + i, m.b_start + i) for m in matches for i in reversed(range(m.size))]
        assert (found, common_size(a, b)) == (pairs, len(pairs)), (seed, a, b)


def test_adjacent_matches_form_one_range() -> None:
    assert common_matches(b"ohmytext", b"mynewtext") == [Match(4, 5, 4), Match(2, 0, 2)]
    assert common_matches(b"same", b"same") == [Match(0, 0, 4)]
    assert common_matches(b"", b"x") == []


@pytest.mark.parametrize("swapped", [False, True])
def test_largest_strings_that_redis_takes_need_no_table(swapped: bool) -> None:
    """Goal: no stall. Method: the steps of a table of 128 million numbers would take this process many seconds."""
    a, b = b"ab" * 5_600, b"ba" * 5_600
    c, d = b"a", b"ab" * 20_000_000
    if swapped:
        a, b, c, d = b, a, d, c
    began = time.process_time()
    assert common_size(a, b) == 11_199
    assert sum(match.size for match in common_matches(a, b)) == 11_199
    assert sum(match.size for match in common_matches(c, d)) == 1
    assert time.process_time() - began < 10
