"""A stream with a group and two workers, for tests of policies."""

from __future__ import annotations

import re
from typing import Any

from headrace.store.stream import Stream
from support.inprocess import Caller, Rig


class Scene:
    """The stream `s` with `count` entries 1-0, 2-0, ... and the group `g`, whose settings are `settings`."""

    def __init__(self, settings: str = "", *, count: int = 2, **directives: Any) -> None:
        self.rig = Rig(**directives)
        self.alice, self.bob = self.rig.connect(), self.rig.connect()
        self.alice.call(
            *(f"XADD s {number}-0 f v{number}" for number in range(1, count + 1)), "XGROUP CREATE s g 0 MKSTREAM"
        )
        if settings:
            assert self.alice.call(f"XGROUP CONFIG s g {settings}") == b"+OK\r\n"
        self.rig.log.units.clear()

    @property
    def logged(self) -> list[bytes]:
        """All records since the scene began, in order."""
        return [record for unit in self.rig.log.units for record in unit]

    @property
    def stream(self) -> Stream:
        """The stream itself."""
        return self.rig.server.store.databases[0].streams[b"s"]

    def read(self, caller: Caller, name: str, options: str = "") -> list[bytes]:
        """The IDs that a plain read gives to a consumer."""
        return ids(caller.call(f"XREADGROUP GROUP g {name} {options} STREAMS s >"))

    def pending(self) -> list[tuple[bytes, bytes, int]]:
        """ID, owner and delivery count of each pending entry, as XPENDING shows them."""
        reply = self.alice.call("XPENDING s g - + 1000")
        rows = re.findall(rb"\*4\r\n\$\d+\r\n(\S+)\r\n\$\d+\r\n(\S*)\r\n:\S+\r\n:(\d+)\r\n", reply)
        return [(entry_id, owner, int(count)) for entry_id, owner, count in rows]

    def report(self) -> dict[bytes, int]:
        """The counts of XINFO POLICY."""
        pairs = re.findall(rb"\r\n([a-z-]+)\r\n:(\d+)", self.alice.call("XINFO POLICY s g"))
        return {name: int(number) for name, number in pairs}

    def check(self) -> None:
        """Assert that all views of the stream agree."""
        self.stream.check()


def ids(reply: bytes) -> list[bytes]:
    """The entry IDs of a reply, in order."""
    return re.findall(rb"\r\n(\d+-\d+)\r\n", reply)
