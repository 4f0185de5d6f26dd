"""Every known difference between Headrace and Redis 8.10.2 in the compatibility tests, with its reason.

A test that compares the two servers looks here before it fails. The differential machine (`tests/differential`) looks
here before it sends a request. Nothing else may differ, and nothing else is left out. Values that depend only on the
clock are in `tests/support/normalise.py`.

The differential machine also has rules in code, where a list is not enough. These rules hide differences:

- `SENT_ALONE` (below): `Duel.step` does not send these while the client has a transaction open or waits for a reply,
  because Redis may send no reply to them.
- `_by_pattern` (duel.py): a message that matches several patterns of a client is sent once for each. Redis sends these
  copies in the order of a hash table, so they are compared in sorted order.
- `Duel._without_shapes` and `_may_have_removed` (duel.py): the number of nodes in the tree is not compared after
  entries were removed in the sequence (`TREE_SHAPE`, below).
- `_without_short_times` (grammar.py): in a bent request with a duration, small numbers become large ones. Otherwise
  two servers would have to agree on a millisecond.
- `ClientId` (values.py): client IDs differ between the servers, and errors repeat words of the request. So a bent
  request has 0 in place of a client ID, and shrinking does not shorten a request that has one.
- `agree` (tests/support/normalise.py): times near the present are equal within a minute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.commands import registry
from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import all_rows
from support.normalise import MARK, Rule, mark_result, mark_unless, words_are
from support.replies import Node

assert registry.FAMILIES


@dataclass(frozen=True)
class ReplyDifference:
    """Commands (a pattern of the whole line) to which Headrace replies with `reply`, and Redis with something else.

    `reply` is the beginning of the reply. None allows any reply.
    """

    command: str
    reason: str
    reply: str | None = None


@dataclass(frozen=True)
class LogDifference:
    """A command whose records differ. `records` is a list that Headrace may append instead of Redis' records."""

    command: str
    reason: str
    records: tuple[str, ...]


REPLIES = [
    ReplyDifference(
        r"SCAN (?!0 |0$).*", "a cursor that no call returned is at an arbitrary place in the order of the keys", "*2"
    ),
]

# Beginnings of transcript lines whose reply in RESP3 cannot be derived from the one in RESP2.
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
        "a claim creates the consumer even if it claims nothing; unlogged, the consumer is lost on restart",
        ("XGROUP CREATECONSUMER s g c6",),
    ),
    LogDifference(
        "XAUTOCLAIM s g c7 1000000 0",
        "a claim creates the consumer even if it claims nothing; unlogged, the consumer is lost on restart",
        (
            "XCLAIM s g c5 0 11-1 TIME <ms> RETRYCOUNT 7 FORCE JUSTID LASTID 50-0",
            "XGROUP CREATECONSUMER s g c7",
        ),
    ),
    LogDifference(
        "XADD s IDMP p i1 * f v",
        "a duplicate changes nothing, and its replay without the pair would add an entry, so it is not logged",
        (),
    ),
]


def find_reply_difference(command: str) -> ReplyDifference | None:
    """The difference that covers this command line; None if there is none."""
    return next((item for item in REPLIES if re.fullmatch(item.command, command, re.IGNORECASE | re.DOTALL)), None)


def is_known_difference(command: str, reply: bytes) -> bool:
    """Whether Headrace may send this reply to this command line, although Redis sends another one."""
    difference = find_reply_difference(command)
    return difference is not None and reply.startswith((difference.reply or "").encode())


def log_alternatives(command: str) -> list[tuple[str, ...]]:
    """The lists of records that Headrace may append for this command instead of Redis' records."""
    return [item.records for item in LOG if item.command == command]


