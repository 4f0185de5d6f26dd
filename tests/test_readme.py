"""The documents are correct: lists of commands come from the command table, and each link and path exists.

tests/documents runs what they show.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import reference

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

FOLDERS = "benchmarks|commands|docs|examples|persistence|pipeline|protocol|server|store|testing|tests|tools"

README_WORDS_MAX = 2000


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def text_of(document: Path) -> str:
    return document.read_text("utf-8")


def test_readme_has_at_most_two_thousand_words() -> None:
    assert len(text_of(ROOT / "README.md").split()) <= README_WORDS_MAX


def test_architecture_names_every_room() -> None:
    page = text_of(ROOT / "docs" / "architecture.md")
    for folder in ("commands", "persistence", "pipeline", "server"):
        for path in (ROOT / folder).glob("*/__init__.py"):
            assert f"`{folder}/{path.parent.name}/`" in page, path.parent


def test_list_of_commands_is_made_from_the_rows() -> None:
    written = text_of(ROOT / "docs" / "commands.md").splitlines()
    assert written == list(reference.document_lines()), "run python tools/reference.py"


def test_page_on_performance_says_what_the_benchmark_says_of_itself() -> None:
    words = "from benchmarks.report import METHOD, YOURS; print(METHOD, YOURS, sep='|||', end='')"
    told = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    method, yours = told.split("|||")
    page = text_of(ROOT / "docs" / "performance.md")
    assert method in page, "run python -m benchmarks.report"
    assert yours.rstrip() in page
    assert re.search(r"<!-- benchmark: .*<!-- end of benchmark -->", text_of(ROOT / "README.md"), re.DOTALL)


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", text_of(index))}
    assert set(DOCUMENTS) - linked == {index}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_what_is_there(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(document)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", text_of(path), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in headings}, target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_paths_that_are_named_are_there(document: Path) -> None:
    for name in re.findall(rf"`((?:{FOLDERS})/[\w/.*-]*)`", text_of(document)):
        assert any(ROOT.glob(name)), name
