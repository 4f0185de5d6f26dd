"""Matches a glob pattern: `glob_match` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# A pattern with more stars than this before other parts matches nothing, as in Redis.
STARS_MAX: Final = 1000

_LITERAL: Final = re.compile(rb"[^*?\[\\]*")
_STAR, _ANY, _CLASS, _ESCAPE = b"*?[\\"


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Whether the pattern matches the whole text. No number of stars matches an empty text, as in Redis.

    The part between two stars is matched at the first place where it fits. There is no backtracking: a later place
    would only leave less text for the rest.
    """
    if not text:
        return not pattern
    end, size = _part(pattern, 0, len(text))
    if size > len(text) or not _is_here(pattern, 0, end, text, 0, ignore_case):
        return False
    if end == len(pattern):
        return size == len(text)
    at, place, stars_count = end, size, 0
    while True:
        while pattern[at : at + 1] == b"*":
            at += 1
        if at == len(pattern):
            return True
        stars_count += 1
        end, size = _part(pattern, at, len(text) - place)
        if size > len(text) - place or stars_count > STARS_MAX:
            return False
        if end == len(pattern):
            return _is_here(pattern, at, end, text, len(text) - size, ignore_case)
        if not ignore_case and _literal_end(pattern, at) == end:
            place = text.find(pattern[at:end], place)
            if place < 0:
                return False
        else:
            while not _is_here(pattern, at, end, text, place, ignore_case):
                place += 1
                if size > len(text) - place:
                    return False
        place += size
        at = end


def matching_patterns(patterns: Iterable[bytes], text: bytes) -> list[bytes]:
    """The patterns that match the whole text, in their order."""
    return [pattern for pattern in patterns if matches(pattern, text)]


def matching_texts(pattern: bytes, texts: Iterable[bytes]) -> list[bytes]:
    """The texts that the pattern matches, in their order."""
    return [text for text in texts if matches(pattern, text)]


def _literal_end(pattern: bytes, at: int) -> int:
    """End of the literal bytes of the pattern that begin at `at`."""
    found = _LITERAL.match(pattern, at)
    assert found is not None
    return found.end()


def _part(pattern: bytes, at: int, size_max: int) -> tuple[int, int]:
    """End and size of the part that begins at `at`. Reading stops once its size is above `size_max`."""
    size = 0
    while at < len(pattern) and pattern[at] != _STAR and size <= size_max:
        end = _literal_end(pattern, at)
        if end > at:
            size += end - at
            at = end
            continue
        size += 1
        if pattern[at] == _CLASS:
            _, at = _is_in_class(pattern, at, 0, False)
        else:
            at += 2 if pattern[at] == _ESCAPE and at + 1 < len(pattern) else 1
    return at, size


def _is_here(pattern: bytes, at: int, end: int, text: bytes, place: int, ignore_case: bool) -> bool:
    """Whether the part from `at` to `end` matches the text from `place` on. The text is long enough."""
    while at < end:
        literal_end = _literal_end(pattern, at)
        if literal_end > at:
            if not _is_equal(pattern[at:literal_end], text[place : place + literal_end - at], ignore_case):
                return False
            place += literal_end - at
            at = literal_end
            continue
        kind = pattern[at]
        if kind == _CLASS:
            is_in, at = _is_in_class(pattern, at, text[place], ignore_case)
            if not is_in:
                return False
        else:
            at += kind == _ESCAPE and at + 1 < len(pattern)
            if kind != _ANY and not _is_equal(pattern[at : at + 1], text[place : place + 1], ignore_case):
                return False
            at += 1
        place += 1
    return True


def _is_equal(one: bytes, other: bytes, ignore_case: bool) -> bool:
    return one == other or (ignore_case and one.lower() == other.lower())


def _is_in_class(pattern: bytes, at: int, char: int, ignore_case: bool) -> tuple[bool, int]:
    """Whether the class that starts at `at` contains the byte, and where the class ends, at the latest with the
    pattern."""
    at += 1
    end = len(pattern)
    is_negated = pattern[at : at + 1] == b"^"
    at += is_negated
    found = False
    while at < end and pattern[at] != ord("]"):
        if pattern[at] == _ESCAPE and at + 1 < end:
            at += 1
            # Redis does not ignore the case here.
            found = found or pattern[at] == char
        elif at + 2 < end and pattern[at + 1] == ord("-"):
            low, high = sorted((_signed(pattern[at]), _signed(pattern[at + 2])))
            if ignore_case:
                found = found or _lowered(low) <= _lowered(_signed(char)) <= _lowered(high)
            else:
                found = found or low <= _signed(char) <= high
            at += 2
        else:
            found = found or _is_equal(pattern[at : at + 1], bytes((char,)), ignore_case)
        at += 1
    return found != is_negated, min(at + 1, end)


def _signed(char: int) -> int:
    """Redis compares signed `char`s: in a range, bytes from 0x80 on come before all others."""
    return char - 256 if char >= 128 else char


def _lowered(char: int) -> int:
    return char + 32 if ord("A") <= char <= ord("Z") else char
