"""Defines rule sets: named promotion tables with results for Python scalars and for operations beside joins.

A rule set is data (`definition.py`, `data/*.json`); `RuleSet` is the class that all of them share. Some are
lattices, one is an order completed to a lattice, one an ordered list of rules, some are plain tables;
`laws()` says which laws hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from .dataclass import dataclass
from .definition import (
    Definition,
    names_of,
    read,
    read_file,
    write_file,
)
from .dtype import DTYPES, DType
from .errors import UserError
from .explain import explain
from .joins import Joins
from .lattices.lattice import Lattice, Laws, chain_law, check_laws
from .literals import (
    LiteralRules,
    Operand,
    Scalar,
    check_literal,
    is_numpy_scalar,
    is_scalar,
    number_of,
    rank,
    scalar_rank,
)
from .ordered import Step
from .table import PromotionTable

OperandT = TypeVar("OperandT")

_WEAK_OF = {1: DType("weak_int"), 2: DType("weak_float"), 3: DType("weak_complex")}
_KIND_OF = {0: "bool", 1: "int", 2: "float", 3: "complex"}


@dataclass(frozen=True, slots=True)
class ZeroDim:
    """The dtype of a tensor of rank 0, for queries; with `zero_dim` it counts only if its kind is higher."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair that two rule sets answer differently; `ours` or `theirs` is None where that one has no join."""

    lhs: DType
    rhs: DType
    ours: DType | None
    theirs: DType | None

    def __str__(self) -> str:
        return f"{self.lhs} ∨ {self.rhs}: {self.ours or 'no join'}, there {self.theirs or 'no join'}"


