"""Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a literal."""

from __future__ import annotations

import re
from functools import lru_cache


def matches(pattern: bytes, text: bytes, *, ignore_case: bool = False) -> bool:
    """Whether the whole text fits the pattern."""
    if ignore_case:
        pattern, text = pattern.lower(), text.lower()
    return compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=256)
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """The pattern as a regular expression for whole texts.

    What stands between two stars is taken where it first fits and never reconsidered: a later place would only leave
    less for the rest. So the time is at most length of pattern times length of text, however many stars there are.
    """
    if len(pattern) > 1 and not pattern.strip(b"*"):
        # An oddity of Redis that shows in KEYS: one star matches the empty text, more than one do not.
        return re.compile(b".+", re.DOTALL)
    first, *others = _segments(pattern)
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(first + b"".join(b"(?>.*?%b)" % part for part in middle if part) + b".*" + last, re.DOTALL)


def _segments(pattern: bytes) -> list[bytes]:
    """Regular expressions of what the stars of the pattern separate; each matches texts of one length only."""
    segments = [b""]
    index = 0
    while index < len(pattern):
        char = pattern[index : index + 1]
        index += 1
        if char == b"*":
            segments.append(b"")
        elif char == b"?":
            segments[-1] += b"."
        elif char == b"[":
            part, index = _class(pattern, index)
            segments[-1] += part
        else:
            if char == b"\\" and index < len(pattern):
                char = pattern[index : index + 1]
                index += 1
            segments[-1] += re.escape(char)
    return segments


def _class(pattern: bytes, index: int) -> tuple[bytes, int]:
    """A character class from behind its bracket, and where it ends; one that is not closed ends with the pattern."""
    is_negated = pattern[index : index + 1] == b"^"
    index += is_negated
    codes: set[int] = set()
    while index < len(pattern) and pattern[index : index + 1] != b"]":
        if pattern[index : index + 1] == b"\\" and index + 1 < len(pattern):
            codes.add(pattern[index + 1])
            index += 2
        elif pattern[index + 1 : index + 2] == b"-" and index + 2 < len(pattern):
            low, high = sorted((pattern[index], pattern[index + 2]))
            codes.update(range(low, high + 1))
            index += 3
        else:
            codes.add(pattern[index])
            index += 1
    inside = b"".join(b"\\x%02x" % code for code in sorted(codes))
    if not inside:
        return (b"." if is_negated else b"(?!)"), index + 1
    return b"[%b%b]" % (b"^" if is_negated else b"", inside), index + 1
