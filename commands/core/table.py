"""The command table: one row per command feeds dispatch, arity errors, COMMAND, key extraction and the docs.

A row is declared by decorating its handler:

    @command("XLEN", arity=2, flags=Flag.READONLY | Flag.FAST, keys=FIRST_KEY_READ, group="stream",
             categories=("stream",), since="5.0.0", summary="...", complexity="...", arguments=(...))
    def xlen(context: Context, argv: list[bytes]) -> Reply: ...

`argv[0]` is the command word as typed. Containers (XGROUP, CLIENT, ...) are declared by `container(...)` and their
subcommands by `command("XGROUP|CREATE", ...)`; a subcommand's handler gets the whole argv, so its own
arguments start at `argv[2]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Flag as FlagEnum
from enum import auto
from typing import Any, Final, NamedTuple, TypeAlias

from ...protocol.replies import Reply
from ...store.errors import ReplyError
from .durations import Durations
from .slow_tally import SlowTally

# Takes an `execution.context.Context`, which imports this table, so that it cannot be named here.
Handler = Callable[[Any, list[bytes]], Reply]
# Applies a run of records while a log is loaded. Returns False, and changes nothing, if they must be run one by one.
RunHandler = Callable[[Any, list[bytes]], bool]


class Flag(FlagEnum):
    """Command flags, named as COMMAND INFO prints them (lower case), in its order."""

    WRITE = auto()
    READONLY = auto()
    DENYOOM = auto()
    ADMIN = auto()
    PUBSUB = auto()
    NOSCRIPT = auto()
    BLOCKING = auto()
    LOADING = auto()
    STALE = auto()
    SKIP_MONITOR = auto()
    SKIP_SLOWLOG = auto()
    ASKING = auto()
    FAST = auto()
    NO_AUTH = auto()
    NO_MANDATORY_KEYS = auto()
    MOVABLEKEYS = auto()
    NO_ASYNC_LOADING = auto()
    NO_MULTI = auto()
    ALLOW_BUSY = auto()
    SCRIPT_RUNNER = auto()


NO_FLAGS = Flag(0)


class Trait(FlagEnum):
    """What the server must know of a command besides Redis' flags. COMMAND does not print traits.

    Subcommands have the traits of their container.
    """

    # Takes the fast path although it has no keys (PING, SCAN, PUBLISH): it changes nothing of the client, and shows
    # no count of calls or records, which the fast path brings up to date once for each batch.
    ORDINARY = auto()
    # Is not ordinary, but changes nothing that decides which checks its client needs.
    KEEPS_CHECKS = auto()
    # Uses a database other than the client's.
    ACROSS_DATABASES = auto()
    # Runs at once inside MULTI.
    NOT_QUEUED = auto()
    # Runs the queue of the transaction, so it writes and needs memory if a command of the queue does.
    RUNS_QUEUE = auto()
    # A RESP2 client may send it while it is subscribed. It could not distinguish other replies from messages.
    WHILE_SUBSCRIBED = auto()
    # Other clients may receive its messages, or it may run a script that writes. Redis replicates it.
    MAY_REPLICATE = auto()
    # Carried out in slices where it looks at many members: see `execution.slices`. Nothing is decided by it; tests walk
    # these commands.
    IN_SLICES = auto()
    # Is refused while writes are refused with MISCONF.
    REFUSED_WITH_WRITES = auto()
    # Sets the time of the last use of its keys, even for a client with CLIENT NO-TOUCH.
    ALWAYS_TOUCHES = auto()
    # Blocked, it continues when its key is deleted, because its group is deleted with it.
    WAITS_FOR_GROUP = auto()
    # CLIENT CACHING still applies to the command after it.
    KEEPS_CACHING_CHOICE = auto()
    # Takes the expiry time of a key to another, which a writable replica then keeps until its primary removes it.
    CARRIES_EXPIRY = auto()
    # Removes its keys, expired ones too.
    REMOVES_KEYS = auto()
    # Does not count as a use of its keys, which LRU and LFU policies of eviction record, or records it itself.
    KEEPS_USE_TIMES = auto()


NO_TRAITS = Trait(0)


# The access flag of a spec whose words are shard channels, which cluster clients look for like keys.
NOT_KEY: Final = "not_key"


@dataclass(frozen=True, slots=True)
class KeySpec:
    """The positions of keys. `first`, `last`, `step` count the command word as 0; `last` < 0 counts from the end.

    With `keyword` (XREAD, XREADGROUP), the keys are the first half of the words after it; it is searched from argument
    `start` on; first, last and step are then 0. With `count_at` (MSETEX), that argument is the number of keys, from
    `first` on; with `is_loose` (EVAL), other characters may follow that number. `access` has the key-spec flags that
    COMMAND INFO prints.
    """

    first: int
    last: int
    step: int
    access: tuple[str, ...] = ()
    keyword: bytes | None = None
    start: int = 0
    count_at: int | None = None
    is_loose: bool = False
    # With `keyword`: the only key is the word after it. It is one of the names in pairs of names and values from
    # `start` on. An empty word is no key.
    is_option: bool = False
    # Whether the access follows from the operations of a BITFIELD.
    has_bit_fields: bool = False
    # With `keyword`, STORE or STOREDIST: the only key is the word after the last one of both, if that is the keyword.
    is_last_store: bool = False
    # With `keyword`: the keys are all words after it, if the option is there (MIGRATE).
    takes_rest: bool = False
    # The first key is none if this option of MIGRATE is there.
    unless: bytes | None = None
    # COMMAND shows no place of the keys, which follow from options and data (SORT). With `keyword`, the key is the word
    # after the last such word.
    is_unknown: bool = False
    # The note of COMMAND INFO on a spec that is not exact, in the words of Redis.
    note: str | None = None

    @property
    def is_first_argument(self) -> bool:
        """Whether the only key is the first argument."""
        return self.first == self.last == 1 and NOT_KEY not in self.access


NO_KEYS: tuple[KeySpec, ...] = ()

# What `since` begins with if Redis does not have the command or the argument; the version of Headrace follows.
OWN: Final = "headrace "

_READS_OR_WRITES: Final = Flag.READONLY | Flag.WRITE


# mypyc looks for the type of a field among the names of the module.
Slice: TypeAlias = slice


@dataclass(frozen=True, slots=True)
class Channels:
    """The words of a request that name channels, which the user's rules must allow."""

    words: Slice
    are_patterns: bool = False


