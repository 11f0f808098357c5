"""Runs short kernels in Triton-C: interpreted and natively, which must agree."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest


def problems(text: str, defines: dict[str, object] | None = None, **options: Any) -> str:
    """Return the message of what is wrong with a text."""
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(text + "\n", defines, cache=False, **options)
    return str(caught.value)


def first_problem(body: str, parameters: str = "float *x, int n") -> str:
    """Return the message for a kernel of one line with this body, without the column of its only line."""
    return problems(f"__global__ void f({parameters}) {{\n{body}\n}}")


def run(text: str, grid: int, *args: Any, defines: dict[str, object] | None = None, **options: Any) -> list[Any]:
    """Run a kernel by the interpreter and on the host; return the arguments behind it, arrays as they are then."""
    kernel = jn.kernel.from_triton_c(text + "\n", defines, cache=False, **options)
    copies = [[each.copy() if isinstance(each, np.ndarray) else each for each in args] for _ in range(2)]
    kernel.interpret(grid, *copies[0])
    kernel.launch(grid, *copies[1])
    for one, other in zip(*copies, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True)
    return copies[0]


TYPES = {
    "float32": "float", "float16": "half", "float64": "double", "int32": "int", "int64": "long", "int8": "char",
    "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long",
    "bool": "bool",
}  # fmt: skip


def values(
    expressions: list[tuple[str, tuple[int, ...]]], dtype: Any, before: str = "", *args: Any, parameters: str = ""
) -> list[np.ndarray]:
    """Return what variables of the dtype's type hold that expressions are assigned to, each with its shape, () for scalars."""
    type_ = TYPES[np.dtype(dtype).name]
    lines, at = [], 0
    for number, (expression, shape) in enumerate(expressions):
        declared = f"[{', '.join(map(str, shape))}]" if shape else ""
        lines.append(f"{type_} v{number}{declared} = {expression}; *(out + {at} + {offsets(shape)}) = v{number};")
        at += int(np.prod(shape))
    body = "\n".join([before, *lines])
    text = f"__global__ void f({type_} *out{parameters and ', '}{parameters}) {{\n{body}\n}}"
    out = run(text, 1, np.zeros(at, dtype), *args)[0]
    ends = np.cumsum([int(np.prod(shape)) for _, shape in expressions])
    return [part.reshape(shape) for part, (_, shape) in zip(np.split(out, ends[:-1]), expressions, strict=True)]


def offsets(shape: tuple[int, ...]) -> str:
    """Return the expression of a block's offsets in row-major order."""
    found = "0"
    for axis, extent in enumerate(shape):
        view = ", ".join(":" if each == axis else "newaxis" for each in range(len(shape)))
        found = f"({found}) * {extent} + (0 ... {extent})[{view}]"
    return found
