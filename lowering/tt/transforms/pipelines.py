"""Defines the pipelines that block functions go through, one text per target and numerics.

The passes before `mark-pipelined-loads` are the same for every target, so they run once per kernel.
"""

from __future__ import annotations

HOST, NVPTX = "host", "nvptx"

_PREPARED = {
    "strict": (
        "inline,drop-claims,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,expand-float8,"
        "wide-sums,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "softmax-weights,contract,licm"
    ),
    "fast": (
        "inline,drop-claims,fast-math,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,expand-float8,"
        "wide-sums,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "softmax-weights,contract,licm"
    ),
    "reproducible": (
        "inline,drop-claims,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,expand-float8,expand-transforms,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "fix-order,licm"
    ),
}
_FOR_THREADS = (
    "mark-pipelined-loads,expand-sorts,expand-transforms,assume-divisibility,non-negative-dividends,mark-few-pointers,"
    "pointer-induction"
)

TEXTS: dict[tuple[str, str], str] = {
    **{(HOST, numerics): text for numerics, text in _PREPARED.items()},
    **{(NVPTX, numerics): f"{text},{_FOR_THREADS}" for numerics, text in _PREPARED.items()},
}
"""(kind of target, numerics) → the pipeline of a kernel, without the options that are known only when it is
compiled."""

TILED = {"strict": "", "fast": "fast-math,contract", "reproducible": "fix-order"}
"""numerics → the pipeline of the block programs of a graph, once they are tiled. A host needs no more passes
for what the tiler writes."""

FIRST_FOR_THREADS = "mark-pipelined-loads"
"""The first pass that hosts do not run."""


__all__ = ["FIRST_FOR_THREADS", "HOST", "NVPTX", "TEXTS", "TILED"]
