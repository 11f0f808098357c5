"""Handles recurrent networks: loops, but for a few steps; products with the inputs are made for all steps at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.dtype import int64
from ...dims.dim import Extent
from ...functions import activations
from ...functions.building import apply
from ...functions.control.loops import scan
from ...functions.creation import full
from ...functions.joining import stack
from ...functions.linalg import matmul
from ...functions.positions import counting
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles

_Function = Callable[[Symbol], Symbol]
_PLAIN: dict[str, _Function] = {
    "sigmoid": lambda x: apply("sigmoid", x), "tanh": lambda x: apply("tanh", x), "relu": lambda x: apply("relu", x),
    "softplus": activations.softplus, "softsign": activations.softsign,
}  # fmt: skip
_DEFAULTS = {"affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
             "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}  # fmt: skip
_FEW_STEPS = 4
"""Up to so many steps are unrolled: kernels are fused over the steps, and one model has one length."""
_WITH_ALPHA, _WITH_BETA = frozenset(_DEFAULTS), frozenset(("affine", "scaledtanh", "hardsigmoid"))


def _with(name: str, alpha: float, beta: float) -> _Function:
    match name:
        case "affine":
            return lambda x: apply("add", apply("mul", x, alpha), beta)
        case "leakyrelu":
            return lambda x: activations.leaky_relu(x, alpha)
        case "thresholdedrelu":
            return lambda x: activations.thresholded_relu(x, alpha)
        case "scaledtanh":
            return lambda x: apply("mul", apply("tanh", apply("mul", x, beta)), alpha)
        case "hardsigmoid":
            return lambda x: activations.hard_sigmoid(x, alpha, beta)
        case _:
            return lambda x: activations.elu(x, alpha)


def _activations(node: Node, defaults: tuple[str, ...], directions: int) -> list[list[_Function]]:
    """Return the functions of each direction; alphas and betas belong to those that have one, in order."""
    names = [str(name).lower() for name in node.attr("activations", None) or defaults * directions]
    count = len(defaults)
    node.require(len(names) >= count * directions, f"activations {names} for {directions} directions")
    alphas, betas = (list(node.attr(name, None) or []) for name in ("activation_alpha", "activation_beta"))
    found: list[_Function] = []
    for name in names[: count * directions]:
        if name in _PLAIN:
            found.append(_PLAIN[name])
            continue
        node.require(name in _DEFAULTS, f"activation {name!r}")
        alpha = float(alphas.pop(0)) if alphas and name in _WITH_ALPHA else _DEFAULTS[name][0]
        beta = float(betas.pop(0)) if betas and name in _WITH_BETA else _DEFAULTS[name][1]
        found.append(_with(name, alpha, beta))
    return [found[start : start + count] for start in range(0, len(found), count)]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One direction of a network, with its weights.

    Attributes:
        recurrent: R, transposed; of GRU the parts for the gates, and for the candidate.
        times: the product of a state with R.
        bias, recurrent_bias: Wb and Rb, zeros where none are given.  biases: their sum.
        peepholes: P, or None.
        limit: clips what comes before an activation.
    """

    functions: list[_Function]
    recurrent: tuple[Symbol, ...]
    times: _Function
    bias: Symbol
    recurrent_bias: Symbol
    biases: Symbol
    peepholes: Symbol | None
    hidden: int
    limit: Callable[[Symbol], Symbol]


_Step = Callable[[Node, Cell, Symbol, "list[Symbol]"], "list[Symbol]"]
Product = Callable[[Node, int, int], _Function]
"""Makes the function that multiplies by an input of the node (1: W, 2: R) of one direction, which holds it transposed."""


def _gates(x: Symbol, hidden: int) -> list[Symbol]:
    return [x[..., start : start + hidden] for start in range(0, int(x.shape[-1]), hidden)]  # type: ignore[arg-type]


