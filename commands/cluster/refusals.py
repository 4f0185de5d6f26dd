"""CLUSTER and the commands of clients of a cluster. There is no cluster: all are refused, in the words of Redis."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from ..core.table import NO_FLAGS, Argument, Flag, Trait, command, container
from ..execution.context import Context

CHANGING: Final = Flag.ADMIN | Flag.STALE | Flag.NO_ASYNC_LOADING
READING: Final = Flag.LOADING | Flag.STALE
ADMIN_READING: Final = Flag.ADMIN | READING
VARYING: Final = ("nondeterministic_output",)

NODE_ID: Final = Argument("node-id")
SLOT: Final = Argument("slot", "integer")
SLOTS: Final = Argument("slot", "integer", multiple=True)
SLOT_RANGE: Final = (Argument("start-slot", "integer"), Argument("end-slot", "integer"))


def refuse(context: Context, argv: list[bytes]) -> Reply:
    """Raises GenericError, as a Redis without `cluster-enabled`. Source: Redis 3.0."""
    raise GenericError(b"This instance has cluster support disabled")


def _refuse(
    name: str,
    arity: int,
    since: str,
    *,
    flags: Flag = NO_FLAGS,
    categories: tuple[str, ...] = (),
    group: str = "cluster",
    arguments: tuple[Argument, ...] = (),
    history: tuple[tuple[str, str], ...] = (),
    tips: tuple[str, ...] = (),
    deprecated: tuple[str, str] | None = None,
) -> None:
    """Declare a command that is refused."""
    command(
        name,
        arity=arity,
        flags=flags,
        categories=categories,
        group=group,
        since=since,
        summary="Is refused, since there is no cluster.",
        complexity="O(1)",
        arguments=arguments,
        history=history,
        tips=tips,
        deprecated=deprecated,
        traits=Trait.ORDINARY,
    )(refuse)


container("CLUSTER", group="cluster", since="3.0.0", summary="Commands about a cluster, which are refused.")

_refuse("CLUSTER|ADDSLOTS", -3, "3.0.0", flags=CHANGING, arguments=(SLOTS,))
_refuse(
    "CLUSTER|ADDSLOTSRANGE",
    -4,
    "7.0.0",
    flags=CHANGING,
    arguments=(Argument("range", "block", multiple=True, arguments=SLOT_RANGE),),
)
_refuse("CLUSTER|BUMPEPOCH", 2, "3.0.0", flags=CHANGING, tips=VARYING)
_refuse("CLUSTER|COUNT-FAILURE-REPORTS", 3, "3.0.0", flags=ADMIN_READING, arguments=(NODE_ID,), tips=VARYING)
_refuse("CLUSTER|COUNTKEYSINSLOT", 3, "3.0.0", flags=Flag.STALE, arguments=(SLOT,))
_refuse("CLUSTER|DELSLOTS", -3, "3.0.0", flags=CHANGING, arguments=(SLOTS,))
_refuse(
    "CLUSTER|DELSLOTSRANGE",
    -4,
    "7.0.0",
    flags=CHANGING,
    arguments=(Argument("range", "block", multiple=True, arguments=SLOT_RANGE),),
)
_refuse(
    "CLUSTER|FAILOVER",
    -2,
    "3.0.0",
    flags=CHANGING,
    arguments=(
        Argument(
            "options",
            "oneof",
            optional=True,
            arguments=(
                Argument("force", "pure-token", token="FORCE"),
                Argument("takeover", "pure-token", token="TAKEOVER"),
            ),
        ),
    ),
)
_refuse("CLUSTER|FLUSHSLOTS", 2, "3.0.0", flags=CHANGING)
_refuse("CLUSTER|FORGET", 3, "3.0.0", flags=CHANGING, arguments=(NODE_ID,))
_refuse(
    "CLUSTER|GETKEYSINSLOT",
    4,
    "3.0.0",
    flags=Flag.STALE,
    arguments=(
        SLOT,
        Argument("count", "integer"),
    ),
    tips=VARYING,
)
_refuse("CLUSTER|HELP", 2, "5.0.0", flags=READING)
_refuse("CLUSTER|INFO", 2, "3.0.0", flags=READING, tips=VARYING)
_refuse("CLUSTER|KEYSLOT", 3, "3.0.0", flags=READING, arguments=(Argument("key"),))
_refuse("CLUSTER|LINKS", 2, "7.0.0", flags=READING, tips=VARYING)
_refuse(
    "CLUSTER|MEET",
    -4,
    "3.0.0",
    flags=CHANGING,
    arguments=(
        Argument("ip"),
        Argument("port", "integer"),
        Argument("cluster-bus-port", "integer", optional=True, since="4.0.0"),
    ),
    history=(("4.0.0", "Added the optional `cluster_bus_port` argument."),),
)
_refuse(
    "CLUSTER|MIGRATION",
    -4,
    "8.4.0",
    flags=CHANGING,
    arguments=(
        Argument(
            "subcommand",
            "oneof",
            arguments=(
                Argument("import", "block", token="IMPORT", multiple=True, arguments=SLOT_RANGE),
                Argument(
                    "cancel",
                    "oneof",
                    token="CANCEL",
                    arguments=(
                        Argument("task-id", token="ID"),
                        Argument("all", "pure-token", token="ALL"),
                    ),
                ),
                Argument(
                    "status",
                    "oneof",
                    token="STATUS",
                    arguments=(
                        Argument("task-id", token="ID", optional=True),
                        Argument("all", "pure-token", token="ALL", optional=True),
                    ),
                ),
            ),
        ),
    ),
)
_refuse("CLUSTER|MYID", 2, "3.0.0", flags=READING)
_refuse("CLUSTER|MYSHARDID", 2, "7.2.0", flags=READING, tips=VARYING)
_refuse("CLUSTER|NODES", 2, "3.0.0", flags=READING, tips=VARYING)
_refuse("CLUSTER|REPLICAS", 3, "5.0.0", flags=ADMIN_READING, arguments=(NODE_ID,), tips=VARYING)
_refuse("CLUSTER|REPLICATE", 3, "3.0.0", flags=CHANGING, arguments=(NODE_ID,))
_refuse(
    "CLUSTER|RESET",
    -2,
    "3.0.0",
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.STALE,
    arguments=(
        Argument(
            "reset-type",
            "oneof",
            optional=True,
            arguments=(
                Argument("hard", "pure-token", token="HARD"),
                Argument("soft", "pure-token", token="SOFT"),
            ),
        ),
    ),
)
_refuse("CLUSTER|SAVECONFIG", 2, "3.0.0", flags=CHANGING)
_refuse("CLUSTER|SET-CONFIG-EPOCH", 3, "3.0.0", flags=CHANGING, arguments=(Argument("config-epoch", "integer"),))
_refuse(
    "CLUSTER|SETSLOT",
    -4,
    "3.0.0",
    flags=CHANGING,
    arguments=(
        SLOT,
        Argument(
            "subcommand",
            "oneof",
            arguments=(
                Argument("importing", token="IMPORTING", display="node-id"),
                Argument("migrating", token="MIGRATING", display="node-id"),
                Argument("node", token="NODE", display="node-id"),
                Argument("stable", "pure-token", token="STABLE"),
            ),
        ),
    ),
)
_refuse("CLUSTER|SHARDS", 2, "7.0.0", flags=READING, tips=VARYING)
_refuse(
    "CLUSTER|SLAVES",
    3,
    "3.0.0",
    flags=ADMIN_READING,
    arguments=(NODE_ID,),
    tips=VARYING,
    deprecated=("5.0.0", "`CLUSTER REPLICAS`"),
)
_refuse(
    "CLUSTER|SLOT-STATS",
    -4,
    "8.2.0",
    flags=READING,
    arguments=(
        Argument(
            "filter",
            "oneof",
            arguments=(
                Argument("slotsrange", "block", token="SLOTSRANGE", arguments=SLOT_RANGE),
                Argument(
                    "orderby",
                    "block",
                    token="ORDERBY",
                    arguments=(
                        Argument("metric"),
                        Argument("limit", "integer", token="LIMIT", optional=True),
                        Argument(
                            "order",
                            "oneof",
                            optional=True,
                            arguments=(
                                Argument("asc", "pure-token", token="ASC"),
                                Argument("desc", "pure-token", token="DESC"),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
    tips=(
        "nondeterministic_output",
        "request_policy:all_shards",
    ),
)
_refuse(
    "CLUSTER|SLOTS",
    2,
    "3.0.0",
    flags=READING,
    history=(
        ("4.0.0", "Added node IDs."),
        ("7.0.0", "Added additional networking metadata field."),
    ),
    tips=VARYING,
    deprecated=("7.0.0", "`CLUSTER SHARDS`"),
)
_refuse(
    "CLUSTER|SYNCSLOTS",
    -3,
    "8.4.0",
    flags=CHANGING,
    arguments=(
        Argument(
            "subcommand",
            "oneof",
            arguments=(
                Argument(
                    "sync",
                    "block",
                    token="SYNC",
                    arguments=(
                        Argument("task-id"),
                        Argument("slot-range", "block", multiple=True, arguments=SLOT_RANGE),
                    ),
                ),
                Argument("task-id", token="RDBCHANNEL"),
                Argument("snapshot-eof", "pure-token", token="SNAPSHOT-EOF"),
                Argument("stream-eof", "pure-token", token="STREAM-EOF"),
                Argument(
                    "ack",
                    "block",
                    token="ACK",
                    arguments=(
                        Argument("state"),
                        Argument("offset", "integer"),
                    ),
                ),
                Argument("error", token="FAIL"),
                Argument(
                    "conf",
                    "block",
                    token="CONF",
                    arguments=(
                        Argument("option", multiple=True),
                        Argument("value", multiple=True),
                    ),
                ),
            ),
        ),
    ),
    tips=VARYING,
)
_refuse("ASKING", 1, "3.0.0", flags=Flag.FAST, categories=("connection",))
_refuse("READONLY", 1, "3.0.0", flags=READING | Flag.FAST, categories=("connection",))
_refuse("READWRITE", 1, "3.0.0", flags=READING | Flag.FAST, categories=("connection",))
_refuse(
    "TRIMSLOTS",
    -5,
    "8.4.0",
    flags=Flag.WRITE,
    categories=("keyspace", "dangerous"),
    group="server",
    arguments=(
        Argument(
            "ranges",
            "block",
            token="RANGES",
            arguments=(
                Argument("numranges", "integer"),
                Argument(
                    "slots",
                    "block",
                    multiple=True,
                    arguments=(
                        Argument("startslot", "integer"),
                        Argument("endslot", "integer"),
                    ),
                ),
            ),
        ),
    ),
)
