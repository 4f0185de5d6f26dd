"""Every directive of the configuration, one row each: its name, kind of value, default, and who may change it.

Rows with `has_effect=False` belong to parts of Redis that Headrace does not have (lists, clusters). They are
ignored: CONFIG GET shows what was set, and nothing else happens. If such a row also `matters`, because its value
changes what is kept, who gets in or who is followed, it stops the start, unless `compat-config` says to ignore it as
well. Defaults are those of Redis 8.10.2.
Source: CONFIG GET and CONFIG SET of Redis 8.10.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...commands.core.numbers import UINT64_MAX
from .directive_kinds import (
    INT32_MAX,
    Bool,
    BufferLimits,
    Choice,
    CipherSuites,
    EventClasses,
    FileName,
    GroupDefaults,
    Integer,
    Kind,
    Memory,
    MemoryOrPercent,
    Octal,
    OomScores,
    Path,
    PowerOfTwo,
    Primary,
    SavePoints,
    Text,
    Words,
    check_percentile,
)

STANDALONE = "Headrace is a standalone server:"

# Values that turn a missing part off. No number is among them.
OFF = (False, b"", b"no", b"off", b"disabled")


class Change(Enum):
    """Whether CONFIG SET may change a directive."""

    ALLOWED = "allowed"
    IMMUTABLE = "immutable"
    # Only with `enable-protected-configs`.
    PROTECTED = "protected"


@dataclass(frozen=True, slots=True)
class Directive:
    """One row."""

    name: bytes
    kind: Kind
    default: Any
    aliases: tuple[bytes, ...] = ()
    change: Change = Change.ALLOWED
    # CONFIG GET shows it by its full name only, not by patterns.
    is_hidden: bool = False
    # CONFIG REWRITE writes it even at its default.
    is_always_written: bool = False
    # False if Redis has it and Headrace does not: its value is shown, and does nothing.
    has_effect: bool = True
    # Why another value than the default stops the start, although Headrace does not have the directive; empty if such a
    # value is harmless.
    matters: str = ""
    # A change needs a listener: CONFIG SET refuses it unless one was registered with `Config.on_change`.
    needs_listener: bool = False
    # The attribute of Config: the name with underscores in place of dashes.
    attribute: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.name.decode().replace("-", "_"))

    def is_off(self, value: Any) -> bool:
        """Whether the value turns the directive's part off, as it is in a server without it."""
        return (value in OFF and type(value) is not int) or value == self.default == 0

    def is_foreign(self, value: Any) -> bool:
        """Whether the value asks for something that Headrace does not have."""
        return not self.has_effect and not self.is_off(value) and not (self.matters and value == self.default)


IMMUTABLE, PROTECTED = Change.IMMUTABLE, Change.PROTECTED

BOOL = Bool()
TEXT = Text()
PATH = Path()
COUNT = Integer()
INT_32 = Integer(-INT32_MAX - 1, INT32_MAX)
COUNT_32 = Integer(0, INT32_MAX)
POSITIVE_32 = Integer(1, INT32_MAX)
# Each database takes some 600 bytes from the start. Redis accepts 2147483647 here, and then ends out of memory.
DATABASES_MAX = 100_000
PORT = Integer(0, 65535)
SIZE = Memory()
YES_NO_LOCAL = Choice((b"no", b"yes", b"local"))
SHUTDOWN_OPTIONS = Choice((b"default", b"save", b"nosave", b"now", b"force"), combine=True)
EVICTION_POLICIES = Choice(
    (
        b"volatile-lru", b"volatile-lfu", b"volatile-random", b"volatile-ttl", b"volatile-lrm",
        b"allkeys-lru", b"allkeys-lfu", b"allkeys-random", b"allkeys-lrm", b"noeviction",
    )
)  # fmt: skip
FACILITIES = Choice((b"user", *(b"local%d" % number for number in range(8))))


def _row(name: str, kind: Kind, default: Any, *aliases: str, **options: Any) -> Directive:
    return Directive(name.encode(), kind, default, tuple(alias.encode() for alias in aliases), **options)


NETWORK = (
    _row("bind", Words(16, "Too many bind addresses specified."), b"* -::*", needs_listener=True),
    _row("port", PORT, 6379, needs_listener=True),
    _row("protected-mode", BOOL, True),
    _row("unixsocket", PATH, b"", change=IMMUTABLE),
    _row("unixsocketperm", Octal(), 0, change=IMMUTABLE),
    _row("tcp-backlog", COUNT_32, 511, change=IMMUTABLE),
    _row("tcp-keepalive", COUNT_32, 300),
    _row("timeout", COUNT_32, 0),
    _row("maxclients", Integer(1, 2**32 - 1), 10000),
)