def _rnn_step(node: Node, cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    total = apply("add", apply("add", inputs, cell.times(state[0])), cell.biases)
    return [cell.functions[0](cell.limit(total))]


def _gru_step(node: Node, cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    (h,) = state
    f, g = cell.functions
    n = cell.hidden
    from_inputs = _gates(apply("add", inputs, cell.bias), n)
    both = matmul(h, cell.recurrent[0])
    z, r = (
        f(cell.limit(apply("add", apply("add", one, two), three)))
        for one, two, three in zip(from_inputs[:2], _gates(both, n), _gates(cell.recurrent_bias, n)[:2], strict=True)
    )
    rest, shift = cell.recurrent[1], cell.recurrent_bias[2 * n :]
    if node.attr("linear_before_reset", 0):
        change = apply("mul", r, apply("add", matmul(h, rest), shift))
    else:
        change = apply("add", matmul(apply("mul", r, h), rest), shift)
    candidate = g(cell.limit(apply("add", from_inputs[2], change)))
    return [apply("add", apply("mul", apply("sub", 1.0, z), candidate), apply("mul", z, h))]


def lstm_step(node: Node, cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    h, c = state
    f, g, last = cell.functions
    total = apply("add", apply("add", inputs, cell.times(h)), cell.biases)
    i, o, forget, new = _gates(total, cell.hidden)
    peeps = _gates(cell.peepholes, cell.hidden) if cell.peepholes is not None else None
    if peeps is not None:
        i, forget = apply("add", i, apply("mul", peeps[0], c)), apply("add", forget, apply("mul", peeps[2], c))
    i = f(cell.limit(i))
    forget = apply("sub", 1.0, i) if node.attr("input_forget", 0) else f(cell.limit(forget))
    c = apply("add", apply("mul", forget, c), apply("mul", i, g(cell.limit(new))))
    if peeps is not None:
        o = apply("add", o, apply("mul", peeps[1], c))
    return [apply("mul", f(cell.limit(o)), last(c)), c]


def network(
    node: Node, step: _Step, gates: int, states: int, defaults: tuple[str, ...], product: Product | None = None
) -> Result:
    """Run a network whose gates `step` computes. product: of W and R that are stored transposed, and not as floats."""
    node.ignore("output_sequence")  # of opset 1: whether all steps are wanted, which the outputs say
    x, batch_first = node[0], bool(node.attr("layout", 0))
    ranks = [len(node.shape(position)) for position in range(3)]
    node.require(ranks == [3, 3, 3], f"X, W and R have {ranks} axes; 3 each are expected")
    if batch_first:
        x = x.permute((1, 0, 2))
    direction = node.attr("direction", "forward")
    direction = "forward" if direction == "foward" else direction  # as the schema of GRU-1 spells its default
    node.require(direction in ("forward", "reverse", "bidirectional"), f"direction {direction!r}")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    length, batch = x.shape[0], x.shape[1]
    hidden = node[2].shape[-1 if product is None else 1]
    if not isinstance(hidden, int):
        raise node.size_needed((hidden,), f"a state of {hidden}")
    node.require(node.attr("hidden_size", hidden) == hidden, f"hidden_size is not {hidden}, which R has")
    size = hidden
    node.require(node[1].shape[0] == len(backwards), f"weights of {node[1].shape[0]} directions for {direction!r}")
    lengths = node[4].cast(int64).reshape((batch, 1)) if node.has(4) else None
    wide = gates * size
    for position, expected in ((1, wide), (2, wide), (3, 2 * wide), (7, 3 * size if states == 2 else 0)):
        if node.has(position):
            found = node.shape(position)[2:] if product is not None and position < 3 else node.shape(position)[1:2]
            node.require(found == (expected,), f"input {position} has shape {node.shape(position)}, not (…, {expected}, …)")
    functions = _activations(node, defaults, len(backwards))
    clip = node.attr("clip", None)
    limit: _Function = (
        (lambda v: v) if clip is None else (lambda v: apply("minimum", apply("maximum", v, -float(clip)), float(clip)))
    )
    outputs: list[Symbol] = []
    finals: list[list[Symbol]] = []
    for number, reverse in enumerate(backwards):
        biases = node[3][number] if node.has(3) else full(node.graph, (2 * gates * size,), 0.0, x.dtype)
        recurrent = node[2][number] if product else node[2][number].transpose()
        from_inputs, from_state = (
            product(node, position, number) if product else _times(weights)
            for position, weights in ((1, node[1][number].transpose()), (2, recurrent))
        )
        own, other = biases[: gates * size], biases[gates * size :]
        parts = (recurrent[:, : 2 * size], recurrent[:, 2 * size :]) if gates == 3 else ()
        cell = Cell(
            functions[number], parts, from_state, own, other, apply("add", own, other),
            node[7][number] if states == 2 and node.has(7) else None, size, limit,
        )  # fmt: skip
        state = []
        for position in range(states):
            given = node.get(5 + position)
            if given is None:
                state.append(full(node.graph, (batch, size), 0.0, x.dtype))
            else:
                state.append(given[:, number] if batch_first else given[number])
        steps, state = _direction(node, step, cell, from_inputs(x), state, lengths, length, reverse)
        outputs.append(steps)
        finals.append(state)
    axis = 1 if batch_first else 0
    results: list[Any] = [None]
    if node.wants(0):
        together = stack(outputs, 1)  # (steps, directions, batch, hidden)
        results[0] = together.permute((2, 0, 1, 3)) if batch_first else together
    results += [stack(list(each), axis) for each in zip(*finals, strict=True)]
    return tuple(results)


def _times(weights: Symbol) -> _Function:
    return lambda x: matmul(x, weights)


def _direction(
    node: Node, step: _Step, cell: Cell, inputs: Symbol, state: list[Symbol], lengths: Symbol | None, length: Extent,
    reverse: bool,
) -> tuple[Symbol, list[Symbol]]:
    """Run all steps; beyond its length the output of a row is 0 and its state stays: backwards it begins where it is valid."""

    def run(before: list[Symbol], one: tuple[Symbol, ...]) -> tuple[list[Symbol], Symbol]:
        new = step(node, cell, one[0], before)
        if lengths is None:
            return new, new[0]
        valid = apply("less", one[1], lengths)
        kept = [apply("where", valid, after, own) for after, own in zip(new, before, strict=True)]
        return kept, apply("where", valid, new[0], 0.0)

    if not isinstance(length, int) or length > _FEW_STEPS or length == 0:
        scanned = (inputs,) if lengths is None else (inputs, counting(node.graph, length))
        last, found = scan(run, state, scanned, reverse=reverse)
        return found, last
    each: list[Symbol] = []
    for time in range(length - 1, -1, -1) if reverse else range(length):
        state, output = run(state, (inputs[time], node.graph.dim_value(time)))
        each.append(output)
    return stack(each[::-1] if reverse else each, 0), state


@handles("RNN")
def rnn(node: Node) -> Result:
    """Run a simple recurrent network."""
    return network(node, _rnn_step, 1, 1, ("tanh",))


@handles("GRU")
def gru(node: Node) -> Result:
    """Run gated recurrent units."""
    return network(node, _gru_step, 3, 1, ("sigmoid", "tanh"))


@handles("LSTM")
def lstm(node: Node) -> Result:
    """Run long short-term memory."""
    return network(node, lstm_step, 4, 2, ("sigmoid", "tanh", "tanh"))
