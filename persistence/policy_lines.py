"""Policy lines, which only Headrace understands, in the three forms in which Redis skips them.

A policy line is a list of words: see `store.policies.lines`. Its text has the words quoted as in a configuration file,
with one space between. The text is carried

- in a log, as annotation lines of at most LINE_SIZE_MAX bytes, which is what Redis reads. A text that fits is one line.
  A longer one is cut at any byte into parts, each of which but the last is in a line that says that there are more:

      #HR <text>\\r\\n

      #HR+ <part>\\r\\n
      #HR+ <part>\\r\\n
      #HR= <last part>\\r\\n

  The lines of one text follow each other at once. A reader joins the parts as they are.
- to replicas, as the argument of a PING: `#HR <text>`, of any length. A PING without such an argument is a heartbeat.
- in an RDB file, as the auxiliary field AUX_NAME after the key it belongs to: its value is the text.

The first word is in upper case, which distinguishes a line from others that begin with `#HR `: see `placing`.
"""

from __future__ import annotations

import re
from typing import Final

from ..protocol.packing import pack_command
from ..protocol.reader import split_words
from .errors import BadPolicyLine

# Bytes of an annotation line with its end. Redis has a buffer of 1,024 bytes, and refuses a log with a longer line.
LINE_SIZE_MAX: Final = 1023

AUX_NAME: Final = b"headrace-policy"

WHOLE: Final = b"#HR "
PART: Final = b"#HR+ "
LAST_PART: Final = b"#HR= "
_END: Final = b"\r\n"
_PART_SIZE: Final = LINE_SIZE_MAX - len(PART) - len(_END)

# A line that is one of a policy line's, and no other annotation.
_OWN_LINE: Final = re.compile(rb"#HR(?: [A-Z]|[+=] )")
_PLAIN_WORD: Final = re.compile(rb"[!#-&(-\[\]-~]+")
_SPECIAL: Final = re.compile(rb'[^ -~]|["\\]')


def policy_text(words: list[bytes]) -> bytes:
    """The text of a policy line, in which every byte is printable ASCII."""
    return b" ".join([word if _PLAIN_WORD.fullmatch(word) else _quoted(word) for word in words])


def _quoted(word: bytes) -> bytes:
    return b'"%b"' % _SPECIAL.sub(_escaped, word)


def _escaped(found: re.Match[bytes]) -> bytes:
    char = found[0]
    return b"\\" + char if char in (b'"', b"\\") else b"\\x%02x" % char[0]


def words_of_text(text: bytes) -> list[bytes]:
    """The words of a policy line. Raises BadPolicyLine."""
    words = split_words(text)
    if not words or not words[0]:
        raise BadPolicyLine(text)
    return words


# -- in a log ----------------------------------------------------------------------------------------


def log_lines(words: list[bytes]) -> bytes:
    """The annotation lines of a policy line."""
    text = policy_text(words)
    if len(WHOLE) + len(text) + len(_END) <= LINE_SIZE_MAX:
        return WHOLE + text + _END
    parts = [text[start : start + _PART_SIZE] for start in range(0, len(text), _PART_SIZE)]
    last = parts.pop()
    return b"".join([PART + part + _END for part in parts]) + LAST_PART + last + _END


def is_policy_line(line: bytes) -> bool:
    """Whether an annotation line is a policy line, or a part of one."""
    return _OWN_LINE.match(line) is not None


class PolicyLines:
    """Joins the annotation lines of policy lines, in the order of the log."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Whether the last line says that there are more parts."""
        return bool(self._parts)

    def take(self, line: bytes) -> list[bytes] | None:
        """Take one line with its end. Returns the words if it completes a policy line. Raises BadPolicyLine."""
        if line.startswith(WHOLE) == self.is_open and not line.startswith(PART):
            raise BadPolicyLine(line)
        text = line.partition(b" ")[2].removesuffix(b"\n").removesuffix(b"\r")
        if line.startswith(PART):
            self._parts.append(text)
            return None
        parts, self._parts = [*self._parts, text], []
        return words_of_text(b"".join(parts))


def text_of_lines(lines: bytes) -> bytes:
    """The text that `log_lines` has put into lines."""
    return b"".join([line.partition(b" ")[2] for line in lines.removesuffix(_END).split(_END)])


# -- to replicas -------------------------------------------------------------------------------------


def ping_of_lines(lines: bytes) -> bytes:
    """The PING by which replicas get the policy line that `log_lines` has put into lines."""
    return pack_command((b"PING", WHOLE + text_of_lines(lines)))


def text_of_ping(request: list[bytes]) -> bytes | None:
    """The text of the policy line that a PING of a primary carries; None if it is a heartbeat."""
    return request[1][len(WHOLE) :] if len(request) == 2 and request[1].startswith(WHOLE) else None
