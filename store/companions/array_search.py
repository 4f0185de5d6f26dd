"""A search in the elements of an array, for installations without a C compiler. `array_search.pxi` behaves alike.

All threads of a program advance together over a text. So the time is the product of both lengths, whatever the pattern:
a backtracking matcher would let one request stop the server.
"""

from __future__ import annotations

from ..glob import matches
from .search_terms import CONDITION, END, EXACT, FORK, GLOB, RE, SET, Instruction, Predicate


class ArraySearch:
    """Predicates for elements: one of them must be true, or all."""

    __slots__ = ("_ignores_case", "_needs_all", "_predicates")

    def __init__(self, predicates: list[Predicate], needs_all: bool, ignores_case: bool) -> None:
        self._predicates = predicates
        self._needs_all = needs_all
        # Not for regular expressions: their programs say it.
        self._ignores_case = ignores_case

    def accepts(self, text: bytes) -> bool:
        """Whether an element matches."""
        for predicate in self._predicates:
            if self._is_true(predicate, text) != self._needs_all:
                return not self._needs_all
        return self._needs_all

    def _is_true(self, predicate: Predicate, text: bytes) -> bool:
        kind, sought, program = predicate
        if kind == RE:
            return _is_in(program, text)
        if kind == GLOB:
            return matches(sought, text, self._ignores_case)
        if self._ignores_case:
            sought, text = sought.lower(), text.lower()
        return sought == text if kind == EXACT else sought in text


def _is_in(program: list[Instruction], text: bytes) -> bool:
    """Whether a part of the text matches."""
    threads = [0]
    for place in range(len(text) + 1):
        found = _advance(program, threads, text, place)
        if found is None:
            return True
        if place == len(text):
            break
        byte = text[place]
        threads = [at + 1 for at in found if program[at][1] >> byte & 1]
        # A match may begin anywhere.
        threads.append(0)
    return False


def _advance(program: list[Instruction], threads: list[int], text: bytes, place: int) -> list[int] | None:
    """The sets of bytes that threads wait for at a place; None if one of them is at the end."""
    waiting = list(threads)
    seen: set[int] = set()
    found: list[int] = []
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        kind, _, to, other, condition = program[at]
        if kind == END:
            return None
        if kind == SET:
            found.append(at)
        elif kind == CONDITION:
            if _holds(condition, text, place):
                waiting.append(at + 1)
        else:
            waiting.append(at + to)
            if kind == FORK:
                waiting.append(at + other)
    return found


def _is_word(byte: int) -> bool:
    return bytes((byte,)).isalnum() or byte == ord("_")


def _holds(condition: bytes, text: bytes, place: int) -> bool:
    """Whether a condition is true between the byte before `place` and the one after it."""
    if condition == b"^":
        return not place
    if condition == b"$":
        return place == len(text)
    # Both ends of the text are a boundary of a word, as TRE has it.
    is_at_end = place in (0, len(text))
    before = place > 0 and _is_word(text[place - 1])
    after = place < len(text) and _is_word(text[place])
    if condition == b"<":
        return after and not before
    if condition == b">":
        return before and not after
    if condition == b"b":
        return before != after or is_at_end
    return before == after and not is_at_end
