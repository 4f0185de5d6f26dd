"""docs/compatibility.md: every command group of Redis, and which of its commands Headrace has.

python tools/compatibility.py the document

The commands of Headrace are in the command table. Those of Redis are listed here; a test compares the list with Redis.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from reference import difference_lines

from headrace import REDIS_VERSION
from headrace.commands.core.table import all_rows

# By group, as COMMAND DOCS of Redis has them; subcommands as `xgroup|create`.
COMMANDS_OF_REDIS: Final = {
    "stream": """
        xack xackdel xadd xautoclaim xcfgset xclaim xdel xdelex xgroup xgroup|create xgroup|createconsumer
        xgroup|delconsumer xgroup|destroy xgroup|help xgroup|setid xidmprecord xinfo xinfo|consumers xinfo|groups
        xinfo|help xinfo|stream xlen xnack xpending xrange xread xreadgroup xrevrange xsetid xtrim
    """,
    "string": """
        append decr decrby delex digest get getdel getex getrange getset incr incrby incrbyfloat increx lcs mget
        mset msetex msetnx psetex set setex setnx setrange strlen substr
    """,
    "generic": """
        copy del dump exists expire expireat expiretime keys migrate move object object|encoding object|freq
        object|help object|idletime object|refcount persist pexpire pexpireat pexpiretime pttl randomkey rename
        renamenx restore scan sort sort_ro touch ttl type unlink wait waitaof
    """,
    "transactions": """
        discard exec multi unwatch watch
    """,
    "pubsub": """
        psubscribe publish pubsub pubsub|channels pubsub|help pubsub|numpat pubsub|numsub pubsub|shardchannels
        pubsub|shardnumsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe
    """,
    "connection": """
        auth client client|caching client|getname client|getredir client|help client|id client|info client|kill
        client|list client|no-evict client|no-touch client|pause client|reply client|setinfo client|setname
        client|tracking client|trackinginfo client|unblock client|unpause echo hello ping quit reset select
    """,
    "server": """
        acl acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save
        acl|setuser acl|users acl|whoami backup backup|abort backup|cleanup backup|help backup|list backup|seal
        backup|start backup|status bgrewriteaof bgsave command command|count command|docs command|getkeys
        command|getkeysandflags command|help command|info command|list config config|get config|help
        config|resetstat config|rewrite config|set dbsize debug failover flushall flushdb hotkeys hotkeys|get
        hotkeys|help hotkeys|reset hotkeys|start hotkeys|stop info lastsave latency latency|doctor latency|graph
        latency|help latency|histogram latency|history latency|latest latency|reset lolwut memory memory|doctor
        memory|help memory|malloc-stats memory|purge memory|stats memory|usage module module|help module|list
        module|load module|loadex module|unload monitor psync replconf replicaof restore-asking role save shutdown
        slaveof slowlog slowlog|get slowlog|help slowlog|len slowlog|reset swapdb sync time trimslots
    """,
    "list": """
        blmove blmovem blmpop blpop brpop brpoplpush lindex linsert llen lmove lmovem lmpop lpop lpos lpush lpushx
        lrange lrem lset ltrim rpop rpoplpush rpush rpushx
    """,
    "hash": """
        hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex himport himport|discard
        himport|discardall himport|prepare himport|set hincrby hincrbyfloat hkeys hlen hmget hmset hpersist hpexpire
        hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals
    """,
    "set": """
        sadd scard sdiff sdiffcard sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop
        srandmember srem sscan sunion sunioncard sunionstore
    """,
    "sorted-set": """
        bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount
        zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem
        zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan
        zscore zunion zunionstore
    """,
    "array": """
        arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop
        arring arscan arseek arset
    """,
    "bitmap": """
        bitcount bitfield bitfield_ro bitop bitpos getbit setbit
    """,
    "hyperloglog": """
        pfadd pfcount pfdebug pfmerge pfselftest
    """,
    "geo": """
        geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch
        geosearchstore
    """,
    "module": """
        vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim
    """,
    "scripting": """
        eval eval_ro evalsha evalsha_ro fcall fcall_ro function function|delete function|dump function|flush
        function|help function|kill function|list function|load function|restore function|stats script script|debug
        script|exists script|flush script|help script|kill script|load
    """,
    "cluster": """
        asking cluster cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports
        cluster|countkeysinslot cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots
        cluster|forget cluster|getkeysinslot cluster|help cluster|info cluster|keyslot cluster|links cluster|meet
        cluster|migration cluster|myid cluster|myshardid cluster|nodes cluster|replicas cluster|replicate
        cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot cluster|shards cluster|slaves
        cluster|slot-stats cluster|slots cluster|syncslots readonly readwrite
    """,
}

# Groups without any command in Headrace, with the reason.
OUT_OF_SCOPE: Final = {
    "module": "There are no modules, and so no vector sets.",
}

# What is to be said of a group whose commands are all here.
NOTES: Final = {
    "generic": "`MIGRATE` is refused in transactions and scripts: it would wait for another server there, and all "
    "clients with it. Alone, it lets other clients be served.",
    "cluster": "All are refused, as by a Redis without `cluster-enabled`: there is no cluster.",
}

CLIENTS_NOTE: Final = (
    "`make test-clients` installs each, and tests it with a server. [clients.md](clients.md) has the libraries, and",
    "the projects that were tried.",
)

# By test module in tests/clients: the tested client, and what it is tested with.
CLIENTS: Final = {
    "test_howtos": ("redis-py, FastStream, taskiq", "the programs in docs/workers.md"),
    "test_redis_py": (
        "redis-py",
        "synchronous, RESP2 and RESP3: streams, pipelines, transactions, locks by SET and DELEX",
    ),
    "test_redis_py_pools": ("redis-py", "pools, retries, health checks"),
    "test_redis_py_scripts": (
        "redis-py",
        "`Lock` and `register_script`, synchronous and asyncio, alone and in pipelines",
    ),
    "test_redis_py_asyncio": (
        "redis-py, asyncio",
        "streams, transactions and locks, with reads that block while other tasks run",
    ),
    "test_redis_py_pushes": ("redis-py", "messages, keyspace notifications, MONITOR, client-side caching"),
    "test_secured": ("redis-py, redis-cli", "over TLS and the Unix socket, with users of their own"),
    "test_node": ("node-redis, ioredis", "both protocols, groups, pub/sub"),
    "test_faststream": ("FastStream, RedisBroker", "groups, batches, claiming by idle time, request and reply"),
    "test_sentinel": (
        "redis-py, FastStream, examples/worker.py",
        "the primary that Sentinels name, and a failover while they write and wait",
    ),
    "test_taskiq": ("taskiq-redis", "the stream broker delivers, acknowledges, and claims from dead workers"),
    "test_policies": (
        "FastStream, taskiq-redis",
        "unchanged, in groups with policies: redelivery, guards, dead letters",
    ),
    "test_walrus": ("walrus", "consumer groups over several streams, time series, containers, locks"),
    "test_job_queues": (
        "job queues for Python, Symfony Messenger",
        "tasks at once and later, retries, results: [clients.md](clients.md)",
    ),
    "test_redis_cli": (
        "redis-cli",
        "one command, the prompt, --pipe, --scan, --stat, --latency, --bigkeys, --memkeys, -3",
    ),
    "test_redis_benchmark": ("redis-benchmark", "its flags, and runs that end without an error"),
    "test_other_python_clients": ("coredis, valkey-glide", "groups, transactions, subscriptions, blocked reads"),
    "test_frameworks": ("frameworks for Python", "caches, locks, limits, messages, spans: [clients.md](clients.md)"),
    "test_node_libraries": (
        "libraries for Node",
        "adapters, sessions, limits, locks, caches: [clients.md](clients.md)",
    ),
    "test_other_languages": (
        "redis-rb, phpredis, Redis (Perl), hiredis, redigo",
        "groups, transactions, locks, scripts",
    ),
    "test_tools": (
        "redis-cli and redis-check-aof 7.0, redis-check-rdb, promtool, redis_exporter",
        "on the server, its log, snapshots and metrics",
    ),
    "test_monitoring_tools": ("redis_exporter, RedisInsight", "the calls that their documents list, replayed"),
}

# Differences that concern no single command.
BEYOND_ROWS: Final = """\
- `XADD .. MAXLEN ~` with `ACKED` is logged by the last ID that trimming reached, not by the resulting length: after a
  restart the same entries are gone, where Redis brings some back.
