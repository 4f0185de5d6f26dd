"""Prints docs/commands.md, made from the rows of the command table: `python tools/reference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.commands import registry
from headrace.commands.core.table import TABLE, Argument, Row

assert registry.FAMILIES, "importing the registry fills the command table"

# In the order of the document: each group, as COMMAND DOCS names it, and its heading.
GROUPS: Final = {
    "stream": "Streams and consumer groups",
    "generic": "Keys",
    "string": "Strings",
    "bitmap": "Bits of strings",
    "hash": "Hashes",
    "list": "Lists",
    "set": "Sets",
    "sorted-set": "Sorted sets",
    "geo": "Places",
    "array": "Arrays",
    "hyperloglog": "HyperLogLogs",
    "pubsub": "Pub/sub",
    "transactions": "Transactions",
    "scripting": "Scripts",
    "connection": "Connections",
    "server": "Server",
    "cluster": "Cluster",
}

INTRODUCTION: Final = """\
# Commands

The syntax of every command of Headrace; *since* is its first version of Redis. A `*` marks a command that differs from
Redis: see [compatibility.md](compatibility.md#differences), which also lists the missing commands of Redis. A command
that is not here gets Redis' unknown-command error. All errors are in [errors.md](errors.md).

This page is made by `python tools/reference.py` from the table that the dispatcher uses."""


def rows() -> list[Row]:
    """Every command that can be called, with subcommands in place of their container, by group and name."""
    found: list[Row] = []
    for row in TABLE.values():
        found += ([row] if row.handler is not None else []) + list(row.subcommands.values())
    order = list(GROUPS)
    return sorted(found, key=lambda row: (order.index(row.group), row.name))


def syntax(row: Row) -> str:
    """The syntax of the command: `XLEN key`."""
    return " ".join([row.name.replace("|", " "), *map(_argument, row.arguments)])


def _argument(argument: Argument) -> str:
    """`key`, `[COUNT count]`, `<id | $>`, `field value [field value ...]`."""
    inner = _inner(argument)
    if argument.optional and argument.multiple and not argument.token:
        return f"[{inner} ...]"
    if argument.type == "pure-token":
        text = argument.name if argument.token is None else argument.token or '""'
    elif argument.multiple:
        again = f"{argument.token} {inner}" if argument.multiple_token and argument.token else inner
        text = f"{argument.token} {inner} [{again} ...]" if argument.token else f"{inner} [{again} ...]"
    else:
        text = f"{argument.token} {inner}" if argument.token else inner
    if not argument.optional:
        return text
    is_enclosed = text.startswith("<") and text.endswith(">") and (argument.type == "oneof" or text.count("<") == 1)
    return f"[{text[1:-1]}]" if is_enclosed else f"[{text}]"


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


def difference_lines() -> Iterator[str]:
    """Markdown: one list item a command that differs from Redis."""
    for row in rows():
        if row.differs:
            yield f"- `{row.name.replace('|', ' ')}`: {row.differs}"


if __name__ == "__main__":
    print("\n".join(document_lines()))
