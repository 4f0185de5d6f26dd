"""Every directive of the table does something, or says that it does not: what is observed under two of its values
differs, or another test shows it, or the row is declared without effect (see test_compat_config.py).

A new row is tested by itself, and fails until its effect is described here.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.persistence.errors import LogError
from headrace.server import lifecycle
from headrace.server.app import Server
from headrace.server.configuration import directive_kinds
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigLineError
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directives import DIRECTIVES, Change, Directive
from headrace.server.sockets.tcp_listener import TcpListener
from headrace.server.sockets.tls_listener import TlsListener
from support.certificates import Authority
from support.inprocess import Rig, Running, running_server
from support.logging_server import LoggingServer
from support.ports import free_port
from support.stepping import SteppingLoop
from support.wire import encode

TESTS = Path(__file__).parents[2]
# Observes a server in this folder whose directive, by its attribute, has this value.
Observe = Callable[[Path, str, Any], Any]


@dataclass(frozen=True)
class Effect:
    """Two values of a directive, and an observation that must differ between them."""

    one: Any
    other: Any
    observe: Observe


# -- ways to look ------------------------------------------------------------------------------------


def replies(*lines: str, **others: Any) -> Observe:
    """The replies to these lines."""

    def observe(folder: Path, name: str, value: Any) -> bytes:
        return Rig(**{name: value, **others}).connect().call(*lines)

    return observe


def says(word: bytes, *lines: str, **others: Any) -> Observe:
    """Whether a word is among the replies to these lines."""
    return lambda folder, name, value: word in replies(*lines, **others)(folder, name, value)


@contextmanager
def logging_server(folder: Path, *, appendonly: bool = True, **directives: Any) -> Iterator[LoggingServer]:
    config = Config()
    is_rdb_base = directives.pop("aof_use_rdb_preamble", False)
    for name, value in directives.items():
        setattr(config, name, value)
    server = LoggingServer(folder, appendonly=appendonly, has_rdb_base=is_rdb_base, config=config)
    try:
        yield server
    finally:
        server.stop()


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def files_of_a_log(*lines: str) -> Observe:
    """The names of the files after these lines, a rewrite and a save."""

    def observe(folder: Path, name: str, value: Any) -> set[str]:
        with logging_server(folder, **{name: value}) as server:
            server.call("SET k v", *lines)
            server.run_slices()
        return names(folder)

    return observe


def sealed_backup(folder: Path, name: str, value: Any) -> set[str]:
    """The names of the files two seconds after a backup was sealed."""
    with logging_server(folder, **{name: value}) as server:
        server.call("SET k v", "BACKUP START")
        server.run_slices()
        server.call("BACKUP SEAL")
        server.server.backups.cron(server.clock() + 2_000)
    return names(folder)


def text_of_the_log(folder: Path, name: str, value: Any) -> bytes:
    with logging_server(folder, **{name: value}) as server:
        server.call("SET k v")
    return b"".join(path.read_bytes() for path in folder.rglob("*.incr.aof"))


def dump(folder: Path, name: str, value: Any) -> bytes:
    with logging_server(folder, appendonly=False, **{name: value}) as server:
        server.call("SET k " + "x" * 1000, "SAVE")
    return (folder / "dump.rdb").read_bytes()


def load_of(damage: Callable[[bytes], bytes]) -> Observe:
    """Whether a log is loaded whose last file was damaged."""

    def observe(folder: Path, name: str, value: Any) -> bool:
        with logging_server(folder, aof_block_checksums=False) as server:
            server.call("SET k v", "SET k w")
        (path,) = folder.rglob("*.incr.aof")
        path.write_bytes(damage(path.read_bytes()))
        try:
            with logging_server(folder, aof_block_checksums=False, **{name: value}):
                return True
        except LogError:
            return False

    return observe


def load_of_a_dump_without_a_log(folder: Path, name: str, value: Any) -> bytes:
    with logging_server(folder, appendonly=False) as server:
        server.call("SET k v", "SAVE")
    with logging_server(folder, **{name: value}) as server:
        return server.call("GET k")


def load_of_dump(data: bytes) -> Observe:
    """Whether a dump is loaded."""

    def observe(folder: Path, name: str, value: Any) -> bool:
        (folder / "dump.rdb").write_bytes(data)
        try:
            with logging_server(folder, appendonly=False, **{name: value}):
                return True
        except LogError:
            return False

    return observe


def growth(folder: Path, name: str, value: Any) -> bool:
    """Whether a log that has grown from nothing to some kilobytes is rewritten by itself."""
    others = {"auto_aof_rewrite_min_size": 1, "auto_aof_rewrite_percentage": 1, name: value}
    with logging_server(folder, **others) as server:
        server.call("SET k " + "x" * 10_000)
        server.server.snapshots.cron(server.clock())
        is_running = server.server.snapshots.rewrite.is_running
        server.run_slices()
    return is_running


def fsyncs_during_a_rewrite(folder: Path, name: str, value: Any) -> bool:
    """Whether `everysec` syncs what is written while a rewrite runs."""
    with logging_server(folder, **{name: value}) as server:
        log = server.server.log
        assert log is not None
        server.call("SET k v", "BGREWRITEAOF")
        assert server.server.snapshots.rewrite.is_running
        log.sync_soon(0)
        log._collect_fsync(wait=True)
        server.call("SET k w")
        server.clock.advance(5_000)
        log.cron(server.clock())
        started = log._sync.current is not None
        server.run_slices()
        server.clock.advance(5_000)
        log.cron(server.clock())
        log._collect_fsync(wait=True)
        assert log.synced_mark == log.mark, "once the rewrite has ended all is synced"
    return started


def place(folder: Path, name: str, value: Any) -> list[Any]:
    """Where a server listens."""
    config = Config()
    config.bind, config.port = b"127.0.0.1", free_port()
    setattr(config, name, value)
    listener = TcpListener(config, None, Server(config).acceptor.new_connection)
    found = [each.getsockname() for each in listener.sockets]
    for each in listener.sockets:
        each.close()
    return found


def backlog(folder: Path, name: str, value: Any) -> int:
    """The longest queue of connections that are not accepted yet: tcpi_sacked of a listening socket."""
    config = Config()
    config.bind, config.port = b"127.0.0.1", free_port()
    setattr(config, name, value)
    listener = TcpListener(config, None, Server(config).acceptor.new_connection)
    information = listener.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    listener.sockets[0].close()
    return int.from_bytes(information[28:32], "little")


def accepted_at_once(folder: Path, name: str, value: Any) -> int:
    """How many TLS connections are accepted in one turn."""
    count = 0

    class Accepting(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal count
            count += 1
            ours, theirs = socket.socketpair()
            theirs.close()
            return ours, ""

    config = Config()
    setattr(config, name, value)
    config.maxclients = 0  # each is closed at once
    config.tls_cert_file, config.tls_key_file = map(os.fsencode, Authority(folder).issue("server"))
    config.tls_auth_clients = b"no"
    server = Server(config)
    listener = TlsListener(
        config, server.stats, server.acceptor.new_connection, lambda: len(server.dispatcher.sessions)
    )
    with Accepting() as accepting:
        listener._accept(accepting)
    return count


def prefers_ciphers(folder: Path, name: str, value: Any) -> bool:
    from headrace.server.sockets.tls import _choose_ciphers

    config = Config()
    setattr(config, name, value)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _choose_ciphers(context, config)
    return bool(context.options & ssl.OP_CIPHER_SERVER_PREFERENCE)


def taken_suites(folder: Path, name: str, value: Any) -> str:
    """The result of a value: a cipher of TLS 1.3 is chosen, or the value is refused."""
    kind = directive_kinds.CipherSuites()
    try:
        return str(kind.parse([value]))
    except directive_kinds.BadValue as refusal:
        return str(refusal)


def first_turn_s(folder: Path, name: str, value: Any) -> float:
    """When the first turn of the periodic work is due."""
    rig = Rig(**{name: value})
    loop = SteppingLoop(rig.clock)
    with loop.running():
        rig.server.periodic.start()
    return loop._timers[0].due_ms - rig.clock()


def stop_by(number: signal.Signals) -> Observe:
    """Whether the dataset is saved by a signal."""

    def observe(folder: Path, name: str, value: Any) -> list[bool | None]:
        config = Config()
        setattr(config, name, value)
        saved: list[bool | None] = []
        server = SimpleNamespace(
            config=config,
            prepare_stop=lambda save: not saved.append(save),
            end=lambda: None,
            stopped=SimpleNamespace(is_set=lambda: False),
            stopping=SimpleNamespace(wait=None, begin=lambda finish, is_now: finish()),
        )
        before = {each: signal.getsignal(each) for each in lifecycle.STOP_SIGNALS}
        try:
            lifecycle.on_stop_signal(server, number)  # type: ignore[arg-type]
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
        return saved

    return observe


def pid_file(folder: Path, name: str, value: Any) -> bool:
    config = Config()
    setattr(config, name, value and os.fsencode(folder) + b"/" + value)
    lifecycle.write_pid_file(Server(config))
    return (folder / "pid").exists() and (folder / "pid").read_text() == f"{os.getpid()}\n"


def default_user(folder: Path, name: str, value: Any) -> bytes:
    return Rig(**{name: value}).connect().call("PING")


def protected_change(folder: Path, name: str, value: Any) -> list[bytes]:
    """CONFIG SET of a protected directive, by clients of this machine and another one."""
    found = []
    for address, is_unix in ((b"127.0.0.1:5", False), (b"[::1]:5", False), (b"/s:0", True), (b"10.0.0.1:5", False)):
        caller = Rig(**{name: value}).connect()
        caller.client.address, caller.client.is_unix = address, is_unix
        found.append(caller.call("CONFIG SET dbfilename other.rdb"))
    return found


def debug_use(folder: Path, name: str, value: Any) -> list[bytes]:
    found = []
    for address, is_unix in ((b"127.0.0.1:5", False), (b"[::1]:5", False), (b"/s:0", True), (b"10.0.0.1:5", False)):
        caller = Rig(**{name: value}).connect()
        caller.client.address, caller.client.is_unix = address, is_unix
        found.append(caller.call("DEBUG JMAP"))
    return found


def large_bulk(folder: Path, name: str, value: Any) -> bytes:
    """The answer to a request that announces two megabytes."""

    async def ask() -> bytes:
        async with running_server(**{name: value}) as running:
            peer = await running.connect()
            peer.writer.write(b"*2\r\n$4\r\nECHO\r\n$2097152\r\n" + b"x" * 2097152 + b"\r\n")
            return (await peer.line())[:10]

    return asyncio.run(ask())


def second_add(*lines: str, wait_ms: int = 0) -> Observe:
    """Whether an idempotent addition that comes again is known."""

    def observe(folder: Path, name: str, value: Any) -> bool:
        rig = Rig(**{name: value})
        caller = rig.connect()
        first = caller.call("XADD s IDMP p i * f v")
        caller.call(*lines)
        rig.pass_time(wait_ms)
        rig.server.idempotence_expiry.run(rig.clock())
        return caller.call("XADD s IDMP p i * f v") == first

    return observe


def failing_snapshot(folder: Path, name: str, value: Any) -> bytes:
    with logging_server(folder, appendonly=False, **{name: value}) as server:
        (folder / "dump.rdb").mkdir()
        (folder / "dump.rdb" / "in the way").touch()
        server.call("BGSAVE")
        server.run_slices()
        return server.call("SET a 1")


def save_points(folder: Path, name: str, value: Any) -> bool:
    with logging_server(folder, appendonly=False, **{name: value}) as server:
        server.call("SET a 1")
        server.clock.advance(20_000)
        server.server.snapshots.cron(server.clock())
        return server.server.snapshots.save.is_running


def is_log_kept(folder: Path, name: str, value: Any) -> bool:
    with logging_server(folder, **{name: value}) as server:
        return server.server.log is not None


def settings_of(folder: Path, name: str, value: Any) -> list[bool]:
    """Whether the start accepts directives of parts that Headrace does not have."""
    config = Config()
    try:
        load_text(config, f"{name.replace('_', '-')} {'yes' if value else 'no'}\ncluster-enabled yes\n".encode())
    except ConfigLineError:
        return [False]
    return [True]


NODES = ["XADD s 1-1 f " + "x" * 60, "XADD s 2-1 f " + "x" * 60, "XADD s 3-1 f " + "x" * 60, "XINFO STREAM s"]
# A dump with a value of a module.
FOREIGN = b"REDIS0012\xfe\x00\x07\x01l\x01\x00\xff" + bytes(8)
BAD_SUM = b"REDIS0012\xfe\x00\x00\x01k\x01v\xff" + b"\x01" * 8

# By directive.
EFFECTS: dict[str, Effect] = {
    "bind": Effect(b"127.0.0.1", b"127.0.0.2", lambda folder, name, value: place(folder, name, value)[0][0]),
    "port": Effect(free_port(), 0, place),
    "tcp-backlog": Effect(7, 9, backlog),
    "tls-ciphersuites": Effect(b"", b"TLS_AES_128_GCM_SHA256", taken_suites),
    "tls-prefer-server-ciphers": Effect(True, False, prefers_ciphers),
    "max-new-tls-connections-per-cycle": Effect(1, 3, accepted_at_once),
    "pidfile": Effect(b"", b"pid", pid_file),
    "compat-config": Effect(True, False, settings_of),
    "databases": Effect(1, 2, replies("SELECT 1")),
    "hz": Effect(10, 100, first_turn_s),
    "shutdown-on-sigint": Effect(b"save", b"nosave", stop_by(signal.SIGINT)),
    "shutdown-on-sigterm": Effect(b"save", b"nosave", stop_by(signal.SIGTERM)),
    "requirepass": Effect(b"", b"secret", default_user),
    "acl-pubsub-default": Effect(
        b"allchannels", b"resetchannels", replies("ACL SETUSER u", "ACL LIST", "ACL GETUSER u")
    ),
    "acllog-max-len": Effect(0, 1, replies("AUTH u x", "ACL LOG")),
    "enable-debug-command": Effect(b"no", b"yes", debug_use),
    "enable-protected-configs": Effect(b"no", b"yes", protected_change),
    "proto-max-bulk-len": Effect(1 << 20, 1 << 22, large_bulk),
    "stream-node-max-bytes": Effect(64, 4096, replies(*NODES)),
    "stream-node-max-entries": Effect(1, 100, replies(*NODES)),
    "stream-idmp-duration": Effect(1, 100, second_add("PING", wait_ms=5_000)),
    "stream-idmp-maxsize": Effect(1, 100, second_add("XADD s IDMP p j * f v")),
    "array-slice-size": Effect(256, 4096, replies("ARSET a 300 x", "ARINFO a")),
    "array-sparse-kmax": Effect(6, 10, replies("ARMSET a 0 x 1 x 2 x 3 x 4 x 5 x 6 x", "ARINFO a FULL")),
    "array-sparse-kmin": Effect(
        0, 5, replies("ARSET a 0 a b c d e f g h i j k", "ARSET a 99 x", "ARDELRANGE a 2 50", "ARINFO a FULL")
    ),
    "hash-max-listpack-entries": Effect(1, 512, replies("HSET h f v g v", "OBJECT ENCODING h")),
    "hash-max-listpack-value": Effect(3, 64, replies("HSET h f long", "OBJECT ENCODING h")),
    "hash-min-template-entries": Effect(1, 0, replies("HSET h f v", "OBJECT ENCODING h")),
    "list-max-listpack-size": Effect(1, -2, replies("RPUSH l 1 2", "OBJECT ENCODING l")),
    "set-max-intset-entries": Effect(1, 512, replies("SADD s 1 2", "OBJECT ENCODING s")),
    "set-max-listpack-entries": Effect(1, 128, replies("SADD s a b", "OBJECT ENCODING s")),
    "set-max-listpack-value": Effect(3, 64, replies("SADD s long", "OBJECT ENCODING s")),
    "zset-max-listpack-entries": Effect(1, 128, replies("ZADD s 1 a 2 b", "OBJECT ENCODING s")),
    "zset-max-listpack-value": Effect(3, 64, replies("ZADD s 1 long", "OBJECT ENCODING s")),
    "hll-sparse-max-bytes": Effect(18, 3000, replies("PFADD h x", "PFDEBUG ENCODING h")),
    "save": Effect(b"10 1", b"", save_points),
    "dbfilename": Effect(b"one.rdb", b"other.rdb", files_of_a_log("SAVE")),
    "rdbcompression": Effect(True, False, lambda *given: len(dump(*given))),
    "rdbchecksum": Effect(True, False, lambda *given: dump(*given)[-8:] == bytes(8)),
    "rdb-skip-foreign-types": Effect(True, False, load_of_dump(FOREIGN)),
    "stop-writes-on-bgsave-error": Effect(True, False, failing_snapshot),
    "appendfilename": Effect(b"one.aof", b"other.aof", files_of_a_log()),
    "appenddirname": Effect(b"one", b"other", files_of_a_log()),
    "backupdirname": Effect(b"one", b"other", files_of_a_log("BACKUP START")),
    "backup-sealed-ttl": Effect(0, 1, sealed_backup),
    "no-appendfsync-on-rewrite": Effect(True, False, fsyncs_during_a_rewrite),
    "auto-aof-rewrite-percentage": Effect(0, 1, growth),
    "auto-aof-rewrite-min-size": Effect(1 << 20, 1, growth),
    "aof-load-truncated": Effect(True, False, load_of(lambda data: data[:-3])),
    "aof-load-corrupt-tail-max-size": Effect(100, 0, load_of(lambda data: data[:-20] + b"!" * 20)),
    "aof-skip-foreign-commands": Effect(True, False, load_of(lambda data: data + encode(("VADD", "l", "0", "v")))),
    "aof-use-rdb-preamble": Effect(True, False, files_of_a_log("BGREWRITEAOF")),
    "aof-timestamp-enabled": Effect(True, False, lambda *given: b"#TS:" in text_of_the_log(*given)),
    "aof-block-checksums": Effect(True, False, lambda *given: len(text_of_the_log(*given))),
    "aof-disable-auto-gc": Effect(True, False, files_of_a_log("BGREWRITEAOF")),
    "aof-start-from-rdb": Effect(True, False, load_of_a_dump_without_a_log),
    "slowlog-log-slower-than": Effect(-1, 0, replies("GET k", "SLOWLOG LEN")),
    "slowlog-max-len": Effect(1, 2, replies("GET k", "GET l", "SLOWLOG LEN", slowlog_log_slower_than=0)),
    "slowlog-entry-max-argc": Effect(
        2, 32, says(b"more arguments", "MGET a b c", "SLOWLOG GET", slowlog_log_slower_than=0)
    ),
    "slowlog-entry-max-string-len": Effect(
        1, 128, says(b"more bytes", "GET abc", "SLOWLOG GET", slowlog_log_slower_than=0)
    ),
    "latency-tracking": Effect(True, False, says(b"latency_p", "GET k", "INFO latencystats")),
    "latency-tracking-info-percentiles": Effect(
        b"50", b"99", says(b"p50=", "GET k", "INFO latencystats")
    ),
    "replica-priority": Effect(7, 100, says(b"slave_priority:7", "INFO replication", replicaof=b"h 1")),
    "replica-announced": Effect(True, False, says(b"replica_announced:1", "INFO replication", replicaof=b"h 1")),
    "tracking-table-max-keys": Effect(
        1, 0, says(b"invalidate", "HELLO 3", "CLIENT TRACKING ON", "GET a", "GET b")
    ),
}  # fmt: skip

# Directives whose effect another test shows: its module and its name.
REPLICAS = "server/replication/test_primary.py"
SHOWN_BY = {
    "protected-mode": (
        "server/sockets/test_connection.py", "test_protected_mode_turns_strangers_away_until_there_is_a_password",
    ),
    "unixsocket": ("server/test_lifecycle.py", "test_unix_socket_serves_with_its_permissions"),
    "unixsocketperm": ("server/test_lifecycle.py", "test_unix_socket_serves_with_its_permissions"),
    "tcp-keepalive": ("server/sockets/test_connection.py", "test_a_silent_peer_is_probed_as_tcp_keepalive_says"),
    "rdb-key-save-delay": (
        "compat/test_key_delays.py", "test_a_snapshot_for_replicas_takes_as_long_as_its_keys_cost"
    ),
    "key-load-delay": ("compat/test_key_delays.py", "test_a_load_from_the_primary_takes_as_long_as_its_keys_cost"),
    "shutdown-timeout": ("server/test_stopping.py", "test_the_wait_ends_after_shutdown_timeout"),
    "min-replicas-max-lag": (REPLICAS, "test_writes_are_refused_while_too_few_replicas_keep_up"),
    "min-replicas-to-write": (REPLICAS, "test_writes_are_refused_while_too_few_replicas_keep_up"),
    "repl-backlog-size": (REPLICAS, "test_the_backlog_keeps_the_size_that_was_set"),
    "repl-backlog-ttl": (REPLICAS, "test_the_stream_ends_some_time_after_the_last_replica_has_left"),
    "repl-diskless-sync": (REPLICAS, "test_a_snapshot_goes_through_a_file_if_the_directive_says_so"),
    "repl-diskless-sync-delay": (REPLICAS, "test_replicas_that_wait_share_a_snapshot"),
    "repl-diskless-sync-max-replicas": (REPLICAS, "test_a_snapshot_begins_at_once_when_enough_replicas_wait"),
    "repl-ping-replica-period": (REPLICAS, "test_a_silent_stream_has_a_ping_after_the_period"),
    "repl-timeout": (REPLICAS, "test_a_replica_that_confirms_nothing_for_the_timeout_is_closed"),
    "timeout": ("server/requests/test_client_limits.py", "test_idle_clients_are_closed_but_not_those_that_wait"),
    "maxclients": ("server/sockets/test_connection.py", "test_clients_beyond_the_limit_get_an_error_and_are_closed"),
    "tls-port": ("server/sockets/test_tls.py", "test_a_taken_tls_port_is_named_by_its_directive"),
    "tls-cert-file": ("server/sockets/test_tls.py", "test_new_certificates_serve_only_new_connections"),
    "tls-key-file": ("server/sockets/test_tls.py", "test_new_certificates_serve_only_new_connections"),
    "tls-key-file-pass": ("server/sockets/test_tls.py", "test_a_locked_key_opens_with_its_password"),
    "tls-ca-cert-file": (
        "server/sockets/test_tls.py", "test_demanding_certificates_needs_an_authority"
    ),
    "tls-ca-cert-dir": (
        "server/sockets/test_tls.py", "test_demanding_certificates_needs_an_authority"
    ),
    "tls-dh-params-file": ("server/sockets/test_tls.py", "test_what_does_not_work_is_named"),
    "tls-auth-clients": ("server/sockets/test_tls.py", "test_who_must_show_a_certificate"),
    "tls-auth-clients-user": ("server/sockets/test_tls.py", "test_a_certificate_logs_its_user_in"),
    "tls-protocols": ("server/sockets/test_tls.py", "test_only_the_wanted_versions_are_spoken"),
    "tls-ciphers": ("server/sockets/test_tls.py", "test_the_wanted_cipher_is_used"),
    "tls-session-caching": ("server/sockets/test_tls.py", "test_tickets_are_given_out_unless_session_caching_is_off"),
    **dict.fromkeys(
        ("tls-replication", "tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass"),
        ("server/replication/test_following.py", "test_the_link_may_use_tls"),
    ),
    "replicaof": ("server/replication/test_following.py", "test_a_start_follows_the_primary_of_the_configuration"),
    **dict.fromkeys(
        ("masteruser", "masterauth", "replica-announce-ip", "replica-announce-port"),
        ("server/replication/test_following.py", "test_a_replica_logs_in_and_announces_itself"),
    ),
    "replica-serve-stale-data": (
        "server/replication/test_following.py", "test_stale_data_are_refused_if_the_directive_says_so",
    ),
    "replica-read-only": ("server/replication/test_following.py", "test_writes_of_clients_are_refused"),
    "replica-ignore-maxmemory": (
        "compat/test_writable_replicas.py", "test_maxmemory_applies_to_a_replica_only_if_it_shall"
    ),
    "supervised": (
        "server/test_supervision.py", "test_systemd_is_notified_when_clients_are_served_and_when_the_server_ends",
    ),
    "daemonize": ("server/test_main.py", "test_daemon_logs_that_the_port_is_in_use"),
    "loglevel": ("server/reports/test_logs.py", "test_loglevel_lets_through_its_level_and_above"),
    "logfile": ("server/test_main.py", "test_taken_port_is_one_line_for_the_user_and_in_the_log"),
    "dir": ("server/test_main.py", "test_directory_is_entered"),
    "aclfile": ("server/configuration/test_users.py", "test_save_and_load_go_round"),
    "client-query-buffer-limit": (
        "commands/core/test_request_size.py", "test_a_queue_of_small_requests_is_closed_at_the_query_buffer_limit",
    ),
    "client-output-buffer-limit": (
        "server/requests/test_client_limits.py", "test_a_subscriber_that_does_not_read_is_closed_at_the_hard_limit",
    ),
    "maxmemory": (
        "server/reports/test_memory.py", "test_writes_are_refused_exactly_from_the_limit_on_and_taken_again_below_it",
    ),
    **dict.fromkeys(
        ("maxmemory-policy", "lazyfree-lazy-eviction"),
        ("server/eviction/test_cycle.py", "test_the_key_that_expires_first_is_evicted_first"),
    ),
    "maxmemory-samples": ("server/eviction/test_cycle.py", "test_more_samples_come_nearer_to_the_best_key"),
    "maxmemory-eviction-tenacity": ("server/eviction/test_cycle.py", "test_a_cycle_ends_after_its_time"),
    "lfu-log-factor": ("server/eviction/test_cycle.py", "test_counters_grow_as_slowly_as_the_factor_says"),
    "lfu-decay-time": ("server/eviction/test_cycle.py", "test_counters_decay_with_the_minutes"),
    "evict-pending-streams": ("server/eviction/test_cycle.py", "test_a_stream_with_pending_entries_stays"),
    "maxmemory-clients": (
        "server/requests/test_client_limits.py", "test_the_largest_clients_are_closed_if_all_take_too_much"
    ),
    "hash-max-template-entries": (
        "commands/hashes/test_templates.py", "test_a_hash_with_more_fields_than_the_largest_number_stays_plain"
    ),
    **dict.fromkeys(
        ("hash-rdb-load-min-template-entries", "hash-rdb-load-max-template-entries"),
        ("commands/hashes/test_templates.py", "test_hashes_of_a_file_without_templates_take_one_when_they_are_loaded"),
    ),
    "hash-rdb-load-template-disassembly-threshold": (
        "commands/hashes/test_templates.py", "test_too_few_loaded_hashes_with_the_same_fields_stay_plain"
    ),
    "stream-exact-lag": ("commands/streams/test_exact_lag.py", "test_lag_is_a_number_as_soon_as_the_directive_says_so"),
    "stream-group-defaults": ("commands/policies/test_defaults.py", "test_new_group_gets_the_settings_of_its_key"),
    "stream-chunk-compression": (
        "commands/admin/test_memory.py", "test_changed_compression_applies_to_chunks_filled_later",
    ),
    "appendonly": ("server/test_lifecycle.py", "test_log_can_be_turned_on_and_off_while_running"),
    "appendfsync": ("server/storage/test_log_life.py", "test_waitaof_is_answered_however_the_fsync_comes"),
    "latency-monitor-threshold": ("commands/observing/test_latency.py", "test_commands_are_kept_by_their_kind"),
    "busy-reply-threshold": ("commands/scripting/test_commands.py", "test_a_script_that_has_written_nothing_is_ended"),
    "metrics-port": ("server/reports/test_metrics.py", "test_port_in_use_names_the_directive"),
    "metrics-bind": ("server/reports/test_metrics.py", "test_metrics_are_where_metrics_bind_says"),
    "metrics-streams-max": ("server/reports/test_metrics.py", "test_streams_beyond_the_cap_are_only_counted"),
    "notify-keyspace-events": (
        "commands/observing/test_notifications.py", "test_the_start_of_a_server_applies_the_directive"
    ),
}  # fmt: skip


def name_of(directive: Directive) -> str:
    return directive.name.decode()


WITH_EFFECT = [each for each in DIRECTIVES if each.has_effect]


@pytest.mark.parametrize("directive", WITH_EFFECT, ids=name_of)
def test_a_directive_does_something(directive: Directive, tmp_path: Path) -> None:
    name = name_of(directive)
    effect = EFFECTS.get(name)
    if effect is None:
        require_test(directive, *SHOWN_BY[name])
        return
    seen = []
    for number, value in enumerate((effect.one, effect.other)):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen.append(effect.observe(folder, directive.attribute, value))
    assert seen[0] != seen[1]


# Directives that a load reads: see the test of DEBUG LOADAOF below.
OF_A_LOAD = {"rdb-skip-foreign-types", "aof-load-truncated", "aof-load-corrupt-tail-max-size"}
CHANGEABLE = [
    each for each in WITH_EFFECT
    if each.change is not Change.IMMUTABLE and name_of(each) in EFFECTS and name_of(each) not in OF_A_LOAD
]  # fmt: skip


def change_while_serving(directive: Directive, before: Any, patch: pytest.MonkeyPatch) -> list[Any]:
    """Let the servers of an observation start with another value, and then set theirs. Returns the values set."""
    found: list[Any] = []
    start_logging, start_running = logging_server, running_server

    def set_now(config: Config, value: Any) -> None:
        found.append(value)
        config.enable_protected_configs = b"yes"
        config.set_many([(directive.name, directive.kind.show(value))])

    class ChangedRig(Rig):
        def __init__(self, **directives: Any) -> None:
            value = directives.pop(directive.attribute)
            super().__init__(**{directive.attribute: before}, **directives)
            set_now(self.config, value)

    @contextmanager
    def changed_server(folder: Path, *, appendonly: bool = True, **directives: Any) -> Iterator[LoggingServer]:
        value = directives.pop(directive.attribute)
        others = {directive.attribute: before, **directives}
        with start_logging(folder, appendonly=appendonly, **others) as server:
            set_now(server.config, value)
            yield server

    @asynccontextmanager
    async def changed_running_server(**directives: Any) -> AsyncIterator[Running]:
        value = directives.pop(directive.attribute)
        async with start_running(**{directive.attribute: before}, **directives) as running:
            set_now(running.server.config, value)
            yield running

    own = sys.modules[__name__]
    patch.setattr(own, "Rig", ChangedRig)
    patch.setattr(own, "logging_server", changed_server)
    patch.setattr(own, "running_server", changed_running_server)
    return found


@pytest.mark.parametrize("directive", CHANGEABLE, ids=name_of)
def test_a_changed_directive_takes_effect_at_once(
    directive: Directive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect = EFFECTS[name_of(directive)]
    for number, (value, before) in enumerate(((effect.one, effect.other), (effect.other, effect.one))):
        for folder in (tmp_path / f"started{number}", tmp_path / f"changed{number}"):
            folder.mkdir()
        started = effect.observe(tmp_path / f"started{number}", directive.attribute, value)
        with monkeypatch.context() as patch:
            found = change_while_serving(directive, before, patch)
            changed = effect.observe(tmp_path / f"changed{number}", directive.attribute, value)
        if not found:
            pytest.skip("observed without a server: another test changes it")
        assert changed == started


@pytest.mark.parametrize(
    ("name", "values", "damage"),
    [
        ("aof-load-truncated", ("no", "yes"), b"*3\r\n$3\r\nSET\r\n"),
        ("aof-load-corrupt-tail-max-size", ("0", "100"), b"!" * 20),
    ],
)
def test_directives_of_a_load_apply_to_debug_loadaof(
    name: str, values: tuple[str, str], damage: bytes, tmp_path: Path
) -> None:
    with logging_server(tmp_path, enable_debug_command=b"yes", aof_block_checksums=False) as server:
        replies = []
        for value in values:
            assert server.call(f"CONFIG SET {name} {value}", "SET k v")[:5] == b"+OK\r\n"
            (path,) = tmp_path.rglob("*.incr.aof")
            with path.open("ab") as file:
                file.write(damage)
            replies.append(server.call("DEBUG LOADAOF"))
            os.truncate(path, path.stat().st_size - (len(damage) if value == values[0] else 0))
    assert replies == [b"-ERR Error trying to load the AOF files, check server logs.\r\n", b"+OK\r\n"]


def test_history_of_a_log_is_deleted_once_it_is_kept_no_longer(tmp_path: Path) -> None:
    with logging_server(tmp_path, aof_disable_auto_gc=True) as server:
        server.call("SET k v", "BGREWRITEAOF")
        server.run_slices()
        assert list(tmp_path.rglob("*.1.incr.aof"))
        server.call("CONFIG SET aof-disable-auto-gc no")
        assert not list(tmp_path.rglob("*.1.incr.aof"))


def test_history_is_kept_when_the_log_is_turned_off_and_on(tmp_path: Path) -> None:
    with logging_server(tmp_path, aof_disable_auto_gc=True) as server:
        server.call("SET k v", "BGREWRITEAOF")
        server.run_slices()
        server.call("CONFIG SET appendonly no", "CONFIG SET appendonly yes")
        server.run_slices()
        assert sorted(path.name.split(".")[2] for path in tmp_path.rglob("*.incr.aof")) == ["1", "2", "3"]
        (manifest,) = tmp_path.rglob("*.manifest")
        assert manifest.read_text().count(" type h") == 4
        server.call("CONFIG SET aof-disable-auto-gc no")
        assert [path.name.split(".")[2] for path in tmp_path.rglob("*.incr.aof")] == ["3"]


def test_base_that_is_being_written_keeps_its_form(tmp_path: Path) -> None:
    with logging_server(tmp_path, aof_use_rdb_preamble=True) as server:
        server.call("SET k v", "BGREWRITEAOF", "CONFIG SET aof-use-rdb-preamble no")
        server.run_slices()
        (path,) = tmp_path.rglob("*.base.*")
        assert path.suffix == ".rdb"
        assert path.read_bytes().startswith(b"REDIS")
        server.call("BGREWRITEAOF")
        server.run_slices()
        (path,) = tmp_path.rglob("*.base.*")
        assert path.suffix == ".aof"
        assert not path.read_bytes().startswith(b"REDIS")


def require_test(directive: Directive, path: str, test: str) -> None:
    """Check that the test exists, and that its module names the directive."""
    text = (TESTS / path).read_text("utf-8")
    assert re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), test
    assert re.search(rf"\b({directive.attribute}|{name_of(directive)})\b", text), test


def test_nothing_is_shown_that_is_no_directive_with_effect() -> None:
    """Each directive is shown here once; lines of removed rows must be removed."""
    assert sorted([*EFFECTS, *SHOWN_BY]) == sorted(map(name_of, WITH_EFFECT))


@pytest.mark.parametrize("name", ["enable-protected-configs", "enable-debug-command"])
def test_local_is_the_loopback_interface_and_the_unix_socket(name: str, tmp_path: Path) -> None:
    observe = EFFECTS[name].observe
    attribute = name.replace("-", "_")
    refused, taken, local = (observe(tmp_path, attribute, value) for value in (b"no", b"yes", b"local"))
    assert local == [*taken[:3], refused[3]]
    assert taken[0] != refused[0]
