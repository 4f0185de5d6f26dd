"""Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a literal.

Nothing is made of a pattern and kept: matching reads the pattern itself, no further than the text makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

try:
    from .glob_match import matches
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_glob_match import matches

__all__ = ["key_matcher", "matches"]


def key_matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """What KEYS and SCAN look for: one star is every key, even the empty one, which more of them do not match."""
    return _is_key if pattern == b"*" else partial(matches, pattern)


def _is_key(key: bytes) -> bool:
    return True
