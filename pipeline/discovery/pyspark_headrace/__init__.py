"""Makes `format("headrace")` available: PySpark imports packages named `pyspark_*` and registers their DefaultSource.

If such a package fails to import, PySpark finds no Python data source at all. So this package is empty if a dependency
is missing or too old.
"""

try:
    from headrace.pipeline.source import HeadraceDataSource as DefaultSource
except ImportError:
    __all__ = []
else:
    __all__ = ["DefaultSource"]
