"""XGROUP CONFIG: what a group does with its pending entries by itself. It is not in Redis."""

from __future__ import annotations

import logging
from typing import Final

from ...protocol.replies import OK, Reply
from ...store.group import Group
from ...store.policies.due_words import read_due_words
from ...store.policies.settings import GROUP_SETTINGS, Kind, Setting
from ...store.stream import Stream
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..policies.dead_letters import bury_spent
from ..policies.handing import begin_handing, end_handing
from ..policies.lines import APPLIERS
from ..policies.settings import parse_settings
from .entries import KEY_ARGUMENT
from .group import GROUP_ARGUMENT, require_group, require_stream

logger = logging.getLogger(__name__)

# The place of the first option.
FIRST_OPTION: Final = 4


def _argument(setting: Setting) -> Argument:
    name = setting.name.decode()
    if setting.kind in (Kind.FLAG, Kind.RELEASE):
        words = ("YES" if setting.kind is Kind.FLAG else "RELEASE", "NO")
        choices = tuple([Argument(word.lower(), "pure-token", token=word) for word in words])
        return Argument(name.lower(), "oneof", token=name, optional=True, arguments=choices)
    return Argument(name.lower(), "string" if setting.kind is Kind.NAME else "integer", token=name, optional=True)


OPTION_ARGUMENTS: Final = tuple([_argument(setting) for setting in GROUP_SETTINGS])


@command(
    "XGROUP|CONFIG",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(2, 2, 1, ("RW", "update")),
        KeySpec(0, 0, 0, ("RW", "insert"), keyword=b"DEADLETTER", start=FIRST_OPTION, is_option=True),
    ),
    categories=("stream",),
    group="stream",
    since="headrace 0.1",
    summary="Sets or shows what a group does with its pending entries by itself.",
    complexity="O(N) in the number of deliveries that are pending; O(1) to show.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, *OPTION_ARGUMENTS),
    differs="Not in Redis. The log gets a line that Redis skips.",
)
def xgroup_config(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP CONFIG key group [option value ...]. Without options, returns those that are set, as a map.

    `0`, `no` or an empty value takes an option back. Returns OK. Raises WrongType, NoGroup, GenericError.
    """
    key = argv[2]
    stream = require_stream(context, key)
    group = require_group(stream, key, argv[3])
    before = group.policy
    if len(argv) == FIRST_OPTION:
        return {} if before is None else dict(before.values())
    policy = parse_settings(argv[FIRST_OPTION:], key, before)
    words = [] if policy is None else policy.words()
    if words == ([] if before is None else before.words()):
        return OK
    group.configure(policy)
    context.log_policy([b"XGROUP", b"CONFIG", key, group.name, *words])
    begin_handing(context, key, group)
    bury_spent(context, key, stream, group)
    end_handing(context, key, group)
    context.db.signal_ready(key)
    client = context.client
    logger.info(
        "policy of group %r of stream %r set by user %r from %s: %s", group.name, key, client.user.name,
        client.address.decode() or "a script", b" ".join(words).decode(errors="backslashreplace") or "none",
    )  # fmt: skip
    return OK


# -- lines -----------------------------------------------------------------------------------------


def _group_at(context: Context, key: bytes, name: bytes) -> Group | None:
    value = context.db.keys.get(key)
    return value.groups.get(name) if isinstance(value, Stream) else None


def _apply_config(context: Context, words: list[bytes]) -> None:
    """Applies `XGROUP CONFIG key group option value ...`, which has all settings."""
    group = _group_at(context, words[2], words[3])
    if group is not None:
        group.configure(parse_settings(words[FIRST_OPTION:], words[2], None))
        context.visits.note((context.db.index, words[2], group.name), 0)


def _apply_due(context: Context, words: list[bytes]) -> None:
    """Applies `DUE key group due-ms id ...`. Entries that have an owner, or are not pending, have no due time."""
    group = _group_at(context, words[1], words[2])
    if group is None:
        return
    for entry_id, due_ms in read_due_words(words[3:]):
        if entry_id in group.pending.released:
            group.require_rules().delay(entry_id, due_ms)
    context.visits.note((context.db.index, words[1], group.name), 0)


APPLIERS[b"XGROUP"] = _apply_config
APPLIERS[b"DUE"] = _apply_due
