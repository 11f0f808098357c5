"""Explains joins as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from .casts import loss_class, loss_example
from .dtype import DType
from .errors import UserError
from .joins import Joins

_presets: list[Callable[[], Sequence[Joins]]] = []


def compare_with(presets: Callable[[], Sequence[Joins]]) -> None:
    """Set the function that returns the presets whose answers explanations show.

    `presets.py` calls this, because presets are rule sets, which import this module.
    """
    _presets[:] = [presets]


def explain(rule_set: Joins, a: DType, b: DType, elsewhere: bool = True) -> str:
    """Explain the join of two dtypes as lines of text.

    The lines give the result, the rule that decided (for an ordered list of rules), each operand's path with
    what its cast can lose and, with `elsewhere`, the answers of the other presets. A missing join is
    explained, too.
    """
    try:
        result = rule_set.join(a, b)
    except UserError:
        lines = [rule_set.refusal(a, b)]
    else:
        lines = [f"{a} ∨ {b} = {result}   (rule set {rule_set.name})", *_reasons(rule_set, a, b, result)]
        for operand in (a,) if a is b else (a, b):
            lines += _operand(rule_set, operand, result)
    if elsewhere:
        lines += _elsewhere(rule_set, a, b)
    return "\n".join(lines)


def _reasons(rule_set: Joins, a: DType, b: DType, result: DType) -> list[str]:
    lines = []
    step = rule_set.step(a, b)
    if step is not None:
        lines.append(f"  rule {step.rule}: {step.text}")
    bounds = rule_set.bounds(a, b)
    if bounds:
        listed = ", ".join(d.name for d in bounds)
        lines.append(f"  {listed} hold every value of both; {result} unless a third operand decides")
    for erratum in rule_set.errata():
        if (erratum.lhs, erratum.rhs) in ((a, b), (b, a)):
            lines.append(
                f"  the published table contradicts itself: {erratum.lhs} with {erratum.rhs} is {erratum.printed}, "
                f"{erratum.rhs} with {erratum.lhs} is {erratum.mirrored}; its prose means {erratum.reading}"
            )
    if result.is_weak:
        lines.append(f"  {result} gives way to any {result.kind} dtype; a value that ends in it is {rule_set.concrete(result)}")
    return lines


def _operand(rule_set: Joins, operand: DType, result: DType) -> list[str]:
    if operand is result:
        return [f"  {operand}: unchanged"]
    target = rule_set.concrete(result)
    if operand.is_weak or target.is_abstract:
        return [f"  {operand}: becomes {target}"]
    loss = loss_class(operand, target)
    verdict = "exact" if loss == "exact" else f"{loss}: {loss_example(operand, target)}"
    line = f"  {operand}: cast to {target}, {verdict}"
    lattice = rule_set.lattice
    if lattice is None or result not in lattice or not lattice.leq(operand, result):
        return [line]
    path = [e for e in lattice.path(operand, result) if not e.is_abstract or e.is_weak]
    if len(path) <= 2:
        return [line]
    return [line, f"    path: {path_text(rule_set, path)}; the cast is one step, not along the path"]


def path_text(rule_set: Joins, path: list[DType]) -> str:
    """Return a lattice path as text; lossy steps carry a loss class: "int32 → int64 → float16 (overflow)"."""
    parts = [str(path[0])]
    for smaller, larger in pairwise(path):
        small, large = rule_set.concrete(smaller), rule_set.concrete(larger)
        loss = "exact" if smaller.is_weak else loss_class(small, large)
        parts.append(str(larger) if loss == "exact" else f"{larger} ({loss})")
    return " → ".join(parts)


def answers(a: DType, b: DType) -> dict[str, DType | None]:
    """Return the join in every preset, by the preset's name; None where it has no join."""
    found: dict[str, DType | None] = {}
    for rule_set in _presets[0]() if _presets else ():
        try:
            found[rule_set.name] = rule_set.join(a, b)
        except UserError:
            found[rule_set.name] = None
    return found


def _elsewhere(rule_set: Joins, a: DType, b: DType) -> list[str]:
    grouped: dict[str, list[str]] = {}
    for name, result in answers(a, b).items():
        if name != rule_set.name:
            grouped.setdefault(result.name if result is not None else "no join", []).append(name)
    listed = [f"{result} in {', '.join(who)}" for result, who in grouped.items()]
    return [f"  elsewhere: {'; '.join(listed)}"]
