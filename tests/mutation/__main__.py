"""Mutants of the store: small changes to its code, each of which some test should notice.

    .ci/extra mutate [--mutants 250] [--seed 1] [--first 0] [stream log]    this many mutants; without --mutants all
    .ci/extra mutate --except pending                                      mutants of all modules but these

All mutants are put into the order of the seed, whichever modules are asked for: `--first` continues where a run has
stopped.

cosmic-ray makes the mutants, in a copy of the checkout that has nothing compiled. Each is shown to the tests of the
store and of the commands that run the changed lines, those of its module before others, the quickest first, in
processes forked from one that has pytest and what else is not Headrace in memory already. One that the tests let live
is printed as a diff: either a test is missing, or the change has no visible effect; docs/testing.md says what is
known of those. So is one that timed out: mostly a loop without end, which is noticed too, but by nothing that the tests
say. Ctrl-C ends the run, and counts what has been tried.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import hiredis  # noqa: F401  # here and below: so that no child has to import it
import hypothesis.strategies  # noqa: F401
import pytest
import redis.asyncio  # noqa: F401
import xxhash  # noqa: F401
import zstandard  # noqa: F401
from cosmic_ray.ast import ast_nodes, get_ast_from_path  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.plugins import get_operator, operator_names  # type: ignore[import-not-found,unused-ignore]
from cosmic_ray.work_item import MutationSpec  # type: ignore[import-not-found,unused-ignore]

from mutation.questions import Questions, lines_of_statement

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = ("tests/store", "tests/commands")
# A mutant that takes longer has timed out: the tests of a stage take less than half of it otherwise. Of the last some
# measure the memory of a hundred thousand entries.
TIMEOUTS_S: Final = (40, 40, 300)
# Mutants between two lines that tell how far the run is.
REPORT_COUNT: Final = 100
FORK: Final = get_context("fork")

# Operators that are mistaken for each other; cosmic-ray would put each in the place of each.
ALIKE: Final = {
    ("Add", "Sub"), ("Sub", "Add"), ("Mul", "FloorDiv"), ("FloorDiv", "Mul"), ("Pow", "Mul"),
    ("LShift", "RShift"), ("RShift", "LShift"), ("BitAnd", "BitOr"), ("BitOr", "BitAnd"), ("BitXor", "BitOr"),
    ("Lt", "LtE"), ("LtE", "Lt"), ("Gt", "GtE"), ("GtE", "Gt"), ("Eq", "NotEq"), ("NotEq", "Eq"),
    ("Is", "IsNot"), ("IsNot", "Is"), ("In", "NotIn"), ("NotIn", "In"),
}  # fmt: skip

Place = tuple[int, int]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m mutation")
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--except", dest="left_out", action="append", default=[], metavar="module")
    parser.add_argument("modules", nargs="*", metavar="module")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-mutants-") as folder:
        copy = Path(folder) / "headrace"
        left_out = shutil.ignore_patterns(".*", "*.so", "*.egg-info", "__pycache__", "node_modules", "fuzz-corpus-*")
        shutil.copytree(ROOT, copy, ignore=left_out)
        sys.path.insert(0, folder)  # `headrace` is this copy, not the checkout
        os.chdir(copy)
        questions = _in_child(lambda: Questions(*TESTS))
        if questions is None:
            sys.exit("the tests fail before anything is changed")
        every = sorted(path.stem for path in Path("store").glob("[!_]*.py"))
        mutants = [mutant for name in every for mutant in mutants_of(name)]
        all_count = len(mutants)
        random.Random(options.seed).shuffle(mutants)
        wanted = set(options.modules or every) - set(options.left_out)
        mutants = [mutant for mutant in mutants[options.first :] if mutant.module_path.stem in wanted]
        if options.mutants:
            del mutants[options.mutants :]
        print(f"{len(mutants)} of {all_count} mutants, seed {options.seed}", flush=True)
        outcomes: dict[str, Counter[str]] = {}
        try:
            try_all(mutants, questions, outcomes)
        except KeyboardInterrupt:
            print("stopped before the end", file=sys.stderr)
        for name, counts in sorted(outcomes.items()):
            print(f"store/{name}.py: {dict(counts)}")


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
    """Annotations, which are not evaluated."""
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


def try_all(mutants: list[MutationSpec], questions: Questions, outcomes: dict[str, Counter[str]]) -> None:
    """Run the tests on each mutant, print those that live, and count outcomes by module."""
    for number, mutant in enumerate(mutants, 1):
        if number % REPORT_COUNT == 0:
            print(f"\n{number} of {len(mutants)} tried: {dict(sum(outcomes.values(), Counter()))}", flush=True)
        path = mutant.module_path
        before = path.read_text("utf-8")
        after = mutate_code(before, get_operator(mutant.operator_name)(), mutant.occurrence)
        lines = lines_of_statement(ast.parse(before), mutant.start_pos[0])
        stages = questions.of(path.stem, lines)
        path.write_text(after, "utf-8")
        try:
            outcome = "lived"
            for tests, timeout_s in zip(stages, TIMEOUTS_S, strict=True):
                if outcome == "lived":
                    outcome = _outcome(tests, timeout_s)
        finally:
            path.write_text(before, "utf-8")
        outcomes.setdefault(path.stem, Counter())[outcome] += 1
        if outcome != "killed":
            diff = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=2)
            count = sum(map(len, stages))
            print(f"\n{outcome}, shown to {count} tests: {mutant.operator_name}", *diff, sep="\n", flush=True)


def _outcome(tests: list[str], timeout_s: float) -> str:
    """`killed`, by a test or by itself, so that its tests are not even found; `timed out`; or `lived`."""
    if not tests:
        return "lived"
    try:
        status = _in_child(
            lambda: int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])), timeout_s=timeout_s
        )
    except TimeoutError:
        return "timed out"
    return "lived" if status == 0 else "killed"


def _in_child(ask: Callable[[], Any], *, timeout_s: float | None = None) -> Any:
    """What `ask` returns in a process of its own, which imports the store anew; None if it dies.

    Raises TimeoutError.
    """
    receiver, sender = FORK.Pipe(duplex=False)

    def answer() -> None:
        if timeout_s is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.dont_write_bytecode = True  # two mutants of a second would be taken for the same
        sender.send(ask())

    child = FORK.Process(target=answer)
    child.start()
    sender.close()
    try:
        if not receiver.poll(timeout_s):
            raise TimeoutError
        return receiver.recv()
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()


main()
