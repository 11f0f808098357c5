"""Rule sets: named promotion tables with literal rules.

A rule set is data. Most are covering edges of a lattice plus the ladders of literal dtypes (`max_rules.py` is
such a file); one that is no lattice is a table of pairs. `RuleSet` is the machinery they share, `rules(name)`
the way to get one.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from . import max_rules
from .casts import loss_class, loss_example, path_text
from .dtype import DTYPES, DType
from .errors import UserError
from .lattice import Lattice, Laws, check_laws
from .literals import LiteralRules, Scalar, check_literal, is_scalar, rank, scalar_rank
from .table import PromotionTable


class RuleSet:
    """An immutable promotion table with its literal rules.

    Make one with `RuleSet.from_edges` or `RuleSet.from_table`; both check what they are given. dtypes outside
    the table join with themselves only.

    Attributes:
        name, description: for messages and documentation.
        dtypes: the dtypes of the table, in its order.
        lattice: the lattice the table derives from, or None for a rule set that is a plain table.
        literals: the dtypes Python scalars take.
        hash: SHA-256 of the table and the literal rules (not of the name); equal hashes promote alike.
    """

    __slots__ = ("_joins", "description", "dtypes", "hash", "lattice", "literals", "name")

    name: str
    description: str
    dtypes: tuple[DType, ...]
    lattice: Lattice[DType] | None
    literals: LiteralRules
    hash: str
    _joins: dict[tuple[DType, DType], DType]

    def __init__(
        self,
        name: str,
        description: str,
        dtypes: Sequence[DType],
        joins: Mapping[tuple[DType, DType], DType],
        literals: LiteralRules,
        lattice: Lattice[DType] | None = None,
    ) -> None:
        table = dict(joins)
        for dtype in DTYPES.values():
            table.setdefault((dtype, dtype), dtype)
        content = {
            "joins": sorted([a.name, b.name, result.name] for (a, b), result in table.items()),
            "literals": [
                [d.name for d in f] for f in (literals.integers, literals.floats, literals.complexes)
            ],
        }
        put = object.__setattr__
        put(self, "name", name)
        put(self, "description", description)
        put(self, "dtypes", tuple(dtypes))
        put(self, "lattice", lattice)
        put(self, "literals", literals)
        put(self, "_joins", table)
        put(self, "hash", hashlib.sha256(json.dumps(content).encode()).hexdigest())

    @classmethod
    def from_edges(
        cls,
        name: str,
        edges: Iterable[tuple[str | DType, str | DType]],
        *,
        integer_literals: Sequence[str | DType] = ("int64",),
        float_literals: Sequence[str | DType] = ("float32",),
        complex_literals: Sequence[str | DType] = (),
        description: str = "",
    ) -> RuleSet:
        """A rule set from covering edges (smaller, larger). Raises `UserError` if they make no lattice."""
        lattice = Lattice([(DType(smaller), DType(larger)) for smaller, larger in edges])
        present = [dtype for dtype in DTYPES.values() if dtype in lattice]
        literals = _literals(integer_literals, float_literals, complex_literals)
        return cls(name, description, present, lattice.joins, literals, lattice)

    @classmethod
    def from_table(
        cls,
        name: str,
        cells: Mapping[tuple[str | DType, str | DType], str | DType],
        *,
        integer_literals: Sequence[str | DType] = ("int64",),
        float_literals: Sequence[str | DType] = ("float32",),
        complex_literals: Sequence[str | DType] = (),
        description: str = "",
    ) -> RuleSet:
        """A rule set from ordered pairs. Nothing is assumed about it: ask `laws()` what holds."""
        joins = {(DType(a), DType(b)): DType(result) for (a, b), result in cells.items()}
        mentioned = {dtype for pair in joins for dtype in pair}
        present = [dtype for dtype in DTYPES.values() if dtype in mentioned]
        return cls(
            name, description, present, joins, _literals(integer_literals, float_literals, complex_literals)
        )

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"RuleSet is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"RuleSet is immutable: cannot delete {attribute!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RuleSet):
            return NotImplemented
        return self.name == other.name and self.hash == other.hash

    def __hash__(self) -> int:
        return hash((self.name, self.hash))

    def __repr__(self) -> str:
        return f'<RuleSet "{self.name}": {len(self.dtypes)} dtypes>'

    def __reduce__(self) -> tuple[Callable[..., RuleSet], tuple[Any, ...]]:
        fields = (self.name, self.description, self.dtypes, self._joins, self.literals, self.lattice)
        return RuleSet, fields

    def join(self, a: DType, b: DType) -> DType:
        """The dtype both operands are cast to. Raises `UserError` with a fix when the rule set has none."""
        try:
            return self._joins[a, b]
        except KeyError:
            raise UserError(self._refusal(DType(a), DType(b))) from None

    def join_all(self, dtypes: Sequence[DType]) -> DType:
        """The join of one or more dtypes."""
        if not dtypes:
            raise UserError(f"{self.name}: the join of no dtypes is undefined; give at least one")
        result = DType(dtypes[0])
        for dtype in dtypes:  # the first joins itself: that is the identity, and checks it
            result = self.join(result, DType(dtype))
        return result

    def promote(self, *operands: DType | str | Scalar | Any) -> DType:
        """The dtype an operator computes in, given its operands.

        Operands are dtypes (or names, or anything with a `dtype`: symbols, arrays, NumPy scalars), which are
        strong, and Python scalars, which are weak and whose values are checked. Raises `UserError` when there
        is no join or a scalar does not fit.
        """
        result = self.join_operands(operands)
        for operand in operands:
            if is_scalar(operand):
                check_literal(operand, result)
        return result

    def join_operands(self, operands: Sequence[DType | str | Scalar | Any]) -> DType:
        """As `promote`, without checking that scalars fit: ops that cast further check their own target."""
        strong = [dtype_of(operand) for operand in operands if not is_scalar(operand)]
        weak = [operand for operand in operands if is_scalar(operand)]
        if not strong:
            return self.join_all([self.literals.default(value) for value in weak])
        result = self.join_all(strong)
        height = rank(result)
        # Only the highest weak kind can matter; its default joins once, so the order of operands does not.
        above = [self.literals.default(value) for value in weak if scalar_rank(value) > height]
        top = max(map(rank, above), default=0)
        return self.join_all([result, *(dtype for dtype in above if rank(dtype) == top)])

    def table(self) -> PromotionTable:
        """The whole table; str() of it is aligned text."""
        cells = {(a, b): self._joins.get((a, b)) for a in self.dtypes for b in self.dtypes}
        return PromotionTable(self.name, self.dtypes, cells)

    def laws(self) -> Laws:
        """The semilattice laws, checked on all pairs and triples, with counterexamples where they fail."""
        if self.lattice is not None:
            return self.lattice.laws()
        return check_laws(self.dtypes, lambda a, b: self._joins.get((a, b)))

    def explain(self, a: DType | str, b: DType | str) -> str:
        """Why two dtypes join as they do: each one's path through the lattice, and what its cast can lose."""
        a, b = DType(a), DType(b)
        if (a, b) not in self._joins:
            return self._refusal(a, b)
        result = self._joins[a, b]
        lines = [f"{a} ∨ {b} = {result}   (rule set {self.name})"]
        for operand in (a,) if a is b else (a, b):
            lines.append(f"  {self._explain_operand(operand, result)}")
        return "\n".join(lines)

    def _explain_operand(self, operand: DType, result: DType) -> str:
        if operand is result:
            return f"{operand}: unchanged"
        loss = loss_class(operand, result)
        verdict = "exact" if loss == "exact" else f"{loss}: {loss_example(operand, result)}"
        if self.lattice is None or not self.lattice.leq(operand, result):
            return f"{operand}: cast to {result}, {verdict}"
        path = self.lattice.path(operand, result)
        text = f"{operand}: cast to {result}, {verdict}"
        return (
            text
            if len(path) == 2
            else f"{text}\n    path: {path_text(path)}; the cast is one step, not along the path"
        )

    def _refusal(self, a: DType, b: DType) -> str:
        outside = [dtype for dtype in dict.fromkeys((a, b)) if dtype not in self.dtypes]
        text = f"no join for {a} and {b} in rule set {self.name}"
        if outside:
            names = " and ".join(dtype.name for dtype in outside)
            target = next((d for d in (b, a) if d in self.dtypes and d.is_float), self.literals.float_default)
            verb = "are" if len(outside) > 1 else "is"
            return (
                f"{text}: {names} {verb} not in its table and only join with the same dtype; "
                f"fix: cast explicitly, e.g. .cast({target})"
            )
        return f"{text}; fix: cast one operand to the other's dtype, .cast({a}) or .cast({b})"


