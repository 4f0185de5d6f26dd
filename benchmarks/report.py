"""Makes docs/performance.md, its plots and README's table from runs: `python -m benchmarks.report run.json ..`.

A run is what `python -m benchmarks --json run.json` wrote. Rows and servers that are in none are left out; where two
runs measured a row on the same servers, the later one counts.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import MAIN_PEER, SUBJECT, Result, Run, figure
from benchmarks.rows import ROWS
from benchmarks.tables import TABLES, with_tables

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
PLOTS = ROOT / "docs" / "performance"
README_ROWS = (
    "ping",
    "xadd",
    "xadd-p16",
    "xrange-1000",
    "xread-100",
    "xreadgroup-100",
    "cycle",
    "xautoclaim-idle",
    "xpending-idle",
    "entry-bytes",
    "pending-bytes",
    "reload",
    "rewrite",
)
README_TABLE = re.compile(r"(<!-- benchmark: [^\n]*-->\n).*(\n<!-- end of benchmark -->)", re.DOTALL)

METHOD = """\
The servers run on one machine, each with `appendonly yes`, `appendfsync everysec` and otherwise default settings, and
are restarted for each row. They take turns (Headrace, Redis; Redis, Headrace; ..), so that a slow minute affects all of
them. A ratio is **how many times better** than the other server Headrace was, for rates and for durations: the median
over the pairs of runs, with the smallest and the largest ratio in brackets.

redis-benchmark (50 connections, no pipeline unless the row says so) makes the load where it can. If each request needs
an ID of its own, requests are prepared before the clock starts, and replies are compared byte for byte. Entries have
three short fields, two of them random.

*CPU us* is the processor time of the server for one request (for one entry in the cycle and in the reload), in all its
threads together. *At most* is the ratio of a server that needs no time at all: the client needs time for each request,
too. Client and servers share the machine, and redis-benchmark parses every element of a reply. A ratio near that limit
says more about the client, and only the processor time distinguishes the servers.

*Aim* is the ratio that the project wants a row to reach: 1 where Headrace is only to keep up with Redis, more where its
design should help. *Where it is slower, or misses its aim, and why* has the reasons.
"""

FLOORS = """\
## Where it is slower, or misses its aim, and why

Percentages are shares of the server's processor time, by `perf record`, in the compiled form.

- *One small command a call* (PING, XADD, XRANGE COUNT 10, XREADGROUP COUNT 1): the client is the limit.
  redis-benchmark takes some 10 us a request with either server, on a core of its own, and that is the time between two
  requests. Of the server's time, the kernel takes 75 % with PING and 65 % with XADD (a `read`, a `write` and a share
  of an `epoll_wait` for each request, as in Redis), CPython 12 to 16 %, compiled Python 5 to 7 %, uvloop 3 to 5 %. If
  everything but the kernel took no time, PING would cost 6 us, and Redis takes 7 to 8: that is the limit of a row
  whose aim is 1. The next step would be a loop that reads and writes sockets without an object per call.
- *XREAD COUNT 100, XRANGE COUNT 1000, XAUTOCLAIM COUNT 100*: the client is the limit, since it parses every element of
  a reply, with two threads in the first two. The column *at most* has the largest possible ratio. In processor time,
  the server is several times better.
- *XADD over 10,000 keys* costs a third to a half more than to one key, with either server, since its memory is in no
  cache. For this reason a stream's entries are in two blocks of memory, with the parts that `XADD` changes next to
  each other. A quarter of the difference is the lookup of the key.
- *XADD of 1 KiB*: copying a value from the socket into the request, the entry, the chunk, the record and the file, and
  allocating memory for it, takes 18 % (6 % with small values), and packing every 64th chunk 7 %.
- *100 blocked readers* with the same request get the same bytes, made once, and the first ones are sent while the
  others are served. The rest is a `write` for each reader, and the client, in Python, which runs for most of the time.
