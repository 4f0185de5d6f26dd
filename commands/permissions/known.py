"""The names of all commands of Redis 8.10.2: an ACL rule may name one that Headrace does not have.

A file of users for Redis may have `-@scripting -flushall +hget`. Rules for commands that Headrace does not have are
kept and shown as in Redis, without effect. Names that Redis does not have are refused. Source: COMMAND LIST of Redis
8.10.2.
"""

from __future__ import annotations

from typing import Final

_COMMANDS: Final = """
    vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim acl append arcount
    ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop arring
    arscan arseek arset asking auth backup bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove
    blmovem blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client cluster command config copy dbsize debug
    decr decrby del delex digest discard dump echo eval eval_ro evalsha evalsha_ro exec exists expire expireat
    expiretime failover fcall fcall_ro flushall flushdb function geoadd geodist geohash geopos georadius
    georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange
    getset hdel hello hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex himport hincrby
    hincrbyfloat hkeys hlen hmget hmset hotkeys hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan
    hset hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat increx info keys lastsave latency lcs lindex
    linsert llen lmove lmovem lmpop lolwut lpop lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module
    monitor move mset msetex msetnx multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfdebug
    pfmerge pfselftest ping psetex psubscribe psync pttl publish pubsub punsubscribe quit randomkey readonly
    readwrite rename renamenx replconf replicaof reset restore restore-asking role rpop rpoplpush rpush rpushx sadd
    save scan scard script sdiff sdiffcard sdiffstore select set setbit setex setnx setrange shutdown sinter
    sintercard sinterstore sismember slaveof slowlog smembers smismember smove sort sort_ro spop spublish
    srandmember srem sscan ssubscribe strlen subscribe substr sunion sunioncard sunionstore sunsubscribe swapdb
    sync time touch trimslots ttl type unlink unsubscribe unwatch wait waitaof watch xack xackdel xadd xautoclaim
    xcfgset xclaim xdel xdelex xgroup xidmprecord xinfo xlen xnack xpending xrange xread xreadgroup xrevrange
    xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore
    zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex
    zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion
    zunionstore
"""

_SUBCOMMANDS: Final = """
    acl: cat deluser dryrun genpass getuser help list load log save setuser users whoami
    backup: abort cleanup help list seal start status
    client: caching getname getredir help id info kill list no-evict no-touch pause reply setinfo setname tracking
        trackinginfo unblock unpause
    cluster: addslots addslotsrange bumpepoch count-failure-reports countkeysinslot delslots delslotsrange failover
        flushslots forget getkeysinslot help info keyslot links meet migration myid myshardid nodes replicas
        replicate reset saveconfig set-config-epoch setslot shards slaves slot-stats slots syncslots
    command: count docs getkeys getkeysandflags help info list
    config: get help resetstat rewrite set
    function: delete dump flush help kill list load restore stats
    himport: discard discardall prepare set
    hotkeys: get help reset start stop
    latency: doctor graph help histogram history latest reset
    memory: doctor help malloc-stats purge stats usage
    module: help list load loadex unload
    object: encoding freq help idletime refcount
    pubsub: channels help numpat numsub shardchannels shardnumsub
    script: debug exists flush help kill load
    slowlog: get help len reset
    xgroup: create createconsumer delconsumer destroy help setid
    xinfo: consumers groups help stream
"""


def _full_names() -> frozenset[bytes]:
    names = set(_COMMANDS.split())
    container = ""
    for word in _SUBCOMMANDS.split():
        if word.endswith(":"):
            container = word[:-1]
        else:
            names.add(f"{container}|{word}")
    return frozenset(name.encode() for name in names)


# Names in lower case, subcommands as `client|kill`.
REDIS_COMMANDS: Final = _full_names()

# Commands that have subcommands.
REDIS_CONTAINERS: Final = frozenset(name.partition(b"|")[0] for name in REDIS_COMMANDS if b"|" in name)
