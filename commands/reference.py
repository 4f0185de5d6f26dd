"""docs/commands.md and the tables of the README, made from the rows the dispatcher runs on.

python -m headrace.commands.reference                 the document
python -m headrace.commands.reference stream          for the README: the commands of streams
python -m headrace.commands.reference others          for the README: the names of all others
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from . import registry
from .table import TABLE, Argument, Row

assert registry.FAMILIES, "importing the registry fills the command table"

GROUPS: Final = {
    "stream": "Streams and consumer groups",
    "generic": "Keys",
    "string": "Strings",
    "pubsub": "Pub/sub",
    "transactions": "Transactions",
    "scripting": "Scripts",
    "connection": "Connections",
    "server": "Server",
}
"""In the order of the document: each group, as COMMAND DOCS names it, and its heading."""

INTRODUCTION: Final = """\
# Commands

Every command that Headrace serves, as one writes it; *since* is the version of Redis that brought it. A `*` marks one
that differs from Redis: [compatibility.md](compatibility.md#differences) tells how, and which commands of Redis are
missing. What is not here answers Redis' unknown-command error; every other error is in [errors.md](errors.md).

This page is made by `python -m headrace.commands.reference` from the table that the dispatcher runs on."""


def rows() -> list[Row]:
    """Every command that can be called, subcommands in the place of their container; by group, then by name."""
    found: list[Row] = []
    for row in TABLE.values():
        found += ([row] if row.handler is not None else []) + list(row.subcommands.values())
    order = list(GROUPS)
    return sorted(found, key=lambda row: (order.index(row.group), row.name))


def syntax(row: Row) -> str:
    """The command as one writes it: `XLEN key`."""
    return " ".join([row.name.replace("|", " "), *map(_argument, row.arguments)])


def _argument(argument: Argument) -> str:
    """`key`, `[COUNT count]`, `<id | $>`, `field value [field value ...]`."""
    inner = _inner(argument)
    if argument.optional and argument.multiple and not argument.token:
        return f"[{inner} ...]"
    if argument.type == "pure-token":
        text = argument.token or argument.name
    elif argument.multiple:
        again = f"{argument.token} {inner}" if argument.multiple_token and argument.token else inner
        text = f"{argument.token} {inner} [{again} ...]" if argument.token else f"{inner} [{again} ...]"
    else:
        text = f"{argument.token} {inner}" if argument.token else inner
    if not argument.optional:
        return text
    return f"[{text[1:-1]}]" if text.startswith("<") and text.endswith(">") else f"[{text}]"


def _inner(argument: Argument) -> str:
    parts = [_argument(each) for each in argument.arguments]
    if argument.type == "oneof":
        return f"<{' | '.join(parts)}>"
    return " ".join(parts) if parts else argument.display or argument.name


def document_lines() -> Iterator[str]:
    """docs/commands.md: every command, group by group."""
    yield from INTRODUCTION.splitlines()
    for group, title in GROUPS.items():
        yield from ("", f"## {title}", "")
        yield from table_lines(group)


def table_lines(group: str) -> Iterator[str]:
    """Markdown: one line a command, and a `*` at those that differ from Redis."""
    yield "| Command | Since | What it does |"
    yield "|---|---|---|"
    for row in rows():
        if row.group == group:
            mark = " \\*" if row.differs else ""
            usage = syntax(row).replace("|", "\\|")
            yield f"| `{usage}`{mark} | {row.since} | {row.summary.replace('|', chr(92) + '|')} |"


def name_lines(*groups: str) -> Iterator[str]:
    """Markdown: one line a group with the names of its commands, and behind them their subcommands but HELP."""
    yield "| Group | Commands |"
    yield "|---|---|"
    for group in groups:
        names: dict[str, list[str]] = {}
        for row in rows():
            if row.group == group:
                name, _, subcommand = row.name.partition("|")
                names.setdefault(name, []).extend([subcommand] if subcommand not in ("", "HELP") else [])
        parts = [f"{name} ({', '.join(subs)})" if subs else name for name, subs in names.items()]
        yield f"| {GROUPS[group]} | {', '.join(parts)} |"


def stream_lines() -> Iterator[str]:
    """For the README: what Headrace is about."""
    return table_lines("stream")


def other_lines() -> Iterator[str]:
    """For the README: what stands around it."""
    return name_lines(*(group for group in GROUPS if group != "stream"))


def difference_lines() -> Iterator[str]:
    """Markdown: one list item a command that differs from Redis."""
    for row in rows():
        if row.differs:
            yield f"- `{row.name.replace('|', ' ')}`: {row.differs}"


PARTS: Final = {"": document_lines, "stream": stream_lines, "others": other_lines}


def main(words: list[str]) -> int:
    """Print what is asked for; the exit code."""
    make_lines = PARTS.get(" ".join(words))
    if make_lines is None:
        print("usage: python -m headrace.commands.reference [stream | others]", file=sys.stderr)
        return 2
    print("\n".join(make_lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
