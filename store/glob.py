"""Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a literal.

Patterns are not compiled: matching reads the pattern itself, and only as far as the text requires.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

try:
    from .glob_match import matches
except ImportError:  # there was no C compiler at installation
    from .glob_match_plain import matches

__all__ = ["key_matcher", "matches"]


def key_matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Return the test for a pattern of KEYS or SCAN. `*` matches every key, also the empty one; `**` does not match
    that."""
    return _is_key if pattern == b"*" else partial(matches, pattern)


def _is_key(key: bytes) -> bool:
    return True
