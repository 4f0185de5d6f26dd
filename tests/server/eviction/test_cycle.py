"""Which keys are evicted when memory is short, and what is logged, counted and announced then."""

from __future__ import annotations

import random

import pytest

from headrace.store.image import StoreImage
from support.inprocess import Caller, Rig

REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
SIZE = 2000


def rig_with(policy: str, **directives: object) -> tuple[Rig, Caller]:
    """A server with this policy whose choices are the same in each run."""
    rig = Rig(maxmemory_policy=policy.encode(), **directives)
    rig.server.eviction.candidates.random = random.Random(7)
    return rig, rig.connect()


def fill(caller: Caller, *keys: str, options: str = "") -> None:
    """Add a string at each key, a second apart."""
    for key in keys:
        assert caller.call(f"SET {key} {'x' * SIZE} {options}") == b"+OK\r\n"
        caller.rig.clock.advance(1000)


def evict(rig: Rig, count: int) -> list[str]:
    """Let so many keys be evicted. Returns the records of that, in order."""
    before = len(rig.log.units)
    rig.config.set_many([(b"maxmemory", b"%d" % (rig.server.memory.measure() - (2 * count - 1) * SIZE // 2))])
    rig.server.eviction.run(rig.clock())
    rig.config.set_many([(b"maxmemory", b"0")])
    return [record.decode() for unit in rig.log.units[before:] for record in unit]


def counter(caller: Caller, key: str) -> int:
    return int(caller.call(f"OBJECT FREQ {key}")[1:])


def stat(rig: Rig, name: str) -> int:
    return int(rig.server.context.server.reports.info([b"stats"]).split(name.encode() + b":")[1].split(b"\r\n")[0])


# -- which keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lazy", "name"), [(False, "DEL"), (True, "UNLINK")])
def test_the_key_that_expires_first_is_evicted_first(lazy: bool, name: str) -> None:
    rig, caller = rig_with("volatile-ttl", lazyfree_lazy_eviction=lazy)
    fill(caller, "p")
    for key, seconds in (("a", 300), ("b", 100), ("c", 200)):
        fill(caller, key, options=f"EX {seconds}")
    assert evict(rig, 2) == [f"{name} b", f"{name} c"]
    assert caller.call("EXISTS p a b c") == b":2\r\n"


@pytest.mark.parametrize(("policy", "expected"), [("allkeys-lru", "DEL p"), ("volatile-lru", "DEL b")])
def test_the_key_that_was_not_used_for_the_longest_time_is_evicted_first(policy: str, expected: str) -> None:
    rig, caller = rig_with(policy)
    fill(caller, "p")
    fill(caller, "a", "b", "c", options="EX 900")
    caller.call("GET a", "TTL b", "EXISTS b", "TYPE b", "OBJECT ENCODING b")
    rig.clock.advance(3000)
    assert caller.call("OBJECT IDLETIME a", "OBJECT IDLETIME b") == b":3\r\n:5\r\n"
    assert evict(rig, 1) == [expected]


def test_values_of_all_types_are_compared_by_their_last_use() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "s")
    caller.call(f"XADD x 1-1 f {'x' * SIZE}")
    rig.clock.advance(1000)
    caller.call(f"SADD t {'x' * SIZE}")
    rig.clock.advance(1000)
    caller.call("GET s")
    assert evict(rig, 1) + evict(rig, 1) == ["DEL x", "DEL t"]


@pytest.mark.parametrize(("policy", "expected"), [("allkeys-lfu", "DEL p"), ("volatile-lfu", "DEL b")])
def test_the_key_that_is_used_least_often_is_evicted_first(policy: str, expected: str) -> None:
    rig, caller = rig_with(policy, lfu_log_factor=0)
    fill(caller, "p")
    fill(caller, "a", "b", "c", options="EX 900")
    caller.call("GET a", "GET a", "GET b", "STRLEN c", "GET c", "GET c")
    assert [counter(caller, key) for key in "pabc"] == [5, 7, 6, 8]
    assert evict(rig, 1) == [expected]


@pytest.mark.parametrize(("policy", "expected"), [("allkeys-lrm", "DEL p"), ("volatile-lrm", "DEL b")])
def test_the_key_that_was_not_modified_for_the_longest_time_is_evicted_first(policy: str, expected: str) -> None:
    rig, caller = rig_with(policy)
    fill(caller, "p")
    fill(caller, "a", "b", "c", options="EX 900")
    caller.call("APPEND a x", "GET p", "GET b", "APPEND c y")
    rig.clock.advance(3000)
    assert caller.call("OBJECT IDLETIME a", "OBJECT IDLETIME b") == b":3\r\n:5\r\n"
    assert evict(rig, 1) == [expected]


@pytest.mark.parametrize(("policy", "others_count"), [("allkeys-random", 20), ("volatile-random", 0)])
def test_a_random_policy_evicts_any_key_that_it_concerns(policy: str, others_count: int) -> None:
    found = set()
    for seed in range(40):
        rig, caller = rig_with(policy)
        rig.server.eviction.candidates.random = random.Random(seed)
        fill(caller, *(f"p{number}" for number in range(20)))
        fill(caller, *(f"v{number}" for number in range(20)), options="EX 900")
        found.update(evict(rig, 5))
    volatile = [record for record in found if record.startswith("DEL v")]
    assert len(volatile) == 20
    assert len(found) - len(volatile) == others_count


def test_random_policies_take_the_databases_in_turn() -> None:
    rig, caller = rig_with("allkeys-random")
    for index in (0, 3):
        caller.call(f"SELECT {index}")
        fill(caller, *(f"k{number}" for number in range(5)))
    rig.log.clear()
    evict(rig, 4)
    assert rig.log.databases == [0, 3, 0, 3]


def test_more_samples_come_nearer_to_the_best_key() -> None:
    ages = []
    for samples_count in (1, 5, 64):
        rig, caller = rig_with("allkeys-lru", maxmemory_samples=samples_count)
        fill(caller, *(f"k{number}" for number in range(300)))
        ages.append(sum(int(record[5:]) for _ in range(30) for record in evict(rig, 1)))
    assert ages[0] > 2 * ages[1] > 2 * ages[2]


def test_counters_grow_as_slowly_as_the_factor_says() -> None:
    """`lfu-log-factor` applies at once."""
    rig, caller = rig_with("allkeys-lfu")
    fill(caller, "k")
    rules = rig.server.context.use_rules
    assert rules is not None
    rules.random = random.Random(3).random
    caller.call(*["GET k"] * 50)
    slow = counter(caller, "k")
    assert caller.call("CONFIG SET lfu-log-factor 0") == b"+OK\r\n"
    caller.call(*["GET k"] * 50)
    assert (slow < 12, counter(caller, "k")) == (True, slow + 50)


def test_counters_decay_with_the_minutes() -> None:
    """`lfu-decay-time` applies at once."""
    rig, caller = rig_with("allkeys-lfu")
    fill(caller, "k")
    rig.clock.advance(180_000)
    assert counter(caller, "k") == 2
    assert caller.call("CONFIG SET lfu-decay-time 3") == b"+OK\r\n"
    assert counter(caller, "k") == 4


# -- streams with pending entries --------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-lrm", "allkeys-random", "volatile-ttl"])
def test_a_stream_with_pending_entries_stays(policy: str) -> None:
    """Unless `evict-pending-streams` is on."""
    rig, caller = rig_with(policy)
    caller.call(f"XADD x 1-1 f {'x' * SIZE}", "XGROUP CREATE x g 0", "EXPIRE x 100")
    caller.call("XREADGROUP GROUP g c STREAMS x >")
    rig.clock.advance(1000)
    fill(caller, "k", options="EX 900")
    assert evict(rig, 2) == ["DEL k"]
    assert caller.call("CONFIG SET maxmemory 1", "SET n v") == b"+OK\r\n" + REFUSED
    assert caller.call("XACK x g 1-1", "CONFIG SET maxmemory 0") == b":1\r\n+OK\r\n"
    rig.server.eviction.cron(rig.clock())
    assert evict(rig, 1) == ["DEL x"]


def test_a_stream_with_pending_entries_is_evicted_if_it_may_be() -> None:
    rig, caller = rig_with("allkeys-lru", evict_pending_streams=True)
    caller.call(f"XADD x 1-1 f {'x' * SIZE}", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >")
    assert evict(rig, 1) == ["DEL x"]


def test_a_key_among_many_streams_with_pending_entries_is_found() -> None:
    rig, caller = rig_with("allkeys-lru")
    for number in range(300):
        caller.call(f"XADD x{number} 1-1 f v", f"XGROUP CREATE x{number} g 0")
        caller.call(f"XREADGROUP GROUP g c STREAMS x{number} >")
    fill(caller, "k")
    assert evict(rig, 1) == ["DEL k"]


# -- when --------------------------------------------------------------------------------------------


def test_keys_are_evicted_before_the_command_that_needs_memory() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a", "b")
    caller.call(f"CONFIG SET maxmemory {rig.server.memory.measure() - 1}")
    rig.log.clear()
    assert caller.call("SET c v") == b"+OK\r\n"
    assert rig.log.units == [[b"DEL a"], [b"SET c v"]]


def test_a_read_evicts_as_well() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a", "b")
    caller.call(f"CONFIG SET maxmemory {rig.server.memory.measure() - 1}")
    assert caller.call("GET a") == b"$-1\r\n"


def test_nothing_is_evicted_within_a_transaction_or_a_script() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a")
    caller.call(f"CONFIG SET maxmemory {rig.server.memory.measure() + SIZE // 2}")
    caller.call("MULTI", f"SET b {'x' * SIZE}", f"SET c {'x' * SIZE}", "DBSIZE")
    assert caller.call("EXEC") == b"*3\r\n+OK\r\n+OK\r\n:3\r\n"
    assert caller.call("DBSIZE") == b":1\r\n"


def test_without_a_key_to_evict_commands_are_refused() -> None:
    _, caller = rig_with("volatile-lru")
    fill(caller, "a")
    assert caller.call("CONFIG SET maxmemory 1", "SET b v", "GET a")[5:].startswith(REFUSED + b"$")


def test_noeviction_evicts_nothing() -> None:
    rig, caller = rig_with("noeviction")
    fill(caller, "a")
    assert evict(rig, 1) == []
    assert caller.call("CONFIG SET maxmemory 1", "SET b v", "GET a")[5:].startswith(REFUSED + b"$")


def test_nothing_is_evicted_during_a_pause() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a")
    caller.call("CLIENT PAUSE 1000 WRITE")
    assert evict(rig, 1) == []
    caller.call("CLIENT UNPAUSE")
    assert evict(rig, 1) == ["DEL a"]


@pytest.mark.parametrize(("ignores", "records"), [(True, []), (False, ["DEL a"])])
def test_a_replica_evicts_only_if_maxmemory_applies_to_it(ignores: bool, records: list[str]) -> None:
    rig, caller = rig_with("allkeys-lru", replica_ignore_maxmemory=ignores)
    fill(caller, "a")
    rig.server.following.address = (b"127.0.0.1", 1)
    assert evict(rig, 1) == records


def test_a_cycle_ends_after_its_time() -> None:
    """`maxmemory-eviction-tenacity` 0 leaves time for the keys of one look at the clock; what remains comes later."""
    rig, caller = rig_with("allkeys-lru", maxmemory_eviction_tenacity=0)
    fill(caller, *(f"k{number}" for number in range(40)))
    rig.config.set_many([(b"maxmemory", b"1")])
    continued: list[None] = []
    rig.server.eviction.continue_soon = lambda: continued.append(None)
    for left in (24, 8, 0):
        rig.server.eviction.run(rig.clock())
        assert len(rig.server.store.databases[0].keys) == left
    assert len(continued) == 2


def test_commands_are_not_refused_while_evicting_continues() -> None:
    _, caller = rig_with("allkeys-lru", maxmemory_eviction_tenacity=0)
    fill(caller, *(f"k{number}" for number in range(40)))
    assert caller.call("CONFIG SET maxmemory 1", "SET b v") == b"+OK\r\n+OK\r\n"


# -- what is seen of it ------------------------------------------------------------------------------


def test_evicted_keys_are_counted_and_are_no_changes() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a", "b")
    before = rig.server.changes_count
    evict(rig, 2)
    assert (stat(rig, "evicted_keys"), rig.server.changes_count - before) == (2, 0)
    caller.call("CONFIG RESETSTAT")
    assert stat(rig, "evicted_keys") == 0


def test_time_above_the_limit_is_measured() -> None:
    rig, _ = rig_with("noeviction")
    stats = rig.server.stats
    stats.note_exceeded(True, 1_000_000)
    stats.note_exceeded(True, 3_000_000)
    stats.note_exceeded(False, 8_000_000)
    stats.note_exceeded(False, 9_000_000)
    assert (stat(rig, "total_eviction_exceeded_time"), stat(rig, "current_eviction_exceeded_time")) == (7, 0)
    stats.note_exceeded(True, 0)
    assert stat(rig, "current_eviction_exceeded_time") > 0


def test_an_eviction_is_announced_after_the_key_has_changed() -> None:
    rig, caller = rig_with("allkeys-lru", notify_keyspace_events=b"Ke")
    fill(caller, "a")
    subscriber = rig.connect()
    subscriber.call("PSUBSCRIBE __key*")
    evict(rig, 1)
    assert subscriber.output().endswith(b"$16\r\n__keyspace@0__:a\r\n$7\r\nevicted\r\n")


def test_an_evicted_key_makes_transactions_fail_and_is_invalidated() -> None:
    rig, caller = rig_with("allkeys-lru")
    fill(caller, "a")
    tracker = rig.connect()
    tracker.call("HELLO 3", "CLIENT TRACKING ON", "GET a")
    caller.call("WATCH a", "MULTI", "PING")
    evict(rig, 1)
    assert tracker.output() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"
    assert caller.call("EXEC") == b"*-1\r\n"


def test_evictions_are_events_of_the_latency_monitor() -> None:
    rig, caller = rig_with("allkeys-lru", maxmemory_eviction_tenacity=100)
    fill(caller, "a")
    monitor = rig.server.context.latency
    monitor.threshold_ms = -1  # each event takes longer
    evict(rig, 1)
    assert list(monitor.histories) == ["eviction-del", "eviction-cycle"]


def test_object_refuses_what_the_policy_does_not_record() -> None:
    _, caller = rig_with("allkeys-lfu")
    fill(caller, "a")
    assert b"An LFU maxmemory policy is selected, idle time not tracked." in caller.call("OBJECT IDLETIME a")
    caller.call("CONFIG SET maxmemory-policy volatile-lru")
    assert b"An LFU maxmemory policy is not selected, access frequency not" in caller.call("OBJECT FREQ a")


def test_a_client_with_no_touch_is_not_recorded() -> None:
    _, caller = rig_with("allkeys-lru")
    fill(caller, "a")
    caller.call("CLIENT NO-TOUCH ON", "GET a")
    assert caller.call("OBJECT IDLETIME a") == b":1\r\n"
    assert caller.call("TOUCH a", "OBJECT IDLETIME a") == b":1\r\n:0\r\n"


def test_a_client_with_no_touch_begins_the_records_of_new_keys() -> None:
    rig, caller = rig_with("allkeys-lru")
    rig.clock.advance(60_000)
    caller.call("CLIENT NO-TOUCH ON", "SET a v", "SADD t m")
    rig.clock.advance(2000)
    caller.call("SET a w", "SMEMBERS t")
    assert caller.call("OBJECT IDLETIME a", "OBJECT IDLETIME t") == b":2\r\n:2\r\n"


def test_a_policy_without_records_drops_them() -> None:
    rig, caller = rig_with("allkeys-lfu")
    fill(caller, "a")
    caller.call("CONFIG SET maxmemory-policy volatile-ttl")
    assert rig.server.store.databases[0].uses is None


# -- records of uses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["MOVE a 1", "COPY a a DB 1"])
def test_a_key_that_arrives_in_another_database_begins_anew(line: str) -> None:
    rig, caller = rig_with("allkeys-lfu", lfu_log_factor=0)
    fill(caller, "a")
    caller.call("GET a", line, "SELECT 1")
    assert counter(caller, "a") == 5
    assert b"a" in rig.server.store.databases[1].uses


@pytest.mark.parametrize("line", ["DEL a", "UNLINK a", "GETDEL a", "RENAME a b", "FLUSHALL", "PEXPIRE a -1"])
def test_the_record_of_a_removed_key_is_dropped(line: str) -> None:
    rig, caller = rig_with("allkeys-lfu")
    fill(caller, "a")
    caller.call(line)
    assert b"a" not in rig.server.store.databases[0].uses
    fill(caller, "a")
    assert counter(caller, "a") == 5


def test_the_record_of_a_value_without_members_is_dropped() -> None:
    rig, caller = rig_with("allkeys-lfu")
    caller.call("SADD t a", "SREM t a")
    assert len(rig.server.store.databases[0].uses) == 0


def test_swapped_databases_keep_their_records() -> None:
    _, caller = rig_with("allkeys-lfu", lfu_log_factor=0)
    fill(caller, "a")
    caller.call("GET a", "SWAPDB 0 1", "SELECT 1")
    assert counter(caller, "a") == 6


@pytest.mark.parametrize(
    ("policy", "option", "subcommand"), [("allkeys-lru", "IDLETIME", "IDLETIME"), ("allkeys-lfu", "FREQ", "FREQ")]
)
def test_records_are_in_the_file_of_the_dataset(policy: str, option: str, subcommand: str) -> None:
    rig, caller = rig_with(policy)
    shown = [f"OBJECT {subcommand} {key}" for key in "axt"]
    caller.call("SET s v", "XADD y 1-1 f v", "SADD u m")
    for key, source in (("a", b"s"), ("x", b"y"), ("t", b"u")):
        data = caller.call(f"DUMP {source.decode()}").split(b"\r\n", 1)[1][:-2]
        rig.dispatcher.execute(
            caller.session, [[b"RESTORE", key.encode(), b"0", data, option.encode(), b"200"]], rig.clock()
        )
        assert caller.output() == b"+OK\r\n"
    assert caller.call(*shown) == b":200\r\n" * 3
    images = {image.key: image.use for image in StoreImage(rig.server.store, now_ms=rig.clock())}
    assert {(images[key].idle_s, images[key].frequency) for key in (b"a", b"x", b"t")} == (
        {(200, None)} if option == "IDLETIME" else {(None, 200)}
    )


def test_a_script_uses_its_keys_once() -> None:
    _, caller = rig_with("allkeys-lfu", lfu_log_factor=0)
    fill(caller, "a")
    caller.call("EVAL \"return redis.call('GET', KEYS[1])\" 1 a")
    assert counter(caller, "a") == 6
