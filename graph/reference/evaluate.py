"""Evaluates graphs in NumPy: the reference that defines what every graph means.

`evaluate` runs a graph symbol by symbol. Each op row has one small function (`REFERENCE`, filled by the
modules of this folder) that computes its value from NumPy arrays; these functions define the semantics,
plainly rather than fast. Back ends are tested against them, never against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...promotion.arrays import Array
from ...promotion.dtype import DType, string
from ...promotion.errors import InternalError, UnsupportedError, UserError
from ...promotion.float_modes import default_modes
from ...promotion.literals import Scalar, is_scalar, rank, scalar_rank
from ..checks import Check
from ..constants import as_texts
from ..construction.misuse import checked_graph
from ..data_sizes import mentioned, needed
from ..dims.binding import ArrayShape, bind_dims
from ..dims.dim import Dim, evaluate_dim
from ..graph import Graph
from ..ops.control import regions_of
from ..region import Region
from ..symbol import Symbol
from ..types import shape_text
from . import elementwise as reference_elementwise
from . import ordered as reference_ordered
from . import quantization as reference_quantization
from . import reductions as reference_reductions
from . import structure as reference_structure
from .budget import require_addressed, require_memory
from .control import run_control, run_on_host
from .host import data_sized as reference_data_sized
from .host import distinct as reference_distinct
from .host import images as reference_images
from .host import strings as reference_strings
from .numerics import literal
from .registry import REFERENCE, BoundSymbol

__all__ = ["REFERENCE", "BoundSymbol", "bind_inputs", "evaluate"]

MODULES = (
    reference_elementwise, reference_reductions, reference_structure, reference_strings, reference_data_sized,
    reference_distinct, reference_images, reference_ordered, reference_quantization,
)  # fmt: skip
"""The modules whose import fills `REFERENCE`."""


def evaluate(graph: Graph, /, *arrays: ArrayLike, **named: ArrayLike) -> Array | tuple[Array, ...]:
    """Run `graph` on arrays, one per input, in order or by the inputs' names.

    Args:
        graph: a finished graph.
        arrays: of exactly the inputs' dtypes (`dtype.numpy`; only the byte order is converted) and of their
            shapes. A Python scalar may stand for a rank-0 input.

    Returns the output array, or a tuple of them when the graph has several. They are new, C-contiguous
    arrays. Raises `UserError` when count, dtypes, shapes or symbolic dims do not agree, or a runtime check of
    the graph fails, and `MemoryError` before it computes what does not fit into memory.

    The caller's floating-point modes make no difference.
    """
    checked_graph("evaluate", graph)
    with default_modes():
        return _evaluate(graph, in_order(graph, arrays, named) if named else arrays)


def in_order(
    graph: Graph, arrays: Sequence[ArrayLike], named: Mapping[str, ArrayLike], what: str = "evaluate"
) -> Sequence[ArrayLike]:
    """Return arrays given by position and by name, all by position. Raises `UserError`, which begins with `what`, for wrong
    names."""
    names = [_name(symbol) for symbol in graph.inputs]
    known = f"its inputs are {', '.join(names)}" if names else "it has no inputs"
    for name in named:
        if name not in names:
            raise UserError(f"{what}: graph {graph.name!r} has no input {name!r}; {known}; fix: pass arrays by these names")
        if names.index(name) < len(arrays):
            raise UserError(f"{what}: input {name!r} is given by position and by name; fix: leave one of them out")
    rest = names[len(arrays) :]
    missing = [name for name in rest if name not in named]
    if missing:
        raise UserError(f"{what}: graph {graph.name!r} is given no {', '.join(missing)}; {known}; fix: pass them as well")
    return [*arrays, *(named[name] for name in rest)]


def _evaluate(graph: Graph, arrays: Sequence[ArrayLike]) -> Array | tuple[Array, ...]:
    inputs, dims = bind_inputs(graph, arrays)
    outputs = tuple(graph.outputs)
    if not outputs:
        raise UserError(
            f"evaluate: graph {graph.name!r} has no outputs; fix: call graph.output(symbol) first"
        )
    waiting = require_checks(graph.checks, dims, "evaluate")
    limits = require_limits(graph.limits, dims)
    values = {symbol.id: array for symbol, array in zip(graph.inputs, inputs, strict=True)}

    def decided() -> None:
        nonlocal waiting, limits
        waiting, limits = require_checks(waiting, dims, "evaluate"), require_limits(limits, dims)

    run = _Run(graph)
    require_memory(run.symbols, run.outputs, dims)
    results = tuple([np.array(array, order="C") for array in run.results(values, dims, decided)])
    return results[0] if len(results) == 1 else results


class _Run:
    """Computes the outputs of a graph, of a region once for each iteration."""

    def __init__(self, graph: Graph) -> None:
        live = needed(graph.symbols, graph.outputs)
        self.outputs = graph.outputs
        self.symbols = [symbol for symbol in graph.symbols if symbol.id in live]
        self.regions = {id(region): _Run(region) for symbol in self.symbols for region in regions_of(symbol)}

    def results(self, values: dict[int, Array], dims: dict[str, int], decided: Callable[[], None]) -> tuple[Array, ...]:
        """Return the outputs. values: those of the inputs. decided: called when an operation has decided a size."""
        pending = _use_counts(self.symbols, self.outputs)
        bound: dict[int, BoundSymbol] = {}
        returned: dict[int, tuple[Array, ...]] = {}
        for symbol in self.symbols:
            operands = [values[operand.id] for operand in symbol.inputs]
            if symbol.op.kind == "host":
                if symbol.op.name == "host_result":
                    values[symbol.id] = returned[symbol.inputs[0].id][symbol.attrs["index"]]
                    decide_sizes(symbol, values[symbol.id], dims)
                elif regions_of(symbol):
                    values[symbol.id], returned[symbol.id] = run_on_host(symbol, operands, dims, self.run_on_host)
                else:
                    values[symbol.id] = compute_host(symbol, operands, dims)
                decided()
            bound[symbol.id] = _bind(symbol, dims, bound)
            attributes = [abs(value) for value in bound[symbol.id].attrs.values() if type(value) is int]
            require_addressed(symbol, bound[symbol.id].shape, max(attributes, default=0))
            if symbol.op.name == "region_result":
                values[symbol.id] = returned[symbol.inputs[0].id][symbol.attrs["index"]]
            elif symbol.op.kind == "control":
                values[symbol.id], returned[symbol.id] = run_control(symbol, operands, dims, self.run_region)
            elif symbol.id not in values:
                values[symbol.id] = _compute(symbol, bound[symbol.id], operands)
            for operand in symbol.inputs:  # values that no later symbol reads are dropped
                pending[operand.id] -= 1
                if not pending[operand.id]:
                    values.pop(operand.id, None)
        return tuple([values[symbol.id] for symbol in self.outputs])

    def run_region(self, region: Region, inputs: Sequence[Array], dims: Mapping[str, int]) -> tuple[Array, ...]:
        """Return the outputs of a region."""
        values = {symbol.id: array for symbol, array in zip(region.inputs, inputs, strict=True)}
        return self.regions[id(region)].results(values, dict(dims), lambda: None)


    def run_on_host(self, region: Region, inputs: Sequence[Array], dims: Mapping[str, int]) -> tuple[Array, ...]:
        """Return the outputs of a region that the host calls, whose inputs say what its own sizes are."""
        pairs = zip(region.inputs, inputs, strict=True)
        own = bind_dims((ArrayShape(_name(symbol), symbol.shape, array.shape) for symbol, array in pairs), region.name)
        known = {**{name: size for name, size in dims.items() if name not in region.own_dims}, **own}
        waiting = require_checks(region.checks, known, region.name)

        def decided() -> None:
            nonlocal waiting
            waiting = require_checks(waiting, known, region.name)

        values = {symbol.id: array for symbol, array in zip(region.inputs, inputs, strict=True)}
        return self.regions[id(region)].results(values, known, decided)


def _compute(symbol: Symbol, bound: BoundSymbol, operands: Sequence[Array]) -> Array:
    implementation = REFERENCE.get(bound.op)
    if implementation is None:
        raise UnsupportedError(f"evaluate: op {bound.op!r} has no reference implementation")
    try:
        value = implementation(bound, *operands)
    except UserError as error:
        raise UserError(f"{error}\n  built at {symbol.location}") from None
    if value.dtype != bound.dtype.numpy or value.shape != bound.shape:
        raise InternalError(
            f"evaluate: {bound.op} gave {value.dtype} {value.shape}, the graph says "
            f"{bound.dtype} {bound.shape} (built at {symbol.location})"
        )
    return value


def require_checks(checks: Iterable[Check], dims: Mapping[str, int], what: str) -> list[Check]:
    """Raise `UserError` where a condition does not hold, and return those whose sizes are not all known yet."""
    waiting = []
    for check in checks:
        if not mentioned(check[:2]) <= dims.keys():
            waiting.append(check)
            continue
        left, right = _sized(check.lhs, dims), _sized(check.rhs, dims)
        if left != right:
            sizes = ", ".join(f"{name} = {size}" for name, size in dims.items())
            expected = f"{check.rhs} = {right}" if isinstance(check.rhs, Dim) else str(right)
            error = UserError(
                f"{what}: {check.message}: {check.lhs} is {left}, not {expected} (where {sizes}); "
                "fix: pass arrays whose sizes satisfy it"
            )
            error.refuses_sizes = True
            raise error
    return waiting


def require_limits(limits: Iterable[Check], dims: Mapping[str, int]) -> list[Check]:
    """Raise `UserError` beyond a budget, and return the limits whose sizes are not all known yet."""
    waiting = []
    for limit in limits:
        if not mentioned(limit[:2]) <= dims.keys():
            waiting.append(limit)
        elif _sized(limit.lhs, dims) != limit.rhs:
            raise UserError(f"evaluate: {limit.message}")
    return waiting


def compute_host(
    symbol: Symbol, operands: Sequence[Array], dims: dict[str, int], function: Callable[..., Array] | None = None
) -> Array:
    """Compute one symbol by itself, and add the sizes that it decides, as host operations do, to `dims`.

    function: computes a host operation, instead of the evaluator's.
    """
    inputs = tuple([
        BoundSymbol(operand.op.name, operand.dtype, array.shape)
        for operand, array in zip(symbol.inputs, operands, strict=True)
    ])  # fmt: skip
    name = symbol.op.name
    if symbol.op.kind != "host":
        shape = tuple([evaluate_dim(extent, dims) for extent in symbol.shape])
        attrs = {attribute: _sized(value, dims) for attribute, value in symbol.attrs.items()}
        return _compute(symbol, BoundSymbol(name, symbol.dtype, shape, inputs, attrs), operands)
    try:
        value = (function or REFERENCE[name])(BoundSymbol(name, symbol.dtype, (), inputs, symbol.attrs), *operands)
    except UserError as error:
        raise UserError(f"{error}\n  built at {symbol.location}") from None
    decide_sizes(symbol, value, dims)
    return value


def decide_sizes(symbol: Symbol, value: Array, dims: dict[str, int]) -> None:
    """Add the sizes that a host operation has decided to `dims`. Raises `UserError` where others are not those of the graph."""
    name = symbol.op.name
    if value.dtype != symbol.dtype.numpy or value.ndim != len(symbol.shape):
        raise InternalError(f"{name} gave {value.dtype} {value.shape}, the graph says {symbol.dtype} {symbol.shape}")
    for extent, size in zip(symbol.shape, value.shape, strict=True):
        if isinstance(extent, Dim) and extent.name is not None and extent.name not in dims:
            dims[extent.name] = size
        elif evaluate_dim(extent, dims) != size:
            raise UserError(f"{name}: a size is {size}, and {extent} is {evaluate_dim(extent, dims)} (from {symbol.location})")


def _use_counts(symbols: Sequence[Symbol], outputs: Sequence[Symbol]) -> dict[int, int]:
    counts = {symbol.id: 0 for symbol in symbols}
    for symbol in symbols:
        for operand in symbol.inputs:
            counts[operand.id] += 1
    for symbol in outputs:
        counts[symbol.id] += 1
    return counts


def _bind(symbol: Symbol, dims: Mapping[str, int], bound: Mapping[int, BoundSymbol]) -> BoundSymbol:
    """Return the symbol with every dim in its shape and attributes replaced by its size.

    Attributes of host operations stay: they name sizes that the operation decides, or one beside it.
    """
    is_host = symbol.op.kind == "host"
    return BoundSymbol(
        symbol.op.name,
        symbol.dtype,
        tuple(evaluate_dim(extent, dims) for extent in symbol.shape),
        tuple(bound[operand.id] for operand in symbol.inputs),
        dict(symbol.attrs) if is_host else {name: _sized(value, dims) for name, value in symbol.attrs.items()},
    )


def _sized(value: object, dims: Mapping[str, int]) -> object:
    if isinstance(value, Dim):
        return value.evaluate(dims)
    if isinstance(value, tuple):
        return tuple(_sized(part, dims) for part in value)
    return value


def bind_inputs(
    graph: Graph, arrays: Sequence[ArrayLike], what: str = "evaluate"
) -> tuple[list[Array], dict[str, int]]:
    """Return the checked input arrays, and the size of every named dim that they determine. Messages begin with `what`.

    A dim that only occurs inside expressions ("2*batch") is solved for where one extent determines it. Raises
    `UserError` when count, dtypes, ranks or sizes do not agree with the inputs.
    """
    inputs = graph.inputs
    if len(arrays) != len(inputs):
        expected = ", ".join(f"{_name(symbol)}: {_type_text(symbol)}" for symbol in inputs)
        raise UserError(
            f"{what}: graph {graph.name!r} takes {len(inputs)} inputs ({expected}), got {len(arrays)}; "
            "fix: pass one array per input, in order"
        )
    checked = [_array(symbol, given, what) for symbol, given in zip(inputs, arrays, strict=True)]
    pairs = zip(inputs, checked, strict=True)
    return checked, bind_dims((ArrayShape(_name(symbol), symbol.shape, array.shape) for symbol, array in pairs), what)


def _array(symbol: Symbol, given: ArrayLike, caller: str) -> Array:
    what = f"{caller}: input {_name(symbol)!r}"
    if is_scalar(given) and not symbol.shape and scalar_rank(given) <= rank(symbol.dtype):
        return _scalar(symbol.dtype, given, what)
    if symbol.dtype is string:
        array = as_texts(given, what)
        if array.ndim != len(symbol.shape):
            raise UserError(f"{what} expects {_type_text(symbol)}, got shape {array.shape}; fix: reshape the array")
        return array
    array = np.asarray(given)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        actual = DType.from_numpy(array.dtype)
    except UserError as error:
        raise UserError(f"{what} expects {_type_text(symbol)}: {error}") from None
    if actual.numpy != symbol.dtype.numpy:
        raise UserError(
            f"{what} expects {_type_text(symbol)}, got {actual} {array.shape}; fix: "
            f"array.astype({_numpy_text(symbol.dtype)})"
        )
    if array.ndim != len(symbol.shape):
        raise UserError(
            f"{what} expects {_type_text(symbol)} with {len(symbol.shape)} axes, got shape {array.shape}; "
            "fix: reshape the array"
        )
    return array


def _scalar(dtype: DType, value: Scalar, what: str) -> Array:
    """Return a number, whose kind is not above that of the dtype, as an array of rank 0."""
    if dtype.kind in ("int", "uint") and isinstance(value, int) and not dtype.contains_integer(value):
        raise UserError(
            f"{what}: {value} does not fit {dtype}, whose range is [{dtype.min_value}, {dtype.max_value}]"
        )
    with np.errstate(all="ignore"):
        return np.asarray(literal(value, dtype))


def _name(symbol: Symbol) -> str:
    return str(symbol.attrs["name"])


def _type_text(symbol: Symbol) -> str:
    return f"{symbol.dtype} {shape_text(symbol.shape)}"


def _numpy_text(dtype: DType) -> str:
    concrete = dtype.numpy
    module = "ml_dtypes" if concrete.type.__module__ != "numpy" else "numpy"
    return f"{module}.{concrete.type.__name__}"
