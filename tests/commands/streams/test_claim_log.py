"""Log records of claims with unusual times."""

from __future__ import annotations

import pytest

from headrace.server.storage.replay import loading
from headrace.store.ids import make_id
from support.inprocess import START_MS, Rig
from support.lines import split


def test_a_delivery_time_before_1970_is_logged_as_zero() -> None:
    """A forged RESTORE can contain such a time, and a dropped entry is logged with its old delivery time."""
    rig = Rig()
    caller = rig.connect()
    for line in ("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 2-1", "XGROUP CREATECONSUMER s g c"):
        caller.call(line)
    group = rig.server.store.databases[0].streams[b"s"].groups[b"g"]
    group.pending.deliver([make_id(1, 1), make_id(2, 1)], group.consumers[b"c"], time_ms=-5, count=1)
    caller.call("XDEL s 1-1")
    rig.log.units.clear()
    assert caller.call("XAUTOCLAIM s g d 0 0 JUSTID").endswith(b"*1\r\n$3\r\n1-1\r\n")
    logged = [record for unit in rig.log.units for record in unit]
    assert any(b" 1-1 TIME 0 " in record for record in logged), logged


RECORDS = ("FORCE JUSTID LASTID 1-1", "JUSTID FORCE")


@pytest.mark.parametrize("options", RECORDS)
def test_a_recorded_delivery_keeps_a_time_that_is_ahead_of_this_clock(options: str) -> None:
    """Of a primary whose clock is ahead, or of this server before its clock was set back."""
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0")
    with loading(rig.dispatcher.context) as replay:
        for number in (1, 2):
            replay.apply(split(f"XCLAIM s g c 0 {number}-1 TIME {START_MS + 60_000} RETRYCOUNT 1 {options}"))
    assert b":%d\r\n" % (START_MS + 60_000) in caller.call("XINFO STREAM s FULL")
    assert caller.call("XPENDING s g - + 1") == b"*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\nc\r\n:0\r\n:1\r\n"


def test_a_client_cannot_set_a_delivery_time_in_the_future() -> None:
    caller = Rig().connect()
    caller.call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    caller.call(f"XCLAIM s g c 0 1-1 TIME {START_MS + 60_000} JUSTID")
    shown = caller.call("XINFO STREAM s FULL")
    assert b":%d\r\n" % (START_MS + 60_000) not in shown
    assert b":%d\r\n" % START_MS in shown
