"""The table of conditions in docs/performance.md: it is replaced by a run that has it, and kept by one that has not."""

from __future__ import annotations

import subprocess
import sys

from support.documents import ROOT

PAGE = "# Page\n\n<!-- conditions -->\n{}\n<!-- end of conditions -->\n\nrest\n"
PROGRAM = """
import sys
from benchmarks.conditions import ROWS
from benchmarks.report import with_conditions
from benchmarks.results import Result, Run
results = []
for row in ROWS[: int(sys.argv[1])]:
    result = Result.of(row)
    result.numbers = {"headrace": [1.0], "redis": [2.0]}
    result.cpu_us = {"headrace": [4.0], "redis": [2.0]}
    results.append(result)
run = Run({"date": "today", "processor": "2 x any"}, {"headrace": "Headrace", "redis": "Redis"}, results)
print(with_conditions(sys.argv[2], run, sys.argv[3]), end="")
"""


def replaced(rows_count: int) -> str:
    words = (str(rows_count), PAGE.format(""), PAGE.format("before"))
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_run_without_conditions_keeps_the_table() -> None:
    assert replaced(0) == PAGE.format("before")


def test_a_run_with_conditions_replaces_the_table() -> None:
    page = replaced(3)
    assert "before" not in page
    assert "| no condition | 4.00 **0.50** | 4.00 **0.50** | 4.00 **0.50** |" in page
    assert page.endswith("\n<!-- end of conditions -->\n\nrest\n")
