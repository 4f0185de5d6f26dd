"""Databases by the number that a client sends (SELECT, MOVE, COPY)."""

from __future__ import annotations

from typing import Final

from ...store.database import Database
from ...store.errors import GenericError
from ..core.numbers import integer
from .context import Context

INT32_MIN: Final = -(2**31)
# Larger database numbers have an error of their own.
INT32_MAX: Final = 2**31 - 1


def database_at(context: Context, token: bytes) -> Database:
    """The database of that number. Raises GenericError."""
    index = integer(token)
    if not INT32_MIN <= index <= INT32_MAX:
        raise GenericError(b"value is out of range, value must between %d and %d" % (INT32_MIN, INT32_MAX))
    if not 0 <= index < len(context.store.databases):
        raise GenericError(b"DB index is out of range")
    return context.store.databases[index]
