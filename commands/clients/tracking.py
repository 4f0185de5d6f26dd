"""Client-side caching: remembers the keys that clients may have cached, and sends invalidations when they change.

In the default mode the table remembers each key that a tracking client reads, until the key changes once. In
broadcasting mode nothing is remembered. A client gets the keys with one of its prefixes that changed in one turn of the
loop, together, as far as its user may read them. The user's rules at that moment count, also if the client redirects to
another one. As in Redis 8.10.2, keys are sent without their database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ...protocol.replies import Push
from ...store.events import EXPIRED, Event
from ..core.directives import Directives
from ..core.lookup import named_row
from ..core.table import Trait
from .client import Client
from .courier import Courier
from .tracking_mode import TrackingMode

KEEPS_CACHING_CHOICE: Final = Trait.KEEPS_CACHING_CHOICE.value

# Bytes of a key in the table, without the key itself, as measured over a hundred thousand keys of one reader each.
TRACKED_KEY_SIZE: Final = 340
# Bytes of each reader of a key.
TRACKED_ITEM_SIZE: Final = 32
# Bytes of a prefix, without the prefix itself, as measured over a hundred thousand prefixes of one client each.
PREFIX_SIZE: Final = 400

# A null on the wire, by protocol.
NULLS: Final = {2: (b"$-1\r\n",), 3: (b"_\r\n",)}
# The channel on which a RESP2 client gets the invalidations of clients that redirect to it.
CHANNEL: Final = b"__redis__:invalidate"


@dataclass(slots=True)
class Broadcast:
    """The clients of one prefix, and the changes to send to them at the end of this turn."""

    clients: dict[Client, None] = field(default_factory=dict)
    # The client that changed each key last; None if the key expired.
    changes: dict[bytes, Client | None] = field(default_factory=dict)


class Tracking:
    """The table of all tracking clients.

    It calls `refresh_clients` when the clients have changed to whom others redirect, `refresh_listeners` when `is_on`
    may have changed, and `broadcast_soon` to have `send_broadcasts` called at the end of this turn of the loop.
    """

    def __init__(
        self,
        courier: Courier,
        config: Directives,
        *,
        refresh_clients: Callable[[], None],
        refresh_listeners: Callable[[], None],
        broadcast_soon: Callable[[], None],
    ) -> None:
        self._courier = courier
        self._config = config
        self._refresh_clients = refresh_clients
        self._refresh_listeners = refresh_listeners
        self._broadcast_soon = broadcast_soon
        # Tracked clients by ID.
        self.clients: dict[int, Client] = {}
        # The number of clients that redirect to each client, by ID.
        self.receivers: Counter[int] = Counter()
        # The IDs of the clients that read each key. Clients that are no longer tracked, or were closed, stay until the
        # key changes.
        self.table: dict[bytes, set[int]] = {}
        # Sum of the sizes of all sets of the table.
        self.items_count = 0
        # Bytes of the keys of the table.
        self.keys_size = 0
        # Broadcasts by prefix; each has clients.
        self.broadcasts: dict[bytes, Broadcast] = {}
        # The number of prefixes of each length: a change needs one lookup per length.
        self._prefix_lengths: Counter[int] = Counter()
        # Prefixes with changes that were not sent yet.
        self._due_prefixes: dict[bytes, None] = {}
        # Keys of invalidations that the running client gets after its reply; None is all keys.
        self.own_changes: list[bytes | None] = []
        # Whether a script is running. Its writes are no client's own, as in Redis: NOLOOP of a broadcast skips none.
        self.is_in_script = False
        # The mode of the running client before its command ended tracking: it still gets its own changes.
        self._mode_before: TrackingMode | None = None

    # -- who is tracked --------------------------------------------------------------------------

    def start(self, client: Client, mode: TrackingMode) -> None:
        """Track a client, or change its mode; it keeps its present prefixes."""
        if client.tracking is not None:
            mode.prefixes = client.tracking.prefixes | mode.prefixes
            mode.has_caching_choice = client.tracking.has_caching_choice
            self._end_redirection(client.tracking)
        if mode.redirect_id:
            self.receivers[mode.redirect_id] += 1
            self._refresh_clients()
        client.tracking = mode
        client.is_redirect_broken = False
        for prefix in mode.prefixes:
            self._broadcast_of(prefix).clients[client] = None
        mode.prefixes_size = sum(map(len, mode.prefixes)) + len(mode.prefixes) * PREFIX_SIZE
        self.clients[client.id] = client
        self._refresh_listeners()

    def stop(self, client: Client) -> None:
        """Stop tracking the client."""
        if client.tracking is None:
            return
        for prefix in client.tracking.prefixes:
            del self.broadcasts[prefix].clients[client]
            if not self.broadcasts[prefix].clients:
                self._forget_prefix(prefix)
        self._end_redirection(client.tracking)
        if self.own_changes and client is self._courier.running:
            self._mode_before = client.tracking
        client.tracking = None
        client.is_redirect_broken = False
        del self.clients[client.id]
        self._refresh_listeners()

    def _broadcast_of(self, prefix: bytes) -> Broadcast:
        broadcast = self.broadcasts.get(prefix)
        if broadcast is None:
            broadcast = self.broadcasts[prefix] = Broadcast()
            self._prefix_lengths[len(prefix)] += 1
        return broadcast

    def _forget_prefix(self, prefix: bytes) -> None:
        del self.broadcasts[prefix]
        self._due_prefixes.pop(prefix, None)
        self._prefix_lengths[len(prefix)] -= 1
        if not self._prefix_lengths[len(prefix)]:
            del self._prefix_lengths[len(prefix)]

    def _end_redirection(self, mode: TrackingMode) -> None:
        if mode.redirect_id:
            self.receivers[mode.redirect_id] -= 1
            if not self.receivers[mode.redirect_id]:
                del self.receivers[mode.redirect_id]
            self._refresh_clients()

    @staticmethod
    def clear_caching_choice(client: Client, argv: list[bytes]) -> None:
        """CLIENT CACHING applies to the next command or transaction; further CLIENT commands do not count."""
        mode = client.tracking
        if mode is None or not mode.has_caching_choice or client.blocked is not None:
            return
        row = named_row(argv)
        keeps_choice = row is not None and bool(row.trait_bits & KEEPS_CACHING_CHOICE)
        mode.has_caching_choice = client.transaction.queue is not None or keeps_choice

    @property
    def is_on(self) -> bool:
        """Whether changes may have to be sent, or keys are remembered. As in Redis, keys stay in the table until
        they change, even without tracked clients.
        """
        return bool(self.clients or self.table)

    # -- what they hold --------------------------------------------------------------------------

    def remember(self, client: Client, keys: Iterable[bytes]) -> None:
        """Remember that the client has read these keys. Beyond `tracking-table-max-keys`, the oldest keys are
        invalidated and dropped.
        """
        table = self.table
        for key in keys:
            readers = table.get(key)
            if readers is None:
                readers = table[key] = set()
                self.keys_size += len(key)
            if client.id not in readers:
                readers.add(client.id)
                self.items_count += 1
        self.forget_oldest()

    def forget_oldest(self) -> None:
        """Invalidate and drop the keys beyond `tracking-table-max-keys`."""
        keys_max = self._config.tracking_table_max_keys
        while keys_max and len(self.table) > keys_max:
            self._notify_readers(next(iter(self.table)))

    def note_change(self, key: bytes, event: Event | None) -> None:
        """Notify the clients that may have cached a changed key; broadcasts are sent at the end of the turn."""
        if self.broadcasts:
            self._note_broadcasts(key, None if event is EXPIRED or self.is_in_script else self._courier.running)
        if key in self.table:
            self._notify_readers(key)

    def note_flush(self) -> None:
        """A database was emptied: invalidate all keys of all databases, as in Redis."""
        self.table.clear()
        self.items_count = self.keys_size = 0
        for client in list(self.clients.values()):
            assert client.tracking is not None
            self._send_now_or_later(client, client.tracking, None)
        if not self.is_on:
            self._refresh_listeners()

    @property
    def memory_size(self) -> int:
        """Size of the table."""
        return len(self.table) * TRACKED_KEY_SIZE + self.items_count * TRACKED_ITEM_SIZE + self.keys_size

    def _notify_readers(self, key: bytes) -> None:
        readers = self.table.pop(key)
        self.items_count -= len(readers)
        self.keys_size -= len(key)
        for client_id in sorted(readers):
            client = self.clients.get(client_id)
            mode = client.tracking if client is not None else None
            if client is None or mode is None or mode.is_broadcast:
                continue
            if not (mode.no_loop and client is self._courier.running):
                self._send_now_or_later(client, mode, key)
        if not self.is_on:
            self._refresh_listeners()

    def _note_broadcasts(self, key: bytes, writer: Client | None) -> None:
        for length in self._prefix_lengths:
            prefix = key[:length]
            broadcast = self.broadcasts.get(prefix) if length <= len(key) else None
            if broadcast is not None:
                broadcast.changes[key] = writer
                if not self._due_prefixes:
                    self._broadcast_soon()
                self._due_prefixes[prefix] = None

    # -- telling ---------------------------------------------------------------------------------

    def send_own_changes(self, client: Client) -> None:
        """Send the running client its own changes, after its command has ended."""
        changes, self.own_changes = self.own_changes, []
        mode, self._mode_before = client.tracking or self._mode_before, None
        if mode is None:
            return
        for key in changes:
            self._send(client, mode, None if key is None else [key])

    def send_before_reply(self) -> None:
        """Send the running client all changes so far, including its own, before its reply."""
        courier, running = self._courier, self._courier.running
        courier.running = None
        if running is not None:
            courier.deliver_now(running)
            self.send_own_changes(running)
        self.send_broadcasts()
        courier.running = running

    def send_broadcasts(self) -> None:
        """Send one message for each prefix at the end of the turn, with the keys in order."""
        due_prefixes, self._due_prefixes = sorted(self._due_prefixes), {}
        for broadcast in [self.broadcasts[prefix] for prefix in due_prefixes]:
            changes, broadcast.changes = sorted(broadcast.changes.items(), key=lambda change: change[0]), {}
            for client in list(broadcast.clients):
                mode = client.tracking
                assert mode is not None
                may_read = client.user.may_read
                keys = [key for key, writer in changes if may_read(key) and not (mode.no_loop and writer is client)]
                if keys:
                    self._send(client, mode, keys)

    def _send_now_or_later(self, client: Client, mode: TrackingMode, key: bytes | None) -> None:
        if client is self._courier.running:
            self.own_changes.append(key)
        else:
            self._send(client, mode, None if key is None else [key])

    def _send(self, client: Client, mode: TrackingMode, keys: list[bytes] | None) -> None:
        """Send the keys (None: all) to the client or its redirection; the redirection may be broken."""
        courier = self._courier
        # Redis writes the null of the client, even to one that uses another protocol.
        told = NULLS[client.protocol] if keys is None else keys
        receiver: Client | None = client
        if mode.redirect_id:
            receiver = courier.find(mode.redirect_id)
        if receiver is None:
            client.is_redirect_broken = True
            if client.protocol == 3:
                courier.deliver((client,), Push([b"tracking-redir-broken", mode.redirect_id]))
        elif receiver.protocol == 3:
            courier.deliver((receiver,), Push([b"invalidate", told]))
        elif mode.redirect_id and receiver.is_subscriber:
            courier.deliver((receiver,), Push([b"message", CHANNEL, told]))
