"""The longest common subsequence of two strings, for LCS: `subsequence` for installations without a C compiler. Both
behave alike.

Redis fills a table of |a| x |b| lengths and walks back through it. Adjacent lengths in that table differ by at most
one. Here a row of the table is one integer, with a bit for each column where the length grows, so a few operations on
such integers compute a whole row. The walk back follows that of Redis, so that the same one of several equally long
subsequences is found.
Source: H. Hyyrö, Bit-parallel LCS-length computation revisited (2004); LCS of Redis 8.10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

# A table for `bytes.translate`: every byte becomes the digit 0.
ZEROS: Final = b"0" * 256


class Match(NamedTuple):
    """A range of bytes that is equal in both strings; starts count from zero."""

    a_start: int
    b_start: int
    size: int


def _growth(rows: bytes, columns: bytes) -> Iterator[int]:
    """Yields an integer for each prefix of `rows`, the empty one first: bit i is set if columns[i] extends the
    subsequence.
    """
    everywhere = (1 << len(columns)) - 1
    places = {code: _places(columns, code) for code in set(rows)}
    unchanged = everywhere
    yield 0
    for code in rows:
        equal = unchanged & places[code]
        unchanged = (unchanged + equal | unchanged - equal) & everywhere
        yield unchanged ^ everywhere


def _places(text: bytes, code: int) -> int:
    """Returns an integer in which bit i is set if text[i] is `code`."""
    marks = text.translate(ZEROS[:code] + b"1" + ZEROS[code + 1 :])
    return int(marks[::-1] or b"0", 2)


def common_size(a: bytes, b: bytes) -> int:
    """Returns the length in bytes of a longest common subsequence."""
    rows, columns = sorted((a, b), key=len)
    size = 0
    for growth in _growth(rows, columns):
        size = growth.bit_count()
    return size


def common_matches(a: bytes, b: bytes) -> list[Match]:
    """Returns the ranges of the subsequence that Redis finds, last one first."""
    places = _back_over_b(a, b) if len(a) <= len(b) else _back_over_a(a, b)
    matches: list[Match] = []
    for i, j in places:
        if matches and (matches[-1].a_start, matches[-1].b_start) == (i + 1, j + 1):
            matches[-1] = Match(i, j, matches[-1].size + 1)
        else:
            matches.append(Match(i, j, 1))
    return matches


def common_text(a: bytes, b: bytes) -> bytes:
    """Returns the subsequence that Redis finds."""
    return b"".join([a[match.a_start : match.a_start + match.size] for match in reversed(common_matches(a, b))])


def common_ranges(a: bytes, b: bytes, size_min: int, with_sizes: bool) -> tuple[list[Any], int]:
    """Returns the ranges of at least `size_min` bytes, last one first, and the length of the subsequence. A range has
    its first and last index in each string, and its length if `with_sizes` is set."""
    matches = common_matches(a, b)
    ranges: list[Any] = []
    for match in matches:
        if match.size >= size_min:
            places: list[Any] = [[start, start + match.size - 1] for start in (match.a_start, match.b_start)]
            ranges.append([*places, match.size] if with_sizes else places)
    return ranges, sum(match.size for match in matches)


# Both walks start at the end of both strings. Equal bytes become a match. Otherwise a byte of b is skipped if the
# subsequence without it has the same length, else a byte of a. A long range of skipped bytes takes one step.


def _back_over_b(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """Yields pairs of indexes of equal bytes, last first. The rows of the table are those of `a`."""
    rows = list(_growth(a, b))
    i, j = len(a), len(b)
    while rows[i] & ((1 << j) - 1):
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            yield i, j
            continue
        needed = (rows[i] & ((1 << j) - 1)).bit_length()
        j = max(needed, b.rfind(a[i - 1], 0, j) + 1)
        if a[i - 1] != b[j - 1]:
            i -= 1


def _back_over_a(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """Yields pairs of indexes of equal bytes, last first. The rows of the table are those of `b`."""
    rows = list(_growth(b, a))
    i, j = len(a), len(b)
    size = rows[j].bit_count()
    while size:
        if a[i - 1] == b[j - 1]:
            i, j, size = i - 1, j - 1, size - 1
            yield i, j
        elif (rows[j - 1] & ((1 << i) - 1)).bit_count() == size:
            j -= 1
        else:
            i = a.rfind(b[j - 1], 0, i) + 1
