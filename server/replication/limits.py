"""Limits of replicas: the size of what they still have to read, and the time without a sign of life."""

from __future__ import annotations

import logging

from ...commands.clients.replica import ReplicaState
from ...replication.backlog import Backlog
from ..configuration.config import Config
from ..reports.stats import Stats
from .link import Link
from .sync_log import name_of

logger = logging.getLogger(__name__)


class LinkLimits:
    """Closes the replicas of one server that read too slowly, or not at all. Times are Unix ms, sizes are bytes."""

    def __init__(self, config: Config, stats: Stats) -> None:
        self._config = config
        self._stats = stats

    def check_life(self, links: list[Link], now_ms: int) -> None:
        """Once a second: show waiting replicas that the server lives, and close those that do not move."""
        for link in list(links):
            self._check_life(link, now_ms)

    def _check_life(self, link: Link, now_ms: int) -> None:
        timeout_ms = self._config.repl_timeout * 1000
        state = link.replica.state
        if link.has_moved():
            link.moved_ms = now_ms
        if state is ReplicaState.WAITING:
            link.write(b"\n")
        elif state is ReplicaState.SENDING:
            is_silent = now_ms - link.moved_ms > timeout_ms
            self._close_if(link, is_silent, "Disconnecting timedout replica (full sync)")
        elif not link.replica.is_plain:
            is_silent = now_ms - link.replica.confirmed_ms > timeout_ms
            self._close_if(link, is_silent, "Disconnecting timedout replica (streaming sync)")

    @staticmethod
    def _close_if(link: Link, is_wanted: bool, reason: str) -> None:
        if is_wanted:
            logger.warning("%s: %s", reason, name_of(link.replica, link.peer.client))
            link.close()

    def check_sizes(self, links: list[Link], backlog: Backlog, now_ms: int) -> None:
        """Close the replicas that have too much of the backlog to read (`client-output-buffer-limit replica`)."""
        for link in list(links):
            if self._is_over_limit(link, backlog, now_ms):
                self._stats.output_buffer_limit_disconnections += 1
                logger.warning(
                    "Replica %s closed for overcoming of output buffer limits.",
                    name_of(link.replica, link.peer.client),
                )
                link.close()

    def _is_over_limit(self, link: Link, backlog: Backlog, now_ms: int) -> bool:
        """Whether a replica has too much to read. As in Redis, it may always have as much as the backlog is large."""
        if link.replica.state is ReplicaState.WAITING:
            return False
        hard_size, soft_size, soft_s = self._config.buffer_limits[b"slave"]
        size = backlog.end - link.position
        if hard_size and size >= max(hard_size, backlog.size):
            return True
        if not soft_size or size < max(soft_size, backlog.size):
            link.soft_since_ms = None
            return False
        if link.soft_since_ms is None:
            link.soft_since_ms = now_ms
        return now_ms - link.soft_since_ms > soft_s * 1000