TLS = (
    _row("tls-port", PORT, 0, needs_listener=True),
    _row("tls-cert-file", PATH, b""),
    _row("tls-key-file", PATH, b""),
    _row("tls-key-file-pass", TEXT, b""),
    _row("tls-ca-cert-file", PATH, b""),
    _row("tls-ca-cert-dir", PATH, b""),
    _row("tls-dh-params-file", PATH, b""),
    _row("tls-auth-clients", Choice((b"no", b"yes", b"optional")), b"yes"),
    _row("tls-auth-clients-user", Choice((b"CN", b"off")), b"off"),
    _row("tls-protocols", TEXT, b""),
    _row("tls-ciphers", TEXT, b""),
    _row("tls-ciphersuites", CipherSuites(), b""),
    _row("tls-prefer-server-ciphers", BOOL, False),
    _row("tls-session-caching", BOOL, True),
    _row("max-new-tls-connections-per-cycle", Integer(1, 1000), 1),
    _row("tls-replication", BOOL, False),
    _row("tls-client-cert-file", PATH, b""),
    _row("tls-client-key-file", PATH, b""),
    _row("tls-client-key-file-pass", TEXT, b""),
)

PROCESS = (
    _row("daemonize", BOOL, False, change=IMMUTABLE),
    _row("pidfile", PATH, b"", change=IMMUTABLE),
    _row("supervised", Choice((b"upstart", b"systemd", b"auto", b"no")), b"no", change=IMMUTABLE),
    _row("compat-config", BOOL, False, change=IMMUTABLE),
    _row("loglevel", Choice((b"debug", b"verbose", b"notice", b"warning", b"nothing")), b"notice"),
    _row("logfile", PATH, b"", change=IMMUTABLE),
    _row("dir", PATH, b"./", change=PROTECTED, is_always_written=True, needs_listener=True),
    _row("databases", Integer(1, DATABASES_MAX), 16, change=IMMUTABLE),
    _row("hz", Integer(0, INT32_MAX, clamp=(1, 500)), 10),
    _row("shutdown-timeout", COUNT_32, 10),
    _row("shutdown-on-sigint", SHUTDOWN_OPTIONS, b"default"),
    _row("shutdown-on-sigterm", SHUTDOWN_OPTIONS, b"default"),
)

SECURITY = (
    _row("requirepass", TEXT, b""),
    _row("aclfile", PATH, b"", change=IMMUTABLE),
    _row("acl-pubsub-default", Choice((b"allchannels", b"resetchannels")), b"resetchannels"),
    _row("acllog-max-len", COUNT, 128),
    _row("enable-debug-command", YES_NO_LOCAL, b"no", change=IMMUTABLE),
    _row("enable-protected-configs", YES_NO_LOCAL, b"no", change=IMMUTABLE),
    _row("enable-module-command", YES_NO_LOCAL, b"no", change=IMMUTABLE, has_effect=False),
)

