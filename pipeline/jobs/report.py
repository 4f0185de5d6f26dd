"""Writes a report as a single HTML file: tables, and bar charts in SVG, in the light or dark colours of the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from ..errors import PipelineError

# The colours are those of the plots in docs/performance.md.
STYLE: Final = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #24292f; --faint: #d0d7de; --bar: #2f6db3 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --faint: #3d444d; --bar: #58a6ff } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 64em; padding: 0 1em }
body { background: var(--page); color: var(--ink) }
h1 { font-size: 1.6em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; width: 100%; font-size: .93em }
th, td { text-align: left; padding: .3em .8em .3em 0 }
th { border-bottom: 2px solid var(--faint) } td { border-bottom: 1px solid var(--faint) }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums }
dl { display: grid; grid-template-columns: max-content auto; gap: .2em 1.5em } dd { margin: 0 }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink) } rect { fill: var(--bar) }
"""
BAR_HEIGHT: Final = 16
BAR_STEP: Final = 20
LABEL_WIDTH: Final = 130
BAR_WIDTH_MAX: Final = 560


@dataclass(frozen=True)
class Table:
    """A table of the report. `headings` has the text over each column, with its unit, by the key of the rows."""

    title: str
    headings: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar chart: a count for each label."""

    title: str
    bars: Sequence[tuple[str, int]]
    note: str = ""


def write_report(path: Path, title: str, facts: Mapping[str, str], parts: Sequence[Table | Bars]) -> None:
    """Writes the page; `facts` come first. Raises PipelineError if the file cannot be written."""
    lines = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    lines.append(f"<h1>{escape(title)}</h1>")
    lines.append("<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>")
    for part in parts:
        lines.append(f"<h2>{escape(part.title)}</h2>" + (f"<p>{escape(part.note)}</p>" if part.note else ""))
        lines.append(_table(part) if isinstance(part, Table) else _bars(part.bars))
    write_text(path, "\n".join(lines), "--report")


def require_writable(path: Path, option: str) -> None:
    """Checks before long work that a file that an option names can be written. Raises PipelineError."""
    is_new = not path.exists()
    try:
        path.open("a").close()
    except OSError as error:
        raise PipelineError(f"{option}: cannot write {path}: {error.strerror}") from None
    if is_new:
        path.unlink()


def write_text(path: Path, text: str, option: str) -> None:
    """Writes a file that an option names. Raises PipelineError."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise PipelineError(f"{option}: cannot write {path}: {error.strerror}") from None


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>None.</p>"
    numbers = {key for key in table.headings if any(isinstance(row[key], int | float) for row in table.rows)}
    classes = {key: " class=number" * (key in numbers) for key in table.headings}
    names = "".join(f"<th{classes[key]}>{escape(text)}</th>" for key, text in table.headings.items())
    rows = [
        "<tr>" + "".join(f"<td{classes[key]}>{_shown(row[key])}</td>" for key in table.headings) + "</tr>"
        for row in table.rows
    ]
    return f"<table><tr>{names}</tr>\n" + "\n".join(rows) + "</table>"


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _bars(values: Sequence[tuple[str, int]]) -> str:
    if not values:
        return "<p>None.</p>"
    most = max(count for _, count in values) or 1
    rows = []
    for index, (label, count) in enumerate(values):
        y = index * BAR_STEP
        width = max(1, round(BAR_WIDTH_MAX * count / most)) if count else 0
        rows.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        rows.append(f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width}" height="{BAR_HEIGHT}"/>')
        rows.append(f'<text x="{LABEL_WIDTH + width + 6}" y="{y + 13}">{count:,}</text>')
    height = len(values) * BAR_STEP
    return f'<svg width="{LABEL_WIDTH + BAR_WIDTH_MAX + 100}" height="{height}" role="img">{"".join(rows)}</svg>'