- *Worst PING during a rewrite*: the rewrite runs in slices of a millisecond (0.9 ms if Python is not compiled), and
  clients have their turn in between. The first slice copies only pending entries (0.3 ms). Switching to a new file at
  the start takes 1.4 ms. Syncing and renaming the base at the end takes 1.7 ms. The row *worst PING in two seconds of
  nothing else* is the worst PING of an idle server on this machine, with a client in Python, and so the smallest
  possible figure. Redis' own worst case is its fork.
- *XADD with replicas on the same machine*: with one, there are three busy processes for two processors, with three
  there are five. A replica takes some 1.5 us of a processor for each command. The primary spends 8 % more on one
  replica, within its aim of 10 %, and 17 % more on three, of which the aim is 15 %: with readers of the stream in
  their place it is 8 %. Redis spends 11 %, 14 % and 15 %.
- *10,000 connections*: each request arrives alone, so each pays for a turn of the loop: a call into uvloop and back,
  and two objects for the bytes. Redis reads into a buffer that exists already.
- *Reload*: 0.14 s is the start of the process, before a record is read; 0.18 s the 500,000 entries, which go into
  chunks as bytes; and 0.15 s the 100,000 claims, of which those in sequence for one consumer are read together. Redis
  sorts each claim by time, which costs three times as much on a machine with slower caches.
- *Long streams*: XADD costs the same at 10 M entries as at 10 k, XREADGROUP a tenth more. XACK costs a third more with
  a million pending entries than with a thousand, and three quarters more with Redis, since its memory is in no cache.
- *Commands that change a client or the server* (AUTH, HELLO, SUBSCRIBE, CLIENT, CONFIG SET) take up to four times the
  time of Redis: which checks a client needs is computed again after each. Errors take twice the time: each is an
  exception with a text of its own. INFO, MEMORY STATS and the listings of ACL and CLIENT make their text in Python,
  in 0.3 ms at most.
- *Scripts* run in Lua through Python, with one crossing for a script and one for each of its calls: two to three times
  the time of Redis, and six kilobytes for a script. After *CLIENT REPLY SKIP* and *NO-TOUCH* a command does more than
  its work, and takes half more.
- *Files of many small hashes, lists, sets and sorted sets*: a snapshot writes each in 1 to 1.5 us, and a start reads it
  in 1.2 to 1.7 us, up to twice the time of Redis: each consists of four blocks of memory, where Redis has one or two.
  Arrays are read element by element. Large values take no longer than in Redis.
- *Strings*: the text form takes up to twice as long to start from.
- *Arrays* take as much memory as in Redis, a seventh more if they are small. Resident bytes of an element, Headrace
  and Redis: of an array of ten integers 38 and 34, of a thousand 8.4 and 8.4, of a million 8.0 and 8.1; of texts of
  15 bytes 73 and 65, 40 and 40, 40 and 40.
- *Growth*: SAVE with 10,000 groups takes sixteen times the time of Redis. INFO memory, MEMORY STATS and MEMORY
  DOCTOR measure up to 32 groups in each call.
- *XADD of 1 KiB* needed more time than Redis in a later run than that of the first table (0.93).
"""

YOURS = """\
## Measure it yourself

`make bench` runs the rows that take seconds. `make bench FORM=compiled ARGS='--all --peers all --json run.json'` runs
all rows in the compiled form (two hours), and `make bench-report FORM=compiled` makes this page from the results.
`--list` names the rows and `--only xadd,xrange` selects some. The names of the rows of a table begin with one word, so
a run of `--only condition` replaces only the table of conditions; the others are `command`, `file`, `weight`, `growth`
(half an hour, and 2 GB of memory), `members` (half an hour), `tail` (four minutes) and `replicas`; `members-100-` and
others are the rows of one number of members. `python -m benchmarks.stalls` measures how long large commands delay other
clients ([limits](limits.md)), `python -m benchmarks.footprint` compares `MEMORY USAGE` with the resident memory of the
process, and `python -m benchmarks.pipeline` measures the Spark connector ([pipeline](pipeline.md)).
"""


def spread(ratios: list[float]) -> str:
    """The median in bold, with the smallest and the largest ratio."""
    if not ratios:
        return ""
    middle = f"**{figure(statistics.median(ratios))}**"
    return middle if len(ratios) == 1 else f"{middle} ({figure(min(ratios))} to {figure(max(ratios))})"


def quantity(result: Result, name: str) -> str:
    """One server's median with its unit."""
    if name not in result.numbers:
        return ""
    number, unit = figure(result.median(name)), result.unit
    if unit == "bytes":
        return number
    return f"{number}/s" if unit.endswith("/s") else f"{number} {unit}"


