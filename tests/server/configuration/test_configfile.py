"""Configuration files: words of a line, loading with includes and options, writing back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError, ConfigLineError, split_words
from headrace.server.configuration.config_rewrite import replace_file, rewrite_text
from headrace.server.configuration.configfile import Loader, load_text, options_text
from headrace.server.configuration.directives import BY_NAME


def loaded(text: bytes) -> Config:
    config = Config()
    load_text(config, text)
    return config


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"  a \t b ", [b"a", b"b"]),
        (b"\"a b\" 'c d'", [b"a b", b"c d"]),
        (rb'"\x41\n\"\q\xZZ"', [b'A\n"qxZZ']),
        (rb"'it\'s' ''", [b"it's", b""]),
        (b"# no comment here", [b"#", b"no", b"comment", b"here"]),
    ],
)
def test_words_are_split_and_unquoted(line: bytes, words: list[bytes]) -> None:
    assert split_words(line) == words


@pytest.mark.parametrize("line", [b'"a', b"'a", b'"a"b', b'a"b"c', b"'"])
def test_unbalanced_quotes_are_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="quote"):
        split_words(line)


def test_later_lines_win_and_comments_are_skipped() -> None:
    config = loaded(b"# x\n\n  PORT 7000\r\nport 7001\nmaxmemory 1k\nrequirepass 'a b'\n")
    assert (config.port, config.maxmemory, config.requirepass) == (7001, 1000, b"a b")


def test_save_lines_add_up_after_the_first_replaced_the_default() -> None:
    assert loaded(b"save 10 5\nsave 20 6 30 7\n").save == b"10 5 20 6 30 7"
    assert loaded(b'save 10 5\nsave ""\n').save == b""


def test_buffer_limit_lines_add_up_per_class() -> None:
    config = loaded(b"client-output-buffer-limit replica 1mb 0 10\nclient-output-buffer-limit normal 1 2 3\n")
    assert config.buffer_limits == {
        b"normal": (1, 2, 3),
        b"slave": (1 << 20, 0, 10),
        b"pubsub": (32 << 20, 8 << 20, 60),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b'# x\nport "abc"\n',
            "Reading the configuration file, at line 2\n>>> 'port \"abc\"'\n"
            "argument couldn't be parsed into an integer",
        ),
        (b"nosuch 1", "at line 1\n>>> 'nosuch 1'\nBad directive or wrong number of arguments"),
        (b"apendonly yes", "Bad directive or wrong number of arguments: did you mean appendonly?"),
        (b"inclde a", "Bad directive or wrong number of arguments: did you mean include?"),
        (b"replica-of no one", ">>> 'replica-of no one'\nBad directive or wrong number of arguments"),
        (b"port 1 2", "wrong number of arguments"),
        (b"port", "wrong number of arguments"),
        (b'port "1', "Unbalanced quotes in configuration line"),
        (b"save a b", "Invalid save parameters"),
        (
            b"save sometimes",
            'Invalid save parameters: write seconds and changes in pairs, as in save 3600 1 300 100, or save "" for no '
            "snapshots",
        ),
        (b"maxmemory 5 gb", "wrong number of arguments: write it without a blank, maxmemory 5gb"),
        (b"maxmemory-clients 5 %", "wrong number of arguments: write it without a blank, maxmemory-clients 5%"),
        (b"unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        (b"appendfilename a/b", "appendfilename can't be a path, just a filename"),
        (b"notify-keyspace-events q", "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'."),
        (b"replicaof 127.0.0.1 70000", "Invalid master port"),
        (b"cluster-enabled YES", "no cluster"),
        (b"user", "Bad directive or wrong number of arguments"),
        (b"requirepass two words", "at line 1\n>>> 'requirepass ...'\nwrong number of arguments"),
        (b"requirepass\ttwo words", "at line 1\n>>> 'requirepass ...'\nwrong number of arguments"),
        (b"'requirepass' two words", "at line 1\n>>> ''requirepass ...'\nwrong number of arguments"),
        (b"requirpass sesame", "at line 1\n>>> 'requirpass ...'\nBad directive or wrong number of arguments: did you "),
        (b'requirepass "sesame', "at line 1\n>>> 'requirepass ...'\nUnbalanced quotes in configuration line"),
        (
            b"user bob on >sesame ~*\nuser bob on '>open sesame' nothing",
            ">>> 'user bob on '>...'\nError in user declaration 'bob'",
        ),
        (
            b"user alice on\nuser alice off",
            "at line 2\n>>> 'user alice off'\nError in user declaration 'alice': Duplicate "
            "user found. A user can only be defined once in config files",
        ),
    ],
)
def test_bad_line_is_named_with_its_number_and_reason(text: bytes, message: str) -> None:
    with pytest.raises(ConfigLineError) as caught:
        loaded(text)
    assert str(caught.value).endswith(message) or message in str(caught.value)


COMMENT_HINT = ": a comment needs a line of its own"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"port 7000 # our port", "wrong number of arguments"),
        (b"port #7000", None),
        (b"appendonly yes #always", "wrong number of arguments"),
        (b"save 3600 1 # hourly", "Invalid save parameters"),
        (b"maxmemory 5gb # half", "wrong number of arguments"),
        (b"requirepass sesame # secret", "wrong number of arguments"),
        (b"client-output-buffer-limit normal 0 0 0 # none", None),
        (b"include other.conf # more", "Bad directive or wrong number of arguments"),
        (b'rename-command CONFIG "" # hidden', "Bad directive or wrong number of arguments"),
        (b"port 7000 # don't change", "Unbalanced quotes in configuration line"),
    ],
)
def test_comment_after_a_value_gets_a_hint(line: bytes, reason: str | None) -> None:
    with pytest.raises(ConfigLineError) as caught:
        loaded(line)
    assert str(caught.value).endswith(f"\n{reason}{COMMENT_HINT}" if reason else COMMENT_HINT)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("line", [b"port 7000 1", b"include a b", b"requirepass 'a #b' c", b"port '1"])
def test_line_without_a_comment_gets_no_hint(line: bytes) -> None:
    with pytest.raises(ConfigLineError) as caught:
        loaded(line)
    assert ": " not in str(caught.value).splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--port=7000"], "Bad directive or wrong number of arguments: write --port 7000"),
        (["--APPENDONLY=yes"], "Bad directive or wrong number of arguments: write --appendonly yes"),
        (["--save=60 1"], "Bad directive or wrong number of arguments: write --save 60 1"),
        (["--port="], "Bad directive or wrong number of arguments: write --port VALUE"),
        (["--port", "=7000"], "argument couldn't be parsed into an integer: write --port 7000"),
        (["--port", "=", "7000"], "wrong number of arguments: write --port 7000"),
        (["--requirepass=sesame-street"], "Bad directive or wrong number of arguments: write --requirepass VALUE"),
        (["--prot=7000"], "Bad directive or wrong number of arguments: did you mean port?"),
    ],
)
def test_equals_sign_after_an_option_gets_a_hint(words: list[str], hint: str) -> None:
    with pytest.raises(ConfigLineError) as caught:
        Loader(Config()).load_options([word.encode() for word in words])
    assert str(caught.value).endswith(f"\n{hint}")
    assert "sesame" not in str(caught.value)


def test_equals_sign_in_a_line_gets_a_hint() -> None:
    for line in (b"port=7000", b"port = 7000"):
        with pytest.raises(ConfigLineError, match=r"wrong number of arguments: write port 7000$"):
            loaded(line)


@pytest.mark.parametrize("text", [b"maxmemory 5 parrots", b"maxmemory", b"port 1 2"])
def test_no_other_value_is_proposed_if_none_is_meant(text: bytes) -> None:
    with pytest.raises(ConfigLineError) as caught:
        loaded(text)
    assert str(caught.value).endswith("\nwrong number of arguments")


def test_values_that_ask_for_nothing_are_accepted() -> None:
    loaded(b'replicaof no one\ncluster-enabled No\naclfile ""\n')


def test_includes_are_expanded_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.conf").write_bytes(b"port 7001\nhz 20\n")
    (tmp_path / "b.conf").write_bytes(b"hz 30\n")
    monkeypatch.chdir(tmp_path)
    config = loaded(b"port 7000\ninclude *.conf\ninclude none-*.conf\nport 7002\n")
    assert (config.port, config.hz) == (7002, 30)


def test_missing_include_and_endless_include_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't open config file '/nosuch/x\.conf': No such file or directory"):
        loaded(b"include /nosuch/x.conf\n")
    path = tmp_path / "self.conf"
    path.write_bytes(b"include " + os.fsencode(path) + b"\n")
    with pytest.raises(ConfigError, match="nested"):
        loaded(b"include " + os.fsencode(path))


def test_options_become_quoted_lines() -> None:
    words = [b"--port", b"7000", b"--save", b"", b"--save", b"60", b"1", b"--appendonly"]
    assert options_text(words) == b'port "7000"\nsave ""\nsave "60" "1"\nappendonly'
    with pytest.raises(ConfigError, match="options start with --"):
        options_text([b"port", b"7000"])


def rewritten(text: bytes, **lines: list[bytes]) -> bytes:
    wanted = {name.replace("_", "-").encode(): (new_lines, True) for name, new_lines in lines.items()}
    return rewrite_text(text, wanted, BY_NAME)


def test_rewrite_replaces_in_place_and_blanks_what_is_left_over() -> None:
    text = b"# head\nport 1\n\n  timeout 5\ntimeout 7\n# tail\nsave 1 2\nsave 3 4\n"
    result = rewritten(text, timeout=[b"timeout 9"], save=[b"save 5 6"], port=[b"port 2"])
    assert result == b"# head\nport 2\n\ntimeout 9\n\n# tail\nsave 5 6\n\n"


def test_rewrite_appends_under_one_signature() -> None:
    once = rewritten(b"port 1\n", hz=[b"hz 5"])
    assert once == b"port 1\n\n# Generated by CONFIG REWRITE\nhz 5\n"
    assert rewritten(once, hz=[b"hz 5"], save=[b"save 1 2", b"save 3 4"]) == once + b"save 1 2\nsave 3 4\n"


def test_rewrite_knows_aliases_and_keeps_includes() -> None:
    result = rewritten(b"include a.conf\nslave-priority 5\n", replica_priority=[b"replica-priority 6"])
    assert result == b"include a.conf\nreplica-priority 6\n"


def test_value_at_its_default_is_written_only_where_the_file_had_it() -> None:
    wanted = {b"hz": ([b"hz 10"], False), b"timeout": ([b"timeout 0"], False)}
    assert rewrite_text(b"hz 50\n", wanted, BY_NAME) == b"hz 10\n"


def test_failed_replacement_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.conf"
    path.write_bytes(b"old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(os.fsencode(path), b"new", sync=fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
