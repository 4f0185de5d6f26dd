"""The end of a transaction, also without EXEC: its queue and its watched keys are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store.errors import ReplyError

if TYPE_CHECKING:
    from ...store.database import Store
    from ..clients.client import Client


class ExecAborted(ReplyError):
    """EXEC of a transaction that cannot run."""

    prefix = b"EXECABORT"

    def __init__(self, reason: bytes | None = None) -> None:
        because = b"because of previous errors." if reason is None else b"because of: " + reason
        super().__init__(b"Transaction discarded " + because)


def unwatch_all(store: Store, client: Client) -> None:
    """Forget every watched key, and whether one has changed."""
    transaction = client.transaction
    if not transaction.watched:
        return
    for db_index, key in transaction.watched:
        store.databases[db_index].unwatch(key, transaction)
    transaction.watched = {}
    transaction.watched_size = 0
    transaction.dirty = transaction.shows_no_keys = False


def discard(store: Store, client: Client) -> None:
    """End MULTI and WATCH, if the client is in them."""
    unwatch_all(store, client)
    client.transaction.end()
