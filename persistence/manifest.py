"""The manifest: which files make up the log, and in which order.

    file appendonly.aof.1.base.aof seq 1 type b size 4096
    file appendonly.aof.1.incr.aof seq 1 type i

At most one base (`b`), then increments (`i`) in the order of their numbers; `h` marks files that a rewrite has
superseded and that are not read. The format is Redis' own, so either server can read what the other wrote. The size of
a base, and of each increment but the last, is an addition, which Redis skips: such a file never changes, so one of
another size was cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from .errors import LoadError

LINE_SIZE_MAX: Final = 1024
# Digits of the largest number of 64 bits.
NUMBER_SIZE_MAX: Final = 19
WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|(\S+)')
PLAIN_NAME: Final = re.compile(rb"[A-Za-z0-9._+=@%:,~-]+\Z")
ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}
ESCAPED: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
NO_PARTS_LINE: Final = b"# no file is complete yet\n"
KINDS: Final = (b"b", b"h", b"i")


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the log. `kind` is b, h or i. Offsets are replication offsets as Redis notes them, None if absent."""

    name: bytes
    sequence: int
    kind: bytes
    start_offset: int | None = None
    end_offset: int | None = None
    # Bytes of a file that does not change any more; None if they are unknown, as in a log of Redis.
    size: int | None = None
    # Whether headrace-check-aof has cut records off that later files continue.
    is_cut: bool = False

    def line(self) -> bytes:
        """Return the part's line in the manifest."""
        line = b"file %b seq %d type %b" % (quoted(self.name), self.sequence, self.kind)
        if self.size is not None:
            line += b" size %d" % self.size
        if self.is_cut:
            line += b" cut 1"
        if self.start_offset is not None:
            line += b" startoffset %d" % self.start_offset
            if self.end_offset is not None:
                line += b" endoffset %d" % self.end_offset
        return line + b"\n"

    @property
    def is_rdb(self) -> bool:
        """Whether its name is that of a base in RDB format."""
        return self.kind == b"b" and self.name.endswith(b".rdb")

    def size_error(self, size: int) -> str | None:
        """What shows that a file of `size` bytes is not the one that was written; None if nothing does."""
        if self.size is not None and self.size != size:
            return f"it has {size} bytes, but the list of the log's files says {self.size}"
        if self.is_rdb and not size:
            return "it has 0 bytes, but an RDB file is never empty"
        return None


@dataclass(frozen=True, slots=True)
class Manifest:
    """All parts in file order."""

    parts: tuple[Part, ...] = ()

    @property
    def base(self) -> Part | None:
        """The snapshot that the increments continue."""
        return next((part for part in self.parts if part.kind == b"b"), None)

    @property
    def increments(self) -> list[Part]:
        """Command files, oldest first."""
        return [part for part in self.parts if part.kind == b"i"]

    @property
    def readable(self) -> list[Part]:
        """The files that a start reads, in order."""
        return [*([self.base] if self.base else []), *self.increments]

    @property
    def is_complete(self) -> bool:
        """Whether no record before the last file can be missing: there is a base, its increments have consecutive
        numbers and known sizes, which `Part.size_error` checks, and nothing was cut off.
        """
        increments = self.increments
        return (
            self.base is not None
            and not any(part.is_cut for part in self.readable)
            and all(
                part.size is not None and later.sequence == part.sequence + 1 for part, later in pairwise(increments)
            )
        )

    def next_sequence(self, kind: bytes) -> int:
        """The number of the next file of a kind, 1 for the first; superseded files keep theirs."""
        mark = b".base." if kind == b"b" else b".incr."
        return 1 + max((part.sequence for part in self.parts if part.kind == kind or mark in part.name), default=0)

    def reopened(self) -> Manifest:
        """Return the manifest without size and mark of a clean stop on the last increment, which will be appended
        to."""
        parts = list(self.parts)
        for index in range(len(parts) - 1, -1, -1):
            if parts[index].kind == b"i":
                parts[index] = replace(parts[index], end_offset=None, size=None)
                break
        return Manifest(tuple(parts))

    def continued_in(self, part: Part, size: int) -> Manifest:
        """Return the manifest with a further increment. The one before it is complete, with `size` bytes."""
        last = self.increments[-1]
        return Manifest((*[replace(each, size=size) if each is last else each for each in self.parts], part))

    def encode(self) -> bytes:
        """The file's content: base, superseded files, increments. Redis refuses a file without any line."""
        if not self.parts:
            return NO_PARTS_LINE
        return b"".join(part.line() for part in sorted(self.parts, key=lambda part: KINDS.index(part.kind)))

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest; every violation of its rules is fatal. Raises LoadError."""
        if not data:
            raise LoadError("Found an empty AOF manifest")
        parts = []
        for line in data.splitlines(keepends=True):
            if len(line) > LINE_SIZE_MAX or not line.endswith(b"\n"):
                raise LoadError("The AOF manifest file contains too long line")
            if not line.startswith(b"#"):
                parts.append(_decode_line(line))
        manifest = cls(tuple(parts))
        if sum(part.kind == b"b" for part in parts) > 1:
            raise LoadError("Found duplicate base file information")
        sequences = [part.sequence for part in manifest.increments]
        if sequences != sorted(set(sequences)):
            raise LoadError("Found a non-monotonic sequence number")
        return manifest


def _decode_line(line: bytes) -> Part:
    words = split_words(line)
    if len(words) < 6 or len(words) % 2:
        raise LoadError("Invalid AOF manifest file format")
    values = {key.lower(): value for key, value in zip(words[::2], words[1::2], strict=True)}
    name, kind = values.get(b"file", b""), values.get(b"type", b"")
    sequence = _number(values.get(b"seq", b"0"))
    if not name or b"\0" in name or not kind or not sequence:
        raise LoadError("Invalid AOF manifest file format")
    if b"/" in name:
        raise LoadError("File can't be a path, just a filename")
    if kind not in KINDS:
        raise LoadError("Unknown AOF file type")
    start, end, size = [
        _number(values[key]) if key in values else None for key in (b"startoffset", b"endoffset", b"size")
    ]
    return Part(name, sequence, kind, start, end, size, is_cut=b"cut" in values)


def _number(word: bytes) -> int:
    if not (word.isdigit() and len(word) <= NUMBER_SIZE_MAX):
        raise LoadError("Invalid AOF manifest file format")
    return int(word)


def split_words(line: bytes) -> list[bytes]:
    """The words of a line; one in double quotes may hold blanks and escapes."""
    return [ESCAPED.sub(_unescape, match[1]) if match[1] is not None else match[2] for match in WORD.finditer(line)]


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes.fromhex(match[1].decode())
    return ESCAPES.get(match[2], match[2])


def quoted(name: bytes) -> bytes:
    """Return a file name as one word, in quotes and escaped if necessary."""
    if PLAIN_NAME.match(name):
        return name
    inside = b"".join(bytes((code,)) if 32 <= code < 127 and code not in b'"\\' else b"\\x%02x" % code for code in name)
    return b'"%b"' % inside
