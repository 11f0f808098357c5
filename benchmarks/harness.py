"""Times contenders fairly side by side, in one process and in turn, so that a disturbance affects them all.

Method. A case runs in rounds; the order of the contenders rotates from round to round. In a round a
contender first warms up (caches, sleeping threads, thread placement) for at least two calls and 20 ms,
then three samples are timed and the median counts. Some libraries' worker threads keep spinning after
a call (ONNX Runtime's for 50 ms, OpenBLAS's for 100 ms) and would slow down the next contender, which
therefore waits until the process is idle. Ratios are formed within a round and only then summarised, so
slow drift of the clock and a busy neighbour cancel out.
"""

from __future__ import annotations

import math
import os
import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAUSE_AFTER_SPINNING = 40e-3  # seconds, at least
IDLE_WINDOW = 10e-3  # seconds in which the process may use a twentieth of one processor
IDLE_TIMEOUT = 2.0
MINIMUM_SAMPLE = 200e-6  # seconds; shorter calls are timed in blocks of this length
WARM_UP_CALLS = 2
WARM_UP_TIME = 20e-3  # seconds
SAMPLES_PER_ROUND = 3
BRIEF_ROUNDS, BRIEF_PROCESSES = 3, 2
LIMIT = "machine's limit"


@dataclass(frozen=True, slots=True)
class Contender:
    """An expression to time and the names it uses. `ours` marks joinery; `spins` asks for a pause after it."""

    name: str
    statement: str
    names: Mapping[str, Any]
    spins: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds per call over all rounds."""

    median: float
    minimum: float
    lower_quartile: float
    upper_quartile: float
    samples: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of `ours` over the time of `peer`, per round: below 1, ours is faster. `low` and `high` are the ends of a
    95 % confidence interval of the median."""

    ours: str
    peer: str
    median: float
    lower_quartile: float
    upper_quartile: float
    low: float
    high: float


@dataclass(slots=True)
class Measurement:
    """One case: samples by contender (one per round), including the machine's best possible times under `LIMIT`."""

    name: str
    limit_reason: str
    samples: dict[str, list[float]]
    ours: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def peers(self) -> list[str]:
        return [name for name in self.samples if name not in self.ours and name != LIMIT]

    def summary(self, name: str) -> Summary:
        values = self.samples[name]
        low, middle, high = quartiles(values)
        return Summary(middle, min(values), low, high, len(values))

    def ratio(self, ours: str, peer: str) -> Ratio:
        pairs = zip(self.samples[ours], self.samples[peer], strict=True)
        values = [mine / other for mine, other in pairs]
        lower, middle, upper = quartiles(values)
        return Ratio(ours, peer, middle, lower, upper, *median_interval(values))

    def best_peer(self) -> str | None:
        """Return the peer with the smallest median."""
        return min(self.peers, key=lambda name: self.summary(name).median, default=None)

    def as_dict(self) -> dict[str, Any]:
        timings = {}
        for name in self.samples:
            summary = self.summary(name)
            timings[name] = {
                "median_s": summary.median,
                "minimum_s": summary.minimum,
                "quartiles_s": [summary.lower_quartile, summary.upper_quartile],
                "samples": summary.samples,
            }
        ratios = {}
        pairs = [(ours, peer) for ours in self.ours for peer in self.peers]
        if LIMIT in self.samples:
            pairs += [(name, LIMIT) for name in self.samples if name != LIMIT]
        for one, other in pairs:
            ratio = self.ratio(one, other)
            ratios[f"{one} / {other}"] = {
                "median": ratio.median,
                "quartiles": [ratio.lower_quartile, ratio.upper_quartile],
                "interval": [ratio.low, ratio.high],
            }
        return {
            "name": self.name,
            "limit_reason": self.limit_reason,
            "best_peer": self.best_peer(),
            "timings": timings,
            "ratios": ratios,
            "notes": self.notes,
        }


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile (linear interpolation, ends included)."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval of the median, whatever the distribution: two order statistics.

    That many values or fewer below the median have binomial chances of one half (Conover, Practical Nonparametric Statistics,
    §3.2). Of fewer than six values even the least and the largest make an interval of less confidence.
    """
    ordered, count = sorted(values), len(values)
    tail, outside = 0.0, 0
    while outside < (count - 1) // 2:
        tail += math.comb(count, outside) / 2**count
        if 2 * tail > 1 - confidence:
            break
        outside += 1
    first = max(outside - 1, 0)
    return ordered[first], ordered[count - 1 - first]


def sample(
    contenders: Sequence[Contender],
    seconds: float,
    minimum_rounds: int = 7,
    limit: Callable[[], float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    brief: bool = False,
) -> dict[str, list[float]]:
    """Time the contenders in turn for about `seconds`, at least `minimum_rounds` times; return seconds per call.

    `limit` measures itself and returns the seconds; it runs once in every round, under the name `LIMIT`. `clock` is
    `time.process_time` where a busy machine is to count the processor time of all threads instead. `brief`: calls that are as
    long as a warm-up are made once for it and timed once a round.
    """
    timers = {c.name: timeit.Timer(c.statement, timer=clock, globals=dict(c.names)) for c in contenders}
    if len(timers) != len(contenders):
        raise ValueError(f"two contenders share a name: {[c.name for c in contenders]}")
    block = {}
    calls_of = {}  # calls of a warm-up, and samples of a round
    for contender in contenders:
        timers[contender.name].timeit(1 if brief else WARM_UP_CALLS)
        once = timers[contender.name].timeit(1)
        block[contender.name] = max(1, math.ceil(MINIMUM_SAMPLE / max(once, 1e-9)))
        calls_of[contender.name] = (1, 1) if brief and once >= WARM_UP_TIME else (WARM_UP_CALLS, SAMPLES_PER_ROUND)
        settle(contender.spins)
    samples: dict[str, list[float]] = {c.name: [] for c in contenders}
    if limit is not None:
        samples[LIMIT] = []
    start = time.perf_counter()
    turn = 0
    while turn < minimum_rounds or time.perf_counter() < start + seconds:
        first = turn % len(contenders)
        for contender in [*contenders[first:], *contenders[:first]]:
            timer, calls = timers[contender.name], block[contender.name]
            before, count = calls_of[contender.name]
            warm_up(timer, calls, before)
            times = [timer.timeit(calls) / calls for _ in range(count)]
            samples[contender.name].append(statistics.median(times))
            settle(contender.spins)
        if limit is not None:
            stop = time.perf_counter() + WARM_UP_TIME
            while time.perf_counter() < stop:
                limit()
            samples[LIMIT].append(statistics.median([limit() for _ in range(SAMPLES_PER_ROUND)]))
            settle(spins=False)
        turn += 1
    return samples


class ForeignLoad:
    """Measures how many processors other processes have used since this object was made; None where that is
    unknown."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), self._others()

    @staticmethod
    def _others() -> float | None:
        """Return the seconds of processor time used on the machine by all processes but this one and its children."""
        statistics_file = Path("/proc/stat")
        if not statistics_file.exists():
            return None
        ticks = [int(value) for value in statistics_file.read_text().splitlines()[0].split()[1:9]]
        user, nice, system, _idle, _wait, interrupt, soft_interrupt, stolen = ticks
        busy = user + nice + system + interrupt + soft_interrupt + stolen
        return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])

    def processors(self) -> float | None:
        started, before = self._start
        after = self._others()
        if before is None or after is None:
            return None
        return max(0.0, (after - before) / (time.perf_counter() - started))

    def mark(self, measurement: Measurement) -> None:
        """Note in a measurement that it shared the processors with other programs, if it did."""
        load = self.processors()
        if load is not None and load > 0.05:
            measurement.notes["disturbed"] = f"other processes used {load:.2f} processors meanwhile"


