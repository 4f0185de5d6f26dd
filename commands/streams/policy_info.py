"""XINFO POLICY: the settings of a group, and what its policies have done. It is not in Redis."""

from __future__ import annotations

from ...protocol.replies import Reply
from ...store.errors import NoGroup, no_such_key
from ...store.group import Group
from ...store.policies.agenda import NEVER_MS
from ...store.policies.rules import PolicyCounts
from ..core.table import Flag, KeySpec, command
from ..execution.context import Context
from .entries import KEY_ARGUMENT
from .group import GROUP_ARGUMENT


@command(
    "XINFO|POLICY",
    arity=4,
    flags=Flag.READONLY,
    keys=(KeySpec(2, 2, 1, ("RO", "ACCESS")),),
    categories=("stream",),
    group="stream",
    since="headrace 0.1",
    summary="Shows the settings of a group, and what its policies have done.",
    complexity="O(N) in the number of deliveries that are guarded.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT),
    differs="Not in Redis.",
)
def xinfo_policy(context: Context, argv: list[bytes]) -> Reply:
    """XINFO POLICY key group. Returns a map: the settings, counts since the server started, what is held now, and when
    something becomes due next (Unix ms, null for never). Raises WrongType, NoGroup, GenericError.
    """
    stream = context.db.read_stream(argv[2], context.now_ms)
    if stream is None:
        raise no_such_key()
    group = stream.find_group(argv[3])
    if group is None:
        raise NoGroup.for_group(argv[2], argv[3])
    return policy_report(group, context.now_ms)


def policy_report(group: Group, now_ms: int) -> dict[bytes, Reply]:
    """What XINFO POLICY shows of a group."""
    rules, policy = group.pending.rules, group.policy
    counts = PolicyCounts() if rules is None else rules.counts
    due_ms = NEVER_MS if rules is None else rules.next_due_ms(now_ms)
    return {
        b"settings": {} if policy is None else dict(policy.values()),
        b"redelivered": counts.redelivered,
        b"dead-letters": counts.dead_letters,
        b"dead-letter-failures": counts.dead_letter_failures,
        b"consumers-expired": counts.consumers_expired,
        b"delayed": 0 if rules is None else rules.delayed_count,
        b"parked": 0 if rules is None else rules.parked_count,
        b"guarded": 0 if rules is None or rules.lease is None else rules.lease.guarded_count,
        b"next-due": None if due_ms == NEVER_MS else due_ms,
    }
