"""The functions of rq_jobs.py, which a worker imports."""

from __future__ import annotations


def add(left: int, right: int) -> int:
    return left + right


def fail() -> None:
    raise ValueError("as it should")
