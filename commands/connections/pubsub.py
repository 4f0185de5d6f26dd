"""Publishing and subscribing: the SUBSCRIBE family, PUBLISH, SPUBLISH and PUBSUB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.encoder import encode2, encode3
from ...protocol.replies import Push, Pushed, Reply, status_lines
from ...store.errors import GenericError
from ..core.lookup import subcommand_syntax_error
from ..core.table import Argument, Channels, Flag, KeySpec, Trait, command, container

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..clients.subscriptions import Listeners
    from ..execution.context import Context

LISTEN: Final = Flag.PUBSUB | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
PUBLISH: Final = Flag.PUBSUB | Flag.LOADING | Flag.STALE | Flag.FAST
ASK: Final = Flag.PUBSUB | Flag.LOADING | Flag.STALE

# What rules about channels concern. Unsubscribing is always allowed.
ALL_WORDS: Final = Channels(slice(1, None))
ONE_WORD: Final = Channels(slice(1, 2))
SHARD_CHANNELS: Final = (KeySpec(1, -1, 1, ("not_key",)),)
# The position of the shard channels, which a cluster client takes for keys.
SHARD_CHANNEL: Final = (KeySpec(1, 1, 1, ("not_key",)),)


def _confirm(client: Client, word: bytes, name: bytes | None, pieces: list[bytes]) -> None:
    """Add a confirmation, with the number of subscriptions that are left. Shard channels are counted separately."""
    if word == b"ssubscribe" or word == b"sunsubscribe":
        count = len(client.shard_channels)
    else:
        count = len(client.channels) + len(client.patterns)
    parts = [word, name, count]
    if client.protocol == 2:
        encode2(parts, pieces)
    else:
        encode3(Push(parts), pieces)


def _subscribe(context: Context, listeners: Listeners, word: bytes, names: list[bytes]) -> Reply:
    client = context.client
    pieces: list[bytes] = []
    for name in names:
        listeners.add(client, name)
        _confirm(client, word, name, pieces)
    return Pushed(pieces)


def _unsubscribe(context: Context, listeners: Listeners, word: bytes, names: list[bytes]) -> Reply:
    """Unsubscribe from these names; from all of the client's without names. Without any, there is one null
    confirmation.
    """
    client = context.client
    pieces: list[bytes] = []
    for name in names or list(listeners.names_of(client)):
        listeners.remove(client, name)
        _confirm(client, word, name, pieces)
    if not pieces:
        _confirm(client, word, None, pieces)
    return Pushed(pieces)


@command(
    "SUBSCRIBE",
    arity=-2,
    flags=LISTEN | Flag.DENYOOM,
    group="pubsub",
    since="2.0.0",
    summary="Subscribes to channels.",
    complexity="O(N) where N is the number of channels to subscribe to.",
    arguments=(Argument("channel", multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
    channels=ALL_WORDS,
)
def subscribe(context: Context, argv: list[bytes]) -> Reply:
    """SUBSCRIBE channel [channel ...]

    Returns one confirmation per channel: `subscribe`, its name, the number of channels and patterns now subscribed to.
    """
    return _subscribe(context, context.subscriptions.channels, b"subscribe", argv[1:])


@command(
    "UNSUBSCRIBE",
    arity=-1,
    flags=LISTEN,
    group="pubsub",
    since="2.0.0",
    summary="Unsubscribes from channels, or from all of them.",
    complexity="O(N) where N is the number of channels to unsubscribe.",
    arguments=(Argument("channel", optional=True, multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
)
def unsubscribe(context: Context, argv: list[bytes]) -> Reply:
    """UNSUBSCRIBE [channel ...]"""
    return _unsubscribe(context, context.subscriptions.channels, b"unsubscribe", argv[1:])


@command(
    "PSUBSCRIBE",
    arity=-2,
    flags=LISTEN | Flag.DENYOOM,
    group="pubsub",
    since="2.0.0",
    summary="Subscribes to all channels that match patterns.",
    complexity="O(N) where N is the number of patterns to subscribe to.",
    arguments=(Argument("pattern", "pattern", multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
    channels=Channels(slice(1, None), are_patterns=True),
)
def psubscribe(context: Context, argv: list[bytes]) -> Reply:
    """PSUBSCRIBE pattern [pattern ...]

    A message that matches several patterns arrives several times.
    """
    return _subscribe(context, context.subscriptions.patterns, b"psubscribe", argv[1:])


@command(
    "PUNSUBSCRIBE",
    arity=-1,
    flags=LISTEN,
    group="pubsub",
    since="2.0.0",
    summary="Unsubscribes from patterns, or from all of them.",
    complexity="O(N) where N is the number of patterns to unsubscribe.",
    arguments=(Argument("pattern", "pattern", optional=True, multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
)
def punsubscribe(context: Context, argv: list[bytes]) -> Reply:
    """PUNSUBSCRIBE [pattern ...]"""
    return _unsubscribe(context, context.subscriptions.patterns, b"punsubscribe", argv[1:])


@command(
    "SSUBSCRIBE",
    arity=-2,
    flags=LISTEN | Flag.DENYOOM,
    keys=SHARD_CHANNELS,
    group="pubsub",
    since="7.0.0",
    summary="Subscribes to shard channels.",
    complexity="O(N) where N is the number of shard channels to subscribe to.",
    arguments=(Argument("shardchannel", multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
    channels=ALL_WORDS,
)
def ssubscribe(context: Context, argv: list[bytes]) -> Reply:
    """SSUBSCRIBE shardchannel [shardchannel ...]

    Shard channels have their own namespace; only SPUBLISH sends to them. Raises GenericError in a transaction: as in
    Redis, only SUBSCRIBE is allowed there.
    """
    if not context.may_block:
        raise GenericError(b"SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    return _subscribe(context, context.subscriptions.shard_channels, b"ssubscribe", argv[1:])


@command(
    "SUNSUBSCRIBE",
    arity=-1,
    flags=LISTEN,
    keys=SHARD_CHANNELS,
    group="pubsub",
    since="7.0.0",
    summary="Unsubscribes from shard channels, or from all of them.",
    complexity="O(N) where N is the number of shard channels to unsubscribe.",
    arguments=(Argument("shardchannel", optional=True, multiple=True),),
    traits=Trait.WHILE_SUBSCRIBED,
)
def sunsubscribe(context: Context, argv: list[bytes]) -> Reply:
    """SUNSUBSCRIBE [shardchannel ...]"""
    return _unsubscribe(context, context.subscriptions.shard_channels, b"sunsubscribe", argv[1:])


@command(
    "PUBLISH",
    arity=3,
    flags=PUBLISH,
    group="pubsub",
    since="2.0.0",
    summary="Sends a message to the subscribers of a channel.",
    complexity="O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number "
    "of subscribed patterns (by any client).",
    arguments=(Argument("channel"), Argument("message")),
    traits=Trait.ORDINARY | Trait.MAY_REPLICATE,
    channels=ONE_WORD,
)
def publish(context: Context, argv: list[bytes]) -> Reply:
    """PUBLISH channel message

    Returns the number of messages sent. A client counts once for the channel and once for each matching pattern.
    """
    context.relay(argv)
    return context.subscriptions.publish(argv[1], argv[2])


@command(
    "SPUBLISH",
    arity=3,
    flags=PUBLISH,
    keys=SHARD_CHANNEL,
    group="pubsub",
    since="7.0.0",
    summary="Sends a message to the subscribers of a shard channel.",
    complexity="O(N) where N is the number of clients subscribed to the receiving shard channel.",
    arguments=(Argument("shardchannel"), Argument("message")),
    traits=Trait.ORDINARY | Trait.MAY_REPLICATE,
    channels=ONE_WORD,
)
def spublish(context: Context, argv: list[bytes]) -> Reply:
    """SPUBLISH shardchannel message. Returns the number of receivers."""
    context.relay(argv)
    return context.subscriptions.publish_to_shard(argv[1], argv[2])


container(
    "PUBSUB",
    group="pubsub",
    since="2.8.0",
    summary="Container of the commands about subscriptions.",
    traits=Trait.ORDINARY,
)


def _active(listeners: Listeners, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise subcommand_syntax_error(b"PUBSUB", argv[1])
    return listeners.names_matching(argv[2] if len(argv) == 3 else None)


def _counts(listeners: Listeners, names: list[bytes]) -> Reply:
    return [part for name in names for part in (name, listeners.count(name))]


@command(
    "PUBSUB|CHANNELS",
    arity=-2,
    flags=ASK,
    group="pubsub",
    since="2.8.0",
    summary="Lists the channels with subscribers.",
    complexity="O(N) where N is the number of active channels.",
    arguments=(Argument("pattern", "pattern", optional=True),),
)
def pubsub_channels(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB CHANNELS [pattern]. Patterns with subscribers do not count as channels."""
    return _active(context.subscriptions.channels, argv)


