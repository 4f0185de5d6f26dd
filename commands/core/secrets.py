"""The secret words of a request: passwords, and the names and rules of users. They are in no log and no MONITOR output.

Source: Redis 8.10.2, as observed. If a request is wrong, more words are hidden than by Redis, which hides none after
the first wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from .lookup import named_row

if TYPE_CHECKING:
    from .table import Row

REDACTED: Final = b"(redacted)"

# Directives whose values are hidden.
SECRET_DIRECTIVES: Final = frozenset(
    (b"masterauth", b"masteruser", b"requirepass", b"tls-client-key-file-pass", b"tls-key-file-pass")
)

# Commands that name users and their passwords.
ABOUT_USERS: Final = {"ACL|SETUSER", "ACL|DELUSER", "ACL|GETUSER"}

# Commands whose arguments from this index on are a request.
ENCLOSING: Final = {"ACL|DRYRUN": 3, "COMMAND|GETKEYS": 2, "COMMAND|GETKEYSANDFLAGS": 2}


def redact(row: Row, argv: list[bytes]) -> list[bytes]:
    """The words of a request without secrets. `row` decides, also if clients use another name (`rename-command`)."""
    if row.name in ENCLOSING:
        start = ENCLOSING[row.name]
        enclosed = named_row(argv[start:])
        return argv if enclosed is None else [*argv[:start], *redact(enclosed, argv[start:])]
    secret = set(_secret_indexes(row.name, argv))
    return [REDACTED if index in secret else word for index, word in enumerate(argv)] if secret else argv


def _secret_indexes(name: str, argv: list[bytes]) -> Iterable[int]:
    if name == "AUTH":
        return range(1, len(argv))
    if name in ABOUT_USERS:
        return range(2, len(argv))
    if name == "HELLO":
        return _secrets_of_hello(argv)
    if name == "CONFIG|SET":
        return _secrets_of_config_set(argv)
    return ()


def _secrets_of_hello(argv: list[bytes]) -> Iterable[int]:
    """The words after each AUTH among the options, and all from the first word that is no option."""
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"AUTH":
            yield from (index + 1, index + 2)
            index += 3
        elif option == b"SETNAME":
            index += 2
        else:
            yield from range(index, len(argv))
            return


def _secrets_of_config_set(argv: list[bytes]) -> Iterable[int]:
    """The values of secret directives. If names and values are not in pairs, everything after a secret name."""
    names = [index for index in range(2, len(argv)) if argv[index].lower() in SECRET_DIRECTIVES]
    if len(argv) % 2 and names:
        return range(names[0] + 1, len(argv))
    return [index + 1 for index in names if index % 2 == 0]
