"""How a sequence may begin: prepared states that random requests alone rarely reach.

Each opening is a list of lines, `client> request`. A new opening needs a name here and a place in OPENINGS. A client
sends nothing after a request that blocks: the random requests decide what happens then.
"""

from __future__ import annotations

from differential.values import Token
from support.lines import split

Request = tuple[Token, ...]
Step = tuple[str, Request]


def _steps(text: str) -> list[Step]:
    lines = [line.strip().split("> ", 1) for line in text.strip().splitlines()]
    return [(client, tuple(split(request))) for client, request in lines]


# Most sequences begin with this dataset.
POPULATED = _steps("""
    a> XADD s 1-1 f v
    a> XADD s 2-1 f v
    a> XADD s 3-1 f v
    a> XADD s 5-1 f v
    a> XADD t 2-1 f v
    a> SET str x
    a> SET num 7
    a> XGROUP CREATE s g 0
    a> XGROUP CREATE s h 2
    a> XGROUP CREATE t g 0
    a> XREADGROUP GROUP g c COUNT 3 STREAMS s >
""")

# POPULATED with long idle times, which show whether a request resets them.
LONG_IDLE = [*POPULATED, *_steps("a> XCLAIM s g c 0 1-1 2-1 IDLE 50000000 JUSTID")]

# Fieldsets, which belong to their clients, and a hash of one of them.
IMPORTED = [*POPULATED, *_steps("""
    a> HIMPORT PREPARE fs f g
    b> HIMPORT PREPARE fs f
    a> HIMPORT SET h fs 1 x
""")]  # fmt: skip

# CLIENT CACHING needs a client that tracks with OPTIN or OPTOUT.
TRACKED = [[*POPULATED, *_steps(text)] for text in (
    "b> CLIENT TRACKING ON OPTIN",
    "b> CLIENT TRACKING ON OPTOUT",
    """
    b> CLIENT TRACKING ON OPTIN
    b> CLIENT CACHING YES
    b> XLEN s
    """,
    """
    b> CLIENT TRACKING ON OPTOUT
    b> CLIENT CACHING NO
    b> XLEN s
    b> GET str
    """,
)]  # fmt: skip

# A subscriber to keyspace events, which are always on.
SUBSCRIBED = [*_steps("c> PSUBSCRIBE __key*"), *LONG_IDLE]

# A stream of seven nodes, for `~` and LIMIT.
MANY_NODES = _steps("""
    a> CONFIG SET stream-node-max-entries 3
    a> XGROUP CREATE s g 0 MKSTREAM
    a> XGROUP CREATE s h 4
""") + [("a", (b"XADD", b"s", b"%d-1" % number, b"f", b"%d" % number)) for number in range(1, 21)]

# MANY_NODES and fifteen pending entries of two consumers.
MANY_PENDING = [*MANY_NODES, *_steps("""
    a> XREADGROUP GROUP g c COUNT 9 STREAMS s >
    a> XREADGROUP GROUP g d COUNT 6 STREAMS s >
""")]  # fmt: skip

# LIMIT at and next to the boundary of a node.
TRIMMED = [[*MANY_PENDING, *_steps(f"a> {line}")] for line in (
    "XTRIM s MAXLEN ~ 5 LIMIT 6",
    "XTRIM s MAXLEN ~ 5 LIMIT 5",
    "XTRIM s MINID ~ 14-1 LIMIT 9",
    "XTRIM s MAXLEN ~ 5 DELREF LIMIT 6",
    "XADD s MAXLEN ~ 8 LIMIT 9 21-1 f v",
    "XADD s ACKED MINID ~ 13 LIMIT 8 21-1 f v",
)]  # fmt: skip

# Ten entries with a short idle time before the first one with a long one: XAUTOCLAIM checks ten for each of COUNT.
FEW_IDLE = [*MANY_PENDING, *_steps("""
    a> XCLAIM s g d 0 11-1 12-1 13-1 IDLE 50000000 JUSTID
    a> XAUTOCLAIM s g e 40000000 0 COUNT 1
    a> XAUTOCLAIM s g e 40000000 2 COUNT 1 JUSTID
""")]  # fmt: skip

