"""The serialized values that sequences give to RESTORE."""

from __future__ import annotations

from support.replies import parse
from support.servers import Server


def make_payloads(oracle: Server) -> list[bytes]:
    """Redis' DUMP of a string, a stream with a group, a stream without entries, and one with deleted entries."""
    with oracle.connect() as wire:
        wire.call("SET", "p0", "value")
        for number in range(1, 8):
            wire.call("XADD", "p1", f"{number}-1", "f", "v")
            wire.call("XADD", "p3", f"{number}-1", "f", number)
        wire.call("XGROUP", "CREATE", "p1", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "p1", ">")
        wire.call("XGROUP", "CREATE", "p2", "h", "$", "MKSTREAM")
        wire.call("XDEL", "p3", "2-1", "3-1", "7-1")
        return [parse(wire.call("DUMP", f"p{number}")).value for number in range(4)]
