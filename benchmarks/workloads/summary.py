"""Says how joinery does on a list of workloads: a line for each, means of families, and where it is behind."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from .measuring import Outcome

BOUNDS = (1.03, 1.25, 1.5)
"""Ratios to the best peer above which workloads are counted; those above the first are listed."""


def line(outcome: Outcome) -> str:
    """Return the ratio to the best peer, the name, the microseconds of each library, and what cannot run it."""
    name = outcome.workload.name
    lines = [f"FAULT {name}: {fault}" for fault in outcome.faults]
    if outcome.measurement is not None:
        ratio = " none" if outcome.ratio is None else f"{outcome.ratio:5.2f}"
        times = (
            f"{library} {outcome.measurement.summary(library).median * 1e6:9.1f}" for library in outcome.measurement.samples
        )
        lines.append(f"{ratio}  {name:<56s} {'  '.join(times)}")
    lines += [f"       {library} cannot run it: {reason}" for library, reason in outcome.unable.items()]
    return "\n".join(lines)


def overview(outcomes: Sequence[Outcome]) -> str:
    """Return geometric means and counts of families and of all, what joinery is behind in, and the faults."""
    families = list(dict.fromkeys(outcome.workload.family for outcome in outcomes))
    heading = f"{'':<22s} {'cases':>5s}  {'mean':>5s}" + "".join(f"  {f'> {bound}':>6s}" for bound in BOUNDS)
    lines = [heading]
    for family in (*families, "all"):
        ratios = [
            outcome.ratio for outcome in outcomes
            if outcome.ratio is not None and family in (outcome.workload.family, "all")
        ]  # fmt: skip
        if ratios:
            counts = "".join(f"  {sum(ratio > bound for ratio in ratios):6d}" for bound in BOUNDS)
            lines.append(f"{family:<22s} {len(ratios):5d}  {statistics.geometric_mean(ratios):5.2f}{counts}")
    known = [(outcome.ratio, outcome.workload.name) for outcome in outcomes if outcome.ratio is not None]
    behind = [f"{name} {ratio:.2f}" for ratio, name in sorted(known, reverse=True) if ratio > BOUNDS[0]]
    lines.append(f"behind: {', '.join(behind) or 'none'}")
    alone = [outcome.workload.name for outcome in outcomes if outcome.measurement is not None and outcome.ratio is None]
    if alone:
        lines.append(f"without a peer: {', '.join(alone)}")
    disturbed = sum("disturbed" in outcome.measurement.notes for outcome in outcomes if outcome.measurement is not None)
    if disturbed:
        lines.append(f"disturbed by other processes: {disturbed}")
    lines += [f"FAULT {outcome.workload.name}: {fault}" for outcome in outcomes for fault in outcome.faults]
    return "\n".join(lines)