LIMITS = (
    _row("proto-max-bulk-len", Memory(1 << 20), 512 << 20),
    _row("client-query-buffer-limit", Memory(1 << 20), 1 << 30),
    _row(
        "client-output-buffer-limit",
        BufferLimits(),
        b"normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    _row("maxmemory", Memory(0, UINT64_MAX), 0),
    _row("maxmemory-policy", EVICTION_POLICIES, b"noeviction"),
    _row("maxmemory-samples", Integer(1, 64), 5),
    _row("maxmemory-eviction-tenacity", Integer(0, 100), 10),
    _row("lfu-log-factor", COUNT_32, 10),
    _row("lfu-decay-time", COUNT_32, 1),
    _row("lazyfree-lazy-eviction", BOOL, False),
    _row("evict-pending-streams", BOOL, False),
    _row("maxmemory-clients", MemoryOrPercent(), 0),
)

STREAMS = (
    _row("stream-node-max-bytes", SIZE, 4096),
    _row("stream-node-max-entries", COUNT, 100),
    _row("stream-idmp-duration", Integer(1, 86400), 100),
    _row("stream-idmp-maxsize", Integer(1, 10000), 100),
    _row("stream-exact-lag", BOOL, False),
    _row("stream-chunk-compression", Choice((b"zstd", b"no")), b"zstd"),
    _row("stream-group-defaults", GroupDefaults(), b""),
)

# Up to which size a value has its small encoding.
COMPANIONS = (
    _row("array-slice-size", PowerOfTwo(256, 65536, name="array-slice-size"), 4096),
    _row("array-sparse-kmax", Integer(0, 256), 10),
    _row("array-sparse-kmin", Integer(0, 256), 5),
    _row("hash-max-listpack-entries", COUNT, 512, "hash-max-ziplist-entries"),
    _row("hash-max-listpack-value", SIZE, 64, "hash-max-ziplist-value"),
    _row("hash-min-template-entries", COUNT, 0),
    _row("hash-max-template-entries", COUNT, 0),
    _row("hash-rdb-load-min-template-entries", COUNT, 0),
    _row("hash-rdb-load-max-template-entries", COUNT, 0),
    _row("hash-rdb-load-template-disassembly-threshold", COUNT, 0),
    _row("list-max-listpack-size", INT_32, -2, "list-max-ziplist-size"),
    _row("set-max-intset-entries", COUNT, 512),
    _row("set-max-listpack-entries", COUNT, 128),
    _row("set-max-listpack-value", COUNT, 64),
    _row("zset-max-listpack-entries", COUNT, 128, "zset-max-ziplist-entries"),
    _row("zset-max-listpack-value", SIZE, 64, "zset-max-ziplist-value"),
    _row("hll-sparse-max-bytes", SIZE, 3000),
)

PERSISTENCE = (
    _row("save", SavePoints(), b"3600 1 300 100 60 10000"),
    _row(
        "dbfilename",
        FileName("dbfilename can't be a path, just a filename"),
        b"dump.rdb",
        change=PROTECTED,
    ),
    _row("rdbcompression", BOOL, True),
    _row("rdbchecksum", BOOL, True, change=IMMUTABLE),
    _row("rdb-skip-foreign-types", BOOL, False),
    _row("rdb-key-save-delay", INT_32, 0, is_hidden=True),
    _row("key-load-delay", INT_32, 0, is_hidden=True),
    _row("stop-writes-on-bgsave-error", BOOL, True),
    _row("appendonly", BOOL, False, needs_listener=True),
    _row(
        "appendfilename",
        FileName("appendfilename can't be a path, just a filename"),
        b"appendonly.aof",
        change=IMMUTABLE,
    ),
    _row(
        "appenddirname", FileName("appenddirname can't be a path, just a dirname"), b"appendonlydir", change=IMMUTABLE
    ),
    _row("backupdirname", FileName("backupdirname can't be a path, just a dirname"), b"backupdir", change=IMMUTABLE),
    _row("backup-sealed-ttl", COUNT, 0),
    _row("appendfsync", Choice((b"everysec", b"always", b"no")), b"everysec"),
    _row("no-appendfsync-on-rewrite", BOOL, False),
    _row("auto-aof-rewrite-percentage", COUNT_32, 100),
    _row("auto-aof-rewrite-min-size", SIZE, 64 << 20),
    _row("aof-load-truncated", BOOL, True),
    _row("aof-load-corrupt-tail-max-size", COUNT, 0),
    _row("aof-use-rdb-preamble", BOOL, False),
    _row("aof-timestamp-enabled", BOOL, False),
    _row("aof-block-checksums", BOOL, True, change=IMMUTABLE),
    _row("aof-disable-auto-gc", BOOL, False, is_hidden=True),
    _row("aof-skip-foreign-commands", BOOL, False, change=IMMUTABLE),
    _row("aof-start-from-rdb", BOOL, False, change=IMMUTABLE),
)

OBSERVABILITY = (
    _row("slowlog-log-slower-than", Integer(-1), 10000),
    _row("slowlog-max-len", COUNT, 128),
    _row("slowlog-entry-max-argc", Integer(2, INT32_MAX), 32),
    _row("slowlog-entry-max-string-len", Integer(1), 128),
    _row("latency-monitor-threshold", COUNT, 0),
    _row("busy-reply-threshold", COUNT, 5000, "lua-time-limit"),
    _row("latency-tracking", BOOL, True),
    _row(
        "latency-tracking-info-percentiles",
        Words(64, "Invalid latency-tracking-info-percentiles parameters", check_percentile),
        b"50 99 99.9",
    ),
    _row("metrics-port", PORT, 0, change=IMMUTABLE),
    _row(
        "metrics-bind",
        Words(16, "Too many bind addresses specified."),
        b"127.0.0.1 -::1",
        change=IMMUTABLE,
    ),
    _row("metrics-streams-max", COUNT_32, 500),
    _row("notify-keyspace-events", EventClasses(), b""),
    _row("tracking-table-max-keys", COUNT, 1000000),
)

REPLICATION = (
    _row("replicaof", Primary(), b"", "slaveof", change=IMMUTABLE),
    _row("masteruser", TEXT, b""),
    _row("masterauth", TEXT, b""),
    _row("replica-serve-stale-data", BOOL, True, "slave-serve-stale-data"),
    _row("replica-read-only", BOOL, True, "slave-read-only"),
    _row("replica-ignore-maxmemory", BOOL, True, "slave-ignore-maxmemory"),
    _row("replica-priority", COUNT_32, 100, "slave-priority"),
    _row("replica-announce-ip", TEXT, b"", "slave-announce-ip"),
    _row("replica-announce-port", PORT, 0, "slave-announce-port"),
    _row("replica-announced", BOOL, True),
    _row("repl-diskless-sync", BOOL, True),
    _row("repl-diskless-sync-delay", COUNT_32, 5),
    _row("repl-diskless-sync-max-replicas", COUNT_32, 0),
    _row("repl-backlog-size", Memory(1, floor=16384), 1 << 20),
    _row("repl-backlog-ttl", COUNT, 3600),
    _row("repl-ping-replica-period", POSITIVE_32, 10, "repl-ping-slave-period"),
    _row("repl-timeout", POSITIVE_32, 60),
    _row("min-replicas-to-write", COUNT_32, 0, "min-slaves-to-write"),
    _row("min-replicas-max-lag", COUNT_32, 10, "min-slaves-max-lag"),
)

# Headrace does not have the directives below. They are grouped by kind of value, so that the table is a list of names.

_YES = """
    activerehashing aof-rewrite-incremental-fsync cluster-allow-pubsubshard-when-down cluster-allow-replica-migration
    cluster-require-full-coverage crash-log-enabled crash-memcheck-enabled dynamic-hz jemalloc-bg-thread
    rdb-save-incremental-fsync
"""
_NO = """
    activedefrag cluster-allow-reads-when-down cluster-bus-port-protected-mode
    cluster-replica-no-failover|cluster-slave-no-failover hide-user-data-from-log key-memory-histograms
    lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del
    lazyfree-lazy-user-flush rdb-del-sync-files repl-disable-tcp-nodelay replica-ignore-disk-write-errors
    replica-lazy-flush|slave-lazy-flush tls-cluster
    vset-force-single-threaded-execution
"""
_EMPTY_TEXT = """
    bind-source-addr cluster-announce-hostname cluster-announce-human-nodename cluster-announce-ip ignore-warnings
    locale-collate tls-expected-peer-name
"""
_EMPTY_TEXT_IMMUTABLE = """
    aof-rewrite-cpulist|aof_rewrite_cpulist bgsave-cpulist|bgsave_cpulist bio-cpulist|bio_cpulist
    server-cpulist|server_cpulist
"""


def _group(names: str, kind: Kind, default: Any, **options: Any) -> tuple[Directive, ...]:
    """Rows without effect, from words of the form `name|alias`."""
    return tuple(
        _row(name, kind, default, *aliases, has_effect=False, **options)
        for name, *aliases in [word.split("|") for word in names.split()]
    )


def _echoed(name: str, kind: Kind, default: Any, *aliases: str, **options: Any) -> Directive:
    return _row(name, kind, default, *aliases, has_effect=False, **options)


ACCEPTED_ONLY = (
    *_group(_YES, BOOL, True),
    *_group(_NO, BOOL, False),
    *_group(_EMPTY_TEXT, TEXT, b""),
    *_group(_EMPTY_TEXT_IMMUTABLE, TEXT, b"", change=IMMUTABLE),
    *_group("always-show-logo syslog-enabled", BOOL, False, change=IMMUTABLE),
    *_group("disable-thp set-proc-title", BOOL, True, change=IMMUTABLE),
    _echoed("repl-rdb-channel", BOOL, True, is_hidden=True),
    # Text and choices
    _echoed("proc-title-template", TEXT, b"{title} {listen-addr} {server-mode}"),
    _echoed("cluster-config-file", TEXT, b"nodes.conf", change=IMMUTABLE),
    _echoed("syslog-ident", TEXT, b"redis", change=IMMUTABLE),
    _echoed("syslog-facility", FACILITIES, b"local0", change=IMMUTABLE),
    _echoed("cluster-preferred-endpoint-type", Choice((b"ip", b"hostname", b"unknown-endpoint")), b"ip"),
    _echoed("cluster-slot-stats-enabled", Choice((b"no", b"yes", b"cpu", b"net", b"mem"), combine=True), b"no"),
    _echoed("oom-score-adj", Choice((b"no", b"yes", b"relative", b"absolute")), b"no"),
    _echoed("oom-score-adj-values", OomScores(), b"0 200 800"),
    _echoed("propagation-error-behavior", Choice((b"ignore", b"panic", b"panic-on-replicas")), b"ignore"),
    _echoed("repl-diskless-load", Choice((b"disabled", b"on-empty-db", b"swapdb", b"flushdb")), b"disabled"),
    _echoed("sanitize-dump-payload", Choice((b"no", b"yes", b"clients")), b"no"),
    # Sizes
    _echoed("active-defrag-ignore-bytes", Memory(1), 100 << 20),
    _echoed("cluster-link-sendbuf-limit", Memory(0, UINT64_MAX), 0),
    _echoed("cluster-slot-migration-handoff-max-lag-bytes", SIZE, 1 << 20),
    _echoed("replica-full-sync-buffer-limit", SIZE, 0),
    # Numbers
    _echoed("active-defrag-cycle-max", Integer(1, 99), 25),
    _echoed("active-defrag-cycle-min", Integer(1, 99), 1),
    _echoed("active-defrag-max-scan-fields", Integer(1), 1000),
    _echoed("active-defrag-threshold-lower", Integer(0, 1000), 10),
    _echoed("active-defrag-threshold-upper", Integer(0, 1000), 100),
    _echoed("active-expire-effort", Integer(1, 10), 1),
    _echoed("cluster-announce-bus-port", PORT, 0),
    _echoed("cluster-announce-port", PORT, 0),
    _echoed("cluster-announce-tls-port", PORT, 0),
    _echoed("cluster-compatibility-sample-ratio", Integer(0, 100), 0),
    _echoed("cluster-migration-barrier", COUNT_32, 1),
    _echoed("cluster-node-timeout", COUNT, 15000),
    _echoed("cluster-port", PORT, 0, change=IMMUTABLE),
    _echoed("cluster-replica-validity-factor", COUNT_32, 10, "cluster-slave-validity-factor"),
    _echoed("cluster-slot-migration-write-pause-timeout", COUNT, 10000),
    _echoed("io-threads", Integer(1, 128), 1, change=IMMUTABLE),
    _echoed("list-compress-depth", COUNT_32, 0),
    _echoed("lookahead", POSITIVE_32, 16),
    _echoed("max-new-connections-per-cycle", Integer(1, 1000), 10),
    _echoed("socket-mark-id", Integer(0, 2**32 - 1), 0, change=IMMUTABLE, matters="Headrace marks no sockets"),
    _echoed("tls-session-cache-size", COUNT_32, 20480),
    _echoed("tls-session-cache-timeout", COUNT_32, 300),
    # Parts without which a server would follow another one, or keep other data.
    _echoed("cluster-enabled", BOOL, False, change=IMMUTABLE, matters=f"{STANDALONE} it has no cluster"),
    _echoed("preload-file", TEXT, b"", change=IMMUTABLE, matters="Headrace loads no file but its own (dbfilename)"),
    # Hidden in Redis as well, most of them for its tests
    _echoed("lua-enable-deprecated-api", BOOL, False, change=IMMUTABLE, is_hidden=True),
    _echoed("use-exit-on-panic", BOOL, False, is_hidden=True),
    _echoed("lazyexpire-nested-arbitrary-keys", BOOL, True, is_hidden=True),
    _echoed("cluster-ping-interval", COUNT, 0, is_hidden=True),
    _echoed("cluster-slot-migration-max-archived-tasks", POSITIVE_32, 32, is_hidden=True),
    _echoed("cluster-slot-migration-sync-buffer-drain-timeout", COUNT, 60000, is_hidden=True),
    _echoed("loading-process-events-interval-bytes", Integer(1024, INT32_MAX), 512 << 10, is_hidden=True),
    _echoed("prefetch-batch-max-size", Integer(0, 128), 16, is_hidden=True),
    _echoed("watchdog-period", COUNT_32, 0, is_hidden=True),
)

DIRECTIVES: tuple[Directive, ...] = (
    *NETWORK, *TLS, *PROCESS, *SECURITY, *LIMITS, *STREAMS, *COMPANIONS, *PERSISTENCE, *REPLICATION, *OBSERVABILITY,
    *ACCEPTED_ONLY,
)  # fmt: skip

# By lower-case name, aliases included.
BY_NAME: dict[bytes, Directive] = {
    name: directive for directive in DIRECTIVES for name in (directive.name, *directive.aliases)
}

# Directives of Redis that are no settings: why a line with one stops the start.
REFUSED: dict[bytes, str] = {b"loadmodule": "Headrace has no modules"}

# Lines that Redis accepts, with one value, and ignores: directives of old versions.
OBSOLETE = (b"io-threads-do-reads", b"list-max-ziplist-entries", b"list-max-ziplist-value", b"lua-replicate-commands")
