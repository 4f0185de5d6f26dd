"""Random argument vectors, the same for both servers: the replies and the final state are the same.

These tests find combinations that no other test has. Each seed draws commands from tokens that are valid in some places
and invalid in others, sends them to both servers, and compares every reply and the final state. A failure names the
seed and the commands since the database was empty.
"""

from __future__ import annotations

import random

import pytest

from compat.differences import is_known_difference
from support.comparison import first_difference, report
from support.normalise import agree, normalise
from support.scripts import MAIN, Line, Player, Script
from support.servers import Server

pytestmark = pytest.mark.oracle

SEEDS = range(40)
COMMANDS_PER_SEED = 150
KEYS = [b"s", b"s", b"s", b"t", b"STREAMS", b"str", b"", b"no", b"\xff\x01"]
GROUPS = [b"g", b"g", b"g", b"h", b"nog", b""]
CONSUMERS = [b"c", b"d", b"", b"\xfe"]
ENTRY_IDS = [b"1-1", b"2-1", b"3-1", b"5-1", b"7", b"9-9", b"12-1"]
IDS = [*ENTRY_IDS, b"0", b"-", b"+", b"$", b">", b"(2-1", b"(5", b"5-", b"-1", b"07-05", b"18446744073709551615", b""]
NUMBERS = [b"0", b"1", b"2", b"3", b"10", b"-1", b"x", b"1.5", b"9223372036854775807", b"9223372036854775808", b" 1"]
WORDS = [
    b"MAXLEN", b"MINID", b"~", b"=", b"LIMIT", b"KEEPREF", b"DELREF", b"ACKED", b"NOMKSTREAM", b"COUNT", b"STREAMS",
    b"GROUP", b"NOACK", b"CLAIM", b"MAXCOUNT", b"MAXSIZE", b"IDLE", b"RETRYCOUNT", b"FORCE", b"JUSTID", b"LASTID",
    b"IDS", b"SILENT", b"FAIL", b"FATAL", b"FULL", b"MKSTREAM", b"ENTRIESREAD", b"ENTRIESADDED", b"MAXDELETEDID",
    b"IDMP-DURATION", b"IDMP-MAXSIZE", b"foo", b"\xff", b"f", b"v",
]  # fmt: skip

# Forms of well-formed calls. Each slot is a list of words from which one is drawn.
SHAPES: list[list[list[bytes]]] = [
    [[b"XADD"], KEYS, [*ENTRY_IDS, b"13-*", b"14-*", b"15-*", b"*-1", b"16"], [b"f"], [b"v", b""]],
    [[b"XADD"], KEYS, [b"MAXLEN", b"MINID"], [b"~", b"=", b"2"], NUMBERS, ENTRY_IDS, [b"f"], [b"v"]],
    [[b"XTRIM"], KEYS, [b"MAXLEN", b"MINID"], [b"~", b"="], [*NUMBERS, *IDS], [b"ACKED", b"DELREF", b"LIMIT"]],
    [[b"XRANGE", b"XREVRANGE"], KEYS, IDS, IDS, [b"COUNT"], NUMBERS],
    [[b"XLEN"], KEYS],
    [[b"XDEL"], KEYS, IDS, IDS],
    [[b"XDELEX"], KEYS, [b"KEEPREF", b"DELREF", b"ACKED"], [b"IDS"], [b"1", b"2"], IDS, IDS],
    [[b"XREAD"], [b"COUNT", b"MAXCOUNT", b"MAXSIZE"], NUMBERS, [b"STREAMS"], KEYS, IDS],
    [[b"XREAD"], [b"STREAMS"], KEYS, KEYS, IDS, IDS],
    [[b"XREADGROUP"], [b"GROUP"], GROUPS, CONSUMERS, [b"COUNT"], NUMBERS, [b"STREAMS"], KEYS, [b">", *IDS]],
    [[b"XREADGROUP"], [b"GROUP"], GROUPS, CONSUMERS, [b"NOACK"], [b"STREAMS"], KEYS, KEYS, [b">"], [b">", b"0"]],
    [[b"XREADGROUP"], [b"GROUP"], GROUPS, CONSUMERS, [b"CLAIM"], [b"0", b"100000"], [b"STREAMS"], KEYS, [b">"]],
    [[b"XACK"], KEYS, GROUPS, IDS, IDS],
    [[b"XACKDEL"], KEYS, GROUPS, [b"KEEPREF", b"DELREF", b"ACKED"], [b"IDS"], [b"1", b"2"], IDS, IDS],
    [[b"XNACK"], KEYS, GROUPS, [b"SILENT", b"FAIL", b"FATAL"], [b"IDS"], [b"1", b"2"], IDS, [*IDS, b"FORCE"]],
    [[b"XCLAIM"], KEYS, GROUPS, CONSUMERS, [b"0", b"100000"], ENTRY_IDS, [*ENTRY_IDS, b"FORCE", b"JUSTID"]],
    [[b"XCLAIM"], KEYS, GROUPS, CONSUMERS, [b"0"], ENTRY_IDS, [b"RETRYCOUNT", b"IDLE", b"LASTID"], [*NUMBERS, *IDS]],
    [[b"XAUTOCLAIM"], KEYS, GROUPS, CONSUMERS, [b"0", b"100000"], IDS, [b"COUNT"], NUMBERS],
    [[b"XPENDING"], KEYS, GROUPS],
    [[b"XPENDING"], KEYS, GROUPS, IDS, IDS, NUMBERS, CONSUMERS],
    [[b"XGROUP"], [b"CREATE"], KEYS, GROUPS, IDS, [b"MKSTREAM", b"ENTRIESREAD"], NUMBERS],
    [[b"XGROUP"], [b"SETID"], KEYS, GROUPS, IDS],
    [[b"XGROUP"], [b"DESTROY"], KEYS, GROUPS],
    [[b"XGROUP"], [b"CREATECONSUMER", b"DELCONSUMER"], KEYS, GROUPS, CONSUMERS],
    [[b"XINFO"], [b"STREAM", b"GROUPS"], KEYS],
    [[b"XINFO"], [b"STREAM"], KEYS, [b"FULL"], [b"COUNT"], NUMBERS],
    [[b"XINFO"], [b"CONSUMERS"], KEYS, GROUPS],
    [[b"XSETID"], KEYS, [b"20-1", b"5-1", *IDS], [b"ENTRIESADDED", b"MAXDELETEDID"], [*NUMBERS, *ENTRY_IDS]],
    [[b"DEL", b"TYPE", b"EXISTS"], KEYS],
]  # fmt: skip
ANY_TOKEN = [*KEYS, *GROUPS, *CONSUMERS, *IDS, *NUMBERS, *WORDS]