class KeptForm(NamedTuple):
    """A form of a request that is kept as bytes, with its handler: see `persistence/grammar/kept`."""

    mark: bytes
    handler: Handler


class RunForm(NamedTuple):
    """A form of consecutive records of a log that are kept as bytes, with its handler."""

    mark: bytes
    handler: RunHandler


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as COMMAND DOCS describes it; `type` is one of string, integer, key, pattern, unix-time, oneof..."""

    name: str
    type: str = "string"
    token: str | None = None
    optional: bool = False
    multiple: bool = False
    multiple_token: bool = False
    key_spec_index: int | None = None
    since: str | None = None
    deprecated_since: str | None = None
    # How it is written, if that is not its name.
    display: str | None = None
    arguments: tuple[Argument, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether Redis does not have it."""
        return self.since is not None and self.since.startswith(OWN)


@dataclass(slots=True, eq=False)
class Row:
    """One command. `arity` counts the name; negative means "at least". Names are upper case, as `XGROUP|CREATE`."""

    name: str
    arity: int
    handler: Handler | None
    flags: Flag = NO_FLAGS
    keys: tuple[KeySpec, ...] = NO_KEYS
    # ACL categories besides those that follow from the flags, e.g. `stream`, `keyspace`, `connection`.
    categories: tuple[str, ...] = ()
    group: str = "generic"
    since: str = "1.0.0"
    summary: str = ""
    complexity: str = ""
    arguments: tuple[Argument, ...] = ()
    history: tuple[tuple[str, str], ...] = ()
    tips: tuple[str, ...] = ()
    # How it differs from Redis, for docs/compatibility.md; None if it does not.
    differs: str | None = None
    # (since which version, its replacement).
    deprecated: tuple[str, str] | None = None
    # A word that may follow where the arity leaves no room, because Redis does not have it; empty for none.
    own_word: bytes = b""
    # Rows by upper-case subcommand word; only containers have any.
    subcommands: dict[bytes, Row] = field(default_factory=dict)
    traits: Trait = NO_TRAITS
    # The words that name channels; None if there are none, or if any channel is allowed.
    channels: Channels | None = None
    # Returns the indexes of the words of a request that are passwords, or names or rules of users.
    secrets: Callable[[list[bytes]], Iterable[int]] | None = None
    # Index of the argument where another request begins (COMMAND GETKEYS); 0 if none does.
    enclosed_at: int = 0
    # Returns the error if the command is disabled for the client. It is the first check, before authentication.
    refusal_if_disabled: Callable[[Any], ReplyError | None] | None = None
    # The form in which the reader passes frequent requests; None if there is none, or the command was renamed.
    sent_form: KeptForm | None = None
    # The form in which a log passes consecutive records.
    run_form: RunForm | None = None
    # The name in error texts and COMMAND: `xgroup|create`.
    name_lower: bytes = b""
    is_write: bool = False
    # Whether its only key is its first argument, as for nearly all commands.
    has_one_key: bool = False
    # `flags` as a number, for checks before every command: a check of an enumeration takes half a microsecond.
    flag_bits: int = 0
    # `traits` as a number.
    trait_bits: int = 0
    # Whether only the user's rules and the state of the client can refuse it, so that it may take the fast path.
    is_ordinary: bool = False
    # Whether it may change which checks its client needs. Scripts and commands on keys do not.
    may_change_client: bool = True
    # Statistics since the start or CONFIG RESETSTAT: see INFO commandstats and latencystats.
    # Calls made while `latency-tracking` is on: the histogram that clients see.
    durations: Durations = field(default_factory=Durations)
    # Calls made while it is off. Only their number and their total time are shown.
    unsampled: Durations = field(default_factory=Durations)
    # Counts the calls that end now: one of these two.
    recorder: Durations = field(init=False)
    rejected_calls: int = 0
    failed_calls: int = 0
    slow_tally: SlowTally = field(default_factory=SlowTally)

    def __post_init__(self) -> None:
        self.name_lower = self.name.lower().encode()
        self.is_write = bool(self.flags & Flag.WRITE)
        self.has_one_key = len(self.keys) == 1 and self.keys[0].is_first_argument
        self.flag_bits = self.flags.value
        self.recorder = self.durations
        self._set_traits(self.traits)

    def _set_traits(self, traits: Trait) -> None:
        self.traits, self.trait_bits = traits, traits.value
        uses_keys = bool(self.keys and self.flags & _READS_OR_WRITES) and Flag.SCRIPT_RUNNER not in self.flags
        self.is_ordinary = Trait.ORDINARY in traits or (uses_keys and Trait.ACROSS_DATABASES not in traits)
        keeps_checks = self.is_ordinary or uses_keys or Flag.SCRIPT_RUNNER in self.flags or Trait.KEEPS_CHECKS in traits
        self.may_change_client = not keeps_checks

    def inherit(self, container: Row) -> None:
        """Take the traits of the command's container."""
        self._set_traits(self.traits | container.traits)

    @property
    def is_own(self) -> bool:
        """Whether Redis does not have the command."""
        return self.since.startswith(OWN)

    @property
    def was_named(self) -> bool:
        """Whether it was called or refused since the statistics began."""
        return (
            not self.durations.is_empty
            or not self.unsampled.is_empty
            or self.rejected_calls > 0
            or self.failed_calls > 0
        )

    @property
    def calls(self) -> int:
        """Calls that have ended."""
        return self.durations.count + self.unsampled.count

    @property
    def total_ns(self) -> int:
        """Time spent in the handler."""
        return self.durations.total_ns + self.unsampled.total_ns

    def totals(self) -> tuple[int, int]:
        """Calls that have ended, and the time spent in the handler, in ns."""
        calls, total_ns = self.durations.totals()
        unsampled_calls, unsampled_ns = self.unsampled.totals()
        return calls + unsampled_calls, total_ns + unsampled_ns

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        self.rejected_calls = self.failed_calls = 0
        self.durations.clear()
        self.unsampled.clear()
        self.slow_tally = SlowTally()


