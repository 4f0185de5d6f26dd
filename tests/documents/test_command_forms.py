"""The benchmark's table of commands has every row of the command table, in forms that a server takes."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from headrace.commands import registry
from headrace.commands.core.table import all_rows
from support.documents import ROOT
from support.inprocess import Caller, Rig

assert registry.FAMILIES

ROWS = [row.name for row in all_rows() if row.handler is not None]
# Commands that would end the test or write files.
NOT_SENT = {"BACKUP|CLEANUP", "BACKUP|START", "BGREWRITEAOF", "BGSAVE", "SAVE", "SHUTDOWN"}
# Prints the requests of all forms, by row; with the form's number 0 in the place of each number.
PROGRAM = """
import json
from benchmarks import command_forms as forms
from headrace.commands.core.table import all_rows

def requests(*texts):
    return [[word.decode("latin-1") for word in words]
            for text in texts for each in forms.requests_of(text, range(1)) for words in each]

def shown(form):
    return {"text": form.text, "refused": bool(form.refused), "requests": requests(form.text),
            "before": requests(form.fresh, form.once, form.opening), "others": requests(*form.others)}

print(json.dumps({
    "fill": requests(forms.FILL, forms.FILL_ONCE),
    "forms": {row.name: [shown(form) for form in forms.forms_of(row)] for row in all_rows() if row.handler is not None},
    "errors": [shown(form) for form in forms.ERRORS.values()],
    "left_out": sorted(forms.LEFT_OUT),
    "by_hand": sorted(forms.FORMS),
}))
"""


@cache
def table() -> Any:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def sent(caller: Caller, requests: list[list[str]]) -> list[bytes]:
    """The reply to each request, after all before it."""
    replies = []
    for words in requests:
        session, rig = caller.session, caller.rig
        rig.dispatcher.execute(session, [[word.encode("latin-1") for word in words]], rig.clock())
        replies.append(caller.output())
    return replies


def assert_answered(form: Any) -> None:
    """Send the form twice, and test that replies are errors where it says so, and nowhere else."""
    rig = Rig(enable_debug_command=b"yes")
    caller = rig.connect()
    sent(caller, table()["fill"])
    for words in form["others"]:
        sent(rig.connect(), [words])
    sent(caller, form["before"])
    replies = sent(caller, form["requests"])
    assert all(replies), form["text"]
    assert [reply.startswith(b"-") for reply in replies] == [form["refused"]] * len(replies), (form["text"], replies)


@pytest.mark.parametrize("name", ROWS)
def test_row_has_forms_that_are_answered(name: str) -> None:
    forms = table()["forms"][name]
    assert bool(forms) != (name in table()["left_out"])
    for form in forms if name not in NOT_SENT else ():
        assert_answered(form)


def test_errors_are_errors() -> None:
    for form in table()["errors"]:
        assert form["refused"]
        assert_answered(form)


def test_forms_by_hand_are_of_rows_that_exist() -> None:
    assert {*table()["by_hand"], *table()["left_out"]} <= set(ROWS)
