"""Bytes of a stranger: no input breaks a reader, a loader or a handler, and none costs more than its size allows.

make fuzz SECONDS=60          every target for so long, and ten million RESP frames
"""

from __future__ import annotations

import mmap
import os
import random

import pytest

from fuzz.fuzzer import STATUS, fuzz, measure, run
from fuzz.seeds import seeds_of
from fuzz.targets import TARGETS, Finding, resp
from headrace.protocol.reader import RequestReader

SECONDS = float(os.environ.get("HEADRACE_TEST_FUZZ_SECONDS", "2"))
FRAMES_COUNT = int(os.environ.get("HEADRACE_TEST_FUZZ_FRAMES", "200000"))
SEED = int(os.environ.get("HEADRACE_TEST_FUZZ_SEED", "1"))
PIPELINE_FRAMES = 500


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_is_a_finding(target: str) -> None:
    print(f"\n{target}: {fuzz(target, SECONDS, SEED)} inputs, seed {SEED}")


@pytest.mark.parametrize("target", TARGETS)
def test_memory_is_in_proportion_to_the_input(target: str) -> None:
    for data in seeds_of(target):
        measure(target, data)


@pytest.mark.parametrize("frame", seeds_of("resp"))
def test_frame_split_at_every_byte_is_the_same_request(frame: bytes) -> None:
    whole = RequestReader().feed(frame)
    for place in range(len(frame) + 1):
        reader = RequestReader()
        assert reader.feed(frame[:place]) + reader.feed(frame[place:]) == whole
    resp(frame)


@pytest.mark.parametrize(
    "data",
    [
        b"*2147483647\r\n",
        b"*1\r\n$536870912\r\n",
        b"*1000000\r\n$536870912\r\n",
        b"*1\r\n%2147483647\r\n",
        b"$2147483647\r\n",
        b"*1\r\n*1\r\n*1\r\n" * 300,
        b"(9" + b"9" * 4000 + b"\r\n",
    ],
)
def test_announcement_reserves_nothing(data: bytes) -> None:
    measure("resp", data)


@pytest.mark.skipif(not STATUS.exists(), reason="tells heights on Linux only")
def test_memory_that_python_does_not_count_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserved, and never touched: what an announced length might do in a parser written in C."""
    monkeypatch.setitem(TARGETS, "resp", lambda data: mmap.mmap(-1, 1 << 30).close())
    with pytest.raises(Finding, match="VmPeak"):
        run("resp", b"*1\r\n")


def test_pipelines_cut_anywhere_hold_the_same_requests() -> None:
    """Fast and careful reading agree over a great many frames. The seed is printed by the failure."""
    rnd = random.Random(SEED)
    frames = [frame for frame in seeds_of("resp") if frame.startswith(b"*") and RequestReader().feed(frame)]
    frames += [b"*3\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (size, b"k" * size) for size in range(60)]
    requests = [RequestReader().feed(frame) for frame in frames]
    places = range(len(frames))
    for _ in range(FRAMES_COUNT // PIPELINE_FRAMES):
        chosen = rnd.choices(places, k=PIPELINE_FRAMES)
        data = b"".join([frames[place] for place in chosen])
        reader, found, start = RequestReader(), [], 0
        longest = rnd.choice((2 * len(data) // 3, 2000, 200))  # a third of them is cut every few frames
        while start < len(data):
            end = start + rnd.randrange(1, longest)
            found += reader.feed(data[start:end])
            start = end
        assert found == [request for place in chosen for request in requests[place]], f"seed {SEED}"
