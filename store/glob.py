"""Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a literal.

Patterns are not compiled: matching reads the pattern itself, and only as far as the text requires.
"""

from __future__ import annotations

from typing import Final

try:
    from .glob_match import matches, matching_patterns, matching_texts
except ImportError:  # there was no C compiler at installation
    from .glob_match_plain import matches, matching_patterns, matching_texts

__all__ = ["literal_prefix", "matches", "matching_keys", "matching_patterns", "matching_texts"]


# The bytes that are not literal in a pattern.
SPECIAL: Final = b"*?[\\"


def literal_prefix(pattern: bytes) -> bytes:
    """Return the bytes with which every text begins that the pattern matches: those before the first special one."""
    for index in range(len(pattern)):
        if pattern[index] in SPECIAL:
            return pattern[:index]
    return pattern


def matching_keys(pattern: bytes, keys: list[bytes]) -> list[bytes]:
    """Return the keys that a pattern of KEYS or SCAN matches. `*` matches every key, also the empty one; `**` does not
    match that."""
    return keys if pattern == b"*" else matching_texts(pattern, keys)
