"""Implements the promotion commands of `joinery`: promote, table, diff and rules."""

from __future__ import annotations

import argparse
import cmath
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...promotion import (
    ABSTRACT,
    DTYPES,
    PRESETS,
    Difference,
    DType,
    RuleSet,
    UserError,
    check_literal,
    is_scalar,
    loss_class,
    loss_example,
    rules,
)
from ...promotion.explain import path_text
from ...promotion.presets import names
from .text import WIDTH, aligned, table_width, wrapped

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
Operand = Any
"""A DType, or a Python number or bool."""

_FORMATS: dict[str, Callable[[RuleSet], str]] = {
    "md": lambda rule_set: rule_set.table().to_markdown(),
    "csv": lambda rule_set: rule_set.table().to_csv().removesuffix("\n"),
    "html": lambda rule_set: rule_set.table().to_html(),
    "text": lambda rule_set: rule_set.table().to_text(WIDTH),
    "svg": RuleSet.hasse_svg,
    "dot": RuleSet.hasse_dot,
}


def add_commands(add: Add) -> None:
    """Declare the commands; `add` makes the parser of one from its name, function and description."""
    promote = add("promote", _promote, "show the dtype that operands meet in, and what their casts lose")
    promote.add_argument("first", metavar="A", help="a dtype name or a number")
    promote.add_argument("others", metavar="B", nargs="+", help="more of them; after -- all may start with -")
    _add_rules(promote)
    detail = promote.add_mutually_exclusive_group()
    detail.add_argument("--all", action="store_true", help="what every preset answers, side by side")
    detail.add_argument("--explain", action="store_true", help="why: rules, paths, what other presets answer")

    table = add("table", _table, "print the promotion table of a rule set, or its lattice")
    _add_rules(table)
    shown = table.add_mutually_exclusive_group()
    shown.add_argument(
        "--format", default="md", choices=tuple(_FORMATS),
        help="the table as Markdown, CSV, HTML or text; the lattice as an SVG picture or Graphviz text (default: md)",
    )  # fmt: skip
    shown.add_argument("--laws", action="store_true", help="instead: which laws hold, with counterexamples")

    diff = add("diff", _diff, "show where two rule sets answer differently")
    diff.add_argument("first", metavar="A", help="a rule set: a name, or a .json or .toml file")
    diff.add_argument("second", metavar="B", help="another one")

    add("rules", _rules, "list the rule sets")


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules", default="max", metavar="RULES", help="a name, or a .json or .toml file (default: max)"
    )


def _rule_set(name: str) -> RuleSet:
    return RuleSet.load(name) if name.lower().endswith((".json", ".toml")) else rules(name)


# --- promote


def _operand(text: str, rule_set: RuleSet) -> Operand:
    """Return the dtype or number that an argument of the command line names.

    Raises `UserError` with the valid names.
    """
    if text in ("True", "False"):
        return text == "True"
    for convert in (int, float, complex):
        try:
            number = convert(text)
        except ValueError:
            continue
        if not isinstance(number, int) and cmath.isinf(number) and any(map(str.isdigit, text)):
            raise UserError(f"{text} is beyond what a Python float holds; fix: write inf, or a smaller number")
        return number
    try:
        found = DType(text)
        if found.name in DTYPES or found in ABSTRACT:
            return found
        raise UserError(f"unknown dtype {text!r}")
    except UserError as error:
        listed = ", ".join(dtype.name for dtype in rule_set.dtypes)
        raise UserError(f"{error}\nvalid names: {listed}; or a number") from None


def _promote(options: argparse.Namespace) -> int:
    rule_set = _rule_set(options.rules)
    texts = [options.first, *options.others]
    operands = [_operand(text, rule_set) for text in texts]
    if options.all:
        print(_side_by_side(rule_set, texts, operands))
        return 0
    try:
        lines = _answer(rule_set, texts, operands, options.explain)
    except UserError as error:
        if not options.explain:
            raise
        raise UserError(f"{error}\n{_elsewhere(rule_set, operands)}") from None
    print(wrapped("\n".join(lines)))
    return 0


