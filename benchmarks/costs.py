"""Counts of what the forms of the tables of commands, conditions and growth cost, without a clock: see `steps.py`.

The rows run on a server in this process, without sockets and files. `python -m benchmarks.costs` writes `costs.txt`,
the steps of each form and of each condition. Tests compare with it, and compare costs with little data and with much.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import conditions, growth
from benchmarks.command_forms import FILL, FILL_ONCE, WARM_KEYS, Form, requests_of
from benchmarks.conditions import Condition
from benchmarks.load import Words
from benchmarks.steps import Cost, cheapest, without_time
from benchmarks.streams import START_MS, entry_id

from headrace import is_compiled
from support.inprocess import Caller, Rig, finish_turns

TABLE: Final = Path(__file__).with_name("costs.txt")
# Calls for each of the two figures of a cost; one more runs before them, so that nothing happens for the first time.
CALLS: Final = 3
NUMBERS: Final = 1 + 2 * CALLS
BATCH: Final = 500
# A row may cost so many times as much as the table says, with much data, or under a condition, before it is a loss.
MORE_MAX: Final = 1.25
GROWTH_MAX: Final = 1.3
CONDITION_MAX: Final = 1.6
# Differences that are none: between versions of Python, and by buffers that are one size larger.
MORE_STEPS: Final = 8
MORE_MEMORY_SIZE: Final = 4_096
# By dimension, forms that cost more the more there is of it, and why.
GROWS: Final[dict[str, dict[str, str]]] = {
    "groups": {
        "info": "few groups are all measured, and of many only some",
        "info-4": "few groups are all measured, and of many only some",
        "memory-stats": "few groups are all measured, and of many only some",
        "xinfo-stream-2": "it shows all groups",
        "xinfo-groups": "it shows all groups",
    },
    "consumers": {
        "xpending": "it shows all consumers",
        "xinfo-stream-2": "it shows all consumers",
        "xinfo-consumers": "it shows all consumers",
    },
    "keys": {"keys": "it shows all keys"},
}
# Conditions under which a command may cost more than CONDITION_MAX times as much, and why.
HEAVY: Final = {
    "transaction": "two more requests for each three, which are queued and then run",
    "watched-transaction": "three more requests for each three, which are queued and then run",
    "reply-skip": "there are twice as many requests, and each changes which checks the next one needs",
    "script": "the command is called from Lua, and its reply becomes values of Lua and then a reply again",
    "heard-events": "there is one more message for each command",
    "no-touch": "the time of use of every value is put back after the command",
}
# Rows that write files, which the table of files measures.
LEFT_OUT: Final = ("save", "bgsave", "bgrewriteaof", "backup-start")
# Conditions of sockets, of which there are none.
WITHOUT_EFFECT: Final = ("unix-socket",)


@dataclass(frozen=True)
class Dataset:
    """What the forms meet: data that is grown in one dimension, to a size."""

    dimension: str
    sizes: tuple[int, int]
    # Text of the requests for each number below the size, on top of ENTRIES entries of both streams.
    text: str


ADD: Final = " sensor sensor-{n} kind temperature value {n}"
ENTRIES: Final = 1_000
READ: Final = "XREADGROUP GROUP g reader-{number} COUNT 10 STREAMS s >"
DATASETS: Final = (
    Dataset("entries", (ENTRIES, 20_000), ""),
    Dataset("groups", (10, 1_000), "XGROUP CREATE s more{n} 0; XGROUP CREATE w more{n} 0"),
    Dataset("consumers", (10, 1_000), "XREADGROUP GROUP g more{n} COUNT 1 STREAMS s >"),
    Dataset("keys", (10, 10_000), "SET more{n} value-{n}-of-some-length"),
)


def execute(caller: Caller, requests: list[list[bytes]]) -> None:
    """Run the requests as one pipeline, and make their replies."""
    session, rig = caller.session, caller.rig
    if requests:
        rig.dispatcher.execute(session, requests, rig.clock())
    finish_turns(rig.dispatcher, rig.clock())
    for piece in session.out:
        if type(piece) is not bytes:
            for _ in piece:
                pass
    session.out.clear()


def send(caller: Caller, text: str, numbers: range = range(1)) -> None:
    """Run the requests of all numbers as one pipeline."""
    execute(caller, [as_bytes(words) for each in requests_of(text, numbers) for words in each])


def as_bytes(words: Words) -> list[bytes]:
    """A request as the reader makes it."""
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


def filled(dataset: Dataset, size: int) -> Rig:
    """A server with the data of the forms, and with that of the dimension."""
    # On a slow machine there would be slow calls, which SLOWLOG GET shows.
    rig = Rig(enable_debug_command=b"yes", slowlog_log_slower_than=-1)
    caller = rig.connect()
    send(caller, FILL, range(WARM_KEYS))
    send(caller, FILL_ONCE)
    entries = size if dataset.dimension == "entries" else max(ENTRIES, 2 * size)
    for first in range(0, entries, BATCH):
        for number in range(first, first + BATCH):
            for key, begin_ms in (("s", START_MS + WARM_KEYS), ("w", growth.EARLIER_MS)):
                send(caller, f"XADD {key} {begin_ms + number}-0{ADD}", range(number, number + 1))
    for number in range(entries // 10 // 10):
        send(caller, READ.format(number=number % growth.READERS_COUNT))
    if dataset.text:
        for first in range(0, size, BATCH):
            send(caller, dataset.text, range(first, min(first + BATCH, size)))
    rig.log.clear()
    return rig


def form_cost(rig: Rig, name: str, form: Form, first: int) -> Cost:
    """The cost of a request of the form, or of its requests; they have numbers from `first` on."""
    numbers = range(first, first + NUMBERS)
    feeder, caller = rig.connect(), rig.connect()
    others = [rig.connect() for _ in form.others]
    try:
        if form.fresh:
            send(feeder, form.fresh, numbers)
        send(feeder, form.once.replace("XGROUP CREATE w g 0", f"XGROUP CREATE w g {START_MS + first - 1}-0"))
        for other, text in zip(others, form.others, strict=True):
            send(other, text)
        send(caller, form.opening)
        if name not in growth.EMPTYING:
            send(caller, form.text, numbers[:1])
        calls = 1 if name in growth.EMPTYING else CALLS

        def call(number: int) -> Callable[[], object]:
            (requests,) = requests_of(form.text, numbers[1 + number : 2 + number])
            return partial(execute, caller, [as_bytes(words) for words in requests])

        return cheapest(call, calls)
    finally:
        for text in growth.undoing(name, form):
            send(feeder, text, numbers)
        for each in (*others, caller, feeder):
            rig.dispatcher.detach(each.session)
        rig.log.clear()


def form_costs(dataset: Dataset, size: int, only: str = "") -> dict[str, Cost]:
    """The costs of all forms by name, or that of the only one."""
    rig = filled(dataset, size)
    costs = {}
    for first, name, _, form in growth.forms():
        if name in LEFT_OUT or only not in ("", name):
            continue
        if name == growth.LAST[-1]:
            rig = filled(dataset, size)
        costs[name] = form_cost(rig, name, form, first)
    return costs


def condition_cost(condition: Condition, command: conditions.Command) -> Cost:
    """The cost of a pipeline of the command under the condition."""
    rig = Rig()
    feeder, caller = rig.connect(), rig.connect()
    count = conditions.PIPELINE * NUMBERS
    prepared: list[Words] = [("SELECT", condition.database)]
    prepared += [("XADD", conditions.KEY, entry_id(number), *conditions.FIELDS) for number in range(count)]
    prepared += [("XGROUP", "CREATE", conditions.KEY, "g", 0)]
    if command.name == "xack":
        prepared += [("XREADGROUP", "GROUP", "g", "c", "STREAMS", conditions.KEY, ">")]
    prepared += condition.setting
    if condition.directive is not None:
        prepared += [("CONFIG", "SET", *condition.directive[:2])]
    execute(feeder, [as_bytes(words) for words in prepared])
    for client in condition.others:
        execute(rig.connect(), [as_bytes(words) for words in client])
    execute(caller, [as_bytes(words) for words in (("SELECT", condition.database), *condition.opening)])
    batches = []
    for first in range(0, count, conditions.PIPELINE):
        requests = [command.request(number) for number in range(first, first + conditions.PIPELINE)]
        batches.append([as_bytes(words) for words in condition.framing(requests, 1).words])
    execute(caller, batches[0])

    def call(number: int) -> Callable[[], object]:
        return partial(execute, caller, batches[1 + number])

    return cheapest(call, CALLS)


def condition_costs() -> dict[str, Cost]:
    """The costs of all conditions with all commands, by the name of the row."""
    return {
        conditions.row_name(condition, command): condition_cost(condition, command)
        for condition in conditions.CONDITIONS
        if condition.name not in WITHOUT_EFFECT
        for command in conditions.COMMANDS
    }


def all_costs(only: str = "") -> dict[str, dict[str, Cost]]:
    """Costs by row, of `conditions` and of each dimension and size, as in `entries-1000`; or those of the only form."""
    with without_time():
        costs = {} if only else {"conditions": condition_costs()}
        for dataset in DATASETS:
            for size in dataset.sizes:
                costs[f"{dataset.dimension}-{size}"] = form_costs(dataset, size, only)
    return costs


def table_of(costs: dict[str, dict[str, Cost]]) -> dict[str, int]:
    """The steps of each row of the committed table: the forms with little data, and the conditions."""
    little = {f"command-{name}": cost for name, cost in costs[f"entries-{ENTRIES}"].items()}
    return {name: cost.steps for name, cost in {**little, **costs["conditions"]}.items()}


def lines_of(table: dict[str, int]) -> Iterator[str]:
    """The lines of the table's file."""
    yield "# Made by `make costs`: the steps (benchmarks/steps.py) of a request of each form, and of fifteen under each"
    yield "# condition. A test fails if a form takes a quarter more."
    for name, steps in table.items():
        yield f"{steps:>6} {name}"


