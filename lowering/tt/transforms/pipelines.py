"""The pipelines that block functions go through: one text per target and numerics.

What stands before `mark-pipelined-loads` is the same for every target, so a kernel goes through it once.
"""

from __future__ import annotations

HOST, NVPTX = "host", "nvptx"

_PREPARED = {
    "strict": (
        "inline,drop-claims,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "softmax-weights,contract,licm"
    ),
    "fast": (
        "inline,drop-claims,fast-math,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "softmax-weights,contract,licm"
    ),
    "reproducible": (
        "inline,drop-claims,"
        "expand-control,expand-arithmetic,expand-library,expand-assembly,expand-scaled-products,expand-maps,"
        "canonicalize,cse,dce,expand-descriptors,legalize-division,canonicalize,cse,dce,"
        "fix-order,licm"
    ),
}
_FOR_THREADS = "mark-pipelined-loads,assume-divisibility,non-negative-dividends,mark-few-pointers,pointer-induction"

TEXTS: dict[tuple[str, str], str] = {
    **{(HOST, numerics): text for numerics, text in _PREPARED.items()},
    **{(NVPTX, numerics): f"{text},{_FOR_THREADS}" for numerics, text in _PREPARED.items()},
}
"""(kind of target, numerics) → the pipeline of a kernel, without the options that are found out when it is compiled."""

TILED = {"strict": "", "fast": "fast-math,contract", "reproducible": "fix-order"}
"""numerics → the pipeline of the block programs of a graph, once they are tiled. The tiler writes what a host needs no more
passes for."""

FIRST_FOR_THREADS = "mark-pipelined-loads"
"""The first pass that hosts do not run."""


__all__ = ["FIRST_FOR_THREADS", "HOST", "NVPTX", "TEXTS", "TILED"]