def _answer(rule_set: RuleSet, texts: Sequence[str], operands: Sequence[Operand], explain: bool) -> list[str]:
    element = rule_set.join_operands(operands)
    rule_set.promote(*operands)  # literals must fit as well
    if explain and len(operands) == 2 and not any(map(is_scalar, operands)):
        return rule_set.explain(*operands).splitlines()
    lines = [f"{' ∨ '.join(texts)} = {element}   (rule set {rule_set.name})"]
    if explain:
        lines += _steps(rule_set, operands)
    if element.is_weak:
        lines.append(
            f"  {element} gives way to any {element.kind} dtype; a value that ends in it is {rule_set.concrete(element)}"
        )
    for operand_text, operand in dict(zip(texts, operands, strict=True)).items():
        lines.append(f"  {operand_text}: {_cast(rule_set, operand, element)}")
        if explain and not is_scalar(operand):
            lines += _path(rule_set, operand, element)
    return [*lines, _elsewhere(rule_set, operands)] if explain else lines


def _cast(rule_set: RuleSet, operand: Operand, element: DType) -> str:
    """Describe what happens to one operand on its way to the result, with an example of what it can lose."""
    target = rule_set.concrete(element)
    loss = _loss(rule_set, operand, element)
    if loss == "unchanged":
        return loss
    if is_scalar(operand):
        return f"written as {target}" if loss == "exact" else f"written as {target}, rounded"
    if operand.is_weak or target.is_abstract:
        return f"becomes {target}"
    return f"cast to {target}, {loss}" + ("" if loss == "exact" else f": {loss_example(operand, target)}")


def _loss(rule_set: RuleSet, operand: Operand, element: DType) -> str:
    """Return a loss class, or "unchanged". Weak elements and literals lose nothing but digits of literals."""
    target = rule_set.concrete(element)
    if is_scalar(operand):
        return check_literal(operand, target)
    if operand in (element, target):
        return "unchanged"
    return "exact" if operand.is_weak or target.is_abstract else loss_class(operand, target)


def _steps(rule_set: RuleSet, operands: Sequence[Operand]) -> list[str]:
    """Show the joins from the left where their order may matter: in rule sets that are no lattice."""
    tensors = [operand for operand in operands if not is_scalar(operand)]
    if rule_set.lattice is not None or len(tensors) < 3:
        return []
    results = [rule_set.join_all(tensors[: count + 1]) for count in range(1, len(tensors))]
    joins = " ".join(f"∨ {right} = {result}" for right, result in zip(tensors[1:], results, strict=True))
    return [f"  from the left: {tensors[0]} {joins}"]


def _path(rule_set: RuleSet, operand: DType, element: DType) -> list[str]:
    lattice = rule_set.lattice
    if lattice is None or element not in lattice or operand not in lattice or not lattice.leq(operand, element):
        return []
    path = [e for e in lattice.path(operand, element) if not e.is_abstract or e.is_weak]
    return [f"    path: {path_text(rule_set, path)}; the cast is one step"] if len(path) > 2 else []


def _result(rule_set: RuleSet, operands: Sequence[Operand]) -> tuple[str, DType | None]:
    """Return what one rule set answers, as text, and the element if there is one and literals fit."""
    try:
        element = rule_set.join_operands(operands)
    except UserError:
        return "no join", None
    try:
        rule_set.promote(*operands)
    except UserError:
        return f"does not fit {rule_set.concrete(element)}", None
    return element.name, element


def _others(rule_set: RuleSet) -> list[RuleSet]:
    return [other for name in names() if (other := rules(name)) != rule_set]


def _elsewhere(rule_set: RuleSet, operands: Sequence[Operand]) -> str:
    grouped: dict[str, list[str]] = {}
    for other in _others(rule_set):
        grouped.setdefault(_result(other, operands)[0], []).append(other.name)
    return "  elsewhere: " + "; ".join(f"{result} in {', '.join(who)}" for result, who in grouped.items())


def _side_by_side(rule_set: RuleSet, texts: Sequence[str], operands: Sequence[Operand]) -> str:
    """Return one line per rule set: its answer, and what the cast of each operand loses.

    If the operands are too many for a column each, they share one.
    """
    own = [rule_set] if rule_set.name not in names() or rules(rule_set.name) != rule_set else []
    shown = dict(zip(texts, operands, strict=True))
    rows, short = [["rules", "result", *shown]], [["rules", "result", "casts that lose"]]
    for each in [*own, *map(rules, names())]:
        text, element = _result(each, operands)
        losses = {} if element is None else {operand_text: _loss(each, one, element) for operand_text, one in shown.items()}
        rows.append([each.name, text, *(losses.get(operand_text, "–") for operand_text in shown)])
        lossy = [f"{operand_text} {loss}" for operand_text, loss in losses.items() if loss not in ("exact", "unchanged")]
        short.append([each.name, text, "–" if element is None else ", ".join(lossy) or "none"])
    return aligned(rows if table_width(rows) <= WIDTH else short)


