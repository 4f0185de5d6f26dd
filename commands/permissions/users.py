"""All users by name. There is always a user `default`: connections begin as this user."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from ...store.errors import GenericError, ReplyError
from .rules import has_blanks
from .user import User

DEFAULT_NAME: Final = b"default"
# The rules of a default user without a declaration.
EVERYTHING: Final = [b"on", b"nopass", b"~*", b"&*", b"+@all"]

_NOBODY: Final = User(b"")
# The user for unknown names, so that refusing them takes as long as refusing known ones.
_NOBODY.passwords = {b"0" * 64: None}


def open_user(name: bytes) -> User:
    """A user with all rights and without a password."""
    user = User(name)
    user.apply_all(EVERYTHING, all_channels=True)
    return user


class WrongPassword(ReplyError):
    """An unknown user, a disabled user and a wrong password give the same error, so that names cannot be probed."""

    prefix = b"WRONGPASS"

    def __init__(self) -> None:
        super().__init__(b"invalid username-password pair or user is disabled.")


class Users:
    """The users of one server."""

    def __init__(self) -> None:
        # Whether new users and selectors begin with all channels: `acl-pubsub-default allchannels`.
        self.all_channels = False
        self.default = open_user(DEFAULT_NAME)
        self.by_name: dict[bytes, User] = {DEFAULT_NAME: self.default}
        # Size of all users, without the table of their names.
        self._size = self.default.memory_size

    @property
    def memory_size(self) -> int:
        """Size of all users with their rules."""
        return self._size + getsizeof(self.by_name)

    def in_order(self) -> list[User]:
        """Users by name, as Redis lists them."""
        return [self.by_name[name] for name in sorted(self.by_name)]

    def modified(self, name: bytes, rules: list[bytes]) -> User:
        """A copy of the user of that name, or a new one, with these rules applied; nothing is changed yet.

        Raises BadRule.
        """
        known = self.by_name.get(name)
        user = User(name, all_channels=self.all_channels) if known is None else known.copy()
        user.apply_all(rules, all_channels=self.all_channels)
        return user

    def put(self, user: User) -> None:
        """Store a user, new or changed."""
        self._size += user.memory_size
        known = self.by_name.get(user.name)
        if known is None:
            self.by_name[user.name] = user
        else:
            self._size -= known.memory_size
            known.become(user)

    def set(self, name: bytes, rules: list[bytes]) -> None:
        """ACL SETUSER: apply all of these rules, or none. Raises GenericError, BadRule."""
        if has_blanks(name):
            raise GenericError(b"Usernames can't contain spaces or null characters")
        self.put(self.modified(name, rules))

    def set_default_password(self, password: bytes) -> None:
        """`requirepass`: set the default user's only password; the empty one means that none is needed."""
        self.set(DEFAULT_NAME, [b"resetpass", b">" + password if password else b"nopass"])

    def delete(self, name: bytes) -> bool:
        """Delete a user. Returns False if there is no such user. Raises GenericError for the default user."""
        if name == DEFAULT_NAME:
            raise GenericError(b"The 'default' user cannot be removed")
        known = self.by_name.pop(name, None)
        self._size -= 0 if known is None else known.memory_size
        return known is not None

    def replace_all(self, users: list[User]) -> None:
        """Replace all users by these. Without a default user among them, there is one with all rights, as in Redis."""
        names = {user.name for user in users}
        for name in set(self.by_name) - names - {DEFAULT_NAME}:
            self.delete(name)
        if DEFAULT_NAME not in names:
            self.put(open_user(DEFAULT_NAME))
        for user in users:
            self.put(user)

    def forget_tables(self) -> None:
        """Make the tables of what users may run anew when they are next needed: other histograms count calls now."""
        for user in self.by_name.values():
            user.tables.clear()

    def authenticate(self, name: bytes, password: bytes) -> User:
        """The user with this name and password. Raises WrongPassword."""
        user = self.by_name.get(name, _NOBODY)
        if not user.accepts(password):
            raise WrongPassword
        return user
