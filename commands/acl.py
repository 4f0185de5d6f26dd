"""ACL: users, what they may do, and what was refused to them."""

from __future__ import annotations

import secrets
from typing import Any, Final

from ..protocol.replies import OK, Reply, SetReply, SimpleString
from ..store.errors import GenericError, ReplyError, shown, wrong_number_of_arguments
from .categories import CATEGORIES, acl_categories
from .context import Context
from .lookup import find_row, named_row, subcommand_syntax_error
from .numbers import integer
from .permissions.rules import BadRule, OpenParenthesis, merge_selectors, modifier_error
from .permissions.selector import Selector
from .table import Argument, Flag, all_rows, command, container

PLAIN: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
ADMIN: Final = Flag.ADMIN | PLAIN
ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")
USERNAME: Final = Argument("username")

PASSWORD_BITS: Final = 256
PASSWORD_BITS_MAX: Final = 4096

NAME_SHOWN_SIZE: Final = 128
"""Bytes of an unknown category in the error."""

LOG_COUNT: Final = 10
"""Entries that ACL LOG shows unless told otherwise."""

HELP: Final = tuple(
    SimpleString(line)
    for line in (
        b"ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"CAT [<category>]",
        b"    List all commands that belong to <category>, or all command categories",
        b"    when no category is specified.",
        b"DELUSER <username> [<username> ...]",
        b"    Delete a list of users.",
        b"DRYRUN <username> <command> [<arg> ...]",
        b"    Returns whether the user can execute the given command without executing the command.",
        b"GETUSER <username>",
        b"    Get the user's details.",
        b"GENPASS [<bits>]",
        b"    Generate a secure 256-bit user password. The optional `bits` argument can",
        b"    be used to specify a different size.",
        b"LIST",
        b"    Show users details in config file format.",
        b"LOAD",
        b"    Reload users from the ACL file.",
        b"LOG [<count> | RESET]",
        b"    Show the ACL log entries.",
        b"SAVE",
        b"    Save the current config to the ACL file.",
        b"SETUSER <username> <attribute> [<attribute> ...]",
        b"    Create or modify a user with the specified attributes.",
        b"USERS",
        b"    List all the registered usernames.",
        b"WHOAMI",
        b"    Return the current connection username.",
        b"HELP",
        b"    Print this help.",
    )
)

container("ACL", group="server", since="6.0.0", summary="A container for access control: users and their rules.")


