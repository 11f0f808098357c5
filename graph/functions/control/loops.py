"""Provides loops: `while_loop`, `fori_loop` and `scan`, which run regions (docs/design/019-control-flow.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....promotion.dtype import bool_, int64
from ....promotion.errors import UserError
from ....promotion.literals import is_scalar
from ...construction.nesting import under_construction
from ...dims.dim import Dim, Extent
from ...errors import mistake
from ...graph import Graph, graph_of
from ...ops.attributes import Attributes
from ...ops.control import result_types
from ...protocols import TensorLike
from ...region import Region, traced
from ...symbol import Symbol
from ...types import DimLike, TensorType, as_extent, shape_text
from .structures import Structure, same_form, taken_apart


def build_loop(
    graph: Graph, op: str, carried: Sequence[Symbol], body: Region, condition: Region | None = None, *,
    limit: Symbol | None = None, length: Extent = -1, sequences: Sequence[Symbol] = (), reverse: bool = False,
) -> Symbol:  # fmt: skip
    """Add a loop that runs a region. Its results are `results_of` it."""
    regions = (body,) if condition is None else (body, condition)
    captured = [symbol for region in regions for symbol in region.captured]
    limits = () if limit is None else (limit,)
    attrs: Attributes = {
        "captured": tuple([len(region.captured) for region in regions]), "carried": len(carried), "length": length,
        "limited": limit is not None, "regions": regions, "reverse": reverse, "sequences": len(sequences),
    }  # fmt: skip
    operands = (*limits, *carried, *sequences, *captured)
    if not operands:
        raise UserError(f"{op}: the loop uses nothing of the graph; fix: carry a value, or compute it once outside")
    return graph.apply("loop", operands, attrs)


def results_of(symbol: Symbol) -> list[Symbol]:
    """Return what a loop or branch returns."""
    found = []
    for index, (dtype, shape) in enumerate(result_types(symbol)):
        attrs: Attributes = {"dtype": dtype, "index": index, "shape": shape}
        found.append(symbol.graph.apply("region_result", (symbol,), attrs, dtype))
    return found


def checked_result(region: Region, op: str, what: str, value: object, wanted: TensorType) -> Symbol:
    """Return a result of a region, which has the type that the loop carries. Numbers take its dtype; nothing is cast."""
    if is_scalar(value) and not wanted.shape:
        return region.scalar(value, wanted.dtype)
    symbol = region.as_symbol(value, op)  # type: ignore[arg-type]
    if symbol.dtype is not wanted.dtype:
        raise mistake(
            op, f"{what} is {symbol.dtype}, and {wanted.dtype} before the iteration", (symbol,),
            f"{wanted.dtype} {shape_text(wanted.shape)}: what a loop carries keeps its dtype",
            f"cast what the body returns, .cast({wanted.dtype}), or what the loop begins with, .cast({symbol.dtype})",
        )  # fmt: skip
    checks = region.shape_checks
    pairs = zip(symbol.shape, wanted.shape, strict=False)
    if len(symbol.shape) != len(wanted.shape) or not all([checks.decide(*pair) for pair in pairs]):
        raise mistake(
            op, f"{what} has shape {shape_text(symbol.shape)}, and {shape_text(wanted.shape)} before the iteration", (symbol,),
            f"shape {shape_text(wanted.shape)}: what a loop carries keeps its shape",
            "broadcast_to or reshape what the loop begins with, or rebind sizes that are always equal",
        )  # fmt: skip
    return symbol


def _require_form(op: str, what: str, found: Structure, wanted: Structure) -> None:
    if not same_form(found, wanted):
        raise UserError(
            f"{op}: {what} returns {', '.join(found.names) or 'nothing'}, and takes {', '.join(wanted.names) or 'nothing'}; "
            "fix: return the same structure of tuples, lists and dicts"
        )


def _require_functions(op: str, **functions: object) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise UserError(f"{op}: {name} is a {type(function).__name__}; fix: pass a function of symbols")


def _carried(graph: Graph, op: str, leaves: Sequence[Any]) -> list[Symbol]:
    return [graph.as_symbol(leaf, op) for leaf in leaves]


def _types(symbols: Sequence[Symbol], name: str) -> list[TensorType]:
    return [TensorType(symbol.dtype, symbol.shape, f"{name}{number}") for number, symbol in enumerate(symbols)]


_INDEX = TensorType(int64, (), "index")


def _region(
    graph: Graph, op: str, name: str, types: Sequence[TensorType],
    body: Callable[[Region, tuple[Symbol, ...]], Sequence[Symbol]],
) -> Region:  # fmt: skip
    return traced(graph, f"{op} {name}", (_INDEX, *types), body)


def _condition(region: Region, op: str, value: object) -> Symbol:
    """Return what a condition returns, which is a bool scalar."""
    symbol = region.constant(value) if isinstance(value, bool) else region.as_symbol(value, op)  # type: ignore[arg-type]
    if symbol.dtype is not bool_ or symbol.shape != ():
        raise mistake(
            op, f"the condition is {symbol.dtype} {shape_text(symbol.shape)}", (symbol,), "a bool scalar",
            "joinery.any(…) or joinery.all(…) of several" if symbol.dtype is bool_ else "compare it: value != 0",
        )  # fmt: skip
    return symbol


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Repeat `state = body_fun(state)`, beginning with `init_val`, while `cond_fun(state)`; return the last state.

    The body is compiled once and runs as a loop of native code: nothing is unrolled. As `jax.lax.while_loop`.

    Args:
        cond_fun: a function of the state that returns a bool scalar. It is asked before each iteration.
        body_fun: a function of the state that returns the next one, of the same structure, dtypes and shapes: nothing is cast.
        init_val: a symbol, an array, a number, or tuples, lists and dicts of them. One of them is a symbol.

    Functions may use symbols of the graph around them. They must be pure: they are called once, to build the body.
    """
    op = "while_loop"
    _require_functions(op, cond_fun=cond_fun, body_fun=body_fun)
    structure, leaves = taken_apart(init_val, "state", op)
    graph = under_construction(graph_of(op, leaves))
    state = _carried(graph, op, leaves)
    types = _types(state, "state")

    def asked(region: Region, inputs: tuple[Symbol, ...]) -> Sequence[Symbol]:
        return (_condition(region, op, cond_fun(structure.put_together(iter(inputs[1:])))),)

    def step(region: Region, inputs: tuple[Symbol, ...]) -> Sequence[Symbol]:
        return _returned(region, op, structure, types, body_fun(structure.put_together(iter(inputs[1:]))))

    condition = _region(graph, op, "condition", types, asked)
    loop = build_loop(graph, op, state, _region(graph, op, "body", types, step), condition)
    return structure.put_together(iter(results_of(loop)))


