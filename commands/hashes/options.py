"""Commands on fields with options: HGETDEL, HGETEX, HSETEX."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.hash_value import HASHTABLE, HashValue
from ...store.errors import GenericError, shown_last, wrong_number_of_arguments
from ...store.events import HDEL, HEXPIRE, HEXPIRED, HPERSIST, HSET
from ..core.numbers import parse_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .expiry import COUNT_MAX, field_due_ms, named_fields
from .liveness import live_values

# The options that set an expiry time: ms of their unit, and whether the time is absolute.
TIMES: Final = {b"EX": (1000, False), b"PX": (1, False), b"EXAT": (1000, True), b"PXAT": (1, True)}


class FieldOptions:
    """The options of HGETEX and HSETEX."""

    __slots__ = ("condition", "due_ms", "expiry", "fields_count", "first", "time_index")

    def __init__(
        self, expiry: bytes | None, time_index: int, due_ms: int, condition: bytes | None, first: int, fields_count: int
    ) -> None:
        # PERSIST or KEEPTTL, one of `TIMES`, or None.
        self.expiry: Final = expiry
        # Index of the word of the option of `TIMES`.
        self.time_index: Final = time_index
        self.due_ms: Final = due_ms
        # FNX, FXX or None.
        self.condition: Final = condition
        # Index of the first field, and the number of fields.
        self.first: Final = first
        self.fields_count: Final = fields_count


def _parse(context: Context, argv: list[bytes], name: bytes, keep: bytes, width: int) -> FieldOptions:
    """The options of HGETEX or HSETEX. `keep` is the word for no new time, `width` the words of a field. Raises
    GenericError.
    """
    expiry: bytes | None = None
    condition: bytes | None = None
    time_index = due_ms = first = count = 0
    index = 2
    while index < len(argv):
        word = argv[index].upper()
        if word == keep or word in TIMES:
            if expiry is not None:
                raise GenericError(b"Only one of EX, PX, EXAT, PXAT or %b arguments can be specified" % keep)
            if word != keep and index + 1 == len(argv):
                raise GenericError(b"missing expire time")
            expiry = word
            if word != keep:
                time_index = index
                unit_ms, is_absolute = TIMES[word]
                due_ms = field_due_ms(context, argv[index + 1], unit_ms, name, is_absolute=is_absolute)
                index += 1
        elif word in (b"FNX", b"FXX") and width == 2:
            if condition is not None:
                raise GenericError(b"Only one of FXX or FNX arguments can be specified")
            condition = word
        elif word == b"FIELDS":
            if first:
                raise GenericError(b"FIELDS keyword specified multiple times")
            if index + 1 == len(argv):
                raise wrong_number_of_arguments(name)
            number = parse_integer(argv[index + 1])
            if number is None or not 1 <= number <= COUNT_MAX:
                raise GenericError(b"invalid number of fields")
            first, count = index + 2, number
            if first + count * width > len(argv):
                raise GenericError(b"wrong number of arguments")
            index = first + count * width - 1
        else:
            raise GenericError(b"unknown argument: %b" % shown_last(argv[index]))
        index += 1
    if not first:
        raise GenericError(b"missing FIELDS argument")
    return FieldOptions(expiry, time_index, due_ms, condition, first, count)


def _get_and_remove(context: Context, key: bytes, value: HashValue, fields: list[bytes]) -> Reply:
    """Removes fields whose new time is over, each with a record of its own. Returns their values."""
    replies: list[bytes | None] = []
    has_removed = False
    for field, text in zip(fields, live_values(context, key, value, fields), strict=True):
        # A field that is named twice is there once.
        is_there = text is not None and value.pop(field) is not None
        replies.append(text if is_there else None)
        if is_there:
            context.log_expired_field(key, field)
            has_removed = True
    if has_removed:
        context.db.settle(key, value, HDEL)
    elif not len(value):
        context.db.discard(key)
    return replies


def _holds(context: Context, key: bytes, value: HashValue | None, fields: list[bytes], condition: bytes) -> bool:
    """Whether all fields are there (FXX), or none is (FNX). As Redis does, it looks no further than the first that
    fails: fields after it that are due stay."""
    if value is None:
        return condition == b"FNX"
    db = context.db
    live_ms = db.member_time_ms(context.now_ms)
    holds, has_expired = True, False
    for field in fields:
        is_missing = field not in value
        if value.is_due(field, live_ms):
            has_expired |= db.drop_field(key, value, field)
            is_missing = True
        if is_missing == (condition == b"FXX"):
            holds = False
            break
    if has_expired:
        db.announce(HEXPIRED, key)
    return holds


@command(
    "HGETDEL",
    arity=-5,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("hash",),
    group="hash",
    since="8.0.0",
    summary="Returns the values of fields and removes them.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hgetdel(context: Context, argv: list[bytes]) -> Reply:
    """HGETDEL key FIELDS count field [field ...]. Returns the values, null for a missing field. Raises GenericError,
    WrongType. Source: Redis 8.0.
    """
    key, db = argv[1], context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    fields = named_fields(argv)
    if value is None:
        return [None] * len(fields)
    if value.first_due_ms >= db.member_time_ms(context.now_ms):
        replies = value.pop_all(fields)
    else:
        texts = live_values(context, key, value, fields)
        # A field that is named twice is there once.
        replies = [
            text if text is not None and value.pop(field) is not None else None
            for field, text in zip(fields, texts, strict=True)
        ]
    removed_count = len(fields) - replies.count(None)
    if removed_count:
        db.settle(key, value, HDEL)
        context.log_words([b"HDEL", key, *fields], removed_count)
    elif not len(value):
        db.discard(key)
    return replies


@command(
    "HGETEX",
    arity=-5,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update"), note="RW and UPDATE because it changes the TTL"),),
    categories=("hash",),
    group="hash",
    since="8.0.0",
    summary="Returns the values of fields, and sets or removes their expiry times.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=(
                Argument("seconds", "integer", token="EX"),
                Argument("milliseconds", "integer", token="PX"),
                Argument("unix-time-seconds", "unix-time", token="EXAT"),
                Argument("unix-time-milliseconds", "unix-time", token="PXAT"),
                Argument("persist", "pure-token", token="PERSIST"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hgetex(context: Context, argv: list[bytes]) -> Reply:
    """HGETEX key [EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST] FIELDS count field [field ...]

    Returns the values, null for a missing field. Raises GenericError, WrongType. Source: Redis 8.0.
    """
    key, db, now_ms = argv[1], context.db, context.now_ms
    value = db.find_companion(key, HashValue, now_ms)
    options = _parse(context, argv, b"hgetex", b"PERSIST", 1)
    fields = argv[options.first : options.first + options.fields_count]
    if value is None:
        return [None] * len(fields)
    has_time = options.expiry in TIMES
    if options.expiry is not None:
        value.become_listpack_ex()
    if has_time and options.due_ms <= db.member_time_ms(now_ms):
        return _get_and_remove(context, key, value, fields)
    replies = live_values(context, key, value, fields)
    if not len(value):
        db.discard(key)
        return replies
    if options.expiry is None:
        return replies
    present = fields
    if None in replies:
        present = [field for field, text in zip(fields, replies, strict=True) if text is not None]
    if not present:
        return replies
    words = [b"FIELDS", b"%d" % len(fields), *fields]
    if options.expiry == b"PERSIST":
        count = value.persist_all(present, 0).count(1)
        if count:
            db.settle(key, value, HPERSIST)
            context.log_words([b"HPERSIST", key, *words], count)
    else:
        value.expire_all_at(present, options.due_ms)
        db.settle(key, value, HEXPIRE)
        context.log_words([b"HPEXPIREAT", key, b"%d" % options.due_ms, *words], len(present))
    return replies


@command(
    "HSETEX",
    arity=-6,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="8.0.0",
    summary="Sets fields with an expiry time.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(
                Argument("fnx", "pure-token", token="FNX"),
                Argument("fxx", "pure-token", token="FXX"),
            ),
        ),
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=(
                Argument("seconds", "integer", token="EX"),
                Argument("milliseconds", "integer", token="PX"),
                Argument("unix-time-seconds", "unix-time", token="EXAT"),
                Argument("unix-time-milliseconds", "unix-time", token="PXAT"),
                Argument("keepttl", "pure-token", token="KEEPTTL"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument(
                    "data",
                    "block",
                    multiple=True,
                    arguments=(
                        Argument("field"),
                        Argument("value"),
                    ),
                ),
            ),
        ),
    ),
)
def hsetex(context: Context, argv: list[bytes]) -> Reply:
    """HSETEX key [FNX | FXX] [EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL]
        FIELDS count field value [field value ...]

    Returns 1; 0, and sets nothing, if a field exists with FNX or is missing with FXX. Raises GenericError, WrongType.
    Source: Redis 8.0.
    """
    key, db, now_ms = argv[1], context.db, context.now_ms
    options = _parse(context, argv, b"hsetex", b"KEEPTTL", 2)
    value = db.find_companion(key, HashValue, now_ms)
    end = options.first + 2 * options.fields_count
    fields, texts = argv[options.first : end : 2], argv[options.first + 1 : end : 2]
    if options.condition is not None and not _holds(context, key, value, fields, options.condition):
        if value is not None and not len(value):
            db.discard(key)
        return 0
    if value is None:
        value = HashValue(context.limits)
        db.add(key, value)
    # As in Redis, a hash of HIMPORT becomes a listpack by the fields that it has, and then takes these of any size.
    has_template = value.has_template
    value.expect_words(argv[options.first :])
    has_time = options.expiry in TIMES
    if has_time:
        value.become_listpack_ex()
    is_over = has_time and options.due_ms <= db.member_time_ms(now_ms)
    keeps_times = options.expiry == b"KEEPTTL"
    if value.encoding == HASHTABLE and not is_over:
        value.set_words(argv[options.first : end], keeps_times=keeps_times or has_time)
        if has_time:
            value.expire_all_at(fields, options.due_ms)
    else:
        for index in range(len(fields)):
            field, text = fields[index], texts[index]
            value.set(field, text, keeps_time=keeps_times or has_time, may_be_long=has_template)
            if is_over:
                value.pop(field)
                context.log_expired_field(key, field)
        if has_time and not is_over:
            value.expire_all_at(fields, options.due_ms)
    if not has_time:
        value.take_template()
        db.settle(key, value, HSET)
        context.log_words(argv, options.fields_count)
        return 1
    db.announce(HSET, key)
    db.settle(key, value, HDEL if is_over else HEXPIRE)
    if not is_over:
        at = options.time_index
        context.log_words([*argv[:at], b"PXAT", b"%d" % options.due_ms, *argv[at + 2 :]], options.fields_count)
    return 1
