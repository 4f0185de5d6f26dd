"""The differential machine: hypothesis draws sequences for a duel of two servers."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from differential.duel import POPULATED, Duel, Mismatch
from differential.grammar import Request, requests
from differential.left_out import is_unfair
from differential.values import CLIENTS


class DifferentialMachine(RuleBasedStateMachine):
    """One sequence. `duel` is set by the test."""

    duel: ClassVar[Duel]
    steps_count: ClassVar[int] = 0
    sequences_count: ClassVar[int] = 0
    _has_failed = False

    def __init__(self) -> None:
        super().__init__()
        DifferentialMachine.sequences_count += 1
        self.duel.begin()

    @initialize(is_populated=st.integers(0, 3))
    def populate(self, is_populated: int) -> None:
        """Three of four sequences begin with some streams."""
        for request in POPULATED if is_populated else []:
            self.duel.step(CLIENTS[0], request)

    @rule(client=st.sampled_from(("a", "a", *CLIENTS)), request=requests())
    def step(self, client: str, request: Request) -> None:
        """One request of one client."""
        if is_unfair(request):
            return
        DifferentialMachine.steps_count += 1
        try:
            self.duel.step(client, request)
        except Mismatch:
            self._has_failed = True
            raise

    def teardown(self) -> None:
        """See `Duel.end`."""
        if not self._has_failed:
            self.duel.end()