def random_command(source: random.Random) -> list[bytes]:
    """A well-formed call, often with some words replaced, removed, repeated or added."""
    argv = [source.choice(slot) for slot in source.choice(SHAPES)]
    bends = source.choices([0, 1, 2, 3], [5, 3, 2, 1])[0]
    for _ in range(bends):
        place = source.randrange(1, len(argv) + 1)
        bend = source.randrange(4)
        if bend == 0 and place < len(argv):
            argv[place] = source.choice(ANY_TOKEN)
        elif bend == 1 and place < len(argv):
            del argv[place]
        elif bend == 2 and place < len(argv):
            argv.insert(place, argv[place])
        else:
            argv.insert(place, source.choice(ANY_TOKEN))
    return without_short_idle_times(argv)


def without_short_idle_times(argv: list[bytes]) -> list[bytes]:
    """The words with long idle times in place of short ones, whose effect depends on the speed of the machine."""
    idle_places = {index + 1 for index, word in enumerate(argv) if word in (b"IDLE", b"CLAIM")}
    idle_places |= {4} if argv[0] in (b"XCLAIM", b"XAUTOCLAIM") else set()
    return [
        b"100000" if index in idle_places and word.isdigit() and 0 < int(word) < 1000 else word
        for index, word in enumerate(argv)
    ]


def setup_script() -> Script:
    """A script that creates entries, groups, pending entries and a string."""
    commands = [
        *(f"XADD s {number}-1 f v" for number in (1, 2, 3, 5)), "XADD t 2-1 f v", "SET str x", "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 2", "XGROUP CREATE t g 0", "XREADGROUP GROUP g c COUNT 3 STREAMS s >",
    ]  # fmt: skip
    return Script("fuzz", "set-up", [Line(0, MAIN, ">", command) for command in commands])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands_get_the_same_answers(seed: int, headrace: Server, oracle: Server) -> None:
    source = random.Random(seed)
    commands = [random_command(source) for _ in range(COMMANDS_PER_SEED)]
    players = [Player(server, 2 + seed % 2) for server in (headrace, oracle)]
    wrong: list[str] = []
    try:
        for player in players:
            player.begin()
            player.run(setup_script())
        for number, argv in enumerate(commands):
            raw = [player.wires[MAIN].call(*argv) for player in players]
            ours, theirs = (normalise(reply, argv) for reply in raw)
            text = b" ".join(argv).decode("latin-1")
            if not agree(ours, theirs) and not is_known_difference(text, ours):
                wrong.append(f"seed {seed}, command {number}: {text!r}\n{first_difference(ours, theirs)}")
        states = [player.state() for player in players]
        assert [seen.name for seen in states[0]] == [seen.name for seen in states[1]]
        for ours_seen, theirs_seen in zip(*states, strict=True):
            if not ours_seen.agrees_with(theirs_seen):
                difference = first_difference(ours_seen.reply, theirs_seen.reply)
                wrong.append(f"seed {seed}, at the end: {theirs_seen.name}\n{difference}")
    finally:
        for player in players:
            player.end()
    if wrong:
        pytest.fail(report(f"seed {seed}", wrong), pytrace=False)
