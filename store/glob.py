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
    """The pattern as a regular expression for whole texts."""
    parts: list[bytes] = []
    index = 0
    while index < len(pattern):
        char = pattern[index : index + 1]
        index += 1
        if char == b"*":
            # One star after another matches nothing more and costs exponential time.
            if parts[-1:] != [b".*"]:
                parts.append(b".*")
        elif char == b"?":
            parts.append(b".")
        elif char == b"[":
            part, index = _class(pattern, index)
            parts.append(part)
        else:
            if char == b"\\" and index < len(pattern):
                char = pattern[index : index + 1]
                index += 1
            parts.append(re.escape(char))
    return re.compile(b"".join(parts), re.DOTALL)


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
