"""The grammar that a row prints (COMMAND DOCS, docs/commands.md) is the one of its handler and of its docstring.

Requests are made from `arguments=` of each row: every option alone and with each of its alternatives, and all options
together in several orders. Then words are removed and an unknown one is inserted. A request that follows from the
grammar is accepted, and one that does not gets an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import reference

from headrace.commands import registry
from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import Argument, Row, all_rows
from headrace.persistence.rdb.payload import dump_libraries
from support.inprocess import Rig
from support.lines import split
from support.sources import docstring

assert registry.FAMILIES

Words = list[bytes]

# Commands that would end the test or write files. Their few words have tests of their own.
LEFT_OUT = {"BACKUP|START", "BGREWRITEAOF", "BGSAVE", "PSYNC", "SAVE", "SHUTDOWN", "SYNC"}
ROWS = [row for row in all_rows() if row.handler is not None and row.handler is not refuse and not row.subcommands]
by_row = pytest.mark.parametrize("row", [row for row in ROWS if row.name not in LEFT_OUT], ids=lambda row: row.name)

UNKNOWN = b"NOSUCH"
INTERNAL_ERROR = b"-ERR internal error\r\n"
NUMBERS = {"integer": re.compile(rb"-?\d+"), "unix-time": re.compile(rb"\d+"), "double": re.compile(rb"-?\d+(\.\d+)?")}
# Arguments with the number of arguments that follow.
COUNTERS = {"numfields", "numids", "numkeys"}

LOAD_LIBRARY = (
    r"""FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function{"""
    r"""function_name='one', callback=function() return 1 end, flags={'no-writes'}}" """
)
SET_UP = (
    "FLUSHALL", "XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0", "SET k 7",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >", "ACL SETUSER alice on >x", "SCRIPT LOAD 'return 1'",
    "HSET h x 1 y 2", "RPUSH l x y", "SADD e x y", "ZADD z 1 x 2 y", "RPUSH numbers 2 1", "GEOADD places 1 1 x 2 2 y",
    "PFADD p x", "ARSET a 0 x y 3", LOAD_LIBRARY,
)  # fmt: skip
# Keys that have a value of the type of a group of commands; others have a string.
KEYS = {
    "stream": b"s", "hash": b"h", "list": b"l", "set": b"e", "sorted-set": b"z", "geo": b"places", "hyperloglog": b"p",
    "array": b"a",
}  # fmt: skip
# What the client sends before a command that needs it.
BEFORE = {
    "CLIENT|CACHING": "CLIENT TRACKING ON OPTIN",
    "DISCARD": "MULTI",
    "EXEC": "MULTI",
    "FUNCTION|LOAD": "FUNCTION FLUSH",
    "HIMPORT|SET": "HIMPORT PREPARE x field",
    "HOTKEYS|START": "HOTKEYS STOP",
    "RESTORE": "DEL k",
    "RESTORE-ASKING": "DEL k",
}

