"""The piece that each key begins with: its type leads to the pieces of its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .arrays import CursorPiece
from .connection import Request
from .members import ElementsPiece, HashWalkPiece, RanksPiece, SetWalkPiece
from .pieces import Facts, HeadPiece, Label, Piece, TextPiece, is_absent


@dataclass(frozen=True, slots=True)
class KeyPiece(Piece):
    """Type and expiry time of a key."""

    # Whether the value is looked at too.
    is_deep: bool = True
    # Whether both servers know expiry times of fields.
    has_field_times: bool = True

    TYPE: ClassVar[Label] = (b"type",)

    def requests(self) -> list[Request]:
        return [(b"TYPE", self.key), (b"PEXPIRETIME", self.key)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        kind, expires_ms = replies
        is_absent(expires_ms)
        if kind == b"none":
            return {}
        return {self.TYPE: kind, (b"expires",): None if expires_ms < 0 else expires_ms}

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        kind = a.get(self.TYPE)
        if not self.is_deep or kind is None or kind != b.get(self.TYPE):
            return
        if kind == b"string":
            yield TextPiece(self.databases, self.key)
        elif kind == b"stream":
            yield HeadPiece(self.databases, self.key)
        elif kind == b"list":
            yield ElementsPiece(self.databases, self.key)
        elif kind == b"zset":
            yield RanksPiece(self.databases, self.key)
        elif kind == b"set":
            yield SetWalkPiece(self.databases, self.key)
        elif kind == b"hash":
            yield HashWalkPiece(self.databases, self.key, has_times=self.has_field_times)
        elif kind == b"array":
            yield CursorPiece(self.databases, self.key)
        else:
            yield ForeignPiece(self.databases, self.key, kind)


@dataclass(frozen=True, slots=True)
class ForeignPiece(Piece):
    """A key of a type whose values are not compared. It never has facts."""

    kind: bytes

    def requests(self) -> list[Request]:
        return []

    def facts(self, replies: Sequence[Any]) -> Facts:
        return {}
