"""The gate below construction: whatever passes is well formed, whoever built it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..promotion.dtype import DType
from ..promotion.errors import InternalError, JoineryError, UserError
from .checks import Checks
from .dims import Dim
from .opdef import VARIADIC
from .ops import OPS
from .types import Shape, shape_text

if TYPE_CHECKING:
    from .graph import Graph
    from .symbol import Symbol


def verify(graph: Graph) -> None:
    """Check the whole graph.

    Raises `UserError` when it uses dims that no input has, which only the end of construction shows, and `InternalError` when
    symbols contradict the op table.
    """
    for problem in problems(graph):
        raise InternalError(f"graph {graph.name!r}: {problem}")
    _check_dims(graph)


def problems(graph: Graph) -> Iterator[str]:
    """What is wrong with the graph's symbols, one line each, in order."""
    checks = Checks()
    for check in graph.checks:
        checks.add(*check)
    known = len(checks)
    approved: set[Any] = set()  # combinations of op and dtypes that were found correct
    for position, symbol in enumerate(graph.symbols):
        where = f"%{position} {symbol.op.name}"
        if symbol.id != position or symbol.graph is not graph:
            yield f"{where}: it says it is %{symbol.id} of graph {symbol.graph.name!r}"
            continue
        if OPS.get(symbol.op.name) is not symbol.op:
            yield f"{where}: its op is not in the table"
            continue
        for problem in _symbol_problems(symbol, checks, approved):
            yield f"{where}: {problem}"
        if len(checks) != known:
            yield f"{where}: it needs a runtime check that the graph does not have: {checks.entries[-1].message}"
            known = len(checks)
    for position, symbol in enumerate(graph.inputs):
        if symbol.op.name != "input" or symbol.attrs.get("index") != position:
            yield f"input {position} is %{symbol.id} {symbol.op.name}"
    for symbol in graph.outputs:
        if symbol.graph is not graph:
            yield f"output %{symbol.id} belongs to graph {symbol.graph.name!r}"
    for entry in graph.casts():
        if entry.symbol.op.name != "cast":
            yield f"the ledger lists %{entry.symbol.id}, a {entry.symbol.op.name}"


def _symbol_problems(symbol: Symbol, checks: Checks, approved: set[Any]) -> Iterator[str]:
    row = symbol.op
    for operand in symbol.inputs:
        if operand.graph is not symbol.graph or not 0 <= operand.id < symbol.id:
            yield f"operand %{operand.id} does not come before it"
            return
    count = len(symbol.inputs)
    if count != row.arity and not (row.arity == VARIADIC and count):
        yield f"{count} operands, the op has {row.arity}"
        return
    if set(symbol.attrs) != set(row.attrs):
        yield f"attributes {sorted(symbol.attrs)}, the op has {sorted(row.attrs)}"
        return
    try:
        if row.kind == "source":
            yield from _source_problems(symbol)
            return
        dtypes = tuple([operand.dtype for operand in symbol.inputs])
        typed = (row, dtypes, symbol.dtype, symbol.attrs.get("dtype"))
        if typed not in approved:
            problem = _dtype_problem(symbol, dtypes)
            if problem:
                yield problem
            else:
                approved.add(typed)
        if row.kind == "map" and all(
            operand.shape is symbol.shape or not operand.shape for operand in symbol.inputs
        ):
            if symbol.shape and all(not operand.shape for operand in symbol.inputs):
                yield f"its shape is {shape_text(symbol.shape)}, its operands are scalars"
            return
        shape = row.shape([operand.shape for operand in symbol.inputs], symbol.attrs, checks)
    except (JoineryError, TypeError, KeyError, IndexError, AttributeError) as error:
        yield f"{type(error).__name__}: {error}"
        return
    if not _same_shape(shape, symbol.shape, checks):
        yield f"its shape is {shape_text(symbol.shape)}, the op gives {shape_text(shape)}"


def _dtype_problem(symbol: Symbol, dtypes: tuple[DType, ...]) -> str:
    row = symbol.op
    given = symbol.attrs["dtype"] if "dtype" in row.attrs else None
    promotion = row.promote.apply(symbol.graph.rules, dtypes, op=row.name, dtype=given)
    if promotion.casts != dtypes:
        names = ", ".join(dtype.name for dtype in promotion.casts)
        return f"operands are {', '.join(dtype.name for dtype in dtypes)}, the op computes in {names}"
    if promotion.result is not symbol.dtype:
        return f"its dtype is {symbol.dtype}, the op gives {promotion.result}"
    for dtype in dtypes[:1] if row.kind == "index" else dtypes:
        if not row.accepts(dtype) and not (row.name == "where" and dtype.is_bool):
            return f"it cannot compute with {dtype}"
    return ""


def _source_problems(symbol: Symbol) -> Iterator[str]:
    name, attrs = symbol.op.name, symbol.attrs
    if name in ("constant", "weight"):
        value = attrs["value"]
        if value.dtype != symbol.dtype.numpy or value.shape != symbol.shape:
            yield f"it holds {value.dtype} {shape_text(value.shape)}, its type is {symbol.dtype} {shape_text(symbol.shape)}"
        if value.flags.writeable or not value.flags.c_contiguous:
            yield "its array is not a read-only contiguous one"
    elif name == "dim_value" and (symbol.dtype.name != "int64" or symbol.shape != ()):
        yield f"a size is an int64 scalar, not {symbol.dtype} {shape_text(symbol.shape)}"


def _same_shape(lhs: Shape, rhs: Shape, checks: Checks) -> bool:
    return lhs == rhs or (
        len(lhs) == len(rhs) and all(checks.decide(a, b) for a, b in zip(lhs, rhs, strict=True))
    )


def _check_dims(graph: Graph) -> None:
    known = set(graph.dim_names)
    needed = {symbol.id for symbol in graph.outputs}
    for symbol in reversed(graph.symbols):
        if symbol.id in needed:
            needed.update([operand.id for operand in symbol.inputs])
    seen: set[Any] = set()
    for symbol in graph.symbols:
        if symbol.id not in needed:
            continue
        if symbol.shape not in seen:
            seen.add(symbol.shape)
            _require_known(symbol, symbol.shape, known)
        if symbol.attrs:
            _require_known(symbol, _attribute_extents(symbol.attrs), known)


def _require_known(symbol: Symbol, extents: Iterable[Any], known: set[str]) -> None:
    for extent in extents:
        if isinstance(extent, Dim) and not extent.symbols() <= known:
            missing = ", ".join(sorted(extent.symbols() - known))
            raise UserError(
                f"{symbol.op.name}: the dim {missing} appears in the shape of no input, so its size is never known\n"
                f"  {symbol.describe()}\n  expected: dims of the inputs: {', '.join(sorted(known)) or 'none'}\n"
                f"  fix: use a dim of an input's shape, such as x.shape[0], or add the dim to an input's TensorType"
            )


def _attribute_extents(attrs: Mapping[str, Any]) -> Iterator[Any]:
    for value in attrs.values():
        if isinstance(value, Dim):
            yield value
        elif isinstance(value, tuple):
            yield from value
