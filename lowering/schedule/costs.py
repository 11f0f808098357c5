"""What it costs to evaluate a symbol again where it is read, in units of one simple vector instruction per
element."""

from __future__ import annotations

from collections.abc import Callable

from ...graph.symbol import Symbol

RECOMPUTE_LIMIT = 6
"""A producer at least this expensive that several kernels read is stored once instead of being evaluated in
each."""

PROLOGUE_LIMIT = 4
"""Elementwise work allowed on an operand of a matmul, whose tiles are read several times."""

_COSTS = {
    "div": 3, "sqrt": 3, "rsqrt": 4, "floor_div": 6, "trunc_div": 6, "mod": 6, "rem": 6, "sigmoid": 10,
    "tanh": 10, "erf": 12, "exp": 8, "exp2": 8, "expm1": 10, "log": 10, "log2": 10, "log1p": 12, "sin": 12,
    "cos": 12, "asin": 12, "acos": 12, "atan": 12, "exp_shifted": 8, "exp_shifted_unchecked": 8, "x_phi": 20, "x_sigmoid": 16,
    "x_sigmoid_quick": 16, "x_sigmoid_tanh": 24,
    "div_approximate": 3, "pow": 24, "gather": 4, "take_along_axis": 4, "pad": 2, "concat": 2,
}  # fmt: skip


def op_cost(symbol: Symbol) -> int:
    return 0 if symbol.op.kind == "view" else name_cost(symbol.op.name)


def name_cost(name: str) -> int:
    """Returns the cost of an elementwise operation, in simple instructions per element, by its name in the op table."""
    return 0 if name == "bitcast" else _COSTS.get(name, 1)


def is_scalar(symbol: Symbol) -> bool:
    """True for symbols that cost nothing to read: constants and runtime dims of one element."""
    return symbol.op.kind == "source" and all(type(extent) is int and extent == 1 for extent in symbol.shape)


def is_cheap_prologue(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    """True when a matmul may evaluate `symbol` on its operand tiles: affine loads, views and a few simple
    elementwise ops."""
    work = loads = 0
    pending, seen = [symbol], {symbol.id}
    while pending:
        current = pending.pop()
        if in_memory(current) or current.op.kind == "source":
            loads += not is_scalar(current)
        elif current.op.kind in ("map", "view"):
            work += op_cost(current)
            for operand in current.inputs:
                if operand.id not in seen:
                    seen.add(operand.id)
                    pending.append(operand)
        else:
            return False
        if work > PROLOGUE_LIMIT or loads > 2:
            return False
    return True
