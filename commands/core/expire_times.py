"""The bounds of expiry times, and the error for a time outside them."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError

TIME_MS_MAX: Final = 2**63 - 1


def invalid_expire_time(name: bytes) -> GenericError:
    """Returns the error for a time that is not positive, or overflows. `name` is the command in lower case."""
    return GenericError(b"invalid expire time in '%b' command" % name)