# Values by the name of the argument, unless it is a number. Others are `x`.
VALUES = {
    "category": b"stream", "command": b"PING", "consumer": b"c", "destination": b"new", "end": b"+", "group": b"g",
    "id": b"1-1", "ifdeq-digest": b"0" * 16, "ifdne-digest": b"0" * 16, "last-id": b"9-9", "lastid": b"1-1",
    "lower-bound": b"0", "lowerbound": b"0", "upperbound": b"99", "max-deleted-id": b"1-1", "min-idle-time": b"0",
    "parameter": b"slowlog-max-len", "rule": b"on", "script": b"return 1", "start": b"-", "stream-id": b"1-1",
    "sha1": b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "threshold": b"1", "username": b"alice",
    "serialized-value": Rig().connect().call("SET k 7", "DUMP k").partition(b"\r\n")[2].partition(b"\r\n")[2][:-2],
}  # fmt: skip
VALUES |= {"function": b"one", "function-code": split(LOAD_LIBRARY)[-1], "library-name": b"lib"}
# Values of a single command, numbers too.
OWN_VALUES = {
    **{key: {"encoding": b"u8"} for key in ("BITFIELD", "BITFIELD_RO")},
    **{key: {"start": b"0", "end": b"1"} for key in ("ARDELRANGE", "ARGETRANGE", "ARGREP", "AROP", "ARSCAN")},
    "COMMAND|GETKEYS": {"command": b"MGET"},
    "COMMAND|GETKEYSANDFLAGS": {"command": b"MGET"},
    "CONFIG|SET": {"value": b"1"},
    "DEBUG": {"subcommand": b"HELP"},
    "PFDEBUG": {"subcommand": b"ENCODING"},
    "FUNCTION|RESTORE": {"serialized-value": dump_libraries((), compress=True)},
    "HELLO": {"protover": b"3"},
    "SORT": {"key": b"numbers"},
    "SORT_RO": {"key": b"numbers"},
    "WAITAOF": {"numlocal": b"0"},
    "XADD": {"id": b"9-9"},
    **{key: {"start": b"0", "stop": b"1", "min": b"0", "max": b"1"} for key in ("ZRANGE", "ZRANGESTORE")},
    **{key: {"min": b"-", "max": b"+"} for key in ("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZREMRANGEBYLEX", "ZLEXCOUNT")},
    **{key: {"min": b"0", "max": b"1"} for key in ("ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZREMRANGEBYSCORE", "ZCOUNT")},
    "XAUTOCLAIM": {"start": b"0"},
    "XGROUP|CREATE": {"group": b"new"},
    "XGROUP|CREATECONSUMER": {"consumer": b"new"},
    "XREADGROUP": {"id": b">"},
    "XSETID": {"entries-added": b"9"},
}

NO_FILE = "the server has no such file"
NO_MODULES = "Headrace has no modules"
UNBALANCED = "there are as many IDs as keys"

# Requests that follow from the grammar and are refused: a pattern of the words after the name, and the reason.
REFUSED = {
    "ACL|LOAD": {"": NO_FILE},
    "ACL|SAVE": {"": NO_FILE},
    "BITOP": {r"^(DIFF|DIFF1|ANDOR) k k$": "there are at least two source keys"},
    "AUTH": {r"^x$": "the default user has no password"},
    "CLIENT|CACHING": {r"^NO$": "the client is in the mode OPTIN"},
    "CLIENT|KILL": {r"^x$": "no client has this address"},
    "CLIENT|LIST": {r"TYPE .* ID|ID .* TYPE": "the options exclude each other, as in Redis"},
    "CLIENT|TRACKING": {
        r"REDIRECT": "no client has this ID",
        r"^\S+ PREFIX x( PREFIX x)?$": "PREFIX needs BCAST",
    },
    "COMMAND|GETKEYS": {r"^MGET$": "the request has no key"},
    "COMMAND|GETKEYSANDFLAGS": {r"^MGET$": "the request has no key"},
    "CONFIG|REWRITE": {"": NO_FILE},
    "CONFIG|SET": {r"^(\S+) .* \1 ": "the directive is repeated"},
    "DEBUG": {r"^HELP .": "HELP takes no arguments; the subcommands have no rows"},
    "FAILOVER": {"": "no replica follows"},
    "FUNCTION|KILL": {"": "no function is running"},
    "HOTKEYS|START": {
        r"^METRICS 1( COUNT| DURATION| SAMPLE| SLOTS|$)": "a metric is needed",
        r"CPU NET|NET CPU": "there are two metrics, and the count is 1",
        r"SLOTS": "there is no cluster",
    },
    "HIMPORT|PREPARE": {r"^x x x$": "the fields are different"},
    "HIMPORT|SET": {r"^h x x x$": "the fieldset has one field"},
    "MIGRATE": {r"^x 1 k .*KEYS": "the keys are after KEYS, or there is one"},
    "INCREX": {r"^k ENX$|PERSIST.*ENX|ENX.*PERSIST": "ENX needs an expiry time"},
    "BACKUP|ABORT": {"": "there is no backup"},
    "BACKUP|SEAL": {"": "there is no backup"},
    "LATENCY|GRAPH": {"": "there are no samples"},
    "LCS": {r"LEN IDX|IDX .*LEN$": "LEN and IDX exclude each other"},
    "MODULE|LOAD": {"": NO_MODULES},
    "MODULE|LOADEX": {"": NO_MODULES},
    "MODULE|UNLOAD": {"": NO_MODULES},
    "OBJECT|FREQ": {"": "no policy counts accesses"},
    "RESTORE-ASKING": {r"IDLETIME .*FREQ|FREQ .*IDLETIME": "the options exclude each other"},
    "RESTORE": {r"IDLETIME .*FREQ|FREQ .*IDLETIME": "the options exclude each other"},
    "SCRIPT|DEBUG": {r"YES|SYNC": "there is no Lua debugger"},
    **{
        key: {r"STORE.*WITH|WITH.*STORE": "the result is returned or stored"}
        for key in ("GEORADIUS", "GEORADIUSBYMEMBER")
    },
    "SCRIPT|KILL": {"": "no script is running"},
    "XADD": {r"(MAXLEN|=) 1 LIMIT": "LIMIT needs ~"},
    "XCFGSET": {r"^s$": "one option is needed"},
    "XGROUP|CONFIG": {
        r"^s g (LEASE-MAX 1|DEADLETTER-DELETE YES|MAX-PARKED 1)$": "the option needs another",
        r"GUARD NO.*LEASE-MAX|LEASE-MAX.*GUARD NO": "LEASE-MAX needs GUARD",
    },
    "XREAD": {r"STREAMS s (s 1-1|1-1 1-1)$": UNBALANCED},
    "XREADGROUP": {r"STREAMS s (s >|> >)$": UNBALANCED},
    "XREDRIVE": {r"TO s\b": "the target is another stream"},
    "XTRIM": {r"(MAXLEN|=) 1 (\w+REF )?LIMIT": "LIMIT needs ~"},
    **{
        key: {r"WEIGHTS 1 1": "there are as many weights as keys"}
        for key in ("ZUNION", "ZUNIONSTORE", "ZINTER", "ZINTERSTORE")
    },
    "ZADD": {r"NX.*GT|GT.*NX": "the options exclude each other", r"INCR 1 x 1 x": "INCR takes one member"},
    **{
        key: {
            r"BYLEX": "ends of a range of members begin with a bracket",
            r"^(?!.*BYSCORE).*LIMIT": "LIMIT needs BYSCORE or BYLEX",
        }
        for key in ("ZRANGE", "ZRANGESTORE")
    },
}

