"""Handles recurrent networks (`functions/networks/cells.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....promotion.dtype import int64
from ....functions.joining import stack
from ....functions.networks.cells import (
    DIRECTIONS,
    GRU,
    LSTM,
    RNN,
    Function,
    Kind,
    Layer,
    Pass,
    functions_named,
    ran,
    ran_layer,
)
from ....symbol import Symbol
from ....types import shape_text
from ...node import Node, Result
from ...registry import handles

Product = Callable[[Node, int, int], Function]
"""Makes the function that multiplies by an input of the node (1: W, 2: R) of one direction, which holds it transposed."""


def _activations(node: Node, kind: Kind, directions: int) -> list[list[Function]]:
    """Return the functions of each direction."""
    names = [str(name) for name in node.attr("activations", None) or kind.activations * directions]
    count = len(kind.activations)
    node.require(len(names) >= count * directions, f"activations {names} for {directions} directions")
    alphas, betas = (list(node.attr(name, None) or []) for name in ("activation_alpha", "activation_beta"))
    found = functions_named(names[: count * directions], alphas, betas)
    return [found[start : start + count] for start in range(0, len(found), count)]


def network(node: Node, kind: Kind, product: Product | None = None) -> Result:
    """Run a network. product: of W and R that are stored transposed, and not as floats."""
    node.ignore("output_sequence")  # of opset 1: whether all steps are wanted, which the outputs say
    x, batch_first = node[0], bool(node.attr("layout", 0))
    ranks = [len(node.shape(position)) for position in range(3)]
    node.require(ranks == [3, 3, 3], f"X, W and R have {ranks} axes; 3 each are expected")
    if batch_first:
        x = x.permute((1, 0, 2))
    direction = node.attr("direction", "forward")
    direction = "forward" if direction == "foward" else direction  # as the schema of GRU-1 spells its default
    node.require(direction in DIRECTIONS, f"direction {direction!r}")
    backwards = DIRECTIONS[direction]
    hidden = node.attr("hidden_size", node[2].shape[-1 if product is None else 1])
    if not isinstance(hidden, int):
        raise node.size_needed((hidden,), f"a state of {hidden}")
    node.require(hidden > 0, f"hidden_size is {hidden}")
    size: int = hidden
    order = (1, 0, 2)
    wide, count, batch = kind.gates * size, len(backwards), x.shape[1]
    if product is None:
        weights = node.agreeing(node[1], (count, wide, None), "W")
        recurrent = node.agreeing(node[2], (count, wide, size), "R")
    else:
        for position, found in ((1, node.shape(1)), (2, node.shape(2))):
            own = node.static_sizes((found[0], found[2]), f"input {position}")
            node.require(own == (count, wide), f"input {position} has shape {shape_text(found)}, not ({count}, …, {wide})")
        node.require(node.static_sizes(node.shape(2)[1:2], "R") == (size,), f"hidden_size is not {size}, which R has")
    biases = node.agreeing(node[3], (count, 2 * wide), "B") if node.has(3) else None
    lengths = node.agreeing(node[4], (batch,), "sequence_lens") if node.has(4) else None
    peepholes = node.agreeing(node[7], (count, 3 * size), "P") if kind is LSTM and node.has(7) else None
    functions = _activations(node, kind, len(backwards))
    clip = node.attr("clip", None)
    layer = Layer(
        functions, backwards, None if clip is None else float(clip), kind is LSTM and bool(node.attr("input_forget", 0)),
        kind is GRU and bool(node.attr("linear_before_reset", 0)),
    )  # fmt: skip
    states = [node.get(5 + position) for position in range(kind.states)]
    if batch_first:
        states = [None if one is None else one.permute(order) for one in states]
    named = zip(("initial_h", "initial_c"), states, strict=False)
    states = [None if one is None else node.agreeing(one, (count, batch, size), name) for name, one in named]
    if product is None:
        steps, *finals = ran_layer(kind, layer, x, weights, recurrent, biases, lengths, states, peepholes)
    else:
        steps, *finals = _by_products(node, kind, layer, x, product, (biases, peepholes, *states), lengths)
    results: list[Any] = [None]
    if node.wants(0):
        results[0] = steps.permute((2, 0, 1, 3)) if batch_first else steps
    results += [each.permute(order) if batch_first else each for each in finals]
    return tuple(results)


def _by_products(
    node: Node, kind: Kind, layer: Layer, x: Symbol, product: Product, given: Sequence[Symbol | None], lengths: Symbol | None
) -> list[Symbol]:
    """Run a network whose products with W and R are functions. given: biases, peepholes, and the first states."""
    passes = []
    for number, reverse in enumerate(layer.backwards):
        biases, peepholes, *states = [None if each is None else each[number] for each in given]
        passes.append(Pass(
            layer.functions[number], product(node, 1, number), product(node, 2, number), node[2][number], biases, peepholes,
            states, reverse,
        ))  # fmt: skip
    valid = None if lengths is None else lengths.cast(int64).reshape((x.shape[1], 1))
    outputs, finals = ran(
        kind, x, int(node[2].shape[1]), passes, valid, layer.clip, layer.input_forget,  # type: ignore[arg-type]
        layer.linear_before_reset,
    )  # fmt: skip
    return [stack(outputs, 1), *finals]


@handles("RNN")
def rnn(node: Node) -> Result:
    """Run a simple recurrent network."""
    return network(node, RNN)


@handles("GRU")
def gru(node: Node) -> Result:
    """Run gated recurrent units."""
    return network(node, GRU)


@handles("LSTM")
def lstm(node: Node) -> Result:
    """Run long short-term memory."""
    return network(node, LSTM)
