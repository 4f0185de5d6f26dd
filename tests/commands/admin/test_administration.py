"""Commands for operators: help, random passwords, modules, a picture."""

from __future__ import annotations

import re

import pytest

from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import TABLE
from support.inprocess import Caller, Rig
from support.replies import parse, plain

CONTAINERS_WITH_HELP = sorted(
    name.decode()
    for name, row in TABLE.items()
    if b"HELP" in row.subcommands and row.subcommands[b"HELP"].handler is not refuse
)


@pytest.fixture
def caller() -> Caller:
    return Rig().connect()


@pytest.mark.parametrize("container", CONTAINERS_WITH_HELP)
def test_help_names_every_subcommand_of_redis(container: str, caller: Caller) -> None:
    lines = plain(parse(caller.call(f"{container} HELP")))
    listed = {line.split()[0].upper() for line in lines[1:] if not line.startswith((b" ", b"("))}
    assert lines[0].startswith(f"{container} <subcommand>".encode())
    subcommands = TABLE[container.encode()].subcommands
    assert listed == {name for name, row in subcommands.items() if not row.is_own}


@pytest.mark.parametrize(("bits", "digits_count"), [("", 64), ("1", 1), ("4", 1), ("5", 2), ("12", 3), ("4096", 1024)])
def test_generated_passwords_have_the_bits_asked_for(bits: str, digits_count: int, caller: Caller) -> None:
    first, second = (plain(parse(caller.call(f"ACL GENPASS {bits}"))) for _ in range(2))
    assert re.fullmatch(rb"[0-9a-f]{%d}" % digits_count, first)
    assert digits_count < 16 or first != second


def test_no_module_is_loaded(caller: Caller) -> None:
    assert caller.call("MODULE LIST") == b"*0\r\n"


def test_the_picture_shows_the_version(caller: Caller) -> None:
    assert b"Redis ver. 8.10.2" in caller.call("LOLWUT")
    assert b"Redis ver. 8.10.2" in caller.call("LOLWUT VERSION 5")
