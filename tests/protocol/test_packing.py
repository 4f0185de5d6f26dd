"""Commands are packed alike in both forms, and as the reader takes them apart."""

from __future__ import annotations

import os
import random
from types import ModuleType

import pytest

from headrace.protocol import frames_plain, packing
from headrace.protocol.reader import RequestReader

try:
    from headrace.protocol import frames
except ImportError:
    frames = None  # type: ignore[assignment]

FORMS = [frames_plain, *([frames] if frames is not None else [])]


def test_the_compiled_form_is_used_where_it_was_built() -> None:
    if os.environ.get("HEADRACE_REQUIRE_COMPILED") or frames is not None:
        assert packing.pack_command is frames.pack_command
        assert packing.splitter is frames.splitter
    else:
        assert packing.pack_command is frames_plain.pack_command


@pytest.mark.parametrize("form", FORMS)
def test_what_is_packed_is_read_as_it_was(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    sizes = [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001, 99_999, 100_000]
    for _ in range(300):
        words = [rnd.randbytes(rnd.choice(sizes[:-2])) for _ in range(rnd.choice([1, 2, 9, 10, 11]))]
        for given in (words, tuple(words)):
            assert RequestReader().feed(form.pack_command(given)) == [words], f"seed {seed}"
    for size in sizes:
        value = b"v" * size
        assert form.pack_command([b"SET", value]) == b"*2\r\n$3\r\nSET\r\n$%d\r\n%b\r\n" % (size, value)
        assert form.pack_command([b"x"] * max(size, 1)).startswith(b"*%d\r\n$1\r\nx\r\n" % max(size, 1))


@pytest.mark.skipif(frames is None, reason="not compiled")
@pytest.mark.parametrize("words", [["text"], [b"a", 5], [None], [bytearray(b"a")], 5, None])
def test_only_bytes_are_packed(words: object) -> None:
    with pytest.raises(TypeError):
        frames.pack_command(words)  # type: ignore[arg-type]


def test_no_list_is_made_for_arguments_that_did_not_come() -> None:
    for splitter in {frames_plain.splitter, packing.splitter}:
        assert splitter()(b"*2147483647\r\n$1\r\na\r\n", 512 * 1024 * 1024) == ([], 0)
        assert splitter()(b"*1\r\n$9223372036854775807\r\na\r\n", 512 * 1024 * 1024) == ([], 0)
        assert splitter()(b"*1\r\n$99999999999999999999999999\r\na\r\n", 512 * 1024 * 1024) == ([], 0)
