"""What is done in each state: every row of the command table, every directive of CONFIG SET, signals and connections.

Made from the code. A command's arguments are drawn from the grammar that COMMAND DOCS prints, until a server takes
them; so a new row joins by itself, and one for which nothing is found that a server takes fails the walk.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from random import Random
from typing import Any, Final

from compat.differences import is_unfair
from crossing.fixture import Company, disk_of
from crossing.kept_files import CONFIG_PATH
from crossing.scene import OTHER_FOLDER, TAKEN_FOLDER, Peer, Request, Scene
from differential.grammar import draw_request
from differential.values import ClientId, Dump, Duration, Payload, Token
from headrace.commands import registry
from headrace.commands.admin import debug
from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import Row, all_rows
from headrace.server.configuration.directive_kinds import (
    Bool,
    BufferLimits,
    Choice,
    EventClasses,
    FileName,
    GroupDefaults,
    Integer,
    Kind,
    Memory,
    MemoryOrPercent,
    Octal,
    OomScores,
    Primary,
    SavePoints,
    Text,
    Words,
)
from headrace.server.configuration.directives import DIRECTIVES, Directive

assert registry.FAMILIES

ATTEMPTS_COUNT: Final = 200
"""Requests that are drawn for a command before it counts as one that is never taken."""
TIMEOUT_MS: Final = 700
"""How long an act that waits does so at most."""
FOREIGN_ADDRESS: Final = b"192.0.2.1"
"""No machine has it: `bind` refuses it."""

OWN_ID, READER_ID, WAITER_ID = b"<actor>", b"<reader>", b"<waiter>"
"""Words of an act that stand for the ID of a client."""


@dataclass(frozen=True)
class Act:
    """One thing that a client, the kernel or the network does."""

    name: str
    request: Request = ()
    """What is sent, if it is a request."""
    # What the same client sends just before, without which the request would be refused.
    opening: tuple[Request, ...] = ()
    signal: int = 0
    connection: str = ""
    """What happens to the connection: `connect`, `close`, `half close` or `reset`."""

    @property
    def row_name(self) -> str:
        """The row of the command table, empty if it is no request."""
        return self.name.partition(" ")[0] if self.request else ""

    @property
    def subjects(self) -> list[str]:
        """What the act tries: a row of the command table, directives, a signal or a connection event."""
        if self.row_name == "CONFIG|SET":
            return [f"CONFIG SET {word.decode()}" for word in self.request[2::2]]
        return [self.row_name or self.name]

    @property
    def row_names(self) -> set[str]:
        """What rows the request may be of, however it was drawn."""
        words = [word.decode("latin-1").upper() for word in self.request[:2]]
        return {self.row_name, *words[:1], "|".join(words)}

    def words(self, ids: dict[bytes, int]) -> Request:
        """The request with the IDs of clients put in."""
        return tuple(b"%d" % ids[word] if word in ids else word for word in self.request)


# Scripts that are called by their digests.
LIBRARY = (
    b"#!lua name=lib\nredis.register_function('write', function() return redis.call('SET', 'str', 'function') end)\n"
    b"redis.register_function{function_name='read', callback=function() return 1 end, flags={'no-writes'}}"
)
WRITING, READING = b"return redis.call('SET','str','sha')", b"return redis.call('GET','str')"

BY_HAND: Final[dict[str, list[str]]] = {
    "BACKUP|ABORT": [""],
    "BACKUP|SEAL": [""],
    "BGSAVE": ["", "SCHEDULE"],
    "CLIENT|CACHING": ["YES"],
    "CLIENT|KILL": ["ID <reader>", "ID <actor>", "TYPE normal SKIPME yes"],
    "CLIENT|PAUSE": ["300 WRITE", "300 ALL"],
    "CLIENT|REPLY": ["OFF", "SKIP"],
    "CLIENT|UNBLOCK": ["<reader>", "<waiter>", "<reader> ERROR", "<waiter> ERROR"],
    "CLIENT|SETNAME": ["another"],
    "DISCARD": [""],
    "EVAL": ["return_redis.call('SET','str','script') 0"],
    "EVALSHA": [f"{sha1(WRITING).hexdigest()} 0"],
    "EVALSHA_RO": [f"{sha1(READING).hexdigest()} 0"],
    "EXEC": [""],
    "FAILOVER": [""],
    "FCALL": ["write 0"],
    "FCALL_RO": ["read 0"],
    "FUNCTION|DELETE": ["lib"],
    "LATENCY|GRAPH": ["fork"],
    "MIGRATE": ["127.0.0.1 1 none 0 100", "127.0.0.1 1 str 0 100 REPLACE"],
    "PFDEBUG": ["ENCODING p", "TODENSE p"],
    "REPLICAOF": ["NO ONE"],
    "SLAVEOF": ["NO ONE"],
    "SHUTDOWN": ["", "NOSAVE", "SAVE", "NOSAVE_FORCE", "NOW_FORCE", "ABORT"],
    "WAIT": ["1 700"],
    "WAITAOF": ["1 0 700", "0 1 700", "0 0 0"],
    "XREAD": ["BLOCK 700 STREAMS s $", "STREAMS s 0"],
    "XREADGROUP": [
        "GROUP g new STREAMS s >", "GROUP g new BLOCK 700 STREAMS jobs >", "GROUP g c STREAMS s 0",
        "GROUP g new CLAIM 100 BLOCK 700 STREAMS idle >",
    ],
    "HIMPORT|SET": ["h fields 1 2", "i fields 1 2", "new fields 1 2", "str fields 1 2", "new none 1"],
    "XIDMPRECORD": ["q p i3 1700000000000-0"],
}  # fmt: skip
"""Arguments of commands for which every form counts, or a draw would hardly find any; `_` is a blank in a word."""

# By row: what goes before its requests.
OPENINGS: Final[dict[str, tuple[Request, ...]]] = {
    "DISCARD": ((b"MULTI",), (b"SET", b"~opened", b"1")),
    "EVALSHA": ((b"SCRIPT", b"LOAD", WRITING),),
    "EVALSHA_RO": ((b"SCRIPT", b"LOAD", READING),),
    "HIMPORT|SET": ((b"HIMPORT", b"PREPARE", b"fields", b"a", b"b"),),
    "EXEC": ((b"MULTI",), (b"SET", b"~opened", b"1")),
    **dict.fromkeys(("FCALL", "FCALL_RO", "FUNCTION|DELETE"), ((b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY),)),
}

# Rows that are taken in this state only.
TAKEN_IN: Final = {
    "CLIENT|CACHING": "tracking by OPTIN",
    "BACKUP|ABORT": "a backup gathers writes",
    "BACKUP|SEAL": "a backup gathers writes",
    "LATENCY|GRAPH": "an event was slow",
}

# Values of directives of which a drawn one would not do.
VALUES_BY_HAND: Final[dict[bytes, list[bytes]]] = {
    b"dir": [OTHER_FOLDER.encode(), TAKEN_FOLDER.encode(), b"/missing", CONFIG_PATH.encode()],
    # A longer one would make a snapshot or a load last for ever.
    b"rdb-key-save-delay": [b"1"],
    b"key-load-delay": [b"1"],
    # With another number, the writes that look for the effect of the act would be refused.
    b"min-replicas-to-write": [],
}

# CONFIG SET of several directives that depend on each other.
TOGETHER: Final = (
    f"dir {OTHER_FOLDER} appendonly no",
    f"dir {OTHER_FOLDER} appendonly yes",
    f"appendonly yes dir {OTHER_FOLDER} bind {FOREIGN_ADDRESS.decode()}",
    f"dbfilename another dir {OTHER_FOLDER} save 60_1",
    f"appendonly no save 60_1 dir {TAKEN_FOLDER}",
)

DEBUG_ARGUMENTS: Final = {
    b"AOF-FLUSH-SLEEP": "0", b"SLEEP": "0", b"CHECK": "s", b"DIGEST-VALUE": "s str", b"ERROR": "E", b"LOG": "x",
    b"OBJECT": "s", b"PAUSE-CRON": "0", b"POPULATE": "3", b"PROTOCOL": "string", b"SET-ACTIVE-EXPIRE": "1",
    b"QUICKLIST-PACKED-THRESHOLD": "1", b"DICT-RESIZING": "1", b"REPL-PAUSE": "clear",
    b"REPLYBUFFER": "PEAK-RESET-TIME NEVER",
}  # fmt: skip
"""Of the subcommands of DEBUG; all others have none."""

NEVER_TAKEN: Final = {
    "FAILOVER": "no replica follows",
    "MODULE|LOAD": "there are no modules", "MODULE|LOADEX": "there are no modules",
    "MODULE|UNLOAD": "there are no modules",
    "OBJECT|FREQ": "needs an LFU policy, which no server here has",
    "FUNCTION|KILL": "no function runs when a request does",
    "SCRIPT|KILL": "no script runs when a request does",
    **{row.name: "there is no cluster" for row in all_rows() if row.handler is refuse},
}  # fmt: skip
"""Rows of which no request is taken here, with the reason; the request that is sent all the same is refused."""

SILENT: Final = {
    "CLIENT|REPLY", "MONITOR", "MULTI", "PSUBSCRIBE", "PSYNC", "QUIT", "RESET", "SHUTDOWN", "SSUBSCRIBE", "SUBSCRIBE",
    "SYNC",
}  # fmt: skip
"""Rows after which requests get other replies, or none."""

ALONE: Final = {"PSYNC", "SYNC"}
"""Rows that are refused while replies to earlier requests are unsent, as in Redis."""

SEVERAL_REPLIES: Final = {"PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE"}

UNLOGGED: Final = {"DEBUG": "POPULATE makes keys that are not logged, as in Redis"}


def _words(text: str) -> Request:
    return tuple(word.replace("_", " ").encode() for word in text.split())


# -- commands ------------------------------------------------------------------------------------


def _by_hand(row: Row, lines: list[str]) -> Iterator[Act]:
    name = tuple(word.encode() for word in row.name.split("|"))
    for line in lines:
        request = (*name, *(word for part in _words(line) for word in ([part] if row.name == "EVAL" else part.split())))
        yield Act(f"{row.name} {line}".strip(), request, OPENINGS.get(row.name, ()))


def _debug_acts() -> Iterator[Act]:
    for word in sorted(debug._SUBCOMMANDS):
        yield Act(f"DEBUG {word.decode()}", (b"DEBUG", word, *DEBUG_ARGUMENTS.get(word, "").encode().split()))


def resolve(word: Token, number: int) -> bytes:
    """A drawn word as bytes; durations are short, as the clock is the test's."""
    if isinstance(word, Duration):
        return b"%d" % ((2 + number % 3) * word.second)
    if isinstance(word, ClientId):
        return READER_ID if word.client == "a" else WAITER_ID
    if isinstance(word, Dump):
        return b"<dump %b>" % word.key
    if isinstance(word, Payload):
        return b"<dump s>"
    return b"%d" % TIMEOUT_MS if word == b"50000000" else word


