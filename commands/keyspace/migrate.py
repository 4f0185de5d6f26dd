"""MIGRATE: keys move to another server.

The client waits while the server sends, and other clients are served. A key is deleted here when the other server has
it, if no client has changed it since: a write in between is not lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, NamedTuple

from ...persistence.rdb import payload
from ...protocol.packing import pack_command
from ...protocol.replies import OK, Reply, SimpleString
from ...store.errors import GenericError, ReplyError, syntax_error
from ...store.events import DEL
from ...store.observed import Watcher
from ..clients.blocking import Blocked
from ..core.numbers import integer, leading_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..execution.migration import Order, Outcome, SentKey

NO_KEY: Final = SimpleString(b"NOKEY")
ACCESS: Final = ("RW", "access", "delete")
# Milliseconds, if the request has none.
TIMEOUT_MS: Final = 1000
FIRST_OPTION: Final = 6
# With this number, Redis selects no database.
NO_DATABASE: Final = -1
PORT_MASK: Final = 0xFFFF


class TransferFailed(ReplyError):
    """The other server could not be reached, or did not answer in time."""

    prefix: ClassVar[bytes] = b"IOERR"

    def __init__(self, failure: bytes) -> None:
        super().__init__(b"error or timeout " + failure)


class Options(NamedTuple):
    """The options of MIGRATE."""

    copies: bool
    replaces: bool
    # The words of AUTH.
    login: list[bytes]
    keys: list[bytes]


def _parse(argv: list[bytes]) -> Options:
    """The options and the keys. Raises GenericError."""
    copies = replaces = False
    user: list[bytes] = []
    password: list[bytes] = []
    keys = [argv[3]]
    index = FIRST_OPTION
    while index < len(argv):
        word, words_after = argv[index].upper(), len(argv) - 1 - index
        if word == b"COPY":
            copies = True
        elif word == b"REPLACE":
            replaces = True
        elif word == b"AUTH" and words_after >= 1:
            password = argv[index + 1 : index + 2]
            index += 1
        elif word == b"AUTH2" and words_after >= 2:
            user, password = argv[index + 1 : index + 2], argv[index + 2 : index + 3]
            index += 2
        elif word == b"KEYS":
            if argv[3]:
                raise GenericError(b"When using MIGRATE KEYS option, the key argument must be set to the empty string")
            keys = argv[index + 1 :]
            break
        else:
            raise syntax_error()
        index += 1
    return Options(copies, replaces, user + password, keys)


def _secrets(argv: list[bytes]) -> Iterable[int]:
    """The words after AUTH and AUTH2."""
    index = FIRST_OPTION
    while index < len(argv):
        option = argv[index].upper()
        if option == b"KEYS":
            return
        count = {b"AUTH": 1, b"AUTH2": 2}.get(option, 0)
        yield from range(index + 1, index + 1 + count)
        index += 1 + count


@command(
    "MIGRATE",
    arity=-6,
    flags=Flag.WRITE | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(3, 3, 1, ACCESS, unless=b"KEYS"),
        KeySpec(0, 0, 0, ACCESS, keyword=b"KEYS", start=-2, takes_rest=True),
    ),
    categories=("keyspace", "dangerous"),
    since="2.6.0",
    summary="Moves keys to another server.",
    complexity="O(N) in the size of the values, here and there.",
    arguments=(
        Argument("host"),
        Argument("port", "integer"),
        Argument(
            "key-selector",
            "oneof",
            arguments=(
                Argument("key", "key", key_spec_index=0),
                Argument("empty-string", "pure-token", token=""),
            ),
        ),
        Argument("destination-db", "integer"),
        Argument("timeout", "integer"),
        Argument("copy", "pure-token", token="COPY", optional=True, since="3.0.0"),
        Argument("replace", "pure-token", token="REPLACE", optional=True, since="3.0.0"),
        Argument(
            "authentication",
            "oneof",
            optional=True,
            arguments=(
                Argument("auth", token="AUTH", since="4.0.7", display="password"),
                Argument(
                    "auth2",
                    "block",
                    token="AUTH2",
                    since="6.0.0",
                    arguments=(
                        Argument("username"),
                        Argument("password"),
                    ),
                ),
            ),
        ),
        Argument(
            "keys", "key", token="KEYS", optional=True, multiple=True, key_spec_index=1, since="3.0.6", display="key"
        ),
    ),
    history=(
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ),
    tips=("nondeterministic_output",),
    secrets=_secrets,
    differs="Other clients are served meanwhile. A key that they change is not deleted, and the reply is an error; the "
    "other server then has the earlier value. Keys stay, too, if the client leaves before the reply. The "
    "command is refused in transactions and scripts, where it could not wait. A connection serves one call, without "
    "TLS. An answer that is neither a status nor an error is a failure.",
)
def migrate(context: Context, argv: list[bytes]) -> Reply:
    """MIGRATE host port <key | ""> destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password]
    [KEYS key [key ...]]

    The timeout is in milliseconds; one that is not positive stands for 1000. Returns OK; NOKEY if there are none of
    the keys. Raises GenericError, TransferFailed.
    Source: redis.io/commands/migrate, Redis 6.0.
    """
    options = _parse(argv)
    finished = context.server.migrations.take(context.client)
    if finished is not None:
        return _finish(context, options, *finished)
    timeout_ms, db_index = integer(argv[5]), integer(argv[4])
    keys = [key for key in options.keys if context.db.read(key, context.now_ms) is not None]
    if not keys:
        return NO_KEY
    if not context.may_block:
        raise GenericError(b"MIGRATE cannot wait in a transaction or a script")
    sent = [_sent_key(context, key) for key in keys]
    opening = [pack_command([b"AUTH", *options.login])] if options.login else []
    if db_index != NO_DATABASE:
        opening.append(pack_command([b"SELECT", b"%d" % db_index]))
    timeout_ms = timeout_ms if timeout_ms > 0 else TIMEOUT_MS
    port = leading_integer(argv[2]) & PORT_MASK
    order = Order(argv[1], port, timeout_ms, opening, sent, context.db, options.replaces, context.now_ms)
    context.server.migrations.begin(context.client, order)
    return Blocked([], argv, None, can_be_unblocked=False)


def _sent_key(context: Context, key: bytes) -> SentKey:
    """A key that exists, as it is now."""
    db, now_ms = context.db, context.now_ms
    value = db.get(key, now_ms)
    assert value is not None
    db.use(key, now_ms)
    watch = Watcher()
    db.watch(key, watch)
    return SentKey(key, watch, b"".join(payload.dump(value, now_ms=now_ms)), db.expires.get(key))


def _finish(context: Context, options: Options, order: Order, outcome: Outcome) -> Reply:
    """Delete the keys that the other server has. Raises ReplyError if something is wrong with any of them."""
    deleted: list[bytes] = []
    moved: set[bytes] = set()
    changed: bytes | None = None
    db = context.db
    answered = order.keys[: len(outcome.refusals)]
    for sent, refusal in zip(answered, outcome.refusals, strict=True):
        if refusal is not None or options.copies:
            continue
        if sent.key in moved:
            # As in Redis, a key that is named twice is reported and logged twice.
            db.announce(DEL, sent.key)
            deleted.append(sent.key)
        elif _is_unchanged(context, sent, order.now_ms):
            if db.remove(sent.key, DEL) is not None:
                deleted.append(sent.key)
                moved.add(sent.key)
        elif changed is None:
            changed = sent.key
    if deleted:
        context.log_words([b"DEL", *deleted], len(deleted))
    for refusal in outcome.refusals:
        if refusal is not None:
            raise GenericError(b"Target instance replied with error: " + refusal)
    if outcome.failure:
        raise TransferFailed(outcome.failure)
    if changed is not None:
        raise GenericError(
            b"The key '%b' has changed since it was sent: the target instance has its earlier value" % changed
        )
    return OK


def _is_unchanged(context: Context, sent: SentKey, sent_ms: int) -> bool:
    """Whether a key is what was sent, and has not been written since, or has only expired."""
    db = context.db
    value = db.get(sent.key, context.now_ms)
    if value is None:
        # A client that removed it had a reply, and the other server does not know of that.
        return sent.due_ms is not None and sent.due_ms <= context.now_ms
    if sent.watch.dirty or db.expires.get(sent.key) != sent.due_ms:
        return False
    # Changes of groups are none for WATCH.
    return b"".join(payload.dump(value, now_ms=sent_ms)) == sent.payload
