"""The command table of the README, made from the rows the dispatcher runs on.

python -m headrace.commands.reference                 the table
python -m headrace.commands.reference differences     what differs from Redis, command by command
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from . import registry
from .table import TABLE, Argument, Row

assert registry.FAMILIES, "importing the registry fills the command table"

GROUPS = ("stream", "generic", "string", "pubsub", "transactions", "connection", "server")
"""The order of the table; groups that are not named here come last."""


def rows() -> list[Row]:
    """Every command that can be called, subcommands in the place of their container; by group, then by name."""
    found: list[Row] = []
    for row in TABLE.values():
        found += ([row] if row.handler is not None else []) + list(row.subcommands.values())
    return sorted(found, key=lambda row: (_group_rank(row.group), row.group, row.name))


def _group_rank(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


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


def table_lines() -> Iterator[str]:
    """Markdown: one line a command, and a `*` at those that differ from Redis."""
    yield "| Command | Since | What it does |"
    yield "|---|---|---|"
    for row in rows():
        mark = " \\*" if row.differs else ""
        usage = syntax(row).replace("|", "\\|")
        yield f"| `{usage}`{mark} | {row.since} | {row.summary.replace('|', chr(92) + '|')} |"


def difference_lines() -> Iterator[str]:
    """Markdown: one list item a command that differs from Redis."""
    for row in rows():
        if row.differs:
            yield f"- `{row.name.replace('|', ' ')}`: {row.differs}"


def main(words: list[str]) -> int:
    """Print what is asked for; the exit code."""
    if words not in ([], ["differences"]):
        print("usage: python -m headrace.commands.reference [differences]", file=sys.stderr)
        return 2
    print("\n".join(difference_lines() if words else table_lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
