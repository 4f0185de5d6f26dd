"""Log records of claims with unusual times."""

from __future__ import annotations

from headrace.store.ids import make_id
from support.inprocess import Rig


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