# --- table, diff, rules


def _table(options: argparse.Namespace) -> int:
    rule_set = _rule_set(options.rules)
    if options.laws:
        kind = "a lattice" if rule_set.lattice is not None else "no lattice"
        print(wrapped(f"rule set {rule_set.name}: {kind}\n{rule_set.laws()}"))
        return 0
    if options.format in ("svg", "dot") and rule_set.lattice is None:
        raise UserError(
            f"rule set {rule_set.name} is no lattice, so there is no diagram of it; fix: --format md, csv, html or text, "
            "its table; --laws says why"
        )
    print(_FORMATS[options.format](rule_set))
    return 0


def _diff(options: argparse.Namespace) -> int:
    ours, theirs = _rule_set(options.first), _rule_set(options.second)
    shared = [dtype for dtype in ours.dtypes if dtype in theirs.dtypes]
    found = ours.diff(theirs)
    pairs = {frozenset((each.lhs, each.rhs)) for each in found}
    total = len(shared) * (len(shared) + 1) // 2
    count = f"of the {total} pairs of the {len(shared)} dtypes that both have"
    lines = [f"{ours.name} and {theirs.name}: {len(pairs)} {count} differ"]
    if not shared:
        lines = [f"{ours.name} and {theirs.name} have no dtype in common"]
    elif not found:
        lines = [f"{ours.name} and {theirs.name} are identical: all {total} pairs of {len(shared)} dtypes agree"]
        if ours.dtypes != theirs.dtypes:
            lines = [f"{ours.name} and {theirs.name}: none {count} differs"]
        elif ours.hash != theirs.hash:
            lines.append("what numbers, division or operations like sums and means give differs")
    print(wrapped("\n".join([*lines, *_difference_lines(ours, theirs, found)])))
    for one, other in ((ours, theirs), (theirs, ours)):
        only = [dtype.name for dtype in one.dtypes if dtype not in other.dtypes]
        if only:
            print(wrapped(f"only in {one.name}: {', '.join(only)}"))
    return 0


def _difference_lines(ours: RuleSet, theirs: RuleSet, found: Sequence[Difference]) -> list[str]:
    """List the differences under a heading per pair of answers.

    Pairs that differ alike in both orders stand once.
    """
    grouped: dict[tuple[str, str], set[tuple[DType, DType]]] = {}
    for each in found:
        answers = tuple(d.name if d is not None else "no join" for d in (each.ours, each.theirs))
        grouped.setdefault((answers[0], answers[1]), set()).add((each.lhs, each.rhs))
    lines = []
    for (one, other), pairs in sorted(grouped.items(), key=lambda item: -len(item[1])):
        both = {pair for pair in pairs if pair[::-1] in pairs}
        lines.append(f"{one} in {ours.name}, {other} in {theirs.name}:")
        lines += [f"  {left} with {right}" for left, right in _bundles(both, ours.dtypes, symmetric=True)]
        lines += [
            f"  {left} on the left, {right} on the right"
            for left, right in _bundles(pairs - both, ours.dtypes, symmetric=False)
        ]
    return lines


def _bundles(
    pairs: Iterable[tuple[DType, DType]], order: Sequence[DType], symmetric: bool
) -> list[tuple[str, str]]:
    """Group pairs into few (names, names), each of the first with each of the second; largest first."""
    left, fans = set(pairs), []
    while left:
        partners = {a: [b for b in order if (a, b) in left] for a in order}
        hub = max(order, key=lambda a: len(partners[a]))
        fans.append((hub, tuple(partners[hub])))
        left -= {(hub, b) for b in partners[hub]}
        if symmetric:
            left -= {(b, hub) for b in partners[hub]}
    bundles: dict[tuple[DType, ...], list[DType]] = {}
    for hub, around in fans:
        bundles.setdefault(around, []).append(hub)
    return [(", ".join(d.name for d in hubs), ", ".join(d.name for d in around)) for around, hubs in bundles.items()]


def _rules(_: argparse.Namespace) -> int:
    rows = [["rules", "dtypes", "lattice", "what it is"]]
    for name in names():
        rule_set = rules(name)
        kind = "no" if rule_set.lattice is None else "completed" if rule_set.definition.order else "yes"
        text = rule_set.description if name in PRESETS else f"registered; {rule_set.description}"
        rows.append([name, str(len(rule_set.dtypes)), kind, text])
    print(aligned(rows))
    return 0
