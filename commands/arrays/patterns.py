"""Regular expressions of ARGREP: the extended syntax of POSIX with escapes of Perl, as the library TRE reads them.

A pattern is compiled to a small program, for `ArraySearch`. A set of bytes is an integer: byte `b` is bit `1 << b`.
"""

from __future__ import annotations

from typing import Final

from ...store.companions.search_terms import CONDITION, END, FORK, JUMP, SET, Instruction
from ...store.errors import GenericError

# Largest count in braces, as in TRE.
COUNT_MAX: Final = 255
# Instructions of a program at most: nested counts multiply.
PROGRAM_SIZE_MAX: Final = 20_000
# Bytes of a pattern at most, as in Redis.
PATTERN_SIZE_MAX: Final = 2048


def _members(text: bytes) -> int:
    """The set of the bytes of a text."""
    members = 0
    for byte in text:
        members |= 1 << byte
    return members


def _between(first: int, last: int) -> int:
    """The set of the bytes from one to another, both included."""
    return (1 << last + 1) - (1 << first)


# Letters differ from those of the other case by this.
_CASE_DISTANCE: Final = 32
_ALL: Final = _between(0, 255)
_DIGITS: Final = _between(ord("0"), ord("9"))
_LOWER: Final = _between(ord("a"), ord("z"))
_UPPER: Final = _between(ord("A"), ord("Z"))
_SPACES: Final = _members(b" \t\n\v\f\r")
_WORD: Final = _DIGITS | _LOWER | _UPPER | _members(b"_")
_HEXADECIMAL: Final = _DIGITS | _members(b"abcdefABCDEF")
_CLASSES: Final = {
    b"alnum": _DIGITS | _LOWER | _UPPER,
    b"alpha": _LOWER | _UPPER,
    b"blank": _members(b" \t"),
    b"cntrl": _between(0, 31) | 1 << 127,
    b"digit": _DIGITS,
    b"graph": _between(33, 126),
    b"lower": _LOWER,
    b"print": _between(32, 126),
    b"punct": _between(33, 126) & ~(_DIGITS | _LOWER | _UPPER),
    b"space": _SPACES,
    b"upper": _UPPER,
    b"xdigit": _HEXADECIMAL,
}
_ESCAPED_SETS: Final = {
    b"w": _WORD, b"W": _ALL & ~_WORD, b"s": _SPACES, b"S": _ALL & ~_SPACES, b"d": _DIGITS, b"D": _ALL & ~_DIGITS,
}  # fmt: skip
_ESCAPED_BYTES: Final = {b"t": 9, b"n": 10, b"r": 13, b"f": 12, b"a": 7, b"e": 27}
_CONDITIONS: Final = (b"<", b">", b"b", b"B")


def _instruction(kind: int, *, to: int = 0, other: int = 0, text: bytes = b"") -> Instruction:
    """A fork continues `to` and `other` instructions further, a jump `to`. A condition has its letter."""
    return kind, 0, to, other, text


def _invalid(reason: bytes) -> GenericError:
    return GenericError(b"invalid regular expression: " + reason)


def _folded(members: int) -> int:
    """A set with the letters of both cases."""
    return members | (members & _UPPER) << _CASE_DISTANCE | (members & _LOWER) >> _CASE_DISTANCE


def check_length(pattern: bytes) -> None:
    """Raises GenericError if a pattern is longer than those that Redis takes."""
    if len(pattern) > PATTERN_SIZE_MAX:
        raise GenericError(b"regular expression is too long, maximum is %d bytes" % PATTERN_SIZE_MAX)


class _Group:
    """A part in parentheses, or the whole pattern, as far as it was read."""

    __slots__ = ("_alternatives", "ignores_case", "sequence")

    def __init__(self, ignores_case: bool) -> None:
        # What was in force before the group.
        self.ignores_case = ignores_case
        # The alternatives before the present one; None if there is none.
        self._alternatives: list[Instruction] | None = None
        # The present alternative.
        self.sequence: list[Instruction] = []

    def program(self) -> list[Instruction]:
        """All alternatives."""
        first, second = self._alternatives, self.sequence
        if first is None:
            return second
        fork = _instruction(FORK, to=1, other=len(first) + 2)
        return [fork, *first, _instruction(JUMP, to=len(second) + 1), *second]

    def begin_alternative(self) -> list[Instruction]:
        """End the present alternative. Returns all so far."""
        self._alternatives = program = self.program()
        self.sequence = []
        return program


