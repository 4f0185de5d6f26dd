"""docs/errors.md lists exactly the errors in the source: none is missing, and none is left over."""

from __future__ import annotations

import re

import pytest

from support.error_texts import ROOT, Source

LINE = re.compile(r"- (?:`` (?P<ticked>.*?) ``|`(?P<plain>.*?)`): (?P<when>\S.*)")


def described() -> dict[str, str]:
    """The cause of each error, by its text."""
    lines = (ROOT / "docs" / "errors.md").read_text("utf-8").splitlines()
    matches = [LINE.fullmatch(line) for line in lines if line.startswith("- ")]
    assert all(matches), [line for line, match in zip(lines, matches, strict=False) if match is None]
    return {match["ticked"] or match["plain"]: match["when"] for match in matches if match}


@pytest.fixture(scope="module")
def said() -> set[str]:
    return {text.replace("\n", " ") for text in Source().texts()}


def test_every_error_of_the_source_is_described(said: set[str]) -> None:
    assert said - described().keys() == set(), "docs/errors.md does not tell when these are given"


def test_every_error_described_is_in_the_source(said: set[str]) -> None:
    assert described().keys() - said == set(), "the source does not say these any more: see docs/errors.md"


def test_texts_are_found_however_they_reach_an_error(said: set[str]) -> None:
    """Goal: the search itself works. Method: one text for each way in which texts reach errors."""
    assert "EXEC without MULTI" in said, "a literal"
    assert "source and destination objects are the same" in said, "a constant"
    assert "Increment is not an integer or out of range" in said, "an argument that is passed on"
    assert "number of IDs doesn't match numids" in said, "a choice"
    assert "client unblocked via CLIENT UNBLOCK" in said, "the class itself"
    assert "Authentication required." in said, "the default of a class"
    assert "appendfilename can't be a path, just a filename" in said, "a field of a table's row"
    assert "Can't chdir to '…': …; …" in said, "filled in"
    assert "max number of clients reached" in said, "bytes that are already on the wire"