def _returned(
    region: Region, op: str, structure: Structure, types: Sequence[TensorType], value: object, what: str = "body_fun"
) -> list[Symbol]:
    """Return the leaves of what a body returns as the next state."""
    found, results = taken_apart(value, "state", op)
    _require_form(op, what, found, structure)
    checked = zip(found.names, results, types, strict=True)
    return [checked_result(region, op, name, result, wanted) for name, result, wanted in checked]


def fori_loop(lower: TensorLike, upper: TensorLike, body_fun: Callable[[Symbol, Any], Any], init_val: Any) -> Any:
    """Repeat `state = body_fun(i, state)` for `i` from `lower` to `upper - 1`; return the last state.

    As `jax.lax.fori_loop`, with `i` an int64 scalar.

    Args:
        lower, upper: ints, dims, or int64 scalars that are known only at a run.
        body_fun: a function of the index and the state that returns the next state, of the same structure, dtypes and shapes.
        init_val: what `while_loop` takes.
    """
    op = "fori_loop"
    _require_functions(op, body_fun=body_fun)
    structure, leaves = taken_apart(init_val, "state", op)
    graph = under_construction(graph_of(op, leaves, lower, upper))
    state = _carried(graph, op, leaves)
    types = _types(state, "state")
    first = _bound(graph, op, "lower", lower)
    last = _bound(graph, op, "upper", upper)
    length: Extent = -1
    limit: Symbol | None = None
    if isinstance(first, int) and isinstance(last, int):
        length = max(last - first, 0)
    elif isinstance(first, int) and first == 0 and not isinstance(last, (int, Symbol)):
        length = last
    else:
        limit = graph.apply("sub", (graph.as_symbol(last, op), graph.as_symbol(first, op)))
    starts_at_zero = isinstance(first, int) and first == 0

    def step(region: Region, inputs: tuple[Symbol, ...]) -> Sequence[Symbol]:
        index = inputs[0] if starts_at_zero else region.apply("add", (inputs[0], region.as_symbol(first, op)))
        return _returned(region, op, structure, types, body_fun(index, structure.put_together(iter(inputs[1:]))))

    loop = build_loop(graph, op, state, _region(graph, op, "body", types, step), limit=limit, length=length)
    return structure.put_together(iter(results_of(loop)))


