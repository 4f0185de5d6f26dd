"""Makes docs/testing-figures.md from the runs in a folder: `python tests/figures.py FOLDER`.

`HEADRACE_TEST_FIGURES=FOLDER make prove`, or any other target that runs tests, writes a file for each run. A later run
of a target replaces the earlier one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from support.figures import Run, load

DOCUMENT = Path(__file__).parent.parent / "docs" / "testing-figures.md"

# Targets in the order of the page; others follow.
ORDER = (
    "test",
    "test-compiled",
    "test-pure",
    "test-clients",
    "test-pipeline",
    "differential",
    "simulate",
    "crossing",
    "fuzz",
    "soak",
    "crash",
)

INTRODUCTION = """\
# A run in figures

What the tests counted in one run, on the machine that is named. [testing.md](testing.md) describes each target.

This page is made by `python tests/figures.py FOLDER` from the files that `HEADRACE_TEST_FIGURES=FOLDER .ci/run`, or any
target with this variable, wrote."""


def lines(runs: list[Run]) -> Iterator[str]:
    """The lines of the page."""
    yield from INTRODUCTION.splitlines()
    runs = sorted(runs, key=lambda run: (ORDER.index(run.name) if run.name in ORDER else len(ORDER), run.name))
    for machine in dict.fromkeys(run.machine for run in runs):
        yield from (
            "",
            f"Machine: {machine}.",
            "",
            "| target | tests | time | what they counted |",
            "|---|---|---|---|",
        )
        for run in runs:
            if run.machine == machine:
                yield f"| `make {run.name}` | {tests(run)} | {duration(run.seconds)} | {numbers(run)} |"


def tests(run: Run) -> str:
    """`1,200 passed, 3 skipped`."""
    counts = {"passed": run.passed, "failed": run.failed, "skipped": run.skipped}
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none"


def duration(seconds: float) -> str:
    """`4:07`: minutes and seconds."""
    return f"{round(seconds) // 60}:{round(seconds) % 60:02}"


def numbers(run: Run) -> str:
    """`sequences: 2,000; requests: 149,317`."""
    return "; ".join(f"{name}: {value:,}" for name, value in run.numbers.items())


def main(words: list[str]) -> int:
    """Write the page; the exit code."""
    runs = load(Path(words[0])) if len(words) == 1 else []
    if not runs:
        print("usage: python tests/figures.py FOLDER; the folder must hold what a run wrote", file=sys.stderr)
        return 2
    failing = [run.name for run in runs if run.failed]
    if failing:
        print(f"not made from runs that failed: {', '.join(failing)}", file=sys.stderr)
        return 1
    DOCUMENT.write_text("\n".join(lines(runs)) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
