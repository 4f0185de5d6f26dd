"""The addresses of servers, as they are written on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import CannotCompare

PORT_DEFAULT: Final = 6379
# The password of server A or B, where its address has none; and that of both, which redis-cli reads too.
PASSWORD_VARIABLES: Final = ("HEADRACE_COMPARE_PASSWORD_%s", "REDISCLI_AUTH")
FORMS: Final = "host:port, redis://user:password@host:port/db, rediss://.. or unix:///path"
SCHEMES: Final = ("redis", "rediss", "unix")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and who logs in there. `name` is A or B."""

    name: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    # The only database to compare; None for all of them.
    database: int | None = None
    is_tls: bool = False
    socket_path: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name} ({self.socket_path or f'{host}:{self.port}'})"


def parse(name: str, text: str, environment: Mapping[str, str] = os.environ) -> Address:
    """The address in a text. Raises CannotCompare, whose text does not repeat the address: it may have a password."""
    is_url = "://" in text
    try:
        parts = urlsplit(text if is_url else f"redis://{text}")
        port = parts.port
    except ValueError:
        raise _bad(name, "it has no valid port") from None
    if parts.scheme not in SCHEMES:
        raise _bad(name, "its scheme is unknown")
    if not is_url and parts.path:
        raise _bad(name, "only a URL has a path")
    if not parts.hostname and parts.scheme != "unix":
        raise _bad(name, "it has no host")
    password = parts.password
    return Address(
        name,
        parts.hostname or "",
        PORT_DEFAULT if port is None else port,
        unquote(parts.username) if parts.username else None,
        unquote(password) if password else _password(name, environment),
        None if parts.scheme == "unix" else _database(name, parts),
        parts.scheme == "rediss",
        unquote(parts.path) if parts.scheme == "unix" else None,
    )


def _password(name: str, environment: Mapping[str, str]) -> str | None:
    for variable in PASSWORD_VARIABLES:
        value = environment.get(variable % name if "%" in variable else variable)
        if value:
            return value
    return None


def _database(name: str, parts: SplitResult) -> int | None:
    word = parts.path.strip("/")
    if not word:
        return None
    if not (word.isascii() and word.isdecimal()):
        raise _bad(name, "its path is not the number of a database")
    return int(word)


def _bad(name: str, why: str) -> CannotCompare:
    return CannotCompare(f"the address of {name} is wrong: {why}; the forms are {FORMS}")
