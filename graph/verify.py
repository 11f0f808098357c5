"""Verifies graphs below construction: whatever passes is well formed, whoever built it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Protocol

import numpy as np

from ..promotion.dtype import DType, string, tensor_float32
from ..promotion.errors import InternalError, JoineryError, UnsupportedError, UserError
from .checks import Check, Checks
from .construction.recording import Recording, symbols_in
from .data_sizes import extents_of, needed
from .dims.dim import Dim
from .dims.messages import long_size, unreadable
from .ops.attributes import require_attributes
from .ops.control import regions_of, result_types
from .ops.host import is_host, text_shape
from .ops.host_control import result_problem
from .ops.opdef import VARIADIC
from .ops.table import OPS
from .protocols import SymbolLike
from .reference.budget import Budget, require_addressable
from .types import Shape, shape_text


class Verified(Recording, Protocol):
    """A graph with its standing checks and its budget."""

    @property
    def standing(self) -> tuple[Check, ...]: ...

    @property
    def budget(self) -> Budget | None: ...


def verify(graph: Verified) -> tuple[Check, ...]:
    """Check the whole graph, and return what has to hold at launch.

    That is what the user stated in calls whose results the outputs need, and whatever else the ops that the
    outputs need demand: it is derived from their operands and attributes here, not taken from whoever wrote
    the graph.

    Raises `UserError` when it uses dims that no input has, which only the end of construction shows, and
    `InternalError` when symbols contradict the op table.
    """
    found: list[Check] = []
    for problem in problems(graph, found):
        raise InternalError(f"graph {graph.name!r}: {problem}")
    return tuple(found)


def limits(graph: Verified) -> tuple[Check, ...]:
    """Return the checks that a run stays within the graph's budget. Raises `UserError` when it never does."""
    if graph.budget is None:
        return ()
    live = needed_symbols(graph)
    return graph.budget.checks([symbol for symbol in graph.symbols if symbol.id in live])


def problems(graph: Verified, found: list[Check] | None = None) -> Iterator[str]:
    """Yield what is wrong with the graph's symbols, one line each, in order.

    The checks that it needs are added to `found`.
    """
    live = needed_symbols(graph)
    is_final = graph.shape_checks.is_final
    wanted = Checks(_stated(graph, live), names=False, is_final=is_final)
    unused = Checks(graph.shape_checks.entries, names=False, is_final=is_final)
    approved: set[Hashable] = set()  # combinations of op and dtypes that were found correct
    for position, symbol in enumerate(graph.symbols):
        where = f"%{position} {symbol.op.name}"
        if symbol.id != position or symbol.graph is not graph:
            yield f"{where}: it says it is %{symbol.id} of graph {symbol.graph.name!r}"
            continue
        if OPS.get(symbol.op.name) is not symbol.op:
            yield f"{where}: its op is not in the table"
            continue
        for problem in _symbol_problems(symbol, wanted if position in live else unused, approved):
            yield f"{where}: {problem}"
    for position, symbol in enumerate(graph.inputs):
        if symbol.op.name != "input" or symbol.attrs.get("index") != position:
            yield f"input {position} is %{symbol.id} {symbol.op.name}"
    if len({symbol.attrs.get("name") for symbol in graph.inputs}) < len(graph.inputs):
        yield "two inputs have the same name"
    for symbol in graph.outputs:
        if symbol.graph is not graph:
            yield f"output %{symbol.id} belongs to graph {symbol.graph.name!r}"
    for entry in graph.casts():
        if entry.symbol.graph is graph and entry.symbol.op.name != "cast":
            yield f"the ledger lists %{entry.symbol.id}, a {entry.symbol.op.name}"
    _require_readable(graph.symbols, wanted)
    used = [symbol for symbol in graph.symbols if symbol.id in live]
    if graph.outputs:
        for symbol in used:
            require_addressable(symbol)
        _check_dims(graph, used, wanted)
    if found is not None:
        found += wanted.entries


def needed_symbols(graph: Verified) -> set[int]:
    """Return the ids of what the outputs need, and of all inputs.

    Of all symbols while there are no outputs.
    """
    if not graph.outputs:
        return set(range(len(graph.symbols)))
    return needed(graph.symbols, (*graph.outputs, *graph.inputs))


def _stated(graph: Verified, live: set[int]) -> list[Check]:
    """Return the checks that hold for the whole graph, and those of calls whose results the outputs need."""
    stated = list(graph.standing)
    for call in graph.journal.calls:
        if call.checks and any(symbol.id in live for symbol in symbols_in(call.result)):
            stated += call.checks
    return stated


def _symbol_problems(symbol: SymbolLike, checks: Checks, approved: set[Hashable]) -> Iterator[str]:
    row = symbol.op
    for operand in symbol.inputs:
        if operand.graph is not symbol.graph or not 0 <= operand.id < symbol.id:
            yield f"operand %{operand.id} does not come before it"
            return
    count = len(symbol.inputs)
    if count != row.arity and not (row.arity == VARIADIC and count):
        yield f"{count} operands, the op has {row.arity}"
        return
    try:
        require_attributes(row.attrs, symbol.attrs)
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
        if row.kind == "map" and not row.attrs and all(
            operand.shape is symbol.shape or not operand.shape for operand in symbol.inputs
        ):
            if symbol.shape and all(not operand.shape for operand in symbol.inputs):
                yield f"its shape is {shape_text(symbol.shape)}, its operands are scalars"
            return
        shape = row.infer(dtypes, [operand.shape for operand in symbol.inputs], symbol.attrs, checks)
        if row.name == "host_result" and (problem := result_problem(symbol)):
            yield problem
        if row.kind == "control" or regions_of(symbol):
            yield from _control_problems(symbol)
    except UnsupportedError:
        raise
    except JoineryError as error:
        yield str(error)
        return
    if not _same_shape(shape, symbol.shape, checks):
        yield f"its shape is {shape_text(symbol.shape)}, the op gives {shape_text(shape)}"


