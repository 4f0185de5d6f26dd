"""Marks of classes for the compiler. They have no effect on code that is not compiled.

`@mypyc_attr(acyclic=True)`: no object of the class is in a cycle of references. Compiled, such an object is no work for
Python's collector of cycles, which would visit each value of each key, and takes 16 bytes less.
"""

from __future__ import annotations

from typing import Any

try:
    from mypy_extensions import mypyc_attr
except ImportError:  # only the compiler needs it, so users do not install it

    def mypyc_attr(*attrs: Any, **kwattrs: Any) -> Any:  # type: ignore[misc]
        """Returns the class unchanged."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
