"""Streams in and out of PySpark: a data source named `headrace`, and jobs around streams and consumer groups.

It needs the extra `headrace[spark]`. No other folder of the package imports it. See docs/pipeline.md.
"""
