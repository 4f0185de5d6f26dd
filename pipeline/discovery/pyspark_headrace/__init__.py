"""Found by PySpark, which looks for packages with names like this one: makes `format("headrace")` known.

A package of this kind that cannot be imported would break every Python data source, so where something is missing or
too old it is empty.
"""

try:
    from headrace.pipeline.source import HeadraceDataSource as DefaultSource
except ImportError:
    __all__ = []
else:
    __all__ = ["DefaultSource"]