- ACL rules may name every command of Redis, also those that are not here; an ACL pattern without `~` (`%R`) is refused.
- Redis loses replies in three cases where Headrace sends them: the error of an `AUTH` that fails while earlier replies
  are unsent; the protocol error for a wrong length after `$` that arrives in a later packet than its request; and the
  replies to requests before a `POST` or `Host:`, which close the connection.
- `CLIENT TRACKING` remembers `tracking-table-max-keys` keys. Beyond that, Headrace forgets the key that was read the
  longest time ago, and Redis any key.
- `aof-use-rdb-preamble` is `no` by default, and the default save points apply only without an append-only file.
- `CONFIG SET appendonly no` and `appendfsync always` are refused while the disk refuses answered writes; Redis loses
  them.
- Snapshots and rewrites are made by the server itself, between requests, not by a forked child: they take longer than
  those of Redis, and need no second copy of the memory. `latest_fork_usec`, `total_forks` and the latency event `fork`
  are about taking the image of the dataset.
- `CLIENT LIST` always shows 0 for `qbuf-free` and `rbs`, because Headrace reserves no buffers for a client. Sizes in
  `MEMORY` and `INFO` are those of Python's objects. `INFO` has no figures about the event loop, which is that of a
  library (`eventloop_cycles`, `eventloop_duration_sum`, `instantaneous_eventloop_cycles_per_sec`,
  `instantaneous_eventloop_duration_usec`, `eventloop_cycles_with_clients_processing`), no `module`, and no sizes of
  strings (`db0_distrib_strings_sizes`), which would need a scan of all keys. It adds `headrace_version`,
  `python_version` and `unserved_calls`. `atomicvar_api` is `none`: only one thread touches data.
