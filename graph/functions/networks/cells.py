"""Defines the cells of recurrent networks, and how they run: loops, but for a few steps; inputs are multiplied before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ....promotion.dataclass import dataclass
from ....promotion.dtype import int64
from ....promotion.errors import UserError
from ...construction import primitives
from ...dims.dim import Extent
from ...symbol import Symbol
from .. import activations
from ..building import apply
from ..control.loops import scan
from ..creation import full
from ..joining import stack
from ..linalg import matmul
from ..positions import counting

Function: TypeAlias = Callable[[Symbol], Symbol]
_PLAIN: dict[str, Function] = {
    "sigmoid": lambda x: apply("sigmoid", x), "tanh": lambda x: apply("tanh", x), "relu": lambda x: apply("relu", x),
    "softplus": activations.softplus, "softsign": activations.softsign,
}  # fmt: skip
_DEFAULTS = {"affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
             "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}  # fmt: skip
_FEW_STEPS = 4
"""Up to so many steps are unrolled: kernels are fused over the steps, and one model has one length."""
_WITH_BETA = frozenset(("affine", "scaledtanh", "hardsigmoid"))
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Name of a direction → whether each pass goes backwards."""


def _with(name: str, alpha: float, beta: float) -> Function:
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


def functions_named(names: Sequence[str], alphas: Sequence[float] = (), betas: Sequence[float] = ()) -> list[Function]:
    """Return activations by ONNX's names; alphas and betas belong to those that have one, in order."""
    first, second = list(alphas), list(betas)
    found: list[Function] = []
    for given in names:
        name = given.lower()
        if name in _PLAIN:
            found.append(_PLAIN[name])
            continue
        if name not in _DEFAULTS:
            raise UserError(f"activation {given!r}; fix: one of {', '.join((*_PLAIN, *_DEFAULTS))}")
        alpha = float(first.pop(0)) if first else _DEFAULTS[name][0]
        beta = float(second.pop(0)) if second and name in _WITH_BETA else _DEFAULTS[name][1]
        found.append(_with(name, alpha, beta))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of cell: how many gates and states it has, and the names of its activations."""

    name: str
    gates: int
    states: int
    activations: tuple[str, ...]


RNN = Kind("rnn", 1, 1, ("tanh",))
GRU = Kind("gru", 3, 1, ("sigmoid", "tanh"))
LSTM = Kind("lstm", 4, 2, ("sigmoid", "tanh", "tanh"))


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One direction of a network, with its weights, biases and first states.

    Attributes:
        times_inputs, times_state: the products with W and R, which hold them transposed.
        recurrent: R, transposed (H, gates · H); only GRU looks at it.
        biases: Wb and Rb one after the other (2 · gates · H), or None.
        peepholes: P (3 · H), of LSTM, or None.
        states: (N, H) each, None for zeros.
    """

    functions: Sequence[Function]
    times_inputs: Function
    times_state: Function
    recurrent: Symbol
    biases: Symbol | None
    peepholes: Symbol | None
    states: Sequence[Symbol | None]
    reverse: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What a step of one direction computes with.

    Attributes:
        gate_weights: of GRU the parts of R for the gates, and for the candidate.
        bias, recurrent_bias: Wb and Rb, zeros where none are given.  biases: their sum.
        limit: clips what comes before an activation.
    """

    given: Pass
    gate_weights: tuple[Symbol, ...]
    bias: Symbol
    recurrent_bias: Symbol
    biases: Symbol
    hidden: int
    limit: Function
    input_forget: bool
    linear_before_reset: bool


def _gates(x: Symbol, hidden: int) -> list[Symbol]:
    return [x[..., start : start + hidden] for start in range(0, int(x.shape[-1]), hidden)]  # type: ignore[arg-type]


def _rnn_step(cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    total = apply("add", apply("add", inputs, cell.given.times_state(state[0])), cell.biases)
    return [cell.given.functions[0](cell.limit(total))]


def _gru_step(cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    (h,) = state
    f, g = cell.given.functions
    n = cell.hidden
    from_inputs = _gates(apply("add", inputs, cell.bias), n)
    both = matmul(h, cell.gate_weights[0])
    z, r = (
        f(cell.limit(apply("add", apply("add", one, two), three)))
        for one, two, three in zip(from_inputs[:2], _gates(both, n), _gates(cell.recurrent_bias, n)[:2], strict=True)
    )
    rest, shift = cell.gate_weights[1], cell.recurrent_bias[2 * n :]
    if cell.linear_before_reset:
        change = apply("mul", r, apply("add", matmul(h, rest), shift))
    else:
        change = apply("add", matmul(apply("mul", r, h), rest), shift)
    candidate = g(cell.limit(apply("add", from_inputs[2], change)))
    return [apply("add", apply("mul", apply("sub", 1.0, z), candidate), apply("mul", z, h))]


def _lstm_step(cell: Cell, inputs: Symbol, state: list[Symbol]) -> list[Symbol]:
    h, c = state
    f, g, last = cell.given.functions
    total = apply("add", apply("add", inputs, cell.given.times_state(h)), cell.biases)
    i, o, forget, new = _gates(total, cell.hidden)
    peepholes = cell.given.peepholes
    peeps = _gates(peepholes, cell.hidden) if peepholes is not None else None
    if peeps is not None:
        i, forget = apply("add", i, apply("mul", peeps[0], c)), apply("add", forget, apply("mul", peeps[2], c))
    i = f(cell.limit(i))
    forget = apply("sub", 1.0, i) if cell.input_forget else f(cell.limit(forget))
    c = apply("add", apply("mul", forget, c), apply("mul", i, g(cell.limit(new))))
    if peeps is not None:
        o = apply("add", o, apply("mul", peeps[1], c))
    return [apply("mul", f(cell.limit(o)), last(c)), c]


_STEPS = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step}


def ran(
    kind: Kind, x: Symbol, hidden: int, passes: Sequence[Pass], lengths: Symbol | None, clip: float | None,
    input_forget: bool = False, linear_before_reset: bool = False,
) -> tuple[list[Symbol], list[Symbol]]:  # fmt: skip
    """Run a network over inputs (T, N, I).

    Returns what each direction gives for all steps, (T, N, H), and the last states, (directions, N, H) each. Beyond its length
    the output of a row is 0 and its state stays: backwards it begins where it is valid.

    lengths: how many steps of each row are valid, int64 (N, 1), or None for all.
    """
    limit: Function = (
        (lambda v: v) if clip is None else (lambda v: apply("minimum", apply("maximum", v, -clip), clip))
    )
    outputs: list[Symbol] = []
    finals: list[list[Symbol]] = []
    wide = kind.gates * hidden
    for each in passes:
        biases = each.biases if each.biases is not None else full(x.graph, (2 * wide,), 0.0, x.dtype)
        own, other = biases[:wide], biases[wide:]
        parts = (each.recurrent[:, : 2 * hidden], each.recurrent[:, 2 * hidden :]) if kind is GRU else ()
        total = apply("add", own, other)
        cell = Cell(each, parts, own, other, total, hidden, limit, input_forget, linear_before_reset)
        state = [full(x.graph, (x.shape[1], hidden), 0.0, x.dtype) if one is None else one for one in each.states]
        steps, state = _direction(kind, cell, each.times_inputs(x), state, lengths, x.shape[0])
        outputs.append(steps)
        finals.append(state)
    return outputs, [stack(list(each), 0) for each in zip(*finals, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What a network of one layer does beside its kind: the functions of each direction, and how they run.

    Attributes:
        backwards: whether each direction goes backwards.
        clip: limits what comes before activations; None for no limit.
        input_forget: whether LSTM's f is 1 - i.
        linear_before_reset: whether GRU's r scales h Rₙᵀ + Rbₙ instead of h.
    """

    functions: Sequence[Sequence[Function]]
    backwards: Sequence[bool]
    clip: float | None = None
    input_forget: bool = False
    linear_before_reset: bool = False