class _Parser:
    """Compiles a pattern from left to right. Parts are lists of instructions with relative jumps."""

    __slots__ = ("_at", "_groups", "_ignore_case", "_is_quoted", "_pattern")

    def __init__(self, pattern: bytes, ignore_case: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = ignore_case
        # The whole pattern, and the groups that are open.
        self._groups = [_Group(ignore_case)]
        # Whether \Q has turned all characters into plain ones.
        self._is_quoted = False

    def parse(self) -> list[Instruction]:
        """The whole pattern. Raises GenericError."""
        groups = self._groups
        while self._at < len(self._pattern):
            byte = self._peek()
            if self._is_quoted or byte not in (b"(", b"|", b")") or (byte == b")" and len(groups) == 1):
                self._add(self._atom())
                continue
            self._at += 1
            if byte == b"|":
                self._check(groups[-1].begin_alternative())
            elif byte == b"(":
                self._begin_group()
            else:
                group = groups.pop()
                self._ignore_case = group.ignores_case
                self._add(group.program())
        if len(groups) > 1:
            raise _invalid(b"Missing ')'")
        program = groups[0].program()
        self._check(program)
        return [*program, _instruction(END)]

    def _begin_group(self) -> None:
        outer = self._ignore_case
        if self._peek() == b"?":
            self._at += 1
            if not self._flags():
                # `(?i)` is in force until the end of the group around it.
                self._add([])
                return
        self._groups.append(_Group(outer))

    def _add(self, part: list[Instruction]) -> None:
        """Add a part, with the counts after it, to the present group."""
        sequence = self._groups[-1].sequence
        sequence += self._counted(part)
        self._check(sequence)

    def _peek(self) -> bytes:
        return self._pattern[self._at : self._at + 1]

    def _check(self, program: list[Instruction]) -> None:
        if len(program) > PROGRAM_SIZE_MAX:
            raise _invalid(b"Out of memory")

    def _counted(self, part: list[Instruction]) -> list[Instruction]:
        """A part with the counts after it, which may be several."""
        while not self._is_quoted:
            byte = self._peek()
            if byte == b"*":
                low, high = 0, -1
            elif byte == b"+":
                low, high = 1, -1
            elif byte == b"?":
                low, high = 0, 1
            elif byte == b"{":
                low, high = self._braces()
            else:
                break
            self._at += 1
            # A minimal count matches the same texts.
            if self._peek() == b"?":
                self._at += 1
            elif self._peek() in (b"*", b"+"):
                raise _invalid(b"Invalid use of repetition operators")
            part = self._repeat(part, low, high)
        return part

    def _braces(self) -> tuple[int, int]:
        """The counts in braces; a second of -1 has no limit. The place is then at the closing brace."""
        end = self._pattern.find(b"}", self._at)
        if end < 0:
            raise _invalid(b"Missing '}'")
        low_text, comma, high_text = self._pattern[self._at + 1 : end].partition(b",")
        self._at = end
        texts = [text for text in (low_text, high_text) if text]
        if not texts or not all(text.isdigit() for text in texts):
            raise _invalid(b"Invalid contents of {}")
        low = int(low_text[:9] or b"0")
        high = low if not comma else int(high_text[:9]) if high_text else -1
        if max(low, high) > COUNT_MAX:
            raise _invalid(b"Maximum repetition in {} larger than 255")
        if 0 <= high < low:
            raise _invalid(b"Invalid contents of {}")
        return low, high

    def _repeat(self, part: list[Instruction], low: int, high: int) -> list[Instruction]:
        size = len(part)
        if size * max(low, high, 1) > PROGRAM_SIZE_MAX:
            raise _invalid(b"Out of memory")
        program = part * low
        if high < 0:
            return [
                *program,
                _instruction(FORK, to=1, other=size + 2),
                *part,
                _instruction(JUMP, to=-size - 1),
            ]
        for _ in range(high - low):
            program += [_instruction(FORK, to=1, other=size + 1), *part]
        return program

    def _set(self, members: int) -> list[Instruction]:
        return [(SET, _folded(members) if self._ignore_case else members, 1, 0, b"")]

    def _atom(self) -> list[Instruction]:
        byte = self._peek()
        if self._is_quoted:
            if self._pattern.startswith(b"\\E", self._at):
                self._at += 2
                self._is_quoted = False
                return []
            self._at += 1
            return self._set(_members(byte))
        if byte in (b"*", b"+", b"?", b"{"):
            # A count without a part before it counts an empty one.
            return []
        self._at += 1
        if byte == b"[":
            return [(SET, self._brackets(), 1, 0, b"")]
        if byte == b".":
            return self._set(_ALL)
        if byte in (b"^", b"$"):
            return [_instruction(CONDITION, text=byte)]
        if byte == b"\\":
            return self._escape()
        return self._set(_members(byte))

    def _flags(self) -> bool:
        """Read flags up to a colon or a bracket. Returns whether a group follows."""
        is_on = True
        while True:
            byte = self._peek()
            self._at += 1
            if byte == b"-":
                is_on = False
            elif byte == b"i":
                self._ignore_case = is_on
            elif byte == b":":
                return True
            elif byte == b")":
                return False
            elif byte not in (b"n", b"r", b"U"):
                raise _invalid(b"Invalid regexp")

    def _escape(self) -> list[Instruction]:
        byte = self._peek()
        if not byte:
            raise _invalid(b"Trailing backslash")
        self._at += 1
        if byte == b"Q":
            self._is_quoted = True
            return []
        if byte in _ESCAPED_SETS:
            return self._set(_ESCAPED_SETS[byte])
        if byte in _CONDITIONS:
            return [_instruction(CONDITION, text=byte)]
        if byte == b"x":
            return self._set(1 << self._hexadecimal())
        if byte in b"123456789":
            raise GenericError(b"regular expression backreferences are not supported")
        return self._set(1 << _ESCAPED_BYTES.get(byte, byte[0]))

    def _hexadecimal(self) -> int:
        """The byte of up to two hexadecimal digits, or of those in braces."""
        if self._peek() == b"{":
            end = self._pattern.find(b"}", self._at)
            digits = self._pattern[self._at + 1 : end]
            if end < 0 or not all(_HEXADECIMAL >> digit & 1 for digit in digits):
                raise _invalid(b"Missing '}'")
            self._at = end + 1
        else:
            digits = self._pattern[self._at : self._at + 2]
            while digits and not all(_HEXADECIMAL >> digit & 1 for digit in digits):
                digits = digits[:-1]
            self._at += len(digits)
        return int(digits or b"0", 16) & 255

    def _brackets(self) -> int:
        pattern = self._pattern
        is_negated = self._peek() == b"^"
        self._at += is_negated
        members = 0
        start = self._at
        while True:
            if self._at >= len(pattern):
                raise _invalid(b"Missing ']'")
            if self._peek() == b"]" and self._at > start:
                break
            if pattern.startswith(b"[:", self._at):
                end = pattern.find(b":]", self._at)
                members |= self._class(pattern[self._at + 2 : end] if end > 0 else b"")
                self._at = end + 2
                continue
            if pattern[self._at : self._at + 2] in (b"[.", b"[="):
                raise _invalid(b"Unknown collating element")
            first = last = pattern[self._at]
            self._at += 1
            if self._peek() == b"-" and pattern[self._at + 1 : self._at + 2] not in (b"]", b""):
                last = pattern[self._at + 1]
                self._at += 2
                if last < first:
                    raise _invalid(b"Invalid character range")
            members |= _between(first, last)
        self._at += 1
        if self._ignore_case:
            members = _folded(members)
        return _ALL & ~members if is_negated else members

    def _class(self, name: bytes) -> int:
        found = _CLASSES.get(name)
        if found is None:
            raise _invalid(b"Unknown character class name")
        return found


def program_of(pattern: bytes, *, ignore_case: bool) -> list[Instruction]:
    """The program of a pattern that is not too long. Raises GenericError."""
    if not pattern:
        raise GenericError(b"regular expression is empty")
    return _Parser(pattern, ignore_case).parse()
