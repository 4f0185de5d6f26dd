"""Passwords are in no log and no MONITOR output, for every request that contains some, well formed or not."""

from __future__ import annotations

import logging

import pytest

from headrace.commands.core.lookup import named_row
from headrace.commands.core.secrets import SECRET_DIRECTIVES, redact
from headrace.commands.core.table import Argument, Row, all_rows
from headrace.server.configuration.directives import DIRECTIVES
from support.inprocess import Rig
from support.lines import split


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ACL SETUSER joe on >pw", "ACL SETUSER (redacted) (redacted) (redacted)"),
        ("acl deluser joe", "acl deluser (redacted)"),
        ("ACL WHOAMI", "ACL WHOAMI"),
        ("AUTH a b c", "AUTH (redacted) (redacted) (redacted)"),
        ("CONFIG GET requirepass", "CONFIG GET requirepass"),
        ("CONFIG SET requirepass", "CONFIG SET requirepass"),
        ("CONFIG SET timeout 1 requirepass a b", "CONFIG SET timeout 1 requirepass (redacted) (redacted)"),
        ("CONFIG SET dbfilename requirepass timeout 1", "CONFIG SET dbfilename requirepass timeout 1"),
        ("HELLO", "HELLO"),
        ("HELLO 3 SETNAME auth AUTH u p", "HELLO 3 SETNAME auth AUTH (redacted) (redacted)"),
        ("HELLO 3 AUTH u p AUTH v q", "HELLO 3 AUTH (redacted) (redacted) AUTH (redacted) (redacted)"),
        ("HELLO x AUTH u p SETNAME n", "HELLO x AUTH (redacted) (redacted) SETNAME n"),
        ("HELLO AUTH u p", "HELLO AUTH (redacted) (redacted)"),
        ("HELLO 3 SETNAME AUTH u p", "HELLO 3 SETNAME AUTH (redacted) (redacted)"),
        ("HELLO 3 AUTH u", "HELLO 3 AUTH (redacted)"),
        ("ACL DRYRUN joe AUTH u p", "ACL DRYRUN joe AUTH (redacted) (redacted)"),
        ("ACL DRYRUN joe ACL SETUSER u >p", "ACL DRYRUN joe ACL SETUSER (redacted) (redacted)"),
        ("COMMAND GETKEYS AUTH u p", "COMMAND GETKEYS AUTH (redacted) (redacted)"),
        ("MIGRATE h 1 k 0 9 COPY AUTH p KEYS", "MIGRATE h 1 k 0 9 COPY AUTH (redacted) KEYS"),
        ("MIGRATE h 1 k 0 9 auth2 u p", "MIGRATE h 1 k 0 9 auth2 (redacted) (redacted)"),
        ("MIGRATE h 1 k 0 9 AUTH p BAD", "MIGRATE h 1 k 0 9 AUTH (redacted) BAD"),
        ('MIGRATE h 1 "" 0 9 KEYS AUTH k', 'MIGRATE h 1 "" 0 9 KEYS AUTH k'),
    ],
)
def test_what_is_blotted_out(line: str, shown: str) -> None:
    argv = split(line)
    row = named_row(argv)
    assert row is not None
    assert redact(row, argv) == split(shown)


def test_a_renamed_command_is_blotted_out_as_well() -> None:
    row = named_row([b"AUTH"])
    assert row is not None
    assert redact(row, [b"enter", b"secret"]) == [b"enter", b"(redacted)"]


# -- every command that carries a password, in every way of sending it ------------------------------

PASSWORD = "correct-horse"
CARRYING = [
    "AUTH {0}",
    "AUTH u {0}",
    "AUTH u {0} x",
    "HELLO 3 AUTH u {0}",
    "HELLO 3 SETNAME auth AUTH u {0}",
    "HELLO 3 AUTH u x AUTH v {0}",
    "HELLO 4 AUTH u {0}",
    "HELLO 3 NOSUCH AUTH u {0}",
    "HELLO AUTH u {0}",
    "ACL SETUSER u on >{0}",
    "ACL SETUSER u nosuch >{0}",
    "ACL SETUSER u <{0}",
    "ACL SETUSER u (+nosuch >{0})",
    "ACL DRYRUN default AUTH u {0}",
    "ACL DRYRUN default ACL SETUSER u >{0}",
    "COMMAND GETKEYS AUTH u {0}",
    *(f"CONFIG SET {name.decode()} {{0}}" for name in sorted(SECRET_DIRECTIVES)),
    "CONFIG SET timeout x requirepass {0}",
    "MIGRATE 127.0.0.1 1 none 0 9 AUTH {0}",
    "MIGRATE 127.0.0.1 1 none 0 9 COPY AUTH2 u {0} KEYS a b",
    "MIGRATE 127.0.0.1 1 none 0 9 AUTH {0} NOSUCH",
    "CONFIG SET timeout 1 requirepass {0} x",
]


@pytest.mark.parametrize("line", CARRYING)
@pytest.mark.parametrize("way", ["{}", "MULTI;{};EXEC"])
def test_no_password_is_shown_anywhere(line: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rig = Rig(slowlog_log_slower_than=0)
    monitor, other = rig.connect(), rig.connect()
    monitor.call("MONITOR")
    other.call(*way.format(line.format(PASSWORD)).split(";"))
    looking = rig.connect()
    shown = looking.call("SLOWLOG GET -1", "ACL LOG", "CLIENT LIST", "INFO everything", "LATENCY DOCTOR")
    assert PASSWORD.encode() not in monitor.output() + shown
    assert PASSWORD not in caplog.text


def names_password(arguments: tuple[Argument, ...]) -> bool:
    return any(each.name == "password" or names_password(each.arguments) for each in arguments)


@pytest.mark.parametrize("row", [row for row in all_rows() if names_password(row.arguments)], ids=lambda row: row.name)
def test_each_command_whose_grammar_has_a_password_is_among_them(row: Row) -> None:
    assert any(named_row(split(line)) is row for line in CARRYING)


def test_each_directive_that_holds_a_password_is_secret() -> None:
    named = {
        each.name for each in DIRECTIVES if b"pass" in each.name or each.name.startswith((b"masterauth", b"masteruser"))
    }
    assert named <= SECRET_DIRECTIVES
