"""The plots of docs/performance.md, each in light and in dark colours."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.groups import GROUPS
from benchmarks.report import MAIN_PEER, figure, series_of
from benchmarks.results import SUBJECT, Result, Run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

DOTS_PER_INCH: Final = 160
ROW_INCHES: Final = 0.21
BAR_HEIGHT: Final = 0.62


@dataclass(frozen=True)
class Theme:
    """Colours for one kind of page; those of the audit report are the same ones."""

    # Added to the names of the files.
    suffix: str
    page: str
    ink: str
    faint: str
    # Where Headrace is better, and the line of Headrace.
    better: str
    # Where Headrace is worse.
    worse: str
    # The line of Redis.
    peer: str


THEMES: Final = (
    Theme("", "#ffffff", "#24292f", "#d0d7de", "#2f6db3", "#cf5a1e", "#8c959f"),
    Theme("-dark", "#0d1117", "#e6edf3", "#3d444d", "#58a6ff", "#f0883e", "#8b949e"),
)


def draw(run: Run, folder: Path) -> Iterator[Path]:
    """Write the plots that the run has rows for, and name them."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        if any(not result.series and result.ratios(MAIN_PEER) for result in run.results):
            yield _save(_ratios(run, theme), folder / f"ratios{theme.suffix}.png")
        if series_of(run):
            yield _save(_long_streams(run, theme), folder / f"long-streams{theme.suffix}.png")


def _save(plot: Figure, path: Path) -> Path:
    FigureCanvasAgg(plot).print_png(path, metadata={"Software": None})
    return path


def _plain(number: float, _: int) -> str:
    return f"{number:g}"


def _style(axes: Any, theme: Theme, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=8, fontweight="bold", color=theme.ink)
    axes.set_facecolor(theme.page)
    axes.tick_params(which="both", colors=theme.ink, labelsize=7, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_axisbelow(True)


def _ratios(run: Run, theme: Theme) -> Figure:
    """Bars from 1, to the right where Headrace is better, with the ratio of the processor time and the aim as marks."""
    by_name = {result.row: result for result in run.results if not result.series and result.ratios(MAIN_PEER)}
    groups = [(title, [by_name[name] for name in names if name in by_name]) for title, names in GROUPS]
    columns = [groups[:2], groups[2:]]
    sizes = [sum(max(len(rows), 1) + 2 for _, rows in column) for column in columns]
    plot = Figure(figsize=(10, 0.9 + ROW_INCHES * max(sizes)), dpi=DOTS_PER_INCH, layout="constrained")
    plot.patch.set_facecolor(theme.page)
    for half, column in zip(plot.subfigures(1, 2), columns, strict=True):
        half.patch.set_facecolor(theme.page)
        heights = [max(len(rows), 1) + 1 for _, rows in column]
        panels = half.subplots(len(column), 1, sharex=True, height_ratios=heights)
        for axes, (title, rows) in zip(panels, column, strict=True):
            _style(axes, theme, title)
            _ratio_bars(axes, rows, theme)
        axes.set_xlim(0.4, 3 * max(mark for _, rows in column for result in rows for mark in _marks(result)))
        axes.set_xlabel(f"times better than {run.servers[MAIN_PEER]}", fontsize=7, color=theme.ink)
    _legend(plot, theme)
    return plot


def _ratio_bars(axes: Any, rows: list[Result], theme: Theme) -> None:
    axes.set_xscale("log")
    for place, result in enumerate(reversed(rows)):
        ratios = result.ratios(MAIN_PEER)
        ratio = statistics.median(ratios)
        color = theme.better if ratio >= 1 else theme.worse
        axes.barh(place, ratio - 1, left=1, height=BAR_HEIGHT, color=color)
        axes.plot([min(ratios), max(ratios)], [place, place], color=theme.ink, linewidth=0.8)
        if cpu_ratios := result.cpu_ratios(MAIN_PEER):
            cpu_ratio = statistics.median(cpu_ratios)
            axes.plot([cpu_ratio], [place], "D", markersize=3.5, markerfacecolor=theme.page, markeredgecolor=theme.ink)
        if result.target is not None:
            axes.plot([result.target] * 2, [place - 0.42, place + 0.42], color=theme.ink, linewidth=1.8)
        axes.annotate(
            figure(ratio), (max(1, *_marks(result)), place), xytext=(5, 0), textcoords="offset points", va="center",
            fontsize=7, color=color, fontweight="bold",
        )  # fmt: skip
    axes.axvline(1, color=theme.ink, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [result.title for result in reversed(rows)])
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=theme.faint, linewidth=0.5)


def _marks(result: Result) -> Iterator[float]:
    """All ratios that are drawn in a row."""
    yield from result.ratios(MAIN_PEER)
    if cpu_ratios := result.cpu_ratios(MAIN_PEER):
        yield statistics.median(cpu_ratios)
    if result.target is not None:
        yield result.target


def _legend(plot: Figure, theme: Theme) -> None:
    axes = plot.add_axes((0, 0, 0, 0))
    axes.set_axis_off()
    marks = {
        "better: throughput, duration or size": axes.barh(0, 0, color=theme.better),
        "worse": axes.barh(0, 0, color=theme.worse),
        "range of the runs": axes.plot([], [], color=theme.ink, linewidth=0.8)[0],
        "processor time": axes.plot([], [], "D", markersize=3.5, markerfacecolor="none", markeredgecolor=theme.ink)[0],
        "aim: the ratio that the row is to reach": axes.plot(
            [], [], "|", markersize=8, markeredgewidth=1.8, color=theme.ink
        )[0],
    }
    plot.legend(
        list(marks.values()), list(marks), loc="outside upper center", ncols=5, fontsize=7, frameon=False,
        labelcolor=theme.ink,
    )  # fmt: skip


def _long_streams(run: Run, theme: Theme) -> Figure:
    """Processor time of a request by the length of the stream: a panel for each command, from zero."""
    series = series_of(run)
    plot = Figure(figsize=(9, 2.5), dpi=DOTS_PER_INCH, layout="constrained")
    plot.patch.set_facecolor(theme.page)
    for axes, (title, results) in zip(plot.subplots(1, len(series), squeeze=False)[0], series.items(), strict=True):
        _style(axes, theme, title)
        for name, color in ((SUBJECT, theme.better), (MAIN_PEER, theme.peer)):
            sizes, costs = [result.size for result in results], [result.median(name) for result in results]
            axes.plot(sizes, costs, "o-", color=color, markersize=3.5, linewidth=1.5, label=run.servers[name])
        axes.set_xscale("log")
        axes.set_xticks(sizes, [_counted(size) for size in sizes])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0, max(result.median(name) for result in results for name in (SUBJECT, MAIN_PEER)) * 1.25)
        what = "pending entries" if title.startswith("XACK") else "entries in the stream"
        axes.set_xlabel(what, fontsize=7, color=theme.ink)
        axes.set_ylabel("us of processor time a request", fontsize=7, color=theme.ink)
        axes.grid(axis="y", color=theme.faint, linewidth=0.5)
    lines, names = axes.get_legend_handles_labels()
    plot.legend(
        lines, names, loc="outside upper center", ncols=2, fontsize=7, frameon=False, labelcolor=theme.ink
    )  # fmt: skip
    return plot


def _counted(size: int) -> str:
    return f"{size // 1_000_000} M" if size >= 1_000_000 else f"{size // 1000} k"
