"""Handles PyTorch's higher-order operators, which run programs: branches and loops of the graph, with what these capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ....promotion.dtype import bool_
from ...construction import primitives
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.control.branches import cond
from ...functions.control.loops import scan, while_loop
from ...symbol import Symbol
from ..node import Node
from ..registry import handles

Body: TypeAlias = Callable[..., tuple[Symbol, ...]]
"""Adds a program to the region that is being built: takes symbols for its inputs, and returns its results."""
Operands: TypeAlias = "tuple[Symbol | Extent, ...]"


def _tensors(operands: Operands) -> tuple[Symbol, ...]:
    """Return the operands that are tensors; sizes are known inside of a body."""
    return tuple([each for each in operands if isinstance(each, Symbol)])


def _flag(value: Symbol) -> Symbol:
    """Return a condition as a bool without axes."""
    single = primitives.reshape(value, ()) if value.shape else value
    return single if single.dtype is bool_ else apply("not_equal", single, single.graph.scalar(0, single.dtype))


@handles("cond.default", namespace="higher_order")
def branch(node: Node, pred: Symbol | bool, true_fn: Body, false_fn: Body, operands: Operands = ()) -> tuple[Symbol, ...]:
    """Run one of two programs."""
    given = _tensors(operands)
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*given)
    return cond(_flag(pred), true_fn, false_fn, *given)  # type: ignore[no-any-return]


def _carried(node: Node, values: Operands) -> tuple[Symbol, ...]:
    """Return what a loop carries, which are tensors."""
    given = _tensors(values)
    node.require(len(given) == len(values), "a number that a loop carries", "carry it as a tensor without axes")
    return given


@handles("while_loop.default", namespace="higher_order")
def loop(
    node: Node, cond_fn: Body, body_fn: Body, carried_inputs: Operands, additional_inputs: Operands = ()
) -> tuple[Symbol, ...]:
    """Repeat a program while another one gives true."""
    more = _tensors(additional_inputs)

    def proceeds(state: Any) -> Symbol:
        (result,) = cond_fn(*state, *more)
        return _flag(result)

    found = while_loop(proceeds, lambda state: body_fn(*state, *more), _carried(node, carried_inputs))
    return found  # type: ignore[no-any-return]


@handles("scan.default", namespace="higher_order")
def scanned(
    node: Node, combine_fn: Body, init: Operands, xs: Operands, additional_inputs: Operands = ()
) -> tuple[Symbol, ...]:
    """Repeat a program for slices of tensors, and return the last state and all results stacked."""
    more, state = _tensors(additional_inputs), _carried(node, init)

    def step(before: Any, slices: Any) -> tuple[Any, Any]:
        found = combine_fn(*before, *slices, *more)
        return found[: len(state)], found[len(state) :]

    last, results = scan(step, state, _tensors(xs))
    return (*last, *results)


@handles("map_impl.default", namespace="higher_order")
def mapped(node: Node, f: Body, xs: Operands, pos_args: Operands = ()) -> tuple[Symbol, ...]:
    """Run a program for each slice of tensors, and return the results stacked."""
    more = _tensors(pos_args)
    _, results = scan(lambda state, slices: (None, f(*slices, *more)), None, _tensors(xs))
    return results  # type: ignore[no-any-return]
