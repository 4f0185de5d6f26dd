"""Reading and writing users: `requirepass`, `user` lines of the configuration, and the ACL file.

Wrong rules stop the start, or leave ACL LOAD without effect. The text names file, line and rule.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Final

from ...commands.permissions.rules import UNKNOWN_COMMAND, BadRule, OpenParenthesis, has_blanks, merge_selectors
from ...commands.permissions.user import User
from ...commands.permissions.users import DEFAULT_NAME, Users
from ...persistence.errors import remedy
from ...store.errors import GenericError
from .config import Config
from .config_lines import COMMENT_HINT, ConfigError, ConfigLineError, LateLine, without_passwords
from .config_rewrite import replace_file
from .configfile import open_named
from .directive_kinds import quote

logger = logging.getLogger(__name__)

NO_FILE: Final = (
    b"This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    b"command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    b"users in the Redis configuration."
)
SAVE_FAILED: Final = b"There was an error trying to save the ACLs. Please check the server logs for more information"
BOTH: Final = (
    "Configuring users by 'user' lines and an ACL file at the same time is invalid: name an ACL file (aclfile), or "
    "declare users in the configuration file, but not both."
)
NO_CHANGE: Final = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"


# A word that the reader of configuration lines does not change.
_PLAIN_WORD: Final = re.compile(rb"""[^\x00-\x20\x7f"']+""")

# A word of a `user` line that begins with `#` and is no password hash, not even one of a wrong length.
_COMMENT: Final = re.compile(rb"#(?![0-9A-Fa-f]+$)")

OTHER_ACL_FILE: Final = "create it, an empty file will do, or choose another (aclfile)"


