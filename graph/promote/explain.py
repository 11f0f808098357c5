"""Answers the question "how did this symbol get its dtype?"."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.casts import loss_class, loss_example
from ...promotion.dtype import DType
from ...promotion.explain import explain as explain_join
from ...promotion.literals import is_numpy_scalar, is_scalar
from ...promotion.rules import RuleSet, dtype_of, element_of
from ..errors import describe
from ..protocols import SymbolLike, WrittenOperand
from ..types import shape_text


def explain(symbol: SymbolLike) -> str:
    """Explain a symbol's dtype in a few lines of text.

    They show the symbol, each operand with its cast, the rule, and the rule set's explanation of the join.
    """
    row = symbol.op
    lines = [
        f"%{symbol.id} = {row.name} is {symbol.dtype} {shape_text(symbol.shape)}",
        f"  at {symbol.location}",
    ]
    if row.kind == "source":
        lines.append(f"  {_source(symbol)}")
        return "\n".join(lines)
    if row.name in ("cast", "bitcast"):
        how = "inserted by promotion" if symbol.graph.is_implicit(symbol) else "written by the user"
        source = symbol.inputs[0]
        lines.append(
            f"  {row.name} {how}: {source.dtype} → {symbol.dtype}{_loss(source.dtype, symbol.dtype, row.name)}"
        )
        lines.append(f"  operand 0: {source.describe()}")
        return "\n".join(lines)
    written = symbol._written
    rule_set = symbol.graph.rules
    for position, (operand, used) in enumerate(zip(written, symbol.inputs, strict=True)):
        lines.append(f"  operand {position}: {_operand(operand, used, rule_set)}")
    lines.append(f"  rule {row.promote.name}: {row.promote.summary}")
    lines += [f"  {line}" for line in _joins(symbol, [rule_set.weakened(operand) for operand in written])]
    return "\n".join(lines)


def _source(symbol: SymbolLike) -> str:
    match symbol.op.name:
        case "input":
            return f"declared by the type of input {symbol.name!r}"
        case "dim_value":
            return "sizes are int64"
        case _:
            return "the dtype of the array or literal it holds"


def _loss(source: DType, target: DType, op: str) -> str:
    if op == "bitcast":
        return ""
    loss = loss_class(source, target)
    return " (exact)" if loss == "exact" else f" ({loss}: {loss_example(source, target)})"


def _operand(operand: WrittenOperand, used: SymbolLike, rule_set: RuleSet) -> str:
    if is_numpy_scalar(operand):
        own = dtype_of(operand)
        if is_scalar(rule_set.weakened(operand)):
            return f"NumPy scalar {own} {operand}, weak like a Python number in {rule_set.name!r}, becomes {used.dtype}"
        change = "not cast" if own is used.dtype else f"cast to {used.dtype}{_loss(own, used.dtype, 'cast')}"
        return f"NumPy scalar {own} {operand}, strong in {rule_set.name!r}; {change}"
    if is_scalar(operand):
        return f"literal {operand!r}, weak, becomes {used.dtype}"
    text = describe(operand)
    if operand is used:
        return f"{text}; not cast"
    return f"{text}; cast to {used.dtype}{_loss(dtype_of(operand), used.dtype, 'cast')}"


def _joins(symbol: SymbolLike, written: Sequence[WrittenOperand]) -> list[str]:
    """Explain the join of the operands' dtypes, folded from the left, in the rule set's words."""
    rule_set = symbol.graph.rules
    dtypes = list(dict.fromkeys([element_of(operand) for operand in written if not is_scalar(operand)]))
    if symbol.op.promote.name == "SELECT":
        dtypes = list(dict.fromkeys([element_of(operand) for operand in written[1:] if not is_scalar(operand)]))
    if symbol.op.promote.name == "SCATTERED":
        dtypes = list(dict.fromkeys([element_of(operand) for operand in (written[0], written[2]) if not is_scalar(operand)]))
    if symbol.op.promote.name in ("SAME", "POSITION", "INDEXED", "EXPLICIT") or len(dtypes) < 2:
        return []
    lines: list[str] = []
    joined = dtypes[0]
    for dtype in dtypes[1:]:
        lines += explain_join(rule_set, joined, dtype, elsewhere=False).splitlines()
        joined = rule_set.join(joined, dtype)
    return lines
