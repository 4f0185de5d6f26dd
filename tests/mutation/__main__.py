"""Mutants of the store: small changes to its code, each of which some test of `tests/store` should notice.

    make mutate [MUTANTS=250] [SEED=1]        so many, drawn from all; 0 tries every one

cosmic-ray makes the mutants, in a copy of the checkout. One that the tests let live is printed as a diff: either a test
is missing, or the change is one that nobody can see; docs/testing.md says what is known of those. Ctrl-C ends the run,
and counts what has been tried.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast_from_path  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.mutating import mutate_and_test  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.plugins import get_operator, operator_names  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.work_item import MutationSpec  # type: ignore[import-not-found,unused-ignore]

ROOT: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 40
"""A mutant that takes longer counts as killed: it does not come to an end."""

TESTS: Final = {
    "group": ("stream", "pending"),
    "idempotence": ("stream",),
    "ids": ("ids", "nodes"),
    "log": ("log", "stream"),
    "nodes": ("nodes", "stream"),
    "pending": ("pending", "stream"),
    "stream": ("stream", "nodes"),
    "trimming": ("nodes", "stream"),
}
"""The modules that are changed, and the test modules that are asked, the likeliest first."""

ALIKE: Final = {
    ("Add", "Sub"), ("Sub", "Add"), ("Mul", "FloorDiv"), ("FloorDiv", "Mul"), ("Pow", "Mul"),
    ("LShift", "RShift"), ("RShift", "LShift"), ("BitAnd", "BitOr"), ("BitOr", "BitAnd"), ("BitXor", "BitOr"),
    ("Lt", "LtE"), ("LtE", "Lt"), ("Gt", "GtE"), ("GtE", "Gt"), ("Eq", "NotEq"), ("NotEq", "Eq"),
    ("Is", "IsNot"), ("IsNot", "Is"), ("In", "NotIn"), ("NotIn", "In"),
}  # fmt: skip
"""Operators that are mistaken for each other; cosmic-ray would put each in the place of each."""

Place = tuple[int, int]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m mutation")
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("modules", nargs="*", default=list(TESTS), metavar="module")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-mutants-") as folder:
        copy = Path(folder) / "headrace"
        left_out = shutil.ignore_patterns(".*", "data", "*.egg-info", "__pycache__", "node_modules", "fuzz-corpus-*")
        shutil.copytree(ROOT, copy, ignore=left_out)
        os.environ["PYTHONPATH"] = folder  # `headrace` is this copy, not the checkout
        os.chdir(copy)
        for name in options.modules:
            subprocess.run(shlex.split(test_command(name)), check=True, stdout=subprocess.DEVNULL)
        mutants = [mutant for name in options.modules for mutant in mutants_of(name)]
        all_count = len(mutants)
        random.Random(options.seed).shuffle(mutants)
        if options.mutants:
            del mutants[options.mutants :]
        print(f"{len(mutants)} of {all_count} mutants, seed {options.seed}", flush=True)
        outcomes: dict[str, Counter[str]] = {}
        try:
            try_all(mutants, outcomes)
        except KeyboardInterrupt:
            print("stopped before the end", file=sys.stderr)
        for name, counts in sorted(outcomes.items()):
            print(f"store/{name}.py: {dict(counts)}")


def test_command(module: str) -> str:
    """What must fail once the module is changed."""
    tests = " ".join(f"tests/store/test_{name}.py" for name in TESTS[module])
    return f"{sys.executable} -m pytest -x -q -p no:cacheprovider {tests}"


def mutants_of(module: str) -> Iterator[MutationSpec]:
    """Every change to a module that is worth trying. The self-checks, `check`, belong to the tests."""
    path = Path(f"store/{module}.py")
    tree, types = get_ast_from_path(path), list(_types(ast.parse(path.read_text("utf-8"))))
    for name in operator_names():
        operator = get_operator(name)
        pair = name.split("_")[1:]
        if operator.arguments() or (len(pair) == 2 and tuple(pair) not in ALIKE):
            continue
        places = ((node, *place) for node in ast_nodes(tree) for place in operator().mutation_positions(node))
        for occurrence, (node, start, end) in enumerate(places):
            if not any(first <= start < last for first, last in types) and _function(node) != "check":
                yield MutationSpec(path, name, occurrence, start, end)


def _types(tree: ast.AST) -> Iterator[tuple[Place, Place]]:
    """Where types stand, which nobody evaluates."""
    for node in ast.walk(tree):
        found: Any = None
        if isinstance(node, ast.FunctionDef):
            found = node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign):
            found = node.annotation
        if found is not None:
            yield (found.lineno, found.col_offset), (found.end_lineno, found.end_col_offset)


def _function(node: Any) -> str:
    """The function a node of cosmic-ray's is in; empty outside of all."""
    while node is not None and node.type != "funcdef":
        node = node.parent
    return "" if node is None else str(node.name.value)


def try_all(mutants: list[MutationSpec], outcomes: dict[str, Counter[str]]) -> None:
    """Run the tests on each mutant, print those that live, and count outcomes by module."""
    for mutant in mutants:
        module = mutant.module_path.stem
        result = mutate_and_test([mutant], test_command(module), TIMEOUT_S)
        outcome = "none" if result.test_outcome is None else result.test_outcome.value
        outcomes.setdefault(module, Counter())[outcome] += 1
        if outcome != "killed":
            print(outcome, mutant.operator_name, result.diff or result.output, sep="\n", flush=True)


main()
