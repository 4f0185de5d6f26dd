"""Every known difference between Headrace and Redis 8.10.2 that the compatibility tests meet, with its reason.

A test that compares the two asks here before it fails. Nothing else may be different.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ReplyDifference:
    """Commands (a pattern over the whole line) to which Headrace answers `reply` where Redis answers something else.

    `reply` is how the reply begins; None means that it may be anything.
    """

    command: str
    reason: str
    reply: str | None = None


@dataclass(frozen=True)
class LogDifference:
    """A command whose records differ. `records` is one list that Headrace may append instead of Redis' own."""

    command: str
    reason: str
    records: tuple[str, ...]


ABSENT = {
    "FCALL": "there are no function libraries",
}
"""Commands of Redis, used by a test, that Headrace answers with the unknown-command error, with the reason."""

REPLIES = [
    *(ReplyDifference(rf"{name}\b.*", reason, "-ERR unknown command") for name, reason in ABSENT.items()),
    ReplyDifference(r"SCAN (?!0 |0$).*", "a cursor that no call gave stands anywhere in the order of the keys", "*2"),
    ReplyDifference(
        r"XAUTOCLAIM .* COUNT 576460752303423487\b.*",
        "Redis reserves memory for COUNT results at once and refuses when it cannot; Headrace reserves none",
    ),
]

NO_RESP3 = {
    "XREAD MAXSIZE": "the reply bytes that MAXSIZE counts are not the same in RESP3",
}
"""Transcript lines (by their beginning) whose RESP2 reply does not carry over to RESP3."""

LOG = [
    LogDifference(
        "XREADGROUP GROUP g c1 STREAMS s 0",
        "a history read raises delivery counts; unlogged, they are lost on restart",
        (
            "XCLAIM s g c1 0 11-1 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 12-1",
            "XCLAIM s g c1 0 12-1 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 12-1",
        ),
    ),
    LogDifference(
        "XCLAIM s g c6 0 99-1",
        "a consumer that claimed nothing exists all the same; unlogged, it is lost on restart",
        ("XGROUP CREATECONSUMER s g c6",),
    ),
    LogDifference(
        "XAUTOCLAIM s g c7 1000000 0",
        "a consumer that claimed nothing exists all the same; unlogged, it is lost on restart",
        (
            "XCLAIM s g c5 0 11-1 TIME <ms> RETRYCOUNT 7 FORCE JUSTID LASTID 50-0",
            "XGROUP CREATECONSUMER s g c7",
        ),
    ),
    LogDifference(
        "XADD s IDMP p i1 * f v",
        "a duplicate changes nothing, and replayed without its pair it would add an entry: it is not logged",
        (),
    ),
]


def find_reply_difference(command: str) -> ReplyDifference | None:
    """The difference that covers this command line, if one does."""
    return next((item for item in REPLIES if re.fullmatch(item.command, command, re.IGNORECASE | re.DOTALL)), None)


def is_known_difference(command: str, reply: bytes) -> bool:
    """Whether Headrace may answer this command line with this reply, although Redis does not."""
    difference = find_reply_difference(command)
    return difference is not None and reply.startswith((difference.reply or "").encode())


def log_alternatives(command: str) -> list[tuple[str, ...]]:
    """What Headrace may append for this command instead of what Redis appends."""
    return [item.records for item in LOG if item.command == command]
