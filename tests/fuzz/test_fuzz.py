"""Untrusted bytes: no input breaks a reader, a loader or a handler, and none uses more memory than its size allows.

make fuzz SECONDS=60          runs each target for 60 seconds, and ten million RESP frames
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import random
import re
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from fuzz.fuzzer import HANG_S, can_be_guided, can_watch, fuzz, measure, report, run
from fuzz.inputs import ROWS, new_input
from fuzz.lua_scripts import Runner
from fuzz.seeds import seeds_of
from fuzz.targets import TARGETS, Finding, Tally, resp, words_sent
from headrace.persistence.errors import RdbError
from headrace.persistence.grammar import streams
from headrace.persistence.grammar.kept import ADDITION
from headrace.persistence.rdb.source import Source
from headrace.protocol import frames_plain, packing
from headrace.protocol.reader import RequestReader
from headrace.protocol.requests import Request, Split
from support.wire import encode

SECONDS = float(os.environ.get("HEADRACE_TEST_FUZZ_SECONDS", "2"))
FRAMES_COUNT = int(os.environ.get("HEADRACE_TEST_FUZZ_FRAMES", "200000"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 3 * SECONDS + FRAMES_COUNT // 10_000)
SEED = int(os.environ.get("HEADRACE_TEST_FUZZ_SEED", "1"))
NAMES = (b"XADD", b"XADD", b"XADD", b"xadd", b"xadd", b"Xadd")
OTHER_NAMES = (b"", b"X", b"SET", b"XADDS", b"XADD", b"MAXLEN", b"XREADGROUP", b"XACK", b"POS", b"HOST")
# Additions with the first two, or with MAXLEN and a random number, may be kept in the form in which they were sent.
CAPS = (
    (b"maxlen", b"~", b"0"), (b"MAXLEN", b"~", b"123456789012345678"), (b"MAXLEN", b"~", b"1234567890123456789"),
    (b"MAXLEN", b"~", b"05"), (b"MAXLEN", b"~", b"-1"), (b"MAXLEN", b"~", b""), (b"MAXLEN", b"=", b"5"),
    (b"MAXLEN", b"5"), (b"MINID", b"~", b"5"), (b"NOMKSTREAM",), (b"MAXLEN", b"~", b"5", b"LIMIT", b"2"),
)  # fmt: skip
IDS = (b"*",) * 16 + (b"1-1", b"1-*", b"")
WORDS = (b"", b"*", b"~", b"\r\n", b"$1\r\n*\r\n", b"*3\r\n$4\r\nXADD\r\n", b"MAXLEN", b"XADD", b"0", b">9\r\n")
PAIRS_COUNTS = (2,) * 6 + (4,) * 4 + (6, 6, 20, 0, 1, 3)
ADDITIONS_SHARE = 0.7
# Smallest share of the frames that are kept in the form in which they were sent. One pipeline in three is cut so often
# that it has few of them.
KEPT_SHARE_MIN = 0.08
# With fewer frames, the share varies too much.
FRAMES_COUNT_JUDGED = 50_000
# Number of random words for each pipeline.
WORDS_COUNT = 100
NOISE_SIZE_MAX = 2000
# Time limit for finding a planted defect, which usually takes a moment.
PLANT_S = 30.0
# For a shorter run, a guided process takes too long to start.
GUIDED_S_MIN = 10.0
# Beginnings of the lines in which libFuzzer reports its steps.
NOISE = ("#", "INFO:", "WARNING:")
TESTS = Path(__file__).parents[1]
PIPELINE_FRAMES = 500
INPUTS_COUNT = 300
# Smallest share of the commands that must be accepted once in INPUTS_COUNT inputs.
COMMANDS_SHARE_MIN = 0.7


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_is_a_finding(target: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    if SECONDS >= GUIDED_S_MIN and os.environ.get("HEADRACE_REQUIRE_ORACLE"):
        assert can_be_guided(), "what may skip nothing has atheris: install the extra `fuzz`"
    if can_be_guided() and SECONDS >= GUIDED_S_MIN:
        told = fuzz_guided(target, tmp_path)
        inputs = re.match(r"#(\d+)\tDONE", told)
        assert inputs is not None, told
        record_property(f"inputs for {target}", int(inputs[1]))
        print(f"\n{target}, guided by coverage, seed {SEED}: {told}")
    else:
        inputs_count = fuzz(target, SECONDS, SEED)
        record_property(f"inputs for {target}", inputs_count)
        print(f"\n{target}, mutated seeds, seed {SEED}: {inputs_count} inputs", report(target))


def fuzz_guided(target: str, folder: Path) -> str:
    """Fuzz in another process, where atheris instruments modules at import. Returns a summary."""
    words = [sys.executable, "-m", "fuzz", target, "--seconds", str(SECONDS), "--seed", str(SEED)]
    ended = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    lines = (ended.stdout + ended.stderr).splitlines()
    assert ended.returncode == 0, "\n".join([f"in {folder}:", *(line for line in lines if not line.startswith(NOISE))])
    told = [line for line in lines if " requests to " in line][-1:]
    return "; ".join([line for line in lines if "\tDONE " in line] + told)


def test_most_inputs_of_commands_run_and_most_commands_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("make_splitter", [streams.addition_splitter, packing.splitter])
@pytest.mark.parametrize("frame", seeds_of("resp"))
def test_frame_split_at_every_byte_is_the_same_request(frame: bytes, make_splitter: Callable[[], Split]) -> None:
    whole = RequestReader().feed(frame)
    for place in range(len(frame) + 1):
        reader = RequestReader(split=make_splitter())
        found = reader.feed(frame[:place]) + reader.feed(frame[place:])
        assert [words_sent(request) for request in found] == whole
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


def reserve(size: int, _: bytes) -> None:
    """Reserve memory without touching it, as a parser in C might do for an announced length."""
    mmap.mmap(-1, size).close()


def reserve_in_secret(size: int, _: bytes) -> None:
    """Reserve memory, and ignore a refusal."""
    with suppress(OSError):
        mmap.mmap(-1, size).close()


def touch(size: int, _: bytes) -> None:
    with mmap.mmap(-1, size) as memory:
        for place in range(0, size, mmap.PAGESIZE):
            memory[place] = 1


def touch_in_c(size: int, _: bytes) -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    place = libc.malloc(size)
    ctypes.memset(place, 1, size)
    libc.free(place)


@pytest.mark.skipif(not can_watch(), reason="only Linux reports the maximum of memory")
@pytest.mark.parametrize(
    ("take", "size", "reason"),
    [
        (reserve, 1 << 30, "Cannot allocate"),
        (reserve, 500 << 20, "reserves by"),
        (reserve_in_secret, 500 << 20, "reserves by"),
        (reserve, 18 << 20, "reserves by"),
        (touch, 64 << 20, "reserves by"),
        (touch, 14 << 20, "holds by"),
        (touch_in_c, 24 << 20, "reserves by|holds by"),
    ],
)
def test_memory_that_python_does_not_count_is_a_finding_each_time(
    take: Callable[[int, bytes], None], size: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "resp", partial(take, size))
    for _ in range(3):
        with pytest.raises((Finding, OSError), match=reason):
            run("resp", b"*1\r\n")


@pytest.mark.skipif(not can_watch(), reason="the kernel tells heights on Linux only")
@pytest.mark.parametrize(("take", "size"), [(reserve, 256 << 20), (touch_in_c, 24 << 20)])
@pytest.mark.parametrize("target", ["rdb", "restore"])
def test_memory_taken_at_each_short_read_of_an_rdb_source_is_found(
    target: str, take: Callable[[int, bytes], None], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_take = Source.take

    def take_and_waste(source: Source, count: int) -> bytes:
        try:
            return real_take(source, count)
        except RdbError:
            take(size, b"")
            raise

    monkeypatch.setattr(Source, "take", take_and_waste)
    with pytest.raises(Finding, match=r"reserves by|holds by"):
        fuzz(target, PLANT_S, SEED)


@pytest.mark.skipif(not can_watch(), reason="the kernel tells heights on Linux only")
def test_memory_taken_once_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytearray] = []

    def fill_cache(data: bytes) -> None:
        if not taken:
            taken.append(bytearray(32 << 20))

    monkeypatch.setitem(TARGETS, "resp", fill_cache)
    run("resp", b"*1\r\n")
    assert taken


PLANTED = """
import headrace.commands.scripting.interpreter as interpreter
real = interpreter._source
interpreter._source = lambda name: real(name).replace({0!r}, {1!r})
"""


@pytest.mark.skipif("scripts" not in TARGETS, reason="lupa is not installed")
@pytest.mark.parametrize(
    ("sound", "broken", "found"),
    [
        (b"RESULTS_COUNT_MAX = 8000", b"RESULTS_COUNT_MAX = 2 ^ 40", "does not answer"),
        (b"__newindex = function() error(READONLY, 2) end", b"__newindex = real", "the next script finds"),
    ],
    ids=["unpack", "read-only tables"],
)
def test_flaw_in_the_sandbox_is_found(sound: bytes, broken: bytes, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(PLANTED.format(sound, broken))
    monkeypatch.setattr("fuzz.targets.runner", lambda: runner)
    try:
        with pytest.raises(Finding, match=found):
            fuzz("scripts", PLANT_S, SEED)
    finally:
        runner.close()


RUNNER_THAT_ENDS_AT_ONCE = """
import os
from fuzz.lua_scripts import Runner
runner = Runner()
assert not runner.run(b"return 1")
print(runner._server.pid, flush=True)
os._exit(0)
"""


@pytest.mark.skipif("scripts" not in TARGETS, reason="lupa is not installed")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_server_for_scripts_ends_with_a_process_that_ends_at_once(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER_THAT_ENDS_AT_ONCE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
    )
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(int(ended.stdout))
        try:
            assert select.select([handle], [], [], PLANT_S)[0], "the server still runs"
        finally:
            os.close(handle)


def spin(data: bytes) -> None:
    while data:
        data += data[:1]
        data = data[1:]


def test_input_that_never_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.fuzzer.TIME_S_MAX", 0.1)
    monkeypatch.setitem(TARGETS, "resp", spin)
    with pytest.raises(Finding, match=r"took more than 0\.1 s"):
        run("resp", b"*1\r\n")


def test_finding_removes_the_bound_that_would_end_the_next_input(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[float] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: bounds.append(seconds))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", bounds.clear)

    def fail_once_bounded(data: bytes) -> None:
        if bounds:
            raise Finding(f"within {bounds[0]:g} s")

    monkeypatch.setitem(TARGETS, "config", fail_once_bounded)
    with pytest.raises(Finding, match=f"within {PLANT_S + HANG_S:g} s"):
        fuzz("config", PLANT_S, SEED)
    assert not bounds


def say_another_key(kept: Request) -> Request:
    return [kept[0], kept[1] + b"x", *kept[2:]]


def say_no_cap(kept: Request) -> Request:
    return [*kept[:3], b""]


def send_another_value(kept: Request) -> Request:
    return [*kept[:2], kept[2][:-3] + b"x\r\n", kept[3]]


def give_the_words(kept: Request) -> Request:
    return streams.words_of(kept)[:-2]


@pytest.mark.skipif(packing.splitter is frames_plain.splitter, reason="the compiled twin is not here")
@pytest.mark.parametrize("spoil", [say_another_key, say_no_cap, send_another_value, give_the_words])
def test_fault_in_an_addition_kept_as_sent_is_found(
    spoil: Callable[[Request], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = streams.addition_splitter

    def spoiled() -> Split:
        split = whole()

        def split_and_spoil(data: bytes, bulk_size_max: int) -> tuple[list[Request], int]:
            requests, size = split(data, bulk_size_max)
            return [spoil(each) if each[0] is ADDITION else each for each in requests], size

        return split_and_spoil

    monkeypatch.setattr(streams, "addition_splitter", spoiled)
    with pytest.raises(Finding):
        fuzz("resp", PLANT_S, SEED)
    with pytest.raises((Finding, AssertionError)):
        test_pipelines_cut_anywhere_hold_the_same_requests()


def test_fault_of_the_plain_twin_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    split = frames_plain.splitter()

    def lose_the_last(data: bytes, bulk_size_max: int) -> tuple[list[Request], int]:
        requests, size = split(data, bulk_size_max)
        return requests[:-1], size

    monkeypatch.setattr(frames_plain, "splitter", lambda: lose_the_last)
    with pytest.raises(Finding, match="plain twin"):
        fuzz("resp", PLANT_S, SEED)


def draw_words(rnd: random.Random) -> Callable[[], list[bytes]]:
    """Returns a function that draws the words of a request: mostly an addition, sometimes nearly one, or any words."""
    noise = rnd.randbytes(NOISE_SIZE_MAX + WORDS_COUNT)
    sizes = [rnd.choice((rnd.randrange(12), rnd.randrange(120))) for _ in range(WORDS_COUNT - 1)]
    words = [noise[place : place + size] for place, size in enumerate([*sizes, rnd.randrange(NOISE_SIZE_MAX)])]
    words += WORDS
    cap = (b"MAXLEN", b"~", b"%d" % rnd.randrange(10 ** rnd.randrange(20)))
    caps = [()] * 8 + [cap] * 6 + list(CAPS)
    choice, choices, random_share = rnd.choice, rnd.choices, rnd.random

    def draw() -> list[bytes]:
        if random_share() < ADDITIONS_SHARE:
            pairs = choices(words, k=choice(PAIRS_COUNTS))
            return [choice(NAMES), choice(words), *choice(caps), choice(IDS), *pairs]
        return [choice(OTHER_NAMES), *choices(words, k=choice(PAIRS_COUNTS))]

    return draw


def test_pipelines_cut_anywhere_hold_the_same_requests() -> None:
    """The fast and the slow path of the reader agree on many frames. A failure prints the seed."""
    rnd = random.Random(SEED)
    frames = [frame for frame in seeds_of("resp") if frame.startswith(b"*") and RequestReader().feed(frame)]
    frames += [b"*3\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (size, b"k" * size) for size in range(60)]
    fixed = [(frame, RequestReader().feed(frame)[0]) for frame in frames]
    kept_count = 0
    for _ in range(FRAMES_COUNT // PIPELINE_FRAMES):
        chosen = rnd.choices(fixed, k=PIPELINE_FRAMES // 5)
        draw = draw_words(rnd)
        chosen += [(encode(tuple(words)), words) for words in [draw() for _ in range(PIPELINE_FRAMES - len(chosen))]]
        rnd.shuffle(chosen)
        data = b"".join([frame for frame, _ in chosen])
        reader, found, start = RequestReader(split=streams.addition_splitter()), [], 0
        longest = rnd.choice((2 * len(data) // 3, 2000, 200))  # a third of the pipelines is cut every few frames
        while start < len(data):
            end = start + rnd.randrange(1, longest)
            found += reader.feed(data[start:end])
            start = end
        kept_count += sum(request[0] is ADDITION for request in found)
        assert [words_sent(request) for request in found] == [words for _, words in chosen], f"seed {SEED}"
    if packing.splitter is not frames_plain.splitter and FRAMES_COUNT >= FRAMES_COUNT_JUDGED:
        assert kept_count > KEPT_SHARE_MIN * FRAMES_COUNT, kept_count
