"""Headrace: a standalone Redis-Streams server."""

from importlib.util import find_spec

__version__ = "0.1.0"

# The Redis release whose behaviour Headrace reproduces, reported by HELLO and INFO.
REDIS_VERSION = "8.10.2"


def is_compiled(module: str = "store.chunk") -> bool:
    """Whether a module is an extension module; of those that can be compiled by mypyc, all are or none."""
    spec = find_spec(f".{module}", __name__)
    return spec is not None and not str(spec.origin).endswith(".py")


def build_form() -> str:
    """How Headrace was built: `compiled` (all modules in C), `codecs` (only the `.pyx` modules) or `pure` (no C)."""
    if is_compiled():
        return "compiled"
    return "codecs" if is_compiled("protocol.frames") else "pure"
