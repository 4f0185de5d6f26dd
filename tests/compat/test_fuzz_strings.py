"""Random string commands, the same for both servers: replies, types, encodings and expiry times stay equal.

These tests find combinations of options, numbers and encodings that no other test has. They work as in `test_fuzz`,
with requests about the keys after each command. A failure names the seed.
"""

from __future__ import annotations

import random

import pytest

from support.comparison import first_difference, report
from support.scripts import MAIN, Player
from support.servers import Server

pytestmark = pytest.mark.oracle

SEEDS = range(12)
COMMANDS_PER_SEED = 400
KEYS = [b"a", b"b", b"c", b"st", b"no", b"a-name-that-leaves-no-room-beside-it-in-one-object"]
VALUES = [
    b"1", b"-5", b"10", b"abc", b"", b"1.5", b"3.0", b"x" * 30, b"x" * 60, b"9223372036854775807",
    b"-9223372036854775808", b"inf", b"1e300", b"hello", b"0x1p3",
]  # fmt: skip
NUMBERS = [
    b"0", b"1", b"-1", b"5", b"100", b"x", b"1.5", b"-3", b"9223372036854775807", b"-9223372036854775808",
    b"9223372036854775808", b"0.1", b"1e17", b"inf", b"nan",
]  # fmt: skip
TIME_WORDS = [b"EX", b"PX", b"EXAT", b"PXAT"]
# No time is so near that a key expires during the test.
TIMES = [b"100000", b"99999999999", b"0", b"-1", b"x"]
DIGESTS = [b"9555e8555c62dcfd", b"abc", b"0" * 16]
COMPARISONS = [b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"]
WORDS = [
    b"NX", b"XX", b"GET", b"KEEPTTL", b"PERSIST", b"ENX", b"SATURATE", b"LBOUND", b"UBOUND", b"BYINT", b"BYFLOAT",
    *COMPARISONS, b"LEN", b"IDX", b"WITHMATCHLEN", b"MINMATCHLEN", b"FOO",
]  # fmt: skip

# Forms of calls. Each slot is a list of words from which one is drawn. `None` stands for random options.
SHAPES: list[list[list[bytes] | None]] = [
    [[b"SET"], KEYS, VALUES],
    [[b"SET"], KEYS, VALUES, None],
    [[b"SET"], KEYS, VALUES, COMPARISONS, [*VALUES, *DIGESTS]],
    [[b"SETNX", b"GETSET", b"APPEND"], KEYS, VALUES],
    [[b"SETEX", b"PSETEX"], KEYS, TIMES, VALUES],
    [[b"GET", b"GETDEL", b"STRLEN", b"DIGEST", b"INCR", b"DECR", b"DEL", b"PERSIST"], KEYS],
    [[b"GETEX"], KEYS, None],
    [[b"INCRBY", b"DECRBY", b"INCRBYFLOAT"], KEYS, NUMBERS],
    [[b"INCREX"], KEYS, None],
    [[b"INCREX"], KEYS, [b"BYINT", b"BYFLOAT"], NUMBERS, [b"LBOUND", b"UBOUND"], NUMBERS, None],
    [[b"SETRANGE"], KEYS, [b"0", b"1", b"5", b"-1", b"x", b"70", b"600000000"], VALUES],
    [[b"GETRANGE", b"SUBSTR"], KEYS, NUMBERS, NUMBERS],
    [[b"DELEX"], KEYS, COMPARISONS, [*VALUES, *DIGESTS]],
    [[b"DELEX"], KEYS, None],
    [[b"MSET", b"MSETNX"], KEYS, VALUES, KEYS, VALUES],
    [[b"MSETEX"], [b"1", b"2", b"0", b"x"], KEYS, VALUES, KEYS, VALUES, None],
    [[b"MSETEX"], [b"1"], KEYS, VALUES, None],
    [[b"LCS", b"MGET"], KEYS, KEYS],
    [[b"LCS"], KEYS, KEYS, None],
    [[b"RENAME", b"RENAMENX", b"COPY"], KEYS, KEYS],
]


def random_options(source: random.Random) -> list[bytes]:
    """Up to three options. The command may not have them."""
    options: list[bytes] = []
    for _ in range(source.randrange(4)):
        kind = source.random()
        if kind < 0.3:
            options += [source.choice(TIME_WORDS), source.choice(TIMES)]
        elif kind < 0.6:
            options += [source.choice(WORDS), source.choice([*VALUES, *NUMBERS, *DIGESTS])]
        else:
            options.append(source.choice(WORDS))
    return options


def random_command(source: random.Random) -> list[bytes]:
    """A call of one of the forms. One call in eight lacks a word."""
    argv: list[bytes] = []
    for slot in source.choice(SHAPES):
        argv += random_options(source) if slot is None else [source.choice(slot)]
    if source.random() < 0.125:
        del argv[source.randrange(1, len(argv))]
    return argv


def is_answered_twice(argv: list[bytes]) -> bool:
    """Whether Redis may send two replies: the old value and an error, for SET with GET and an invalid digest."""
    words = {word.upper() for word in argv[3:]}
    return argv[0] == b"SET" and b"GET" in words and bool(words & {b"IFDEQ", b"IFDNE"})


def questions(argv: list[bytes]) -> list[list[bytes]]:
    """Requests about the keys that a call names."""
    keys = [word for word in dict.fromkeys(argv[1:]) if word in KEYS]
    return [[*words, key] for key in keys for words in ([b"OBJECT", b"ENCODING"], [b"TYPE"], [b"EXISTS"])]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_string_commands_get_the_same_answers(seed: int, headrace: Server, oracle: Server) -> None:
    source = random.Random(seed)
    commands = [[b"XADD", b"st", b"1-1", b"f", b"v"], *(random_command(source) for _ in range(COMMANDS_PER_SEED))]
    players = [Player(server, 2 + seed % 2) for server in (headrace, oracle)]
    wrong: list[str] = []
    try:
        for player in players:
            player.begin()
        for number, argv in enumerate(commands):
            for words in [argv, *questions(argv)] if not is_answered_twice(argv) else []:
                ours, theirs = (player.wires[MAIN].call(*words) for player in players)
                if ours != theirs:
                    asked, done = (b" ".join(each).decode("latin-1") for each in (words, argv))
                    where = f"seed {seed}, command {number}: {asked!r} after {done!r}"
                    wrong.append(f"{where}\n{first_difference(ours, theirs)}")
    finally:
        for player in players:
            player.end()
    if wrong:
        pytest.fail(report(f"seed {seed}", wrong), pytrace=False)
