"""Random glob patterns match the same names on both servers, in every command that takes a pattern.

These tests find combinations of classes, ranges, escapes and stars that no other test has. A failure names the seed and
the request.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from support.servers import Server

pytestmark = pytest.mark.oracle

SEEDS = range(4)
PATTERNS_PER_SEED = 400
PIECES = [b"a", b"b", b"A", b"*", b"*", b"?", b"[", b"]", b"^", b"-", b"\\", b"\x80", b"\xff", b"\0"]
TEXT_BYTES = b"abA-]^\\[\x80\xff\0"
NAME_PIECES = [b"*", b"?", b"[", b"]", b"^", b"-", b"\\", *(bytes((byte,)) for byte in b"aegmsxAEGMSXZz")]


def requests(rng: random.Random) -> Iterator[tuple[bytes, ...]]:
    for _ in range(PATTERNS_PER_SEED):
        pattern = b"".join(rng.choices(PIECES, k=rng.randrange(1, 14)))
        of_name = b"".join(rng.choices(NAME_PIECES, k=rng.randrange(1, 9)))
        yield b"KEYS", pattern
        yield b"SCAN", b"0", b"MATCH", pattern, b"COUNT", b"1000"
        yield b"PUBSUB", b"CHANNELS", pattern
        yield b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", of_name
        yield b"ACL", b"SETUSER", b"u", b"resetkeys", b"%R~" + pattern.replace(b"\0", b"")
        yield b"ACL", b"DRYRUN", b"u", b"GET", rng.choice((b"", b"a", b"ab", b"\xff", b"b-a", b"]"))
        inside = rng.choice((b"t", b"T", b"S-t", b"T-s", b"Z-a", b"\\t", b"\\T", b"^t", b"^S-U", b"t\0"))
        yield b"CONFIG", b"GET", b"[%b]imeout%b" % (inside, rng.choice((b"", b"*", b"\0x")))


@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_match_the_same_names(seed: int, headrace: Server, oracle: Server) -> None:
    rng = random.Random(seed)
    texts = {bytes(rng.choices(TEXT_BYTES, k=rng.choice((0, 1, 1, 2, 3, 5, 9)))) for _ in range(80)}
    with headrace.connect(3) as ours, oracle.connect(3) as theirs, headrace.connect() as one, oracle.connect() as other:
        for wire, listener in ((ours, one), (theirs, other)):
            wire.call("MSET", *(word for text in sorted(texts) for word in (text, b"x")))
            wire.call("ACL", "SETUSER", "u", "on", "+@all")
            for text in sorted(texts):
                listener.call("SUBSCRIBE", text)
        listed = [set(wire.call("COMMAND", "LIST").split(b"\r\n")) for wire in (ours, theirs)]
        commands = {line for line in set.intersection(*listed) if line[:1].isalpha()}
        for request in requests(rng):
            found, expected = (shape(wire.call(*request)) for wire in (ours, theirs))
            if request[0] == b"COMMAND":
                found, expected = ([line for line in lines if line in commands] for lines in (found, expected))
            assert found == expected, request
            if request[0] == b"PUBSUB":
                for listener in (one, other):
                    listener.call("PSUBSCRIBE", request[-1])
                channel = rng.choice((b"", b"a", b"ab", b"\xff", b"b-a", b"]", b"*"))
                assert ours.call("PUBLISH", channel, "x") == theirs.call("PUBLISH", channel, "x"), (request, channel)
                for listener in (one, other):
                    listener.send("PUNSUBSCRIBE", request[-1])
                    while not listener.receive().startswith(b"*3\r\n$12\r\npunsubscribe"):
                        pass


def shape(reply: bytes) -> list[bytes]:
    """The lines of a reply in sorted order, for replies without a defined order."""
    return sorted(reply.split(b"\r\n"))
