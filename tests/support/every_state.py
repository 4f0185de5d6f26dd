"""Datasets with streams in every state that they can live through."""

from __future__ import annotations

import random

from support.wire import Argument, Wire

KEYS_COUNT = 12
STEPS_COUNT = 10
VALUES: list[Argument] = ["0", "-129", "007", "-0", "", "9223372036854775807", "9223372036854775808", "text", b"\xff\0"]
VALUES += ["x" * size for size in (20, 63, 64, 126, 300, 5000)]


def fill(wire: Wire, key: str, source: random.Random) -> None:
    """Make a stream, and do to it whatever a stream can live through."""
    length = source.choice([1, 5, 60, 250])
    for index in range(1, length + 1):
        wire.call("XADD", key, f"{index // 3 + 1}-{index}", "temp", source.choice(VALUES), "n", source.randrange(9**9))
    for group in ("g", "h"):
        wire.call("XGROUP", "CREATE", key, group, source.choice(["0", "$", "2-4"]))
        wire.call("XGROUP", "CREATECONSUMER", key, group, "idle")
    for _ in range(STEPS_COUNT):
        index, count = source.randrange(1, length + 1), source.choice([0, 2**63 - 1])
        entry_id, consumer = f"{index // 3 + 1}-{index}", source.choice(["c1", "c2", "consumer" * 5])
        steps: list[list[Argument]] = [
            ["XREADGROUP", "GROUP", "g", consumer, "COUNT", 1 + length // 4, "STREAMS", key, ">"],
            ["XACK", key, "g", entry_id],
            ["XCLAIM", key, "g", consumer, 0, entry_id, "TIME", 10**9 + index, "RETRYCOUNT", count],
            ["XNACK", key, "g", source.choice(["SILENT", "FAIL", "FATAL"]), "IDS", 1, entry_id],
            ["XADD", key, "IDMP", source.choice(["p1", "p2"]), f"i{index % 5}", "*", "a", 1],
            ["XCFGSET", key, "IDMP-DURATION", 300, "IDMP-MAXSIZE", 7],
        ]  # fmt: skip
        wire.call(*source.choice(steps[:1] + steps))
        if key.startswith("holes"):
            wire.call("XDEL", key, entry_id)


def fill_all(wire: Wire, seed: int) -> None:
    """Keys of all kinds in databases 0 and 3."""
    source = random.Random(seed)
    for number in range(KEYS_COUNT):
        fill(wire, f"{'holes' if number % 3 == 0 else 's'}{number}", source)
    wire.call("XADD", "empty", "1-1", "a", "1")
    wire.call("XDEL", "empty", "1-1")
    wire.call("PEXPIREAT", "s1", 1999999999999)
    for number, value in enumerate([*VALUES, "word " * 100]):
        wire.call("SET", f"text{number}", value)
    wire.call("SELECT", 3)
    wire.call("XADD", "s", "1-1", "f", "v")
    wire.call("SELECT", 0)
