"""The benchmark's table of members: every command on values with members has forms, and servers take them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headrace.commands import registry
from headrace.commands.core.table import all_rows
from support.documents import ROOT
from support.inprocess import Caller, Rig

assert registry.FAMILIES

COUNT = 10
ROWS = [row for row in all_rows() if row.handler is not None]
# Prints the forms with ten members, with the number 0 in the place of each number, and what must be sent before them.
PROGRAM = """
import json, sys
from benchmarks import member_forms, members
from benchmarks.command_forms import requests_of

def requests(*texts):
    return [[word.decode("latin-1") for word in words]
            for text in texts for each in requests_of(text, range(1)) for words in each]

def shown(name, command, text):
    form = member_forms.form_of(command, text, COUNT)
    return {"name": name, "command": command, "text": text, "before": requests(form.fresh, form.opening),
            "requests": requests(form.text)}

COUNT = int(sys.argv[1])
print(json.dumps({
    "groups": member_forms.GROUPS,
    "by_hand": sorted(member_forms.FORMS),
    "skipped": member_forms.SKIP,
    "fill": [requests(text)[0] for text in member_forms.fill_texts(COUNT)],
    "forms": [shown(*each) for each in member_forms.all_texts()],
    "counted_by": [requests(text)[0] for text in member_forms.COUNTED_BY.values()],
    "rows": [[row.name, row.series, row.size] for row in members.ROWS],
}))
"""
# A command that is in no list: its form, if it reads, and if it writes.
NEW_PROGRAM = """
from benchmarks.member_forms import texts_of
from headrace.commands.core.table import Argument, Flag, Row
arguments = (Argument("key", "key"), Argument("field"), Argument("count", "integer", token="COUNT", optional=True))
for flag in (Flag.READONLY, Flag.WRITE):
    print(*texts_of(Row("HNEW", -3, lambda context, argv: 1, flags=flag, group="hash", arguments=arguments)))
print(texts_of(Row("XNEW", -3, lambda context, argv: 1, group="stream", arguments=arguments)))
"""
# Measures rows on a real server, with few requests. Prints their number, and keys that are left or that are missing.
MEASURE_PROGRAM = """
import sys
from pathlib import Path
from benchmarks import member_forms, members
from benchmarks.peers import PeerServer, find_peer
from support.replies import parse
members.RUN_S, members.REQUESTS_MAX = 0.0, 2
server = PeerServer(find_peer("headrace"), Path(sys.argv[1]), "--appendonly", "yes")
server.start()
try:
    rows = [row for row in members.ROWS if row.size == 10]
    rows[0].prepare(server)
    for row in rows:
        row.measure(server)
    with server.connect() as wire:
        left = {key.value.decode() for key in parse(wire.call("KEYS", "*")).value}
finally:
    server.kill()
print(len(rows), *sorted(left ^ member_forms.COUNTED_BY.keys()))
"""


def printed(program: str, *words: str) -> str:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@cache
def table() -> Any:
    return json.loads(printed(PROGRAM, str(COUNT)))


def send(caller: Caller, words: list[str]) -> bytes:
    """The reply to the request. `{hash_dump}` is replaced by what DUMP returns of `hash`."""
    argv = [word.encode("latin-1") for word in words]
    for place, word in enumerate(argv):
        if word.endswith(b"_dump}"):
            dump = send(caller, ["DUMP", word[1 : -len("_dump}")].decode()])
            argv[place] = dump.partition(b"\r\n")[2][:-2]
    caller.rig.dispatcher.execute(caller.session, [argv], caller.rig.clock())
    return caller.output()


def filled() -> Caller:
    """A client of a new server that has the values of all forms."""
    caller = Rig().connect()
    for words in table()["fill"]:
        assert not send(caller, words).startswith(b"-"), words
    return caller


def counts(caller: Caller) -> dict[str, bytes]:
    """The number of members of each value that forms do not change."""
    return {words[1]: send(caller, words) for words in table()["counted_by"]}


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_command_on_members_has_forms_or_a_reason_to_have_none(name: str) -> None:
    row = next(each for each in ROWS if each.name == name)
    is_wanted = row.group in table()["groups"] or name in table()["by_hand"]
    has_forms = any(form["command"] == name for form in table()["forms"])
    assert has_forms == (is_wanted and name not in table()["skipped"])


def test_commands_of_the_lists_exist_and_are_in_one_list() -> None:
    by_hand, skipped = set(table()["by_hand"]), table()["skipped"]
    assert by_hand | skipped.keys() <= {row.name for row in ROWS}
    assert not by_hand & skipped.keys()
    assert all(skipped.values())


def test_values_have_ten_members() -> None:
    assert set(counts(filled()).values()) == {b":10\r\n"}


def test_no_form_is_refused_and_values_keep_their_number_of_members() -> None:
    for form in table()["forms"]:
        caller = filled()
        for words in form["before"]:
            assert not send(caller, words).startswith(b"-"), words
        for words in form["requests"]:
            reply = send(caller, words)
            assert reply, form["text"]
            assert not reply.startswith(b"-"), (form["text"], reply)
        assert set(counts(caller).values()) == {b":10\r\n"}, form["text"]


def test_rows_are_forms_by_number_of_members() -> None:
    rows = table()["rows"]
    assert len({name for name, _, _ in rows}) == len(rows)
    sizes: dict[str, set[int]] = {}
    for _, series, size in rows:
        sizes.setdefault(series, set()).add(size)
    assert len(sizes) == len(table()["forms"])
    assert sizes["HGETALL|HGETALL hash"] == {10, 100, 200, 500, 1_000, 10_000, 100_000}
    # What many copies would be made for, and what takes a time in proportion to the square.
    assert max(sizes["HDEL|HDEL hash{n} m1"]) == 1_000
    assert max(sizes["LCS|LCS text other_text"]) == 1_000


def test_command_without_a_form_by_hand_has_one_of_its_arguments() -> None:
    assert printed(NEW_PROGRAM).splitlines() == ["HNEW hash word", "HNEW hash{n} word", "()"]


def test_every_form_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    forms_count = len(table()["forms"])
    assert printed(MEASURE_PROGRAM, str(tmp_path)).split() == [str(forms_count)]
