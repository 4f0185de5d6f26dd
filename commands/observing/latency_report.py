"""Reports of the latency monitor for people: the text of LATENCY DOCTOR and the drawing of LATENCY GRAPH."""

from __future__ import annotations

from typing import Final

from .latency import History, LatencyMonitor, Sample

GRAPH_ROWS_COUNT: Final = 4
GRAPH_COLUMNS_COUNT: Final = 80
# Three heights of a sample within a row.
GRAPH_LEVELS: Final = "_o#"

# Advice by event, in the order of the report.
ADVICE: Final = {
    "command": (
        "Read SLOWLOG GET: it names the calls that took long.",
        "Ask for less at once: COUNT on XRANGE and XREADGROUP, XTRIM with `~`, SCAN in place of KEYS.",
    ),
    "fast-command": (
        "Fast commands are slow when the machine is: look for other work on it, for swapping, and for a hypervisor "
        "that gives its processors to others (`redis-cli --intrinsic-latency 100`).",
    ),
    "aof-write": ("The system was slow to take the log's records: the disk has other work, or too little bandwidth.",),
    "aof-fsync-always": (
        "Every reply waits for the disk under `appendfsync always`: use a faster disk, or `appendfsync everysec` if "
        "the last second may be lost.",
    ),
    "eviction-cycle": ("Many keys are evicted at once: lower maxmemory-eviction-tenacity, or raise maxmemory.",),
    "expire-cycle": ("Many keys end at the same time: spread their times.",),
    "fork": (
        "A picture of the dataset takes the longer the more keys and pending entries there are: space out saves.",
    ),
}


def doctor(monitor: LatencyMonitor, now_s: int) -> str:
    """Every recorded event in numbers, and what to do about it."""
    if not monitor.threshold_ms and not monitor.histories:
        return (
            "I'm sorry, Dave, I can't do that. Latency monitoring is off: switch it on with "
            '"CONFIG SET latency-monitor-threshold <milliseconds>".\n'
        )
    if not monitor.histories:
        return "Dave, no latency spike was observed since monitoring began, not the slightest one.\n"
    lines = ["Dave, I have observed latency spikes in this server. You don't mind talking about it, do you Dave?", ""]
    for number, (event, history) in enumerate(monitor.histories.items(), start=1):
        lines.append(f"{number}. {event}: {_summary(history, now_s)}")
    advice = [line for event, texts in ADVICE.items() if event in monitor.histories for line in texts]
    if advice:
        lines += ["", "My advice:", "", *(f"- {line}" for line in advice)]
    return "\n".join(lines) + "\n"


def _summary(history: History, now_s: int) -> str:
    """Count, mean, mean deviation and mean distance of an event's samples."""
    durations_ms = [sample.duration_ms for sample in history.samples]
    count = len(durations_ms)
    mean_ms = sum(durations_ms) / count
    deviation_ms = sum(abs(mean_ms - each) for each in durations_ms) / count
    period_s = max(1, now_s - history.samples[0].time_s) / count
    return (
        f"{count} latency spikes (average {mean_ms:.0f}ms, mean deviation {deviation_ms:.0f}ms, "
        f"period {period_s:.2f} sec). Worst all time event {history.longest_ms}ms."
    )


def graph(event: str, history: History, now_s: int) -> str:
    """The samples as columns, oldest first, with their ages written downwards below them."""
    samples = list(history.samples)
    high = max(sample.duration_ms for sample in samples)
    low = min(sample.duration_ms for sample in samples)
    head = f"{event} - high {high} ms, low {low} ms (all time high {history.longest_ms} ms)\n"
    pieces = [
        _draw(samples[start : start + GRAPH_COLUMNS_COUNT], low, high, now_s)
        for start in range(0, len(samples), GRAPH_COLUMNS_COUNT)
    ]
    return head + "-" * GRAPH_COLUMNS_COUNT + "\n" + "\n".join(pieces)


def _draw(samples: list[Sample], low: int, high: int, now_s: int) -> str:
    steps_count = GRAPH_ROWS_COUNT * len(GRAPH_LEVELS)
    columns: list[str] = []
    for sample in samples:
        step = min(steps_count - 1, (sample.duration_ms - low) * steps_count // max(high - low, 1))
        full_rows_count, level = divmod(step, len(GRAPH_LEVELS))
        bar = "|" * full_rows_count + GRAPH_LEVELS[level]
        # Top first; a blank line separates the ages from the bars.
        columns.append(bar.ljust(GRAPH_ROWS_COUNT)[::-1] + " " + age(now_s - sample.time_s))
    height = max(map(len, columns))
    rows = zip(*(column.ljust(height) for column in columns), strict=True)
    return "".join("".join(row) + "\n" for row in rows)


def age(seconds: int) -> str:
    """The number of seconds in the largest unit that gives at least one."""
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit_s:
            return f"{seconds // unit_s}{unit}"
    return f"{max(0, seconds)}s"