# Released entries next to owned ones, with short and long idle times.
RELEASED = [*MANY_PENDING, *_steps("""
    a> XCLAIM s g c 0 2-1 IDLE 50000000 JUSTID
    a> XNACK s g FAIL IDS 3 4-1 3-1 11-1
    a> XNACK s g SILENT IDS 2 2-1 12-1
""")]  # fmt: skip

# Claims with a minimum idle time that no entry has.
CLAIMED = [[*RELEASED, *_steps(f"a> {line}")] for line in (
    "XCLAIM s g e 90000000 1-1 2-1 3-1 11-1",
    "XCLAIM s g e 9223372036854775807 1-1 2-1 3-1 11-1",
    "XAUTOCLAIM s g e 9223372036854775807 - COUNT 3",
    "XREADGROUP GROUP g e CLAIM 9223372036854775807 STREAMS s >",
)]  # fmt: skip

_GROUP_OF_READERS = _steps("""
    a> XGROUP CREATE s g $ MKSTREAM
    b> XREADGROUP GROUP g c BLOCK 0 COUNT 1 STREAMS s >
    c> XREADGROUP GROUP g d BLOCK 0 STREAMS s >
""")
_READERS_WITH_AND_WITHOUT_GROUP = _steps("""
    a> XADD s 1-1 f v
    a> XGROUP CREATE s g $
    c> XREADGROUP GROUP g d BLOCK 0 COUNT 1 STREAMS t s > >
    b> XREAD BLOCK 0 STREAMS s t $ 0
""")
_READERS = _steps("""
    a> XADD s 1-1 f v
    b> XREAD BLOCK 0 COUNT 1 STREAMS t s $ $
    c> XREAD BLOCK 0 STREAMS s t + 0
""")
_READERS_OF_TWO_STREAMS = _steps("""
    a> XGROUP CREATE s g 0 MKSTREAM
    a> XGROUP CREATE t g 0 MKSTREAM
    c> XREADGROUP GROUP g c BLOCK 0 COUNT 1 STREAMS s t > >
    b> XREADGROUP GROUP g c BLOCK 0 COUNT 1 NOACK STREAMS t s > >
""")
_ADDITIONS = [_steps(text) for text in (
    "a> XADD s 2-1 f v",
    """
    a> XADD s 2-1 f v
    a> XADD s 3-1 f v
    """,
    """
    a> MULTI
    a> XADD t 2-1 f v
    a> XADD s 3-1 f v
    a> XADD s 4-1 f v
    a> EXEC
    """,
)]  # fmt: skip
# Two clients wait for the same key.
BLOCKED = [_GROUP_OF_READERS, _READERS_WITH_AND_WITHOUT_GROUP, _READERS, _READERS_OF_TWO_STREAMS]

# The first client serves one of them, or both in the order in which they blocked.
SERVED = [[*readers, *additions] for readers in BLOCKED for additions in _ADDITIONS]

# Transactions that WATCH cancels.
WATCHED = [[*POPULATED, *_steps(text)] for text in (
    """
    a> WATCH s str
    c> APPEND str x
    a> MULTI
    a> XLEN s
    a> EXEC
    """,
    """
    b> WATCH s
    a> XADD s 6-1 f v
    b> MULTI
    b> SET str y
    """,
)]  # fmt: skip

# (Relative frequency, openings).
OPENINGS: list[tuple[int, list[list[Step]]]] = [
    (4, [[]]),
    (8, [POPULATED]),
    (4, [LONG_IDLE]),
    (3, [IMPORTED]),
    (4, [SUBSCRIBED]),
    (8, TRACKED),
    (3, [MANY_NODES]),
    (3, [MANY_PENDING]),
    (3, TRIMMED),
    (2, [FEW_IDLE]),
    (2, [RELEASED]),
    (3, CLAIMED),
    (3, BLOCKED),
    (4, SERVED),
    (1, WATCHED),
]
