"""The configuration in force: CONFIG GET and SET, callbacks, CONFIG REWRITE. Expected texts are Redis 8.10.2's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.server.configuration.config import ChangeRefused, Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.users import load_users
from headrace.store.errors import GenericError


@pytest.fixture
def config() -> Config:
    return Config()


def refused(config: Config, *words: bytes) -> bytes:
    """The error text of CONFIG SET with these words."""
    with pytest.raises(GenericError) as caught:
        config.set_many(list(zip(words[::2], words[1::2], strict=True)))
    return caught.value.text


def test_values_are_native_types(config: Config) -> None:
    assert config.port == 6379
    assert config.appendonly is False
    assert config.appendfsync == b"everysec"
    assert config.proto_max_bulk_len == 512 << 20
    assert config.save_points == [(3600, 1), (300, 100), (60, 10000)]
    assert config.buffer_limits[b"slave"] == (256 << 20, 64 << 20, 60)


def test_get_shows_memory_in_bytes_and_booleans_as_words(config: Config) -> None:
    found = dict(config.get_matching([b"proto-*", b"appendonly", b"bind", b"nosuch"]))
    assert found == {b"proto-max-bulk-len": b"536870912", b"appendonly": b"no", b"bind": b"* -::*"}


def test_get_echoes_an_exact_name_as_typed_and_once(config: Config) -> None:
    assert config.get_matching([b"PORT", b"port", b"por?"]) == [(b"PORT", b"6379")]
    assert config.get_matching([b"SLAVE-priority"]) == [(b"SLAVE-priority", b"100")]


def test_get_shows_aliases_but_not_hidden_directives_by_pattern(config: Config) -> None:
    names = {name for name, _ in config.get_matching([b"*"])}
    assert {b"slaveof", b"lua-time-limit"} <= names
    assert b"aof-disable-auto-gc" not in names
    assert config.get_matching([b"aof-disable-auto-gc"]) == [(b"aof-disable-auto-gc", b"no")]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (b"dbfilena[m-n]e", [b"dbfilename"]),
        (b"DBFILE?AME", [b"dbfilename"]),
        (b"[^e]bfilename", [b"dbfilename"]),
        (b"*" + b"*a" * 40 + b"*b", []),
    ],
    ids=["range", "any case", "negation", "many stars, in no time"],
)
def test_get_takes_the_patterns_of_keys(config: Config, pattern: bytes, names: list[bytes]) -> None:
    assert [name for name, _ in config.get_matching([pattern])] == names


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((b"PORT", b"abc"), "(possibly related to argument 'port') - argument couldn't be parsed into an integer"),
        ((b"timeout", b"05"), "(possibly related to argument 'timeout') - argument couldn't be parsed into an integer"),
        (
            (b"maxclients", b"0"),
            "(possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
        ),
        (
            (b"appendfsync", b"x"),
            "(possibly related to argument 'appendfsync') - argument(s) must be one of the following: "
            "everysec, always, no",
        ),
        ((b"save", b"1 2 3"), "(possibly related to argument 'save') - Invalid save parameters"),
        ((b"save", b"", b"SAVE", b""), "(possibly related to argument 'SAVE') - duplicate parameter"),
        (
            (b"min-slaves-to-write", b"1", b"min-replicas-to-write", b"1"),
            "(possibly related to argument 'min-replicas-to-write') - duplicate parameter",
        ),
        ((b"daemonize", b"yes"), "(possibly related to argument 'daemonize') - can't set immutable config"),
        ((b"dir", b"/"), "(possibly related to argument 'dir') - can't set protected config"),
        (
            (b"client-output-buffer-limit", b"master 1 1 1"),
            "(possibly related to argument 'client-output-buffer-limit') - "
            "Invalid client class specified in buffer limit configuration.",
        ),
    ],
)
def test_set_is_refused_with_the_texts_of_redis(config: Config, words: tuple[bytes, ...], why: str) -> None:
    assert refused(config, *words) == b"CONFIG SET failed " + why.encode()


def test_unknown_directive_is_named(config: Config) -> None:
    expected = b"Unknown option or number of arguments for CONFIG SET - 'nosuch'"
    assert refused(config, b"nosuch", b"1", b"daemonize", b"yes") == expected


def test_set_changes_all_or_nothing(config: Config) -> None:
    refused(config, b"timeout", b"5", b"hz", b"x")
    assert config.timeout == 0
    config.set_many([(b"timeout", b"5"), (b"HZ", b"9999")])
    assert (config.timeout, config.hz) == (5, 500)


def test_buffer_limits_keep_the_classes_not_named(config: Config) -> None:
    config.set_many([(b"client-output-buffer-limit", b"normal 1mb 2kb 3 replica 5 6 7")])
    assert config.client_output_buffer_limit == b"normal 1048576 2048 3 slave 5 6 7 pubsub 33554432 8388608 60"


def test_callbacks_see_the_new_value(config: Config) -> None:
    seen: list[object] = []
    config.on_change("timeout", seen.append)
    config.set_many([(b"timeout", b"7"), (b"hz", b"20")])
    assert seen == [7]


@pytest.mark.parametrize("refusal", [ChangeRefused("no room"), OSError(12, "no room"), GenericError(b"no room")])
def test_refused_change_leaves_nothing_of_the_whole_command(config: Config, refusal: Exception) -> None:
    seen: list[str] = []

    def prepare(name: str) -> Callable[[object], Callable[[], None]]:
        return lambda value: seen.append(f"{name} {value}") or (lambda: seen.append(f"{name} undone"))

    def refuse(_: object) -> None:
        raise refusal

    config.before_change("timeout", prepare("timeout"))
    config.before_change("hz", prepare("hz"))
    config.before_change("maxclients", refuse)
    for name in ("timeout", "hz", "maxclients"):
        config.on_change(name, lambda value: seen.append("in force"))
    text = refused(config, b"timeout", b"7", b"hz", b"20", b"maxclients", b"5", b"databases", b"3")
    assert text == b"CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config"
    assert not seen
    text = refused(config, b"timeout", b"7", b"hz", b"20", b"maxclients", b"5")
    assert text == b"CONFIG SET failed (possibly related to argument 'maxclients') - no room"
    assert (config.timeout, config.hz, config.maxclients) == (0, 10, 10000)
    assert seen == ["timeout 7", "hz 20", "hz undone", "timeout undone"]


def test_equal_value_changes_nothing_but_files_are_read_again(config: Config) -> None:
    seen: list[object] = []
    config.before_change("timeout", seen.append)
    config.on_change("timeout", seen.append)
    config.before_change("tls-cert-file", seen.append, is_reread=True)
    config.set_many([(b"timeout", b"0"), (b"tls-cert-file", b"")])
    assert seen == [b""]


def test_change_without_a_listener_is_refused(config: Config) -> None:
    assert b"cannot be changed while the server runs" in refused(config, b"port", b"7000")
    config.set_many([(b"port", b"6379")])
    config.on_change("port", lambda _: None)
    config.set_many([(b"port", b"7000")])
    assert config.port == 7000


def test_rewrite_without_a_file_is_refused(config: Config) -> None:
    with pytest.raises(GenericError) as caught:
        config.rewrite()
    assert caught.value.text == b"The server is running without a config file"


def test_rewrite_keeps_the_file_and_its_permissions(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "r.conf"
    path.write_bytes(b"# head\nport 7000\nsave 10 5\n")
    path.chmod(0o640)
    load_text(config, path.read_bytes())
    config.file_path = os.fsencode(path)
    config.dir = b"/data"
    config.set_many([(b"maxmemory", b"100mb"), (b"requirepass", b'a"b')])
    config.rewrite()
    assert path.read_bytes() == (
        b"# head\nport 7000\nsave 10 5\n\n# Generated by CONFIG REWRITE\n"
        b'dir "/data"\nrequirepass "a\\"b"\nmaxmemory 100mb\n'
    )
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_rewrite_adds_no_defaults(config: Config, tmp_path: Path) -> None:
    """Neither directives nor users: what the file did not say, it does not say afterwards."""
    path = tmp_path / "r.conf"
    path.write_bytes(b"port 7000\n")
    load_text(config, path.read_bytes())
    load_users(config)
    config.file_path = os.fsencode(path)
    config.dir = b"/data"
    config.set_many([(b"hz", b"20")])
    config.rewrite()
    assert path.read_bytes() == b'port 7000\n\n# Generated by CONFIG REWRITE\ndir "/data"\nhz 20\n'
    config.set_many([(b"save", b"7 1"), (b"hz", b"10")])
    config.rewrite()
    assert path.read_bytes() == b'port 7000\n\n# Generated by CONFIG REWRITE\ndir "/data"\nhz 10\nsave 7 1\n'


def test_rewrite_adds_default_save_points_to_a_file_that_includes_others(config: Config, tmp_path: Path) -> None:
    """CONFIG SET may have replaced those of the other file."""
    other, path = tmp_path / "other.conf", tmp_path / "r.conf"
    other.write_text('save ""\n')
    path.write_text(f"include {other}\n")
    load_text(config, path.read_bytes())
    config.file_path = os.fsencode(path)
    config.set_many([(b"save", b"3600 1 300 100 60 10000")])
    config.rewrite()
    again = Config()
    load_text(again, path.read_bytes())
    assert again.save == config.save


def test_rewrite_keeps_default_save_points_that_were_chosen_next_to_a_log(config: Config, tmp_path: Path) -> None:
    """Without the line, a start with the log would take no snapshots."""
    path = tmp_path / "r.conf"
    path.write_text("appendonly yes\n")
    load_text(config, path.read_bytes())
    config.file_path = os.fsencode(path)
    config.rewrite()
    assert b"save" not in path.read_bytes()
    config.set_many([(b"save", b"3600 1 300 100 60 10000")])
    config.rewrite()
    again = Config()
    load_text(again, path.read_bytes())
    assert b"save" in again.chosen


def test_rewritten_file_loads_to_the_same_configuration(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "r.conf"
    config.file_path = os.fsencode(path)
    config.compat_config = True
    config.set_many(
        [
            (b"save", b""),
            (b"notify-keyspace-events", b"KEA"),
            (b"maxmemory-clients", b"10%"),
            (b"client-output-buffer-limit", b"pubsub 1mb 0 5"),
            (b"shutdown-on-sigint", b"save now"),
            (b"requirepass", b"caf\xc3\xa9 \x01\n'"),
        ]
    )
    config.rewrite()
    again = Config()
    load_text(again, path.read_bytes())
    assert dict(again.get_matching([b"*"])) == dict(config.get_matching([b"*"]))


def test_failed_rewrite_has_the_reason(config: Config, tmp_path: Path) -> None:
    config.file_path = os.fsencode(tmp_path / "gone" / "r.conf")
    with pytest.raises(GenericError) as caught:
        config.rewrite()
    assert caught.value.text == b"Rewriting config file: No such file or directory"


@pytest.mark.parametrize("count", [b"100001", b"2147483647", b"9" * 5000])
def test_more_databases_than_fit_into_memory_are_refused_at_the_start(count: bytes) -> None:
    config = Config()
    with pytest.raises(ConfigError, match=r"between 1 and 100000 inclusive|parsed into an integer"):
        load_text(config, b"databases " + count)
    assert config.databases == 16


def test_a_share_of_maxmemory_may_be_a_negative_number_of_64_bits() -> None:
    config = Config()
    config.set_many([(b"maxmemory-clients", b"18446744073709551596")])
    assert config.maxmemory_clients == -20
