"""Commands that the differential machine does not send, each with its reason.

Differences between replies that are sent are not here: the one list of those is `tests/compat/differences.py`.
"""

from __future__ import annotations

import re

from headrace.commands.table import Flag, Row

_OF_THE_SERVER = "tells of the server itself: its version, memory, clients, clock"
_MORE_COMMANDS = "Redis has more commands: tests/compat/test_command_table.py compares those that both have"

LEFT_OUT = {
    "ACL|CAT": _MORE_COMMANDS,
    "ACL|GENPASS": "random",
    "CLIENT|INFO": _OF_THE_SERVER,
    "CLIENT|REPLY": "silences the connection, which then cannot be told from one that hangs: in scripts instead",
    "COMMAND": _MORE_COMMANDS,
    "COMMAND|COUNT": _MORE_COMMANDS,
    "COMMAND|DOCS": _MORE_COMMANDS,
    "COMMAND|INFO": _MORE_COMMANDS,
    "COMMAND|LIST": _MORE_COMMANDS,
    "DUMP": "of deleted entries Redis keeps the places: see the row. What RESTORE makes of it is compared instead",
    "INFO": _OF_THE_SERVER,
    "LASTSAVE": _OF_THE_SERVER,
    "LOLWUT": "random",
    "MEMORY": "tells of the allocator",
    "OBJECT|ENCODING": "of a string Redis tells how it came about, not only what it is: see the row",
    "OBJECT|FREQ": "needs an LFU policy",
    "OBJECT|IDLETIME": "depends on the clock",
    "RANDOMKEY": "random",
    "ROLE": "Redis counts what it would have sent to replicas",
    "SCRIPT|DEBUG": "the debugger of Redis takes the connection over",
    "SCAN": "how many keys a call looks at is internal: whole walks are compared by scripts",
    "TIME": "the clock",
    "XIDMPRECORD": "records pairs that are already too old, which go whenever a server next looks",
}
"""By the name of the row in the command table; a container stands for all its subcommands."""

ADMIN_SENT = {
    "ACL|DELUSER", "ACL|DRYRUN", "ACL|GETUSER", "ACL|LIST", "ACL|SETUSER", "ACL|USERS", "CLIENT|NO-EVICT",
    "CLIENT|UNBLOCK", "CLIENT|UNPAUSE", "CONFIG|GET", "CONFIG|SET",
}  # fmt: skip
"""Commands with the flag `admin` that are sent. The others end the server, write to the disk, make Redis follow another
server, tell of every client: what is new there must not be sent before somebody has looked at it."""

SENT_ALONE = {
    b"AUTH": "Redis 8.10.2 sends no reply at all to a failed AUTH that is not the first request of its read",
    b"HELLO": "its AUTH likewise",
}
"""Commands that are never sent in a pipeline behind others, nor in a transaction, where EXEC is such another, nor
while the client waits."""


def is_left_out(row: Row) -> bool:
    """Whether the machine does not send this command. The lines of every HELP are our own."""
    name = row.name
    if row.flags & Flag.ADMIN and name not in ADMIN_SENT:
        return True
    return name.endswith("|HELP") or name in LEFT_OUT or name.partition("|")[0] in LEFT_OUT


UNFAIR = {
    r"SET (?=.* GET\b).* IFD(EQ|NE) .*": "a digest that is none gets two replies: the old value, and then the error",
    r"XAUTOCLAIM .* COUNT [0-9]{8,18}\b.*": "Redis reserves memory for COUNT results, or refuses for lack of it",
    r"CONFIG GET (.* )?\*( .*)?": "Redis has more directives",
    r"ACL SETUSER default .*": "locks everybody out, the machine itself included",
    r"[PS]?UNSUBSCRIBE": "goes through what is subscribed in the order of a hash table",
}
"""Requests (a pattern over the line) whose replies from Redis 8.10.2 follow no rule, or that end the test."""

UNREACHED = {("SCRIPT|KILL", ""): "no script runs while it is asked: tests/server"}
"""Options (row, token) that are sent and never taken, with the reason; see `reach`."""


def is_unfair(request: tuple[object, ...]) -> bool:
    """Whether the request is not to be sent."""
    line = " ".join(word.decode("latin-1") if isinstance(word, bytes) else "?" for word in request)
    return any(re.fullmatch(pattern, line, re.IGNORECASE | re.DOTALL) for pattern in UNFAIR)
