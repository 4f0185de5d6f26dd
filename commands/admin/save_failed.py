"""The error of commands that could not write dump.rdb."""

from __future__ import annotations

from ...store.errors import ReplyError


class SaveFailed(ReplyError):
    """The error of a failed SAVE: `ERR` without a text, as in Redis. The cause is in the server log."""

    prefix = b""

    def __init__(self) -> None:
        super().__init__(b"ERR")
