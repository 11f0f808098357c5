"""Provides what docs/ops.md says about errors: bounds from the op table, and what docs/accuracy.py measured
(docs/accuracy.json)."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

from joinery.graph.ops.opdef import OpDef

MEASURED: dict[str, Any] = json.loads((Path(__file__).resolve().parent / "accuracy.json").read_text(encoding="utf-8"))
"""The largest errors of functions of one float, by function, dtype and target."""

MEASURED_AS = {"gelu": ("gelu", "gelu tanh", "gelu quick"), "x_phi": ("gelu",), "x_sigmoid": ("silu",),
               "x_sigmoid_quick": ("gelu quick",), "x_sigmoid_tanh": ("gelu tanh",)}  # fmt: skip
DTYPES = ("float32", "float16", "bfloat16", "float64")
WITH_AVX2 = {"erf": (1.2596, "0x1.0ddfdep-2"), "tanh": (0.9505, "0x1.4a814ep-1")}
"""The largest errors of float32 on hosts with AVX2 and no AVX-512, of all values, where these have functions of their own, and
operands that have them."""

_INTRO = """## Errors

The column *error* says how far results of compiled code can be from the exact ones, in strict numerics. In **ulp**, units in
the last place of the exact result in float32 (2^-149 for denormal ones): 0.5 is correctly rounded, but for a
few 16-bit results that rounding twice moves across a midpoint; functions of one operand were measured; for `pow` and operations
inside composites it is what tests allow. Other rows have a bound of the absolute error,
of which tests check that it holds: n is the number of elements that are added up, x (a, b) the operands, y the exact result,
ε = 2^-23, and 2^-52 for float64; m is the error of the mean; those of layer_norm and rms_norm are before scale and bias. Bounds
hold where no intermediate number is denormal or overflows. 16-bit floats are computed in float32 and rounded once more.

The bounds of softmax: a weight is within 2 ulp (4 on GPUs), their sum of n positive numbers adds n - 1 roundings at most, its
reciprocal and the product one each; what the weights' errors make of the sum is their mean. In logsoftmax both terms of the
difference have one sign, so that nothing cancels; its sum goes through a product and log1p, which is accurate near 0. As sums
are taken in many parts, errors are far below n: softmax of up to 60,000 numbers, in rows or columns, was never off by more than
6 ulp.

The table has the largest errors that `docs/accuracy.py` found for functions of one operand, in ulp of each dtype, rounded up:
on a host with AVX-512, on the simulated GPU, and of `evaluate`. Hosts with AVX2 have tables of their own for float32: of all
values erf is off by up to @erf ulp, tanh by @tanh. 16-bit floats: all values. float32: all 2^32 values on the
host where it says so, otherwise a sample over all bit patterns and around 0; float64: a sample. What a sample found is no
bound: other arguments were seen to err up to half as much again. Candidates come from float64 functions, and
mpmath decides. Tests repeat the worst ones. The simulator computes instructions such as `ex2.approx` exactly; GPUs may add what
the PTX ISA allows them, 2 ulp for `ex2` and 1 for `rcp`.
"""

HEADER = ("function", *[f"{dtype}: host, simulator, `evaluate`" for dtype in DTYPES], "float32 operands on the host")


def rounded_up(ulp: float) -> str:
    """Formats a number rounded up to two digits after the point."""
    return f"{math.ceil(ulp * 100 - 0.02) / 100:g}"


INTRO = functools.reduce(lambda text, name: text.replace(f"@{name}", rounded_up(WITH_AVX2[name][0])), WITH_AVX2, _INTRO)


def error(row: OpDef, floats: bool) -> str:
    """Returns the error column: a bound, or the error measured for float32 on the host and the simulator, or
    the number of the row."""
    rounds = "any_dtype" not in row.traits or "rounding" in row.attrs
    if not rounds or not floats or row.promote.name in ("JOIN_TO_BOOL", "POSITION", "SEARCHED"):
        return "–"
    if row.bound:
        return row.bound
    found = [MEASURED[name]["float32"] for name in MEASURED_AS.get(row.name, (row.name,)) if name in MEASURED]
    if not found or row.ulp == 0.5:
        return f"{row.ulp:g} ulp"
    worst = max(record[target]["ulp"] for record in found for target in ("cpu", "ptxsim"))
    return f"{rounded_up(max(worst, WITH_AVX2.get(row.name, (0.0, ''))[0]))} ulp"


def measured() -> list[tuple[str, ...]]:
    """Returns the rows of the table of all measurements."""
    rows = []
    for name, dtypes in MEASURED.items():
        errors = [", ".join(rounded_up(dtypes[d][t]["ulp"]) for t in ("cpu", "ptxsim", "evaluate")) for d in DTYPES]
        tried = dtypes["float32"]["cpu"]["tried"]
        rows.append((f"`{name}`", *errors, "every value" if tried == 1 << 32 else f"{tried:,}"))
    return rows
