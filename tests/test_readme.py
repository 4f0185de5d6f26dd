"""The README's command table and differences are those that the rows make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.commands.reference import difference_lines, table_lines

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize(("part", "lines"), [("commands", table_lines), ("differences", difference_lines)])
def test_what_the_readme_says_of_commands_is_made_from_the_rows(part: str, lines: Callable[[], Iterator[str]]) -> None:
    pattern = rf"<!-- {part}: [^\n]*-->\n(.*)\n<!-- end of {part} -->"
    found = re.search(pattern, README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    assert found[1].splitlines() == list(lines())
