"""Helpers of the simulator's tests: small kernels around a few instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from joinery.runtime.ptxsim import Module, Result

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = """
  .reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<200>; .reg .b64 %rd<60>; .reg .f32 %f<80>; .reg .f64 %fd<20>;
"""


def kernel_text(body: str, pointers: int = 2, threads: int = 32, before: str = "", more: str = "") -> str:
    """A kernel `k`: pointers in %rd1 …, %tid.x in %r0, 4 · tid in %rd0; `more`: parameters, `before`: declarations."""
    parameters = [f".param .u64 p{i}" for i in range(1, pointers + 1)] + ([more] if more else [])
    loads = "".join(f"  ld.param.u64 %rd{i}, [p{i}];\n" for i in range(1, pointers + 1))
    return (
        f"{HEADER}{before}\n.visible .entry k({', '.join(parameters)})\n.reqntid {threads}\n{{\n{REGISTERS}{loads}"
        f"  mov.u32 %r0, %tid.x;\n  mul.wide.u32 %rd0, %r0, 4;\n{body}\n}}\n"
    )


Run = Callable[..., Result]


@pytest.fixture
def build() -> Callable[..., str]:
    """`kernel_text`."""
    return kernel_text


@pytest.fixture
def run() -> Run:
    """Run a kernel body on arrays: run(body, arrays, threads=32, grid=1, before="", more="", scalars=(), **launch options)."""

    def go(
        body: str,
        arrays: Sequence[Any],
        threads: int = 32,
        grid: Any = 1,
        before: str = "",
        more: str = "",
        scalars: Sequence[Any] = (),
        **options: Any,
    ) -> Result:
        text = kernel_text(body, len(arrays), threads, before, more)
        return Module(text).kernel().launch(grid, None, [*arrays, *scalars], **options)

    return go
