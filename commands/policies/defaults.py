"""`stream-group-defaults`: settings that new groups get, by the keys of their streams.

A rule is a glob of keys, and options of `XGROUP CONFIG` with their values. In the value of the directive, rules are
separated by the word `;`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...store.errors import GenericError, ReplyError
from ...store.glob import matches
from ...store.group import Group
from ...store.policies.settings import BY_NAME
from ..execution.context import Context
from .settings import default_settings, parse_settings

SEPARATOR: Final = b";"

# A glob, and the names and values of options.
Rule = tuple[bytes, tuple[bytes, ...]]


def parse_rules(words: list[bytes]) -> list[Rule]:
    """The rules that these words spell. Raises GenericError with the reason and the rule's glob."""
    rules: list[Rule] = []
    rule: list[bytes] = []
    for word in [*words, SEPARATOR]:
        if word != SEPARATOR:
            rule.append(word)
        elif rule:
            rules.append(_parse_rule(rule))
            rule = []
    return rules


def _parse_rule(words: list[bytes]) -> Rule:
    glob, options = words[0], words[1:]
    for word in words:
        if not word or word.split() != [word]:
            raise GenericError(b"rule '%b': words may not be empty or have blanks" % glob)
    for name in options[::2]:
        if name.upper() not in BY_NAME:
            raise GenericError(b"rule '%b': '%b' is no option of XGROUP CONFIG" % (glob, name))
    if not options or len(options) % 2:
        raise GenericError(b"rule '%b': options and values must come in pairs" % glob)
    try:
        parse_settings(options, b"", None)
    except ReplyError as error:
        raise GenericError(b"rule '%b': %b" % (glob, error.text)) from None
    return glob, tuple(options)


@lru_cache(maxsize=2)
def _rules_of(value: bytes) -> list[Rule]:
    """The rules of a value of the directive."""
    return parse_rules(value.split(b" "))


def give_defaults(context: Context, key: bytes, group: Group) -> None:
    """Give a new group the settings of the rules that match its key, and log them. Of an option that several rules
    have, the last one counts. While a log is loaded or a primary is followed, the settings come as lines.
    """
    value: bytes = context.server.config.stream_group_defaults
    if not value or context.replaying:
        return
    words: list[bytes] = []
    for glob, options in _rules_of(value):
        if matches(glob, key):
            words += options
    policy = default_settings(words, key)
    if policy is not None:
        group.configure(policy)
        context.log_policy([b"XGROUP", b"CONFIG", key, group.name, *policy.words()])
        context.counted_apart -= 1  # two records, one change
