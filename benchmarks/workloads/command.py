"""Times hundreds of small computations beside NumPy, PyTorch and JAX, and says where joinery is behind the best of them.

    make bench-workloads                                  # all of them, on one thread: a quarter to half an hour
    python benchmarks/workloads softmax casts             # those with one of these texts in their name or family
    python benchmarks/workloads permute --peers numpy torch --threads 2

joinery's results are compared with those of the first peer; where they differ, nothing is timed, and the exit status is 1.
Contenders take turns as `benchmarks/harness.py` describes, and each round begins with another one. A line has joinery's time
over that of the best peer, the name, and the microseconds of each library.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers import Peers, limit_threads, versions
from run import RESULTS, load_average, processor

from . import PEERS

if TYPE_CHECKING:
    from .measuring import Outcome

BENCHMARKS = Path(__file__).resolve().parents[1]


def number(least: float, most: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return the type of an argument that is a number from `least` to `most`."""

    def parsed(text: str) -> float:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
        return value

    parsed.__name__ = "number"
    return parsed


def arguments() -> argparse.Namespace:
    """Read the command line."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(
        prog="workloads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="texts in names or families of workloads; all of them by default")
    count, seconds, rounds = number(1, processors, int), number(0.01, 1000, float), number(1, 1000, int)
    parser.add_argument("--threads", type=count, default=1, help="threads for everybody (default: 1)")
    parser.add_argument("--seconds", type=seconds, default=0.7, help="sampling time of each workload (default: 0.7)")
    parser.add_argument("--rounds", type=rounds, default=5, help="the least number of rounds of each workload (default: 5)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="all by default; names come before it")
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-workloads.json)")
    return parser.parse_args()


def result(outcomes: Sequence[Outcome], threads: int, absent: Mapping[str, str], started: Sequence[float]) -> dict[str, Any]:
    """Return what is written to the result file, which `compare.py` and `report.py` read."""
    measured = [outcome for outcome in outcomes if outcome.measurement is not None]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "threads": threads,
        "processor": processor(),
        "python": platform.python_version(),
        "versions": versions(),
        "absent": dict(absent),
        "load_average": {"before": list(started), "after": load_average()},
        "faults": {outcome.workload.name: list(outcome.faults) for outcome in outcomes if outcome.faults},
        "cases": [{**each.measurement.as_dict(), "family": each.workload.family} for each in measured],
    }


def main() -> int:
    """Run the command and return its exit status."""
    options = arguments()
    limit_threads(options.threads)

    # The libraries read the thread limits when they are imported.
    from report import write

    from .measuring import measured
    from .selection import selected
    from .summary import line, overview

    chosen = selected(options.names)
    peers = Peers(options.threads, with_joinery=True, names=[name for name in PEERS if name in options.peers])
    for name, reason in peers.absent.items():
        print(f"absent: {name} ({reason})")
    if "jax" in peers.modules:
        peers.modules["jax"].config.update("jax_enable_x64", True)  # without it, 64-bit inputs become 32 bits wide
    started, outcomes = load_average(), []
    for workload in chosen:
        outcomes.append(measured(workload, peers, options.seconds, options.rounds))
        print(line(outcomes[-1]), flush=True)
    print(f"\n{overview(outcomes)}")

    content = result(outcomes, options.threads, peers.absent, started)
    date = datetime.datetime.fromisoformat(content["date"])
    output = options.output or RESULTS / f"{date:%Y-%m-%d-%H%M}-workloads.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written to {output}", *write(output, BENCHMARKS.parent / "out" / "bench"))
    return 1 if content["faults"] else 0
