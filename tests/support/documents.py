"""What the documents show: blocks of code with their language, and commands between backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# CHANGELOG.md is about past versions, errors.md has texts of errors, and commands.md is made from the command table.
# Files whose comments show command lines of Docker.
FILES_OF_THE_IMAGE = ("Dockerfile", "compose.yaml", "compose.sentinel.yaml", "container/entrypoint")
NOT_INSTRUCTIONS = {"CHANGELOG.md", "docs/errors.md", "docs/commands.md"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def instructions() -> list[Path]:
    """The pages that tell a reader what to type."""
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")])
    return [page for page in pages if name_of(page) not in NOT_INSTRUCTIONS]


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A block of code. A block without a language is a configuration."""

    page: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which lists of blocks name it."""
        return self.text.split("\n", 1)[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(name_of(page), text.count("\n", 0, match.start()) + 1, match["language"] or "conf", dedented(match))
        for match in FENCE.finditer(text)
    ]


def dedented(match: re.Match[str]) -> str:
    """The text of a block, without the indentation of the list that contains it."""
    return re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)


def spans(page: Path) -> Iterator[str]:
    """The texts between backticks, outside of blocks; `\\|` of a table is `|`."""
    for match in SPAN.finditer(FENCE.sub("", page.read_text("utf-8"))):
        yield match[1].replace("\\|", "|")


def commands(block: Block) -> list[tuple[str, str]]:
    """(command line, printed output) of a block in `sh` or `console`. Lines that end in a backslash are joined."""
    text = block.text.replace("\\\n", " ")
    if block.language == "sh":
        return [(line, "") for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def docker_lines() -> set[str]:
    """The command lines of Docker that pages and the comments of the image's files show.

    A line of two commands is two lines. A span that only names a command, such as `docker run`, is none.
    """
    lines: list[str] = []
    for page in instructions():
        lines += (line for block in blocks(page) if block.language in ("sh", "console") for line, _ in commands(block))
        lines += spans(page)
    for name in FILES_OF_THE_IMAGE:
        text = (ROOT / name).read_text("utf-8")
        # What a line does follows it after some blanks.
        lines += re.findall(r"^#   (docker .*?)(?: {2,}.*)?$", text, re.MULTILINE)
        lines += SPAN.findall(text)
    parts = (part.strip() for line in lines for part in line.partition("#")[0].split("&&"))
    return {part for part in parts if part.startswith("docker ") and part.count(" ") > 1}