def committed() -> dict[str, int]:
    """The table of the file."""
    lines = [line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {name: int(steps) for steps, name in lines}


def table_complaints(table: dict[str, int]) -> Iterator[str]:
    """Rows that cost more than in the committed table, and those that only one of both has, a line each."""
    before = committed()
    for name, steps in table.items():
        if name not in before:
            yield f"{name}: it is not in {TABLE.name}; `make costs` adds it"
        elif steps > MORE_MAX * before[name] + MORE_STEPS:
            yield f"{name}: {steps} steps, {before[name]} before; if that is wanted, `make costs` puts it in the table"
    for name in before.keys() - table.keys():
        yield f"{name}: it is in {TABLE.name}, but is no form or condition any more; `make costs` removes it"


def growth_complaints(costs: dict[str, dict[str, Cost]]) -> Iterator[str]:
    """Forms that cost more with much data than with little and are not in GROWS, and those there that do not."""
    for dataset in DATASETS:
        little, much = (costs[f"{dataset.dimension}-{size}"] for size in dataset.sizes)
        for name, small in little.items():
            large, listed = much[name], name in GROWS.get(dataset.dimension, {})
            grows = (
                large.steps > GROWTH_MAX * small.steps + MORE_STEPS
                or large.memory_size > GROWTH_MAX * small.memory_size + MORE_MEMORY_SIZE
            )
            sizes = f"with {dataset.sizes[0]} {dataset.dimension} {small}, with {dataset.sizes[1]} {large}"
            if grows and not listed:
                yield f"{name}: {sizes}; a form that must grow is in GROWS, with the reason"
            if listed and not grows:
                yield f"{name}: {sizes}; it does not grow any more and need not be in GROWS"


def condition_complaints(costs: dict[str, Cost]) -> Iterator[str]:
    """Conditions that make a command much more expensive and are not in HEAVY, and those there that do not."""
    for condition in conditions.CONDITIONS:
        if condition.name in WITHOUT_EFFECT:
            continue
        factors = {
            command.name: costs[conditions.row_name(condition, command)].steps
            / costs[conditions.row_name(conditions.CONDITIONS[0], command)].steps
            for command in conditions.COMMANDS
        }
        shown = ", ".join(f"{factor:.2f} times the steps of {name}" for name, factor in factors.items())
        is_heavy = max(factors.values()) > CONDITION_MAX
        if is_heavy and condition.name not in HEAVY:
            yield f"{condition.name}: {shown}; a condition that must cost so much is in HEAVY, with the reason"
        if condition.name in HEAVY and not is_heavy:
            yield f"{condition.name}: {shown}; it does not cost much any more and need not be in HEAVY"


def main() -> int:
    """Parse the command line, count, and write."""
    parser = argparse.ArgumentParser("python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; print as JSON what has become expensive")
    options = parser.parse_args()
    if is_compiled():
        print("compiled Python does not count its steps: use the form `codecs`", file=sys.stderr)
        return 1
    costs = all_costs()
    table = table_of(costs)
    if options.check:
        complaints = {
            "table": list(table_complaints(table)),
            "growth": list(growth_complaints(costs)),
            "conditions": list(condition_complaints(costs["conditions"])),
        }
        print(json.dumps(complaints, indent=2))
        return int(any(complaints.values()))
    TABLE.write_text("\n".join(lines_of(table)) + "\n")
    print(f"wrote benchmarks/{TABLE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
