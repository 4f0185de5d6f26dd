"""Which tests run which lines of the store, and how long each takes: what a mutant of a line has to be shown to."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from time import process_time
from typing import Any, Final

import pytest
from coverage import Coverage

# Processor time for which a mutant is shown to tests of other modules at first, the quickest before the others;
# measured with coverage, which makes them take three times as long.
QUESTIONS_S: Final = 8.0
# Fixtures of tests that ask real servers: those run the unchanged code of the checkout.
OF_OTHER_PROCESSES: Final = {"server", "start_server", "headrace", "headrace_process", "oracle", "oracle_process"}


class Questions:
    """Made by running all tests once, each under its own name."""

    def __init__(self, *tests: str) -> None:
        # By test, without its parameters.
        self.seconds: dict[str, float] = defaultdict(float)
        # Tests by the name of a module and its lines. What runs while modules are imported is known to all.
        self.by_line: dict[str, dict[int, set[str]]] = {}
        coverage = Coverage(data_file=None, branch=False, source_pkgs=["headrace.store"], config_file=False)
        coverage.start()
        status = pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[_Stopwatch(self, coverage)])
        coverage.stop()
        if status != 0:
            raise SystemExit(status)
        data = coverage.get_data()
        for file in data.measured_files():
            lines = data.contexts_by_lineno(file)
            self.by_line[Path(file).stem] = {line: set(names) for line, names in lines.items()}

    def of(self, module: str, lines: range) -> tuple[list[str], list[str], list[str]]:
        """The tests that run any of these lines: those of the module itself, which see most and are quickly found;
        quick ones of others; and the rest, unless these are all tests that there are, as with a constant."""
        ran = self.by_line.get(module, {})
        found = set().union(*(ran.get(line, set()) for line in lines))
        names = sorted(self.seconds if "" in found else found, key=self.seconds.__getitem__)
        own = f"/test_{module.removeprefix('plain_')}.py"
        stages: tuple[list[str], list[str], list[str]] = [], [], []
        total_s = 0.0
        for name in names:
            total_s += 0.0 if own in name else self.seconds[name]
            stages[0 if own in name else 1 if total_s <= QUESTIONS_S else 2].append(name)
        if "" in found:
            stages[2].clear()
        return stages


class _Stopwatch:
    """A plugin of pytest that tells the coverage whose lines are running."""

    def __init__(self, questions: Questions, coverage: Coverage) -> None:
        self._questions, self._coverage = questions, coverage

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not OF_OTHER_PROCESSES & set(getattr(item, "fixturenames", ()))]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        test, started_s = _function_of(item.nodeid), process_time()
        self._coverage.switch_context(test)
        result = yield
        self._coverage.switch_context("")
        self._questions.seconds[test] += process_time() - started_s
        return result


def lines_of_statement(tree: ast.AST, line: int) -> range:
    """The lines of the innermost statement that this line belongs to; of one with a body, those before the body."""
    found = range(line, line + 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or line) + 1
            if line < max(end, node.lineno + 1):
                found = range(node.lineno, max(end, node.lineno + 1))
    return found


def _function_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]
