"""Holds the rows that run other graphs: loops, branches, and what they return (docs/design/019-control-flow.md).

The graphs are *regions*, in the attribute `regions`. What a region uses of the graph around it are operands of the row, which
the last inputs of the region stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...promotion.dtype import DType, bool_, int64
from ...promotion.literals import Operand
from ...promotion.result_rules import Promotion, ResultRule
from ...promotion.rules import RuleSet, dtype_of
from ..checks import Checks, ShapeError
from ..dims.dim import Extent
from ..protocols import GraphLike, SymbolLike, SymbolT
from ..types import Shape, shape_text
from .attributes import Attributes
from .opdef import POSITION, VARIADIC, OpDef

Region = GraphLike[SymbolLike]
Type = tuple[DType, Shape]


def _of_region(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    own = tuple([dtype_of(operand) for operand in operands])
    return Promotion(own, dtype or own[0])


OF_REGION = ResultRule("OF_REGION", "the result has the dtype that a region returns", _of_region)


def regions_of(symbol: SymbolLike) -> tuple[Any, ...]:
    """Return the regions of a symbol: () for all that is neither a loop nor a branch."""
    return symbol.attrs.get("regions", ()) if symbol.op.kind in ("control", "host") else ()


def has_control(graph: Region) -> bool:
    """Return whether a graph has loops or branches."""
    return any(symbol.op.kind == "control" for symbol in graph.symbols)


def captures_of(symbol: SymbolT, region: int) -> tuple[SymbolT, ...]:
    """Return the operands that a region of a loop or branch captures."""
    counts = symbol.attrs["captured"]
    end = len(symbol.inputs) - sum(counts[region + 1 :])
    return symbol.inputs[end - counts[region] : end]


def result_types(symbol: SymbolLike) -> list[Type]:
    """Return dtype and shape of everything that a loop or branch returns."""
    outputs = [(output.dtype, output.shape) for output in symbol.attrs["regions"][0].outputs]
    if symbol.op.name == "branch":
        return outputs
    carried, length = symbol.attrs["carried"], symbol.attrs["length"]
    return [*outputs[:carried], *((dtype, (length, *shape)) for dtype, shape in outputs[carried:])]


def _scalar(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return ()


def _given(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return attrs["shape"]


def require_types(what: str, found: Sequence[Type], expected: Sequence[Type], checks: Checks) -> None:
    """Raise `ShapeError` unless values have the expected dtypes and shapes."""
    if len(found) != len(expected):
        raise ShapeError(f"{what}: {len(found)} values", f"{len(expected)} values")
    for position, ((dtype, shape), (wanted, sizes)) in enumerate(zip(found, expected, strict=True)):
        same = len(shape) == len(sizes) and all(checks.decide(*pair) for pair in zip(shape, sizes, strict=True))
        if dtype is not wanted or not same:
            raise ShapeError(
                f"{what}: value {position} is {dtype} {shape_text(shape)}", f"{wanted} {shape_text(sizes)}",
                f"cast it to {wanted}" if dtype is not wanted else "reshape it",
            )  # fmt: skip


def types_of(symbols: Sequence[SymbolLike]) -> list[Type]:
    """Return dtypes and shapes of symbols."""
    return [(symbol.dtype, symbol.shape) for symbol in symbols]


def _check_regions(count: int, attrs: Attributes, checks: Checks) -> None:
    regions = attrs["regions"]
    if len(regions) not in ((1, 2) if count == 1 else (count,)) or len(attrs["captured"]) != len(regions):
        raise ShapeError(f"{len(regions)} regions, {len(attrs['captured'])} counts of captures", f"{count} of each")
    if min(attrs["captured"]) < 0:
        raise ShapeError(f"counts of captures {attrs['captured']}", "0 or more")
    for region in regions:
        for check in region.checks:
            checks.add(*check)


def _loop(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require that the operands of a loop are what its regions take, and that the body returns what it carries."""
    _check_regions(1, attrs, checks)
    regions, carried, sequences = attrs["regions"], attrs["carried"], attrs["sequences"]
    length, limited = attrs["length"], int(attrs["limited"])
    if min(carried, sequences) < 0 or limited + carried + sequences + sum(attrs["captured"]) != len(dtypes):
        raise ShapeError(f"{len(dtypes)} operands, of which {carried} are carried and {sequences} scanned")
    if isinstance(length, int) and length < -1:
        raise ShapeError(f"the loop runs {length} times", "a size, or -1 for no bound")
    if not isinstance(length, int):
        checks.require_at_least(length, 0, "the number of iterations of a loop must not be negative")
    types = list(zip(dtypes, shapes, strict=True))
    if limited and types[0] != (int64, ()):
        raise ShapeError("the number of iterations is no int64 scalar", "an int64 scalar", "cast it to int64")
    state = types[limited : limited + carried]
    slices: list[Type] = []
    for position, (dtype, shape) in enumerate(types[limited + carried : limited + carried + sequences]):
        if not shape or not _is_length(length):
            raise ShapeError(f"sequence {position} is {dtype} {shape_text(shape)}, the loop has no length for it")
        checks.require_equal(shape[0], length, f"the length of sequence {position} and of the loop")
        slices.append((dtype, shape[1:]))
    at = limited + carried + sequences
    for number, region in enumerate(regions):
        captured = types[at : at + attrs["captured"][number]]
        at += attrs["captured"][number]
        own = [(int64, ()), *state, *(slices if number == 0 else ()), *captured]
        require_types("inputs of the body" if number == 0 else "inputs of the condition", types_of(region.inputs), own, checks)
    returned = types_of(regions[0].outputs)
    require_types("what the body returns", returned[:carried], state, checks)
    if len(returned) > carried and not _is_length(length):
        raise ShapeError("the loop has outputs for each iteration, and no length for them")
    if len(regions) == 2:
        require_types("the condition", types_of(regions[1].outputs), [(bool_, ())], checks)


