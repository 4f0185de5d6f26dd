"""Commands that show and test how HyperLogLogs are kept: PFDEBUG, PFSELFTEST."""

from __future__ import annotations

from random import Random
from typing import Final

from ...protocol.replies import OK, Reply, SimpleString
from ...store.errors import GenericError, shown
from ...store.hyperloglog import EMPTY, HyperLogLog, estimate_of, is_dense, registers_of, shown_runs
from ...store.hyperloglog_form import REGISTER_MAX, REGISTERS_COUNT
from ...store.registers import packed, place_of, unpacked
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .counts import checked, keep_apart, store_quietly

# What PFSELFTEST does. Redis takes some more, and seconds for it, in which no other client is served.
TEST_CYCLES_COUNT: Final = 20
TEST_ELEMENTS_COUNT: Final = 10_000
# The standard error of an estimate, as a share of it. Redis too accepts six times as much.
STANDARD_ERROR: Final = 1.04 / 128
ERROR_MAX: Final = 6 * STANDARD_ERROR


@command(
    "PFDEBUG",
    arity=3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.ADMIN,
    keys=(KeySpec(2, 2, 1, ("RW", "access")),),
    categories=("hyperloglog",),
    group="hyperloglog",
    since="2.8.9",
    summary="Shows how a HyperLogLog is kept.",
    complexity="N/A",
    differs="`PFDEBUG SIMD` has no effect. After the error for another word than ON or OFF there is no second reply.",
    arguments=(Argument("subcommand"), Argument("key", "key", key_spec_index=0)),
)
def pfdebug(context: Context, argv: list[bytes]) -> Reply:
    """PFDEBUG subcommand key

    GETREG returns the registers, after it has made them dense; DECODE returns the runs of sparse registers; ENCODING
    returns `sparse` or `dense`; TODENSE makes the registers dense and returns whether they were sparse. SIMD takes ON
    or OFF in place of the key, and has no effect here. Raises WrongType, NotHyperLogLog, CorruptHyperLogLog,
    GenericError. Source: Redis 2.8.9.
    """
    word, key = argv[1].upper(), argv[2]
    if word == b"SIMD":
        return _choose_simd(argv[2].upper())
    text = checked(context.db.get(key, context.now_ms))
    if text is None:
        raise GenericError(b"The specified key does not exist")
    keep_apart(context.db, key, text)
    if word == b"GETREG":
        _make_dense(context, argv, text)
        return list(registers_of(text))
    if word == b"TODENSE":
        return _make_dense(context, argv, text)
    if word == b"ENCODING":
        return SimpleString(b"dense" if is_dense(text) else b"sparse")
    if word != b"DECODE":
        raise GenericError(b"Unknown PFDEBUG subcommand '%b'" % shown(argv[1]))
    if is_dense(text):
        raise GenericError(b"HLL encoding is not sparse")
    return shown_runs(text)


def _choose_simd(choice: bytes) -> Reply:
    """The reply of PFDEBUG SIMD. Raises GenericError; Redis sends a second reply after the error."""
    if choice not in (b"ON", b"OFF"):
        raise GenericError(b"Argument must be ON or OFF")
    return SimpleString(b"enabled" if choice == b"ON" else b"disabled")


def _make_dense(context: Context, argv: list[bytes], text: bytes) -> int:
    """Makes the registers of the HyperLogLog at a key dense. Returns 1 if they were sparse, otherwise 0. Raises
    CorruptHyperLogLog."""
    if is_dense(text):
        return 0
    value = HyperLogLog(text, 0)
    value.make_dense()
    store_quietly(context.db, argv[2], bytes(value.data))
    context.log_words(argv)
    return 1


@command(
    "PFSELFTEST",
    arity=1,
    flags=Flag.ADMIN,
    categories=("hyperloglog",),
    group="hyperloglog",
    since="2.8.9",
    summary="Tests the registers and the estimates of HyperLogLogs.",
    complexity="N/A",
)
def pfselftest(context: Context, argv: list[bytes]) -> Reply:
    """PFSELFTEST. Returns OK. Raises GenericError if a test fails. Source: Redis 2.8.9."""
    draws = Random(0)
    for _ in range(TEST_CYCLES_COUNT):
        registers = bytes([byte & REGISTER_MAX for byte in draws.randbytes(REGISTERS_COUNT)])
        if unpacked(packed(registers)) != registers:
            raise GenericError(b"TESTFAILED registers that are packed do not stay the same")
    sparse, dense = HyperLogLog(EMPTY, 3000), HyperLogLog(EMPTY, 0)
    dense.make_dense()
    checkpoint = 1
    for count in range(1, TEST_ELEMENTS_COUNT + 1):
        register, rank = place_of(draws.randbytes(8))
        sparse.raise_register(register, rank)
        dense.raise_register(register, rank)
        if count != checkpoint:
            continue
        checkpoint *= 10
        found = estimate_of(bytes(dense.data))
        if estimate_of(bytes(sparse.data)) != found:
            raise GenericError(b"TESTFAILED dense/sparse disagree")
        # Few elements are counted exactly but for collisions.
        if abs(found - count) > max(ERROR_MAX * count, 1):
            raise GenericError(b"TESTFAILED Too big error. card:%d abserr:%d" % (count, abs(found - count)))
    return OK
