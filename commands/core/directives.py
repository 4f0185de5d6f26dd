"""The configuration as commands see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol


class Directives(Protocol):
    """`server.configuration.config.Config`. A directive is an attribute, with underscores for hyphens: a number (sizes
    in bytes, times in the directive's unit), a bool, or bytes.
    """

    def __getattr__(self, name: str) -> Any:
        """The value of a directive."""
        ...

    def get_matching(self, patterns: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """CONFIG GET: the directives that match a pattern, with their values as text."""
        ...

    def set_many(self, pairs: Iterable[tuple[bytes, bytes]], *, is_local: bool = False) -> None:
        """CONFIG SET: all of these directives or none. Raises GenericError."""
        ...

    def rewrite(self) -> None:
        """CONFIG REWRITE: bring the configuration file up to date. Raises GenericError."""
        ...
