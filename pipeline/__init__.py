"""Streams in and out of PySpark: a data source named `headrace`, and jobs for the chores around consumer groups.

Needs the extra `headrace[spark]`; nothing else of the package imports it. See docs/pipeline.md.
"""
