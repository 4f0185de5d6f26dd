"""Hexadecimal scores are read as Redis reads them."""

from __future__ import annotations

import pytest

from support.servers import Server

NUMBERS = [
    "0x1p3", "0X.8P1", "-0xa.8p0", "+0x10", "0x0p-99999", "0x0", "0x0ep-2000", "0xep-99999", "0x1p-99999", "0xap99999",
    "0x0.000ep-2000", "0x1p-1074", "0x1p-1075", "0x1.8p-1075", "0x", "0x.", "0xg", "0x1p", "0x1.1.1",
    "0x" + "1" * 5000 + "x",
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:20])
def test_a_hexadecimal_score_is_that_of_redis(number: str, headrace: Server, oracle: Server) -> None:
    for words in (("ZADD", "z", number, "m"), ("ZINCRBY", "z", number, "n"), ("ZRANGE", "z", 0, -1, "WITHSCORES")):
        with headrace.connect() as ours, oracle.connect() as theirs:
            assert ours.call(*words) == theirs.call(*words), words