# Requests that do not follow from the grammar and are accepted, as by Redis: a pattern of the words, and the reason.
ACCEPTED = {
    "ARGREP": (r"^a 0 1 (AND|OR|NOCASE|WITHVALUES|LIMIT 1) EXACT x$", "options and predicates may come in any order"),
    "DELEX": (r"^\S+ 1 k$", "the condition is not read if the key is missing"),
    **dict.fromkeys(("GEOSEARCH", "GEOSEARCHSTORE"), (r"BYRADIUS 1 M", "options may come in any order")),
    **dict.fromkeys(
        ("GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"),
        (r"^x 1 M", "radius and unit are not read if the key is missing"),
    ),
    "HSCAN": (r"^\S+ 1 \S+ \S+$", "options are not read if the key is missing"),
    "HSETEX": (r"^h FIELDS 1 x x (FNX|FXX|KEEPTTL)$", "options may come after the fields"),
    "LOLWUT": ("", "words that are not VERSION are ignored"),
    "QUIT": ("", "all words are ignored"),
    "ZSCAN": (r"^\S+ 1 \S+ \S+$", "options are not read if the key is missing"),
    "SSCAN": (r"^\S+ 1 \S+ \S+$", "options are not read if the key is missing"),
    "XNACK": (r"^s g SILENT (FORCE|RETRYCOUNT 1) IDS 1 1-1$", "options may come before IDS"),
    "XPENDING": (
        r"^s g - \+ 1 (c NOSUCH|NOSUCH c)$",
        "words after the consumer are ignored, as many as IDLE would have",
    ),
    "XREADGROUP": (r"^(\S+ 1|NOACK) GROUP g c STREAMS s >$", "options may come before GROUP"),
}

# Docstrings with another grammar, with the reason.
DESCRIBED = {
    "CLIENT|KILL": "the options are listed in the text, since the grammar has four lines",
    "XGROUP|CONFIG": "the options are those of a table",
}


def key_of(row: Row) -> bytes:
    """A key that has a value of the command's type."""
    return KEYS.get(row.group, b"k")