def dtype_of(operand: Any) -> DType:
    """The dtype of a strong operand: a DType, a name, or anything with a `dtype` (joinery's or NumPy's)."""
    if isinstance(operand, (DType, str)):
        return DType(operand)
    found = getattr(operand, "dtype", None)
    if found is None or isinstance(operand, type):
        return DType.from_numpy(operand)
    return found if isinstance(found, DType) else DType.from_numpy(found)


def _literals(
    integers: Sequence[str | DType], floats: Sequence[str | DType], complexes: Sequence[str | DType]
) -> LiteralRules:
    return LiteralRules(*(tuple(DType(name) for name in names) for names in (integers, floats, complexes)))


_DEFINITIONS = {max_rules.NAME: max_rules}


@cache
def _build(name: str) -> RuleSet:
    data = _DEFINITIONS[name]
    return RuleSet.from_edges(
        data.NAME,
        data.EDGES,
        integer_literals=data.INTEGER_LITERALS,
        float_literals=data.FLOAT_LITERALS,
        complex_literals=data.COMPLEX_LITERALS,
        description=data.DESCRIPTION,
    )


def rules(name: str | RuleSet = "max") -> RuleSet:
    """The rule set of that name (a `RuleSet` is returned as it is). Raises `UserError` for unknown names."""
    if isinstance(name, RuleSet):
        return name
    if name not in _DEFINITIONS:
        close = difflib.get_close_matches(str(name), _DEFINITIONS, n=1)
        hint = f"; did you mean {close[0]!r}" if close else ""
        raise UserError(f"unknown rule set {name!r}{hint}; known: {', '.join(_DEFINITIONS)}")
    return _build(name)
