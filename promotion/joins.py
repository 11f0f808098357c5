"""Computes the joins of a rule set: the part of `RuleSet` that diagrams and explanations use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from .casts import loss_class
from .definition import Cells, Definition, Division, Erratum, NumpyScalars, names_of
from .dtype import DTYPES, DType
from .errors import UserError
from .lattices.completion import complete
from .lattices.lattice import Lattice
from .literals import LiteralRules
from .ordered import Step, deciding, table_of

_DECIDING = ("literals", "weak", "division", "zero_dim", "numpy_scalars", "inexact", "quotient", "mean", "accumulate")
_WIDE = DType("wide_int")


class Joins:
    """The joins of a rule set, immutable.

    This is the base class of `RuleSet`, which documents the attributes.
    """

    __slots__ = (
        "_elements", "_hidden", "_joins", "_raw", "definition", "description", "division", "dtypes", "hash", "lattice",
        "literals", "name", "numpy_scalars", "source", "weak", "zero_dim",
    )  # fmt: skip

    name: str
    description: str
    source: str
    dtypes: tuple[DType, ...]
    lattice: Lattice[DType] | None
    literals: LiteralRules
    weak: Mapping[DType, DType]
    division: Division
    zero_dim: bool
    numpy_scalars: NumpyScalars
    definition: Definition
    hash: str
    _joins: dict[tuple[DType, DType], DType]
    """The results of `join`, in which elements that a completion added are replaced by their dtypes."""
    _raw: Cells
    _hidden: Mapping[DType, DType]
    """Elements that a completion added → the dtype that each stands for."""
    _elements: tuple[DType, ...]

    def __init__(self, definition: Definition) -> None:
        try:
            lattice, raw, elements, hidden = _order(definition)
        except UserError as error:
            raise UserError(f"rule set {definition.name!r}: {error}") from None
        joins = {}
        for (a, b), element in raw.items():
            if a not in hidden and b not in hidden and (element is not _WIDE or a is b):
                joins[a, b] = hidden.get(element, element)
        decided = sorted([a.name, b.name, result.name] for (a, b), result in joins.items())
        for dtype in DTYPES.values():
            joins.setdefault((dtype, dtype), dtype)
        _check_results(definition, joins)
        missing = [element for element in elements if element.is_weak and element not in definition.weak]
        if missing:
            raise UserError(
                f"rule set {definition.name!r}: {names_of(missing)} without a dtype; fix: give one under 'weak'"
            )
        content = {key: value for key, value in definition.to_dict().items() if key in _DECIDING}
        content["joins"] = decided  # dtypes outside the table change nothing, nor do those that are added later
        if hidden:
            content["raw"] = sorted([a.name, b.name, element.name] for (a, b), element in raw.items())
        for key, value in {
            "name": definition.name,
            "description": definition.description,
            "source": definition.source,
            "dtypes": tuple(e for e in elements if e not in hidden and e is not _WIDE),
            "lattice": lattice,
            "literals": definition.literals,
            "weak": definition.weak,
            "division": definition.division,
            "zero_dim": definition.zero_dim,
            "numpy_scalars": definition.numpy_scalars,
            "definition": definition,
            "hash": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
            "_joins": joins,
            "_raw": raw,
            "_hidden": hidden,
            "_elements": elements,
        }.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"RuleSet is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"RuleSet is immutable: cannot delete {attribute!r}")

    def join(self, a: DType | str, b: DType | str) -> DType:
        """Return the element in which two operands meet: the dtype that both are cast to, or a weak element.

        Raises `UserError` with a fix when the rule set has no join.
        """
        try:
            return self._joins[a, b]  # type: ignore[index]
        except KeyError:
            pair = (DType(a), DType(b))
            if pair in self._joins:
                return self._joins[pair]
            raise UserError(self.refusal(*pair)) from None

    def join_all(self, dtypes: Sequence[DType | str]) -> DType:
        """Return the join of one or more dtypes.

        Their order does not matter where the laws hold; else they join from the left. Raises `UserError` for
        no dtypes and where there is no join.
        """
        if not dtypes:
            raise UserError(f"{self.name}: the join of no dtypes is undefined; give at least one")
        result = DType(dtypes[0])
        if result.is_abstract and result not in self._elements:
            raise UserError(self.refusal(result, result))
        for dtype in map(DType, dtypes[1:]):
            found = self._raw.get((result, dtype)) or self._joins.get((result, dtype))
            if found is None:
                raise UserError(self.refusal(self._hidden.get(result, result), dtype))
            result = found
        if result is _WIDE and len(set(dtypes)) > 1:  # as a final result only: elements above may hold all
            given = [DType(dtype) for dtype in dtypes]
            meeting = ((a, b) for a in given for b in given if a is not b and self._raw.get((a, b)) is _WIDE)
            raise UserError(self.refusal(*next(meeting, (DTYPES["int64"], DTYPES["uint64"]))))
        return self._hidden.get(result, result)

    @property
    def has_choices(self) -> bool:
        """Whether some joins leave a choice of dtypes to further operands, as intermediate values cannot."""
        return bool(self._hidden)

    def is_open(self, dtypes: Sequence[DType]) -> bool:
        """Return whether the join of all these dtypes at once keeps a choice open."""
        found: DType | None = dtypes[0]
        for dtype in dtypes[1:]:
            found = None if found is None else self._raw.get((found, dtype))
        return found in self._hidden

    def concrete(self, element: DType) -> DType:
        """Return the dtype of a value whose promotion ends in `element`: weak elements give their default."""
        return self.weak.get(element, element)

    def can_cast(self, source: DType | str, target: DType | str) -> bool:
        """Return whether promotion implicitly casts `source` to `target`: whether their join is `target`."""
        return self._joins.get((DType(source), DType(target))) is DType(target)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def errata(self) -> tuple[Erratum, ...]:
        """Return the cells of a published table that contradict their mirror cells.

        The result is empty for consistent tables.
        """
        return self.definition.errata

    def losses(self) -> Mapping[tuple[DType, DType], str]:
        """Return what a cast along each covering edge can lose: "exact", "rounding", "sign" or "overflow".

        Upward from a weak element nothing is lost; an edge up to one is judged by the default dtype of the
        weak element. Empty for rule sets without a lattice.
        """
        if self.lattice is None:
            return {}
        targets = {a: self.concrete(a) for a in self.lattice.elements}
        return {
            (a, b): "exact" if a.is_abstract or targets[b].is_abstract else loss_class(a, targets[b])
            for a, b in self.lattice.edges
            if a not in self._hidden and b not in self._hidden
        }

    def step(self, a: DType, b: DType) -> Step | None:
        """Return the rule that decides about two different dtypes.

        The result is None unless the rule set is an ordered list of rules.
        """
        found = deciding(self.definition.steps, a, b) if self.definition.steps and a is not b else None
        return None if found is None else found[1]

    def bounds(self, a: DType, b: DType) -> tuple[DType, ...]:
        """Return the minimal upper bounds of two dtypes among which a completed order chooses.

        The result is empty where there is no choice.
        """
        element = self._raw.get((a, b))
        if element is None or element not in self._hidden or self.lattice is None:
            return ()
        above = [d for d in self.lattice.upper_bounds(element) if d not in self._hidden]
        return tuple(d for d in above if not any(e is not d and self.lattice.leq(e, d) for e in above))

    def refusal(self, a: DType, b: DType) -> str:
        """Return a message that says why two dtypes have no join, with a fix."""
        text = f"no join for {a} and {b} in rule set {self.name}"
        if self._raw.get((a, b)) is _WIDE or {a.name, b.name} == {"int64", "uint64"}:
            signed, unsigned = (a, b) if a.kind == "int" else (b, a)
            return (
                f"{text}: no dtype holds both; fix: .cast(int64) the {unsigned} operand if its values are below "
                f"2**63, or .cast(uint64) the {signed} operand if none is negative"
            )
        outside = [dtype for dtype in dict.fromkeys((a, b)) if dtype not in self.dtypes]
        if outside:
            names = " and ".join(dtype.name for dtype in outside)
            target = next((d for d in (b, a) if d in self.dtypes and d.is_float), self.literals.float_default)
            verb, joins = ("are", "join") if len(outside) > 1 else ("is", "joins")
            complex_ = any(dtype.kind == "complex" for dtype in outside)
            fix = "pass the array's .real and .imag one by one" if complex_ else f"cast explicitly, e.g. .cast({target})"
            return f"{text}: {names} {verb} not in its table and only {joins} with the same dtype; fix: {fix}"
        return f"{text}; fix: cast one operand to the other's dtype, .cast({a}) or .cast({b})"


def _check_results(definition: Definition, joins: Mapping[tuple[DType, DType], DType]) -> None:
    """Check that each result joins with itself to itself.

    Operands that were cast to it must meet in it: a graph does not record what they were before. Raises
    `UserError` for a result that fails.
    """
    reached: dict[DType, str] = {}
    for (a, b), result in joins.items():
        reached.setdefault(result, f"{a} with {b}")
    for a, result in definition.inexact.items():
        reached.setdefault(result, f"an inexact operation on {a}")
    if definition.quotient is not None:
        reached.setdefault(definition.quotient, "'quotient'")
    for result, whence in reached.items():
        again = joins.get((result, result))
        if again is not result:
            raise UserError(
                f"rule set {definition.name!r}: {whence} gives {result}, but {result} with itself gives {again or 'nothing'}; "
                f"expected {result}, as operands are cast to it; fix: let {result} with itself be {result}"
            )


def _order(
    definition: Definition,
) -> tuple[Lattice[DType] | None, Cells, tuple[DType, ...], Mapping[DType, DType]]:
    """Return the lattice or None, every join, the elements in order, and the dtypes of added elements."""
    if definition.cells is not None:
        return None, dict(definition.cells), definition.dtypes, {}
    if definition.steps:
        return None, table_of(definition.steps, definition.dtypes), definition.dtypes, {}
    if definition.order:
        never = set(definition.never_above)
        lattice, hidden = complete(
            definition.name, definition.dtypes, lambda a, b: a is not b and b not in never and _keeps_values(a, b)
        )
        return lattice, lattice.joins, (*definition.dtypes, *hidden), hidden
    lattice = Lattice(definition.edges, definition.dtypes)
    listed = [d for d in DTYPES.values() if d in lattice]
    return lattice, lattice.joins, (*listed, *(e for e in lattice.elements if e.is_abstract)), {}


def _keeps_values(a: DType, b: DType) -> bool:
    if a.is_complex and not b.is_complex:
        return False
    if b is _WIDE:
        return a.is_integer or a.is_bool
    return a is not _WIDE and loss_class(a, b) == "exact"
