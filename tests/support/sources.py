"""Docstrings from the sources: compiled functions have none."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Docstrings of a module's own functions, by name."""
    # The source of a compiled module is next to it.
    path = Path(str(sys.modules[module].__file__))
    source = path.with_name(f"{path.name.partition('.')[0]}.py").read_text("utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_docstring(node) or "" for node in functions}


def docstring(function: Callable[..., Any]) -> str:
    """The docstring of a function, compiled or not; empty if it has none."""
    return function.__doc__ or _docstrings(function.__module__).get(function.__name__, "")
