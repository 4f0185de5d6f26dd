"""ACL: users, their rules, and the log of refusals."""

from __future__ import annotations

import os
from typing import Any, Final

from ...protocol.replies import OK, Reply, SetReply, status_lines
from ...store.errors import GenericError, ReplyError, shown, wrong_number_of_arguments
from ..core.categories import CATEGORIES, names_in
from ..core.lookup import find_row, named_row, subcommand_syntax_error
from ..core.numbers import integer
from ..core.secrets import words_from
from ..core.table import Argument, Flag, Trait, command, container
from ..execution.context import Context
from ..permissions.rules import BadRule, OpenParenthesis, merge_selectors, modifier_error
from ..permissions.selector import Selector

PLAIN: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
ADMIN: Final = Flag.ADMIN | PLAIN
ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")
USERNAME: Final = Argument("username")

PASSWORD_BITS: Final = 256
PASSWORD_BITS_MAX: Final = 4096

# Maximum number of bytes of an unknown category that the error shows.
NAME_SHOWN_SIZE: Final = 128

# Default number of entries that ACL LOG shows.
LOG_COUNT: Final = 10

HELP: Final = status_lines(
    (
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
    traits=Trait.ORDINARY,
)
def acl_cat(context: Context, argv: list[bytes]) -> Reply:
    """ACL CAT [category]

    Returns the categories, or the commands of one, subcommands as `xgroup|create`. Raises GenericError for an unknown
    category.
    Source: redis.io/commands/acl-cat.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"ACL", argv[1])
    if len(argv) == 2:
        return [category.encode() for category in CATEGORIES]
    category = argv[2].lower().decode("utf-8", "replace")
    if category not in CATEGORIES:
        raise GenericError(b"Unknown category '%b'" % shown(argv[2][:NAME_SHOWN_SIZE]))
    return names_in(category)


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
    secrets=words_from(2),
)
def acl_deluser(context: Context, argv: list[bytes]) -> Reply:
    """ACL DELUSER user [user ...]

    Returns the number of deleted users. Raises GenericError, and deletes none, if the default user is among them.
    Source: redis.io/commands/acl-deluser.
    """
    users = context.server.accounts.users
    # The default user comes first, so that it is refused before others are deleted.
    names = sorted(argv[2:], key=users.default.name.__ne__)
    count = sum([users.delete(name) for name in names])
    if count:
        context.server.accounts.apply()
    return count


@command(
    "ACL|DRYRUN",
    arity=-4,
    flags=ADMIN,
    group="server",
    since="7.0.0",
    summary="Checks whether a user may run a command, without running it.",
    complexity="O(1).",
    arguments=(USERNAME, Argument("command"), Argument("arg", optional=True, multiple=True)),
    enclosed_at=3,
    traits=Trait.ORDINARY,
)
def acl_dryrun(context: Context, argv: list[bytes]) -> Reply:
    """ACL DRYRUN user command [argument ...]

    Returns OK, or a text that names what is refused. Raises GenericError for an unknown user or command and for a wrong
    number of arguments. Source: redis.io/commands/acl-dryrun.
    """
    user = context.server.accounts.users.by_name.get(argv[2])
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
    summary="Generates a random password.",
    complexity="O(1)",
    arguments=(Argument("bits", "integer", optional=True),),
    traits=Trait.ORDINARY,
)
def acl_genpass(context: Context, argv: list[bytes]) -> Reply:
    """ACL GENPASS [bits]

    Returns that many random bits as hexadecimal digits, rounded up to whole digits; 256 bits by default. Raises
    GenericError for a number outside 1 to 4096. Source: redis.io/commands/acl-genpass.
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
    return os.urandom((digits_count + 1) // 2).hex()[:digits_count].encode()


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
    secrets=words_from(2),
    traits=Trait.ORDINARY,
)
def acl_getuser(context: Context, argv: list[bytes]) -> Reply:
    """ACL GETUSER user

    Returns a map of flags, passwords (as SHA-256), commands, keys, channels and selectors; null for an unknown user.
    Source: redis.io/commands/acl-getuser.
    """
    user = context.server.accounts.users.by_name.get(argv[2])
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
    summary="Lists all users as lines of an ACL file.",
    complexity="O(N). Where N is the number of configured users.",
    traits=Trait.ORDINARY,
)
def acl_list(context: Context, argv: list[bytes]) -> Reply:
    """ACL LIST. Returns one line for each user, ordered by name. Source: redis.io/commands/acl-list."""
    return [user.describe() for user in context.server.accounts.users.in_order()]


