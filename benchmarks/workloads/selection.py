"""Lists all workloads by family, and selects some of them by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from .families import (
    bits,
    casts,
    convolutions,
    elementwise,
    finance,
    geometry,
    images,
    indices,
    moving,
    networks,
    products,
    reductions,
    signals,
    simulations,
    training,
)
from .workload import Workload

FAMILIES = tuple(
    module.family
    for module in (
        elementwise, casts, reductions, moving, indices, products, images, convolutions, networks, training, simulations,
        geometry, signals, finance, bits,
    )
)  # fmt: skip
WORKLOADS = tuple(workload for family in FAMILIES for workload in family.workloads)


def selected(wanted: Sequence[str]) -> list[Workload]:
    """Return the workloads whose name or family contains one of the texts, in any case; all of them where there is none.

    A text that none contains ends the command, with names that are close to it.
    """
    for text in wanted:
        if not any(matches(workload, text) for workload in WORKLOADS):
            raise SystemExit(f"no workload or family has {text!r} in its name; {suggestion(text)}")
    return [workload for workload in WORKLOADS if not wanted or any(matches(workload, text) for text in wanted)]


def matches(workload: Workload, text: str) -> bool:
    """Return whether a text selects a workload."""
    return text.lower() in workload.name.lower() or text.lower() in workload.family.lower()


def suggestion(text: str) -> str:
    """Return what a user may have meant: families, words of names, or whole names."""
    names = {workload.name.lower() for workload in WORKLOADS}
    families = {family.name for family in FAMILIES}
    words = {word.strip(",") for name in names for word in name.split()}
    close = difflib.get_close_matches(text.lower(), sorted(families | words | names), n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"the families are {', '.join(sorted(families))}"
