"""The users of a server, and the effect of a change of them on connections."""

from __future__ import annotations

from collections.abc import Callable

from ...commands.execution.context import Context
from ...commands.execution.enforcement import may_stay
from ...commands.permissions.log import AclLog
from ..configuration.config import Config
from ..configuration.users import load_users, reload_users, save_users
from .connected_clients import ConnectedClients


class UserAccounts:
    """Users, and the log of refusals: `commands.execution.services.Accounts`. Raises ConfigError.

    Calls `refresh_clients` when changed users are in force.
    """

    def __init__(
        self, config: Config, context: Context, clients: ConnectedClients, refresh_clients: Callable[[], None]
    ) -> None:
        self._config = config
        self._context = context
        self._clients = clients
        self._refresh_clients = refresh_clients
        self.users = load_users(config)
        self.acl_log = AclLog()

    def apply(self) -> None:
        """Put changed users in force: close connections of users that were deleted, and of subscribers that may no
        longer read their channels. Other connections continue under the new rules.
        """
        for client in self._clients.in_order():
            if not may_stay(self._context, client):
                client.user, client.authenticated = self.users.default, False
                self._clients.kill(client)
        self._refresh_clients()

    def load(self) -> None:
        """ACL LOAD: load all users of `aclfile`, or none if a line is wrong. Raises GenericError."""
        reload_users(self._config, self.users)

    def save(self) -> None:
        """ACL SAVE: write all users to `aclfile`. Raises GenericError."""
        save_users(self._config, self.users)