@command(
    "PUBSUB|SHARDCHANNELS",
    arity=-2,
    flags=ASK,
    group="pubsub",
    since="7.0.0",
    summary="Lists the shard channels with subscribers.",
    complexity="O(N) where N is the number of active shard channels.",
    arguments=(Argument("pattern", "pattern", optional=True),),
)
def pubsub_shardchannels(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB SHARDCHANNELS [pattern]"""
    return _active(context.subscriptions.shard_channels, argv)


@command(
    "PUBSUB|NUMSUB",
    arity=-2,
    flags=ASK,
    group="pubsub",
    since="2.8.0",
    summary="Counts the subscribers of channels.",
    complexity="O(N) where N is the number of requested channels.",
    arguments=(Argument("channel", optional=True, multiple=True),),
)
def pubsub_numsub(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB NUMSUB [channel ...]. Returns each channel and its number of subscribers, without those of patterns."""
    return _counts(context.subscriptions.channels, argv[2:])


@command(
    "PUBSUB|SHARDNUMSUB",
    arity=-2,
    flags=ASK,
    group="pubsub",
    since="7.0.0",
    summary="Counts the subscribers of shard channels.",
    complexity="O(N) where N is the number of requested shard channels.",
    arguments=(Argument("shardchannel", optional=True, multiple=True),),
)
def pubsub_shardnumsub(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB SHARDNUMSUB [shardchannel ...]"""
    return _counts(context.subscriptions.shard_channels, argv[2:])


@command(
    "PUBSUB|NUMPAT",
    arity=2,
    flags=ASK,
    group="pubsub",
    since="2.8.0",
    summary="Counts the patterns with subscribers.",
    complexity="O(1)",
)
def pubsub_numpat(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB NUMPAT. Each pattern counts once, however many clients are subscribed to it."""
    return len(context.subscriptions.patterns.by_name)


HELP: Final = status_lines(
    (
        b"PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"CHANNELS [<pattern>]",
        b"    Return the currently active channels matching a <pattern> (default: '*').",
        b"NUMPAT",
        b"    Return number of subscriptions to patterns.",
        b"NUMSUB [<channel> ...]",
        b"    Return the number of subscribers for the specified channels, excluding",
        b"    pattern subscriptions(default: no channels).",
        b"SHARDCHANNELS [<pattern>]",
        b"    Return the currently active shard level channels matching a <pattern> (default: '*').",
        b"SHARDNUMSUB [<shardchannel> ...]",
        b"    Return the number of subscribers for the specified shard level channel(s)",
        b"HELP",
        b"    Print this help.",
    )
)


@command(
    "PUBSUB|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="pubsub",
    since="6.2.0",
    summary="Lists the subcommands of PUBSUB.",
    complexity="O(1)",
)
def pubsub_help(context: Context, argv: list[bytes]) -> Reply:
    """PUBSUB HELP"""
    return HELP
