"""The blocking connection to a server, its TLS, and what streams need before rows are written to them."""

from .client import Connection

__all__ = ["Connection"]