def _bound(graph: Graph, op: str, name: str, value: TensorLike) -> Extent | Symbol:
    """Return a bound of an index: an int, a size, or an int64 scalar."""
    if isinstance(value, bool) or not hasattr(value, "dtype"):
        if isinstance(value, (int, Dim)) and not isinstance(value, bool):
            return value
        raise UserError(f"{op}: {name} is {value!r:.60}; fix: an int, a dim, or an int64 scalar")
    symbol = graph.as_symbol(value, op)
    if symbol.dtype is not int64 or symbol.shape != ():
        raise mistake(
            op, f"{name} is {symbol.dtype} {shape_text(symbol.shape)}", (symbol,), "an int64 scalar", f"{name}.cast(int64)"
        )
    return symbol


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: DimLike | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Repeat `state, y = f(state, x)` for the slices of `xs` along axis 0; return the last state, and all `y` stacked.

    As `jax.lax.scan`. The slices are read, and results stacked, where they lie: nothing is copied.

    Args:
        f: a function of the state and a slice that returns the next state, of the same structure, dtypes and shapes, and
            results of this iteration, or None for none.
        init: what `while_loop` takes; None for no state.
        xs: a tensor, or tuples, lists and dicts of tensors with equal sizes of axis 0; None for none.
        length: the number of iterations, needed where there is no `xs`.
        reverse: whether to begin at the end. `y` stands where its `x` does.
    """
    op = "scan"
    _require_functions(op, f=f)
    structure, leaves = taken_apart(init, "state", op)
    scanned, slices_of = taken_apart(xs, "xs", op)
    graph = under_construction(graph_of(op, leaves, slices_of))
    state, sequences = _carried(graph, op, leaves), _carried(graph, op, slices_of)
    count: Extent | None = None if length is None else as_extent(length, "scan: length")
    for name, sequence in zip(scanned.names, sequences, strict=True):
        if not sequence.shape:
            raise mistake(op, f"{name} has no axis", (sequence,), "a tensor with an axis to scan", "reshape it, or capture it")
        if count is None:
            count = sequence.shape[0]
        elif not graph.shape_checks.decide(count, sequence.shape[0]):
            raise mistake(op, f"{name} has {sequence.shape[0]} slices, the scan has {count} iterations", sequences,
                          "equal sizes of axis 0", "slice the longer one, or rebind sizes that are always equal")  # fmt: skip
    if count is None:
        raise UserError("scan: there is neither xs nor a length; fix: length=…")
    types = _types(state, "state")
    given = [*types, *[TensorType(each.dtype, each.shape[1:], f"x{number}") for number, each in enumerate(sequences)]]
    rows: list[Structure] = []

    def step(region: Region, inputs: tuple[Symbol, ...]) -> Sequence[Symbol]:
        end = 1 + len(state)
        result = f(structure.put_together(iter(inputs[1:end])), scanned.put_together(iter(inputs[end:])))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise UserError(f"scan: f returns {type(result).__name__}; fix: return the next state and a result, or None")
        following, row = result
        form, outputs = taken_apart(row, "y", op)
        rows.append(form)
        carried = _returned(region, op, structure, types, following, "f")
        return [*carried, *[region.as_symbol(output, op) for output in outputs]]

    body = _region(graph, op, "body", given, step)
    loop = build_loop(graph, op, state, body, length=count, sequences=sequences, reverse=bool(reverse))
    results = results_of(loop)
    return structure.put_together(iter(results)), rows[0].put_together(iter(results[len(state) :]))
