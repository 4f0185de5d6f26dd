"""Well-formed inputs of every target. They are the fixed part of each run, and the inputs that mutations change."""

from __future__ import annotations

from functools import cache

from fuzz.lua_scripts import SEEDS as SCRIPTS
from headrace.persistence.checksum import with_checksums
from headrace.persistence.policy_lines import log_lines
from headrace.persistence.rdb import payload
from headrace.persistence.rdb.file import write_file
from headrace.store.image import keys_now
from support.inprocess import START_MS, Rig
from support.lines import split
from support.scripts import read_scripts
from support.wire import encode

LINES = [
    "XADD s 1-1 f v", "XADD s * f v", "XADD t MAXLEN ~ 2 IDMP p i * f v", "XGROUP CREATE s g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 2 STREAMS s >", "XREAD COUNT 1 STREAMS s t 0 0", "XACK s g 1-1",
    "XNACK s g FAIL IDS 1 1-1", "XCLAIM s g d 0 1-1 JUSTID", "XAUTOCLAIM s g d 0 0 COUNT 1", "XPENDING s g - + 10",
    "XINFO STREAM s FULL",
    "SET k v PX 100 NX", "GET k", "MULTI", "EXEC", "DEL s k", "EXPIRE s 10", "COPY s u", "XTRIM s MAXLEN 1 ACKED",
    "XDELEX s ACKED IDS 1 1-1", "SUBSCRIBE a b", "PUBLISH a x", "HELLO 3", "WATCH s", "RESTORE z 0 x REPLACE",
]  # fmt: skip
POLICIES = [
    [b"XGROUP", b"CONFIG", b"s", b"g", b"REDELIVER", b"1000,2000"],
    [b"DUE", b"s", b"g", b"17", *(b"%d-1" % number for number in range(1, 300))],
    [b"XCFGSET", b"s", b"MAXLEN", b"700", b"FORCE"],
]
CONFIGURATION = b"""# a comment
port 7000
bind 127.0.0.1 ::1
appendonly yes
appendfsync always
save 3600 1 300 100
maxmemory 100mb
requirepass "two words"
client-output-buffer-limit normal 0 0 0
stream-node-max-entries 50
user alice on >secret ~* +@all
"""


@cache
def seeds_of(target: str) -> tuple[bytes, ...]:
    """Well-formed inputs of the target."""
    return tuple(_MAKERS[target]())


def _frames() -> list[bytes]:
    frames = [encode(split(line)) for line in LINES]
    frames += [
        encode(split("XADD t MAXLEN ~ 100 * f v g w")),
        b"PING\r\n",
        b"SET k 'a b'\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"\r\n",
        b"*1\r\n$0\r\n\r\n",
        b"*2\r\n$1\r\na\r\n$-1\r\n",
    ]
    return frames


def _pipelines() -> list[bytes]:
    frames = _frames()
    scripts = [
        b"".join(encode(split(line.command)) for line in script.lines if line.mode == ">" and "<id" not in line.command)
        for script in read_scripts()[::6]
    ]
    return [*frames, b"".join(frames), *scripts]


def _filled() -> Rig:
    rig = Rig()
    caller = rig.connect()
    caller.call(*[line for line in LINES if not line.startswith(("SUB", "DEL", "HELLO", "MULTI", "EXEC"))])
    caller.call("XGROUP CREATE empty g 0 MKSTREAM", "XADD bare 1-1 f v", "XDEL bare 1-1")  # the smallest streams
    return rig


def _files() -> list[bytes]:
    rig = _filled()
    rig.connect().call(*[" ".join(map(bytes.decode, words)) for words in (POLICIES[0], POLICIES[2])])
    store = rig.server.store
    return [
        b"".join(write_file(keys_now(store), {b"aof-base": b"1"}, now_ms=START_MS, compress=each)) for each in (0, 1)
    ]


def _payloads() -> list[bytes]:
    db = _filled().server.store.databases[0]
    return [b"".join(payload.dump(value, now_ms=START_MS)) for _, value in db.keys.items()]


def _logs() -> list[bytes]:
    records = [encode(split(line)) for line in ("SELECT 0", *LINES[:3], *LINES[3:5], "XDEL s 1-1", "DEL t")]
    grouped = [*records, encode(["MULTI"]), *records[1:3], encode(["EXEC"])]
    blocks = [b"".join(records[:3]), b"#TS:1700000000\r\n" + b"".join(records[3:]), b"".join(grouped)]
    checked = b"".join(with_checksums(blocks))
    policies = [log_lines(words) for words in POLICIES]
    governed = [*records[:3], *policies, encode(["MULTI"]), policies[0], records[1], policies[1], encode(["EXEC"])]
    logs = [b"".join(records), b"".join(grouped), records[1], checked, checked + blocks[0], _files()[0] + blocks[0]]
    return [*logs, b"".join(governed), b"".join(with_checksums([b"".join(governed[:5]), b"".join(governed[5:])]))]


_MAKERS = {
    "resp": _frames,
    "commands": _pipelines,
    "rdb": _files,
    "restore": _payloads,
    "aof": _logs,
    "config": lambda: [CONFIGURATION, *CONFIGURATION.splitlines(keepends=True)],
    "scripts": lambda: [script.encode("latin-1") for script in SCRIPTS],
}
