"""Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a literal.

Patterns are not compiled: matching reads the pattern itself, and only as far as the text requires.
"""

from __future__ import annotations

try:
    from .glob_match import matches, matching_patterns, matching_texts
except ImportError:  # there was no C compiler at installation
    from .glob_match_plain import matches, matching_patterns, matching_texts

__all__ = ["matches", "matching_keys", "matching_patterns", "matching_texts"]


def matching_keys(pattern: bytes, keys: list[bytes]) -> list[bytes]:
    """Return the keys that a pattern of KEYS or SCAN matches. `*` matches every key, also the empty one; `**` does not
    match that."""
    return keys if pattern == b"*" else matching_texts(pattern, keys)
