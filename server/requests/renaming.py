"""`rename-command`: other names for commands, or none. Rules, the server log and statistics keep the old names."""

from __future__ import annotations

from collections.abc import Iterable

from ...commands.core.table import DECLARED, rename
from ...commands.permissions.known import REDIS_COMMANDS
from ..configuration.config_lines import ConfigLineError, LateLine


def rename_commands(lines: Iterable[LateLine]) -> None:
    """Change the table for the life of the process. A command of Redis that Headrace does not have is ignored.

    Raises ConfigLineError.
    """
    for line in lines:
        name, new_name = line.words
        if name.upper() not in DECLARED and name.lower() in REDIS_COMMANDS:
            continue
        try:
            rename(name, new_name)
        except KeyError:
            raise ConfigLineError(line.place, line.shown, "No such command in rename-command") from None
        except ValueError:
            raise ConfigLineError(line.place, line.shown, "Target command name already exists") from None
