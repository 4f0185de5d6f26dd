"""No command takes more than linear time in the size of its request: one large argument, or very many.

Goal: the time of every command is linear in the bytes of its request. Method: every row of the command table, with
requests drawn from its own grammar, gets a large text in each place, and many words wherever its grammar repeats one. A
request ten times as large may take some thirty times the processor's time, of which constant costs, caches and the
machine's other work need their part; one with a step for each pair of bytes or words takes a hundred times.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from random import Random
from time import process_time

import pytest

from differential.grammar import ABOUT_REQUESTS, _pools, draw_request
from headrace.commands.core.table import Argument, Row, all_rows
from support.inprocess import Caller, Rig

RATIO_MAX = 30
# A command that takes less than this with its largest request is not compared.
UNMEASURED_S = 0.1
# A slow run may be the machine's; a slow command is slow each time.
TRIES = 3

# Commands that end or stop the server, or take as long as their arguments say.
LEFT_OUT = {"PSYNC", "SHUTDOWN", "SYNC", "DEBUG|SLEEP", "DEBUG|SEGFAULT", "DEBUG|POPULATE"}
ROWS = [row for row in all_rows() if row.handler is not None and row.name not in LEFT_OUT]

TEXT_SIZES = (100_000, 1_000_000)
TEXTS: dict[str, Callable[[int], bytes]] = {
    "letters": lambda size: b"x" * size,
    "digits": lambda size: b"9" * size,
    "digits, and no number": lambda size: b"9" * size + b"x",
    "hexadecimal digits, and no number": lambda size: b"0x" + b"1" * size + b"x",
    "stars": lambda size: b"*a" * (size // 2),
    "class": lambda size: b"[" * size,
    "parts": lambda size: b"+get|x" + b"|(" * (size // 2),
}
WORD_COUNTS = (2_000, 20_000)

# By command: how requests begin, and the words that are repeated, with numbers, to make them long: what the grammar
# does not tell.
REQUESTS: dict[str, tuple[tuple[str, str], ...]] = {
    "ACL|DRYRUN": (("default MGET", "k{}"), ("default XREAD STREAMS", "k{}"), ("bob MGET", "k{}")),
    "ACL|SETUSER": (
        ("bob", "~k{}"), ("bob", "&k{}"), ("bob", ">p{}"), ("bob", "+get|{}"), ("bob", "+@stream"), ("bob", "+get"),
        ("bob", "(~k{} +get)"), ("bob (", "~k{}"),
    ),
    "CLIENT|KILL": (("", "ID 9{}"),),
    "CLIENT|TRACKING": (("ON BCAST", "PREFIX k{}"), ("ON BCAST PREFIX k000010", "PREFIX k{}")),
    "COMMAND|GETKEYS": (("MGET", "k{}"), ("XREAD STREAMS", "k{}"), ("MSET", "k{} 1"), ("EVAL s 9", "k{}")),
    "COMMAND|GETKEYSANDFLAGS": (("MGET", "k{}"), ("XREAD STREAMS", "k{}"), ("MSET", "k{} 1"), ("SET k 1", "k{}")),
    "CONFIG|GET": (("", "*{}"), ("", "m*")),
    "CONFIG|SET": (("", "save {} 1"), ("", "maxmemory{} 1")),
    "MSET": (("", "k{} 1"),),
    "MSETNX": (("", "k{} 1"),),
    "XADD": (("t *", "f{} v"), ("t MAXLEN ~ 10 *", "f{} v")),
    "XCLAIM": (("s g c 0 1-1", "FORCE"),),
    "XREADGROUP": (("GROUP g c STREAMS", "s"),),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_one_large_argument_takes_linear_time(row: Row) -> None:
    for request, place in places(row):
        for kind, make in TEXTS.items():
            costs = measure(partial(with_text, request, place, make), TEXT_SIZES)
            assert is_linear(costs), (row.name, request, place, kind, costs)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_many_arguments_take_linear_time(row: Row) -> None:
    for argument in repeated(row.arguments):
        for kind in ("distinct", "usual"):
            costs = measure(partial(with_many, row, argument, kind), WORD_COUNTS)
            assert is_linear(costs), (row.name, argument.name, kind, costs)
    for beginning, words in REQUESTS.get(row.name, ()):
        costs = measure(partial(with_words, [*name_of(row), *beginning.encode().split()], words), WORD_COUNTS)
        assert is_linear(costs), (row.name, beginning, words, costs)


def is_linear(costs: tuple[float, float]) -> bool:
    small_s, large_s = costs
    return large_s <= UNMEASURED_S or large_s <= RATIO_MAX * small_s


def measure(make: Callable[[int], list[bytes]], sizes: tuple[int, int]) -> tuple[float, float]:
    """Processor's time of a small and of a large request: the best of some tries, if it is not good at once."""
    small_s, large_s = (cost(make(size)) for size in sizes)
    for _ in range(TRIES - 1):
        if is_linear((small_s, large_s)):
            break
        small_s, large_s = max(small_s, cost(make(sizes[0]))), min(large_s, cost(make(sizes[1])))
    return small_s, large_s


