"""Policy lines that come from a log, an RDB file or a primary: they are applied and decide nothing.

`persistence.policy_lines` has their forms, and `store.policies.lines` the words of each kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from ...persistence.errors import BadPolicyLine, UnknownPolicyLine
from ...persistence.policy_lines import words_of_text
from ...store.database import Database
from ...store.errors import GenericError
from ..execution.context import Context

logger = logging.getLogger(__name__)

# Applies the words of one line, the first included, in `context.db`. It reads no clock and logs nothing. A key, group
# or ID that is missing is no error. Raises ReplyError, having changed nothing, for words that make no sense.
ApplyLine: TypeAlias = Callable[[Context, list[bytes]], None]

# By the first word in upper case. Modules that know a kind of line add theirs.
APPLIERS: Final[dict[bytes, ApplyLine]] = {}

# Where the key is among the words, by the first word; 1 for the others.
KEY_AT: Final = {b"XGROUP": 2}

# First words of the lines of a primary that are not known, each of which was warned of.
_unknown_names: Final[set[bytes]] = set()


def apply_line(context: Context, words: list[bytes]) -> None:
    """Apply a policy line in the current database.

    Raises UnknownPolicyLine if no applier knows it, ReplyError if its words make no sense.
    """
    name = words[0].upper()
    applier = APPLIERS.get(name)
    if applier is None:
        raise UnknownPolicyLine(words[0])
    if context.image is not None:
        context.preserve_keys(words[KEY_AT.get(name, 1) :][:1])
    try:
        applier(context, words)
    except (IndexError, ValueError, OverflowError) as error:
        # Words are missing, or are no numbers: a damaged file must not be taken for a defect of the server.
        raise GenericError(b"a policy line has other words than it needs") from error


def apply_line_in(context: Context, db: Database, words: list[bytes]) -> None:
    """Apply a policy line in a database, which may be one of a dataset that arrives. Raises as `apply_line` does."""
    before = context.db, context.replaying
    context.db, context.replaying = db, True
    try:
        apply_line(context, words)
    finally:
        context.db, context.replaying = before


def apply_text(context: Context, text: bytes) -> None:
    """Apply a policy line of a primary in the current database, and log it. One that cannot be read or is not known is
    left out: a newer primary may have written it. Raises ReplyError if its words make no sense.
    """
    try:
        words = words_of_text(text)
        apply_line(context, words)
        context.log_policy(words)
    except UnknownPolicyLine as unknown:
        warn_of_unknown(unknown)
    except BadPolicyLine as bad:
        logger.warning("The primary has sent %s", bad)


def warn_of_unknown(error: UnknownPolicyLine) -> None:
    """Log that lines of this kind are left out, once for each kind."""
    if error.name not in _unknown_names:
        _unknown_names.add(error.name)
        logger.warning("Policy lines of the primary are left out: %s", error)