@command(
    "ACL|CAT",
    arity=-2,
    flags=PLAIN,
    group="server",
    since="6.0.0",
    summary="Lists the ACL categories, or the commands of one.",
    complexity="O(1) since the categories and commands are a fixed set.",
    arguments=(Argument("category", optional=True),),
)
def acl_cat(context: Context, argv: list[bytes]) -> Reply:
    """ACL CAT [category]

    Commands are those that are here, subcommands as `xgroup|create`. Raises GenericError for an unknown category.
    Source: redis.io/commands/acl-cat.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"ACL", argv[1])
    if len(argv) == 2:
        return [category.encode() for category in CATEGORIES]
    category = argv[2].lower().decode("utf-8", "replace")
    if category not in CATEGORIES:
        raise GenericError(b"Unknown category '%b'" % shown(argv[2][:NAME_SHOWN_SIZE]))
    return [row.name_lower for row in all_rows() if category in acl_categories(row)]


@command(
    "ACL|DELUSER",
    arity=-3,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Deletes users and closes their connections.",
    complexity="O(1) amortized time considering the typical user.",
    arguments=(Argument("username", multiple=True),),
    tips=ALL_NODES,
)
def acl_deluser(context: Context, argv: list[bytes]) -> Reply:
    """ACL DELUSER user [user ...]

    Returns how many there were. Raises GenericError, and deletes nobody, if the default user is among them.
    Source: redis.io/commands/acl-deluser.
    """
    users = context.server.users
    names = sorted(argv[2:], key=lambda name: name != users.default.name)  # the default user is refused first
    count = sum(users.delete(name) for name in names)
    context.server.apply_users()
    return count


@command(
    "ACL|DRYRUN",
    arity=-4,
    flags=ADMIN,
    group="server",
    since="7.0.0",
    summary="Tells whether a user may run a command, without running it.",
    complexity="O(1).",
    arguments=(USERNAME, Argument("command"), Argument("arg", optional=True, multiple=True)),
)
def acl_dryrun(context: Context, argv: list[bytes]) -> Reply:
    """ACL DRYRUN user command [argument ...]

    Returns OK, or a text that says what is refused. Raises GenericError for an unknown user or command and for a wrong
    number of arguments. Source: redis.io/commands/acl-dryrun.
    """
    user = context.server.users.by_name.get(argv[2])
    if user is None:
        raise GenericError(b"User '%b' not found" % shown(argv[2]))
    request = argv[3:]
    named = named_row(request)
    if named is None:
        raise GenericError(b"Command '%b' not found" % shown(argv[3]))
    try:
        row = find_row(request)
    except ReplyError:
        raise wrong_number_of_arguments(named.name_lower) from None
    denial = user.check(row, request)
    return OK if denial is None else denial.dry_run_text(user.name)


@command(
    "ACL|GENPASS",
    arity=-2,
    flags=PLAIN,
    group="server",
    since="6.0.0",
    summary="Makes a password that cannot be guessed.",
    complexity="O(1)",
    arguments=(Argument("bits", "integer", optional=True),),
)
def acl_genpass(context: Context, argv: list[bytes]) -> Reply:
    """ACL GENPASS [bits]

    Returns hexadecimal digits for that many random bits, rounded up to whole digits; 256 unless told otherwise.
    Raises GenericError beyond 1 to 4096. Source: redis.io/commands/acl-genpass.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"ACL", argv[1])
    bits = PASSWORD_BITS if len(argv) == 2 else integer(argv[2])
    if not 0 < bits <= PASSWORD_BITS_MAX:
        raise GenericError(
            b"ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d"
            % PASSWORD_BITS_MAX
        )
    digits_count = (bits + 3) // 4
    return secrets.token_hex((digits_count + 1) // 2)[:digits_count].encode()


def _describe(selector: Selector) -> dict[bytes, Any]:
    return {
        b"commands": selector.commands.describe(),
        b"keys": selector.describe_keys(),
        b"channels": selector.describe_channels(),
    }


@command(
    "ACL|GETUSER",
    arity=3,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Shows a user's rules.",
    complexity="O(N). Where N is the number of password, command and pattern rules that the user has.",
    arguments=(USERNAME,),
    history=(
        ("6.2.0", "Shows channel patterns."),
        ("7.0.0", "Shows selectors, and key and channel patterns as rules instead of lists."),
    ),
)
def acl_getuser(context: Context, argv: list[bytes]) -> Reply:
    """ACL GETUSER user

    Returns a map of flags, passwords (as SHA-256), commands, keys, channels and selectors; null for an unknown user.
    Source: redis.io/commands/acl-getuser.
    """
    user = context.server.users.by_name.get(argv[2])
    if user is None:
        return None
    own, *others = user.selectors
    return {
        b"flags": SetReply(user.flags()),
        b"passwords": list(user.passwords),
        **_describe(own),
        b"selectors": [_describe(selector) for selector in others],
    }


@command(
    "ACL|LIST",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Shows all users as lines of a file.",
    complexity="O(N). Where N is the number of configured users.",
)
def acl_list(context: Context, argv: list[bytes]) -> Reply:
    """ACL LIST. Returns one line a user, by name. Source: redis.io/commands/acl-list."""
    return [user.describe() for user in context.server.users.in_order()]


@command(
    "ACL|LOAD",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Reads the users from the ACL file again.",
    complexity="O(N). Where N is the number of configured users.",
)
def acl_load(context: Context, argv: list[bytes]) -> Reply:
    """ACL LOAD

    All of the file or, if a line of it is wrong, nothing. Connections of users that are gone are closed.
    Raises GenericError. Source: redis.io/commands/acl-load.
    """
    context.server.load_users()
    context.server.apply_users()
    return OK


@command(
    "ACL|LOG",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Shows what was refused lately.",
    complexity="O(N) with N being the number of entries shown.",
    arguments=(
        Argument(
            "operation",
            "oneof",
            optional=True,
            arguments=(Argument("count", "integer"), Argument("reset", "pure-token", token="RESET")),
        ),
    ),
    history=(("7.2.0", "Shows entry IDs and when an entry was made and last counted."),),
)
def acl_log(context: Context, argv: list[bytes]) -> Reply:
    """ACL LOG [count | RESET]

    Returns the latest refusals, newest first, ten unless told otherwise; equal ones within a minute are one entry.
    Raises GenericError. Source: redis.io/commands/acl-log.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"ACL", argv[1])
    log = context.server.acl_log
    if len(argv) == 3 and argv[2].upper() == b"RESET":
        log.clear()
        return OK
    count = LOG_COUNT if len(argv) == 2 else max(0, integer(argv[2]))
    return [refusal.reply(context.now_ms) for refusal in log.entries[:count]]


@command(
    "ACL|SAVE",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Writes the users to the ACL file.",
    complexity="O(N). Where N is the number of configured users.",
    tips=ALL_NODES,
)
def acl_save(context: Context, argv: list[bytes]) -> Reply:
    """ACL SAVE. Replaces the file in one step. Raises GenericError. Source: redis.io/commands/acl-save."""
    context.server.save_users()
    return OK


@command(
    "ACL|SETUSER",
    arity=-3,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Makes or changes a user.",
    complexity="O(N). Where N is the number of rules provided.",
    arguments=(USERNAME, Argument("rule", optional=True, multiple=True)),
    history=(("6.2.0", "Takes channel patterns."), ("7.0.0", "Takes selectors and rules for one kind of access.")),
    tips=ALL_NODES,
)
def acl_setuser(context: Context, argv: list[bytes]) -> Reply:
    """ACL SETUSER user [rule ...]

    Applies all rules or, if one is wrong, none. Connections of the user go on under the new ones.
    Raises GenericError. Source: redis.io/commands/acl-setuser.
    """
    try:
        context.server.users.set(argv[2], merge_selectors(argv[3:]))
    except OpenParenthesis as unclosed:
        raise GenericError(b"Unmatched parenthesis in acl selector starting at '%b'." % shown(unclosed.start)) from None
    except BadRule as bad:
        raise modifier_error(bad) from None
    context.server.apply_users()
    return OK


@command(
    "ACL|USERS",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Lists the names of all users.",
    complexity="O(N). Where N is the number of configured users.",
)
def acl_users(context: Context, argv: list[bytes]) -> Reply:
    """ACL USERS. Source: redis.io/commands/acl-users."""
    return [user.name for user in context.server.users.in_order()]


@command(
    "ACL|WHOAMI",
    arity=2,
    flags=PLAIN,
    group="server",
    since="6.0.0",
    summary="Names the user of this connection.",
    complexity="O(1)",
)
def acl_whoami(context: Context, argv: list[bytes]) -> Reply:
    """ACL WHOAMI. Source: redis.io/commands/acl-whoami."""
    return context.client.user.name


@command(
    "ACL|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="6.0.0",
    summary="Lists the subcommands of ACL.",
    complexity="O(1)",
)
def acl_help(context: Context, argv: list[bytes]) -> Reply:
    """ACL HELP"""
    return list(HELP)
