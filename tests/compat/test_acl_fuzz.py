"""Random ACL rules: both servers list them in the same form, and allow and refuse the same. Failures name the seed."""

from __future__ import annotations

import random

import pytest

from headrace.commands.core.categories import CATEGORIES
from support.comparison import report
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

USERS_COUNT = 25
RULES_COUNT_MAX = 7

COMMANDS = """
    get set xadd xread xreadgroup xgroup xgroup|create xinfo|stream xinfo client client|id client|kill config
    config|get select publish subscribe psubscribe del rename copy mset mget exists ping acl acl|whoami eval hget
    script|load nosuch client|nosuch get|k select|0 config|get|x debug|sleep exec multi keys scan flushall object
    object|encoding sort_ro GET Xinfo|STREAM
"""
GLOBS = ["*", "k*", "ro:*", "wo:*", "k[12]", "??", "", "a b", "k1"]
SWITCHES = """
    on off nopass resetpass >pw >pw2 <pw <pw2 #x reset resetkeys allkeys resetchannels allchannels nocommands
    allcommands
    clearselectors sanitize-payload skip-sanitize-payload nonsense ALLKEYS ResetKeys
"""
REQUESTS = """
    get k1|get ro:1|get wo:1|get x|set k1 v|set ro:1 v|set wo:1 v|set wo:1 v GET|set k1 v IFEQ x|mget k1 ro:1 x|
    mset k1 1 ro:1 2|rename ro:1 wo:1|rename k1 k2|copy ro:1 wo:1|xadd k1 * f v|xadd wo:1 * f v|del k1 x|exists wo:1|
    xread streams k1 ro:1 0 0|xreadgroup group g c streams k1 >|xgroup create k1 g 0|xinfo stream ro:1|xinfo help|
    object encoding k1|publish k1 m|subscribe k1 x|psubscribe k*|psubscribe k1|client id|client kill a b|config get x|
    select 0|select 1|acl whoami|ping|exec|multi|keys *|scan 0|flushall|auth x|hello|debug sleep 0|swapdb 0 1|
    ssubscribe k1|spublish k1 m|unsubscribe k1|object freq k1|touch k1 k2
"""


def random_rule(source: random.Random, *, within: bool = False) -> str:
    """One valid or invalid rule. `within` a selector there are fewer kinds of rules."""
    kind = source.randrange(8 if within else 10)
    if kind <= 2:
        return source.choice("+-") + source.choice(COMMANDS.split())
    if kind == 3:
        return source.choice("+-") + "@" + source.choice([*CATEGORIES, "all", "nosuch", "STREAM"])
    if kind <= 5:
        return source.choice(["~", "~", "%R~", "%W~", "%RW~", "%~", "%X~"]) + source.choice(GLOBS)
    if kind == 6:
        return "&" + source.choice(GLOBS)
    if kind == 7:
        return source.choice(["allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands"])
    if kind == 8:
        return source.choice(SWITCHES.split())
    inner = " ".join(random_rule(source, within=True) for _ in range(source.randrange(4)))
    return f"({inner})" if source.random() < 0.9 else f"({inner}"


def differences(source: random.Random, seed: int, ours: Wire, theirs: Wire) -> list[str]:
    """Differences between the servers for one user. The user gets random rules, a few at a time."""
    wrong = []
    for wire in (ours, theirs):
        wire.call("ACL", "DELUSER", "u")
    for _ in range(3):
        rules = [random_rule(source) for _ in range(source.randrange(1, RULES_COUNT_MAX))]
        for request in (["ACL", "SETUSER", "u", *rules], ["ACL", "GETUSER", "u"], ["ACL", "LIST"]):
            replies = [wire.call(*request) for wire in (ours, theirs)]
            if replies[0] != replies[1]:
                wrong.append(f"seed {seed}: {request}\n  ours   {replies[0]!r}\n  theirs {replies[1]!r}")
    for request in REQUESTS.split("|"):
        replies = [wire.call("ACL", "DRYRUN", "u", *request.split()) for wire in (ours, theirs)]
        if replies[0] != replies[1]:
            listed = theirs.call("ACL", "LIST")
            wrong.append(f"seed {seed}: {request} of {listed!r}\n  ours   {replies[0]!r}\n  theirs {replies[1]!r}")
    return wrong


@pytest.mark.parametrize("protocol", [2, 3])
def test_random_rules_mean_the_same(protocol: int, headrace: Server, oracle: Server) -> None:
    wrong: list[str] = []
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for seed in range(USERS_COUNT):
            wrong += differences(random.Random(f"{protocol} {seed}"), seed, ours, theirs)
        for wire in (ours, theirs):
            wire.call("ACL", "DELUSER", "u")
    assert not wrong, report("random rules", wrong)