# As in the log: the effect in one form, where Redis sends the request.
STREAM = [
    LogDifference(
        "XADD i IDMP p a * f v ; XCFGSET i IDMP-DURATION 200",
        "a duplicate changes nothing, and a replica that has forgotten the pair would add an entry",
        ("XCFGSET i IDMP-DURATION 200",),
    ),
    LogDifference(
        "XIDMPRECORD s p z 14-1 ; XCFGSET i IDMP-DURATION 200 ; XGROUP CREATECONSUMER s g a ; XCLAIM s g n1 0 9-9 ; "
        "XAUTOCLAIM s g n2 0 0",
        "a claim creates the consumer even if it claims nothing; not sent, the replica would lack the consumer",
        ("XGROUP CREATECONSUMER s g n1", "XGROUP CREATECONSUMER s g n2"),
    ),
    LogDifference(
        "XREADGROUP GROUP g a STREAMS s 0",
        "a history read raises delivery counts; not sent, the replica would have others",
        (
            "XCLAIM s g a 0 11-1 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 12-1",
            "XCLAIM s g a 0 12-1 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 12-1",
        ),
    ),
    LogDifference(
        "SET a 1 ; SET a 2 KEEPTTL ; SETNX c 1 ; MSET k1 1 k2 2 ; INCRBY n 5 ; APPEND ap x ; SET e 1",
        "a condition that held needs no second test",
        ("SET a 1", "SET a 2 KEEPTTL", "SET c 1", "MSET k1 1 k2 2", "INCRBY n 5", "APPEND ap x", "SET e 1"),
    ),
    LogDifference(
        "SET a 3 XX GET ; SET a 5 IFEQ 3", "a condition that held needs no second test", ("SET a 3", "SET a 5")
    ),
    LogDifference(
        "SET a 6 PXAT 1 ; GETSET c 2 ; GETDEL c ; DELEX ap IFEQ x ; DELEX k1",
        "a condition that held needs no second test",
        ("DEL a", "SET c 2", "DEL c", "DEL ap", "DEL k1"),
    ),
    LogDifference(
        "EVAL \"return redis.call('set','a','1','EX','100')\" 0",
        "a rewritten record has the usual case",
        ("SET a 1 PXAT <ms>",),
    ),
    LogDifference(
        "EVAL \"redis.call('set','a','1') redis.call('incr','a') redis.call('nosuch')\" 0",
        "a rewritten record has the usual case",
        ("MULTI", "SET a 1", "incr a", "EXEC"),
    ),
    LogDifference(
        "EXISTS k", "memory is freed in the background always, and `lazyfree-lazy-expire` has no effect", ("DEL k",)
    ),
]


def stream_alternatives(command: str) -> list[tuple[str, ...]]:
    """The lists of records that Headrace may send replicas for this line instead of Redis' records."""
    return [item.records for item in STREAM if item.command == command]


# -- documentation -------------------------------------------------------------------------------

# Commands whose COMMAND DOCS differ in more than their wording.
DOCUMENTED_OTHERWISE = {
    b"debug": "has arguments, which Redis leaves out, and is not marked as a system command",
    b"monitor": "has a complexity, which Redis leaves out",
    b"increx": "does not describe its arguments in prose",
    b"lolwut": "has a complexity, which Redis leaves out",
    **dict.fromkeys((b"pfdebug", b"pfselftest"), "is not marked as a system command"),
    b"restore-asking": "is not marked as a system command",
    b"psync": "has a complexity, which Redis leaves out",
    b"replconf": "has a complexity, which Redis leaves out",
    b"sync": "has a complexity, which Redis leaves out",
    b"xclaim": "has IFOWNED, which Redis does not have",
    b"xgroup|delconsumer": "has RELEASE, which Redis does not have",
    b"xadd": "has DELAY and AT, which Redis does not have",
    b"xcfgset": "has the policies of streams, which Redis does not have",
    b"xnack": "has DELAY, which Redis does not have",
    b"xread": "has a complexity, which Redis leaves out",
}

# Subcommands of DEBUG that only Headrace has.
OWN_HELP = {b"CHECK"}

# -- configuration ------------------------------------------------------------------------------

# Directives that Redis does not have.
OWN_DIRECTIVES = {
    b"rdb-skip-foreign-types",
    b"aof-block-checksums",
    b"aof-start-from-rdb",
    b"aof-skip-foreign-commands",
    b"metrics-port",
    b"metrics-bind",
    b"metrics-streams-max",
    b"compat-config",
    b"stream-chunk-compression",
    b"stream-exact-lag",
    b"stream-group-defaults",
    b"evict-pending-streams",
}

# -- INFO ---------------------------------------------------------------------------------------

