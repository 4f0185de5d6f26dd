"""Columns of bytes as columns of text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def to_text(values: Any, kind: Any) -> Any:
    """Casts a column of bytes. In a column of text, bytes that are not UTF-8 become replacement characters."""
    if not pa.types.is_string(kind):
        return values.cast(kind)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], kind)
