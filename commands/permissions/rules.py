"""Parts of all ACL rules: their errors, and how the words of a selector become one rule."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError, shown

SYNTAX: Final = "Syntax error"
UNKNOWN_COMMAND: Final = "Unknown command or category name in ACL"
FIRST_ARGUMENT: Final = "Allowing first-arg of a subcommand is not supported"
KEYS_ALREADY_OPEN: Final = (
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
    "Try 'resetkeys' to start with an empty list of patterns"
)
CHANNELS_ALREADY_OPEN: Final = (
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. "
    "Try 'resetchannels' to start with an empty list of channels"
)
BAD_HASH: Final = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
NO_SUCH_PASSWORD: Final = "The password you are trying to remove from the user does not exist"

# Characters that names and patterns must not contain: a file of users could not be read back.
BLANKS: Final = b" \t\n\r\v\f\0"


class BadRule(Exception):
    """A rule that cannot be applied; the text says why. The reader of the rule sets `rule`."""

    def __init__(self, why: str, rule: bytes = b"") -> None:
        super().__init__(why)
        self.rule = rule


class OpenParenthesis(Exception):
    """A selector that is not closed; `start` is its first word."""

    def __init__(self, start: bytes) -> None:
        super().__init__(start.decode("utf-8", "replace"))
        self.start = start


def has_blanks(text: bytes) -> bool:
    """Whether a name or a pattern contains a blank or a null character."""
    return len(text.translate(None, BLANKS)) < len(text)


def merge_selectors(words: list[bytes]) -> list[bytes]:
    """The words of a list of rules, with each `(...)` as one word. Raises OpenParenthesis."""
    merged: list[bytes] = []
    selector: list[bytes] = []
    for word in words:
        if not selector and not (word.startswith(b"(") and not word.endswith(b")")):
            merged.append(word)
            continue
        selector.append(word)
        if word.endswith(b")"):
            merged.append(b" ".join(selector))
            selector = []
    if selector:
        raise OpenParenthesis(selector[0])
    return merged


def modifier_error(bad: BadRule) -> GenericError:
    """The error of ACL SETUSER."""
    return GenericError(b"Error in ACL SETUSER modifier '%b': %b" % (shown(bad.rule), str(bad).encode()))
