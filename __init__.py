"""Headrace: a standalone Redis-Streams server."""

__version__ = "0.1.0"

REDIS_VERSION = "8.10.2"
"""The Redis release whose behaviour Headrace reproduces, reported by HELLO and INFO."""
