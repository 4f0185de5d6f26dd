"""The table of directives agrees with itself, with redis.conf.example, and with Redis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from compat.differences import OWN_DIRECTIVES
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import split_words
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directive_kinds import BadValue, format_memory, parse_memory
from headrace.server.configuration.directives import BY_NAME, DIRECTIVES, Change, Directive
from headrace.store.errors import GenericError

EXAMPLE = Path(__file__).parents[3] / "redis.conf.example"

# Directives that the fixture gives every server.
SET_AT_START = {b"bind", b"port", b"dir", b"save", b"enable-debug-command", b"appendonly"}

# Defaults that differ from those of Redis, as docs/compatibility.md says.
OTHER_DEFAULTS = {b"aof-use-rdb-preamble"}


# Accepted here without Redis' checks, which concern parts that Headrace does not have.
DIFFERENT = {b"activedefrag", b"key-memory-histograms", b"cluster-slot-stats-enabled", b"proc-title-template"}


@pytest.mark.parametrize("directive", DIRECTIVES, ids=lambda directive: directive.name.decode())
def test_default_is_a_value_that_its_kind_writes_and_reads_back(directive: Directive) -> None:
    config = Config()
    text = b"\n".join(directive.kind.lines(directive.name, directive.default, directive.default))
    load_text(config, b"compat-config yes\n" + text)
    assert config.value(directive) == directive.default


def test_names_are_unique() -> None:
    assert len(BY_NAME) == sum(1 + len(directive.aliases) for directive in DIRECTIVES)
    assert len({directive.attribute for directive in DIRECTIVES}) == len(DIRECTIVES)


@pytest.mark.parametrize(
    ("word", "size"),
    [
        (b"0", 0),
        (b"", 0),
        (b"1k", 1000),
        (b"1KB", 1024),
        (b"2m", 2_000_000),
        (b"2mB", 2 << 20),
        (b"1g", 10**9),
        (b"7b", 7),
    ],
)
def test_memory_units(word: bytes, size: int) -> None:
    assert parse_memory(word) == size


@pytest.mark.parametrize("word", [b"-1", b"1.5gb", b"5%", b"1tb", b"x", b" 1"])
def test_what_is_not_a_size(word: bytes) -> None:
    with pytest.raises(BadValue, match="argument must be a memory value"):
        parse_memory(word)


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 3 << 20, (1 << 30) + 1, 5 << 30])
def test_memory_is_written_exactly(size: int) -> None:
    assert parse_memory(format_memory(size)) == size


@pytest.mark.parametrize(
    ("letters", "shown"),
    [(b"KEA", b"AKE"), (b"tmKn", b"tnKm"), (b"g$lshzxetdaK", b"AK"), (b"KEAmno", b"AnoKEm"), (b"", b"")],
)
def test_event_classes_are_shown_in_the_order_of_redis(letters: bytes, shown: bytes) -> None:
    config = Config()
    config.set_many([(b"notify-keyspace-events", letters)])
    assert config.notify_keyspace_events == shown


def example_rows() -> list[tuple[bytes, str]]:
    """(directive, stated default) of each `Default:` comment and the line that follows it."""
    rows = []
    stated: str | None = None
    for line in EXAMPLE.read_text().splitlines():
        match = re.search(r"Default: (.*)$", line) if line.startswith("#") else None
        if match:
            stated = match[1]
        elif stated is not None and line and not line.startswith("#"):
            rows.append((split_words(line.encode())[0], stated))
            stated = None
    return rows


def test_example_file_loads_and_changes_nothing() -> None:
    config = Config()
    load_text(config, EXAMPLE.read_bytes())
    assert dict(config.get_matching([b"*"])) == dict(Config().get_matching([b"*"]))


def test_example_file_states_every_default_truly() -> None:
    for name, stated in example_rows():
        directive = BY_NAME[name]
        value = directive.kind.parse(split_words(stated.encode()), directive.default)
        assert value == directive.default, name


def test_example_file_explains_every_directive_that_has_an_effect() -> None:
    explained = {name for name, _ in example_rows()}
    assert explained == {each.name for each in DIRECTIVES if each.has_effect}


@pytest.mark.parametrize("line", ["include /", "rename-command ", "user ", "shutdown-timeout"])
def test_example_file_explains_lines_that_are_no_directive_or_have_no_effect(line: str) -> None:
    assert line in EXAMPLE.read_text()


def test_page_about_limits_names_what_only_a_start_sets() -> None:
    text = (EXAMPLE.parent / "docs" / "limits.md").read_text()
    first, _, rest = text.partition("\n## ")
    named = {BY_NAME[name] for name in map(str.encode, re.findall(r"`([\w-]+)`", rest)) if name in BY_NAME}
    for directive in named:
        assert (directive.change is Change.IMMUTABLE) == (f"`{directive.name.decode()}`" in first), directive.name


@pytest.mark.oracle
def test_names_and_defaults_are_those_of_redis(oracle: Any) -> None:
    with oracle.connect() as wire:
        words = wire.ask("CONFIG", "GET", "*")
    theirs = dict(zip(words[::2], words[1::2], strict=True))
    ours = dict(Config().get_matching([b"*"]))
    for name in SET_AT_START | OTHER_DEFAULTS | {b"stream-node-max-entries"}:
        ours.pop(name, None), theirs.pop(name, None)
    assert {name: value for name, value in ours.items() if name not in OWN_DIRECTIVES} == theirs
    assert ours.keys() >= OWN_DIRECTIVES


def refusal(directive: Directive, value: bytes) -> bytes | None:
    """The error reply to a CONFIG SET on a fresh configuration, None if it takes the value."""
    config = Config()
    config.compat_config = True
    try:
        config.set_many([(directive.name, value)])
    except GenericError as error:
        return b"-" + error.wire_text + b"\r\n"
    return None


@pytest.mark.oracle
def test_bad_values_are_refused_as_by_redis(oracle: Any) -> None:
    values = (b"xyzzy", b"05", b"-9999999999", b"99999999999999999999", b"1 2 3 4 5", b"101%", b"1.5gb")
    with oracle.connect() as wire:
        for directive in DIRECTIVES:
            if (
                directive.name in SET_AT_START | DIFFERENT | OWN_DIRECTIVES
                or directive.is_hidden
                or b"tls" in directive.name
            ):
                continue
            for value in values:
                ours = refusal(directive, value)
                if ours is not None:
                    assert wire.call("CONFIG", "SET", directive.name, value) == ours
