"""Handles recurrent networks: a loop for each layer and direction, of which the products with the inputs are made before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...functions.building import apply
from ...functions.control.loops import scan
from ...functions.joining import concat, stack
from ...functions.linalg import matmul
from ...symbol import Symbol
from ..node import Node
from ..registry import handles
from .shaping import cut

State: TypeAlias = tuple[Symbol, ...]
"""What a step carries: h, and c of LSTM."""
Step: TypeAlias = Callable[[Symbol, Symbol, State], State]
"""Takes products with the input, products with h, and the state; returns the next one."""


def _parts(x: Symbol, count: int) -> list[Symbol]:
    """Return equal parts of the last axis."""
    axis = len(x.shape) - 1
    size = x.shape[axis] // count
    return [cut(x, axis, number * size, (number + 1) * size) for number in range(count)]


def _lstm_step(inputs: Symbol, recurrent: Symbol, state: State) -> State:
    i, f, g, o = _parts(apply("add", inputs, recurrent), 4)
    c = apply("add", apply("mul", apply("sigmoid", f), state[1]), apply("mul", apply("sigmoid", i), apply("tanh", g)))
    return apply("mul", apply("sigmoid", o), apply("tanh", c)), c


def _gru_step(inputs: Symbol, recurrent: Symbol, state: State) -> State:
    (r, z, n), (own_r, own_z, own_n) = _parts(inputs, 3), _parts(recurrent, 3)
    reset, update = apply("sigmoid", apply("add", r, own_r)), apply("sigmoid", apply("add", z, own_z))
    new = apply("tanh", apply("add", n, apply("mul", reset, own_n)))
    return (apply("add", apply("mul", apply("sub", state[0], new), update), new),)


def _plain_step(row: str) -> Step:
    return lambda inputs, recurrent, state: (apply(row, apply("add", inputs, recurrent)),)


_STEPS: dict[str, Step] = {
    "lstm": _lstm_step, "gru": _gru_step, "rnn_tanh": _plain_step("tanh"), "rnn_relu": _plain_step("relu"),
}  # fmt: skip


def _times(x: Symbol, weight: Symbol, bias: Symbol | None) -> Symbol:
    result = matmul(x, apply("permute", weight, axes=(1, 0)))
    return result if bias is None else apply("add", result, bias)


def _direction(
    step: Step, x: Symbol, state: State, weights: Sequence[Symbol], has_biases: bool, projected: bool, reverse: bool
) -> tuple[Symbol, State]:
    """Return what one direction of a layer gives for each step, and its last state. x: (steps, batch, features)."""
    biases = weights[2:4] if has_biases else (None, None)
    products = _times(x, weights[0], biases[0])

    def run(before: State, inputs: Symbol) -> tuple[State, Symbol]:
        after = step(inputs, _times(before[0], weights[1], biases[1]), before)
        if projected:
            after = (_times(after[0], weights[-1], None), *after[1:])
        return after, after[0]

    last, found = scan(run, state, products, reverse=reverse)
    return found, last


@handles("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(
    node: Node, x: Symbol, hx: Symbol | tuple[Symbol, ...], params: tuple[Symbol, ...], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Symbol, ...]:  # fmt: skip
    """Run all layers, both directions of each where there are two, and return the results of the last and the last states."""
    node.require(dropout == 0 or not train or num_layers == 1, "dropout between the layers of a network", "model.eval()")
    states = hx if isinstance(hx, tuple) else (hx,)
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    projected = each > (4 if has_biases else 2)
    values = apply("permute", x, axes=(1, 0, 2)) if batch_first else x
    finals: list[State] = []
    for layer in range(num_layers):
        found: list[Symbol] = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = params[number * each : (number + 1) * each]
            state = tuple([_row(node, one, number) for one in states])
            outputs, last = _direction(_STEPS[node.kind], values, state, weights, has_biases, projected, direction == 1)
            found.append(outputs)
            finals.append(last)
        values = found[0] if directions == 1 else concat(found, 2)
    result = apply("permute", values, axes=(1, 0, 2)) if batch_first else values
    return (result, *[stack([final[part] for final in finals], 0) for part in range(len(states))])


def _row(node: Node, x: Symbol, number: int) -> Symbol:
    return node.shaped(cut(x, 0, number, number + 1), x.shape[1:])


@handles("mkldnn_rnn_layer.default")
def layer(
    node: Node, x: Symbol, weight0: Symbol, weight1: Symbol, weight2: Symbol, weight3: Symbol, hx_: Symbol, cx_: Symbol,
    reverse: bool, batch_sizes: tuple[int, ...], mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Symbol, ...]:  # fmt: skip
    """Run one direction of one layer of LSTM, as PyTorch has it on the CPU; the workspace for training has no value."""
    node.require(mode == 2 and num_layers == 1 and not bidirectional and not batch_first and not train,
                 "a layer other than of LSTM for inference", "model.eval()")  # fmt: skip
    batch, size = x.shape[1], hidden_size
    state = tuple([node.shaped(each, (batch, size)) for each in (hx_, cx_)])
    weights = (weight0, weight1, weight2, weight3) if has_biases else (weight0, weight1)
    found, last = _direction(_lstm_step, x, state, weights, has_biases, False, reverse)
    return found, *[node.shaped(each, node.result(1 + at).shape) for at, each in enumerate(last)]
