"""Computes the results that a block program must have under each numerics, and where they are not defined to the bit.

Under "fast" they are those of the interpreter after the program's products were fused with sums; and with each of these
fused operations split again, the program must give the bits that it gives as written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.transforms.pipeline import pipeline_of
from joinery.lowering.tt.transforms.rewriting import Rewriter

from ..support.error_bounds.maps import FAST_ABSOLUTE, FAST_ULPS
from ..support.random_kernels.checks import ULPS

APPROXIMATED_ON_GPUS = re.compile(r"(arith\.divf|math\.sqrt) .*(f32|f16|bf16)>?$", re.MULTILINE)
"""Operations whose results `numerics="fast"` changes on GPUs, and which programs use further."""
FREE = re.compile(
    r"arith\.(maximumf|minimumf|maxnumf|minnumf)|tt\.clampf|copysign|bitcast .*: (tensor<[0-9x]*)?b?f\d"  # zeros, bits of NaN
    r"|math\.(?!abs|floor|ceil|trunc|round|sqrt|fma|ct)|tt\.(dot|precise|extern|inline|elementwise_inline)|tt\.atomic"
)
"""Operations whose results may have different bits for some operands: mutated programs with them are not compared."""
ORDERED = re.compile(r'"tt\.(reduce|scan)".*?\}\)', re.DOTALL)


def is_exact(text: str) -> bool:
    """Returns whether every operation of an arbitrary program has one result, to the bit."""
    return not FREE.search(text) and not any("f16" in part or "f32" in part or "f64" in part for part in ORDERED.findall(text))


def fused(text: str, name: str, grid: Sequence[int], own: list[Any], apart: list[Any]) -> None:
    """Computes the results of fast numerics: interprets the program on the arguments `own` after its products were fused, and
    on `apart` after these operations were split again."""
    function = find_function(parse(text), name)
    before: set[int] = set()

    def watch(name: str, changed: Any) -> None:
        if name != "contract":
            before.clear()
            before.update([id(op) for op in changed.walk() if op.name == "math.fma"])

    pipeline_of("host", "fast").through("contract").run(function, watch)
    with np.errstate(all="ignore"):
        interpret(function, grid, own)
        for op in [op for op in function.walk() if op.name == "math.fma" and id(op) not in before]:
            builder = Rewriter(op)
            x, y, z = op.operands
            builder.replace([builder.binary("arith.addf", builder.binary("arith.mulf", x, y), z)])
        interpret(function, grid, apart)


def beyond_fast(arrays: Sequence[Any], found: list[Any], expected: list[Any]) -> str | None:
    """Describes the first array of results of an elementary function whose errors exceed the bound of fast
    numerics."""
    for array, one, two in zip(arrays, found, expected, strict=False):
        if not array.kind.startswith("near"):
            continue
        name, wide, wanted = array.kind.partition("_")[2], one.astype(np.float64), two.astype(np.float64)
        bits = 53 if array.elem == "f64" else 24
        own = {"f16": 11, "bf16": 8}.get(array.elem, bits)
        smallest = {"f16": -24, "f64": -1074}.get(array.elem, -133 if array.elem == "bf16" else -149)
        ulps = ULPS[array.elem] * 2.0 ** (bits - own) + (FAST_ULPS.get(name, 0.0) if bits == 24 else 0.0)
        absolute = FAST_ABSOLUTE.get(name, 0.0) if bits == 24 else 0.0
        _, exponent = np.frexp(np.where(np.isfinite(wanted), wanted, 0.0))
        room = ulps * np.ldexp(1.0, np.maximum(exponent - bits, smallest)) + absolute
        flushed = (np.abs(wanted) < 2.0**-125) & (wide == 0) & (bits == 24)
        good = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted)) | (np.abs(wide - wanted) <= room) | flushed
        if not good.all():
            at = int(np.argmin(good))
            return f"{array.name}: {(~good).sum()} of {good.size} differ; [{at}] is {one[at]!r}, expected {two[at]!r}"
    return None
