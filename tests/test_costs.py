"""No command becomes much more expensive unnoticed: not by itself, not with more data, not under a condition.

Goal: a change that loses a factor fails here, on any machine, however loaded. Method: each form of the tables of
commands, conditions and growth runs in a process of its own, which counts lines of Python, calls of C functions and
bytes (`benchmarks/steps.py`), and compares with `benchmarks/costs.txt`. `make costs` writes that file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from headrace import build_form
from support.documents import ROOT

# Compiled Python reports no lines, and the committed counts are without those of the twins of what is in C.
pytestmark = pytest.mark.skipif(build_form() != "codecs", reason="steps are counted in the form `codecs`")

# XLEN as a handler that looks at every entry: in Python, or by a copy that a function in C makes.
PLANTED = """
import json, sys
from benchmarks import costs, growth
from headrace.commands.core.table import all_rows
xlen = next(row for row in all_rows() if row.name == "XLEN")
handler = xlen.handler

def walking(context, argv):
    for _ in range(handler(context, argv)):
        pass
    return handler(context, argv)

def copying(context, argv):
    return len(list(range(handler(context, argv))))

object.__setattr__(xlen, "handler", {"walking": walking, "copying": copying, "usual": handler}[sys.argv[1]])
found = costs.all_costs(only="xlen")
rows = {"command-xlen": costs.table_of({**found, "conditions": {}})["command-xlen"]}
print(json.dumps([[line for line in costs.growth_complaints(found) if line.startswith("xlen:")],
                  [line for line in costs.table_complaints(rows) if "before" in line]]))
"""


def run(*words: str) -> str:
    """What a process prints whose sets have the same order each time."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout


@cache
def complaints() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(run("-m", "benchmarks.costs", "--check"))
    return found


def test_no_row_costs_more_than_in_the_committed_table() -> None:
    assert not complaints()["table"], "\n".join(complaints()["table"])


def test_no_form_costs_more_with_more_data() -> None:
    assert not complaints()["growth"], "\n".join(complaints()["growth"])


def test_no_condition_makes_commands_much_more_expensive() -> None:
    assert not complaints()["conditions"], "\n".join(complaints()["conditions"])


@pytest.mark.parametrize(("handler", "is_seen"), [("usual", False), ("walking", True), ("copying", True)])
def test_a_handler_that_looks_at_every_entry_is_seen(handler: str, is_seen: bool) -> None:
    growing, costlier = json.loads(run("-c", PLANTED, handler))
    assert bool(growing) == is_seen
    assert bool(costlier) == (handler == "walking")


def test_a_row_that_is_not_in_the_table_is_named_with_the_command_that_adds_it() -> None:
    program = "from benchmarks import costs; print(*costs.table_complaints({**costs.committed(), 'command-new': 1}))"
    assert run("-c", program) == "command-new: it is not in costs.txt; `make costs` adds it\n"
    program = "from benchmarks import costs; print(*costs.table_complaints(dict(list(costs.committed().items())[1:])))"
    assert "command-acl-cat: it is in costs.txt, but is no form or condition any more" in run("-c", program)
