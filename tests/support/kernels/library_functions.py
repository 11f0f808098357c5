"""Builds kernels of library functions, and holds the operands that they are tested with."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.libdevice.signatures import SIGNATURES, Signature

DTYPES: dict[str, Any] = {"i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}
LANES = 512
INF, NAN = math.inf, math.nan

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, 2.5, -2.5, INF, -INF, NAN, 1e-3, 100.0, -27.5, 27.5, 1000.0, 5e-324,
    -5e-324, 2.0**-149, 2.0**-126, -(2.0**-140), 1e-310, 1e300, -1e300, 3.4e38, 1.7e308, 2.0**31, -(2.0**31), 2.0**63,
    -(2.0**63), 2.0**64, 2147483647.5, 0.49999999999999994, 0.49999997, 4503599627370497.5, 8388609.0, 709.0, 89.0, -103.5,
    1 - 2**-24, 1 + 2**-23, 1e-20, 20.0, -0.1,
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, 5, 31, 32, -5, 127, 1 << 30, -(1 << 31), (1 << 31) - 1, 1000, -2000, 16777217, 0x12345678, 0x76543210]
LONGS = [*INTEGERS, 1 << 40, (1 << 63) - 1, -(1 << 63), (1 << 62) + 1, (1 << 53) + 1, -(1 << 53) - 1, (1 << 24) + 1]
VALUES: dict[str, list[Any]] = {
    "f32": FLOATS, "f64": FLOATS, "i32": INTEGERS, "i64": LONGS,
    "i16": [0, 1, -1, 0x7C00, -1024, 0x7E00, 0x3FF, 0x3C00, -32768, 12345],
}  # fmt: skip


def kernel(signatures: Sequence[Signature], lanes: int = LANES) -> Any:
    """Returns `_kernel`, built once."""
    return _kernel(tuple(signatures), lanes)


@functools.lru_cache(maxsize=8)
def _kernel(signatures: tuple[Signature, ...], lanes: int) -> Any:
    """Builds a kernel in which every program computes all the functions (of the same argument types) on its
    lanes, with one output each."""
    arguments = signatures[0].arguments
    inputs = [f"%p{i}: !tt.ptr<{e}>" for i, e in enumerate(arguments)]
    outputs = [f"%o{i}: !tt.ptr<{s.result}>" for i, s in enumerate(signatures)]
    lines = []
    for i, e in enumerate(arguments):
        lines += [
            f"%s{i} = tt.splat %p{i} : !tt.ptr<{e}> -> tensor<{lanes}x!tt.ptr<{e}>>",
            f"%a{i} = tt.addptr %s{i}, %at : tensor<{lanes}x!tt.ptr<{e}>>, tensor<{lanes}xi32>",
            f"%x{i} = tt.load %a{i} : tensor<{lanes}x!tt.ptr<{e}>>",
        ]
    names = ", ".join(f"%x{i}" for i in range(len(arguments)))
    types = ", ".join(f"tensor<{lanes}x{e}>" for e in arguments)
    for i, s in enumerate(signatures):
        r = s.result
        lines += [
            f'%v{i} = tt.extern_elementwise {names} {{libname = "", libpath = "", pure = true, symbol = "{s.symbol}"}} '
            f": ({types}) -> tensor<{lanes}x{r}>",
            f"%t{i} = tt.splat %o{i} : !tt.ptr<{r}> -> tensor<{lanes}x!tt.ptr<{r}>>",
            f"%b{i} = tt.addptr %t{i}, %at : tensor<{lanes}x!tt.ptr<{r}>>, tensor<{lanes}xi32>",
            f"tt.store %b{i}, %v{i} : tensor<{lanes}x!tt.ptr<{r}>>",
        ]
    body = "\n    ".join(lines)
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @k({", ".join([*inputs, *outputs])}) {{
    %pid = tt.get_program_id x : i32
    %c = arith.constant {lanes} : i32
    %start = arith.muli %pid, %c : i32
    %range = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>
    %first = tt.splat %start : i32 -> tensor<{lanes}xi32>
    %at = arith.addi %first, %range : tensor<{lanes}xi32>
    {body}
    tt.return
  }}
}}
""")


def run(signatures: Sequence[Signature], operands: Sequence[Any], how: str, **options: Any) -> list[Any]:
    """Computes the functions on columns of any length, padded to whole programs. options: those of
    `Kernel.launch`."""
    count = len(operands[0])
    programs = -(-count // LANES)
    with np.errstate(all="ignore"):
        columns = [
            np.resize(np.asarray(x, np.float64 if e[0] == "f" else np.int64).astype(DTYPES[e]), programs * LANES)
            for x, e in zip(operands, signatures[0].arguments, strict=True)
        ]
    results = [np.zeros(programs * LANES, DTYPES[s.result]) for s in signatures]
    getattr(kernel(signatures), how)((programs,), *columns, *results, **options)
    return [result[:count] for result in results]


def groups() -> list[Any]:
    """Groups symbols with the same argument types, at most twelve in a group: one kernel each."""
    by_arguments: dict[tuple[str, ...], list[Signature]] = {}
    for signature in SIGNATURES.values():
        by_arguments.setdefault(signature.arguments, []).append(signature)
    found = []
    for arguments, members in by_arguments.items():
        for start in range(0, len(members), 12):
            part = members[start : start + 12]
            found.append(pytest.param(part, id=f"{','.join(arguments)}-{part[0].symbol}"))
    return found