def _control_problems(symbol: SymbolLike) -> Iterator[str]:
    """Yield what is wrong with a result of a loop or branch, or with the regions that one has. (Regions verify themselves.)"""
    if symbol.op.name == "region_result":
        (source,) = symbol.inputs
        types = result_types(source) if regions_of(source) else []
        index = symbol.attrs["index"]
        if not 0 <= index < len(types):
            yield f"value {index} of {source.op.name}, which returns {len(types)}"
        elif types[index] != (symbol.dtype, symbol.shape):
            yield f"it is {symbol.dtype} {shape_text(symbol.shape)}, the region returns {types[index][0]} {types[index][1]}"
    on_host = symbol.op.kind == "host"
    for region in regions_of(symbol):
        for inner in region.symbols:
            value = inner.attrs.get("value") if inner.op.name == "constant" else None
            if inner.op.name in ("weight", "text_constant")[: 2 - on_host] or (value is not None and value.size != 1):
                yield f"its region holds {inner.op.name} %{inner.id}; only single numbers are not captured"
            if not on_host and is_host([operand.dtype for operand in inner.inputs], inner.op.kind, inner.dtype):
                raise UnsupportedError(
                    f"{inner.op.name} runs on the host, which is not supported inside of a {symbol.op.name}\n"
                    f"  {inner.describe()}\n  fix: compute it before or after the {symbol.op.name}"
                )


def _dtype_problem(symbol: SymbolLike, dtypes: tuple[DType, ...]) -> str:
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


def _source_problems(symbol: SymbolLike) -> Iterator[str]:
    name, attrs = symbol.op.name, symbol.attrs
    if name in ("constant", "weight"):
        value = attrs["value"]
        if not isinstance(value, np.ndarray):
            yield f"it holds {value!r:.60}, which is no array"
        elif value.dtype != symbol.dtype.numpy or value.shape != symbol.shape:
            yield f"it holds {value.dtype} {shape_text(value.shape)}, its type is {symbol.dtype} {shape_text(symbol.shape)}"
        elif value.flags.writeable or not value.flags.c_contiguous:
            yield "its array is not a read-only contiguous one"
        elif symbol.dtype.is_bool and value.view(np.uint8).max(initial=0) > 1:
            yield "some bytes of its bools are neither 0 nor 1"
        elif symbol.dtype is tensor_float32 and np.any(value.view(np.uint32) & np.uint32(0x1FFF)):
            yield "some values have more than the 10 mantissa bits of tensor_float32"
    elif name == "text_constant":
        shape = text_shape(symbol.attrs)
        if symbol.dtype is not string or symbol.shape != shape:
            yield f"it holds strings {shape_text(shape)}, its type is {symbol.dtype} {shape_text(symbol.shape)}"
    elif name == "dim_value" and (symbol.dtype.name != "int64" or symbol.shape != ()):
        yield f"a size is an int64 scalar, not {symbol.dtype} {shape_text(symbol.shape)}"


def _same_shape(lhs: Shape, rhs: Shape, checks: Checks) -> bool:
    return lhs == rhs or (
        len(lhs) == len(rhs) and all(checks.decide(a, b) for a, b in zip(lhs, rhs, strict=True))
    )


def _check_dims(graph: Verified, symbols: Iterable[SymbolLike], checks: Checks) -> None:
    known = {*graph.dim_names, *graph.outer_dims}
    seen: set[Hashable] = set()
    for symbol in symbols:
        if symbol.op.kind == "host":
            known |= {extent.name or "" for extent in symbol.attrs.get("extents", ())}
        if symbol.shape not in seen:
            seen.add(symbol.shape)
            _require_known(symbol.op.name, symbol.describe(), symbol.shape, known)
        if symbol.attrs:
            _require_known(symbol.op.name, symbol.describe(), extents_of(symbol), known)
    for check in checks.entries:
        _require_known("check", check.message, check[:2], known)


def _require_readable(symbols: Iterable[SymbolLike], checks: Checks) -> None:
    """Require sizes whose text can be read back: whoever saves the graph would learn too late that it cannot be loaded."""
    seen: set[Hashable] = set()
    for symbol in symbols:
        if symbol.shape not in seen or symbol.attrs:
            seen.add(symbol.shape)
            for extent in extents_of(symbol):
                if isinstance(extent, Dim) and (problem := unreadable(str(extent))):
                    raise long_size(f"{symbol.op.name}: {problem}", extent.symbols(), symbol.describe())
    for check in checks.entries:
        for extent in check[:2]:
            if isinstance(extent, Dim) and (problem := unreadable(str(extent))):
                raise long_size(f"check: {problem}", extent.symbols(), check.message[:200])


def _require_known(op: str, what: str, extents: Iterable[object], known: set[str]) -> None:
    for extent in extents:
        if isinstance(extent, Dim) and not extent.symbols() <= known:
            missing = ", ".join(sorted(extent.symbols() - known))
            raise UserError(
                f"{op}: the dim {missing} appears in the shape of no input, so its size is never known\n"
                f"  {what}\n  expected: dims of the inputs: {', '.join(sorted(known)) or 'none'}\n"
                f"  fix: use a dim of an input's shape, such as x.shape[0], or add the dim to an input's TensorType"
            )
