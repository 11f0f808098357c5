"""Provides `cond`, which runs one of two regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....promotion.dtype import DType, bool_
from ....promotion.errors import UserError
from ....promotion.literals import is_scalar
from ...construction.nesting import under_construction
from ...errors import mistake
from ...graph import graph_of
from ...ops.attributes import Attributes
from ...protocols import TensorLike
from ...region import Region
from ...symbol import Symbol
from ...types import shape_text
from .loops import results_of
from .structures import Structure, same_form, taken_apart


def build_branch(condition: Symbol, then: Region, otherwise: Region) -> Symbol:
    """Add a branch that runs one of two regions. Its results are `results_of` it."""
    regions = (then, otherwise)
    attrs: Attributes = {"captured": tuple([len(region.captured) for region in regions]), "regions": regions}
    operands = (condition, *[symbol for region in regions for symbol in region.captured])
    return condition.graph.apply("branch", operands, attrs)


def cond(
    pred: TensorLike, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Return `true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`; only that one is computed.

    As `jax.lax.cond`. For a choice per element there is `where`.

    Args:
        pred: a bool scalar.
        true_fun, false_fun: functions that return values of the same structure, dtypes and shapes. Nothing is cast: numbers
            take the dtype that the other function returns in their place. They may use symbols of the graph around them.
        operands: what the functions take: symbols, arrays, numbers, or tuples, lists and dicts of them.
    """
    op = "cond"
    for name, function in (("true_fun", true_fun), ("false_fun", false_fun)):
        if not callable(function):
            raise UserError(f"{op}: {name} is a {type(function).__name__}; fix: pass a function")
    given, leaves = taken_apart(operands, "operands", op)
    graph = under_construction(graph_of(op, pred, leaves))
    flag = graph.as_symbol(pred, op)
    if flag.dtype is not bool_ or flag.shape != ():
        raise mistake(
            op, f"pred is {flag.dtype} {shape_text(flag.shape)}", (flag,), "a bool scalar",
            "joinery.where for a choice per element" if flag.shape else "compare it: value != 0",
        )  # fmt: skip
    regions = Region(graph, f"{op} true_fun", is_arm=True), Region(graph, f"{op} false_fun", is_arm=True)
    returned = []
    for region, function in zip(regions, (true_fun, false_fun), strict=True):
        with region.building():
            returned.append(taken_apart(function(*_inside(region, given, leaves, op)), "result", op))
    (form, one), (other_form, other) = returned
    if not same_form(form, other_form):
        raise UserError(
            f"{op}: true_fun returns {', '.join(form.names) or 'nothing'}, "
            f"false_fun {', '.join(other_form.names) or 'nothing'}; fix: return the same structure of tuples, lists and dicts"
        )
    dtypes = [next((each.dtype for each in pair if not is_scalar(each) and hasattr(each, "dtype")), None)
              for pair in zip(one, other, strict=True)]  # fmt: skip
    then, otherwise = [_finished(region, results, dtypes) for region, results in zip(regions, (one, other), strict=True)]
    for name, yes, no in zip(form.names, then, otherwise, strict=True):
        if yes.dtype is not no.dtype:
            raise mistake(op, f"{name} is {yes.dtype} from true_fun and {no.dtype} from false_fun", (yes, no), "equal dtypes",
                          f"cast one of them, .cast({yes.dtype})")  # fmt: skip
        same = [
            any(region.shape_checks.decide(*pair) for region in (graph, *regions))
            for pair in zip(yes.shape, no.shape, strict=False)
        ]
        if len(yes.shape) != len(no.shape) or not all(same):
            raise mistake(
                op, f"{name} has shape {shape_text(yes.shape)} from true_fun and {shape_text(no.shape)} from false_fun",
                (yes, no), "equal shapes", "broadcast_to one of them, or rebind sizes that are always equal",
            )  # fmt: skip
    if not form.names:
        return form.put_together(iter(()))
    for region, results in zip(regions, (then, otherwise), strict=True):
        region.output(*results, names=[f"value{position}" for position in range(len(results))])
    return form.put_together(iter(results_of(build_branch(flag, *regions))))


def _finished(region: Region, results: Sequence[Any], dtypes: Sequence[DType | None]) -> list[Symbol]:
    """Return results as symbols of a region, numbers in the dtypes that are given."""
    return [
        region.scalar(each, dtype) if is_scalar(each) and dtype is not None else region.as_symbol(each, "cond")
        for each, dtype in zip(results, dtypes, strict=True)
    ]


def _inside(region: Region, given: Structure, leaves: Sequence[Any], op: str) -> Any:
    """Return the operands as symbols of a region."""
    return given.put_together(iter([region.as_symbol(leaf, op) for leaf in leaves]))
