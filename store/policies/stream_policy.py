"""The settings of a stream: how long its entries are kept. None of this is in Redis."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ..group import Group


class StreamKind(Enum):
    """The form of a value. Each has a value that takes the option back."""

    # `no`; `yes` takes back.
    FLAG = auto()
    # Milliseconds. 0, `no` and the empty string take back.
    TIME = auto()
    # Milliseconds, entries or bytes, and then FORCE or nothing. 0, `no` and the empty string take back.
    LIMIT = auto()


class StreamSetting(NamedTuple):
    """One option of `XCFGSET`, and how the policy of a stream is described in the reply of `XINFO STREAM`."""

    name: bytes
    kind: StreamKind
    # What a value counts, as a word of the syntax.
    unit: str
    field: bytes


RETAIN_ACKED: Final = b"RETAIN-ACKED"
MAX_AGE: Final = b"MAXAGE"
MAX_LENGTH: Final = b"MAXLEN"
MAX_SIZE: Final = b"MAXBYTES"
IGNORE_IDLE: Final = b"IGNORE-GROUPS-IDLE"

STREAM_SETTINGS: Final = (
    StreamSetting(RETAIN_ACKED, StreamKind.FLAG, "", b"retain-acked"),
    StreamSetting(MAX_AGE, StreamKind.LIMIT, "ms", b"maxage"),
    StreamSetting(MAX_LENGTH, StreamKind.LIMIT, "count", b"maxlen"),
    StreamSetting(MAX_SIZE, StreamKind.LIMIT, "bytes", b"maxbytes"),
    StreamSetting(IGNORE_IDLE, StreamKind.TIME, "ms", b"ignore-groups-idle"),
)
SETTING_BY_NAME: Final = {setting.name: setting for setting in STREAM_SETTINGS}
# After the field of a limit: whether the limit takes pending entries.
FORCE_SUFFIX: Final = b"-force"


class StreamPolicy:
    """What `XCFGSET` has set for one stream. The settings are not changed: other settings are another policy.

    `values` has the numbers of the options that are set, by name; RETAIN-ACKED is in it if it is `no`. `forced` has the
    names of the limits with FORCE.
    """

    __slots__ = (
        "age_max_ms",
        "forced",
        "holder",
        "ignored_idle_ms",
        "length_max",
        "looked_at_ms",
        "retains_acked",
        "size_max",
        "values",
    )

    def __init__(self, values: dict[bytes, int], forced: frozenset[bytes]) -> None:
        self.values: Final = values
        self.forced: Final = forced
        # Whether entries stay that every group has acknowledged.
        self.retains_acked: Final = RETAIN_ACKED not in values
        # The limits: age in ms, number of entries, bytes of memory. 0 is none.
        self.age_max_ms: Final = values.get(MAX_AGE, 0)
        self.length_max: Final = values.get(MAX_LENGTH, 0)
        self.size_max: Final = values.get(MAX_SIZE, 0)
        # A group that no consumer has used for this time, in ms, keeps no entry. 0 is never.
        self.ignored_idle_ms: Final = values.get(IGNORE_IDLE, 0)
        # What the server remembers between two looks, and does not store: the group that kept the first entry, and when
        # it first looked at each group, in Unix ms.
        self.holder: Group | None = None
        self.looked_at_ms: dict[Group, int] = {}

    def words(self) -> list[bytes]:
        """The options that are set, with their values, as a client writes them, in the order of the table."""
        words: list[bytes] = []
        for setting in STREAM_SETTINGS:
            if setting.name in self.values:
                is_flag = setting.kind is StreamKind.FLAG
                words += (setting.name, b"no" if is_flag else b"%d" % self.values[setting.name])
                if setting.name in self.forced:
                    words.append(b"FORCE")
        return words

    def fields(self) -> list[tuple[bytes, bytes | int]]:
        """The options that are set, as fields of `XINFO STREAM`, in the order of the table."""
        fields: list[tuple[bytes, bytes | int]] = []
        for setting in STREAM_SETTINGS:
            if setting.name in self.values:
                is_flag = setting.kind is StreamKind.FLAG
                fields.append((setting.field, b"no" if is_flag else self.values[setting.name]))
                if setting.name in self.forced:
                    fields.append((setting.field + FORCE_SUFFIX, b"yes"))
        return fields

    def copy(self) -> StreamPolicy:
        """A policy with these settings for another stream. It remembers nothing of groups."""
        return StreamPolicy(self.values, self.forced)
