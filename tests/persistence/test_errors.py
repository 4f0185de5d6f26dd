"""The text for an OSError: the path, the error, and what to do."""

from __future__ import annotations

import errno
import os

import pytest

from headrace.persistence.errors import LogError, explain


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/d/f"),
            "/d/f: Permission denied; give the user that runs the server the right to read and write it",
        ),
        (
            NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), b"/d/f"),
            "/d/f: Not a directory; a file is in the place of a folder: move it away",
        ),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device; free space on that disk"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "/d/f"), "/d/f: Input/output error"),
        (OSError("in our own words"), "in our own words"),
        (LogError("one line"), "one line"),
    ],
)
def test_error_is_one_line_for_a_person(error: Exception, line: str) -> None:
    assert explain(error) == line


def test_relative_path_is_shown_whole() -> None:
    error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "f")
    assert explain(error) == f"{os.getcwd()}/f: No such file or directory"
