"""The minimum idle time: it counts from the delivery of an entry, to the millisecond."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

IDLE_MS = 50
NONE_CLAIMED = b"*-1\r\n", b"*0\r\n", b"*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n"


@pytest.mark.parametrize(
    "line",
    [
        "XCLAIM s g d {min_idle} 1-1 JUSTID",
        "XAUTOCLAIM s g d {min_idle} 0 JUSTID",
        "XAUTOCLAIM s g d {min_idle} 0 COUNT 1",
        "XPENDING s g IDLE {min_idle} - + 10",
        "XPENDING s g IDLE {min_idle} - + 10 c",
        "XREADGROUP GROUP g d CLAIM {min_idle} STREAMS s >",
    ],
)
def test_an_entry_is_claimed_from_the_millisecond_of_its_minimum_idle_time_on(line: str) -> None:
    for more_ms, is_found in ((0, True), (1, False), (-1, True)):
        rig = Rig()
        caller = rig.connect()
        caller.call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
        rig.pass_time(IDLE_MS)
        reply = caller.call(line.format(min_idle=IDLE_MS + more_ms))
        assert (b"1-1" in reply) is is_found, reply
        assert is_found or reply in NONE_CLAIMED


def test_any_minimum_idle_time_claims_a_released_entry() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XNACK s g FAIL IDS 1 1-1")
    for line in ("XCLAIM s g d 9999999999999 1-1 JUSTID", "XAUTOCLAIM s g e 9999999999999 0 JUSTID"):
        assert b"1-1" in caller.call(line)
        caller.call("XNACK s g FAIL IDS 1 1-1")
