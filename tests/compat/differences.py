"""Every known difference between Headrace and Redis 8.10.2 that the compatibility tests meet, with its reason.

A test that compares the two asks here before it fails, and the differential machine (`tests/differential`) before it
sends anything. Nothing else may be different, and nothing else is left out. What depends on the clock alone, and is
compared in all other respects, is in `tests/support/normalise.py`.

The differential machine has rules of its own where a list does not do. Those that hide something:

- `SENT_ALONE` (below): `Duel.step` does not send these while the client has a transaction open or waits for a reply, as
  Redis may leave the client without any.
- `_by_pattern` (duel.py): one message that fits several patterns of a client comes once for each, in Redis in the order
  of a hash table; such copies are compared in sorted order.
- `Duel._without_shapes` and `_may_have_removed` (duel.py): how many nodes the tree has, once entries have gone in this
  sequence (`TREE_SHAPE`, below).
- `_without_short_times` (grammar.py): in a bent request that has a duration, small numbers become large ones; else two
  servers would have to agree on a millisecond.
- `ClientId` (values.py): each server gives IDs of its own, and an error would repeat them. So a bent request has 0 in
  its place, and none that names one is shortened where a failure is made smaller.
- `agree` and the points in time near the clock (tests/support/normalise.py): equal within a minute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.normalise import MARK, Rule, mark_result, mark_unless, words_are
from support.replies import Node


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


# Commands of Redis, used by a test, that Headrace answers with the unknown-command error, with the reason.
ABSENT = {
    "FCALL": "there are no function libraries",
}

REPLIES = [
    *(ReplyDifference(rf"{name}\b.*", reason, "-ERR unknown command") for name, reason in ABSENT.items()),
    ReplyDifference(r"SCAN (?!0 |0$).*", "a cursor that no call gave stands anywhere in the order of the keys", "*2"),
    ReplyDifference(
        r"XAUTOCLAIM .* COUNT 576460752303423487\b.*",
        "Redis reserves memory for COUNT results at once and refuses when it cannot; Headrace reserves none",
    ),
]

# Transcript lines (by their beginning) whose RESP2 reply does not carry over to RESP3.
NO_RESP3 = {
    "XREAD MAXSIZE": "the reply bytes that MAXSIZE counts are not the same in RESP3",
}

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


# -- documentation -------------------------------------------------------------------------------

# Commands whose COMMAND DOCS differ in more than their wording.
DOCUMENTED_OTHERWISE = {
    b"debug": "has arguments, which Redis leaves out, and is not marked as a system command",
    b"monitor": "has a complexity, which Redis leaves out",
    b"increx": "does not describe its arguments in prose",
    b"lolwut": "has a complexity, which Redis leaves out",
    b"xread": "has a complexity, which Redis leaves out",
}

# -- INFO ---------------------------------------------------------------------------------------

# Fields of Redis' INFO that are not there, by reason.
ABSENT_INFO_FIELDS = {
    "there are no C atomics": ("atomicvar_api",),
    "clients are not counted over a stretch of time": ("active_clients",),
    "each payload is checked while it is read": ("dump_payload_sanitizations",),
    "the event loop is not ours": (
        "eventloop_cycles", "eventloop_duration_sum", "eventloop_duration_cmd_sum",
        "instantaneous_eventloop_cycles_per_sec", "instantaneous_eventloop_duration_usec",
        "eventloop_cycles_with_clients_processing", "total_client_processing_events",
    ),
    "there are no modules": ("module",),
    "sizes of keys would take a walk over all of them": ("db0_distrib_strings_sizes",),
}  # fmt: skip

# Fields that only Headrace has: they say what it is.
OWN_INFO_FIELDS = {"server_name", "headrace_version", "python_version"}

# -- random words --------------------------------------------------------------------------------

# Commands that get no random words, by reason: they are in scripts and dialogues instead.
NOT_COMPARABLE = {
    "tells of the server itself, or of its clock": (
        b"client|id", b"client|info", b"client|list", b"config|get", b"info", b"lastsave", b"time", b"module|list",
        b"memory|stats", b"memory|usage", b"object|idletime", b"latency|histogram", b"slowlog|get", b"slowlog|len",
        b"acl|log",
    ),
    "Redis has more commands": (
        b"command", b"command|count", b"command|docs", b"command|info", b"command|list",
    ),
    "its words are our own": (
        b"client|help", b"command|help", b"config|help", b"latency|help", b"memory|help", b"module|help",
        b"object|help", b"pubsub|help", b"slowlog|help", b"latency|doctor", b"memory|doctor", b"lolwut", b"debug",
    ),
    "random": (b"acl|genpass", b"randomkey"),
    "changes the server beneath the test": (
        b"config|resetstat", b"config|rewrite", b"config|set", b"replicaof", b"slaveof",
    ),
    "writes to the disk, and goes on beside the test": (b"bgrewriteaof", b"bgsave", b"save"),
    "ends, silences or changes the connection, or the server": (
        b"client|kill", b"client|pause", b"client|reply", b"hello", b"monitor", b"quit", b"reset", b"shutdown",
    ),
    "answers with several messages": (
        b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe",
    ),
    "starts or ends a transaction": (b"multi", b"exec"),
}  # fmt: skip

# -- random sequences ----------------------------------------------------------------------------

_OF_THE_SERVER = "tells of the server itself: its version, memory, clients"
_MORE_COMMANDS = "Redis has more commands: tests/compat/test_command_table.py compares those that both have"
_OWN_WORDS = "its words are our own: see the row"
_TO_THE_DISK = "writes to the disk of the oracle, and ends with what else does so: tests/persistence, tests/server"
_ELSEWHERE = "Redis would follow another server, or load code: that it is refused here is in scripts"

# Commands that are not sent, by the name of the row in the command table. Neither are those whose name ends in HELP:
# the lines are our own.
LEFT_OUT = {
    "ACL|LOG": "what is one entry depends on how long ago the last one was: dialogues and test_acl.py",
    "BGREWRITEAOF": _TO_THE_DISK,
    "BGSAVE": _TO_THE_DISK,
    "CLIENT|KILL": "ends the connections of the machine itself: dialogues",
    "CLIENT|LIST": "tells of every client, in the order of their coming: CLIENT INFO is sent instead",
    "CLIENT|PAUSE": "holds back the questions of the machine itself: dialogues",
    "CLIENT|REPLY": "silences the connection, which then cannot be told from one that hangs: in scripts instead",
    "COMMAND": _MORE_COMMANDS,
    "COMMAND|DOCS": "its prose is our own: tests/compat/test_command_table.py compares all else",
    "COMMAND|LIST": _MORE_COMMANDS,
    "DEBUG": "a subset of our own: see the row",
    "INFO": f"{_OF_THE_SERVER}: tests/compat/test_info_fields.py",
    "LATENCY|DOCTOR": _OWN_WORDS,
    "LATENCY|HISTOGRAM": "tells how long commands took",
    "LOLWUT": _OWN_WORDS,
    "MEMORY|DOCTOR": _OWN_WORDS,
    "MEMORY|MALLOC-STATS": "the words of an allocator",
    "MEMORY|STATS": f"{_OF_THE_SERVER}: tests/compat/test_info_fields.py",
    "MODULE|LIST": "a build of Redis may ship modules",
    "MODULE|LOAD": _ELSEWHERE,
    "MODULE|LOADEX": _ELSEWHERE,
    "MODULE|UNLOAD": _ELSEWHERE,
    "MONITOR": "repeats what everybody asks, the machine itself included: dialogues",
    "REPLICAOF": _ELSEWHERE,
    "SAVE": _TO_THE_DISK,
    "SCRIPT|DEBUG": "takes the connection over; NO is refused by Redis while a reply is pending",
    "SHUTDOWN": "ends the server",
    "SLAVEOF": _ELSEWHERE,
    "SLOWLOG|GET": "tells how long commands took",
    "XIDMPRECORD": "records pairs that are already too old, which go whenever a server next looks",
}

# Commands with the flag `admin` that are sent. No difference: but a new one must not be sent before its effect was
# checked at it, as it might end the server.
ADMIN_SENT = {
    "ACL|DELUSER", "ACL|DRYRUN", "ACL|GETUSER", "ACL|LIST", "ACL|LOAD", "ACL|SAVE", "ACL|SETUSER", "ACL|USERS",
    "CLIENT|NO-EVICT", "CLIENT|UNBLOCK", "CLIENT|UNPAUSE", "CONFIG|GET", "CONFIG|RESETSTAT", "CONFIG|REWRITE",
    "CONFIG|SET", "LATENCY|GRAPH", "LATENCY|HISTORY", "LATENCY|LATEST", "LATENCY|RESET", "SLOWLOG|LEN", "SLOWLOG|RESET",
}  # fmt: skip

# Commands that are never sent in a pipeline after others, nor in a transaction, where EXEC is such another, nor while
# the client waits.
SENT_ALONE = {
    b"AUTH": "Redis 8.10.2 sends no reply at all to a failed AUTH that is not the first request of its read",
    b"HELLO": "its AUTH likewise",
}

# Requests (a pattern over the line) whose replies from Redis 8.10.2 follow no rule, or that end the test.
UNFAIR = {
    r"ACL CAT .+": _MORE_COMMANDS,
    r"COMMAND( INFO)?": _MORE_COMMANDS,
    r"SET (?=.* GET\b).* IFD(EQ|NE) .*": "a digest that is none gets two replies: the old value, and then the error",
    r"XAUTOCLAIM .* COUNT [0-9]{8,18}\b.*": "Redis reserves memory for COUNT results, or refuses for lack of it",
    r"CONFIG GET (.* )?\*( .*)?": "Redis has more directives",
    r"ACL SETUSER default .*": "locks everybody out, the machine itself included",
    r"SCAN 0(?!( MATCH \S+)?( COUNT 100)( TYPE \S+)?$).*": "how many keys a call looks at is internal: scripts walk",
    r"[PS]?UNSUBSCRIBE": "goes through what is subscribed in the order of a hash table",
}

# Options (row, token) that are sent and never taken, with the reason; see `differential.reach`.
UNREACHED = {
    ("ACL|LOAD", ""): "no server here has an ACL file: tests/server/configuration/test_users.py",
    ("ACL|SAVE", ""): "no server here has an ACL file: tests/server/configuration/test_users.py",
    ("CONFIG|REWRITE", ""): "no server here has a configuration file: tests/server/configuration/test_configfile.py",
    ("LATENCY|GRAPH", ""): "nothing is slow while latencies are not watched: tests/commands/observing/test_latency.py",
    ("OBJECT|FREQ", ""): "needs an LFU policy, which Headrace has not",
    ("SCRIPT|KILL", ""): "no script runs while it is asked: tests/server",
}


def is_unfair(request: tuple[object, ...]) -> bool:
    """Whether the request is not to be sent."""
    line = " ".join(word.decode("latin-1") if isinstance(word, bytes) else "?" for word in request)
    return any(re.fullmatch(pattern, line, re.IGNORECASE | re.DOTALL) for pattern in UNFAIR)


# Words by which entries go, and with them nodes: from then on Redis' tree has the shape of its history. See the row
# XINFO STREAM.
REMOVALS = {b"XDEL", b"XDELEX", b"XACKDEL", b"XTRIM", b"MAXLEN", b"MINID"}
TREE_SHAPE = re.compile(rb"(radix-tree-nodes\r\n):\d+")

# Fields of a line about a client. A client that does not redirect has -1.
CLIENT_INTERNALS = re.compile(
    rb"((?:^|[ :])(?:id|addr|laddr|fd|age|idle|qbuf|qbuf-free|argv-mem|multi-mem|rbs|rbp|obl|oll|omem|tot-mem|redir|"
    rb"io-thread|tot-net-in|tot-net-out|tot-cmds|read-events|avg-pipeline-len-sum|avg-pipeline-len-cnt)=)(?!-1)\S*"
)


def _client(node: Node, _: list[bytes]) -> Node:
    return Node(node.kind, CLIENT_INTERNALS.sub(rb"\1" + MARK, node.value)) if node.value else node


def _length(node: Node, _: list[bytes]) -> Node:
    return Node(node.kind, b"%d random digits" % len(node.value)) if node.value else node


def _encoding_of_string(node: Node, _: list[bytes]) -> Node:
    return Node(node.kind, b"a string's") if node.value in (b"int", b"embstr", b"raw") else node


def _payload_of_stream(node: Node, _: list[bytes]) -> Node:
    is_string = not node.value or node.value[0] == 0
    return node if is_string else Node(node.kind, b"a stream's")


def _both(node: Node, _: list[bytes]) -> Node:
    return Node(node.kind, [mark_unless(child) for child in node.value]) if node.value else node


# Reply parts that random sequences do not compare, though the rest of the reply is.
INTERNAL = [
    Rule("random", words_are(b"ACL", b"GENPASS"), _length),
    Rule("how many commands there are", words_are(b"COMMAND", b"COUNT"), mark_result),
    Rule("number and place of the connection, its buffers and times", words_are(b"CLIENT", b"INFO"), _client),
    Rule("of deleted entries Redis keeps the places: what RESTORE makes of it is compared", words_are(b"DUMP"),
         _payload_of_stream),
    Rule("the clock", words_are(b"LASTSAVE"), mark_result),
    Rule("sizes are those of another language", words_are(b"MEMORY", b"USAGE"), mark_result),
    Rule("of a string Redis tells how it came about, not only what it is", words_are(b"OBJECT", b"ENCODING"),
         _encoding_of_string),
    Rule("the clock, and of strings nothing: see the row", words_are(b"OBJECT", b"IDLETIME"), mark_result),
    Rule("a request that EXEC runs keeps its words until the end", words_are(b"OBJECT", b"REFCOUNT"), mark_result),
    Rule("random, but for there being a key", words_are(b"RANDOMKEY"), mark_result),
    Rule("Redis counts what it would have sent to replicas", words_are(b"ROLE"),
         lambda node, _: Node(node.kind, [node.value[0], mark_unless(node.value[1]), *node.value[2:]])),
    Rule("how many commands were slow", words_are(b"SLOWLOG", b"LEN"), mark_result),
    Rule("the clock", words_are(b"TIME"), _both),
]  # fmt: skip
