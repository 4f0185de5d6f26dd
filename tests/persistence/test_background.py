"""Files that are made in slices, next to other work, and written by a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.persistence.background import BackgroundFile


class Kept:
    """Files that keep the blocks that were written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Take all blocks. Returns their size."""
        self.written = list(blocks)
        return sum(map(len, self.written))


def test_a_step_makes_blocks_until_its_time_is_over_and_writes_them_as_one() -> None:
    made: list[int] = []

    def blocks() -> Iterator[bytes]:
        for number in range(7):
            made.append(number)
            yield b"" if number == 5 else b"%d" % number

    files: Any = Kept()
    with ThreadPoolExecutor(1) as executor:
        file = BackgroundFile(files, "path", blocks(), executor)
        for expected_count in (3, 6, 7):
            assert file.step(lambda: len(made) % 3 == 0) is False
            assert len(made) == expected_count
        file.wait()
        assert file.step(lambda: True) is True
    assert (files.written, file.size) == ([b"012", b"34", b"6"], 6)
