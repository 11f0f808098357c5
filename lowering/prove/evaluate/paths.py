"""Has the rules of the values of branches."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from ...tt.analysis.control_flow import terminator
from ..terms.formulas import FALSE, TRUE, Formula, both, either, negated
from .evaluator import Evaluator, Lanes
from .values import Condition, Integer, Pointer, Unknown, Value, integer


def if_result(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what one of two branches yields."""
    assert isinstance(ssa, OpResult)
    op = ssa.op
    if any(len(region.blocks) != 1 for region in op.regions):
        return None
    condition = ev.condition(op.operands[0], ()).formula
    contexts = ev.under(condition), ev.under(negated(condition))
    yes, no = [
        own.value(terminator(region.block).operands[ssa.index], lanes)
        for own, region in zip(contexts, op.regions, strict=True)
    ]  # fmt: skip
    return chosen(ev, condition, yes, no)


def chosen(ev: Evaluator, condition: Formula, yes: Value, no: Value) -> Value | None:
    """Returns one of two values, by a condition."""
    match yes, no:
        case Integer(), Integer():
            return integer(ev.terms.chosen(condition, yes.value, no.value), yes.width)
        case Condition(), Condition():
            return Condition(either(both(condition, yes.formula), both(negated(condition), no.formula)))
        case Pointer(), Pointer() if yes.base == no.base:
            return Pointer(yes.base, ev.terms.chosen(condition, yes.offset, no.offset))
        case Pointer(), Pointer() if condition not in (TRUE, FALSE):
            return Unknown("a pointer into one of several arrays")
    if condition == TRUE:
        return yes
    if condition == FALSE:
        return no
    return yes if isinstance(yes, Unknown) else no if isinstance(no, Unknown) else None


__all__ = ["chosen", "if_result"]
