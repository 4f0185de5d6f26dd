"""Listings of very many groups, consumers and pending entries: of one moment, and made while they are sent."""

from __future__ import annotations

import pytest

from headrace.commands.core import long_replies
from support.inprocess import Caller, Rig

COUNT = long_replies.AT_ONCE_MAX + 1


@pytest.fixture
def caller() -> Caller:
    """A client of a server whose stream has many groups, of which the first has many consumers."""
    caller = Rig().connect()
    caller.call(*(f"XADD s {number}-1 f v" for number in range(1, COUNT + 1)))
    caller.call(*(f"XGROUP CREATE s g{number:05d} 0" for number in range(COUNT)))
    caller.call(*(f"XGROUP CREATECONSUMER s g00000 c{number:05d}" for number in range(COUNT)))
    caller.call("XREADGROUP GROUP g00000 c00007 STREAMS s >", "XNACK s g00000 FAIL IDS 2 3-1 4-1")
    return caller


# All are encoded in parts but the last: the table of pending entries encodes its entries faster than they are copied.
AT_ONCE = f"XPENDING s g00000 - + {COUNT}"
LINES = [
    "XINFO GROUPS s",
    "XINFO CONSUMERS s g00000",
    "XINFO STREAM s FULL",
    "XINFO STREAM s FULL COUNT 0",
    AT_ONCE,
]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", LINES)
def test_a_long_listing_is_that_of_its_moment_and_equals_a_short_one(
    line: str, protocol: int, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.call(f"HELLO {protocol}")
    with monkeypatch.context() as patch:
        patch.setattr(long_replies, "AT_ONCE_MAX", COUNT)
        whole = caller.call(line)
    words = [word.encode() for word in line.split()]
    caller.rig.dispatcher.execute(caller.session, [words], caller.rig.clock())
    out = list(caller.session.out)
    caller.session.out.clear()
    caller.call("XACK s g00000 1-1 5-1 900-1", "XDEL s 1-1")
    caller.call("XGROUP DELCONSUMER s g00000 c00500", "XGROUP DESTROY s g00700")
    pieces = [piece for part in out for piece in ([part] if type(part) is bytes else part)]
    assert line == AT_ONCE or len(pieces) > COUNT // long_replies.PER_PIECE
    assert b"".join(pieces) == whole
