"""The options of the data source. Each is declared once, as a field with its default and its meaning.

Spark passes option names in lower case, so `parse` ignores case. For an unknown option its error names the most similar
one. The tables of docs/pipeline.md are made from these fields (`python -m headrace.pipeline.options`).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ...store.ids import ID_MAX, U64_MAX, StreamID, id_before, make_id
from ..errors import OptionError
from .values import (
    addresses,
    boolean,
    choice,
    entry_id,
    names,
    number,
    position,
    rate,
    seconds,
    some_seconds,
    timestamp_ms,
)

T = TypeVar("T")
# The rights by which a reader of ranges has the server count entries, instead of reading them to count.
COUNTING_RIGHTS = "+client|reply +xreadgroup +xgroup|create +xgroup|createconsumer +xgroup|destroy"
# Options that Spark adds, and `mode`, which has selected the class of options.
IGNORED = frozenset({"path", "checkpointlocation", "queryname", "mode", "outputmode"})


def option(default: Any, meaning: str, parse: Callable[[str], Any] = str, *, secret: bool = False) -> Any:
    """Declares an option as a dataclass field. `parse` raises ValueError with a description of the valid values."""
    return field(default=default, repr=not secret, metadata={"meaning": meaning, "parse": parse})


@dataclass(frozen=True)
class Endpoint:
    """The server and how to connect to it."""

    # The ACL rule that a user needs, without the keys.
    rights: ClassVar[str] = ""

    host: str = option("127.0.0.1", "Name or address of the server.")
    port: int = option(6379, "Port of the server.", number(1, 65535))
    socket_path: str | None = option(None, "Path of a Unix socket, instead of host and port.")
    sentinels: tuple[tuple[str, int], ...] = option(
        (), "Sentinels that name the server, `host:port` separated by commas, instead of host and port.", addresses
    )
    master: str | None = option(None, "Name by which the Sentinels know the server.")
    db: int = option(0, "Number of the database.", number(0))
    tls: bool = option(False, "Whether the server speaks TLS.", boolean)
    tls_ca_file: str | None = option(None, "Certificates to trust (PEM), instead of those of the system.")
    tls_cert_file: str | None = option(None, "Certificate to show to the server (PEM), where it asks for one.")
    tls_key_file: str | None = option(None, "Key of that certificate (PEM, not encrypted), unless in the same file.")
    username: str | None = option(None, "User to authenticate as.")
    password: str | None = option(
        None, "Password; `passwordFile` and `passwordEnv` keep it out of the program.", secret=True
    )
    password_file: str | None = option(None, "File that holds the password, on driver and executors.")
    password_env: str | None = option(None, "Environment variable that holds the password, on driver and executors.")
    sentinel_username: str | None = option(None, "User to authenticate as at the Sentinels.")
    sentinel_password: str | None = option(None, "Password of the Sentinels, as `password`.", secret=True)
    sentinel_password_file: str | None = option(None, "File that holds the password of the Sentinels.")
    sentinel_password_env: str | None = option(None, "Environment variable that holds the password of the Sentinels.")
    connect_timeout: float = option(5.0, "How long a connection may take to open.", some_seconds)
    read_timeout: float = option(60.0, "How long a reply may take.", some_seconds)
    retry_for: float = option(60.0, "How long a lost connection is tried again before the query fails.", seconds)

    def __post_init__(self) -> None:
        """Raises OptionError for options that would have no effect."""
        self._check_login("")
        self._check_sentinels()
        if self.tls_key_file is not None and self.tls_cert_file is None:
            raise OptionError("option tlsKeyFile needs tlsCertFile, the certificate of the key")
        if not self.tls and (self.tls_ca_file is not None or self.tls_cert_file is not None):
            raise OptionError("options tlsCaFile and tlsCertFile need tls=true")

    def _check_login(self, prefix: str) -> None:
        """Raises OptionError for two passwords, and for a user without one. `prefix` is empty or `sentinel_`."""
        names = [f"{prefix}{name}" for name in ("password", "password_file", "password_env")]
        given = [option_name(name) for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} are both given: keep one")
        if getattr(self, f"{prefix}username") is not None and not given:
            _, file, environment = map(option_name, names)
            user = option_name(f"{prefix}username")
            raise OptionError(
                f"option {user} needs a password: set {file} or {environment} (any one will do for a user without)"
            )

    def _check_sentinels(self) -> None:
        """Raises OptionError for a server that is named twice, or not completely."""
        self._check_login("sentinel_")
        if self.sentinels and self.master is None:
            raise OptionError("option sentinels needs master, the name by which the Sentinels know the server")
        for name in ("host", "port", "socket_path"):
            self._require_effect(name, not self.sentinels, "together with sentinels")
        login = ("username", "password", "password_file", "password_env")
        for name in ("master", *(f"sentinel_{word}" for word in login)):
            self._require_effect(name, bool(self.sentinels), "without sentinels")

    def _require_effect(self, name: str, has_effect: bool, needs: str) -> None:
        """Raises OptionError if an option was set that has no effect."""
        default = next(row.default for row in fields(self) if row.name == name)
        if not has_effect and getattr(self, name) != default:
            raise OptionError(f"option {option_name(name)} has no effect {needs}: leave it out")

    @property
    def address(self) -> str:
        """The address of the server, for messages."""
        if self.sentinels:
            return f"{self.master} of the Sentinels {','.join(f'{host}:{port}' for host, port in self.sentinels)}"
        return self.socket_path or f"{self.host}:{self.port}"

    @property
    def address_options(self) -> str:
        """The options that name the server, for messages."""
        return "sentinels, master" if self.sentinels else "socketPath" if self.socket_path else "host, port"

    def at(self, host: str, port: int) -> Endpoint:
        """Returns how to connect to a server that the Sentinels have named."""
        theirs = ("sentinels", "master", *(row.name for row in fields(Endpoint) if row.name.startswith("sentinel_")))
        own = {row.name: getattr(self, row.name) for row in fields(Endpoint) if row.name not in theirs}
        return Endpoint(**(own | {"host": host, "port": port}))

    def resolve_password(self) -> str | None:
        """Returns the password, read from its file or environment variable in this process. Raises OptionError."""
        return _password("", self.password, self.password_file, self.password_env)

    def resolve_sentinel_password(self) -> str | None:
        """Returns the password of the Sentinels, as `resolve_password`. Raises OptionError."""
        return _password("sentinel_", self.sentinel_password, self.sentinel_password_file, self.sentinel_password_env)


def _password(prefix: str, value: str | None, file: str | None, environment: str | None) -> str | None:
    if file is not None:
        name = option_name(f"{prefix}password_file")
        try:
            return Path(file).read_text("utf-8").rstrip("\n")
        except OSError as error:
            raise OptionError(f"option {name}: cannot read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise OptionError(f"option {name}: {file} is not UTF-8 text") from None
    if environment is not None:
        if environment not in os.environ:
            name = option_name(f"{prefix}password_env")
            raise OptionError(f"option {name}: the environment variable {environment} is not set")
        return os.environ[environment]
    return value


def cores() -> int:
    """Returns the number of processors of this machine, the default number of partitions."""
    return os.cpu_count() or 1


@dataclass(frozen=True)
class ReadOptions(Endpoint):
    """The options that all readers share."""

    stream: tuple[str, ...] = option((), "Key of the stream, or keys separated by commas (`\\,` for a comma).", names)
    fields: str | None = option(None, "Columns for fields, e.g. `n bigint, user string`; see Reading.")
    parse_mode: str = option(
        "PERMISSIVE",
        "Values that do not fit their column: PERMISSIVE (null, kept in `_corrupt`), DROPMALFORMED or FAILFAST.",
        choice("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    )
    page_size: int = option(5000, "Entries per range read.", number(1, 1_000_000))
    min_partitions: int | None = option(None, "Parts to read at once; the cores of this machine.", number(1, 10_000))


@dataclass(frozen=True)
class RangeOptions(ReadOptions):
    """The options that batch and log mode share."""

    rights: ClassVar[str] = "+echo +xinfo +xrange"

    stream_pattern: str | None = option(None, "Glob pattern of keys, instead of `stream`.")
    read_from: str = option(
        "primary",
        "`replica`: entries are read from a replica that has them, if the Sentinels name one, else from the primary.",
        choice("primary", "replica"),
    )
    fail_on_data_loss: bool = option(
        True, "Whether entries that were trimmed unread fail the query, or are counted in a warning.", boolean
    )

    def __post_init__(self) -> None:
        """Raises OptionError for options that would have no effect."""
        super().__post_init__()
        self._require_effect("read_from", bool(self.sentinels), "without sentinels")


@dataclass(frozen=True)
class BatchOptions(RangeOptions):
    """spark.read."""

    starting_offsets: str | dict[str, StreamID] = option(
        "earliest",
        "`earliest`, or JSON with the ID after which reading begins, by key.",
        position("earliest"),
    )
    starting_timestamp: int | None = option(None, "Reading begins at this time (ISO, or Unix ms).", timestamp_ms)
    ending_offsets: str | dict[str, StreamID] = option(
        "latest", "`latest`, or JSON with the last ID to read, by key.", position("latest")
    )
    ending_timestamp: int | None = option(None, "Reading ends with this time, inclusive.", timestamp_ms)
    push_down_filters: bool = option(
        False,
        "Read only what comparisons of `_id`, `_ts`, `_ms` and `_stream` select; needs "
        "`spark.sql.python.filterPushdown.enabled=true`.",
        boolean,
    )

    def __post_init__(self) -> None:
        """Raises OptionError for options that would have no effect."""
        super().__post_init__()
        if self.starting_timestamp is not None:
            self._require_effect(
                "starting_offsets", isinstance(self.starting_offsets, str), "together with startingTimestamp"
            )
        if self.ending_timestamp is not None:
            self._require_effect(
                "ending_offsets", isinstance(self.ending_offsets, str), "together with endingTimestamp"
            )


@dataclass(frozen=True)
class StreamOptions(RangeOptions):
    """spark.readStream, mode=log."""

    starting_offsets: str | dict[str, StreamID] = option(
        "latest",
        "`earliest`, `latest`, `group` (its position), or JSON with the ID after which reading begins, by key.",
        position("earliest", "latest", "group"),
    )
    starting_timestamp: int | None = option(None, "Reading begins at this time (ISO, or Unix ms).", timestamp_ms)
    group: str | None = option(
        None, "Consumer group whose position follows the query, for monitoring; created if missing."
    )
    max_entries_per_trigger: int | None = option(None, "Most entries of a batch, exact.", number(1))
    min_entries_per_trigger: int | None = option(None, "Wait until this many entries are available.", number(1))
    max_trigger_delay: float = option(900.0, "How long to wait for `minEntriesPerTrigger`.", seconds)

    def __post_init__(self) -> None:
        """Raises OptionError for options that would have no effect."""
        super().__post_init__()
        if self.starting_timestamp is not None:
            self._require_effect(
                "starting_offsets", isinstance(self.starting_offsets, str), "together with startingTimestamp"
            )
        waits = self.min_entries_per_trigger is not None
        self._require_effect("max_trigger_delay", waits, "without minEntriesPerTrigger")


@dataclass(frozen=True)
class QueueOptions(ReadOptions):
    """spark.readStream, mode=queue."""

    rights: ClassVar[str] = (
        "+echo +xinfo +xrange +xpending +xreadgroup +xclaim +xack +xnack "
        "+xgroup|createconsumer +xgroup|delconsumer +client|reply"
    )

    group: str = option("", "Consumer group to read from. It must exist.")
    consumer: str = option(
        "spark",
        "Prefix of the names of the consumers that hold batches; the query's own token follows.",
    )
    max_entries_per_trigger: int = option(10_000, "Most entries of a batch.", number(1))
    min_idle: float | None = option(
        60.0,
        "Also claim released entries, and entries of other consumers idle for this long; `off`: only new entries.",
        lambda text: None if text.lower() == "off" else seconds(text),
    )
    ack_mode: str = option(
        "batch",
        "`batch`: acknowledged when Spark has committed the batch; `delete`: also deleted; `manual`: by a settle sink.",
        choice("batch", "delete", "manual"),
    )
    max_deliveries: int | None = option(
        None,
        "Entries delivered more often, or released as FATAL, go to `deadLetterStream` instead, which must be set too.",
        number(1),
    )
    dead_letter_stream: str | None = option(None, "Stream for entries over `maxDeliveries` and for FATAL entries.")


@dataclass(frozen=True)
class WriteOptions(Endpoint):
    """df.write and df.writeStream."""

    rights: ClassVar[str] = "+echo +xadd +xinfo|stream +xcfgset +xgroup|create +xgroup|destroy"

    stream: str | None = option(
        None, "Key to write to. Without it a column `_stream` names the key of each row; both together are an error."
    )
    idempotency: str = option(
        "idmp",
        "`idmp`: rows are known by place and content; `column`: by `_iid`; `content`: by their fields; `none`.",
        choice("idmp", "column", "content", "none"),
    )
    producer: str | None = option(
        None, "Name under which rows are known; the ID of the query, or a random one. Set it to repeat a batch job."
    )
    idmp_duration: int = option(86400, "Seconds that the stream remembers rows.", number(1, 86400))
    idmp_max_size: int = option(10_000, "Rows of a producer that the stream remembers.", number(2, 10_000))
    id_mode: str = option("auto", "`explicit`: entries get the ID in `_id`.", choice("auto", "explicit"))
    maxlen: int | None = option(None, "Trim to about this many entries.", number(0))
    minid: str | None = option(None, "Trim entries with IDs below this one.", lambda text: str(entry_id(text)) and text)
    trim_exact: bool = option(False, "Trim to the exact count or ID.", boolean)
    trim_limit: int | None = option(None, "Most entries to trim at once.", number(0))
    pipeline: int = option(500, "Rows per round trip.", number(1, 100_000))
    max_rate: float | None = option(None, "Most rows per second of each partition.", rate)
    wait_replicas: int = option(
        0, "Replicas that must have a row (`WAIT`) before it counts as written.", number(0, 100)
    )
    wait_timeout: float = option(1.0, "How long to wait for them before the rows are sent again.", some_seconds)
    ack_group: str | None = option(
        None, "Acknowledge the entries named by `_ack_id` in this group once their rows are written."
    )
    ack_stream: str | None = option(None, "Stream of those entries; rows with `_ack_stream` name their own.")
    truncate: bool = option(False, 'Whether `mode("overwrite")` may empty the stream.', boolean)

    def __post_init__(self) -> None:
        """Raises OptionError for options that would have no effect, and for those that could lose rows silently.

        A row that is refused for its ID was either written before or comes too late. Only its stream shows which, and a
        trimmed stream may not.
        """
        super().__post_init__()
        is_trimmed = self.maxlen is not None or self.minid is not None
        self._require_effect("trim_exact", is_trimmed, "without maxlen or minid")
        self._require_effect("trim_limit", is_trimmed, "without maxlen or minid")
        self._require_effect("ack_stream", self.ack_group is not None, "without ackGroup")
        self._require_effect("wait_timeout", self.wait_replicas > 0, "without waitReplicas")
        if self.wait_replicas and (self.idempotency == "none" or self.id_mode == "explicit"):
            raise OptionError(
                "option waitReplicas needs rows that can be sent again: leave idempotency=none and idMode=explicit out"
            )
        trims = next((name for name in ("maxlen", "minid") if getattr(self, name) is not None), None)
        if self.id_mode == "explicit" and trims is not None:
            raise OptionError(
                f"options idMode=explicit and {trims} are both given, and rows could be lost silently: leave {trims} "
                "out, and trim the stream once the rows are saved, with XTRIM"
            )


@dataclass(frozen=True)
class SettleOptions(Endpoint):
    """df.writeStream, mode=settle."""

    rights: ClassVar[str] = "+echo +xack +xnack"

    group: str = option("", "Consumer group whose entries are settled.")
    pipeline: int = option(500, "Rows per round trip.", number(1, 100_000))


def option_name(name: str) -> str:
    """Returns the name of an option: `max_entries_per_trigger` -> `maxEntriesPerTrigger`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _fields_of(kind: Any) -> dict[str, Field[Any]]:
    return {option_name(row.name).lower(): row for row in fields(kind)}


