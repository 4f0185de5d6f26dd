"""Every module that declares commands is in the registry, whose order is the order of the table."""

from __future__ import annotations

import ast
from pathlib import Path

from headrace.commands import registry
from headrace.commands.core.table import all_rows

COMMANDS = Path(registry.__file__).parent


def declares_commands(path: Path) -> bool:
    """Whether a module calls `command`, the decorator of handlers."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return any(isinstance(function, ast.Name) and function.id == "command" for function in calls)


def test_every_module_that_declares_commands_is_named_once() -> None:
    declaring = [path for path in COMMANDS.rglob("*.py") if declares_commands(path)]
    named = [".".join(path.relative_to(COMMANDS).with_suffix("").parts) for path in declaring]
    assert sorted(named) == sorted(registry.FAMILIES)


def test_table_is_in_the_order_of_the_registry() -> None:
    modules = [row.handler.__module__ for row in all_rows() if row.handler is not None and not row.subcommands]
    families = [module.partition("commands.")[2] for module in dict.fromkeys(modules)]
    assert families == [family for family in registry.FAMILIES if family in families]
    assert set(families) == set(registry.FAMILIES)
