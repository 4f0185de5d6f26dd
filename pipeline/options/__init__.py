"""The options of the data source: how a value is parsed, and which options each way of reading and writing has."""

from .kinds import Endpoint

__all__ = ["Endpoint"]
