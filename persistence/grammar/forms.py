"""The places of the words of stream records, for readers of a log that Headrace or Redis has written.

The options that may be between the words are listed as well. The functions that write records are in `streams`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Form(NamedTuple):
    """The places of a record's words, counted from the name of the command, which is word 0."""

    # A record with fewer words is invalid.
    words_min: int
    key_at: int = 1
    # 0: there is no group. The same holds for the places below.
    group_at: int = 0
    consumer_at: int = 0
    # The first ID; all words from here on are IDs, for XCLAIM those that begin with a digit.
    ids_at: int = 0


# `XADD key [option ...] id field value ...`.
XADD: Final = Form(5)
# `XCLAIM key group consumer min-idle id [id ...] TIME ms RETRYCOUNT count ...`.
XCLAIM: Final = Form(6, group_at=2, consumer_at=3, ids_at=5)
# `XACK key group id [id ...]`.
XACK: Final = Form(4, group_at=2, ids_at=3)
# `XDEL key id [id ...]`.
XDEL: Final = Form(3, ids_at=2)
# `XACKDEL key group [mode] IDS numids id [id ...]`.
XACKDEL: Final = Form(6, group_at=2)
# `XNACK key group mode IDS numids id [id ...] [RETRYCOUNT count] [FORCE]`.
XNACK: Final = Form(7, group_at=2)
# `XDELEX key [mode] IDS numids id [id ...]`.
XDELEX: Final = Form(5)
# `XTRIM key <MAXLEN | MINID> [= | ~] threshold ...`.
XTRIM: Final = Form(4)
# `XGROUP action key group ...`, with an ID or a consumer as the next word.
XGROUP: Final = Form(4, key_at=2, group_at=3)

# The first word of XADD that is an option or the ID.
XADD_OPTIONS_AT: Final = 2
# The number of words of an option of XADD, its name included. An option that is not listed is one word.
XADD_OPTION_WORDS: Final = {b"IDMP": 3, b"IDMPAUTO": 2, b"MAXLEN": 2, b"MINID": 2, b"LIMIT": 2}
# Options of XADD that have one more word if an operator follows their name.
TRIM_STRATEGIES: Final = (b"MAXLEN", b"MINID")
TRIM_OPERATORS: Final = (b"=", b"~")

# Places of the options TIME and RETRYCOUNT, counted from the end of the IDs of XCLAIM.
CLAIM_TIME_AFTER: Final = 0
CLAIM_COUNT_AFTER: Final = 2

XNACK_MODE_AT: Final = 3
XGROUP_ACTION_AT: Final = 1
# The ID, or the consumer for the actions below.
XGROUP_NEXT_AT: Final = 4
XGROUP_CONSUMER_ACTIONS: Final = ("createconsumer", "delconsumer")
XTRIM_STRATEGY_AT: Final = 2


def numbered_ids(words: list[bytes]) -> list[bytes]:
    """Returns the IDs of `... IDS numids id [id ...] ...`. Raises ValueError if they are missing."""
    start = [word.upper() for word in words].index(b"IDS") + 2
    return words[start : start + int(words[start - 1])]


def released_count(words: list[bytes]) -> int | None:
    """Returns the delivery count that an XNACK sets, None if it sets none."""
    options = words[XNACK_MODE_AT + 1 :]
    return int(options[options.index(b"RETRYCOUNT") + 1]) if b"RETRYCOUNT" in options else None


def trim_threshold(words: list[bytes]) -> tuple[bytes, bytes]:
    """Returns the strategy of an XTRIM in upper case, and its threshold. Raises IndexError if a word is missing."""
    threshold_at = XTRIM_STRATEGY_AT + (2 if words[XTRIM_STRATEGY_AT + 1] in TRIM_OPERATORS else 1)
    return words[XTRIM_STRATEGY_AT].upper(), words[threshold_at]


def group_action(words: list[bytes]) -> tuple[str, bytes | None, bytes | None]:
    """Returns the action of an XGROUP in lower case, and its ID and its consumer, of which it has at most one."""
    action = words[XGROUP_ACTION_AT].decode("ascii", "replace").lower()
    word = words[XGROUP_NEXT_AT] if len(words) > XGROUP_NEXT_AT else None
    return (action, None, word) if action in XGROUP_CONSUMER_ACTIONS else (action, word, None)
