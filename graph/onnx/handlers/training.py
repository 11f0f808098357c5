"""Handles optimisers, each a step of arithmetic for several tensors at once."""

from __future__ import annotations

from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles

_DOMAIN = "ai.onnx.preview.training"


def _groups(node: Node, kinds: int) -> list[list[Symbol]]:
    """Return the inputs after rate and step, kind by kind: values, gradients, states."""
    count, rest = divmod(len(node) - 2, kinds)
    node.require(rest == 0 and count > 0, f"{len(node) - 2} tensors of {kinds} kinds")
    return [[node[2 + kind * count + number] for number in range(count)] for kind in range(kinds)]


def _scaled(x: Symbol, factor: float) -> Symbol:
    return apply("mul", x, factor)


def _regularised(node: Node, x: Symbol, gradient: Symbol) -> Symbol:
    return apply("add", _scaled(x, float(node.attr("norm_coefficient"))), gradient)


@handles("Adagrad", domain=_DOMAIN)
def adagrad(node: Node) -> Result:
    """Scale the rate by the root of the sum of all squared gradients."""
    rate, step = node[0], node[1]
    decay = apply("add", _scaled(step.cast(rate.dtype), float(node.attr("decay_factor"))), 1.0)
    rate = apply("div", rate, decay)
    values, states = [], []
    for x, gradient, squares in zip(*_groups(node, 3), strict=True):
        slope = _regularised(node, x, gradient)
        squares = apply("add", squares, apply("mul", slope, slope))
        spread = apply("add", apply("sqrt", squares), float(node.attr("epsilon")))
        values.append(apply("sub", x, apply("div", apply("mul", rate.cast(x.dtype), slope), spread)))
        states.append(squares)
    return (*values, *states)


@handles("Adam", domain=_DOMAIN)
def adam(node: Node) -> Result:
    """Divide the running mean of gradients by the root of that of their squares."""
    rate, step = node[0], node[1].cast(node.dtype(0))
    alpha, beta = float(node.attr("alpha")), float(node.attr("beta"))
    first, second = (apply("sub", 1.0, apply("pow", factor, step)) for factor in (alpha, beta))
    rate = apply("where", apply("greater", step, 0.0), apply("div", apply("mul", rate, apply("sqrt", second)), first), rate)
    results: list[list[Symbol]] = [[], [], []]
    for x, gradient, means, squares in zip(*_groups(node, 4), strict=True):
        slope = _regularised(node, x, gradient)
        means = apply("add", _scaled(means, alpha), _scaled(slope, 1 - alpha))
        squares = apply("add", _scaled(squares, beta), _scaled(apply("mul", slope, slope), 1 - beta))
        spread = apply("add", apply("sqrt", squares), float(node.attr("epsilon")))
        x = apply("sub", x, apply("div", apply("mul", rate.cast(x.dtype), means), spread))
        for result, value in zip(
            results, (_scaled(x, 1 - float(node.attr("norm_coefficient_post"))), means, squares), strict=True
        ):
            result.append(value)
    return tuple([value for result in results for value in result])


@handles("Momentum", domain=_DOMAIN)
def momentum(node: Node) -> Result:
    """Follow the running sum of gradients."""
    rate, step, mode = node[0], node[1], node.attr("mode")
    node.require(mode in ("standard", "nesterov"), f"mode {mode!r}")
    alpha, beta = float(node.attr("alpha")), float(node.attr("beta"))
    values, states = [], []
    for x, gradient, velocity in zip(*_groups(node, 3), strict=True):
        slope = _regularised(node, x, gradient)
        weight = apply("where", apply("greater", step, 0), node.constant(beta, x.dtype), node.constant(1.0, x.dtype))
        velocity = apply("add", _scaled(velocity, alpha), apply("mul", weight, slope))
        direction = velocity if mode == "standard" else apply("add", slope, _scaled(velocity, alpha))
        values.append(apply("sub", x, apply("mul", rate.cast(x.dtype), direction)))
        states.append(velocity)
    return (*values, *states)
