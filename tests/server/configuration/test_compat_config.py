"""A configuration file of Redis: accepted with `compat-config yes`, refused line by line without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigLineError
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directive_kinds import quote
from headrace.server.configuration.directives import BY_NAME, DIRECTIVES
from support.servers import Server
from support.wire import Wire

# What only files may contain.
BEYOND_CONFIG_GET = b"""\
rename-command DEBUG ""
user worker on >secret ~jobs:* +@all
loadmodule /usr/lib/redis/redisearch.so PARTITIONS AUTO
replicaof 10.0.0.1 6379
"""

# Directives that the test sets itself.
OF_THE_TEST = {b"port", b"bind", b"dir", b"logfile", b"pidfile", b"unixsocket", b"daemonize", b"replicaof", b"slaveof"}


def full_file(values: dict[bytes, bytes]) -> bytes:
    """A file that names every directive; those of several words unquoted, as people write them."""
    lines = []
    for name, value in sorted(values.items()):
        is_list = name in BY_NAME and BY_NAME[name].kind.several_words
        if name not in OF_THE_TEST:
            lines.append(name + b" " + (value if is_list and value else quote(value)))
    return b"# as of Redis\n" + b"\n".join(lines) + b"\n" + BEYOND_CONFIG_GET


def check_start_from(text: bytes, folder: Path) -> None:
    """A server starts from the file and logs one line about what it ignored; without compat-config it does not
    start.
    """
    path = folder / "redis.conf"
    path.write_bytes(text)
    server = Server("headrace", folder, "--include", str(path), "--compat-config", "yes")
    server.start()
    try:
        log = server.log_path.read_text()
        with Wire(server.port) as wire:
            assert wire.ask("CONFIG", "GET", "hash-max-listpack-entries") == [b"hash-max-listpack-entries", b"512"]
            assert wire.ask("CONFIG", "GET", "replicaof") == [b"replicaof", b""]
    finally:
        server.stop()
    (line,) = [line for line in log.splitlines() if "Ignored, since" in line]
    assert " # Ignored, since Headrace does not have them (compat-config yes): " in line
    named = set(line.partition("yes): ")[2].split(", "))
    assert {"loadmodule", "replicaof", "hash-max-listpack-entries", "repl-timeout"} <= named
    assert not named & {each.name.decode() for each in DIRECTIVES if each.has_effect}
    with pytest.raises(ConfigLineError, match="Redis has this directive, Headrace does not: remove the line, or set"):
        load_text(Config(), text)


def test_full_file_of_redis_starts_with_one_warning(tmp_path: Path) -> None:
    values = {each.name: each.kind.show(each.default) for each in DIRECTIVES if not each.is_hidden}
    check_start_from(full_file(values), tmp_path)


@pytest.mark.oracle
def test_file_of_all_that_redis_shows_starts_with_one_warning(oracle: Any, tmp_path: Path) -> None:
    with oracle.connect() as wire:
        words = wire.ask("CONFIG", "GET", "*")
    check_start_from(full_file(dict(zip(words[::2], words[1::2], strict=True))), tmp_path)


def test_ignored_directives_are_listed_once_in_order() -> None:
    config = Config()
    text = b"save 60 1\nlist-compress-depth 1\nhash-max-listpack-entries 512\nlist-compress-depth 2\nloadmodule x.so\n"
    load_text(config, text + b"activedefrag no\ncompat-config yes\n")
    assert config.ignored_directives == [b"list-compress-depth", b"hash-max-listpack-entries", b"loadmodule"]


@pytest.mark.parametrize(
    "line",
    [
        b"activedefrag no", b"activerehashing no", b"cluster-enabled no", b"replicaof no one", b'masterauth ""',
        b"min-replicas-to-write 0", b"oom-score-adj no", b"repl-diskless-load disabled", b"enable-module-command no",
    ],
)  # fmt: skip
def test_part_that_is_not_here_may_be_turned_off(line: bytes) -> None:
    config = Config()
    load_text(config, line)
    assert config.ignored_directives == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"activedefrag yes", "Redis has this directive, Headrace does not: "),
        (b"hash-max-listpack-entries 512", "Redis has this directive, Headrace does not: "),
        (b"list-max-listpack-size 0", "Redis has this directive, Headrace does not: "),
        (b"replicaof 127.0.0.1 7000", "Headrace is a standalone server: it has no replication: "),
        (b"no-such-directive yes", "Bad directive or wrong number of arguments"),
    ],
)
def test_directive_of_redis_has_another_error_than_an_unknown_one(line: bytes, reason: str) -> None:
    with pytest.raises(ConfigLineError) as caught:
        load_text(Config(), b"port 1\n" + line)
    assert f"at line 2\n>>> '{line.decode()}'\n{reason}" in str(caught.value)


@pytest.mark.parametrize("line", [b"no-such-directive yes", b"hash-max-listpack-entries many", b"activedefrag"])
def test_mistakes_are_refused_all_the_same(line: bytes) -> None:
    with pytest.raises(ConfigLineError):
        load_text(Config(), line + b"\ncompat-config yes")
