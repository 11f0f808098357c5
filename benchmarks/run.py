"""Runs the benchmarks, prints the tables and writes a result file.

python benchmarks/run.py                       everything that can be imported
python benchmarks/run.py softmax call          only these cases
python benchmarks/run.py --peers-only          the baseline without joinery
python benchmarks/run.py --quick               three rounds of each case but the longest, for a first look: three minutes

The tables are also written as Markdown and HTML pages, to out/bench (`report.py`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from peers import Peers, limit_threads, versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LONG_CASES = (
    "minilm-32x128", "text-attention-4096", "interpreter-vec-add", "interpreter-layer-norm", "interpreter-attention",
)  # fmt: skip
"""Left out of quick runs unless they are named; shorter cases of the same kinds are in."""


def processor() -> dict[str, Any]:
    """Returns model name, core count and cache sizes as the operating system reports them."""
    facts: dict[str, Any] = {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
    }
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "cpu family", "model", "stepping"):
                facts[key.strip()] = value.strip()
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    facts["caches"] = [
        f"L{(index / 'level').read_text().strip()} {(index / 'type').read_text().strip()} "
        f"{(index / 'size').read_text().strip()}"
        for index in caches
    ]
    return facts


def load_average() -> list[float]:
    """Returns how many processes want a core; more than the harness's own threads mean that the figures are
    disturbed."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="names of cases; all of them when none is given")
    parser.add_argument("--threads", type=int, default=2, help="threads for everybody (default: 2)")
    parser.add_argument("--seconds", type=float, default=4.0, help="sampling time per case (default: 4)")
    parser.add_argument("--quick", action="store_true", help="three rounds of each case but the longest")
    parser.add_argument("--peers-only", action="store_true", help="leave joinery out")
    parser.add_argument(
        "--output", type=Path, help="result file (default: benchmarks/results/DATE[-peers].json)"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds = 0.0
    limit_threads(options.threads)

    # The libraries read the thread limits when they are imported.
    from cases import CASES as GRAPH_CASES
    from harness import BRIEF_ROUNDS, ForeignLoad, Measurement, report, sample, table
    from kernel_cases import KERNEL_CASES, KERNEL_MEASUREMENTS
    from machine import measure_limits
    from report import write
    from startup import STARTUP_CASES as STARTUP

    cases = {**GRAPH_CASES, **KERNEL_CASES}
    measurements_of = {**STARTUP, **KERNEL_MEASUREMENTS}
    known = [*cases, *measurements_of]
    unknown = sorted(set(options.cases) - set(known))
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = options.cases or [name for name in known if not (options.quick and name in LONG_CASES)]

    peers = Peers(options.threads, with_joinery=not options.peers_only)
    for name, reason in peers.absent.items():
        print(f"absent: {name} ({reason})")
    started = load_average()
    machine = measure_limits(options.threads)
    print(f"machine: {machine.describe()}\n")

    measurements: list[Measurement] = []
    for name in chosen:
        foreign = ForeignLoad()
        if name in cases:
            case = cases[name](peers)
            case.check()
            foreign = ForeignLoad()
            ours = tuple(contender.name for contender in case.contenders if contender.ours)
            limit, reason = case.work.limit(machine, options.threads)
            samples = sample(case.contenders, options.seconds, BRIEF_ROUNDS if options.quick else 7, limit, brief=options.quick)
            measurement = Measurement(case.name, reason, samples, ours)
            del case, limit
        else:
            measurement = measurements_of[name](peers, options.quick)
        foreign.mark(measurement)
        measurements.append(measurement)
        print(report(measurement) + "\n", flush=True)
    machine = machine.better_of(measure_limits(options.threads))
    print(f"machine, better of before and after: {machine.describe()}\n")
    print(table(measurements))

    date = datetime.datetime.now(datetime.UTC)
    result = {
        "date": date.isoformat(timespec="seconds"),
        "threads": options.threads,
        "processor": processor(),
        "python": platform.python_version(),
        "versions": versions(),
        "absent": peers.absent,
        "load_average": {"before": started, "after": load_average()},
        "machine": machine.as_dict(),
        "cases": [measurement.as_dict() for measurement in measurements],
    }
    kind = "-peers" if options.peers_only else "-quick" if options.quick else ""
    default = (ROOT / "out" / "bench" if options.quick else RESULTS) / f"{date:%Y-%m-%d-%H%M}{kind}.json"
    output = options.output or default
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {output}", *write(output, ROOT / "out" / "bench"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
