"""Evicting keys until the dataset is within `maxmemory` again, before a command is run, and in the periodic work.

A replica evicts nothing unless `replica-ignore-maxmemory` is off, and nothing is evicted while a pause keeps the data
as they are, during a load, or within a transaction or a script. Source: performEvictions of Redis 8.10.2.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter_ns
from typing import Final

from ...commands.execution.context import Context
from ...protocol.packing import pack_command
from ...store.events import EVICTED
from ...store.key_uses import UseRules
from ..configuration.config import Config
from ..reports.memory import Memory
from ..reports.stats import Stats
from .candidates import Candidates
from .policy import Policy

# Time of a cycle per step of `maxmemory-eviction-tenacity`, up to the default; after that it grows by a share.
STEP_NS: Final = 50_000
DEFAULT_TENACITY: Final = 10
TENACITY_MAX: Final = 100
GROWTH: Final = 1.15

# Keys that are evicted between two looks at the clock, as in Redis.
COUNT_AT_ONCE: Final = 16


def time_limit_ns(tenacity: int) -> float:
    """How long a cycle may take with this `maxmemory-eviction-tenacity`."""
    if tenacity <= DEFAULT_TENACITY:
        return STEP_NS * tenacity
    if tenacity < TENACITY_MAX:
        return float(STEP_NS * DEFAULT_TENACITY * GROWTH ** (tenacity - DEFAULT_TENACITY))
    return float("inf")


class Eviction:
    """The evictions of one server. `log` takes the records of deletions, each a unit of its own. `continue_soon` has
    `run` called again by the loop.
    """

    def __init__(
        self,
        config: Config,
        context: Context,
        memory: Memory,
        stats: Stats,
        *,
        log: Callable[[tuple[int, bytes]], None],
        may_evict: Callable[[], bool],
        continue_soon: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._memory = memory
        self._stats = stats
        self._log = log
        self._may_evict = may_evict
        self.continue_soon = continue_soon
        self.candidates = Candidates(context.store.databases, Random())
        self._policy = Policy(b"noeviction")
        # Whether the last cycle found no key to evict. The next search waits for the periodic work.
        self._is_exhausted = False
        for name in ("maxmemory-policy", "lfu-log-factor", "lfu-decay-time", "evict-pending-streams"):
            config.on_change(name, lambda value: self.configure())
        self.configure()

    def configure(self) -> None:
        """Apply the directives."""
        config, context = self._config, self._context
        policy = Policy(config.maxmemory_policy)
        if policy.use_kind is not self._policy.use_kind:
            context.record_uses(
                None if policy.use_kind is None else UseRules(policy.use_kind, context.server.stats.started_ms)
            )
        rules = context.use_rules
        if rules is not None:
            rules.log_factor, rules.decay_minutes = config.lfu_log_factor, config.lfu_decay_time
        self._policy = policy
        self._is_exhausted = self._memory.is_evicting = False
        self.candidates.configure(policy, with_pending=config.evict_pending_streams)

    def run(self, now_ms: int) -> None:
        """Evict keys if the limit is exceeded, until it no longer is, or the time of a cycle is over. What is left over
        then follows soon."""
        if not self._may_evict():
            return
        is_exceeded = self._memory.is_exceeded
        if is_exceeded and self._policy.evicts and not self._is_exhausted:
            started_ns = perf_counter_ns()
            is_exceeded = not self._evict(now_ms, started_ns)
            self._context.latency.note("eviction-cycle", perf_counter_ns() - started_ns, now_ms)
        self._stats.note_exceeded(is_exceeded, perf_counter_ns())

    def cron(self, now_ms: int) -> None:
        """Search again if the last cycle found nothing, and evict what no command has caused to be evicted."""
        self._is_exhausted = False
        self.run(now_ms)

    def _evict(self, now_ms: int, started_ns: int) -> bool:
        """Evict keys until the limit is no longer exceeded. Returns whether that is so."""
        memory, stats, config = self._memory, self._stats, self._config
        end_ns = started_ns + time_limit_ns(config.maxmemory_eviction_tenacity)
        name = b"UNLINK" if config.lazyfree_lazy_eviction else b"DEL"
        evicted_count = 0
        memory.is_evicting = True
        while memory.is_exceeded:
            chosen = self.candidates.choose(config.maxmemory_samples, now_ms)
            if chosen is None:
                memory.is_evicting = False
                self._is_exhausted = self.candidates.has_refused
                return False
            db, key = chosen
            began_ns = perf_counter_ns()
            db.delete(key, EVICTED)
            ended_ns = perf_counter_ns()
            self._context.latency.note("eviction-del", ended_ns - began_ns, now_ms)
            stats.evicted_keys += 1
            self._log((db.index, pack_command((name, key))))
            evicted_count += 1
            if evicted_count % COUNT_AT_ONCE == 0 and ended_ns > end_ns:
                self.continue_soon()
                return False
        return True
