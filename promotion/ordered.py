"""Decides promotion by an ordered list of rules: the first rule that applies gives the result.

The Triton Semantics page is written as such a list. Its decisions form a table, which need not be a
semilattice; `laws()` shows where it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .dataclass import dataclass
from .dtype import DType
from .errors import UserError

KINDS = {"bool": "bool", "int": "integer", "uint": "integer", "float": "float", "complex": "complex"}


@dataclass(frozen=True, slots=True)
class Step:
    """One rule of the list, by its name: "kind", "width", "supremum" or "unsigned"."""

    rule: str
    order: tuple[str, ...] = ()
    sets: tuple[tuple[frozenset[DType], DType], ...] = ()

    def decide(self, a: DType, b: DType) -> DType | None:
        """Return the result for two different dtypes, or None when the rule does not apply."""
        match self.rule:
            case "kind":
                left, right = (self.order.index(KINDS[d.kind]) for d in (a, b))
                return None if left == right else a if left > right else b
            case "width":
                return None if a.bits == b.bits else a if a.bits > b.bits else b
            case "supremum":
                return next((result for members, result in self.sets if {a, b} <= members), None)
            case _:
                unsigned = [d for d in (a, b) if d.kind == "uint"]
                return unsigned[0] if len(unsigned) == 1 else None

    @property
    def text(self) -> str:
        return {
            "kind": f"the higher kind wins ({' < '.join(self.order)})",
            "width": "the wider of one kind wins",
            "supremum": "different dtypes of one width meet in a third",
            "unsigned": "of one width, the unsigned wins",
        }[self.rule]


def read_steps(data: Sequence[object]) -> tuple[Step, ...]:
    """Return the steps that a data file lists. Raises `UserError` for unknown rules, keys and kinds."""
    steps = []
    for entry in data:
        rule = entry.get("rule") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or rule not in ("kind", "width", "supremum", "unsigned"):
            raise UserError(f"unknown step {entry!r}; known: kind, width, supremum, unsigned")
        unknown = set(entry) - {"rule", {"kind": "order", "supremum": "sets"}.get(rule)}
        if unknown:
            raise UserError(f"rule {rule} has unknown keys: {', '.join(sorted(map(str, unknown)))}")
        order = entry.get("order", ("bool", "integer", "float", "complex"))
        if not isinstance(order, (list, tuple)) or any(kind not in list(KINDS.values()) for kind in order):
            raise UserError(f"rule {rule}: kinds {order!r}; known: bool, integer, float, complex")
        steps.append(Step(rule, tuple(order), _sets(entry.get("sets", ()))))
    return tuple(steps)


def _sets(data: object) -> tuple[tuple[frozenset[DType], DType], ...]:
    sets = []
    for group in data if isinstance(data, (list, tuple)) else [data]:
        if not isinstance(group, Mapping) or set(group) != {"of", "is"} or not isinstance(group["of"], (list, tuple)):
            raise UserError(f"rule supremum: {group!r}; expected 'of', a list of dtypes, and 'is', the dtype they meet in")
        sets.append((frozenset(DType(name) for name in group["of"]), DType(group["is"])))
    return tuple(sets)


def deciding(steps: Sequence[Step], a: DType, b: DType) -> tuple[DType, Step] | None:
    """Return the result for two different dtypes and the step that decides it; None when none applies."""
    for step in steps:
        result = step.decide(a, b)
        if result is not None:
            return result, step
    return None


def table_of(steps: Sequence[Step], dtypes: Sequence[DType]) -> dict[tuple[DType, DType], DType]:
    """Return the join of every pair that the list decides.

    Pairs whose result is not among `dtypes` have none.
    """
    cells = {(dtype, dtype): dtype for dtype in dtypes}
    for a in dtypes:
        for b in dtypes:
            found = None if a is b else deciding(steps, a, b)
            if found is not None and found[0] in dtypes:
                cells[a, b] = found[0]
    return cells
