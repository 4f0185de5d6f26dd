"""What can go wrong, told in one line each. Messages name options and keys, never passwords or values of entries.

PipelineError
├── OptionError       an option is missing, unknown or wrong
├── ServerGone        no connection, or it was lost for longer than `retryFor`
├── Refused           the server refused a command: no password, wrong type, missing group, ...
├── Unsupported       the server is too old for what is asked
├── DataLoss          entries that were to be read are no longer there
├── Malformed         an entry does not fit the schema (parseMode=FAILFAST)
└── BadLog            an append-only file cannot be understood
"""

from __future__ import annotations

import re


class PipelineError(Exception):
    """Anything a user can cause."""


class OptionError(PipelineError):
    """An option is missing, unknown or wrong."""


class ServerGone(PipelineError):
    """No connection, or it was lost for longer than `retryFor`."""


class Refused(PipelineError):
    """The server refused a command."""


class Unsupported(PipelineError):
    """The server is too old for what is asked."""


class DataLoss(PipelineError):
    """Entries that were to be read are no longer there."""


class Malformed(PipelineError):
    """An entry does not fit the schema."""


class BadLog(PipelineError):
    """An append-only file cannot be understood."""


def message_of(error: BaseException) -> str:
    """The line that was meant for the user, out of what Spark makes of an error on its way to the driver."""
    if isinstance(error, PipelineError):
        return str(error)
    found = re.findall(r"^headrace\.pipeline\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
    return found[-1] if found else str(error).strip().split("\n", 1)[0]


HINTS = (
    ("NOAUTH", "the server wants a password: set passwordFile or passwordEnv"),
    ("WRONGPASS", "the server refused the password: check username, passwordFile and passwordEnv"),
    ("ERR AUTH <password> called without any password", "the server knows no password: leave it out"),
    ("WRONGTYPE", "the key holds no stream: check the option stream"),
    (
        "ERR no such key",
        "there is no such stream: make it with its group, XGROUP CREATE .. MKSTREAM (option stream)",
    ),
    ("ERR DB index is out of range", "the server has no such database: check the option db"),
    ("NOGROUP", "the consumer group is missing: create it with XGROUP CREATE, or check the option group"),
    ("DENIED", "the server is in protected mode: give it a password, or connect from its own machine"),
    ("OOM", "the server has reached maxmemory"),
    ("MISCONF", "the server cannot write its files and refuses writes"),
    ("READONLY", "this server is a replica: connect to its master"),
    ("ERR unknown command", "the server does not know a command for it: Headrace does, and newer versions of Redis"),
    ("ERR max number of clients", "the server has no room for another client: raise maxclients"),
)
"""What to do about an error reply, by its beginning."""


def refused(doing: str, reply: str, rights: str = "") -> Refused:
    """The error for a reply such as `WRONGTYPE Operation against ..`; `doing` says what for, without secrets, and
    `rights` what a user needs for it.
    """
    if reply.startswith("NOPERM"):
        return Refused(f"{doing}: {_missing_right(reply, rights)}")
    hint = next((text for start, text in HINTS if reply.startswith(start)), None)
    # Only the code of a known reply is shown: the rest may quote arguments.
    return Refused(f"{doing}: {hint} ({reply.split(' ', 1)[0]})" if hint else f"{doing}: the server said: {reply}")


def _missing_right(reply: str, rights: str) -> str:
    """What `NOPERM User ann has no permissions to run the 'xgroup|create' command` asks for."""
    command = re.search(r"the '([^']+)' command", reply)
    lacks = f"may not run {command[1].upper().replace('|', ' ')}" if command else "may not use this key"
    needs = f"; it needs {rights} and its keys" if rights else ""
    return f"this user {lacks} (NOPERM){needs}: see Rights in docs/pipeline.md"
