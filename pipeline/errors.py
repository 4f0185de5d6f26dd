"""The errors of the pipeline. Each message is one line; it names options and keys, never passwords or entry values.

PipelineError
├── OptionError       an option is missing, unknown or wrong
├── ServerGone        no connection, or it was lost for longer than `retryFor`
├── Refused           the server refused a command: no password, wrong type, missing group, ...
├── Unsupported       the server is too old for the operation
├── DataLoss          entries to be read no longer exist
├── Malformed         an entry does not fit the schema (parseMode=FAILFAST)
└── BadLog            an append-only file cannot be understood
"""

from __future__ import annotations

import re


class PipelineError(Exception):
    """An error that a user can cause and fix."""


class OptionError(PipelineError):
    """An option is missing, unknown or wrong."""


class ServerGone(PipelineError):
    """No connection, or it was lost for longer than `retryFor`."""


class Refused(PipelineError):
    """The server refused a command."""


class Unsupported(PipelineError):
    """The server is too old for the operation."""


class DataLoss(PipelineError):
    """Entries to be read no longer exist."""


class Malformed(PipelineError):
    """An entry does not fit the schema."""


class BadLog(PipelineError):
    """An append-only file cannot be understood."""


def message_of(error: BaseException) -> str:
    """Returns the line of an error that is for the user, without the traceback that Spark wraps it in."""
    if isinstance(error, PipelineError):
        return str(error)
    found = re.findall(r"^headrace\.pipeline\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
    return found[-1] if found else str(error).strip().split("\n", 1)[0]


# What to do about an error reply, by how the reply begins.
HINTS = (
    ("NOAUTH", "the server wants a password: set passwordFile or passwordEnv"),
    ("WRONGPASS", "the server refused the password: check username, passwordFile and passwordEnv"),
    ("ERR AUTH <password> called without any password", "the server has no password: leave the option out"),
    ("WRONGTYPE", "the key is not a stream: check the option stream"),
    (
        "ERR no such key",
        "there is no such stream: make it with its group, XGROUP CREATE .. MKSTREAM (option stream)",
    ),
    ("ERR DB index is out of range", "the server has no such database: check the option db"),
    ("NOGROUP", "the consumer group is missing: create it with XGROUP CREATE, or check the option group"),
    ("DENIED", "the server is in protected mode: give it a password, or connect from its own machine"),
    ("OOM", "the server has reached maxmemory"),
    ("MISCONF", "the server cannot write its files and refuses writes"),
    ("READONLY", "this server is a replica: connect to its primary, or name it by sentinels and master"),
    ("ERR unknown command", "the server lacks a command that this needs: Headrace and newer versions of Redis have it"),
    ("ERR max number of clients", "the server has no room for another client: raise maxclients"),
)


def refused(doing: str, reply: str, rights: str = "") -> Refused:
    """Returns the error for an error reply such as `WRONGTYPE Operation against ..`.

    `doing` names what was attempted, without secrets. `rights` is the ACL rule that a user needs for it.
    """
    if reply.startswith("NOPERM"):
        return Refused(f"{doing}: {_missing_right(reply, rights)}")
    hint = next((text for start, text in HINTS if reply.startswith(start)), None)
    # Only the code of a known reply is shown: the rest may quote arguments.
    return Refused(f"{doing}: {hint} ({reply.split(' ', 1)[0]})" if hint else f"{doing}: the server said: {reply}")


def _missing_right(reply: str, rights: str) -> str:
    """Returns which right a NOPERM reply says is missing, for example XGROUP CREATE."""
    command = re.search(r"the '([^']+)' command", reply)
    lacks = f"may not run {command[1].upper().replace('|', ' ')}" if command else "may not use this key"
    needs = f"; it needs {rights} and its keys" if rights else ""
    return f"this user {lacks} (NOPERM){needs}: see Rights in docs/pipeline.md"
