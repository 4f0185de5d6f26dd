"""The plots of docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import MAIN_PEER, series_of
from benchmarks.results import SUBJECT, Run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

INK, WALL_COLOR, CPU_COLOR, GRID = "#222222", "#2f6db3", "#e08a2e", "#dddddd"
DOTS_PER_INCH = 120
BAR_HEIGHT = 0.38
MARKERS = "osD^v"


def draw(run: Run, folder: Path) -> Iterator[Path]:
    """Write the plots that the run has rows for, and name them."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(not result.series and result.ratios(MAIN_PEER) for result in run.results):
        yield _save(_ratios(run), folder / "ratios.png")
    if series_of(run):
        yield _save(_growth(run), folder / "growth.png")


def _save(figure: Figure, path: Path) -> Path:
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})
    return path


def _plain(number: float, _: int) -> str:
    return f"{number:g}"


def _ratios(run: Run) -> Figure:
    """Bars from 1: to the right where Headrace is better. The whiskers are the spread, the ticks what is aimed at."""
    rows = [result for result in reversed(run.results) if not result.series and result.ratios(MAIN_PEER)]
    figure = Figure(figsize=(9, 1.2 + 0.36 * len(rows)), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    for place, result in enumerate(rows):
        ratios = result.ratios(MAIN_PEER)
        _bar(axes, place + BAR_HEIGHT / 2, statistics.median(ratios), WALL_COLOR)
        axes.plot([min(ratios), max(ratios)], [place + BAR_HEIGHT / 2] * 2, color=INK, linewidth=1)
        if cpu_ratios := result.cpu_ratios(MAIN_PEER):
            _bar(axes, place - BAR_HEIGHT / 2, statistics.median(cpu_ratios), CPU_COLOR)
        if result.target is not None:
            axes.plot([result.target] * 2, [place - BAR_HEIGHT, place + BAR_HEIGHT], color=INK, linewidth=2)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_yticks(range(len(rows)), [result.title for result in rows], fontsize=8)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_xlabel(f"times better than {run.servers[MAIN_PEER]}")
    axes.grid(axis="x", which="both", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    names = ("throughput, duration or size", "processor time", "aim")
    bars = [axes.barh(0, 0, color=color) for color in (WALL_COLOR, CPU_COLOR)]
    figure.legend(
        [*bars, *axes.plot([], [], color=INK, linewidth=2)], names, loc="outside upper center", ncols=3, fontsize=8
    )
    return figure


def _bar(axes: object, place: float, ratio: float, color: str) -> None:
    axes.barh(place, ratio - 1, left=1, height=BAR_HEIGHT, color=color)  # type: ignore[attr-defined]


def _growth(run: Run) -> Figure:
    """Processor time of a request by size, both axes logarithmic."""
    figure = Figure(figsize=(8, 4.5), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    for (series, results), marker in zip(series_of(run).items(), MARKERS, strict=False):
        for name, color in ((SUBJECT, WALL_COLOR), (MAIN_PEER, CPU_COLOR)):
            sizes, costs = [result.size for result in results], [result.median(name) for result in results]
            label = f"{series}, {run.servers[name]}"
            axes.plot(sizes, costs, marker=marker, color=color, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.yaxis.set_minor_formatter(FuncFormatter(_plain))
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.set_xlabel("entries in the stream; pending entries of XACK")
    axes.set_ylabel("processor time of a request, us")
    axes.grid(which="both", color=GRID, linewidth=0.5)
    figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    return figure
