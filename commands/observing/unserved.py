"""Calls of commands that this server does not have: a warning for the first call of each, and a count.

A program that gets an unknown-command error where it expects a reply may hang or retry for ever. The warning names the
client, so that an operator finds out why. The names come from a fixed list, those of Redis and of its modules, so
clients that invent names fill neither the server log nor the memory.
"""

from __future__ import annotations

import logging
from typing import Final

from ..clients.client import Client
from ..core.table import DECLARED
from ..permissions.known import REDIS_COMMANDS

logger = logging.getLogger(__name__)

# How the commands of the modules that come with Redis begin. All of one module count as one.
MODULE_PREFIXES: Final = (b"BF.", b"CF.", b"CMS.", b"FT.", b"JSON.", b"TDIGEST.", b"TOPK.", b"TS.")

# The name under which all others are counted. They are not logged.
UNKNOWN: Final = b"unknown"

# Bytes of a client's name in a warning.
CLIENT_NAME_SIZE_MAX: Final = 64


class UnservedCommands:
    """Counts, by the command's name in capitals."""

    def __init__(self) -> None:
        # Calls since the start, or since CONFIG RESETSTAT.
        self.calls: dict[bytes, int] = {}
        self._logged: set[bytes] = set()

    @property
    def total(self) -> int:
        """The number of calls."""
        return sum(self.calls.values())

    def note(self, client: Client, word: bytes) -> None:
        """Count a call of an unknown command, and log it if it is the first of a command of Redis."""
        name = foreign_name(word) or UNKNOWN
        self.calls[name] = self.calls.get(name, 0) + 1
        if name == UNKNOWN or name in self._logged:
            return
        self._logged.add(name)
        named = client.name[:CLIENT_NAME_SIZE_MAX].decode("utf-8", "backslashreplace")
        logger.warning(
            "Client %s%s called %s, which Headrace does not serve, and got an error. Further calls are only counted "
            "(INFO: unserved_calls, metrics: headrace_unserved_calls_total). docs/clients.md says what fails, and why.",
            client.address.decode("utf-8", "backslashreplace"),
            f" ({named})" if named else "",
            name.decode(),
        )

    def reset(self) -> None:
        """CONFIG RESETSTAT: count anew. What was logged is not logged again."""
        self.calls.clear()


def foreign_name(word: bytes) -> bytes | None:
    """The name, in capitals, of a command of Redis or its modules that this server does not have; else None."""
    upper = word.upper()
    if upper not in DECLARED and upper.lower() in REDIS_COMMANDS:
        return upper
    if not upper.startswith(MODULE_PREFIXES):
        return None
    return upper[: upper.index(b".") + 1] + b"*"
