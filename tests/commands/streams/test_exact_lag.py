"""`stream-exact-lag`, which Redis does not have: lag is a number where Redis shows null."""

from __future__ import annotations

import pytest

from support.inprocess import Caller, Rig

# A deleted entry that the group has not read, and a group that begins between two deleted ones.
UNKNOWN_LAGS = (
    (("XGROUP CREATE s g 0", "XREADGROUP GROUP g a COUNT 2 STREAMS s >", "XDEL s 4-0"), 2),
    (("XDEL s 2-0 4-0", "XGROUP CREATE s g 3-0"), 1),
    (("XGROUP CREATE s g 3-5",), 2),
)


@pytest.fixture(params=UNKNOWN_LAGS, ids=["unread-deleted", "between-deleted", "between-entries"])
def unknown(request: pytest.FixtureRequest) -> tuple[Caller, int]:
    """A client of a server with a stream of five entries whose group has no known lag, and the lag that it has."""
    caller = Rig().connect()
    commands, lag = request.param
    caller.call(*(f"XADD s {number}-0 f v" for number in range(1, 6)), *commands)
    return caller, lag


def test_lag_is_a_number_as_soon_as_the_directive_says_so(unknown: tuple[Caller, int]) -> None:
    caller, lag = unknown
    for reply in (caller.call("XINFO GROUPS s"), caller.call("XINFO STREAM s FULL")):
        assert b"$3\r\nlag\r\n$-1\r\n" in reply
    caller.call("CONFIG SET stream-exact-lag yes")
    for reply in (caller.call("XINFO GROUPS s"), caller.call("XINFO STREAM s FULL")):
        assert b"$3\r\nlag\r\n:%d\r\n" % lag in reply
    caller.call("CONFIG SET stream-exact-lag no")
    assert b"$3\r\nlag\r\n$-1\r\n" in caller.call("XINFO GROUPS s")


def test_a_known_lag_stays_as_it_is() -> None:
    caller = Rig().connect()
    caller.call(*(f"XADD s {number}-0 f v" for number in range(1, 6)), "XGROUP CREATE s g 0")
    caller.call("XREADGROUP GROUP g a COUNT 2 STREAMS s >")
    before = caller.call("XINFO GROUPS s")
    caller.call("CONFIG SET stream-exact-lag yes")
    assert caller.call("XINFO GROUPS s") == before