def ran_layer(
    kind: Kind, layer: Layer, x: Symbol, w: Symbol, r: Symbol, b: Symbol | None, lengths: Symbol | None,
    states: Sequence[Symbol | None], p: Symbol | None,
) -> list[Symbol]:  # fmt: skip
    """Run a network on inputs (T, N, I), with weights, biases, states and peepholes as ONNX's operators have them.

    Returns the outputs (T, directions, N, H) and the last states (directions, N, H). This is what the exporter makes again to
    tell a network in a graph.

    lengths: how many steps of each row are valid, integers (N,), or None for all.
    """
    hidden = int(r.shape[2])  # type: ignore[arg-type]
    passes = []
    for number, reverse in enumerate(layer.backwards):
        recurrent = r[number].transpose()
        passes.append(Pass(
            layer.functions[number], _times(w[number].transpose()), _times(recurrent), recurrent,
            None if b is None else b[number], None if p is None else p[number],
            [None if each is None else each[number] for each in states], reverse,
        ))  # fmt: skip
    valid = None if lengths is None else primitives.reshape(primitives.cast(lengths, int64), (*lengths.shape, 1))
    outputs, finals = ran(kind, x, hidden, passes, valid, layer.clip, layer.input_forget, layer.linear_before_reset)
    return [stack(outputs, 1), *finals]


def _times(weights: Symbol) -> Function:
    return lambda x: matmul(x, weights)


def _direction(
    kind: Kind, cell: Cell, inputs: Symbol, state: list[Symbol], lengths: Symbol | None, length: Extent
) -> tuple[Symbol, list[Symbol]]:
    """Run all steps of one direction."""
    reverse, step = cell.given.reverse, _STEPS[kind.name]

    def run(before: list[Symbol], one: tuple[Symbol, ...]) -> tuple[list[Symbol], Symbol]:
        new = step(cell, one[0], before)
        if lengths is None:
            return new, new[0]
        valid = apply("less", one[1], lengths)
        kept = [apply("where", valid, after, own) for after, own in zip(new, before, strict=True)]
        return kept, apply("where", valid, new[0], 0.0)

    if not isinstance(length, int) or length > _FEW_STEPS or length == 0:
        scanned = (inputs,) if lengths is None else (inputs, counting(inputs.graph, length))
        last, found = scan(run, state, scanned, reverse=reverse)
        return found, last
    each: list[Symbol] = []
    for time in range(length - 1, -1, -1) if reverse else range(length):
        state, output = run(state, (inputs[time], inputs.graph.dim_value(time)))
        each.append(output)
    return stack(each[::-1] if reverse else each, 0), state
