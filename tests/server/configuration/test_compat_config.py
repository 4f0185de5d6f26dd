"""A configuration file of Redis starts a server: harmless directives are ignored with one line; those that matter
stop the start all at once, unless `compat-config yes` passes them over.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from compat.differences import OWN_DIRECTIVES
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigLineError
from headrace.server.configuration.configfile import Loader, load_text, options_text
from headrace.server.configuration.directive_kinds import Primary, Text, quote
from headrace.server.configuration.directives import BY_NAME, DIRECTIVES, OBSOLETE, Directive
from headrace.server.reports.logs import ROOT
from support.servers import Server
from support.wire import Wire

# What only files may contain, and harmless.
BEYOND_CONFIG_GET = b"""\
rename-command DEBUG ""
user worker on >secret ~jobs:* +@all
io-threads-do-reads yes
lua-replicate-commands yes
list-max-ziplist-entries 512
list-max-ziplist-value 64
"""

# Directives that the test sets itself.
OF_THE_TEST = {b"port", b"bind", b"dir", b"logfile", b"pidfile", b"unixsocket", b"daemonize", b"replicaof", b"slaveof"}

# Directives with lines in the redis.conf of Redis 7 and 8, or in that of a distribution: their values there, where
# these are not the defaults of the server.
STOCK_VALUES = {b"aof-use-rdb-preamble": b"yes", b"bind": b"127.0.0.1 -::1", b"jemalloc-bg-thread": b"yes"}
STOCK_NAMES = b"""\
protected-mode tcp-backlog timeout tcp-keepalive loglevel databases always-show-logo set-proc-title proc-title-template
locale-collate stop-writes-on-bgsave-error rdbcompression rdbchecksum dbfilename rdb-del-sync-files
replica-serve-stale-data replica-read-only repl-diskless-sync repl-diskless-sync-delay repl-diskless-sync-max-replicas
repl-diskless-load repl-disable-tcp-nodelay replica-priority acllog-max-len lazyfree-lazy-eviction lazyfree-lazy-expire
lazyfree-lazy-server-del replica-lazy-flush lazyfree-lazy-user-del lazyfree-lazy-user-flush oom-score-adj
oom-score-adj-values disable-thp appendonly appendfilename appenddirname appendfsync no-appendfsync-on-rewrite
auto-aof-rewrite-percentage auto-aof-rewrite-min-size aof-load-truncated aof-use-rdb-preamble aof-timestamp-enabled
slowlog-log-slower-than slowlog-max-len latency-monitor-threshold notify-keyspace-events hash-max-listpack-entries
hash-max-listpack-value list-max-listpack-size list-compress-depth set-max-intset-entries set-max-listpack-entries
set-max-listpack-value zset-max-listpack-entries zset-max-listpack-value hll-sparse-max-bytes stream-node-max-bytes
stream-node-max-entries activerehashing client-output-buffer-limit hz dynamic-hz aof-rewrite-incremental-fsync
rdb-save-incremental-fsync jemalloc-bg-thread supervised
""".split()

MATTERING = [each for each in DIRECTIVES if each.matters]
HARMLESS = [each for each in DIRECTIVES if not each.has_effect and not each.matters]


def name_of(directive: Directive) -> str:
    return directive.name.decode()


def line_of(name: bytes, value: bytes) -> bytes:
    """The line of a file; one of several words is unquoted, as people write it."""
    is_list = name in BY_NAME and BY_NAME[name].kind.several_words
    return name + b" " + (value if is_list and value else quote(value))


def full_file(values: dict[bytes, bytes]) -> bytes:
    """A file that names these directives."""
    lines = [line_of(name, value) for name, value in sorted(values.items()) if name not in OF_THE_TEST]
    return b"# as of Redis\n" + b"\n".join(lines) + b"\n"


def check_start_from(text: bytes, folder: Path) -> set[str]:
    """A server starts from the file and logs one line about what it ignores. Returns the names in it."""
    path = folder / "redis.conf"
    path.write_bytes(text)
    server = Server("headrace", folder, "--include", str(path))
    server.start()
    try:
        log = server.log_path.read_text()
        with Wire(server.port) as wire:
            assert wire.ask("CONFIG", "GET", "list-compress-depth") == [b"list-compress-depth", b"0"]
    finally:
        server.stop()
    (line,) = [line for line in log.splitlines() if "Ignored" in line]
    before, _, names = line.partition(": ")
    assert before.endswith(" * Ignored, since Headrace has no such parts and no data depends on them")
    named = set(names.split(", "))
    assert not named & {each.name.decode() for each in DIRECTIVES if each.has_effect or each.matters}
    return named


def test_a_file_of_every_default_starts_with_one_line(tmp_path: Path) -> None:
    values = {each.name: each.kind.show(each.default) for each in DIRECTIVES}
    named = check_start_from(full_file(values) + BEYOND_CONFIG_GET, tmp_path)
    assert {"active-expire-effort", "cluster-node-timeout", *(name.decode() for name in OBSOLETE)} <= named


def test_the_stock_file_starts_with_one_line(tmp_path: Path) -> None:
    values = {name: BY_NAME[name].kind.show(BY_NAME[name].default) for name in STOCK_NAMES} | STOCK_VALUES
    named = check_start_from(full_file(values), tmp_path)
    assert {"activerehashing", "jemalloc-bg-thread"} <= named


@pytest.mark.oracle
def test_a_file_of_all_that_redis_shows_starts_with_one_line(oracle: Any, tmp_path: Path) -> None:
    with oracle.connect() as wire:
        words = wire.ask("CONFIG", "GET", "*")
    check_start_from(full_file(dict(zip(words[::2], words[1::2], strict=True))), tmp_path)


def values_of(directive: Directive) -> list[bytes]:
    """Values of a directive, some of them other than the default."""
    candidates = [b"yes", b"no", b"0", b"1", b"2", b"300", b"5000", b"abc", b"0 100 200", b"10.0.0.1 6379"]
    candidates += getattr(directive.kind, "choices", ())
    found = []
    for value in candidates:
        config = Config()
        try:
            config.assign(directive, value.split() if directive.kind.several_words else [value])
        except ValueError:
            continue
        found.append(value)
    return found


@pytest.mark.parametrize("directive", HARMLESS, ids=name_of)
def test_a_harmless_directive_starts_whatever_its_value(directive: Directive) -> None:
    values = values_of(directive)
    assert values
    for value in values:
        config = Config()
        load_text(config, line_of(directive.name, value))
        is_off = directive.is_off(config.value(directive))
        assert config.ignored == ([] if is_off else [directive.name])
        shown = directive.kind.show(config.value(directive))
        assert config.get_matching([directive.name]) == [(directive.name, shown)]


@pytest.mark.oracle
def test_redis_takes_the_same_lines_of_harmless_directives(oracle: Any, tmp_path: Path) -> None:
    lines = [
        line_of(each.name, b"abc" if isinstance(each.kind, Text) else values_of(each)[-1])
        for each in HARMLESS
        if not re.search(rb"cpulist|syslog|locale|^array|template|activedefrag|histograms|ignore-warnings", each.name)
    ]
    path = tmp_path / "redis.conf"
    path.write_bytes(b"\n".join(lines) + b"\n" + BEYOND_CONFIG_GET)
    server = Server("oracle", tmp_path / "data", "--include", str(path))
    server.start()
    server.stop()


@pytest.mark.parametrize("directive", MATTERING, ids=name_of)
def test_a_directive_that_matters_stops_the_start_unless_it_is_off(directive: Directive) -> None:
    values = [value for value in (b"yes", b"1", b"10.0.0.1 6379", b"allkeys-lru") if value in values_of(directive)]
    for value in values or [b"10.0.0.1 6379"]:
        line = directive.name + b" " + (value if isinstance(directive.kind, Primary) else quote(value))
        with pytest.raises(ConfigLineError) as caught:
            load_text(Config(), line)
        assert f"{directive.matters}: remove the line" in str(caught.value)
        overruled = Config()
        load_text(overruled, line + b"\ncompat-config yes")
        assert overruled.overruled == {directive.name: directive.matters}
        assert overruled.get_matching([directive.name]) == [(directive.name, value)]
    config = Config()
    load_text(config, b"\n".join(directive.kind.lines(directive.name, directive.default, directive.default)))
    assert (config.ignored, config.overruled) == ([], {})


def test_all_that_matters_is_listed_at_once_with_its_place_and_a_way_out() -> None:
    text = b"port 1\nsocket-mark-id 7\npreload-file sesame\nlist-compress-depth 1\nloadmodule a.so x\n"
    text += b"loadmodule b.so\ncluster-enabled yes\n"
    with pytest.raises(ConfigLineError) as caught:
        load_text(Config(), text)
    said = str(caught.value)
    assert re.findall(r"at line (\d)\n", said) == ["2", "3", "5", "6", "7"]
    assert said.count("set 'compat-config yes' to ignore it") == 5
    assert (
        ">>> 'preload-file sesame'\nHeadrace loads no file but its own (dbfilename): remove the line, or set "
        "'compat-config yes' to ignore it"
    ) in said


def test_a_later_line_replaces_an_earlier_one() -> None:
    config = Config()
    load_text(config, b'preload-file x\ncluster-enabled yes\npreload-file ""\ncluster-enabled no\nio-threads 1\n')
    assert config.ignored == [b"io-threads"]


def test_what_compat_config_ignores_is_a_warning(tmp_path: Path) -> None:
    server = Server("headrace", tmp_path, "--preload-file", "x.rdb", "--compat-config", "yes")
    server.start()
    try:
        (line,) = [line for line in server.log_path.read_text().splitlines() if "Ignored" in line]
    finally:
        server.stop()
    assert " # Ignored, although they matter (compat-config yes): preload-file (" in line


def test_config_set_ignores_what_a_file_may_have(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", ROOT)
    config = Config()
    for value in (b"1", b"2"):
        config.set_many([(b"list-compress-depth", value)])
    assert config.get_matching([b"list-compress-depth"]) == [(b"list-compress-depth", b"2")]
    assert [record.message.partition(" does")[0] for record in caplog.records] == ["CONFIG SET list-compress-depth"]


def test_a_rewritten_file_keeps_what_was_ignored(tmp_path: Path) -> None:
    path = tmp_path / "redis.conf"
    text = b"compat-config yes\npreload-file x\nmasterauth sesame\nloadmodule a.so\nreplicaof no one\n"
    path.write_bytes(text)
    config = Config()
    load_text(config, text)
    config.file_path = bytes(path)
    config.rewrite()
    lines = path.read_bytes().split(b"\n")
    assert {b'preload-file "x"', b'masterauth "sesame"', b"loadmodule a.so"} <= set(lines)
    assert not any(b"replicaof" in line for line in lines)
    load_text(Config(), path.read_bytes())


@pytest.mark.parametrize(
    "line",
    [b"no-such-directive yes", b"list-compress-depth many", b"activedefrag", b"lua-replicate-commands",
     b"io-threads-do-reads yes no", b"replicaof here", b"cluster-enabled maybe", b"loadmodule"],
)  # fmt: skip
def test_mistakes_are_refused_all_the_same(line: bytes) -> None:
    with pytest.raises(ConfigLineError):
        load_text(Config(), line + b"\ncompat-config yes")


def test_a_file_of_sentinel_is_named_as_such() -> None:
    with pytest.raises(ConfigLineError, match="Headrace has no Sentinel"):
        load_text(Config(), b"sentinel monitor mymaster 127.0.0.1 6379 2")


# -- several words as one ----------------------------------------------------------------------------

SEVERAL_WORDS = [each for each in DIRECTIVES if each.kind.several_words]
EXAMPLES = {
    b"bind": b"127.0.0.1 -::1",
    b"replicaof": b"no one",
    b"metrics-bind": b"127.0.0.1 -::1",
    b"save": b"60 1 30 5",
    b"stream-group-defaults": b"jobs:* BACKOFF 1000",
    b"client-output-buffer-limit": b"pubsub 1048576 0 0 normal 1048576 0 0",
    b"shutdown-on-sigint": b"nosave force",
    b"shutdown-on-sigterm": b"nosave force",
    b"latency-tracking-info-percentiles": b"50 99",
    b"oom-score-adj-values": b"0 100 200",
    b"cluster-slot-stats-enabled": b"cpu net",
}


def forms_of(name: bytes, value: bytes) -> list[tuple[bytes, list[bytes]]]:
    """(line of a file, words of a command line) that mean the same."""
    option = b"--" + name
    quoted = [value, b" " + value + b" ", value.replace(b" ", b"  "), value.replace(b" ", b"\t")]
    forms = [(name + b" " + quote(each), [option, each]) for each in quoted]
    words = value.split()
    forms.append((name + b" " + value, [option, *words]))
    forms.append((b" ".join([name, *map(quote, words)]), [option + b" " + value]))
    return forms


@pytest.mark.parametrize("directive", SEVERAL_WORDS, ids=name_of)
def test_several_words_may_be_quoted_as_one(directive: Directive) -> None:
    value = EXAMPLES[directive.name]
    expected = Config()
    expected.assign(directive, value.split())
    for line, words in forms_of(directive.name, value):
        for text in (line, options_text(words)):
            config = Config()
            load_text(config, text)
            assert config.value(directive) == expected.value(directive), text


# Lines and options whose effect is asked of Redis, and whether they are options.
ODD_LINES = [
    b'save ""', b"save", b'save "" ""', b'save "60" "1 30 5"', b'client-output-buffer-limit ""',
    b"client-output-buffer-limit", b'client-output-buffer-limit "pubsub" "1mb 0 0"', b'shutdown-on-sigterm ""',
    b"shutdown-on-sigterm", b'latency-tracking-info-percentiles ""', b"latency-tracking-info-percentiles",
    b'oom-score-adj-values ""', b"oom-score-adj-values", b'oom-score-adj-values "0" "1 2"', b"timeout 5 6",
    b'timeout "5 6"', b'cluster-slot-stats-enabled ""', b'proc-title-template "{title} {port}"', b'tls-protocols "a b"',
]  # fmt: skip
ODD_OPTIONS = [
    ["--save"], ["--save", "--timeout", "5"], ["--save", "60 1", "--timeout", "5"], ["--timeout", "5", "--save"],
    ["--timeout 5"], ["--timeout 5", "--save 60 1"], ["--timeout", "--appendonly", "yes"], ["--timeout", "5", "--"],
    ["--TIMEOUT", "7"], ["--save", "", "--timeout", "6"], ["--save", "60 1", "--save", "30 2"], ["--timeout"],
    ["--masteruser", "--x", "--timeout", "5"], ["--shutdown-on-sigterm", ""], ["--client-output-buffer-limit", ""],
]  # fmt: skip
SHARED = [name for name in EXAMPLES if name not in OWN_DIRECTIVES]
COMPARED = [*SHARED, b"timeout", b"masteruser", b"proc-title-template", b"tls-protocols"]


def of_redis(folder: Path, words: list[str]) -> dict[bytes, bytes] | str:
    """What Redis shows when it was started with these words, or the last line of its error."""
    server = Server("oracle", folder, *words)
    try:
        server.start()
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1]
    try:
        with Wire(server.port) as wire:
            shown = wire.ask("CONFIG", "GET", *(name.decode() for name in COMPARED))
        return dict(zip(shown[::2], shown[1::2], strict=True))
    finally:
        server.stop()


@pytest.mark.oracle
def test_odd_lines_and_options_mean_what_they_mean_to_redis(oracle: Any, tmp_path: Path) -> None:
    usual = [b"--port", b"1", b"--bind", b"127.0.0.1", b"--save", b""]
    cases: list[tuple[list[str], bytes]] = [
        (each, options_text([word.encode() for word in each])) for each in ODD_OPTIONS
    ]
    for number, line in enumerate(ODD_LINES):
        path = tmp_path / f"{number}.conf"
        path.write_bytes(line + b"\n")
        cases.append((["--include", str(path)], line))
    for words, text in cases:
        ours: dict[bytes, bytes] | str
        config = Config()
        try:
            load_text(config, options_text(usual) + b"\ncompat-config yes\n" + text)
        except ConfigLineError as error:
            ours = str(error).splitlines()[-1].partition(":")[0]
        else:
            ours = dict(config.get_matching(COMPARED))
        theirs = of_redis(tmp_path / "redis", words)
        if isinstance(theirs, str):
            assert ours == theirs.partition(":")[0], text
        else:
            assert isinstance(ours, dict), (text, ours)
            assert {name: value for name, value in ours.items() if name in theirs} == theirs, text


@pytest.mark.parametrize(("value", "found"), [(b"no one", b""), (b"10.0.0.1 6379", b"10.0.0.1 6379")])
def test_a_variable_of_several_words_is_one_value(value: bytes, found: bytes) -> None:
    config = Config()
    loader = Loader(config)
    loader.load_environment({b"HEADRACE_REPLICAOF": value})
    loader.finish()
    assert config.replicaof == found


def test_a_variable_of_several_words_names_its_mistake() -> None:
    with pytest.raises(
        ConfigLineError, match=r"the environment variable HEADRACE_REPLICAOF\n.*\n.*Invalid master port"
    ):
        Loader(Config()).load_environment({b"HEADRACE_REPLICAOF": b"10.0.0.1 x"})