def _is_length(length: Extent) -> bool:
    return not isinstance(length, int) or length >= 0


def _branch(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require a condition, and that both regions return the same types."""
    _check_regions(2, attrs, checks)
    if dtypes[0] is not bool_ or shapes[0] != ():
        raise ShapeError(f"the condition is {dtypes[0]} {shape_text(shapes[0])}", "a bool scalar", "compare it with a number")
    types, at = list(zip(dtypes, shapes, strict=True)), 1
    if 1 + sum(attrs["captured"]) != len(types):
        raise ShapeError(f"{len(types) - 1} operands behind the condition, {sum(attrs['captured'])} captures")
    for count, region in zip(attrs["captured"], attrs["regions"], strict=True):
        require_types("inputs of a region", types_of(region.inputs), types[at : at + count], checks)
        at += count
    then, otherwise = attrs["regions"]
    require_types("what the second region returns", types_of(otherwise.outputs), types_of(then.outputs), checks)


def _row(
    name: str, arity: int, doc: str, rule: ResultRule, shape: Any, attrs: tuple[str, ...], demand: Any = None
) -> OpDef:
    return OpDef(name, "control", arity, doc, rule, shape, attrs=attrs, demand=demand,
                 traits=frozenset(("any_dtype", "internal")))  # fmt: skip


ROWS = (
    _row("loop", VARIADIC, "How often the first region ran: at most `length` times (unless it is -1) and as often as the first "
         "operand says (if `limited`), while the second region, if there is one, returns true.", POSITION, _scalar,
         ("captured", "carried", "length", "limited", "regions", "reverse", "sequences"), _loop),
    _row("branch", VARIADIC, "The number of the region that ran: the first (0) if the condition is true, else the second (1).",
         POSITION, _scalar, ("captured", "regions"), _branch),
    _row("region_result", 1, "What a loop or branch returns: value number `index` of its last iteration, or, behind the values "
         "that it carries, those of all iterations, stacked.", OF_REGION, _given, ("dtype", "index", "shape")),
)  # fmt: skip
