"""Changing long strings in place: `splicing` where that was not compiled, and strings are always copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .value import Value


def splice_in_place(values: dict[bytes, Value], key: bytes, offset: int, piece: bytes) -> bool:
    """Returns False: Python alone cannot change a byte string."""
    return False
