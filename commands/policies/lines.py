"""Policy lines that come from a log, an RDB file or a primary: they are applied and decide nothing.

`persistence.policy_lines` has their forms, and `store.policies.lines` the words of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ...persistence.errors import UnknownPolicyLine
from ..execution.context import Context

# Applies the words of one line, the first included, in `context.db`. It reads no clock and logs nothing. A key, group
# or ID that is missing is no error. Raises ReplyError, having changed nothing, for words that make no sense.
ApplyLine: TypeAlias = Callable[[Context, list[bytes]], None]

# By the first word in upper case. Modules that know a kind of line add theirs.
APPLIERS: Final[dict[bytes, ApplyLine]] = {}


def apply_line(context: Context, words: list[bytes]) -> None:
    """Apply a policy line in the current database.

    Raises UnknownPolicyLine if no applier knows it, ReplyError if its words make no sense.
    """
    applier = APPLIERS.get(words[0].upper())
    if applier is None:
        raise UnknownPolicyLine(words[0])
    applier(context, words)
