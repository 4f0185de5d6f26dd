"""CONFIG REWRITE: whatever CONFIG SET takes, a server starts again with it."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Final

import pytest

from crossing.acts import other_values
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigLineError
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directive_kinds import Integer
from headrace.server.configuration.directives import DIRECTIVES, Change, Directive
from headrace.store.errors import GenericError

CHANGES_COUNT: Final = 40

CHANGED: Final = [each for each in DIRECTIVES if each.change is Change.ALLOWED]


def drawn_value(draw: random.Random, directive: Directive) -> bytes:
    """A value that the directive may have."""
    kind = directive.kind
    if isinstance(kind, Integer) and draw.random() < 0.5:
        return b"%d" % draw.randint(kind.minimum, min(kind.maximum, kind.minimum + 60))
    return draw.choice([*other_values(kind, directive.default), kind.show(directive.default)])


def set_some(draw: random.Random, config: Config) -> None:
    """Set directives to drawn values, one at a time. Refused ones keep their values."""
    related = [each for each in CHANGED if each.name.startswith(b"array-sparse")]
    for directive in [*draw.choices(CHANGED, k=CHANGES_COUNT), *draw.choices(related, k=4)]:
        with contextlib.suppress(GenericError):
            config.set_many([(directive.name, drawn_value(draw, directive))])


def shuffled(draw: random.Random, text: bytes) -> bytes:
    """The lines of a file in another order; those of one directive stay in theirs."""
    lines = [line for line in text.splitlines() if line]
    names = sorted({line.split()[0] for line in lines})
    draw.shuffle(names)
    return b"\n".join(sorted(lines, key=lambda line: names.index(line.split()[0])))


@pytest.mark.parametrize("seed", range(30))
def test_what_was_set_is_loaded_again(tmp_path: Path, seed: int) -> None:
    """The second rewrite finds the lines of the first one, in an order of its own."""
    draw = random.Random(seed)
    path = tmp_path / "r.conf"
    before = Config()
    before.compat_config = True
    for _ in range(3):
        before.file_path = os.fsencode(path)
        set_some(draw, before)
        before.rewrite()
        path.write_bytes(shuffled(draw, path.read_bytes()))
        after = Config()
        load_text(after, path.read_bytes())
        assert dict(after.get_matching([b"*"])) == dict(before.get_matching([b"*"])), seed
        before = after


@pytest.mark.parametrize(
    ("text", "line_number", "message"),
    [
        (b"array-sparse-kmin 35", 1, "array-sparse-kmin must be less than array-sparse-kmax"),
        (b"array-sparse-kmax 3", 1, "array-sparse-kmax must be greater than array-sparse-kmin when non-zero"),
        (b"array-sparse-kmin 35\nhz 20\narray-sparse-kmax 35\ntimeout 1", 3, "array-sparse-kmax must be greater"),
        (b"array-sparse-kmax 50\narray-sparse-kmin 60", 2, "array-sparse-kmin must be less than"),
    ],
)
def test_values_that_contradict_each_other_are_refused(text: bytes, line_number: int, message: str) -> None:
    with pytest.raises(ConfigLineError) as caught:
        load_text(Config(), text)
    assert f"at line {line_number}\n" in str(caught.value)
    assert message in str(caught.value)