def cost(request: list[bytes]) -> float:
    """Seconds that a new server needs for a request and its reply."""
    caller = prepared()
    # The collector would examine the objects of all tests of this process.
    gc.disable()
    try:
        started_s = process_time()
        caller.rig.dispatcher.execute(caller.session, [request], caller.rig.clock())
        for piece in caller.session.out:
            if type(piece) is not bytes:
                for _ in piece:
                    pass
        return process_time() - started_s
    finally:
        gc.enable()


def prepared() -> Caller:
    """A client of a server with a string, and a stream with a group."""
    caller = Rig().connect()
    caller.call("SET a 1", "XADD s 1-1 f v", "XADD s 1-2 f v", "XGROUP CREATE s g 0")
    caller.call("XREADGROUP GROUP g c COUNT 1 STREAMS s >", "ACL SETUSER bob", "SUBSCRIBE news", "RESET")
    return caller


def with_words(head: list[bytes], words: str, count: int) -> list[bytes]:
    return head + " ".join([words.format(f"{number:06d}") for number in range(count)]).encode().split(b" ")


def name_of(row: Row) -> list[bytes]:
    return [word.encode() for word in row.name.split("|")]


def places(row: Row) -> Iterator[tuple[list[bytes], int]]:
    """Requests of the row's grammar, and in each the places of arguments, those after other words each once."""
    rnd = Random(row.name)
    seen: set[tuple[bytes, ...]] = set()
    for _ in range(4):
        if row.name in ABOUT_REQUESTS:
            request = [*name_of(row), b"GET", b"a"]
        else:
            request = [word if isinstance(word, bytes) else b"1" for word in draw_request(rnd, row, may_bend=False)]
        for place in range(len(name_of(row)), len(request)):
            before = tuple(word for word in request[:place] if word.isupper())
            if (*before, b"%d" % place) not in seen:
                seen.add((*before, b"%d" % place))
                yield request, place


def with_text(request: list[bytes], place: int, make: Callable[[int], bytes], size: int) -> list[bytes]:
    return [*request[:place], make(size), *request[place + 1 :]]


def repeated(arguments: tuple[Argument, ...]) -> Iterator[Argument]:
    """The arguments that may come more than once, outermost first; what a repeated block holds comes with it."""
    for argument in arguments:
        if argument.multiple:
            yield argument
        else:
            yield from repeated(argument.arguments)


def with_many(row: Row, argument: Argument, kind: str, count: int) -> list[bytes]:
    """A request in which one argument comes `count` times, and the others only if they must."""
    words = name_of(row)
    for each in row.arguments:
        words += rendered(each, argument, count, kind)
    return words


def rendered(argument: Argument, target: Argument, count: int, kind: str) -> list[bytes]:
    if argument.optional and not holds(argument, target):
        return []
    if argument.name in ("numkeys", "numids"):
        return [b"%d" % count]
    is_many = argument.multiple and (argument is target or not holds(argument, target))
    times = count if argument is target else (count if is_many and target.multiple else 1)
    token = [] if argument.token is None else [argument.token.encode()]
    words: list[bytes] = [] if argument.multiple_token else token
    for index in range(times):
        if argument.multiple_token:
            words += token
        words += value(argument, target, count, kind, index)
    return words


def value(argument: Argument, target: Argument, count: int, kind: str, index: int) -> list[bytes]:
    if argument.type == "pure-token":
        return []
    if argument.type == "oneof":
        chosen = next((each for each in argument.arguments if holds(each, target)), argument.arguments[0])
        return rendered(chosen, target, count, kind)
    if argument.type == "block":
        return [word for each in argument.arguments for word in rendered(each, target, count, kind)]
    if kind == "distinct" and argument.multiple:
        return [b"1-%d" % (index + 1) if argument.name.lower() in ("id", "ids") else b"n%05d" % index]
    usual = [each for each in _pools(argument)[0] if isinstance(each, bytes)] or [b"1"]
    return list(islice(cycle(usual), index % len(usual), index % len(usual) + 1))


def holds(argument: Argument, target: Argument) -> bool:
    return argument is target or any(holds(each, target) for each in argument.arguments)