# Top-level commands by the upper-case name under which clients may call them.
TABLE: dict[bytes, Row] = {}

# Top-level commands by the names with which they were declared, which ACL rules and our own files use.
DECLARED: dict[bytes, Row] = {}


def command(
    name: str,
    *,
    arity: int,
    flags: Flag = NO_FLAGS,
    keys: Sequence[KeySpec] = NO_KEYS,
    categories: Sequence[str] = (),
    group: str = "generic",
    since: str = "1.0.0",
    summary: str = "",
    complexity: str = "",
    arguments: Sequence[Argument] = (),
    history: Sequence[tuple[str, str]] = (),
    tips: Sequence[str] = (),
    differs: str | None = None,
    deprecated: tuple[str, str] | None = None,
    traits: Trait = NO_TRAITS,
    channels: Channels | None = None,
    secrets: Callable[[list[bytes]], Iterable[int]] | None = None,
    enclosed_at: int = 0,
    refusal_if_disabled: Callable[[Any], ReplyError | None] | None = None,
    own_word: bytes = b"",
) -> Callable[[Handler], Handler]:
    """Declare a command; the decorated function becomes its handler and is returned unchanged."""

    def declare(handler: Handler) -> Handler:
        row = Row(
            name, arity, handler, flags, tuple(keys), tuple(categories), group, since, summary,
            complexity, tuple(arguments), tuple(history), tuple(tips), differs, deprecated,
            traits=traits, channels=channels, secrets=secrets, enclosed_at=enclosed_at,
            refusal_if_disabled=refusal_if_disabled, own_word=own_word,
        )  # fmt: skip
        register(row)
        return handler

    return declare