def value(row: Row, argument: Argument) -> bytes:
    """A valid value of an argument."""
    own = OWN_VALUES.get(row.name, {}).get(argument.name)
    if own is not None:
        return own
    if argument.type in NUMBERS:
        return b"1"
    return VALUES.get(argument.name, key_of(row) if argument.type == "key" else b"x")


def variants(row: Row, argument: Argument) -> list[Words]:
    """The ways to write an argument: its alternatives, the options in it, and twice if it may be repeated."""
    token = [argument.token.encode()] if argument.token is not None else []
    if argument.type == "pure-token":
        return [token]
    if argument.type == "oneof":
        inner = [words for each in argument.arguments for words in variants(row, each)]
    elif argument.type == "block":
        inner = sequences(row, argument.arguments)
    else:
        inner = [[value(row, argument)]]
    found = [token + words for words in inner]
    if argument.multiple:
        found.append(found[0] + (token if argument.multiple_token else []) + inner[0])
    return found


def sequences(row: Row, arguments: tuple[Argument, ...]) -> list[Words]:
    """The requests for these arguments: each has one argument in another way than the first."""
    base = [[] if each.optional else variants(row, each)[0] for each in arguments]
    found = [_counted(arguments, base)]
    for index, each in enumerate(arguments):
        others = variants(row, each) if each.optional else variants(row, each)[1:]
        found += [_counted(arguments, [*base[:index], words, *base[index + 1 :]]) for words in others]
    for choice in (0, -1):
        full = _counted(arguments, [variants(row, each)[choice if each.optional else 0] for each in arguments])
        found += orders(arguments, full)
    unique = dict.fromkeys(tuple(word for words in each for word in words) for each in found)
    return [list(words) for words in unique]


def orders(arguments: tuple[Argument, ...], chosen: list[Words]) -> Iterator[list[Words]]:
    """The words of the arguments with the options that follow each other as they are, reversed, and rotated."""
    runs = [list(run) for _, run in groupby(zip(arguments, chosen, strict=True), key=lambda pair: pair[0].optional)]
    for step in (slice(None), slice(None, None, -1), slice(1, None)):
        found: list[Words] = []
        for run in runs:
            words = [words for _, words in run]
            found += [*words[step], *(words[:1] if step.start else [])] if run[0][0].optional else words
        yield found