def settle(spins: bool) -> None:
    """Wait until no thread of this process is running."""
    if spins:
        time.sleep(PAUSE_AFTER_SPINNING)
    deadline = time.perf_counter() + IDLE_TIMEOUT
    while time.perf_counter() < deadline:
        used = time.process_time()
        time.sleep(IDLE_WINDOW)
        if time.process_time() - used < IDLE_WINDOW / 20:
            return
    raise SystemExit(
        f"threads of a contender still run {IDLE_TIMEOUT:.0f} s after its call; nothing can be timed"
    )


def warm_up(timer: timeit.Timer, calls: int, least: int = WARM_UP_CALLS) -> None:
    """Call until caches are filled and the library's threads are awake and each on a processor of its own, `least` times at
    least."""
    end = time.perf_counter() + WARM_UP_TIME
    timer.timeit(least)
    while time.perf_counter() < end:
        timer.timeit(calls)


def format_seconds(value: float) -> str:
    """Format seconds with three significant digits in the unit that fits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def spread(ratio: Ratio) -> str:
    """Format a ratio in hundredths, or with two significant digits where those would be zero."""
    form = ".2f" if ratio.median >= 0.1 else ".2g"
    return f"{ratio.median:{form}} ({ratio.lower_quartile:{form}}–{ratio.upper_quartile:{form}})"


def report(measurement: Measurement) -> str:
    """Format a line per contender, fastest first, with ratios to the limit; then the ratios of ours to the peers."""
    lines = [measurement.name]
    limited = LIMIT in measurement.samples
    if limited:
        lines[0] += f"   (limit: {measurement.limit_reason})"
    order = sorted(measurement.samples, key=lambda name: measurement.summary(name).median)
    width = max(map(len, order), default=0) + 2
    for name in order:
        summary = measurement.summary(name)
        median, minimum = format_seconds(summary.median), format_seconds(summary.minimum)
        text = f"  {name:{width}s} median {median:>9s}  min {minimum:>9s}"
        if limited and name != LIMIT:
            text += f"  {measurement.ratio(name, LIMIT).median:6.2f}× limit"
        lines.append(text)
    for ours in measurement.ours:
        for peer in order:
            if peer not in measurement.ours:
                lines.append(f"  {ours} / {peer}: {spread(measurement.ratio(ours, peer))}")
    lines += [f"  {name}: {note}" for name, note in measurement.notes.items()]
    return "\n".join(lines)


def table(measurements: Sequence[Measurement]) -> str:
    """Format the overview: ours against the best peer and against the machine, one line per case."""
    rows = [("case", "ours", "best peer", "", "ours / best peer", "ours / limit", "best peer / limit")]
    for measurement in measurements:
        peer = measurement.best_peer()
        peer_time = measurement.summary(peer).median if peer else None
        for ours in measurement.ours or ("",):
            own_time = measurement.summary(ours).median if ours else None
            limited = LIMIT in measurement.samples
            title = f"{measurement.name} [{ours}]" if len(measurement.ours) > 1 else measurement.name
            rows.append(
                (
                    title,
                    format_seconds(own_time) if own_time else "–",
                    format_seconds(peer_time) if peer_time else "–",
                    peer or "",
                    spread(measurement.ratio(ours, peer)) if ours and peer else "",
                    spread(measurement.ratio(ours, LIMIT)) if ours and limited else "",
                    spread(measurement.ratio(peer, LIMIT)) if peer and limited else "",
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    lines = ["  ".join(cells).rstrip() for cells in padded]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
