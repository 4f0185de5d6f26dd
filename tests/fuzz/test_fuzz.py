"""Bytes of a stranger: no input breaks a reader, a loader or a handler, and none costs more than its size allows.

make fuzz SECONDS=60          every target for so long, and ten million RESP frames
"""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.fuzzer import can_be_guided, can_watch, fuzz, measure, report, run
from fuzz.inputs import ROWS, new_input
from fuzz.seeds import seeds_of
from fuzz.targets import TARGETS, Finding, Tally, resp
from headrace.protocol.reader import RequestReader

SECONDS = float(os.environ.get("HEADRACE_TEST_FUZZ_SECONDS", "2"))
FRAMES_COUNT = int(os.environ.get("HEADRACE_TEST_FUZZ_FRAMES", "200000"))
SEED = int(os.environ.get("HEADRACE_TEST_FUZZ_SEED", "1"))
GUIDED_S_MIN = 10.0
"""In less time, watching the branches is not worth what it takes to begin with it."""
NOISE = ("#", "INFO:", "WARNING:")
"""How lines begin that tell of each step of libFuzzer."""
TESTS = Path(__file__).parents[1]
PIPELINE_FRAMES = 500
INPUTS_COUNT = 300
COMMANDS_SHARE_MIN = 0.7
"""Share of the commands that so many inputs have accepted at least once."""


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_is_a_finding(target: str, tmp_path: Path) -> None:
    if SECONDS >= GUIDED_S_MIN and os.environ.get("HEADRACE_REQUIRE_ORACLE"):
        assert can_be_guided(), "what may skip nothing has atheris: install the extra `fuzz`"
    if can_be_guided() and SECONDS >= GUIDED_S_MIN:
        print(f"\n{target}, guided by coverage, seed {SEED}: {fuzz_guided(target, tmp_path)}")
    else:
        print(f"\n{target}, mutated seeds, seed {SEED}: {fuzz(target, SECONDS, SEED)} inputs", report(target))


def fuzz_guided(target: str, folder: Path) -> str:
    """In a process of its own, whose modules are watched from their import on; how far it came."""
    words = [sys.executable, "-m", "fuzz", target, "--seconds", str(SECONDS), "--seed", str(SEED)]
    ended = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    lines = (ended.stdout + ended.stderr).splitlines()
    assert ended.returncode == 0, "\n".join([f"in {folder}:", *(line for line in lines if not line.startswith(NOISE))])
    told = [line for line in lines if " requests to " in line][-1:]
    return "; ".join([line for line in lines if "\tDONE " in line] + told)


def test_most_inputs_of_commands_are_run_and_most_commands_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    monkeypatch.setattr("fuzz.targets.tally", tally)
    rnd, seeds = random.Random(SEED), list(seeds_of("commands"))
    for _ in range(INPUTS_COUNT):
        run("commands", new_input("commands", seeds, rnd))
    assert tally.idle_inputs_count < INPUTS_COUNT / 3, str(tally)
    assert tally.accepted.total() > tally.executed.total() / 2, str(tally)
    assert len(tally.accepted) > COMMANDS_SHARE_MIN * len(ROWS), str(tally)


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


@pytest.mark.skipif(not can_watch(), reason="the kernel tells heights on Linux only")
def test_memory_that_python_does_not_count_is_a_finding_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserved and never touched, which an announced length might do in a parser written in C; and touched."""

    def reserve(data: bytes) -> None:
        mmap.mmap(-1, 1 << 30).close()

    def touch(data: bytes) -> None:
        with mmap.mmap(-1, 64 << 20) as memory:
            for place in range(0, len(memory), mmap.PAGESIZE):
                memory[place] = 1

    for _ in range(2):
        monkeypatch.setitem(TARGETS, "resp", reserve)
        with pytest.raises(OSError, match="Cannot allocate"):
            run("resp", b"*1\r\n")
        monkeypatch.setitem(TARGETS, "resp", touch)
        with pytest.raises(Finding, match="holds by"):
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
