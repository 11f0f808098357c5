"""Defines recurrent networks of one layer: `rnn`, `gru` and `lstm`, over any number of steps."""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dtype import DType
from ....promotion.errors import UserError
from ...construction import primitives
from ...errors import describing, mistake
from ...graph import graph_of
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from .cells import DIRECTIONS, GRU, LSTM, RNN, Function, Kind, Layer, functions_named, ran_layer


def rnn(
    x: TensorLike, w: TensorLike, r: TensorLike, b: TensorLike | None = None, sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None, direction: str = "forward", batch_first: bool = False,
    activations: Sequence[str] | None = None, clip: float | None = None,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Run a simple recurrent network: hₜ = tanh(xₜ Wᵀ + hₜ₋₁ Rᵀ + Wb + Rb); as ONNX's RNN.

    The arguments and results are those of `lstm` without c: (steps, last h), with one gate.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 2, 3), "x")])
        >>> w, r = np.ones((1, 5, 3), np.float32), np.ones((1, 5, 5), np.float32)
        >>> [y.shape for y in jn.rnn(g.inputs[0], w, r)]
        [(Dim('t'), 1, 2, 5), (1, 2, 5)]
    """
    steps, h = _network(RNN, x, (w, r, b), sequence_lens, (initial_h,), None, direction, batch_first, activations, clip)
    return steps, h


def gru(
    x: TensorLike, w: TensorLike, r: TensorLike, b: TensorLike | None = None, sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None, direction: str = "forward", batch_first: bool = False,
    activations: Sequence[str] | None = None, clip: float | None = None, linear_before_reset: bool = False,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Run gated recurrent units (Cho et al., 2014), as ONNX's GRU.

    With sigmoids z and r of their gates, the candidate is n = tanh(x Wₙᵀ + (r ∘ h) Rₙᵀ + biases), and h becomes
    (1 - z) ∘ n + z ∘ h. The arguments and results are those of `lstm` without c: (steps, last h), with the gates z, r, n.

    Args:
        linear_before_reset: whether r scales h Rₙᵀ + Rbₙ instead of h, as torch and cuDNN have it.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 2, 3), "x")])
        >>> w, r = np.ones((2, 15, 3), np.float32), np.ones((2, 15, 5), np.float32)
        >>> [y.shape for y in jn.gru(g.inputs[0], w, r, direction="bidirectional")]
        [(Dim('t'), 2, 2, 5), (2, 2, 5)]
    """
    steps, h = _network(
        GRU, x, (w, r, b), sequence_lens, (initial_h,), None, direction, batch_first, activations, clip,
        linear_before_reset=linear_before_reset,
    )  # fmt: skip
    return steps, h


