"""Faults that are known and not yet mended, which generators may be told to keep away from: `--avoid NAME`.

A name goes as soon as its fault is mended; the fuzzer is then what tests the repair.
"""

from __future__ import annotations

AVOIDABLE: dict[str, str] = {
    "empty": "axes of extent 0",
    "attention-casts": "casts between the products of attention",
    "row-products": "einsums whose free axes are all shared by both operands",
    "half-dots": "block products whose result has 16 bits",
    "masked-products": "infinities and NaN in products of which one operand is masked",
    "wrapped-index": "index arithmetic that wraps",
    "overflow": "composites of numbers whose sums or squares overflow",
    "graph-bounds": "graph texts whose slices, pads and other extents were changed",
    "names": "names that were changed",
}
