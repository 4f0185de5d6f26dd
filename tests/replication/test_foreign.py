"""How a command that is not served is named."""

from __future__ import annotations

import pytest

from headrace.replication.foreign import describe
from support.lines import split


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("VADD a 0 v", "VADD on the vector set 'a'"),
        ("vrem a v", "vrem on the vector set 'a'"),
        ("MODULE LOAD x", "MODULE"),
        ("SAVEALL", "SAVEALL"),
        ("SOMETHING key", "SOMETHING on 'key'"),
    ],
)
def test_a_command_is_named_with_the_type_and_the_key_that_it_writes(line: str, text: str) -> None:
    assert describe(split(line)) == text