def lstm(
    x: TensorLike, w: TensorLike, r: TensorLike, b: TensorLike | None = None, sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None, initial_c: TensorLike | None = None, p: TensorLike | None = None,
    direction: str = "forward", batch_first: bool = False, activations: Sequence[str] | None = None, clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Run long short-term memory (Hochreiter and Schmidhuber, 1997), as ONNX's LSTM: a loop of native code, for any length.

    With sigmoids i, o, f of their gates, c becomes f ∘ c + i ∘ tanh(x W_cᵀ + h R_cᵀ + biases), and h becomes o ∘ tanh(c). The
    products with x are made for all steps at once.

    Args:
        x: (T, N, I): steps, batch, features; or (N, T, I) where `batch_first`. Sizes may be symbolic, but for I.
        w: (directions, gates · H, I), with the gates i, o, f, c one after the other (torch has i, f, c, o).
        r: (directions, gates · H, H).
        b: (directions, 2 · gates · H), biases of w and then of r; None for none.
        sequence_lens: (N,) integers: how many steps of each row are valid; None for all. Beyond them the output is 0, and the
            state stays.
        initial_h, initial_c: (directions, N, H), or (N, directions, H) where `batch_first`; None for zeros.
        p: peepholes (directions, 3 · H), by which c is multiplied in the gates i, o, f; None for none.
        direction: "forward", "reverse" or "bidirectional", which has two directions.
        activations: names of the functions of all directions, as ONNX has them, instead of those above.
        clip: limits what comes before activations to -clip … clip.
        input_forget: whether f is 1 - i.

    Returns (steps, h, c): (T, directions, N, H), or (N, T, directions, H) where `batch_first`, and the last states, which are
    as `initial_h`. The floats x, w, r, b, states and p join in one dtype, the result's. Raises `UserError` for weights of other
    shapes.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 2, 3), "x")])
        >>> w, r = np.ones((1, 20, 3), np.float32), np.ones((1, 20, 5), np.float32)
        >>> [y.shape for y in jn.lstm(g.inputs[0], w, r)]
        [(Dim('t'), 1, 2, 5), (1, 2, 5), (1, 2, 5)]
    """
    steps, h, c = _network(
        LSTM, x, (w, r, b), sequence_lens, (initial_h, initial_c), p, direction, batch_first, activations, clip,
        input_forget=input_forget,
    )  # fmt: skip
    return steps, h, c


def _network(
    kind: Kind, x: TensorLike, weights: tuple[TensorLike, TensorLike, TensorLike | None], sequence_lens: TensorLike | None,
    initial: Sequence[TensorLike | None], p: TensorLike | None, direction: str, batch_first: bool,
    activations: Sequence[str] | None, clip: float | None, input_forget: bool = False, linear_before_reset: bool = False,
) -> list[Symbol]:  # fmt: skip
    op = kind.name
    optional = [weights[2], *initial, p]
    operands = [x, weights[0], weights[1], *[each for each in optional if each is not None]]
    graph = graph_of(op, *operands, *([] if sequence_lens is None else [sequence_lens]))
    value, w, r, *rest = joined = graph.promoted(op, operands, "layer_norm")
    b, *states, peepholes = [None if each is None else rest.pop(0) for each in optional]
    if direction not in DIRECTIONS:
        raise mistake(op, f"direction is {direction!r:.40}", joined, " or ".join(DIRECTIONS), 'direction="forward"')
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, (int, float)) or not clip > 0):
        raise mistake(op, f"clip is {clip!r:.40}", joined, "a positive number, or None", "clip=None")
    backwards = DIRECTIONS[direction]
    if len(value.shape) != 3 or len(w.shape) != 3 or len(r.shape) != 3:
        what = f"x {shape_text(value.shape)}, w {shape_text(w.shape)}, r {shape_text(r.shape)}"
        raise mistake(op, what, joined, "(T, N, I), (directions, gates · H, I), (directions, gates · H, H)", "insert axes")
    hidden = r.shape[2]
    if not isinstance(hidden, int) or hidden < 1:
        raise mistake(op, f"a state of {hidden}", joined, "a known size of r's last axis, 1 or more", "fix the sizes of r")
    batch, count, wide = value.shape[0 if batch_first else 1], len(backwards), kind.gates * hidden
    state = (batch, count, hidden) if batch_first else (count, batch, hidden)
    expected = [
        ("w", w, (count, wide, value.shape[2])), ("r", r, (count, wide, hidden)), ("b", b, (count, 2 * wide)),
        *[(f"initial_{name}", each, state) for name, each in zip("hc", states, strict=False)],
        ("p", peepholes, (count, 3 * hidden)),
    ]  # fmt: skip
    for name, symbol, shape in expected:
        if symbol is not None and not _fits(op, name, symbol, shape):
            what = f"{name} has shape {shape_text(symbol.shape)}, with {count} directions and a state of {hidden}"
            raise mistake(op, what, joined, shape_text(shape), f"check the axes of {name}")
    lengths = None if sequence_lens is None else _lengths(op, graph.as_symbol(sequence_lens, op), joined, batch)
    functions = _functions(op, joined, kind, activations, count)
    dtype: DType = value.dtype
    order = (1, 0, 2)
    layer = Layer(functions, backwards, None if clip is None else float(clip), input_forget, linear_before_reset)
    if batch_first:
        value, states = value.permute(order), [None if each is None else each.permute(order) for each in states]
    steps, *finals = ran_layer(kind, layer, value, w, r, b, lengths, states, peepholes)
    if batch_first:
        steps, finals = steps.permute((2, 0, 1, 3)), [each.permute(order) for each in finals]
    return [primitives.cast(each, dtype) for each in (steps, *finals)]


def _fits(op: str, name: str, x: Symbol, shape: Sequence[object]) -> bool:
    """Return whether a tensor may have this shape; a size that is known at a run is checked there."""
    if len(x.shape) != len(shape):
        return False
    checks = x.graph.shape_checks
    pairs = list(zip(x.shape, shape, strict=True))
    if any(checks.decide(one, other) is False for one, other in pairs):  # type: ignore[arg-type]
        return False
    with describing(op, x):
        for axis, (one, other) in enumerate(pairs):
            checks.require_equal(one, other, f"axis {axis} of {name}")  # type: ignore[arg-type]
    return True


def _lengths(op: str, lengths: Symbol, joined: Sequence[Symbol], batch: object) -> Symbol:
    if not lengths.dtype.is_integer or not _fits(op, "sequence_lens", lengths, (batch,)):
        what = f"sequence_lens {lengths.dtype} {shape_text(lengths.shape)}"
        raise mistake(op, what, (*joined, lengths), f"integers ({batch},), one for each row", "sequence_lens.cast(int64)")
    return lengths


def _functions(
    op: str, joined: Sequence[Symbol], kind: Kind, names: Sequence[str] | None, directions: int
) -> list[list[Function]]:
    each = len(kind.activations)
    given = list(names) if names is not None else [*kind.activations] * directions
    if len(given) == each:
        given *= directions
    if len(given) != each * directions:
        raise mistake(op, f"{len(given)} activations", joined, f"{each} for each of {directions} directions", "leave them out")
    try:
        found = functions_named(given)
    except UserError as error:
        raise mistake(op, str(error).partition("; fix: ")[0], joined, "", str(error).partition("; fix: ")[2]) from None
    return [found[start : start + each] for start in range(0, len(found), each)]
