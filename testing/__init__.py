"""Headrace in the tests of other projects: a server process with a Python handle, and pytest fixtures."""