# Fields of Redis' INFO that Headrace does not have, by reason.
ABSENT_INFO_FIELDS = {
    "the event loop is that of a library, which has no figures": (
        "eventloop_cycles", "eventloop_duration_sum", "instantaneous_eventloop_cycles_per_sec",
        "instantaneous_eventloop_duration_usec", "eventloop_cycles_with_clients_processing",
    ),
    "there are no modules": ("module",),
    "the sizes of strings would need a scan of all keys": ("db0_distrib_strings_sizes",),
}  # fmt: skip

# Fields that have one value in Headrace, and another in Redis.
OTHER_INFO_VALUES = {"atomicvar_api": ("none", "c11-builtin")}

# Fields that only Headrace has. They describe the server.
OWN_INFO_FIELDS = {"headrace_version", "python_version", "unserved_calls"}

# -- random words --------------------------------------------------------------------------------

# Commands that get no random words, by reason. Scripts and dialogues test them.
NOT_COMPARABLE = {
    "describes the server itself, or depends on its clock": (
        b"client|id", b"client|info", b"client|list", b"config|get", b"info", b"lastsave", b"time", b"module|list",
        b"memory|stats", b"memory|usage", b"object|idletime", b"latency|histogram", b"slowlog|get", b"slowlog|len",
        b"acl|log",
    ),
    "Redis has more commands": (
        b"command", b"command|count", b"command|docs", b"command|info", b"command|list",
    ),
    "its text is not that of Redis": (
        b"latency|doctor", b"memory|doctor", b"lolwut", b"debug",
    ),
    "random": (b"acl|genpass", b"randomkey"),
    "changes the server under test": (
        b"config|resetstat", b"config|rewrite", b"config|set", b"failover", b"replicaof", b"slaveof",
    ),
    "writes to the disk, and continues after the reply": (
        b"backup|abort", b"backup|cleanup", b"backup|list", b"backup|seal", b"backup|start", b"backup|status",
        b"bgrewriteaof", b"bgsave", b"save",
    ),
    "ends, silences or changes the connection, or the server": (
        b"client|kill", b"client|pause", b"client|reply", b"hello", b"monitor", b"psync", b"quit", b"replconf",
        b"reset", b"shutdown", b"sync",
    ),
    "has several replies": (
        b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe",
    ),
    "starts or ends a transaction": (b"multi", b"exec"),
}  # fmt: skip

# -- random sequences ----------------------------------------------------------------------------

_REPLICAS = "turns the connection into one to a replica: tests/server/replication/test_primary.py"
_OF_THE_SERVER = "describes the server itself: its version, memory, clients"
_MORE_COMMANDS = "Redis has more commands: tests/compat/test_command_table.py compares those that both have"
_OWN_WORDS = "its text is not that of Redis: see the row"
_TO_THE_DISK = "writes to the disk of the oracle, and depends on other writers: tests/persistence, tests/server"
_ELSEWHERE = "Redis would follow another server, or load code; scripts test that Headrace refuses it"
_RANDOM = "its members are picked at random: tests/commands"
_HASH_TABLE = "its members come in the order of a hash table: tests/commands/sets"
_TIMES = "its times depend on the millisecond of another request: tests/commands/hashes"
_HOT_KEYS = "depends on the requests of earlier sequences: scripts"

