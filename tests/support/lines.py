"""Command lines of transcripts and scripts, split into argument vectors and expanded from alternations."""

from __future__ import annotations

import itertools
import re

_WORD = re.compile(
    r"""\s*(?:
        "(?P<double>(?:\\.|[^"\\])*)"      # "two words\r\n\xff"
      | '(?P<single>[^']*)'                # 'as it stands'
      | (?P<bare>[^\s"']\S*)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_ALTERNATION = re.compile(r"\{([^{}]*)\}")


def split(line: str) -> list[bytes]:
    """`XADD s "a b" '' \\xff` as arguments. Each character is one byte (Latin-1)."""
    arguments = []
    position = 0
    line = line.rstrip()
    while position < len(line):
        match = _WORD.match(line, position)
        if match is None:
            raise ValueError(f"cannot split {line!r} at {position}")
        position = match.end()
        if match["double"] is not None:
            text = _ESCAPE.sub(_unescape, match["double"])
        else:
            text = match["bare"] if match["bare"] is not None else match["single"]
        arguments.append(text.encode("latin-1"))
    return arguments


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) == 3:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)


def quote(argv: list[bytes]) -> str:
    """A line that `split`, and redis-cli, read as these arguments.

    >>> quote([b"SET", b"a b", b"\\xff"])
    'SET "a b" "\\\\xff"'
    """
    return " ".join(_quote(word) for word in argv)


def _quote(word: bytes) -> str:
    if word and all(0x21 <= byte <= 0x7E and byte not in b"\"'\\" for byte in word):
        return word.decode()
    text = "".join(chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)
    return f'"{text}"'


def expand(line: str) -> list[str]:
    """Every line that `{a|b}` alternations stand for, first alternatives first.

    >>> expand("XRANGE s {-|5} +")
    ['XRANGE s - +', 'XRANGE s 5 +']
    """
    pieces = _ALTERNATION.split(line)
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ["".join(words) for words in itertools.product(*choices)]
