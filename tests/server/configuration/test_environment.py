"""Variables of the environment as directives: how they are named and split, and that none of ours is lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.directives import DIRECTIVES, Directive
from headrace.server.configuration.environment import environment_lines, variable_name
from headrace.server.main import read_configuration

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("directive", DIRECTIVES, ids=lambda directive: directive.name.decode())
def test_every_directive_has_a_variable(directive: Directive) -> None:
    variable = variable_name(directive.name)
    ((given, line),) = environment_lines({os.fsencode(variable): b"1"})
    assert (given, line.split()[0]) == (variable, directive.name)


@pytest.mark.parametrize(
    ("variable", "value", "attribute", "expected"),
    [
        (b"HEADRACE_PORT", b"7000", "port", 7000),
        (b"HEADRACE_APPENDONLY", b"yes", "appendonly", True),
        (b"HEADRACE_REQUIREPASS", b" two 'words\" ", "requirepass", b" two 'words\" "),
        (b"HEADRACE_REQUIREPASS", b"", "requirepass", b""),
        (b"HEADRACE_SAVE", b"", "save", b""),
        (b"HEADRACE_SAVE", b"60 1\n30 2", "save", b"60 1 30 2"),
        (b"HEADRACE_BIND", b"127.0.0.1 -::1", "bind", b"127.0.0.1 -::1"),
        (b"HEADRACE_STREAM_NODE_MAX_BYTES", b"8kb", "stream_node_max_bytes", 8192),
    ],
)
def test_variable_sets_its_directive(variable: bytes, value: bytes, attribute: str, expected: object) -> None:
    assert getattr(read_configuration([], {variable: value}), attribute) == expected


def test_environment_wins_over_the_file_and_options_over_both(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "h.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write("port 1\nhz 20\nsave 60 1\ntimeout 5\n")
    environment = {b"HEADRACE_HZ": b"30", b"HEADRACE_SAVE": b"30 2", b"HEADRACE_TIMEOUT": b"6"}
    config = read_configuration([os.fsencode(path), b"--timeout", b"7"], environment)
    assert (config.port, config.hz, config.save, config.timeout) == (1, 30, b"30 2", 7)
    assert read_configuration([b"--save", b"9", b"9"], environment).save == b"9 9"


def test_misspelt_variable_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"Reading the environment variable HEADRACE_APENDONLY\n>>> 'apendonly yes'"):
        read_configuration([], {b"HEADRACE_APENDONLY": b"yes"})


def test_bad_value_names_its_variable() -> None:
    with pytest.raises(
        ConfigError, match=r"variable HEADRACE_PORT\n>>> 'port \"x\"'\nargument couldn't be parsed into"
    ):
        read_configuration([], {b"HEADRACE_PORT": b"x"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (b"HEADRACE_PORT", b"tcp://10.0.0.1:6379"),
        (b"HEADRACE_SERVICE_HOST", b"10.0.0.1"),
        (b"HEADRACE_SERVICE_PORT_REDIS", b"6379"),
        (b"HEADRACE_PORT_6379_TCP_ADDR", b"10.0.0.1"),
        (b"HEADRACE_ORACLE", b"/opt/redis"),
        (b"HEADRACE_COMPILE", b"pure"),
        (b"PORT", b"7000"),
    ],
)
def test_variables_of_other_programs_are_ignored(variable: bytes, value: bytes) -> None:
    assert read_configuration([], {variable: value}).port == 6379


def test_variables_that_contributing_describes_are_ignored() -> None:
    """Those of the tests and of the build: the comment in redis.conf.example names them as exceptions."""
    named = re.findall(r"^\| `(HEADRACE_\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    excepted = re.findall(r"HEADRACE_(?!STREAM)\w+", (ROOT / "redis.conf.example").read_text("utf-8").split("###")[0])
    assert "HEADRACE_REQUIRE_SPARK" in named
    assert excepted
    for name in {"HEADRACE_COMPILE", *named, *excepted}:
        assert read_configuration([], {name.encode(): b"1"}).port == 6379, name
