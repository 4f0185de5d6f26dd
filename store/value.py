"""What a key holds: a stream, a string or a companion."""

from __future__ import annotations

from typing import Final

from .companions.companion import Companion
from .errors import WrongType
from .stream import Stream

# A string whose encoding in Redis does not follow from its bytes is of a class of `store.text`.
Value = Stream | Companion | bytes

STREAM: Final = b"stream"
STRING: Final = b"string"


def plain_text(value: Value | None) -> bytes | None:
    """A string as bytes; None if there is none. Raises WrongType."""
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, bytes):
        return bytes(value)
    raise WrongType


def type_name(value: Value) -> bytes:
    """The name of the value's type, as TYPE shows it."""
    if isinstance(value, bytes):
        return STRING
    return STREAM if type(value) is Stream else value.type_name  # type: ignore[union-attr]
