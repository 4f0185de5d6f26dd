"""Who is notified when a key changes, and in which order."""

from __future__ import annotations

import pytest

from headrace.store.events import DEL, EXPIRED, SET, XADD, XTRIM, Event
from headrace.store.observed import Observed, Watcher


@pytest.mark.parametrize("event", [XADD, XTRIM, EXPIRED, DEL, SET])
def test_caching_clients_are_notified_after_events_announced_first(event: Event) -> None:
    observed = Observed(0)
    heard: list[Event | bytes] = []
    observed.listen(
        on_change=lambda key, event: heard.append(key), on_event=lambda index, event, key: heard.append(event)
    )
    observed.touch(b"key", event)
    assert heard == ([event, b"key"] if event in (XADD, XTRIM, EXPIRED) else [b"key", event])


def test_nothing_is_reported_without_a_listener() -> None:
    observed = Observed(0)
    assert not observed.is_observed
    changes: list[tuple[bytes, Event | None]] = []
    watcher = Watcher()
    observed.listen(on_change=lambda key, event: changes.append((key, event)), on_event=None)
    observed.touch(b"key:0", XADD)
    assert (changes, observed.is_observed) == ([(b"key:0", XADD)], True)
    observed.listen(on_change=None, on_event=None)
    assert not observed.is_observed
    observed.watch(b"key:0", watcher)
    observed.watch(b"key:1", watcher)
    observed.unwatch(b"key:0", watcher)
    observed.unwatch(b"key:0", watcher)
    assert observed.is_observed
    observed.unwatch(b"key:1", watcher)
    assert (observed.is_observed, observed.watchers) == (False, {})
    observed.touch(b"key:0", XADD)
    assert (len(changes), watcher.dirty) == (1, False)


def test_unwatch_keeps_other_watchers() -> None:
    observed = Observed(0)
    one, other = Watcher(), Watcher()
    observed.watch(b"key:0", one)
    observed.watch(b"key:0", other)
    observed.unwatch(b"key:0", one)
    observed.touch(b"key:0")
    assert (one.dirty, other.dirty) == (False, True)
