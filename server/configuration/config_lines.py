"""One line of a configuration file: its words, its secrets, and its errors.

The grammar is Redis': `#` starts a comment only at the start of a line, and words may be quoted with `"..."` (escapes
`\\n \\r \\t \\a \\b \\xHH`) or `'...'`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from ...commands.core.secrets import SECRET_DIRECTIVES
from .directives import BY_NAME

# The first rule of a user with a password, and everything after it.
_PASSWORD: Final = re.compile(rb"""(?<=[\s"'(])([<>#!]).*""", re.DOTALL)
_CLEAR_PASSWORD: Final = re.compile(rb"(?:^|(?<=[\s(]))([<>]).*", re.DOTALL)
# The name at the start of a line, or an option. A wrong `name=value` has its name, too.
_NAME: Final = re.compile(rb"""[-\s"']*([^\s"'=]*)""")

COMMENT_HINT: Final = ": a comment needs a line of its own"

_ESCAPES: Final = {0x6E: 0x0A, 0x72: 0x0D, 0x74: 0x09, 0x62: 0x08, 0x61: 0x07}
_BLANKS: Final = b" \n\r\t\v\f"


class ConfigError(Exception):
    """The configuration cannot be read. The text is shown to the user before the server exits."""


def without_secrets(line: bytes) -> bytes:
    """The line, or the option, without secrets, for the server log. A misspelled secret directive counts as one."""
    found = _NAME.match(line)
    assert found is not None
    name = found[1].lower()
    if name == b"user":
        return _PASSWORD.sub(rb"\1...", line)
    is_secret = name in SECRET_DIRECTIVES or (name not in BY_NAME and likely_name(name) in SECRET_DIRECTIVES)
    return found[0] + b" ..." if is_secret and found.end() < len(line) else line


def without_passwords(rule: bytes) -> bytes:
    """A user's rule without passwords. Hashes are shown, so that an error in one can be seen."""
    return _CLEAR_PASSWORD.sub(rb"\1...", rule)


class ConfigLineError(ConfigError):
    """A line with an impossible value. `place` is its line in a file, or its option."""

    def __init__(self, place: str, line: bytes, reason: str) -> None:
        shown = without_secrets(line).decode("utf-8", "backslashreplace")
        super().__init__(f"Reading {place}\n>>> '{shown}'\n{reason}")


class ConfigLinesError(ConfigLineError):
    """Several lines that the server cannot start with; each has its place and reason."""

    def __init__(self, lines: list[ConfigLineError]) -> None:
        ConfigError.__init__(self, "\n\n".join(map(str, lines)))


@dataclass(frozen=True, slots=True)
class LateLine:
    """A line that is checked when the server knows its commands: the words after the first, and its place."""

    place: str
    shown: bytes
    words: list[bytes]


def split_words(line: bytes) -> list[bytes]:
    """The words of a line, unquoted. Raises ValueError if a quote is not closed, or not followed by a blank."""
    words: list[bytes] = []
    index = 0
    while True:
        while index < len(line) and line[index] in _BLANKS:
            index += 1
        if index >= len(line):
            return words
        word, index = _one_word(line, index)
        words.append(word)


def _one_word(line: bytes, index: int) -> tuple[bytes, int]:
    """The word that starts at `index`, and its end."""
    word = bytearray()
    while index < len(line) and line[index] not in _BLANKS:
        char = line[index]
        index += 1
        if char == 0x22:
            index = _double_quoted(line, index, word)
        elif char == 0x27:
            index = _single_quoted(line, index, word)
        else:
            word.append(char)
            continue
        if index < len(line) and line[index] not in _BLANKS:
            raise ValueError("a closing quote must be followed by a blank")
        break
    return bytes(word), index


def _double_quoted(line: bytes, index: int, word: bytearray) -> int:
    while index < len(line):
        char = line[index]
        if char == 0x22:
            return index + 1
        if char == 0x5C and index + 1 < len(line):
            digits = line[index + 2 : index + 4]
            if (
                line[index + 1] == 0x78
                and len(digits) == 2
                and all(code in b"0123456789abcdefABCDEF" for code in digits)
            ):
                word.append(int(digits, 16))
                index += 4
                continue
            word.append(_ESCAPES.get(line[index + 1], line[index + 1]))
            index += 2
            continue
        word.append(char)
        index += 1
    raise ValueError("a quote is not closed")


def _single_quoted(line: bytes, index: int, word: bytearray) -> int:
    while index < len(line):
        if line[index : index + 2] == b"\\'":
            word.append(0x27)
            index += 2
        elif line[index] == 0x27:
            return index + 1
        else:
            word.append(line[index])
            index += 1
    raise ValueError("a quote is not closed")


# -- loading -------------------------------------------------------------------------------------


def likely_name(name: bytes) -> bytes | None:
    """The directive that an unknown one probably means, if one is similar."""
    # A start with correct directives does not need it.
    from difflib import get_close_matches

    known = [os.fsdecode(each) for each in (*BY_NAME, b"include", b"rename-command", b"user")]
    text = os.fsdecode(name)
    # A short name with two letters exchanged, such as `prot`, is less similar than the cutoff.
    likely = [each for each in known if sorted(each) == sorted(text)] or get_close_matches(text, known, n=1, cutoff=0.8)
    return os.fsencode(likely[0]) if likely else None
