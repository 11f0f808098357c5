"""Emits functions of one element once per kernel: registers call them, and LLVM inlines the calls.

A thread has tens of elements, and a function such as exp is tens of instructions: to print, read and simplify them once per
element was a third of the time that softmax took to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Function
from ..values import V

ALWAYS_INLINE = "alwaysinline"
"""The attribute of these functions."""


def called(f: Function, name: str, result: str, values: Sequence[V], emit: Callable[[Function, list[V]], V]) -> V:
    """Emits a call of the function whose body `emit` prints. `name` identifies it together with the types; result: its type."""
    full = "_".join(["jn", name.replace(".", "_"), result, *(value.type for value in values)])
    if full not in f.module.functions:
        params = [(value.type, f"x{i}") for i, value in enumerate(values)]
        body = Function(f.module, full, params, result, f"nounwind {ALWAYS_INLINE}", "internal", numbering=True)
        body.ret(emit(body, body.params))
        f.module.add(body)
    return f.pure(f"call {result} @{full}({', '.join(f'{value.type} {value.operand()}' for value in values)})", result)
