"""The plots: each row is in a panel, and each picture of a page is there in light and in dark colours."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.documents import ROOT, instructions, name_of

SHOWN = [page for page in instructions() if "<picture>" in page.read_text("utf-8")]
# A plot that is taller than it is wide cannot be seen as a whole.
HEIGHT_SHARE_MAX = 0.6

DRAW = """
import sys
from pathlib import Path
from benchmarks.plots import draw
from benchmarks.results import Result, Run
from benchmarks.rows import ROWS
results = []
for place, row in enumerate(ROWS):
    result = Result.of(row)
    result.numbers = {"headrace": [1.0 + place, 2.0], "redis": [2.0, 1.5]}
    result.cpu_us = {"headrace": [1.0, 1.0], "redis": [0.5, 3.0]}
    results.append(result)
for path in draw(Run({}, {"headrace": "Headrace", "redis": "Redis"}, results), Path(sys.argv[1])):
    print(path.name)
"""


def run(program: str, *words: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


def test_every_row_is_in_one_panel() -> None:
    rows = run(
        "from benchmarks.rows import ROWS\n"
        "print(*(row.name for row in ROWS if not row.series and not row.table), sep='\\n')"
    )
    grouped = run(
        "from benchmarks.groups import GROUPS; print(*(name for _, names in GROUPS for name in names), sep='\\n')"
    )
    assert Counter(grouped) == Counter(rows)


def test_plots_are_drawn_in_light_and_in_dark(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: `make bench` installs it")
    names = run(DRAW, str(tmp_path))
    assert sorted(names) == ["long-streams-dark.png", "long-streams.png", "ratios-dark.png", "ratios.png"]
    for name in names:
        width, height = size_of(tmp_path / name)
        assert height <= HEIGHT_SHARE_MAX * width, name
    light, dark = ((tmp_path / name).read_bytes() for name in ("ratios.png", "ratios-dark.png"))
    assert light != dark


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_pictures_of_a_page_are_there_and_no_taller_than_a_screen(page: Path) -> None:
    pictures = re.findall(r"<picture>(.*?)</picture>", page.read_text("utf-8"), re.DOTALL)
    for picture in pictures:
        dark, light = re.findall(r'(?:srcset|src)="([^"]*)"', picture)
        assert dark == light.replace(".png", "-dark.png")
        assert 'alt="' in picture
        for name in (dark, light):
            width, height = size_of(page.parent / name)
            assert height <= HEIGHT_SHARE_MAX * width, name
