"""The secret words of a request: passwords, and the names and rules of users. They are in no log and no MONITOR output.

Source: Redis 8.10.2, as observed. If a request is wrong, more words are hidden than by Redis, which hides none after
the first wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from .lookup import named_row

if TYPE_CHECKING:
    from .table import Row

REDACTED: Final = b"(redacted)"

# Directives whose values are hidden.
SECRET_DIRECTIVES: Final = frozenset(
    (b"masterauth", b"masteruser", b"requirepass", b"tls-client-key-file-pass", b"tls-key-file-pass")
)


def words_from(start: int) -> Callable[[list[bytes]], Iterable[int]]:
    """Returns `secrets` of a row: all words of a request from `start` on."""
    return lambda argv: range(start, len(argv))


def redact(row: Row, argv: list[bytes]) -> list[bytes]:
    """The words of a request without secrets. `row` decides, also if clients use another name (`rename-command`)."""
    start = row.enclosed_at
    if start:
        enclosed = named_row(argv[start:])
        return argv if enclosed is None else [*argv[:start], *redact(enclosed, argv[start:])]
    secret = set() if row.secrets is None else set(row.secrets(argv))
    return [REDACTED if index in secret else word for index, word in enumerate(argv)] if secret else argv
