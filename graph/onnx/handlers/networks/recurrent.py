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
    hidden = node[2].shape[-1 if product is None else 1]
    if not isinstance(hidden, int):
        raise node.size_needed((hidden,), f"a state of {hidden}")
    node.require(node.attr("hidden_size", hidden) == hidden, f"hidden_size is not {hidden}, which R has")
    size = hidden
    node.require(node[1].shape[0] == len(backwards), f"weights of {node[1].shape[0]} directions for {direction!r}")
    order = (1, 0, 2)
    lengths = node.get(4)
    wide = kind.gates * size
    for position, expected in ((1, wide), (2, wide), (3, 2 * wide), (7, 3 * size if kind is LSTM else 0)):
        if node.has(position):
            found = node.shape(position)[2:] if product is not None and position < 3 else node.shape(position)[1:2]
            node.require(found == (expected,), f"input {position} has shape {node.shape(position)}, not (…, {expected}, …)")
    functions = _activations(node, kind, len(backwards))
    clip = node.attr("clip", None)
    layer = Layer(
        functions, backwards, None if clip is None else float(clip), kind is LSTM and bool(node.attr("input_forget", 0)),
        kind is GRU and bool(node.attr("linear_before_reset", 0)),
    )  # fmt: skip
    states = [node.get(5 + position) for position in range(kind.states)]
    if batch_first:
        states = [None if one is None else one.permute(order) for one in states]
    biases, peepholes = node.get(3), node.get(7) if kind is LSTM else None
    if product is None:
        steps, *finals = ran_layer(kind, layer, x, node[1], node[2], biases, lengths, states, peepholes)
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