class RuleSet(Joins):
    """An immutable promotion table with its literal rules.

    Make one with `RuleSet.from_edges`, `from_table`, `from_dict` or `load`, or from another one with
    `with_edges`, `with_cells` or `without`; all check their arguments. Dtypes outside the table join with
    themselves only.

    Attributes:
        name, description, source: for messages and documentation.
        dtypes: the elements of the table, in its order, with its weak elements.
        lattice: the semilattice the table derives from, or None.
        literals: the dtypes Python scalars take.
        weak: each weak element with the dtype of a value that ends in it; empty for rule sets without weak
            elements.
        division: how `//` and `%` divide integers: "floor" or "truncate".
        zero_dim: whether tensors of rank 0 count only when their kind is higher than that of all others.
        numpy_scalars: "weak" when a NumPy scalar counts as the Python number it holds, "strong" when its
            dtype counts. Arrays of rank 0 are arrays, hence strong.
        definition: the data this was made from.
        hash: SHA-256 of everything that decides dtypes (not of name and texts); rule sets of equal hash
            promote alike.
    """

    __slots__ = ()

    # -- making one ------------------------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> RuleSet:
        """Make a rule set from plain data, as the preset files hold it.

        Raises `UserError` naming the key that is wrong.
        """
        return cls(read(data))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RuleSet:
        """Read a rule set from a .json or .toml file.

        Raises `UserError` naming the file and the mistake in it.
        """
        definition = read_file(path)
        try:
            return cls(definition)
        except UserError as error:
            raise UserError(f"rule set file {path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .json file that `load` turns into an equal rule set. The file is replaced atomically.

        Raises `UserError` for other names and when the file cannot be written.
        """
        write_file(self.definition, path)

    @classmethod
    def from_edges(
        cls,
        name: str,
        edges: Iterable[tuple[str | DType, str | DType]],
        *,
        integer_literals: Sequence[str | DType] = ("int64",),
        float_literals: Sequence[str | DType] = ("float32",),
        complex_literals: Sequence[str | DType] = (),
        weak: Mapping[str | DType, str | DType] | None = None,
        description: str = "",
    ) -> RuleSet:
        """Make a rule set from covering edges (smaller, larger).

        Raises `UserError` if they make no lattice.
        """
        literals = _literals(integer_literals, float_literals, complex_literals)
        pairs = tuple(map(_pair, edges))
        values = {DType(a): DType(b) for a, b in (weak or {}).items()}
        return cls(Definition(name, literals, description, edges=pairs, weak=values))

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
        """Make a rule set from the results of ordered pairs.

        No law is assumed of the table: `laws()` says which hold.
        """
        joins = {_pair(pair): DType(result) for pair, result in cells.items()}
        mentioned = {dtype for pair in joins for dtype in pair}
        present = tuple(dtype for dtype in DTYPES.values() if dtype in mentioned)
        literals = _literals(integer_literals, float_literals, complex_literals)
        return cls(Definition(name, literals, description, dtypes=present, cells=joins))

    def with_edges(self, *edges: tuple[str | DType, str | DType], name: str | None = None) -> RuleSet:
        """Return this lattice with more edges (smaller, larger).

        Raises `UserError` when they make a cycle or an ambiguous join, and for rule sets that are no lattice.
        """
        added = tuple(map(_pair, edges))
        lattice = self._plain_lattice("with_edges")
        return self._edited(name, lattice.elements, edges=(*lattice.edges, *added))

    def with_cells(
        self, cells: Mapping[tuple[str | DType, str | DType], str | DType], name: str | None = None
    ) -> RuleSet:
        """Return the same table with some cells replaced, as a plain table.

        `laws()` says whether it still is a lattice.
        """
        changed = {_pair(pair): DType(result) for pair, result in cells.items()}
        present = tuple(dict.fromkeys((*self.dtypes, *(dtype for pair in changed for dtype in pair))))
        table = {pair: result for pair, result in self._joins.items() if set(pair) <= set(present)} | changed
        return self._edited(name, present, cells=table)

    def without(self, *parts: str | DType | tuple[str | DType, str | DType], name: str | None = None) -> RuleSet:
        """Return the same rules without some dtypes, or without some covering edges given as pairs.

        What was below a removed dtype stays below what was above it. Raises `UserError` for dtypes and edges
        that are not there, and when the rest is ambiguous.
        """
        gone = [DType(part) for part in parts if not isinstance(part, tuple)]
        cut = [_pair(part) for part in parts if isinstance(part, tuple)]
        for dtype in gone:
            if dtype not in self.dtypes:
                raise UserError(f"{self.name}: {dtype} is not in the table; it has {names_of(self.dtypes)}")
        kept = tuple(dtype for dtype in self.definition.dtypes if dtype not in gone)
        if (self.definition.steps or self.definition.order) and not cut:
            never = tuple(dtype for dtype in self.definition.never_above if dtype not in gone)
            return self._edited(name, kept, steps=self.definition.steps, order=self.definition.order, never_above=never)
        if self.definition.cells is not None and not cut:
            table = self.definition.cells
            cells = {pair: result for pair, result in table.items() if not {*pair, result} & set(gone)}
            return self._edited(name, kept, cells=cells)
        lattice = self._plain_lattice("without")
        for edge in cut:
            if edge not in lattice.edges:
                raise UserError(f"{self.name}: {edge[0]} → {edge[1]} is no covering edge; see .lattice.edges")
        rest = lattice.without(*gone)
        weak = {a: b for a, b in self.weak.items() if a not in gone}
        left = tuple(edge for edge in rest.edges if edge not in cut)
        return self._edited(name, rest.elements, edges=left, weak=weak)

    def _plain_lattice(self, method: str) -> Lattice[DType]:
        if self.lattice is None or self._hidden:
            raise UserError(
                f"{self.name}: {method} edits the edges of a lattice, which this rule set has not; fix: use with_cells"
            )
        return self.lattice

    def _edited(
        self,
        name: str | None,
        dtypes: tuple[DType, ...],
        *,
        edges: tuple[tuple[DType, DType], ...] = (),
        cells: Mapping[tuple[DType, DType], DType] | None = None,
        steps: tuple[Step, ...] = (),
        order: str = "",
        never_above: tuple[DType, ...] = (),
        weak: Mapping[DType, DType] | None = None,
    ) -> RuleSet:
        """Return a rule set with other joins, given by one of edges, cells, steps and an order."""
        return RuleSet(replace(
            self.definition, name=name or f"{self.name} (edited)", description=f"{self.name}, edited", dtypes=dtypes,
            edges=edges, cells=cells, steps=steps, order=order, never_above=never_above, errata=(),
            weak=self.definition.weak if weak is None else weak,
        ))  # fmt: skip

    # -- the value -------------------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RuleSet):
            return NotImplemented
        return self.name == other.name and self.hash == other.hash

    def __hash__(self) -> int:
        return hash((self.name, self.hash))

    def __repr__(self) -> str:
        return f'<RuleSet "{self.name}": {len(self.dtypes)} dtypes>'

    def __reduce__(self) -> tuple[Callable[..., RuleSet], tuple[Definition]]:
        return RuleSet, (self.definition,)

    # -- joins -----------------------------------------------------------------------------------------------------------------

    def promote(self, *operands: Operand) -> DType:
        """Return the dtype that an operator computes in, given its operands.

        Operands are dtypes (or names, or anything with a `dtype`: symbols, arrays), which are strong, and
        Python scalars, which are weak and whose values are checked; `numpy_scalars` says which NumPy scalars
        are. Raises `UserError` when there is no join or a scalar does not fit.
        """
        operands = tuple(map(self.weakened, operands))
        result = self.concrete(self.join_operands(operands))
        for operand in operands:
            if is_scalar(operand):
                check_literal(operand, result)
        return result

    def weakened(self, operand: OperandT) -> OperandT | Scalar:
        """Return the Python number that a NumPy scalar holds where it is weak.

        Return any other operand as it is.
        """
        return number_of(operand) if self.numpy_scalars == "weak" and is_numpy_scalar(operand) else operand

    def join_operands(self, operands: Sequence[Operand]) -> DType:
        """Return the element in which operands meet, without checking that scalars fit the result.

        Operations that cast further check scalars against their own target. Raises `UserError` where there is
        no join.
        """
        if not operands:
            raise UserError(f"{self.name}: the join of no dtypes is undefined; give at least one")
        operands = tuple(map(self.weakened, operands))
        weak = [operand for operand in operands if is_scalar(operand)]
        tensors = [operand for operand in operands if not is_scalar(operand)]
        if self.weak:
            elements = [_WEAK_OF[height] if (height := scalar_rank(value)) else DTYPES["bool"] for value in weak]
            return self.join_all([*map(element_of, tensors), *elements])
        if not tensors:
            return self.join_all([self.literals.default(value) for value in weak])
        return self._with_scalars(self._tensors(tensors), weak)

    def _tensors(self, tensors: Sequence[Operand]) -> DType:
        if not self.zero_dim:
            return self.join_all([element_of(operand) for operand in tensors])
        small = [element_of(operand) for operand in tensors if _is_zero_dim(operand)]
        large = [element_of(operand) for operand in tensors if not _is_zero_dim(operand)]
        if not small or not large:
            return self.join_all(small or large)
        result, lower = self.join_all(large), self.join_all(small)
        if rank(lower) <= rank(result):
            return result
        if lower.is_complex:  # only the kind changes: a float keeps its precision, as with a Python complex
            return self._with_scalars(result, [0j]) if result.is_float else lower
        return self.join(result, lower)

    def _with_scalars(self, result: DType, weak: Sequence[Scalar]) -> DType:
        """Join the dtype of the tensors with weak scalars.

        Only scalars of the highest kind matter, and their defaults join at once, so the order of operands has
        no effect.
        """
        for value in weak:
            if self.literals.cells.get((result, _KIND_OF[scalar_rank(value)]), result) is None:
                raise UserError(
                    f"{self.name}: no join for {result} and the literal {value!r}; fix: cast the tensor first: .cast(int64)"
                )
        height = rank(result)
        above = [value for value in weak if scalar_rank(value) > height]
        if not above:
            # The scalars take the tensors' dtype. They still join with it: in a published table a dtype may
            # join with itself to another.
            return self.join_all([result, result]) if weak else result
        top = max(map(scalar_rank, above))
        special = self.literals.cells.get((result, _KIND_OF[top]))
        if special is not None:
            return special
        highest = [value for value in above if scalar_rank(value) == top]
        return self.join_all([result, *(self.literals.default(value) for value in highest)])

    # -- questions -------------------------------------------------------------------------------------------------------------

    def table(self) -> PromotionTable:
        """Return the whole table; its `str()` is aligned text."""
        cells = {(a, b): self._joins.get((a, b)) for a in self.dtypes for b in self.dtypes}
        return PromotionTable(self.name, self.dtypes, cells)

    def laws(self) -> Laws:
        """Check the semilattice laws on all pairs and triples.

        The result has counterexamples where they fail. For a completed order they are checked on all of its
        elements, some of which are no dtypes: operands that join at once, as in `promote(a, b, c)`, join this
        way. The last law is about chains of operators, (a + b) + c and a + (b + c), where every intermediate
        value has a dtype.
        """
        if self.lattice is not None:
            laws = self.lattice.laws()
        else:
            laws = check_laws(self._elements, lambda a, b: self._raw.get((a, b)))
        dtypes = [dtype for dtype in self.dtypes if not dtype.is_abstract]
        return Laws((*laws, chain_law(dtypes, lambda a, b: self._joins.get((a, b)))))

    def diff(self, other: RuleSet) -> tuple[Difference, ...]:
        """Return the pairs of dtypes that both tables hold with different results, in this table's order."""
        shared = [dtype for dtype in self.dtypes if dtype in other.dtypes]
        pairs = ((a, b, self._joins.get((a, b)), other._joins.get((a, b))) for a in shared for b in shared)
        return tuple(Difference(*found) for found in pairs if found[2] is not found[3])

    def hasse_dot(self) -> str:
        """Return the Hasse diagram of the lattice as Graphviz text.

        Raises `UserError` for rule sets without one.
        """
        from .drawing.hasse import to_dot  # imported here because few users draw pictures

        return to_dot(self)

    def hasse_svg(self) -> str:
        """Return the Hasse diagram of the lattice as an SVG picture.

        Raises `UserError` for rule sets without one.
        """
        from .drawing.hasse import to_svg

        return to_svg(self)

    def explain(self, a: DType | str, b: DType | str) -> str:
        """Return text on why two dtypes join as they do: paths, losses of casts, joins in other presets."""
        return explain(self, DType(a), DType(b))

    # -- operations that do not simply join ------------------------------------------------------------------------------------

    def inexact(self, element: DType, quotient: bool = False) -> DType:
        """Return the dtype of a bool or integer in operations on floats such as `sqrt`.

        `quotient` is for true division, for which a rule set may name a dtype of its own.
        """
        definition = self.definition
        if quotient and definition.quotient is not None:
            return definition.quotient
        if element.is_weak:
            return self.join(element, _WEAK_OF[2])
        return definition.inexact.get(element) or self.join(element, self.literals.float_default)

    def mean_of(self, dtype: DType) -> DType:
        """Return the dtype of the mean of bools or integers."""
        return self.definition.mean or self.definition.inexact.get(dtype) or self.literals.float_default

    def accumulator(self, dtype: DType) -> DType:
        """Return the dtype of sums and products: of 64 bits for bools and integers by default."""
        found = self.definition.accumulate.get(dtype)
        if found is not None:
            return found
        if dtype.kind == "uint":
            return DTYPES["uint64"]
        return DTYPES["int64"] if dtype.kind in ("bool", "int") else dtype


def _pair(pair: object) -> tuple[DType, DType]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise UserError(f"{pair!r} is no pair of dtypes; fix: write two, e.g. ('int8', 'int16')")
    return DType(pair[0]), DType(pair[1])


def dtype_of(operand: Operand) -> DType:
    """Return the dtype of a strong operand: a DType, a dtype's name, or an object with a `dtype`.

    The object's may be one of joinery or of NumPy. Raises `UserError` where joinery has no such dtype.
    """
    if isinstance(operand, (DType, str)):
        return DType(operand)
    found = getattr(operand, "dtype", None)
    if found is None or isinstance(operand, type):
        return DType.from_numpy(operand)
    return found if isinstance(found, DType) else DType.from_numpy(found)


def element_of(operand: Operand) -> DType:
    """Return the weak element of a symbol that is weak, else what `dtype_of` returns."""
    weak = getattr(operand, "weak", None)
    return weak if isinstance(weak, DType) else dtype_of(operand)


def _is_zero_dim(operand: object) -> bool:
    return isinstance(operand, ZeroDim) or getattr(operand, "ndim", None) == 0


def _literals(
    integers: Sequence[str | DType], floats: Sequence[str | DType], complexes: Sequence[str | DType]
) -> LiteralRules:
    ladders = [tuple(DType(name) for name in names) for names in (integers, floats, complexes)]
    return LiteralRules(ladders[0], ladders[1], ladders[2])
