"""Tables of docs/performance.md: each is replaced by a run that has it, and kept by one that has not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.documents import ROOT

PAGE = "# Page\n\n<!-- {0} -->\n{1}\n<!-- end of {0} -->\n\nrest\n"
PROGRAM = """
import sys
from benchmarks.tables import with_tables
from benchmarks.results import Result, Run
from benchmarks.rows import ROWS
from benchmarks.tails import QUANTILES
results = []
for row in [row for row in ROWS if row.table == sys.argv[1]][: int(sys.argv[2])]:
    result = Result.of(row)
    result.numbers = {"headrace": [1.0], "redis": [2.0]}
    result.cpu_us = {"headrace": [4.0], "redis": [2.0]}
    for name, (delay_ms,) in result.numbers.items():
        result.tails[name] = [{**dict.fromkeys(QUANTILES, delay_ms), "rate": 20_000}]
    results.append(result)
run = Run({"date": "today", "processor": "2 x any"}, {"headrace": "Headrace", "redis": "Redis"}, results)
print(with_tables(sys.argv[3], run, sys.argv[4]), end="")
"""
# A line of each table.
LINES = {
    "conditions": "| no condition | 4.00 **0.50** | 4.00 **0.50** | 4.00 **0.50** |",
    "commands": "| `ACL CAT` | 4.00 | 2.00 | **0.50** |",
    "files": "| entries of three fields | 4.00 **0.50** | 4.00 **0.50** | 4.00 **0.50** |",
    "weights": "| entry of one field | 1.00 | 2.00 | **2.00** |",
    "growth": "3 costs were measured with little data and with much: each form of each command, where one",
    "members": "| `MEMORY USAGE` | 2.00 |  |  |  |  |  |  |",
    "tails": "| nothing else | 1.00 (2.00) | 1.00 (2.00) | 1.00 (2.00) | 1.00 (2.00) |",
    "replicas": "| XADD, pipeline 16, one replica | 1.00 /s | 2.00 /s | **0.50** | 4.00 (+0%) | 2.00 (+0%) |",
}
by_table = pytest.mark.parametrize("table", LINES)


def replaced(table: str, rows_count: int) -> str:
    words = (table, str(rows_count), PAGE.format(table, ""), PAGE.format(table, "before"))
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@by_table
def test_a_run_without_the_table_keeps_it(table: str) -> None:
    assert replaced(table, 0) == PAGE.format(table, "before")


@by_table
def test_a_run_with_the_table_replaces_it(table: str) -> None:
    page = replaced(table, 3)
    assert "before" not in page
    assert LINES[table] in page
    assert page.endswith(f"\n<!-- end of {table} -->\n\nrest\n")


GROWTH_PROGRAM = """
from benchmarks.tables import growth_part
from benchmarks.results import Result, Run
costs = {"GROWS": ((2.0, 3.0), (1.0, 1.0)), "GROWS THERE": ((1.0, 1.0), (2.0, 4.0)), "STAYS": ((2.0, 2.4), (1.0, 1.1))}
results = []
for name, (mine, theirs) in costs.items():
    for size, *pair in zip((10, 1000), mine, theirs):
        result = Result(f"{name}-{size}", name, "CPU us", False, None, f"{name}|keys", size, "growth")
        result.numbers = {peer: [cost] for peer, cost in zip(("headrace", "redis"), pair)}
        results.insert(0, result)
print("\\n".join(growth_part(Run({"date": "today", "processor": "any"}, {"headrace": "H", "redis": "R"}, results))))
"""


def test_forms_that_grow_by_a_half_are_listed_and_the_others_are_counted() -> None:
    words = [sys.executable, "-c", GROWTH_PROGRAM]
    page = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    mine = "| `GROWS` | 10 to 1,000 keys | 2.00, 3.00 | 1.00, 1.00 | 1.50 | 1.00 |"
    theirs = "| `GROWS THERE` | 10 to 1,000 keys | 1.00, 1.00 | 2.00, 4.00 | 1.00 | 2.00 |"
    assert page.endswith(f"{mine}\n{theirs}\n")
    assert "The 1 others grow by a factor of 1.20 at most, and with Redis by one of\n1.10." in page


MEMBERS_PROGRAM = """
from benchmarks.tables import members_part
from benchmarks.results import Result, Run
results = []
for command, text, size, mine, theirs in (
    ("GET", "GET key", 10, 1.0, 2.0), ("GET", "GET other", 10, 2.0, 3.0), ("GET", "GET key", 500, 2.0, 2.0),
    ("OBJECT ENCODING", "OBJECT ENCODING key", 500, 4.0, 1.0),
):
    result = Result(f"{text}-{size}", text, "CPU us", False, None, f"{command}|{text}", size, "members")
    result.numbers = {"headrace": [mine], "redis": [theirs]}
    results.append(result)
print("\\n".join(members_part(Run({"date": "today", "processor": "any"}, {"headrace": "H", "redis": "R"}, results))))
"""


def test_lowest_ratio_of_each_command_is_shown_by_the_number_of_members() -> None:
    words = [sys.executable, "-c", MEMBERS_PROGRAM]
    page = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (
        "| command | 10 | 100 | 200 | 500 | 1,000 | 10,000 | 100,000 |\n|---|---|---|---|---|---|---|---|\n"
        "| `OBJECT ENCODING` |  |  |  | 0.25 |  |  |  |\n| `GET` | 1.50 |  |  | 1.00 |  |  |  |\n\n"
    ) in page
    assert page.endswith(
        "| `OBJECT ENCODING key` | 500 | 4.00 | 1.00 | **0.25** |\n"
        "| `GET key` | 500 | 2.00 | 2.00 | **1.00** |\n"
        "| `GET other` | 10 | 2.00 | 3.00 | **1.50** |\n"
        "| `GET key` | 10 | 1.00 | 2.00 | **2.00** |\n"
    )


def test_each_table_is_tested_and_has_a_place_on_the_page() -> None:
    program = "from benchmarks.tables import TABLES; print(*TABLES)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(LINES)
    page = (ROOT / "docs" / "performance.md").read_text()
    for table in LINES:
        assert f"\n<!-- {table} -->\n" in page
        assert f"\n<!-- end of {table} -->\n" in page
