"""The commit that a server shows is that of its checkout, or of the checkout that its wheel was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import headrace_build
import pytest

from headrace.server.main import version_line
from headrace.server.reports.source import NOTE, ROOT, UNKNOWN, checked_out, commit, commit_of


def git(folder: Path, *words: str) -> str:
    """The output of git, with an author of its own."""
    author = ["-c", "user.name=author", "-c", "user.email=author@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.mark.parametrize("state", ["branch", "packed", "detached", "worktree", "worktree of a packed branch"])
def test_commit_is_found_in_every_state_of_a_checkout(state: str, checkout: Path) -> None:
    expected = git(checkout, "rev-parse", "HEAD")
    folder = checkout
    if state == "detached":
        git(checkout, "checkout", "-q", "--detach")
    if state.startswith("worktree"):
        folder = checkout.parent / "other"
        git(checkout, "worktree", "add", "-q", "-b", "other", str(folder))
    if "packed" in state:
        git(checkout, "pack-refs", "--all")
    assert checked_out(folder / ".git") == expected


def test_folder_without_a_checkout_has_no_commit(checkout: Path, tmp_path: Path) -> None:
    assert checked_out(tmp_path / ".git") is None
    git(checkout, "checkout", "-q", "--orphan", "empty")
    git(checkout, "pack-refs", "--all")
    assert checked_out(checkout / ".git") == ""


def test_wheel_notes_the_commit_that_it_is_built_from(checkout: Path, tmp_path: Path) -> None:
    note = tmp_path / NOTE
    note.parent.mkdir(parents=True)
    assert commit_of(tmp_path) == UNKNOWN
    headrace_build.note_commit(checkout, note)
    assert commit_of(tmp_path) == git(checkout, "rev-parse", "HEAD")[:8]
    # A source distribution has no checkout, and keeps the note that came with it.
    headrace_build.note_commit(tmp_path, note)
    assert commit_of(tmp_path) == git(checkout, "rev-parse", "HEAD")[:8]


def test_version_shows_the_commit() -> None:
    shown = version_line()
    assert f" sha={commit()} " in shown
    if (ROOT / ".git").exists():
        assert commit() != UNKNOWN