def main_table(run: Run) -> Iterator[str]:
    """Headrace compared with Redis, row by row."""
    yield (
        "| row | Headrace | Redis | times better | at most | aim | Headrace, CPU us | Redis, CPU us | times less CPU |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for result in run.results:
        if result.series or MAIN_PEER not in result.numbers or result.table:
            continue
        cells = (
            result.title,
            quantity(result, SUBJECT),
            quantity(result, MAIN_PEER),
            spread(result.ratios(MAIN_PEER)),
            figure(result.ceiling(MAIN_PEER)),
            "" if result.target is None else f"{result.target:g}",
            figure(result.cpu_median(SUBJECT)),
            figure(result.cpu_median(MAIN_PEER)),
            spread(result.cpu_ratios(MAIN_PEER)[:1] and [statistics.median(result.cpu_ratios(MAIN_PEER))]),
        )
        yield "| " + " | ".join(cells) + " |"


def peers_table(run: Run, peers: list[str]) -> Iterator[str]:
    """The other servers compared with Headrace."""
    yield "| row | Headrace |" + "".join(f" {run.servers[name]} | times better | times less CPU |" for name in peers)
    yield "|---|---|" + "---|---|---|" * len(peers)
    for result in run.results:
        if result.series or result.table or not any(name in result.numbers for name in peers):
            continue
        cells = [result.title, quantity(result, SUBJECT)]
        for name in peers:
            ratios, cpu_ratios = result.ratios(name), result.cpu_ratios(name)
            cells += [quantity(result, name)]
            cells += [f"{figure(statistics.median(each))}" if each else "" for each in (ratios, cpu_ratios)]
        yield "| " + " | ".join(cells) + " |"


def long_streams_table(run: Run) -> Iterator[str]:
    """Processor time by the length of the stream, which should not grow."""
    yield "| command | Headrace, CPU us | Redis, CPU us | Headrace, growth | Redis, growth |"
    yield "|---|---|---|---|---|"
    for series, results in series_of(run).items():
        costs = {name: [figure(result.median(name)) for result in results] for name in (SUBJECT, MAIN_PEER)}
        growth = {name: results[-1].median(name) / results[0].median(name) for name in (SUBJECT, MAIN_PEER)}
        sizes = " to ".join(f"{result.size:,}" for result in (results[0], results[-1]))
        cells = [f"{series}, {sizes}", *(", ".join(each) for each in costs.values())]
        yield "| " + " | ".join([*cells, *(f"{each:.2f}" for each in growth.values())]) + " |"


def series_of(run: Run) -> dict[str, list[Result]]:
    """The rows that differ by size alone, by their series, measured on both servers."""
    series: dict[str, list[Result]] = {}
    for result in run.results:
        if result.series and not result.table and SUBJECT in result.numbers and MAIN_PEER in result.numbers:
            series.setdefault(result.series, []).append(result)
    return series


def together(runs: list[Run]) -> Run:
    """All results in the order of the benchmark's rows; of a row on the same servers, only the last one."""
    names = [row.name for row in ROWS]
    results = {(result.row, *sorted(result.numbers)): result for run in runs for result in run.results}
    in_order = sorted(results.values(), key=lambda result: names.index(result.row))
    servers = {name: title for run in runs for name, title in run.servers.items()}
    return Run(runs[-1].machine, servers, in_order)


def document(run: Run) -> Iterator[str]:
    """The lines of docs/performance.md."""
    machine = run.machine
    yield "# Performance"
    yield ""
    yield "<!-- Made by `python -m benchmarks.report run.json`; change benchmarks/report.py instead. -->"
    yield ""
    yield f"`python -m benchmarks` on {machine['date']}: {', '.join(run.servers.values())};"
    yield f"{machine['processor']}, {machine['memory']} of memory, {machine['kernel']}, {machine['python']}."
    yield ""
    yield "## Method"
    yield ""
    yield METHOD
    if MAIN_PEER in run.servers:
        yield f"## Compared with {run.servers[MAIN_PEER]}"
        yield ""
        yield from main_table(run)
        yield ""
        yield from picture("ratios", "How many times better than Redis, row by row", "performance")
        yield ""
        yield FLOORS
    if series_of(run):
        yield "## In long streams"
        yield ""
        yield "Processor time of one request in a pipeline of 16 by the number of entries, of XACK by that of pending"
        yield "entries; growth is the last divided by the first."
        yield ""
        yield from long_streams_table(run)
        yield ""
        yield from picture("long-streams", "Processor time of a request by the length of the stream", "performance")
        yield ""
    for name in TABLES:
        yield f"<!-- {name} -->"
        yield ""
        yield f"<!-- end of {name} -->"
        yield ""
    others = [name for name in run.servers if name not in (SUBJECT, MAIN_PEER)]
    if others:
        yield "## Compared with other servers"
        yield ""
        yield "Rows are empty if a server does not have the command, or would take hours."
        yield ""
        yield from peers_table(run, others)
        yield ""
    yield YOURS.rstrip()


def picture(name: str, about: str, folder: str) -> Iterator[str]:
    """The lines that show a plot, in the colours of the reader's page."""
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.png">'
    yield f'  <img alt="{about}" src="{folder}/{name}.png">'
    yield "</picture>"


def readme_table(run: Run) -> Iterator[str]:
    """The lines of README's table."""
    machine = run.machine
    yield f"{run.servers[SUBJECT]} and {run.servers[MAIN_PEER]}, {machine['processor']}, {machine['python']}:"
    yield ""
    yield "| row | Headrace | Redis | times better | times less CPU |"
    yield "|---|---|---|---|---|"
    by_name = {result.row: result for result in run.results if MAIN_PEER in result.numbers}
    for name in README_ROWS:
        result = by_name.get(name)
        if result is not None:
            cpu_ratios = result.cpu_ratios(MAIN_PEER)
            cells = [result.title, quantity(result, SUBJECT), quantity(result, MAIN_PEER)]
            cells.append(figure(statistics.median(result.ratios(MAIN_PEER))))
            cells.append(figure(statistics.median(cpu_ratios)) if cpu_ratios else "")
            yield "| " + " | ".join(cells) + " |"
    yield ""
    yield from picture("ratios", "How many times better than Redis, row by row", "docs/performance")


def main() -> int:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser("python -m benchmarks.report", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="what `python -m benchmarks --json` wrote")
    options = parser.parse_args()
    run = together([Run.from_json(path.read_text()) for path in options.runs])
    present = DOCUMENT.read_text()
    is_whole = any(not result.table for result in run.results)
    page = "\n".join(document(run)) + "\n" if is_whole else present
    DOCUMENT.write_text(with_tables(page, run, present))
    print(f"wrote {DOCUMENT.relative_to(ROOT)}")
    if not is_whole:
        return 0
    if MAIN_PEER in run.servers:
        table = "\n".join(readme_table(run))
        README.write_text(README_TABLE.sub(lambda found: found[1] + table + found[2], README.read_text()))
        print(f"wrote the table of {README.relative_to(ROOT)}")
    try:
        from benchmarks.plots import draw
    except ImportError as error:
        print(f"no plots: {error}; pip install '.[bench]' brings matplotlib", file=sys.stderr)
        return 1
    for path in draw(run, PLOTS):
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
