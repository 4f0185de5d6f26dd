"""The options of XCFGSET that say how long the entries of a stream are kept. They are not in Redis."""

from __future__ import annotations

import logging
from typing import Final

from ...store.errors import GenericError, not_an_integer, syntax_error
from ...store.policies.stream_policy import SETTING_BY_NAME, STREAM_SETTINGS, StreamKind, StreamPolicy, StreamSetting
from ...store.stream import Stream
from ..core.numbers import integer
from ..core.table import Argument
from ..execution.context import Context
from ..policies.lines import APPLIERS

logger = logging.getLogger(__name__)

# What takes a number back, besides 0.
TAKES_BACK: Final = (b"", b"NO")


def _argument(setting: StreamSetting) -> Argument:
    name, token = setting.field.decode(), setting.name.decode()
    if setting.kind is StreamKind.FLAG:
        choices = (Argument("yes", "pure-token", token="YES"), Argument("no", "pure-token", token="NO"))
        return Argument(name, "oneof", token=token, optional=True, since="headrace 0.1", arguments=choices)
    if setting.kind is StreamKind.TIME:
        return Argument(name, "integer", token=token, optional=True, since="headrace 0.1")
    number = Argument(setting.unit, "integer", token=token)
    force = Argument("force", "pure-token", token="FORCE", optional=True)
    return Argument(name, "block", optional=True, since="headrace 0.1", arguments=(number, force))


RETENTION_ARGUMENTS: Final = tuple(map(_argument, STREAM_SETTINGS))


class RetentionChange:
    """What a request sets and takes back. `values` has a number for each option that it names: for RETAIN-ACKED 1 is
    `no`, and for all 0 takes back. `forced` has the names of limits with FORCE.
    """

    __slots__ = ("forced", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, int] = {}
        self.forced: set[bytes] = set()

    def scan(self, argv: list[bytes], index: int) -> int:
        """Parses the option at `index` and returns its number of arguments; 0 if it is none of these options, or has no
        value. Raises GenericError.
        """
        name = argv[index].upper()
        setting = SETTING_BY_NAME.get(name)
        if setting is None or index + 1 == len(argv):
            return 0
        if name in self.values:
            raise GenericError(name + b" specified multiple times")
        value = self.values[name] = _number(setting.kind, argv[index + 1])
        if setting.kind is not StreamKind.LIMIT or index + 2 == len(argv) or argv[index + 2].upper() != b"FORCE":
            return 2
        if not value:
            raise GenericError(b"FORCE needs a value of %b" % name)
        self.forced.add(name)
        return 3

    def apply(self, policy: StreamPolicy | None) -> StreamPolicy | None:
        """Returns the policy of a stream that had this one; None if no option is set."""
        values = {} if policy is None else dict(policy.values)
        forced = set() if policy is None else set(policy.forced)
        for name, value in self.values.items():
            values.pop(name, None)
            forced.discard(name)
            if value:
                values[name] = value
        return StreamPolicy(values, frozenset(forced | self.forced)) if values else None


def retain(context: Context, key: bytes, stream: Stream, change: RetentionChange) -> None:
    """Changes the policy of the stream at `key`, and logs the policy if it is another one now."""
    policy = change.apply(stream.policy)
    words = [] if policy is None else policy.words()
    if words != ([] if stream.policy is None else stream.policy.words()):
        context.db.govern(key, policy)
        context.log_policy([b"XCFGSET", key, *words])
        client = context.client
        logger.info(
            "policy of stream %r set by user %r from %s: %s", key, client.user.name,
            client.address.decode() or "a script", b" ".join(words).decode() or "none",
        )  # fmt: skip


def apply_retention(context: Context, words: list[bytes]) -> None:
    """Applies a policy line `XCFGSET key [option value ...]`, which has all options that are set."""
    change, index = RetentionChange(), 2
    while index < len(words):
        used = change.scan(words, index)
        if not used:
            raise syntax_error()
        index += used
    if words[1] in context.db.streams:
        context.db.govern(words[1], change.apply(None))


APPLIERS[b"XCFGSET"] = apply_retention


def _number(kind: StreamKind, token: bytes) -> int:
    """The value of an option. Raises GenericError."""
    word = token.upper()
    if kind is StreamKind.FLAG:
        if word not in (b"", b"YES", b"NO"):
            raise syntax_error()
        return int(word == b"NO")
    if word in TAKES_BACK:
        return 0
    value = integer(token)
    if value < 0:
        raise not_an_integer()
    return value