class AclFileError(Exception):
    """The ACL file cannot be used. The text lists all errors in it. `advice` is the remedy, which ACL LOAD omits."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice


def load_users(config: Config) -> Users:
    """The users of a starting server. Raises ConfigError."""
    users = Users()
    users.all_channels = config.acl_pubsub_default == b"allchannels"
    if config.requirepass:
        users.set_default_password(config.requirepass)
    if config.declared_users and config.aclfile:
        raise ConfigError(BOTH)
    for declared in config.declared_users:
        user = _declared(users, declared)
        users.put(user)
        _warn_of_disabled(user)
    if config.aclfile:
        _load_first(config, users)
    config.list_users = lambda: [configuration_line(user) for user in users.in_order()]
    return users


def configuration_line(user: User) -> bytes:
    """The `user` line of a configuration file that declares this user.

    It is the line of ACL LIST, except that words with quotes or control characters are quoted: a configuration file is
    unquoted, an ACL file is not.
    """
    return b" ".join(map(_configuration_word, user.words()))


def _configuration_word(word: bytes) -> bytes:
    """A selector is quoted as one word if a word in it looks like its end."""
    if word.startswith(b"("):
        parts = word.split(b" ")
        if not any(part.endswith(b")") for part in parts[:-1]):
            return b" ".join(map(_quoted_if_needed, parts))
        return quote(word)
    return _quoted_if_needed(word)


def _quoted_if_needed(word: bytes) -> bytes:
    return word if _PLAIN_WORD.fullmatch(word) else quote(word)


def _declared(users: Users, declared: LateLine) -> User:
    """The user of a `user` line, without anything of an earlier default user. Raises ConfigLineError."""

    def wrong(subject: bytes, why: str) -> ConfigLineError:
        shown = without_passwords(subject).decode("utf-8", "backslashreplace")
        return ConfigLineError(declared.place, declared.shown, f"Error in user declaration '{shown}': {why}")

    name, *words = declared.words
    hint = COMMENT_HINT if any(map(_COMMENT.match, words)) else ""
    if has_blanks(name):
        raise wrong(name, "Spaces not allowed in ACL usernames")
    user = User(name, all_channels=users.all_channels)
    try:
        user.apply_all(merge_selectors(words), all_channels=users.all_channels)
    except OpenParenthesis as unclosed:
        raise wrong(unclosed.start, f"Unmatched parenthesis in selector definition{hint}") from None
    except BadRule as bad:
        raise wrong(bad.rule, f"{bad}{hint}") from None
    return user


def _warn_of_disabled(user: User) -> None:
    if not user.enabled:
        logger.info(
            "The user '%s' is disabled (there is no 'on' modifier in the user description). Make sure this is not a "
            "configuration error.",
            user.name.decode("utf-8", "backslashreplace"),
        )


# -- the ACL file --------------------------------------------------------------------------------


def _load_first(config: Config, users: Users) -> None:
    try:
        found = read_acl_file(config, users)
    except AclFileError as error:
        reasons = f"{error}; {error.advice}" if error.advice else str(error)
        raise ConfigError(f"Aborting startup because of ACL errors: {reasons}") from None
    users.replace_all(found)
    if config.requirepass and all(user.name != DEFAULT_NAME for user in found):
        logger.warning(
            "requirepass is without effect, as in Redis: the ACL file '%s' decides about all users. It does not name "
            "the user 'default', who therefore needs no password.",
            os.fsdecode(config.aclfile),
        )


def reload_users(config: Config, users: Users) -> None:
    """Replace all users by those of the ACL file, or none if there is an error in it. Raises GenericError."""
    if not config.aclfile:
        raise GenericError(NO_FILE)
    try:
        users.replace_all(read_acl_file(config, users))
    except AclFileError as error:
        raise GenericError(str(error).encode("utf-8", "surrogateescape")) from None


def save_users(config: Config, users: Users) -> None:
    """Write all users to the ACL file, in one step. Raises GenericError."""
    if not config.aclfile:
        raise GenericError(NO_FILE)
    text = b"".join(user.describe() + b"\n" for user in users.in_order())
    try:
        replace_file(config.aclfile, text)
    except OSError as error:
        logger.warning("Writing the ACL file '%s' failed: %s", os.fsdecode(config.aclfile), error.strerror)
        raise GenericError(SAVE_FAILED) from None


def read_acl_file(config: Config, users: Users) -> list[User]:
    """The users of the file's lines, without blank lines and comments. Raises AclFileError."""
    path = os.fsdecode(config.aclfile)
    try:
        with open_named(config.aclfile) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        text = f"Error loading ACLs, opening file '{path}': {error.strerror}"
        raise AclFileError(text, remedy(error, OTHER_ACL_FILE)) from None
    found: dict[bytes, User] = {}
    problems = ""
    for number, line in enumerate(lines, start=1):
        # Only spaces separate words, and two in a row enclose an empty one: the name of a user can be empty.
        words = line.strip(b" \t\r\n").split(b" ")
        if words == [b""] or words[0].startswith(b"#"):
            continue
        if words[0] != b"user" or len(words) < 2:
            problems += f"{path}:{number} should start with user keyword followed by the username. "
        elif has_blanks(words[1]):
            problems += f"'{path}:{number}: username '{os.fsdecode(words[1])}' contains invalid characters. "
        elif words[1] in found:
            problems += f"WARNING: Duplicate user '{os.fsdecode(words[1])}' found on line {number}. "
        else:
            user = found[words[1]] = User(words[1], all_channels=users.all_channels)
            problems += _apply_line(user, words[2:], users, f"{path}:{number}: ")
    if problems:
        raise AclFileError(problems + NO_CHANGE)
    return list(found.values())


def _apply_line(user: User, words: list[bytes], users: Users, place: str) -> str:
    """Apply the rules to a user. Returns the error; the empty text if there is none."""
    try:
        user.apply_all(merge_selectors(words), all_channels=users.all_channels)
    except OpenParenthesis:
        return place + "Unmatched parenthesis in selector definition."
    except BadRule as bad:
        if str(bad) == UNKNOWN_COMMAND:
            return f"{place}Error in applying operation '{os.fsdecode(without_passwords(bad.rule))}': {bad}. "
        return f"{place}{bad}. "
    return ""
