"""Faults that are known and not yet mended, which generators may be told to keep away from: `--avoid NAME`.

A name goes as soon as its fault is mended; the fuzzer is then what tests the repair.
"""

from __future__ import annotations

AVOIDABLE: dict[str, str] = {
    "overflow": "composites of numbers whose sums or squares overflow",
    "graph-bounds": "graph texts whose slices, pads and other extents were changed",
}
