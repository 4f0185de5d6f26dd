"""Tables that docs/performance.md has besides the main one. A run that measured rows of a table replaces it.

The place of a table is between `<!-- name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks import commands, conditions, files, growing, weights
from benchmarks.results import MAIN_PEER, SUBJECT, Result, Run, figure

Part = Callable[[Run], Iterator[str]]


def measured(run: Run, table: str) -> dict[str, Result]:
    """The results of a table that both servers have, by row."""
    return {result.row: result for result in run.results if result.table == table and MAIN_PEER in result.numbers}


def servers(run: Run) -> str:
    """When, what and where."""
    return f"On {run.machine['date']}: {run.servers[SUBJECT]}, {run.servers[MAIN_PEER]}, {run.machine['processor']}."


def conditions_part(run: Run) -> Iterator[str]:
    """The table of conditions under its heading."""
    results = measured(run, conditions.TABLE)
    yield "## Under conditions that production has"
    yield ""
    yield servers(run)
    yield "Processor time of one request in microseconds, in pipelines of 15 over ten connections. In bold: how many"
    yield "times less that is than with Redis under the same condition."
    yield ""
    yield "| condition |" + "".join(f" {command.name.upper()} |" for command in conditions.COMMANDS)
    yield "|---|" + "---|" * len(conditions.COMMANDS)
    for condition in conditions.CONDITIONS:
        cells = [condition.title]
        for command in conditions.COMMANDS:
            result = results.get(conditions.row_name(condition, command))
            ratios = [] if result is None else result.cpu_ratios(MAIN_PEER)
            shown = f"**{figure(statistics.median(ratios))}**" if ratios else ""
            cells.append("" if result is None else f"{figure(result.cpu_median(SUBJECT))} {shown}".strip())
        yield "| " + " | ".join(cells) + " |"


def commands_part(run: Run) -> Iterator[str]:
    """The table of commands under its heading, the slowest compared with Redis first."""
    yield "## Command by command"
    yield ""
    yield servers(run)
    yield "Processor time of one request in microseconds, on data that has been there for a while, in pipelines of 16"
    yield "over ten connections; for a form of several requests, of all of them. `k` and others are keys with a number."
    yield ""
    yield "| form | Headrace | Redis | times less |"
    yield "|---|---|---|---|"
    by_ratio = [
        (statistics.median(ratios), result)
        for result in measured(run, commands.TABLE).values()
        if (ratios := result.cpu_ratios(MAIN_PEER))
    ]
    for ratio, result in sorted(by_ratio, key=lambda each: each[0]):
        costs = [figure(result.cpu_median(name)) for name in (SUBJECT, MAIN_PEER)]
        yield f"| `{result.title}` | {costs[0]} | {costs[1]} | **{figure(ratio)}** |"


def files_part(run: Run) -> Iterator[str]:
    """The table of files and copies under its heading."""
    results = measured(run, files.TABLE)
    yield "## Files and copies"
    yield ""
    yield servers(run)
    yield "Processor time in microseconds for an entry or a string, and in bold how many times less that is than with"
    yield "Redis; of a file the bytes for each, and in bold how many times fewer. From the time of a start, that of a"
    yield "start without data is subtracted: 0.15 s with Headrace, which starts Python, and 0.01 s with Redis."
    yield ""
    yield "| content |" + "".join(f" {operation.title} |" for operation in files.OPERATIONS)
    yield "|---|" + "---|" * len(files.OPERATIONS)
    for content in files.ALL_CONTENTS:
        cells = [content.title]
        for operation in files.OPERATIONS:
            result = results.get(files.row_name(content, operation))
            cells.append("" if result is None else _cost(result))
        yield "| " + " | ".join(cells) + " |"


def _cost(result: Result) -> str:
    """The processor time of a row, or the number of a row without one, with the ratio to Redis."""
    ratios = result.cpu_ratios(MAIN_PEER) if result.cpu_us else result.ratios(MAIN_PEER)
    cost = result.cpu_median(SUBJECT) if result.cpu_us else result.median(SUBJECT)
    return f"{figure(cost)} **{figure(statistics.median(ratios))}**"


def weights_part(run: Run) -> Iterator[str]:
    """The table of small things under its heading."""
    yield "## What small things weigh"
    yield ""
    yield servers(run)
    yield "Growth of the resident memory while many are made, in bytes for each, their names included; in bold how many"
    yield "times less that is than with Redis."
    yield ""
    yield "| thing | Headrace | Redis | times less |"
    yield "|---|---|---|---|"
    for result in measured(run, weights.TABLE).values():
        sizes = [figure(result.median(name)) for name in (SUBJECT, MAIN_PEER)]
        ratio = figure(statistics.median(result.ratios(MAIN_PEER)))
        yield f"| {result.title} | {sizes[0]} | {sizes[1]} | **{ratio}** |"


# From this quotient on, a form is listed: how many times as much as with Redis its cost grows.
GROWTH_LISTED: Final = 1.25


def growing_part(run: Run) -> Iterator[str]:
    """The forms whose cost grows more than with Redis, the worst first, and how many were measured."""
    series: dict[str, list[Result]] = {}
    for result in measured(run, growing.TABLE).values():
        series.setdefault(result.series, []).append(result)
    compared = []
    for name, results in series.items():
        results.sort(key=lambda result: result.size)
        mine, theirs = (results[-1].median(peer) / results[0].median(peer) for peer in (SUBJECT, MAIN_PEER))
        compared.append((mine / theirs, mine, theirs, name, results))
    listed = sorted((each for each in compared if each[0] >= GROWTH_LISTED), key=lambda each: -each[0])
    yield "## Every command with growing data"
    yield ""
    yield servers(run)
    yield f"{len(compared)} forms were measured with little data and with much, where one dimension grows at a time."
    yield "Listed are those whose cost grows by a quarter more than with Redis, or more."
    yield ""
    yield "| form | from, to | Headrace, CPU us | Redis, CPU us | Headrace, growth | Redis, growth |"
    yield "|---|---|---|---|---|---|"
    for _, mine, theirs, name, results in listed:
        title, _, dimension = name.rpartition("|")
        costs = [", ".join(figure(result.median(peer)) for result in results) for peer in (SUBJECT, MAIN_PEER)]
        sizes = f"{results[0].size:,} to {results[-1].size:,} {dimension}"
        yield f"| `{title}` | {sizes} | {costs[0]} | {costs[1]} | {mine:.2f} | {theirs:.2f} |"


# The lines of each table, in the order of the page.
TABLES: Final[dict[str, Part]] = {
    conditions.TABLE: conditions_part,
    commands.TABLE: commands_part,
    files.TABLE: files_part,
    weights.TABLE: weights_part,
    growing.TABLE: growing_part,
}


def with_tables(page: str, run: Run, present: str) -> str:
    """The page with the tables of this run, and with those of the present page that the run does not have."""
    for name, part in TABLES.items():
        place = re.compile(rf"(<!-- {name} -->\n).*(\n<!-- end of {name} -->)", re.DOTALL)
        found = place.search(present)
        kept = found[0].removeprefix(found[1]).removesuffix(found[2]) if found else ""
        text = "\n".join(part(run)) if measured(run, name) else kept
        page = place.sub(lambda match, text=text: match[1] + text + match[2], page)  # type: ignore[misc]
    return page