- `CONFIG REWRITE` adds no lines for save points, users and percentiles that are the default; Redis does.
- `CONFIG GET notify-keyspace-events` shows `n`, `o` and `c` after `A`; Redis hides them, and `CONFIG REWRITE`
  loses them.
- Lua scripts need the package lupa (`pip install '.[scripts]'`), and their source has 1 MiB at most:
  [scripts.md](scripts.md). So do the functions of libraries.
- A server can have replicas and be one: [replicas.md](replicas.md). There is no cluster, and there are no modules. A
  replica serves its old data until a new snapshot has been loaded completely. An attempt to follow a primary ends
  where that one has keys or commands of other types, or sends a request of more than 1 GiB, and is repeated later;
  `INFO` then has `master_link_error`.
- A stream with pending entries is never evicted, whatever the `maxmemory-policy`, unless `evict-pending-streams` is
  on. Under an LFU policy a command counts as one use of a key, also where Redis looks the key up twice (`SET` with
  `GET`, `XREAD`). `maxmemory` limits the memory of dataset and clients (`used_memory`), without the interpreter, some
  40 MB.
- A client's turn is some milliseconds long, and long ranges are made while they are sent. [limits.md](limits.md) has
  every limit, and how long other clients wait for large commands.
- Values are strings, streams, hashes, lists, sets and sorted sets; `rdb-skip-foreign-types yes` skips keys of other
  types in an RDB file, and `aof-skip-foreign-commands yes` their commands in a log.
- A stock `redis.conf` starts as it is. Directives of parts that Headrace does not have are ignored, and one line of the
  server log names them. One that decides what is kept or who gets in stops the start, and all such lines are listed
  at once: `cluster-enabled`, `loadmodule`, `preload-file`, `socket-mark-id`. `compat-config yes` ignores these as
  well, with a warning. `CONFIG GET` shows what was set. [redis.conf.example](../redis.conf.example) has all directives
  with an effect."""

INTRODUCTION: Final = f"""\
# Compatibility

Headrace replies to its commands as Redis {REDIS_VERSION} does, byte for byte: the tests send the same commands to both
and compare. All other commands get Redis' own unknown-command error. The first call of each command of Redis that is
not served is a warning in the server log with the client's address and name, since its program may wait for ever;
`INFO stats` (`unserved_calls`) and the metrics count all such calls.

This page is made by `python tools/compatibility.py` from the command table, and a test compares them.
[redis.conf.example](../redis.conf.example) has the directives of a configuration file, and explains `compat-config` for
a file of Redis. Every error text is in [errors.md](errors.md), and the grammar of every command in
[commands.md](commands.md)."""


def document_lines() -> Iterator[str]:
    """The whole document."""
    yield from INTRODUCTION.splitlines()
    yield from ("", "## Command groups", "")
    yield from _group_lines()
    yield from ("", "## Commands out of scope", "")
    for group in OUT_OF_SCOPE:
        names = [name.upper() for name in COMMANDS_OF_REDIS[group].split() if "|" not in name]
        yield f"- {group}: {', '.join(f'`{name}`' for name in names)}"
    yield from ("", "## Differences", "", "These commands differ from Redis:", "")
    yield from difference_lines()
    yield from ("", "Differences that concern no single command:", "")
    yield from BEYOND_ROWS.splitlines()
    yield from ("", "## Clients", "", *CLIENTS_NOTE, "")
    yield from ("| Client | What is tested |", "|---|---|")
    for client, tried in CLIENTS.values():
        yield f"| {client} | {tried} |"


def served_names() -> set[str]:
    """Every command and subcommand of Headrace, as COMMANDS_OF_REDIS spells them."""
    return {row.name.lower() for row in all_rows()}


def _group_lines() -> Iterator[str]:
    served = served_names()
    yield "| Group | Commands of Redis | Served | |"
    yield "|---|---|---|---|"
    for group, text in COMMANDS_OF_REDIS.items():
        names = set(text.split())
        here = len(names & served)
        if group in OUT_OF_SCOPE:
            yield f"| {group} | {len(names)} | none | {OUT_OF_SCOPE[group]} |"
        else:
            shown = "all" if here == len(names) else here
            yield f"| {group} | {len(names)} | {shown} | {NOTES.get(group, '')} |".replace("|  |", "| |")


def main() -> int:
    """Print the document."""
    print("\n".join(document_lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
