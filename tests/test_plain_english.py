"""Comments, docstrings, names of tests, titles of test data and documents use plain words: see CONTRIBUTING.md.

Quotations are exempt: text between backticks or double quotes, and blocks of code in Markdown. So a text of Redis is
quoted.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
# Patterns of words and constructions that are not used, each with words to use instead.
PLAIN_WORDS = {
    r"nobody": "no client, none",
    r"somebody|someone|anybody|anyone": "a client, a user",
    r"everybody|everyone": "all clients, all users",
    r"whoever|whosoever|those who": "the client that, the caller that",
    r"(tells?|told|hears?|heard) of": "reports, receives",
    r"(is|are|be|was|were) told": "is notified, is reported",
    r"(goes|go|going|went) on": "continues",
    r"(is|are|be|was|were) given up|gives? way|turned away": "is dropped, yields, is refused",
    r"at work": "is running",
    r"stands? (in|behind|before|beside)|lies? (in|behind)": "is in, is after, replaces",
    r"behind": "after",
    r"beside": "next to, in addition to",
    r"in vain": "without success",
    r"passe[sd] over": "skipped, ignored",
    r"at hand": "available",
    r"once more": "again",
    r"aloud|kin|lest|whence|hence|therein|thereby|ere": "the usual word",
}
FORBIDDEN = re.compile(
    "|".join(rf"(?P<_{index}>\b(?:{pattern})\b)" for index, pattern in enumerate(PLAIN_WORDS)), re.IGNORECASE
)
# A docstring is read alone, in a tooltip: it does not refer to the one before it.
REFERENCE = re.compile(r"\s*(The same|Likewise|As above|See above)\b")
QUOTATION = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"", re.DOTALL)
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


SUFFIXES = {".py", ".pyi", ".pyx", ".pxi", ".md", ".lua"}
# Files of commands or scripts for two servers, with a title after `#` before each group of lines.
TITLED = "tests/compat/data/"


class Text(NamedTuple):
    """Some prose of a file, and the line on which it begins."""

    line: int
    words: str


class Finding(NamedTuple):
    """A word that is not used, and what to use instead."""

    line: int
    word: str
    instead: str


def without_quotations(text: str, quotation: re.Pattern[str] = QUOTATION) -> str:
    """The text with blanks in place of quotations, so that its lines stay where they are."""
    return quotation.sub(lambda match: re.sub(r"\S", " ", match[0]), text)


def prose_of_markdown(text: str) -> Iterator[Text]:
    """A document without its code."""
    yield Text(1, without_quotations(without_quotations(text, CODE_BLOCK)))


def prose_of_code(text: str) -> Iterator[Text]:
    """Comments, docstrings, and names of functions, with blanks in place of underscores."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    previous = tokenize.NEWLINE
    for token, following in pairwise(tokens):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            yield Text(line, without_quotations(token.string))
        elif token.type == tokenize.STRING and previous == tokenize.NEWLINE:
            yield Text(line, without_quotations(token.string.lstrip("rR").strip('"')))
        elif token.string == "def":
            yield Text(line, following.string.replace("_", " "))
        if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            previous = token.type


def prose_of_lines(text: str, mark: str) -> Iterator[Text]:
    """The lines that begin with a mark: comments or titles. A line with `#!` is the beginning of a script."""
    for line, words in enumerate(text.splitlines(), 1):
        if words.lstrip().startswith(mark) and not words.startswith("#!"):
            yield Text(line, without_quotations(words))


def prose_of(path: str) -> Iterable[Text]:
    """The prose of a file."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return prose_of_markdown(text)
    if path.endswith(".lua"):
        return prose_of_lines(text, "--")
    return prose_of_lines(text, "#") if path.endswith(".txt") else prose_of_code(text)


def findings(texts: Iterable[Text]) -> Iterator[Finding]:
    """All words of the texts that are not used."""
    for text in texts:
        if reference := REFERENCE.match(text.words):
            yield Finding(text.line, reference[1], "name what it is")
        for match in FORBIDDEN.finditer(text.words):
            instead = list(PLAIN_WORDS.values())[int(str(match.lastgroup)[1:])]
            yield Finding(text.line + text.words.count("\n", 0, match.start()), match[0], instead)


def sources() -> list[str]:
    """Paths of the files with prose."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.splitlines() if Path(path).suffix in SUFFIXES or path.startswith(TITLED)]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("# what nobody reads", [Finding(1, "nobody", "no client, none")]),
        ('# `nobody` and "somebody"', []),
        ('"""A text.\n\nIt goes on.\n"""', [Finding(3, "goes on", "continues")]),
        ('x = "nobody"', []),
        ("def test_the_rest_is_behind() -> None: ...", [Finding(1, "behind", "after")]),
        ('def f():\n    """The same, twice."""', [Finding(2, "The same", "name what it is")]),
    ],
)
def test_words_are_found_in_comments_docstrings_and_names(code: str, found: list[Finding]) -> None:
    assert list(findings(prose_of_code(code + "\n"))) == found


def test_code_blocks_of_documents_are_exempt() -> None:
    document = "One\n\n```sh\ngrep nobody\n```\n\ntold of `nobody`\n"
    assert list(findings(prose_of_markdown(document))) == [Finding(7, "told of", "reports, receives")]


def test_words_are_found_in_titles_and_comments_of_data_and_lua() -> None:
    script = "# wakes nobody\nSET nobody #\n#!lua nobody\nSET k v\n# waits `behind`\n"
    assert list(findings(prose_of_lines(script, "#"))) == [Finding(1, "nobody", "no client, none")]
    lua = "local lest = 1\n    -- lest it ends\n"
    assert list(findings(prose_of_lines(lua, "--"))) == [Finding(2, "lest", "the usual word")]
    assert {"tests/compat/data/scripts/30_blocking.txt", "commands/scripting/sandbox.lua"} <= set(sources())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout has all files")
def test_plain_words_are_used_everywhere() -> None:
    wrong = []
    for path in sources():
        wrong += [f"{path}:{line}: {word!r}: write {instead}" for line, word, instead in findings(prose_of(path))]
    assert not wrong, "\n" + "\n".join(wrong)