def sent_form(name: str, mark: bytes) -> Callable[[Handler], Handler]:
    """Declare the handler of requests that the reader keeps as bytes under `mark`. The command is declared before."""

    def declare(handler: Handler) -> Handler:
        DECLARED[name.encode()].sent_form = KeptForm(mark, handler)
        return handler

    return declare


def run_form(name: str, mark: bytes) -> Callable[[RunHandler], RunHandler]:
    """Declare the handler of records that a log keeps as bytes under `mark`. The command is declared before."""

    def declare(handler: RunHandler) -> RunHandler:
        DECLARED[name.encode()].run_form = RunForm(mark, handler)
        return handler

    return declare


def container(
    name: str,
    *,
    group: str,
    since: str,
    summary: str,
    complexity: str = "Depends on subcommand.",
    categories: Sequence[str] = (),
    arity: int = -2,
    flags: Flag = NO_FLAGS,
    handler: Handler | None = None,
    tips: Sequence[str] = (),
    traits: Trait = NO_TRAITS,
) -> None:
    """Declare a command that has subcommands. It can be called without a subcommand only if it has a handler."""
    row = Row(
        name,
        arity,
        handler,
        flags,
        categories=tuple(categories),
        group=group,
        since=since,
        summary=summary,
        traits=traits,
    )
    row.tips, row.complexity = tuple(tips), complexity
    register(row)


def register(row: Row) -> None:
    """Add a row to the table, under its container if its name has one."""
    parent, _, sub = row.name.partition("|")
    if sub:
        container_row = DECLARED[parent.encode()]
        row.inherit(container_row)
        container_row.subcommands[sub.encode()] = row
    else:
        TABLE[parent.encode()] = DECLARED[parent.encode()] = row


def rename(name: bytes, new_name: bytes) -> None:
    """Rename a command for clients; remove it if the new name is empty. Raises ValueError, KeyError.

    Called at the start (`rename-command`), before there is a dispatcher.
    """
    if name.upper() not in TABLE:
        raise KeyError(name)
    if new_name and new_name.upper() in TABLE:
        raise ValueError(new_name)
    row = TABLE.pop(name.upper())
    if new_name:
        TABLE[new_name.upper()] = row
        for each in (row, *row.subcommands.values()):
            each.sent_form = None  # the reader keeps only requests with the command's own name
            if each.handler is not None:
                each.handler = _under_its_own_name(row.name.encode(), each.handler)


def _under_its_own_name(name: bytes, handler: Handler) -> Handler:
    """Returns a handler that restores the command's own name: handlers log requests as they came, and may need the
    length of their name.
    """
    return lambda context, argv: handler(context, [name, *argv[1:]])


def all_rows() -> list[Row]:
    """Every row, containers before their subcommands."""
    found: list[Row] = []
    for row in TABLE.values():
        found.append(row)
        if row.subcommands:
            found += row.subcommands.values()
    return found


def named_rows() -> list[Row]:
    """The rows with statistics, in the order of `all_rows`: often few of them."""
    found: list[Row] = []
    for row in TABLE.values():
        if row.was_named:
            found.append(row)
        if row.subcommands:
            for each in row.subcommands.values():
                if each.was_named:
                    found.append(each)
    return found


# The usual key spec of a reading command: one key at position 1.
FIRST_KEY_READ = (KeySpec(1, 1, 1, ("RO", "ACCESS")),)
