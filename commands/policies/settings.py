"""Reading the options of `XGROUP CONFIG`: all are checked before any is applied."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError, not_an_integer, syntax_error
from ...store.policies.group_policy import GroupPolicy, Value
from ...store.policies.settings import BY_NAME, GROUP_SETTINGS, Kind, Setting
from ..core.numbers import parse_integer

# Times and numbers above this have no use, and sums of them with a time stay below 2^63.
NUMBER_MAX: Final = 2**52
# Values of a list of times.
TIMES_MAX: Final = 64


def parse_settings(words: list[bytes], key: bytes, before: GroupPolicy | None) -> GroupPolicy | None:
    """The settings after `words`, names and values of options one after the other, are applied to those before; None if
    none is left. Raises GenericError, ReplyError.
    """
    if len(words) % 2:
        raise syntax_error()
    values: dict[str, Value] = (
        {} if before is None else {setting.attribute: getattr(before, setting.attribute) for setting in GROUP_SETTINGS}
    )
    seen: set[bytes] = set()
    for index in range(0, len(words), 2):
        setting = BY_NAME.get(words[index].upper())
        if setting is None or setting.name in seen:
            raise syntax_error()
        seen.add(setting.name)
        values[setting.attribute] = _value(setting, words[index + 1])
    _check(values, key)
    return GroupPolicy(**values) if any(values.values()) else None  # type: ignore[arg-type]


def default_settings(words: list[bytes], key: bytes) -> GroupPolicy | None:
    """The settings after `words`, which were checked, for a new group of a stream at this key; None if there are none.
    A later word counts. What has no meaning is left out: an option without the one that it needs, and a dead-letter
    stream that is the stream itself.
    """
    values: dict[str, Value] = {}
    for index in range(0, len(words), 2):
        setting = BY_NAME[words[index].upper()]
        values[setting.attribute] = _value(setting, words[index + 1])
    if values.get("dead_letter_key") == key:
        del values["dead_letter_key"]
    for setting in GROUP_SETTINGS:
        if setting.needs is not None and not values.get(BY_NAME[setting.needs].attribute):
            values.pop(setting.attribute, None)
    return GroupPolicy(**values) if any(values.values()) else None  # type: ignore[arg-type]


def _value(setting: Setting, token: bytes) -> Value:
    """The value that a word spells; a false one takes the option back. Raises GenericError, ReplyError."""
    kind, word = setting.kind, token.lower()
    takes_back = word in (b"", b"0", b"no")
    if kind is Kind.NAME:
        return b"" if takes_back else token
    if kind in (Kind.FLAG, Kind.RELEASE):
        wanted = b"yes" if kind is Kind.FLAG else b"release"
        if word != wanted and not takes_back:
            raise GenericError(b"%b must be '%b' or 'no'" % (setting.name, wanted))
        return word == wanted
    if takes_back:
        return () if kind is Kind.TIMES else 0
    if kind is Kind.NUMBER:
        return _number(token)
    parts = token.split(b",")
    if len(parts) > TIMES_MAX:
        raise GenericError(b"%b takes at most %d values" % (setting.name, TIMES_MAX))
    return tuple([_number(part) for part in parts])


def _number(token: bytes) -> int:
    number = parse_integer(token)
    if number is None or not 1 <= number <= NUMBER_MAX:
        raise not_an_integer()
    return number


def _check(values: dict[str, Value], key: bytes) -> None:
    """Raises GenericError if options contradict each other."""
    for setting in GROUP_SETTINGS:
        if (
            setting.needs is not None
            and values.get(setting.attribute)
            and not values.get(BY_NAME[setting.needs].attribute)
        ):
            raise GenericError(b"%b has no meaning without %b" % (setting.name, setting.needs))
    if values.get("dead_letter_key") == key:
        raise GenericError(b"DEADLETTER must name another stream")
