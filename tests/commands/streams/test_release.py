"""XNACK FATAL: the delivery count of an entry afterwards, as in Redis 8.10.2."""

from __future__ import annotations

import pytest

from support.inprocess import Rig


@pytest.mark.parametrize(
    "line",
    [
        "XCLAIM s g d 0 1-0",
        "XCLAIM s g d 0 1-0 RETRYCOUNT 9223372036854775807",
        "XAUTOCLAIM s g d 0 0",
        "XREADGROUP GROUP g d CLAIM 0 STREAMS s >",
    ],
)
def test_the_delivery_count_after_xnack_fatal_is_the_maximum_and_stays_so(line: str) -> None:
    caller = Rig().connect()
    caller.call("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    assert caller.call("XNACK s g FATAL IDS 1 1-0") == b":1\r\n"
    released = b"*1\r\n*4\r\n$3\r\n1-0\r\n$0\r\n\r\n:-1\r\n:9223372036854775807\r\n"
    assert caller.call("XPENDING s g - + 9") == released
    assert b"1-0" in caller.call(line)
    claimed = b"*1\r\n*4\r\n$3\r\n1-0\r\n$1\r\nd\r\n:0\r\n:9223372036854775807\r\n"
    assert caller.call("XPENDING s g - + 9") == claimed
