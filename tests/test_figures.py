"""The page of testing figures is made only from the files of runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import figures
from support.figures import TARGETS, Run, load, numbers_of, run_name

ROOT = Path(__file__).parent.parent


@dataclass
class Report:
    user_properties: list[tuple[str, object]]


def test_numbers_with_one_name_are_added() -> None:
    reports = [Report([("entries", 3), ("seed", "7")]), Report([("entries", 4), ("crashes", 1)])]
    assert numbers_of(reports) == {"entries": 7, "crashes": 1}


@pytest.mark.parametrize(
    ("folders", "form", "name"),
    [
        ([], "codecs", "test"),
        (["tests/store", "tests/protocol", "tests/test_compiled.py"], "compiled", "test-compiled"),
        (["tests/store", "tests/protocol", "tests/test_compiled.py"], "pure", "test-pure"),
        (["tests/store", "tests/protocol"], "codecs", None),
        (["tests/test_figures.py", "tests/test_makefile.py"], "codecs", None),
        (["tests/simulation"], "codecs", "simulate"),
        (
            ["tests/clients", "tests/container/test_engine.py", "tests/container/test_compose_schema.py"],
            "codecs",
            "test-clients",
        ),
        (["tests/store"], "codecs", None),
    ],
)
def test_run_has_the_name_of_its_target(folders: list[str], form: str, name: str | None) -> None:
    assert run_name(folders, form) == name


def test_saved_run_is_read_again_and_replaced_by_a_later_one(tmp_path: Path) -> None:
    Run("soak", 1, 0, 0, 60.0, "a machine", {"entries": 1}).save(tmp_path)
    later = Run("soak", 1, 0, 0, 61.0, "a machine", {"entries": 2})
    later.save(tmp_path)
    assert load(tmp_path) == [later]


def test_page_has_a_row_for_each_run_in_the_order_of_the_targets() -> None:
    runs = [
        Run("soak", 1, 0, 0, 61.6, "a machine", {"entries": 242722, "kills": 4}),
        Run("test", 7206, 0, 59, 323.0, "a machine"),
    ]
    assert list(figures.lines(runs))[-2:] == [
        "| `make test` | 7,206 passed, 59 skipped | 5:23 |  |",
        "| `make soak` | 1 passed | 1:02 | entries: 242,722; kills: 4 |",
    ]


def test_failed_run_makes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run("soak", 0, 1, 0, 60.0, "a machine").save(tmp_path)
    assert figures.main([str(tmp_path)]) == 1
    assert "soak" in capsys.readouterr().err


def test_page_in_the_repository_has_only_lines_that_the_maker_writes() -> None:
    page = (ROOT / "docs" / "testing-figures.md").read_text("utf-8")
    assert page.startswith(figures.INTRODUCTION), "run python tests/figures.py"
    row = re.compile(r"\| `make [\w-]+` \| [\d,]+ passed(, [\d,]+ skipped)? \| \d+:\d\d \| .*\|")
    for line in page.removeprefix(figures.INTRODUCTION).splitlines():
        assert not line or line.startswith(("Machine: ", "| target |", "|---")) or row.fullmatch(line), line


def test_targets_that_run_one_folder_are_targets_of_the_makefile() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    for target, names in TARGETS.items():
        recipe = re.search(rf"^{target}: (?:.*\n)(?:\t.*\n)*", text[text.index(f"\n{target}: $(VENV)") + 1 :])
        assert recipe is not None
        run = {Path(word).name for word in recipe[0].split() if word.startswith("tests/")}
        assert run == set(names), target
