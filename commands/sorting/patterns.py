"""The patterns of SORT: each names a key, or a field of a hash, for each element."""

from __future__ import annotations

from typing import Final

from ...store.companions.companion import Companion
from ...store.companions.hash_value import HashValue
from ...store.errors import NUL
from ...store.value import plain_text
from ..execution.context import Context
from ..hashes.liveness import live_value

STAR: Final = ord("*")
# The pattern that is the element itself.
ELEMENT: Final = b"#"
ARROW: Final = b"->"


def until_nul(text: bytes) -> bytes:
    """The bytes before the first NUL: Redis reads some texts as C strings."""
    return text[: text.index(NUL)] if NUL in text else text


def has_star(text: bytes) -> bool:
    """Whether a pattern has a place for the element."""
    return STAR in until_nul(text)


class Pattern:
    """A pattern as `weight_*`, `object_*->field` or `#`."""

    __slots__ = ("_after", "_before", "_field", "_has_star", "_is_element")

    def __init__(self, text: bytes) -> None:
        visible = until_nul(text)
        self._is_element = visible == ELEMENT
        self._has_star = STAR in visible
        self._before, self._after = text, b""
        # The field of a hash; empty if the keys have strings.
        self._field = b""
        if self._has_star:
            star = text.index(STAR)
            self._before, self._after = text[:star], text[star + 1 :]
            arrow = until_nul(self._after).find(ARROW)
            start = arrow + len(ARROW)
            if arrow >= 0 and self._after[start : start + 1] not in (b"", b"\0"):
                self._after, self._field = self._after[:arrow], self._after[start:]

    def find(self, context: Context, element: bytes) -> bytes | None:
        """What the pattern names for an element; None if there is no such key or field, or if it has another type.

        Counts a read of the key, and removes what is due.
        """
        if self._is_element:
            return element
        if not self._has_star:
            return None
        key = self._before + element + self._after
        value = context.db.read(key, context.now_ms)
        if isinstance(value, Companion):
            value.used_ms = context.now_ms
        if not self._field:
            return plain_text(value) if isinstance(value, bytes) else None
        return live_value(context, key, value, self._field) if isinstance(value, HashValue) else None
