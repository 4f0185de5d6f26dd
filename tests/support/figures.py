"""The numbers that a run of the tests reported, as a file: one for each run, read by `python tests/figures.py`.

A test reports a number with pytest's fixture `record_property`. Numbers with the same name are added.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from headrace import build_form


class Report(Protocol):
    """The part of pytest's TestReport that is counted."""

    user_properties: list[tuple[str, object]]


@dataclass
class Run:
    """One run of pytest. `name` is the target of the Makefile that makes such a run."""

    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    machine: str
    numbers: dict[str, int] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Write the run into `folder`, in place of the last run with this name."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        return path


def load(folder: Path) -> list[Run]:
    """The runs in `folder`, by name."""
    return [Run(**json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]


def run_name(folders: Iterable[str], form: str) -> str | None:
    """The target of the Makefile that runs these folders of tests, None if no target does.

    `form` is what `headrace.build_form` returns.
    """
    names = {Path(folder).name for folder in folders}
    for target, folders_of_target in TARGETS.items():
        if names == set(folders_of_target):
            return target
    if not names:
        return "test"
    if len(names) == 1 or any(name.endswith(".py") and name != "test_compiled.py" for name in names):
        return None
    return {"compiled": "test-compiled", "pure": "test-pure"}.get(form)


# Targets of the Makefile that run one folder of tests, or one and a module.
TARGETS = {
    "test-clients": ("clients", "test_engine.py", "test_compose_schema.py"),
    "test-pipeline": ("pipeline",),
    "crash": ("faults",),
    "differential": ("differential",),
    "simulate": ("simulation",),
    "crossing": ("crossing",),
    "fuzz": ("fuzz",),
    "soak": ("soak",),
}


def numbers_of(reports: Iterable[Report]) -> dict[str, int]:
    """The sums of all reported numbers; other properties are left out."""
    sums: Counter[str] = Counter()
    for report in reports:
        for name, value in report.user_properties:
            if isinstance(value, int) and not isinstance(value, bool):
                sums[name] += value
    return dict(sums)


class Counting:
    """A plugin of pytest that writes the run into `folder` when it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started_s = time.monotonic()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Pytest calls this once, in the process that collects the reports of all others."""
        folders = [word for word in config.invocation_params.args if word.startswith("tests/")]
        name = run_name(folders, build_form())
        if name is None:
            return
        stats = terminalreporter.stats
        passed = [report for report in stats.get("passed", []) if report.when == "call"]
        system = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors"
        run = Run(
            name,
            len(passed),
            len(stats.get("failed", [])) + len(stats.get("error", [])),
            len(stats.get("skipped", [])),
            time.monotonic() - self._started_s,
            f"{system}, {platform.python_implementation()} {platform.python_version()}",
            numbers_of(passed),
        )
        run.save(self._folder)
