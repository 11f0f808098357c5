"""Holds the rows of loops and branches that the host drives (docs/design/019-control-flow.md, "Loops of the host").

What a compiled loop carries has one type. The host calls the body of its loops as a model of its own, so sizes may change from
one iteration to the next: a body has names for them, which no graph around it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dtype import DType, bool_, int64
from ...promotion.result_rules import ResultRule
from ..checks import Checks, ShapeError
from ..dims.dim import Dim, Extent
from ..protocols import SymbolLike
from ..types import Shape, shape_text
from .attributes import Attributes
from .control import OF_REGION, Region, Type, require_types, types_of
from .opdef import POSITION, VARIADIC, Demand, OpDef


def _scalar(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return ()


def _given(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return attrs["shape"]


def _fits(given: Type, taken: Type, own: frozenset[str], checks: Checks) -> bool:
    """Return whether a value can be what a region takes: sizes of the region's own are those of the value."""
    if given[0] is not taken[0] or len(given[1]) != len(taken[1]):
        return False
    return all(is_own(size, own) or checks.decide(extent, size) for extent, size in zip(given[1], taken[1], strict=True))


def is_own(size: Extent, own: frozenset[str]) -> bool:
    """Return whether a size is one of the names that a region gives to the sizes of what it takes."""
    return isinstance(size, Dim) and size.name in own


def _require(what: str, given: Sequence[Type], taken: Sequence[Type], own: frozenset[str], checks: Checks) -> None:
    if len(given) != len(taken):
        raise ShapeError(f"{what}: {len(given)} values", f"{len(taken)} values")
    for position, (value, wanted) in enumerate(zip(given, taken, strict=True)):
        if not _fits(value, wanted, own, checks):
            found, expected = (f"{dtype} {shape_text(shape)}" for dtype, shape in (value, wanted))
            raise ShapeError(f"{what}: value {position} is {found}", expected)


def _regions(attrs: Attributes, count: int) -> tuple[Region, ...]:
    regions: tuple[Region, ...] = attrs["regions"]
    if len(regions) != count or len(attrs["captured"]) != count or min(attrs["captured"]) < 0:
        raise ShapeError(f"{len(regions)} regions, counts of captures {attrs['captured']}", f"{count} of each")
    return regions


def _loop(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require that the operands of a loop, and what its body returns, are what the body takes."""
    (region,) = _regions(attrs, 1)
    carried, limited = attrs["carried"], int(attrs["limited"])
    if carried < 1 or limited + carried + attrs["captured"][0] != len(dtypes):
        raise ShapeError(f"{len(dtypes)} operands, of which {carried} are carried")
    types = list(zip(dtypes, shapes, strict=True))
    if limited and types[0] != (int64, ()):
        raise ShapeError("the number of iterations is no int64 scalar", "an int64 scalar", "cast it to int64")
    if types[limited] != (bool_, ()):
        raise ShapeError("the first value says whether to go on, and is no bool scalar", "a bool scalar")
    inputs, own = types_of(region.inputs), region.own_dims
    _require("what the loop takes", [(int64, ()), *types[limited:]], inputs, own, checks)
    returned = types_of(region.outputs)
    _require("what the body returns", returned[:carried], inputs[1 : 1 + carried], own, checks)


def _branch(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require a condition, that regions get what they take, and that both return as many values, of equal dtypes and ranks."""
    regions = _regions(attrs, 2)
    types = list(zip(dtypes, shapes, strict=True))
    if types[0] != (bool_, ()):
        raise ShapeError("the condition is no bool scalar", "a bool scalar", "compare it with a number")
    if 1 + sum(attrs["captured"]) != len(types):
        raise ShapeError(f"{len(types) - 1} operands behind the condition, {sum(attrs['captured'])} captures")
    at = 1
    for count, region in zip(attrs["captured"], regions, strict=True):
        require_types("inputs of a region", types_of(region.inputs), types[at : at + count], checks)
        at += count
    one, other = ([(dtype, len(shape)) for dtype, shape in types_of(region.outputs)] for region in regions)
    if one != other:
        raise ShapeError(f"the regions return {one} and {other}, dtypes and numbers of axes", "the same from both")


def result_problem(symbol: SymbolLike) -> str:
    """Return what is wrong with a result of a loop or branch of the host; "" if nothing is."""
    (source,) = symbol.inputs
    attrs, index = source.attrs, symbol.attrs["index"]
    if source.op.name not in ("host_loop", "host_branch"):
        return f"a result of {source.op.name}"
    outputs = types_of(attrs["regions"][0].outputs)
    if not 0 <= index < len(outputs):
        return f"value {index} of {source.op.name}, which returns {len(outputs)}"
    dtype, shape = outputs[index]
    is_stacked = source.op.name == "host_loop" and index >= attrs["carried"]
    if symbol.dtype is not dtype or len(symbol.shape) != len(shape) + is_stacked:
        return f"it is {symbol.dtype} {shape_text(symbol.shape)}, the region returns {dtype} {shape_text(shape)}"
    return ""


def _row(name: str, arity: int, doc: str, rule: ResultRule, attrs: tuple[str, ...], demand: Demand | None = None) -> OpDef:
    return OpDef(name, "host", arity, doc, rule, _given if name == "host_result" else _scalar, attrs=attrs,
                 demand=demand, traits=frozenset(("any_dtype", "internal")))  # fmt: skip


ROWS = (
    _row("host_loop", VARIADIC, "How often the region ran, which the host calls at most as often as the first operand says (if "
         "`limited`), while the first value that it carries is true. Sizes of what it carries may change.", POSITION,
         ("captured", "carried", "limited", "regions"), _loop),
    _row("host_branch", VARIADIC, "The number of the region that the host called: the first (0) if the condition is true, else "
         "the second (1). Sizes of what they return may differ.", POSITION, ("captured", "regions"), _branch),
    _row("host_result", 1, "What a loop or branch of the host returns: value number `index` of its last iteration, or, behind "
         "the values that it carries, those of all iterations, stacked.", OF_REGION,
         ("dtype", "extents", "index", "shape")),
)  # fmt: skip