def _counted(arguments: tuple[Argument, ...], chosen: list[Words]) -> list[Words]:
    """The words of each argument, with the right number in a counter."""
    counted = list(chosen)
    for index, each in enumerate(arguments):
        if each.name in COUNTERS:
            size = max(len(arguments[index + 1].arguments), 1)
            counted[index] = [*chosen[index][:-1], b"%d" % (len(chosen[index + 1]) // size)]
    return counted


def ends_of(argument: Argument, words: Words, start: int) -> set[int]:
    """Where the argument can end in the words, if it begins at `start`."""
    found: set[int] = set()
    starts = {_after_token(argument, words, start)} - {None}
    while starts:
        ends = {end for place in starts if place is not None for end in _ends_of_value(argument, words, place)} - found
        found |= ends
        if not argument.multiple:
            break
        starts = {_after_token(argument, words, end) if argument.multiple_token else end for end in ends} - {None}
    return found


def _after_token(argument: Argument, words: Words, start: int) -> int | None:
    if argument.token is None:
        return start
    return start + 1 if words[start : start + 1] and words[start].upper() == argument.token.encode() else None


def _ends_of_value(argument: Argument, words: Words, start: int) -> set[int]:
    if argument.type == "pure-token":
        return {start}
    if argument.type == "oneof":
        return {end for each in argument.arguments for end in ends_of(each, words, start)}
    if argument.type == "block":
        return ends_of_all(argument.arguments, words, start)
    number = NUMBERS.get(argument.type)
    is_value = start < len(words) and (number is None or number.fullmatch(words[start]))
    return {start + 1} if is_value else set()


def ends_of_all(arguments: tuple[Argument, ...], words: Words, start: int) -> set[int]:
    """Where a sequence of arguments can end. Options that follow each other may come in any order."""
    if not arguments:
        return {start}
    if not arguments[0].optional:
        ends = ends_of(arguments[0], words, start)
        return {last for end in ends for last in ends_of_all(arguments[1:], words, end)}
    count = next((index for index, each in enumerate(arguments) if not each.optional), len(arguments))
    states = {(start, frozenset(range(count)))}
    reached = {start}
    while states:
        states = {
            (end, left - {index})
            for place, left in states
            for index in left
            for end in ends_of(arguments[index], words, place)
        }
        reached |= {end for end, _ in states}
    return {last for end in reached for last in ends_of_all(arguments[count:], words, end)}


def follows(row: Row, words: Words) -> bool:
    """Whether these words after the name of the command follow from its grammar."""
    return len(words) in ends_of_all(row.arguments, words, 0)


def spoilt(words: Words) -> Iterator[Words]:
    """The request without each of its words, and with an unknown word at each place."""
    for index in range(len(words) + 1):
        yield [*words[:index], UNKNOWN, *words[index:]]
        yield words[:index] + words[index + 1 :]


class World:
    """A server, and a new client for each request."""

    def __init__(self) -> None:
        self._rig = Rig(enable_debug_command=b"yes")

    def reply(self, row: Row, words: Words) -> bytes:
        """The reply to a request; empty if the client has to wait."""
        self._rig.connect().call(*SET_UP)
        caller = self._rig.connect()
        if row.name in BEFORE:
            caller.call(BEFORE[row.name])
        request = [*row.name.encode().split(b"|"), *words]
        self._rig.dispatcher.execute(caller.session, [request], self._rig.clock())
        reply = caller.output()
        for session in list(self._rig.dispatcher.sessions.values()):
            self._rig.dispatcher.detach(session)
        return reply


@cache
def words_of_family(module: str) -> list[bytes]:
    """The words in capitals in the modules of a handler's folder: all options that their handlers can know."""
    folder = Path(str(sys.modules[module].__file__)).parent
    sources = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    return sorted({word for source in sources for word in re.findall(rb'b"([A-Z][A-Z-]+)"', source)})


def is_refused(row: Row, words: Words) -> bool:
    """Whether the request is an exception."""
    text = b" ".join(words).decode("latin-1")
    return any(re.search(pattern, text) for pattern in REFUSED.get(row.name, {}))


@by_row
def test_request_of_the_grammar_is_accepted(row: Row) -> None:
    world, wrong = World(), []
    for words in sequences(row, row.arguments):
        reply = world.reply(row, words)
        assert follows(row, words)
        if reply.startswith(b"-") != is_refused(row, words):
            wrong.append(f"{b' '.join(words)!r}: {reply!r}")
    assert not wrong, "\n".join(wrong)


def outside(row: Row) -> Iterator[Words]:
    """Requests that do not follow from the grammar: spoilt ones, and those with an option of another command."""
    requests = sequences(row, row.arguments)
    assert row.handler is not None
    options = [[word, *rest] for word in words_of_family(row.handler.__module__) for rest in ([], [b"1"])]
    base = requests[0]
    found = {tuple(other) for words in requests for other in spoilt(words)}
    found |= {(*base[:at], *option, *base[at:]) for option in options for at in range(len(base) + 1)}
    return (list(words) for words in sorted(found) if not follows(row, list(words)))


@by_row
def test_request_outside_the_grammar_is_refused(row: Row) -> None:
    world, accepted = World(), []
    for words in outside(row):
        reply = world.reply(row, words)
        assert reply != INTERNAL_ERROR
        if not reply.startswith(b"-"):
            accepted.append(b" ".join(words).decode("latin-1"))
    assert bool(accepted) == (row.name in ACCEPTED), accepted
    pattern, _ = ACCEPTED.get(row.name, ("", ""))
    assert [text for text in accepted if not re.search(pattern, text)] == []


def shape(text: str) -> str:
    """A grammar without the names of its values."""
    return re.sub(r"[a-z][\w:-]*", "_", re.sub(r"\s+", " ", text))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_docstring_begins_with_the_grammar(row: Row) -> None:
    assert row.handler is not None
    first, *_ = docstring(row.handler).partition("\n\n")
    grammar, *_ = re.split(r"(?<=[\w\])>])\.(?: |$)", first)
    assert (shape(grammar) == shape(reference.syntax(row))) == (row.name not in DESCRIBED)