# Commands that are not sent, by the name of the row in the command table.
LEFT_OUT = {
    **{row.name: "has one reply: tests/compat/test_command_table.py" for row in all_rows() if row.handler is refuse},
    "RESTORE-ASKING": "is RESTORE by another name",
    "ACL|LOG": "whether two failures share an entry depends on the time between them: dialogues and test_acl.py",
    "BACKUP|ABORT": _TO_THE_DISK,
    "BACKUP|CLEANUP": _TO_THE_DISK,
    "BACKUP|LIST": _TO_THE_DISK,
    "BACKUP|SEAL": _TO_THE_DISK,
    "BACKUP|START": _TO_THE_DISK,
    "BACKUP|STATUS": _TO_THE_DISK,
    "BGREWRITEAOF": _TO_THE_DISK,
    "BGSAVE": _TO_THE_DISK,
    "CLIENT|KILL": "ends the connections of the machine itself: dialogues",
    "CLIENT|LIST": "describes every client, in order of connection: CLIENT INFO is sent instead",
    "CLIENT|PAUSE": "delays the requests of the machine itself: dialogues",
    "CLIENT|REPLY": "turns replies off, so that the connection seems to hang: in scripts instead",
    "COMMAND": _MORE_COMMANDS,
    "COMMAND|DOCS": "its prose is not that of Redis: tests/compat/test_command_table.py compares the rest",
    "COMMAND|LIST": _MORE_COMMANDS,
    "DEBUG": "has only some of Redis' subcommands: see the row",
    "FAILOVER": "changes roles: tests/compat/test_failover.py",
    "HOTKEYS|GET": _HOT_KEYS,
    "HOTKEYS|RESET": _HOT_KEYS,
    "HOTKEYS|START": _HOT_KEYS,
    "HOTKEYS|STOP": _HOT_KEYS,
    **dict.fromkeys(("HEXPIRETIME", "HPEXPIRETIME", "HPTTL", "HTTL"), _TIMES),
    "HRANDFIELD": _RANDOM,
    "INFO": f"{_OF_THE_SERVER}: tests/compat/test_info_fields.py",
    "LATENCY|DOCTOR": _OWN_WORDS,
    "LATENCY|HISTOGRAM": "depends on how long commands took",
    "LOLWUT": _OWN_WORDS,
    "MEMORY|DOCTOR": _OWN_WORDS,
    "MEMORY|MALLOC-STATS": "the text of an allocator",
    "MEMORY|STATS": f"{_OF_THE_SERVER}: tests/compat/test_info_fields.py",
    "MIGRATE": "needs another server: tests/compat/test_migrate.py",
    "MODULE|LIST": "a build of Redis may ship modules",
    "MODULE|LOAD": _ELSEWHERE,
    "MODULE|LOADEX": _ELSEWHERE,
    **dict.fromkeys(("PFDEBUG", "PFSELFTEST"), "shows the registers, for tests: tests/commands/hyperloglog"),
    "MODULE|UNLOAD": _ELSEWHERE,
    "MONITOR": "repeats the requests of all clients, including the machine itself: dialogues",
    "PSYNC": _REPLICAS,
    "REPLCONF": _REPLICAS,
    "REPLICAOF": _ELSEWHERE,
    "SAVE": _TO_THE_DISK,
    "SDIFF": _HASH_TABLE,
    "SCRIPT|DEBUG": "takes the connection over; NO is refused by Redis while a reply is pending",
    "SHUTDOWN": "ends the server",
    "SLAVEOF": _ELSEWHERE,
    "SYNC": _REPLICAS,
    "SPOP": _RANDOM,
    "SRANDMEMBER": _RANDOM,
    "SUNION": _HASH_TABLE,
    "SLOWLOG|GET": "depends on how long commands took",
    "ZRANDMEMBER": _RANDOM,
    "XIDMPRECORD": "records pairs that are already too old, which a server removes at its next cron",
}

# Commands with the flag `admin` that are sent. They do not differ. A new one is sent only after it is added here,
# because it might end the server.
ADMIN_SENT = {
    "ACL|DELUSER", "ACL|DRYRUN", "ACL|GETUSER", "ACL|LIST", "ACL|LOAD", "ACL|SAVE", "ACL|SETUSER", "ACL|USERS",
    "CLIENT|NO-EVICT", "CLIENT|UNBLOCK", "CLIENT|UNPAUSE", "CONFIG|GET", "CONFIG|RESETSTAT", "CONFIG|REWRITE",
    "CONFIG|SET", "LATENCY|GRAPH", "LATENCY|HISTORY", "LATENCY|LATEST", "LATENCY|RESET", "SLOWLOG|LEN", "SLOWLOG|RESET",
}  # fmt: skip

# Commands that are never sent in a pipeline after other requests, in a transaction, or while the client waits.
SENT_ALONE = {
    b"AUTH": "Redis 8.10.2 sends no reply at all to a failed AUTH that is not the first request of its read",
    b"HELLO": "a failed AUTH option of HELLO gets no reply either",
}

