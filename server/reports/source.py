"""Which commit of the sources a server was made from, so that two installations of one version can be distinguished."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
# The file in the package, written by compiling/headrace_build.py when a wheel is built.
NOTE: Final = Path("server", "reports", "commit.txt")
UNKNOWN: Final = "00000000"
# Digits that are shown, as by Redis.
SHOWN_SIZE: Final = len(UNKNOWN)


@cache
def commit() -> str:
    """The first digits of the commit of this server."""
    return commit_of(ROOT)


def commit_of(root: Path) -> str:
    """The first digits of the commit of a package: of its checkout, or of that which its wheel was built from.

    Zeros if it is unknown.
    """
    try:
        found = checked_out(root / ".git")
        if found is None:
            found = (root / NOTE).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return UNKNOWN
    return found[:SHOWN_SIZE] or UNKNOWN


def checked_out(git: Path) -> str | None:
    """The commit of a checkout with this `.git`; None if there is no checkout. Raises OSError.

    The files are read, as to run git would take longer than the start of a server, and git may not be installed.
    """
    if git.is_file():
        # A worktree: `gitdir: <folder>`, whose branches are in the folder that `commondir` names.
        git = Path(git.read_text("utf-8").removeprefix("gitdir:").strip())
        common = git / (git / "commondir").read_text("utf-8").strip()
    elif git.is_dir():
        common = git
    else:
        return None
    kind, _, branch = (git / "HEAD").read_text("utf-8").strip().partition(": ")
    if not branch:
        return kind
    if (common / branch).is_file():
        return (common / branch).read_text("utf-8").strip()
    for line in (common / "packed-refs").read_text("utf-8").splitlines():
        if line.endswith(f" {branch}"):
            return line.split(" ", 1)[0]
    return ""
