"""Found by PySpark, which looks for packages with names like this one: makes `format("headrace")` known.

A package of this kind that cannot be imported would break every Python data source, so without pyarrow it is empty.
"""

from importlib.util import find_spec

if find_spec("pyarrow") is not None:
    from headrace.pipeline.source import HeadraceDataSource as DefaultSource

    __all__ = ["DefaultSource"]
