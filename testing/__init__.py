"""Headrace in other people's tests: a server process with a Python handle, and the pytest fixtures made of it."""