def draw(rnd: Random, row: Row | None = None, *, may_bend: bool = False) -> Request:
    """A request from the grammar, with words that stand for the IDs of clients; of any row, none that locks all out."""
    drawn = draw_request(rnd, row, may_bend=may_bend, with_own=True)
    while row is None and is_unfair(drawn):
        drawn = draw_request(rnd, may_bend=may_bend)
    request = tuple(resolve(word, rnd.randrange(3)) for word in drawn)
    return tuple(dump_of(word[6:-1]) if word.startswith(b"<dump ") else word for word in request)


@cache
def dump_of(key: bytes) -> bytes:
    """What DUMP says of a key of the fixture."""
    (reply,) = Asking().ask((b"DUMP", key))
    return bytes(reply.value or b"")


class Asking:
    """A server to try requests on: a new one for each, as the last may have ended it."""

    def ask(self, request: Request, opening: tuple[Request, ...] = ()) -> list[Any]:
        """The replies to the request; none if it waits."""
        disk, clock = disk_of("log")
        scene = Scene(disk, b"no", clock)
        with scene.playing():
            scene.start()
            scene.settle()
            company = Company(scene)
            company.sit_down()
            asker: Peer = scene.connect("asker")
            scene.settle()
            ids = {OWN_ID: asker.id, READER_ID: company.reader.id, WAITER_ID: company.waiter.id}
            asker.ask(*opening, Act("", request).words(ids))
            scene.settle()
            return asker.replies[len(opening) :]


