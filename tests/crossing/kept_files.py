"""What a start reads besides the data: the configuration file and the ACL file, and what each must say.

A crash at any moment leaves a file that says what it said before, or what is in force. Once CONFIG REWRITE or ACL SAVE
was answered with OK, it says what was in force then, also after a power loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from headrace.commands.permissions.users import Users
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import Loader
from headrace.server.configuration.directives import DIRECTIVES
from headrace.server.configuration.users import load_users
from support.simulated_disk import Call, Inode, SimulatedDisk
from support.simulated_system import SimulatedSystem

SETTINGS_FOLDER: Final = "/etc/headrace"
CONFIG_PATH: Final = f"{SETTINGS_FOLDER}/headrace.conf"
ACL_PATH: Final = f"{SETTINGS_FOLDER}/users.acl"

CONFIG_TEXT: Final = b"""\
# Lines that options of the start have overruled, and one that nothing has.
appendonly no
maxclients 500
save 3600 1

timeout 0
"""
ACL_TEXT: Final = b"""\
# These users are there from the start.
user default on nopass sanitize-payload ~* &* +@all
user reading on nopass resetchannels ~s* -@all +@read
"""

# What a file says: lines by name.
Said = dict[bytes, Any]


class NotWhole(Exception):
    """A file cannot be read; the text says why."""


def settings_files() -> dict[str, Inode | None]:
    """Names of a disk with both files."""
    return {
        SETTINGS_FOLDER: None,
        CONFIG_PATH: Inode(CONFIG_TEXT),
        ACL_PATH: Inode(ACL_TEXT),
    }


def directives_of(config: Config) -> Said:
    """Every directive with its value."""
    return {each.name: config.value(each) for each in DIRECTIVES}


def users_of(users: Users) -> Said:
    """Every user with its rules."""
    return {user.name: user.describe() for user in users.in_order()}


@lru_cache(maxsize=256)
def started(config_text: bytes | None, acl_text: bytes | None, aclfile: bytes) -> tuple[Said, Said]:
    """The directives and users of a start with these files. Raises NotWhole.

    `aclfile` is given as an option, so that users can be read before the first CONFIG REWRITE.
    """
    texts = {CONFIG_PATH: config_text, ACL_PATH: acl_text}
    disk = SimulatedDisk({path: Inode(text) for path, text in texts.items() if text is not None})
    config = Config()
    with SimulatedSystem(disk).installed():
        try:
            loader = Loader(config)
            loader.load_file(CONFIG_PATH.encode())
            config.aclfile = config.aclfile or aclfile
            loader.finish()
            return directives_of(config), users_of(load_users(config))
        except ConfigError as error:
            raise NotWhole(str(error)) from error


class KeptFiles:
    """Follows both files of a server on a disk. `fail` gets a text that says what is wrong."""

    def __init__(
        self, disk: SimulatedDisk, config: Config, users: Callable[[], Users], fail: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._config = config
        self._users = users
        self._fail = fail
        # What crashes would leave, as of the last look.
        self._texts = self._left()
        # What a start with that would find.
        self._before = started(*self._texts["kill -9"], config.aclfile)
        self._at_start = directives_of(config), self._before[1]

    @property
    def has_news(self) -> bool:
        """Whether directives, users or files are not what they were at the start."""
        return self._at_start != self._in_force() or self._texts["kill -9"] != (CONFIG_TEXT, ACL_TEXT)

    def _left(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        """The texts of both files that a crash would leave now, by what kind of crash it is."""
        disk = self._disk
        return {
            "kill -9": (disk.read(CONFIG_PATH), disk.read(ACL_PATH)),
            "a power loss": (disk.read_durable(CONFIG_PATH), disk.read_durable(ACL_PATH)),
        }

    def look(self, call: Call) -> None:
        """A moment of the disk: a crash now leaves what the files said, or what is in force."""
        if not call.path.startswith(SETTINGS_FOLDER):
            return
        texts = self._left()
        if texts != self._texts:
            self._texts = texts
            self._compare((self._before, self._in_force()), is_needed=(True, True))
            if texts["kill -9"] == texts["a power loss"]:  # what was being saved is saved
                self._before = started(*texts["kill -9"], self._config.aclfile)

    def require(self, *, directives: bool, users: bool) -> None:
        """CONFIG REWRITE and ACL SAVE, or one of them, were answered with OK: the files say what is in force."""
        if directives or users:
            self._compare((self._in_force(),), is_needed=(directives, users))
            self._texts = self._left()
            self._before = started(*self._texts["kill -9"], self._config.aclfile)

    def _in_force(self) -> tuple[Said, Said]:
        return directives_of(self._config), users_of(self._users())

    def _compare(self, expected: tuple[tuple[Said, Said], ...], *, is_needed: tuple[bool, bool]) -> None:
        for crash, texts in self._left().items():
            try:
                found = started(*texts, self._config.aclfile)
            except NotWhole as error:
                self._fail(f"told: {crash} leaves no configuration to start with: {error}")
                return
            for index, what in enumerate(("directives", "users")):
                allowed = [said[index] for said in expected]
                if is_needed[index] and found[index] not in allowed:
                    news = difference(allowed[-1], found[index])
                    self._fail(f"told: {crash} leaves other {what} than were saved: {news}")


def difference(wanted: Said, found: Said) -> str:
    """In what two files differ, in short."""
    names = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    parts = [f"{name.decode()}: {wanted.get(name)!r} -> {found.get(name)!r}" for name in names[:4]]
    return f"{len(names)} differ; " + "; ".join(parts)
