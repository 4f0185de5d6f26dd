"""Writes a report as a single HTML file: tables, and bar charts in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from ..errors import PipelineError

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #222 }
h1 { font-size: 1.6em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3em .8em .3em 0 }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd }
td.number { font-variant-numeric: tabular-nums }
svg text { font: 12px system-ui, sans-serif; fill: #222 } rect { fill: #3b7dd8 }
"""
BAR_HEIGHT: Final = 18
LABEL_WIDTH: Final = 130
BAR_WIDTH_MAX: Final = 560


@dataclass(frozen=True)
class Table:
    """A table of the report; all rows have the same keys in the same order."""

    title: str
    rows: Sequence[dict[str, Any]]


def write_report(path: Path, title: str, tables: Sequence[Table], bars: dict[str, list[tuple[str, int]]]) -> None:
    """Writes the page. Raises PipelineError if the file cannot be written."""
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1>")
    parts += [_table(table) for table in tables]
    parts += [f"<h2>{escape(name)}</h2>{_bars(values)}" for name, values in bars.items()]
    try:
        path.write_text("\n".join(parts), "utf-8")
    except OSError as error:
        raise PipelineError(f"--report: cannot write {path}: {error.strerror}") from None


def _table(table: Table) -> str:
    head = f"<h2>{escape(table.title)}</h2>"
    if not table.rows:
        return head + "<p>None.</p>"
    names = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in table.rows[0])
    rows = "".join("<tr>" + "".join(map(_cell, row.values())) + "</tr>" for row in table.rows)
    return f"{head}<table><tr>{names}</tr>{rows}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"<td class=number>{' / '.join(f'{one:g}' for one in value)}</td>"
    shown = "" if value is None else escape(str(value))
    return f"<td class=number>{shown}</td>" if isinstance(value, int | float) else f"<td>{shown}</td>"


def _bars(values: list[tuple[str, int]]) -> str:
    if not values:
        return "<p>None.</p>"
    most = max(count for _, count in values) or 1
    rows = []
    for index, (label, count) in enumerate(values):
        y = index * (BAR_HEIGHT + 4)
        width = max(1, round(BAR_WIDTH_MAX * count / most))
        rows.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        rows.append(f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width}" height="{BAR_HEIGHT}"/>')
        rows.append(f'<text x="{LABEL_WIDTH + width + 6}" y="{y + 13}">{count}</text>')
    height = len(values) * (BAR_HEIGHT + 4)
    return f'<svg width="{LABEL_WIDTH + BAR_WIDTH_MAX + 100}" height="{height}" role="img">{"".join(rows)}</svg>'