def _drawn(row: Row) -> Act:
    rnd = Random(row.name)
    first: Request | None = None
    for _ in range(1 if row.name in NEVER_TAKEN else ATTEMPTS_COUNT):
        request = draw(rnd, row)
        first = first or request
        replies = Asking().ask(request)
        if not replies or replies[0].kind not in b"-!":
            return Act(row.name, request)
    assert first is not None
    assert row.name in NEVER_TAKEN, f"no arguments of {row.name} were taken: give some in BY_HAND ({first})"
    return Act(row.name, first)


@cache
def command_acts() -> tuple[Act, ...]:
    """One act or more for each row of the command table."""
    acts: list[Act] = []
    for row in all_rows():
        if row.handler is None:
            continue
        if row.name == "DEBUG":
            acts += _debug_acts()
        elif row.name == "CONFIG|SET":
            continue  # see `directive_acts`
        elif row.name in BY_HAND:
            acts += _by_hand(row, BY_HAND[row.name])
        else:
            acts.append(_drawn(row))
    return tuple(acts)


# -- CONFIG SET ----------------------------------------------------------------------------------


def other_values(kind: Kind, value: Any) -> list[bytes]:
    """Valid values other than the present one. Raises AssertionError for a kind that is not known here."""
    candidates: list[bytes]
    match kind:
        case Bool():
            candidates = [b"yes", b"no"]
        case Integer():
            candidates = [b"%d" % kind.minimum, b"%d" % min(kind.minimum + 7, kind.maximum)]
        case Memory():
            candidates = [b"%d" % max(kind.minimum, 1 << 20), b"%d" % max(kind.minimum, 2 << 20)]
        case MemoryOrPercent():
            candidates = [b"1073741824", b"5%"]
        case Choice():
            candidates = list(kind.choices)
        case EventClasses():
            candidates = [b"KEA", b""]
        case FileName():
            candidates = [b"another"]
        case Text():
            candidates = [b"text"]
        case Octal():
            candidates = [b"700"]
        case SavePoints():
            candidates = [b"60 1", b""]
        case BufferLimits():
            candidates = [b"normal 1048576 0 0", b"pubsub 1048576 0 0"]
        case OomScores():
            candidates = [b"0 100 200"]
        case GroupDefaults():
            candidates = [b"jobs:* BACKOFF 1000"]
        case Primary():
            candidates = [b"10.0.0.1 6379"]
        case Words():
            candidates = [b"50 90"] if kind.check is not None else [b"127.0.0.1"]
        case _:
            raise AssertionError(f"no other value is known for a directive of the kind {type(kind).__name__}")
    shown = kind.show(value)
    return [each for each in candidates if each != shown]


