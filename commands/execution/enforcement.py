"""Enforcing the ACL: refusals are counted, logged, and returned to the client as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...store.errors import GenericError, ReplyError
from ..clients.client_line import describe
from ..core.table import Row
from ..permissions.allowed_rows import NO_ROWS
from ..permissions.denial import Denial, NoPermission
from ..permissions.log import Refusal
from ..permissions.user import User
from ..permissions.users import WrongPassword

if TYPE_CHECKING:
    from ..clients.client import Client
    from .context import Context

# Counters of the server's statistics, by reason.
COUNTERS: Final = {
    "auth": "acl_denied_auth",
    "command": "acl_denied_command",
    "key": "acl_denied_key",
    "channel": "acl_denied_channel",
    "tls-cert": "acl_denied_certificate",
}


class NoAuthentication(ReplyError):
    """The server has a password and this connection has not given it."""

    prefix = b"NOAUTH"

    def __init__(self, text: bytes = b"Authentication required.") -> None:
        super().__init__(text)


class PrimaryDown(ReplyError):
    """Commands are refused while the link to the primary is down (`replica-serve-stale-data no`)."""

    prefix = b"MASTERDOWN"

    def __init__(self) -> None:
        super().__init__(b"Link with MASTER is down and replica-serve-stale-data is set to 'no'.")


def must_authenticate(context: Context, client: Client) -> bool:
    """Whether `client` must log in and has not."""
    return not client.authenticated and context.server.accounts.users.default.needs_login


def log_in(context: Context, client: Client, user: User) -> None:
    """Log the client in as this user."""
    client.user = user
    client.authenticated = True
    client.rows = NO_ROWS  # until the dispatcher has computed them again


def log_out(context: Context, client: Client) -> None:
    """Make the client the default user again, which may need a password."""
    client.user = context.server.accounts.users.default
    client.rows = NO_ROWS
    client.authenticated = not client.user.needs_login


def authenticate(context: Context, argv: list[bytes], name: bytes, password: bytes) -> None:
    """Log the client in; `argv` is the request that does so. Raises WrongPassword, without having changed anything."""
    try:
        user = context.server.accounts.users.authenticate(name, password)
    except WrongPassword:
        _record(context, context.client, "auth", argv[0], name, argv)
        raise
    log_in(context, context.client, user)


def log_in_by_certificate(context: Context, client: Client, name: bytes) -> None:
    """Log a new client in as the user that its certificate names. Without such a user, it stays the default user."""
    user = context.server.accounts.users.by_name.get(name)
    if user is not None and user.enabled:
        log_in(context, client, user)
    else:
        _record(context, client, "tls-cert", b"", name, [])


def refusal_of(context: Context, row: Row, argv: list[bytes]) -> NoPermission | None:
    """The error that the client's rules have for this request; None if it may be run."""
    denial = context.client.user.check(row, argv)
    return None if denial is None else _noted(context, denial, argv).error(context.client.user.name)


def refusal_at_exec(context: Context, row: Row, argv: list[bytes]) -> NoPermission | None:
    """The error for a queued command that was allowed when it was queued; None if it may still be run."""
    user = context.client.user
    if user.is_unrestricted:
        return None
    denial = user.check(row, argv)
    return None if denial is None else _noted(context, denial, argv).error_at_exec()


def refusal_in_script(context: Context, caller: Client, row: Row, argv: list[bytes]) -> GenericError | None:
    """The error for a command in a script of `caller`; None if it may be run."""
    user = caller.user
    denial = user.check(row, argv)
    if denial is None:
        return None
    _record(context, caller, denial.reason, denial.object, user.name, argv, where="lua")
    return GenericError(b"ACL failure in script: " + denial.error(user.name).text)


def may_stay(context: Context, client: Client) -> bool:
    """Whether a connection stays open after a change of users: its user exists and allows all its subscriptions.

    As in Redis, a monitor stays even if its user may no longer run MONITOR.
    """
    if client.is_primary:
        return True
    user = client.user
    if context.server.accounts.users.by_name.get(user.name) is not user:
        return False
    return user.is_unrestricted or (
        (not client.is_monitor or user.may_monitor())
        and all(map(user.allows_channel, (*client.channels, *client.shard_channels)))
        and all(user.allows_channel(pattern, is_pattern=True) for pattern in client.patterns)
    )


def _noted(context: Context, denial: Denial, argv: list[bytes]) -> Denial:
    _record(context, context.client, denial.reason, denial.object, context.client.user.name, argv)
    return denial


def _record(
    context: Context, client: Client, reason: str, what: bytes, user: bytes, argv: list[bytes], where: str | None = None
) -> None:
    server = context.server
    setattr(server.stats, COUNTERS[reason], getattr(server.stats, COUNTERS[reason]) + 1)
    refusal = Refusal(
        reason,
        where or ("toplevel" if client.transaction.queue is None else "multi"),
        what,
        user,
        describe(client, context.now_ms, argv),
        context.now_ms,
        context.now_ms,
    )
    server.accounts.acl_log.add(refusal, count_max=server.config.acllog_max_len)
