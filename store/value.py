"""What a key holds: a stream or a string."""

from __future__ import annotations

from .errors import WrongType
from .stream import Stream

# A string whose encoding in Redis does not follow from its bytes is of a class of `store.text`.
Value = Stream | bytes


def plain_text(value: Value | None) -> bytes | None:
    """A string as bytes; None if there is none. Raises WrongType."""
    if type(value) is bytes or value is None:
        return value
    if type(value) is Stream:
        raise WrongType
    return bytes(value)  # type: ignore[arg-type]
