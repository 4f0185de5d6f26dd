# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Matches a glob pattern, for installations with a C compiler: `glob_match_plain` in C.

Both modules behave alike and are tested by the same tests; `glob` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

include "glob_text.pxi"


cdef inline bint is_whole(bytes pattern, bytes text, bint ignore_case) noexcept:
    """Whether the pattern matches the whole text."""
    cdef Place at = <Place> PyBytes_AS_STRING(pattern)
    cdef Place char = <Place> PyBytes_AS_STRING(text)
    return is_match(at, at + PyBytes_GET_SIZE(pattern), char, char + PyBytes_GET_SIZE(text), ignore_case)


def matches(bytes pattern not None, bytes text not None, bint ignore_case=False):
    """Whether the pattern matches the whole text. No number of stars matches an empty text, as in Redis."""
    return is_whole(pattern, text, ignore_case)


def matching_patterns(patterns, bytes text not None):
    """The patterns that match the whole text, in their order."""
    cdef bytes pattern
    return [pattern for pattern in patterns if is_whole(pattern, text, False)]


def matching_texts(bytes pattern not None, texts):
    """The texts that the pattern matches, in their order."""
    cdef bytes text
    return [text for text in texts if is_whole(pattern, text, False)]
