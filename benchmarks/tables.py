"""Tables that docs/performance.md has besides the main one. A run that measured rows of a table replaces it.

The place of a table is between `<!-- name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks import commands, conditions, files, growth, members, open_load, replicas, tails, weights
from benchmarks.results import MAIN_PEER, SUBJECT, Result, Run, figure

Part = Callable[[Run], Iterator[str]]


def as_code(title: str) -> str:
    """The requests in the title of a form as code: what follows a comma is not a part of them."""
    requests, comma, more = title.partition(", ")
    return "; ".join(f"`{request}`" for request in requests.split("; ")) + comma + more


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
        yield f"| {as_code(result.title)} | {costs[0]} | {costs[1]} | **{figure(ratio)}** |"


def files_part(run: Run) -> Iterator[str]:
    """The table of files and copies under its heading."""
    results = measured(run, files.TABLE)
    yield "## Files and copies"
    yield ""
    yield servers(run)
    yield "Processor time in microseconds for each of what a line names, and in bold how many times less that is than"
    yield "with Redis; of a file the bytes for each, and in bold how many times fewer. From the time of a start, that"
    yield "of a start without data is subtracted: 0.15 s with Headrace, which starts Python, and 0.01 s with Redis."
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


# From this factor on, a form is listed, unless forms that touch no data have grown more: how many times its cost with
# little data that with much is, on either server.
GROWTH_LISTED: Final = 1.5
# Forms that touch no data: what they grow is noise of the machine.
CONTROLS: Final = ("ECHO word", "TIME", "LASTSAVE", "CLIENT ID")


@dataclass(frozen=True)
class Growth:
    """A form in one dimension: its results by size, and how many times the first cost the last one is."""

    title: str
    dimension: str
    results: list[Result]
    factors: dict[str, float]


def _growths(run: Run) -> list[Growth]:
    series: dict[str, list[Result]] = {}
    for result in measured(run, growth.TABLE).values():
        series.setdefault(result.series, []).append(result)
    growths = []
    for name, results in series.items():
        title, _, dimension = name.rpartition("|")
        results.sort(key=lambda result: result.size)
        factors = {peer: results[-1].median(peer) / results[0].median(peer) for peer in (SUBJECT, MAIN_PEER)}
        growths.append(Growth(title, dimension, results, factors))
    return growths


def growth_part(run: Run) -> Iterator[str]:
    """The forms whose cost grows, those first that grow most compared with Redis, and how many others there are."""
    growths = _growths(run)
    noise = max((max(each.factors.values()) for each in growths if each.title in CONTROLS), default=0.0)
    listed = [each for each in growths if max(each.factors.values()) >= max(GROWTH_LISTED, noise)]
    others = [each for each in growths if each not in listed]
    yield "## Every command with growing data"
    yield ""
    yield servers(run)
    yield f"{len(growths)} costs were measured with little data and with much: each form of each command, where one"
    yield f"dimension grows at a time. Commands that touch no data ({', '.join(map(as_code, CONTROLS))}) grew by up to"
    yield f"{figure(noise)}, which is noise of this machine. Listed are those that grow as much or more, with either"
    yield "server."
    if others:
        worst = {peer: max(each.factors[peer] for each in others) for peer in (SUBJECT, MAIN_PEER)}
        yield f"The {len(others)} others grow by a factor of {figure(worst[SUBJECT])} at most, and with Redis by one of"
        yield f"{figure(worst[MAIN_PEER])}."
    yield ""
    yield "| form | from, to | Headrace, CPU us | Redis, CPU us | Headrace, growth | Redis, growth |"
    yield "|---|---|---|---|---|---|"
    for each in sorted(listed, key=lambda each: each.factors[MAIN_PEER] / each.factors[SUBJECT]):
        costs = [", ".join(figure(result.median(peer)) for result in each.results) for peer in (SUBJECT, MAIN_PEER)]
        sizes = f"{each.results[0].size:,} to {each.results[-1].size:,} {each.dimension}"
        factors = [figure(each.factors[peer]) for peer in (SUBJECT, MAIN_PEER)]
        yield f"| {as_code(each.title)} | {sizes} | {' | '.join([*costs, *factors])} |"


# Forms that the table of members lists with their costs: those with the lowest ratios.
LOWEST_COUNT: Final = 25


def members_part(run: Run) -> Iterator[str]:
    """The lowest ratio of each command by the number of members, and the forms with the lowest of all."""
    by_ratio = [
        (statistics.median(ratios), result)
        for result in measured(run, members.TABLE).values()
        if (ratios := result.ratios(MAIN_PEER))
    ]
    by_ratio.sort(key=lambda each: each[0])
    lowest: dict[str, dict[int, float]] = {}
    for ratio, result in by_ratio:
        command, _, _ = result.series.partition("|")
        lowest.setdefault(command, {}).setdefault(result.size, ratio)
    yield "## Every command by the number of members"
    yield ""
    yield servers(run)
    yield f"{len(by_ratio)} costs were measured: each form of each command on a value with so many members or elements,"
    yield "or on a string of so many bytes. A ratio is how many times less processor time a request takes than with"
    yield "Redis, in pipelines of 16 over ten connections. Freeing what was removed counts. The table has the lowest"
    yield "ratio of the forms of a command. A request names 1,000 members at most, and a value that requests consume"
    yield "has as many at most."
    yield ""
    yield "| command |" + "".join(f" {count:,} |" for count in members.COUNTS)
    yield "|---|" + "---|" * len(members.COUNTS)
    for command, by_count in lowest.items():
        cells = (figure(by_count.get(count)) for count in members.COUNTS)
        yield f"| {as_code(command)} | {' | '.join(cells)} |"
    yield ""
    yield f"The {min(LOWEST_COUNT, len(by_ratio))} lowest ratios, with the processor time of a request in microseconds."
    yield "A name with `{n}` is a new key in each request: `hash{n}` is a copy of `hash`, and `new{n}` does not exist."
    yield "Other words in braces are numbers, names of members, or what `DUMP` returns."
    yield ""
    yield "| form | members | Headrace | Redis | times less |"
    yield "|---|---|---|---|---|"
    for ratio, result in by_ratio[:LOWEST_COUNT]:
        _, _, text = result.series.partition("|")
        costs = [figure(result.median(name)) for name in (SUBJECT, MAIN_PEER)]
        yield f"| {as_code(text)} | {result.size:,} | {costs[0]} | {costs[1]} | **{figure(ratio)}** |"


def tails_part(run: Run) -> Iterator[str]:
    """The table of delays under a steady load, under its heading."""
    results = measured(run, tails.TABLE)
    names = (SUBJECT, MAIN_PEER)
    rates = {result.tail_median(name, "rate") for result in results.values() for name in names}
    yield "## The slowest replies"
    yield ""
    yield servers(run)
    shown_rates = " or ".join(f"{rate:,.0f}" for rate in sorted(rates))
    yield f"{open_load.CONNECTIONS} connections send {shown_rates} requests/s (XADD, XREADGROUP of the entry, XACK),"
    yield "each at its time, whether or not replies have arrived. Delays in ms from the planned time of a request, of"
    yield "Headrace and in brackets of Redis, while the server does this job:"
    yield ""
    yield "| job |" + "".join(f" {quantile} |" for quantile in tails.QUANTILES)
    yield "|---|" + "---|" * len(tails.QUANTILES)
    for job in tails.JOBS:
        cells = [job.title]
        for quantile in tails.QUANTILES:
            result = results.get(tails.row_name(job))
            delays = [] if result is None else [figure(result.tail_median(name, quantile)) for name in names]
            cells.append(f"{delays[0]} ({delays[1]})" if delays else "")
        yield "| " + " | ".join(cells) + " |"


def replicas_part(run: Run) -> Iterator[str]:
    """The table of primaries with replicas, under its heading."""
    yield "## Replicas"
    yield ""
    yield servers(run)
    yield "Headrace with replicas of its own, and Redis with its own. Processor time is that of the primary for one"
    yield "request; in brackets is how much dearer it is than without a replica. What else was measured in the same run"
    yield "is in the last column, of Headrace and in brackets of Redis."
    yield ""
    yield "Replicas run on the processors of the primary here. With more processes than processors, they take time and"
    yield "caches from it, and there are fewer requests a second. A reader of the stream of changes does nothing with"
    yield "it: its rows show what the primary itself does for one replica and for three."
    yield ""
    yield "| row | Headrace | Redis | times better | Headrace, CPU us | Redis, CPU us | besides, ms |"
    yield "|---|---|---|---|---|---|---|"
    results = measured(run, replicas.TABLE)
    alone = results.get(replicas.row_name(0))
    for result in results.values():
        ratio = statistics.median(result.ratios(MAIN_PEER))
        costs = (_dearer(result, alone, name) for name in (SUBJECT, MAIN_PEER))
        quantiles = result.tails[SUBJECT][0] if result.tails else ()
        delays = (
            f"{name} {figure(result.tail_median(SUBJECT, name))} ({figure(result.tail_median(MAIN_PEER, name))})"
            for name in quantiles
        )
        numbers = (f"{figure(result.median(name))} {_short(result.unit)}" for name in (SUBJECT, MAIN_PEER))
        yield "| " + " | ".join((result.title, *numbers, f"**{figure(ratio)}**", *costs, ", ".join(delays))) + " |"


def _short(unit: str) -> str:
    return "/s" if unit == "requests/s" else unit


def _dearer(result: Result, alone: Result | None, name: str) -> str:
    """The processor time of a request, and by how much it exceeds that without a replica."""
    cost_us = result.cpu_median(name)
    if cost_us is None:
        return ""
    usual_us = alone.cpu_median(name) if alone is not None and result is not alone else None
    return figure(cost_us) if usual_us is None else f"{figure(cost_us)} ({cost_us / usual_us - 1:+.0%})"


# The lines of each table, in the order of the page.
TABLES: Final[dict[str, Part]] = {
    conditions.TABLE: conditions_part,
    commands.TABLE: commands_part,
    files.TABLE: files_part,
    weights.TABLE: weights_part,
    growth.TABLE: growth_part,
    members.TABLE: members_part,
    tails.TABLE: tails_part,
    replicas.TABLE: replicas_part,
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