def parse(kind: type[T], given: Mapping[str, str]) -> T:
    """Parses the options that a user gave. Raises OptionError, whose message never shows a value."""
    rows = _fields_of(kind)
    values: dict[str, Any] = {}
    for name, text in given.items():
        row = rows.get(name.lower())
        if row is None:
            if name.lower() in IGNORED:
                continue
            raise OptionError(_unknown(name, kind))
        try:
            values[row.name] = row.metadata["parse"](text)
        except ValueError as error:
            raise OptionError(f"option {option_name(row.name)} must be {error}") from None
    return kind(**values)


def _unknown(name: str, kind: type) -> str:
    known = {key: option_name(row.name) for key, row in _fields_of(kind).items()}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    advice = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(known.values())}"
    return f"unknown option {name} for {(kind.__doc__ or '').rstrip('.')}: {advice}"


def required(name: str, value: T | None) -> T:
    """Returns the value of an option that must be set. Raises OptionError if it is not."""
    if not value:
        raise OptionError(f"option {name} is missing")
    return value


def known_keys(name: str, offsets: str | Mapping[str, StreamID], keys: Iterable[str]) -> None:
    """Raises OptionError if an option with offsets by key names a stream that is not read."""
    unknown = sorted(set(offsets) - set(keys)) if isinstance(offsets, Mapping) else []
    if unknown:
        raise OptionError(f"option {name} names {unknown[0]}, which is not one of the streams to read")


def last_before(ms: int) -> StreamID:
    """Returns the greatest ID before a time, -1 if there is none. Reading after it begins at that time."""
    return id_before(make_id(ms, 0)) if ms else -1


def last_within(ms: int) -> StreamID:
    """Returns the greatest ID of a millisecond."""
    return min(make_id(ms, U64_MAX), ID_MAX)