# Patterns of request lines to which Redis 8.10.2 replies without a rule, or that would end the test.
UNFAIR = {
    r"ACL CAT .+": _MORE_COMMANDS,
    r"COMMAND( INFO)?": _MORE_COMMANDS,
    r"SET (?=.* GET\b).* IFD(EQ|NE) .*": "an invalid digest gets two replies: the old value, and then the error",
    r"XAUTOCLAIM .* COUNT [0-9]{8,12}\b.*": "Redis reserves memory for COUNT results, or refuses if memory is short",
    r"CONFIG GET (.* )?\S*\*.*": "Headrace has more directives",
    r"SLOWLOG GET\b.*": "depends on how long commands took",
    r"ACL SETUSER default .*": "locks all clients out, including the machine itself",
    r"SCAN 0(?!( MATCH \S+)?( COUNT 100)( TYPE \S+)?$).*": "how many keys a call scans is internal: see scripts",
    r"[PS]?UNSUBSCRIBE": "unsubscribes in the order of a hash table",
}

# Options (row, token) that are sent and never accepted, with the reason; see `differential.reach`.
UNREACHED = {
    ("ACL|LOAD", ""): "no server here has an ACL file: tests/server/configuration/test_users.py",
    ("ACL|SAVE", ""): "no server here has an ACL file: tests/server/configuration/test_users.py",
    ("CONFIG|REWRITE", ""): "no server here has a configuration file: tests/server/configuration/test_configfile.py",
    ("LATENCY|GRAPH", ""): "nothing is slow while latencies are not watched: tests/commands/observing/test_latency.py",
    ("OBJECT|FREQ", ""): "needs an LFU policy, which no server here has: tests/server/eviction",
    ("FUNCTION|KILL", ""): "no function is running when it is sent: tests/server",
    ("SCRIPT|KILL", ""): "no script is running when it is sent: tests/server",
}


def is_unfair(request: tuple[object, ...]) -> bool:
    """Whether the request must not be sent."""
    line = " ".join(word.decode("latin-1") if isinstance(word, bytes) else "?" for word in request)
    return any(re.fullmatch(pattern, line, re.IGNORECASE | re.DOTALL) for pattern in UNFAIR)


# Words of requests that remove entries. After a removal, the shape of Redis' tree depends on its history. See the row
# XINFO STREAM.
REMOVALS = {b"XDEL", b"XDELEX", b"XACKDEL", b"XTRIM", b"MAXLEN", b"MINID"}
TREE_SHAPE = re.compile(rb"(radix-tree-nodes\r\n):\d+")

# Fields of CLIENT INFO that are not compared. `redir` is -1 for a client that does not redirect.
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


# Parts of replies that random sequences do not compare. The rest of each reply is compared.
INTERNAL = [
    Rule("random", words_are(b"ACL", b"GENPASS"), _length),
    Rule("how many commands there are", words_are(b"COMMAND", b"COUNT"), mark_result),
    Rule("ID and address of the connection, its buffers and times", words_are(b"CLIENT", b"INFO"), _client),
    Rule("Redis keeps the places of deleted entries; the result of RESTORE is compared", words_are(b"DUMP"),
         _payload_of_stream),
    Rule("the clock", words_are(b"LASTSAVE"), mark_result),
    Rule("sizes depend on the language", words_are(b"MEMORY", b"USAGE"), mark_result),
    Rule("Redis' encoding of a string depends on its history, not only on its value", words_are(b"OBJECT", b"ENCODING"),
         _encoding_of_string),
    Rule("the clock; strings have no idle time: see the row", words_are(b"OBJECT", b"IDLETIME"), mark_result),
    Rule("a request that EXEC runs keeps its words until the end", words_are(b"OBJECT", b"REFCOUNT"), mark_result),
    Rule("random, except for whether there is a key", words_are(b"RANDOMKEY"), mark_result),
    Rule("Redis counts bytes of replication", words_are(b"ROLE"),
         lambda node, _: Node(node.kind, [node.value[0], mark_unless(node.value[1]), *node.value[2:]])),
    Rule("the number of slow commands", words_are(b"SLOWLOG", b"LEN"), mark_result),
    Rule("the clock", words_are(b"TIME"), _both),
]  # fmt: skip
