"""HSCAN, SSCAN and ZSCAN: COUNT is honoured where Redis honours it, and each member that stays is returned."""

from __future__ import annotations

import pytest

from support.inprocess import Rig
from support.replies import parse

COUNT = 200
PAIRS = " ".join(f"{number} {number}" for number in range(COUNT))
WORDS = " ".join(f"m{number}" for number in range(COUNT))


@pytest.mark.parametrize(
    ("fill", "line", "more"),
    [
        (f"HSET k {PAIRS} long {'v' * 65}", "HSCAN k {} COUNT 20 NOVALUES", "HSET k new{} v"),
        (f"SADD k {WORDS}", "SSCAN k {} COUNT 20", "SADD k new{}"),
        (f"ZADD k {PAIRS}", "ZSCAN k {} COUNT 20", "ZADD k 1 new{}"),
    ],
)
@pytest.mark.parametrize("added_count", [0, 400])
def test_a_walk_returns_members_of_a_hash_table_in_parts(fill: str, line: str, more: str, added_count: int) -> None:
    caller = Rig().connect()
    caller.call(fill)
    members = {f"m{number}".encode() if line[0] == "S" else b"%d" % number for number in range(COUNT)}
    seen: list[bytes] = []
    cursor, calls_count = "0", 0
    while calls_count == 0 or cursor != "0":
        after, found = parse(caller.call(line.format(cursor))).value
        words = [node.value for node in found.value]
        assert len(words) <= 40
        seen += words
        cursor = after.value.decode()
        if added_count and not calls_count:
            # Then they are no longer in one block.
            caller.call(*[more.format(number) for number in range(added_count)])
        calls_count += 1
    assert calls_count >= COUNT // 20
    assert members <= set(seen)


@pytest.mark.parametrize(
    ("fill", "line"),
    [
        ("HSET k " + " ".join(f"{number} v" for number in range(100)), "HSCAN k 0 COUNT 1 NOVALUES"),
        ("SADD k " + " ".join(f"m{number}" for number in range(100)), "SSCAN k 0 COUNT 1"),
        ("SADD k " + " ".join(str(number) for number in range(100)), "SSCAN k 0 COUNT 1"),
        ("HIMPORT PREPARE f " + WORDS + ";HIMPORT SET k f " + WORDS, "HSCAN k 0 COUNT 1 NOVALUES"),
    ],
)
def test_the_other_encodings_are_returned_whole(fill: str, line: str) -> None:
    caller = Rig().connect()
    caller.call(*fill.split(";"))
    after, found = parse(caller.call(line)).value
    assert after.value == b"0"
    assert len(found.value) in (100, COUNT)