def _of_directive(directive: Directive) -> Iterator[Act]:
    name = directive.name
    shown = directive.kind.show(directive.default)
    values = other_values(directive.kind, directive.default)
    if directive.name in VALUES_BY_HAND:
        values = [*VALUES_BY_HAND[directive.name], shown]
    elif isinstance(directive.kind, Bool):
        values = [b"yes", b"no"]
    elif directive.has_effect:
        values = [*values, shown]
    else:
        values = values[:1]
    for value in values:
        words = (b"CONFIG", b"SET", name, value)
        yield Act(f"CONFIG|SET {name.decode()} {value.decode()}".strip(), words)
        if directive.name != b"bind" and directive.has_effect:
            yield Act(f"CONFIG|SET {name.decode()} {value.decode()} bind refused", (*words, b"bind", FOREIGN_ADDRESS))


@cache
def directive_acts() -> tuple[Act, ...]:
    """CONFIG SET of every directive: to another value, to the present one, and together with others."""
    together = [Act(f"CONFIG|SET {line}", (b"CONFIG", b"SET", *_words(line))) for line in TOGETHER]
    return (*(act for directive in DIRECTIVES for act in _of_directive(directive)), *together)


SIGNAL_ACTS: Final = tuple(
    Act(f"signal {each.name}", signal=int(each)) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
)
CONNECTION_ACTS: Final = tuple(
    Act(f"connection {kind}", connection=kind) for kind in ("connect", "close", "half close", "many behind")
)


@cache
def all_acts() -> tuple[Act, ...]:
    """The acts, by name all different."""
    acts = (*command_acts(), *directive_acts(), *SIGNAL_ACTS, *CONNECTION_ACTS)
    assert len({act.name for act in acts}) == len(acts), "two acts have the same name"
    return acts