@command(
    "ACL|LOAD",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Reloads the users from the ACL file.",
    complexity="O(N). Where N is the number of configured users.",
)
def acl_load(context: Context, argv: list[bytes]) -> Reply:
    """ACL LOAD

    Loads the whole file or, if a line is invalid, nothing. Closes connections of users that are not in it. Returns OK.
    Raises GenericError. Source: redis.io/commands/acl-load.
    """
    context.server.accounts.load()
    context.server.accounts.apply()
    return OK


@command(
    "ACL|LOG",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Shows the latest refusals.",
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
    traits=Trait.ORDINARY,
)
def acl_log(context: Context, argv: list[bytes]) -> Reply:
    """ACL LOG [count | RESET]

    Returns the latest refusals, newest first, ten by default; equal ones within a minute are one entry. RESET deletes
    them and returns OK.
    Raises GenericError. Source: redis.io/commands/acl-log.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"ACL", argv[1])
    log = context.server.accounts.acl_log
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
    """ACL SAVE. Replaces the file atomically. Returns OK. Raises GenericError. Source: redis.io/commands/acl-save."""
    context.server.accounts.save()
    return OK


@command(
    "ACL|SETUSER",
    arity=-3,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Creates or changes a user.",
    complexity="O(N). Where N is the number of rules provided.",
    arguments=(USERNAME, Argument("rule", optional=True, multiple=True)),
    history=(("6.2.0", "Takes channel patterns."), ("7.0.0", "Takes selectors and rules for one kind of access.")),
    tips=ALL_NODES,
    secrets=words_from(2),
)
def acl_setuser(context: Context, argv: list[bytes]) -> Reply:
    """ACL SETUSER user [rule ...]

    Applies all rules or, if one is invalid, none. Open connections of the user continue with the new rules. Returns OK.
    Raises GenericError. Source: redis.io/commands/acl-setuser.
    """
    try:
        context.server.accounts.users.set(argv[2], merge_selectors(argv[3:]))
    except OpenParenthesis as unclosed:
        raise GenericError(b"Unmatched parenthesis in acl selector starting at '%b'." % shown(unclosed.start)) from None
    except BadRule as bad:
        raise modifier_error(bad) from None
    context.server.accounts.apply()
    return OK


@command(
    "ACL|USERS",
    arity=2,
    flags=ADMIN,
    group="server",
    since="6.0.0",
    summary="Lists the names of all users.",
    complexity="O(N). Where N is the number of configured users.",
    traits=Trait.ORDINARY,
)
def acl_users(context: Context, argv: list[bytes]) -> Reply:
    """ACL USERS. Returns the names of all users. Source: redis.io/commands/acl-users."""
    return [user.name for user in context.server.accounts.users.in_order()]


@command(
    "ACL|WHOAMI",
    arity=2,
    flags=PLAIN,
    group="server",
    since="6.0.0",
    summary="Returns the user of this connection.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def acl_whoami(context: Context, argv: list[bytes]) -> Reply:
    """ACL WHOAMI. Returns the name of the connection's user. Source: redis.io/commands/acl-whoami."""
    return context.client.user.name


@command(
    "ACL|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="6.0.0",
    summary="Lists the subcommands of ACL.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def acl_help(context: Context, argv: list[bytes]) -> Reply:
    """ACL HELP. Returns lines of text."""
    return HELP
