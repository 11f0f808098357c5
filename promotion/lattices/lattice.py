"""Represents join-semilattices as data.

A `Lattice` is made from edges "smaller below larger" and is checked while it is made: no cycles, and every
two elements that have a common upper bound have a least one. From that alone the join is idempotent,
commutative and associative; `check_laws` verifies these laws for any join table, derived from a lattice or
not, and shows counterexamples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Generic, TypeVar

from ..dataclass import dataclass
from ..errors import UserError

Element = TypeVar("Element", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Law:
    """The outcome of checking one law on all cases. `counterexamples` holds the first failures as text."""

    name: str
    cases: int
    failures: int
    counterexamples: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.failures == 0

    def __str__(self) -> str:
        verdict = "holds" if self.holds else f"FAILS for {self.failures}"
        shown = "".join(f"\n    {example}" for example in self.counterexamples)
        return f"{self.name}: {verdict} of {self.cases} cases{shown}"


@dataclass(frozen=True, slots=True)
class Laws:
    """The checked laws of a join table, as a sequence of `Law`; true when every law of the join itself holds.

    A further law says whether chains of operators decide as one join of all operands. It does not count
    towards the truth value: see `laws["associative by operators"].holds`.
    """

    laws: tuple[Law, ...]

    def __bool__(self) -> bool:
        return all(law.holds for law in self.laws if law.name != BY_OPERATORS)

    def __iter__(self) -> Iterator[Law]:
        return iter(self.laws)

    def __getitem__(self, name: str) -> Law:
        for law in self.laws:
            if law.name == name:
                return law
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(map(str, self.laws))


class Lattice(Generic[Element]):
    """A finite join-semilattice, possibly with pairs that have no upper bound.

    Args:
        edges: pairs (smaller, larger). Redundant edges are dropped; the rest are the covering edges of the
            order.
        elements: further elements; those that occur in no edge join with themselves only.

    Raises `UserError` when the edges have a cycle, or when two elements have several minimal upper bounds.
    """

    __slots__ = ("_index", "_joins", "_upsets", "edges", "elements")

    elements: tuple[Element, ...]
    edges: tuple[tuple[Element, Element], ...]
    _index: dict[Element, int]
    _upsets: tuple[int, ...]
    _joins: dict[tuple[Element, Element], Element]

    def __init__(self, edges: Iterable[tuple[Element, Element]], elements: Iterable[Element] = ()) -> None:
        pairs = list(dict.fromkeys(edges))
        names = dict.fromkeys(element for pair in pairs for element in pair)
        names.update(dict.fromkeys(elements))
        ordered = tuple(names)
        index = {element: position for position, element in enumerate(ordered)}
        above: list[list[int]] = [[] for _ in ordered]
        for smaller, larger in pairs:
            if smaller == larger:
                raise UserError(f"lattice: edge {smaller} → {larger} joins an element to itself; remove it")
            above[index[smaller]].append(index[larger])
        upsets = _upsets(ordered, above)
        put = object.__setattr__
        put(self, "elements", ordered)
        put(self, "_index", index)
        put(self, "_upsets", upsets)
        put(self, "edges", _covering(ordered, above, upsets))
        put(self, "_joins", _joins(ordered, upsets))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"Lattice is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"Lattice is immutable: cannot delete {attribute!r}")

    def __reduce__(self) -> tuple[type[Lattice[Element]], tuple[object, object]]:
        return Lattice, (self.edges, self.elements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lattice):
            return NotImplemented
        return set(self.elements) == set(other.elements) and set(self.edges) == set(other.edges)

    def __hash__(self) -> int:
        return hash((frozenset(self.elements), frozenset(self.edges)))

    def __contains__(self, element: object) -> bool:
        return element in self._index

    def __len__(self) -> int:
        return len(self.elements)

    def __repr__(self) -> str:
        return f"Lattice({len(self.elements)} elements, {len(self.edges)} covering edges)"

    @property
    def joins(self) -> Mapping[tuple[Element, Element], Element]:
        """Every pair that has a join, with the join (a copy)."""
        return dict(self._joins)

    def join(self, a: Element, b: Element) -> Element:
        """Return the least upper bound. Raises `UserError` for unknown elements and pairs without one."""
        try:
            return self._joins[a, b]
        except KeyError:
            raise UserError(self._no_join(a, b)) from None

    def join_all(self, elements: Sequence[Element]) -> Element:
        """Return the least upper bound of one or more elements, in any order.

        Raises `UserError` if there is none.
        """
        if not elements:
            raise UserError("lattice: the join of no elements is undefined; give at least one")
        result = elements[0]
        for element in elements:
            result = self.join(result, element)
        return result

    def leq(self, a: Element, b: Element) -> bool:
        """Return whether `a` is below or equal to `b`. Raises `UserError` for unknown elements."""
        return bool(self._upsets[self._position(a)] >> self._position(b) & 1)

    def upper_bounds(self, *elements: Element) -> tuple[Element, ...]:
        """Return all common upper bounds, in the order of `self.elements`."""
        common = -1
        for element in elements:
            common &= self._upsets[self._position(element)]
        return tuple(e for position, e in enumerate(self.elements) if common >> position & 1)

    def path(self, a: Element, b: Element) -> tuple[Element, ...]:
        """Return a shortest chain of covering edges from `a` up to `b`, both included.

        Raises `UserError` if `a` ≰ `b`.
        """
        if not self.leq(a, b):
            raise UserError(f"lattice: {a} is not below {b}")
        covers: dict[Element, list[Element]] = {}
        for smaller, larger in self.edges:
            covers.setdefault(smaller, []).append(larger)
        chains: list[tuple[Element, ...]] = [(a,)]
        for chain in chains:  # grows while iterating: breadth first
            if chain[-1] == b:
                return chain
            chains.extend((*chain, step) for step in covers.get(chain[-1], ()) if self.leq(step, b))
        raise UserError(f"lattice: {a} is not below {b}")

    def without(self, *elements: Element) -> Lattice[Element]:
        """Return the same order without some elements: what was below them stays below what was above them.

        Raises `UserError` for unknown elements, and when the rest is no semilattice.
        """
        for element in elements:
            self._position(element)
        rest = [element for element in self.elements if element not in elements]
        pairs = [(a, b) for a in rest for b in rest if a != b and self.leq(a, b)]
        return Lattice(pairs, rest)

    def laws(self) -> Laws:
        """Check the laws by brute force over all pairs and triples."""
        return check_laws(self.elements, lambda a, b: self._joins.get((a, b)), self.leq)

    def _position(self, element: Element) -> int:
        try:
            return self._index[element]
        except KeyError:
            raise UserError(
                f"lattice: {element} is not an element; elements: {_list(self.elements)}"
            ) from None

    def _no_join(self, a: Element, b: Element) -> str:
        unknown = [element for element in (a, b) if element not in self._index]
        if unknown:
            return f"lattice: {_list(unknown)} is not an element; elements: {_list(self.elements)}"
        return f"lattice: {a} and {b} have no common upper bound"


def check_laws(
    elements: Sequence[Element],
    join: Callable[[Element, Element], Element | None],
    leq: Callable[[Element, Element], bool] | None = None,
    shown: int = 3,
) -> Laws:
    """Check the laws of a join table by brute force. `join` returns None where a pair has no join.

    With `leq` None the order is the one that the join induces: a ≤ b when a ∨ b = b. A triple counts as
    associative when both groupings give the same element or both end in a missing join. A `Law` keeps `shown`
    counterexamples at most.
    """
    table = {(a, b): join(a, b) for a in elements for b in elements}

    def at(a: Element | None, b: Element | None) -> Element | None:
        return None if a is None or b is None else table.get((a, b))

    def below(a: Element, b: Element) -> bool:
        return table[a, b] == b if leq is None else leq(a, b)

    idempotent = [f"{a} ∨ {a} = {_or_none(table[a, a])}" for a in elements if table[a, a] != a]
    commutative = [
        f"{a} ∨ {b} = {_or_none(table[a, b])}, but {b} ∨ {a} = {_or_none(table[b, a])}"
        for a, b in combinations(elements, 2)
        if table[a, b] != table[b, a]
    ]
    associative = []
    for a in elements:
        for b in elements:
            left = table[a, b]
            for c in elements:
                one, other = at(left, c), at(a, table[b, c])
                if one != other:
                    associative.append(
                        f"({a} ∨ {b}) ∨ {c} = {_or_none(one)}, but {a} ∨ ({b} ∨ {c}) = {_or_none(other)}"
                    )
    least = []
    for a in elements:
        for b in elements:
            bounds = [c for c in elements if below(a, c) and below(b, c)]
            minimal = [c for c in bounds if all(below(c, d) for d in bounds)]
            expected = minimal[0] if len(minimal) == 1 else None
            if expected != table[a, b]:
                least.append(f"{a} ∨ {b} = {_or_none(table[a, b])}, but the upper bounds are {_list(bounds)}")
    monotone = []
    for a in elements:
        for b in elements:
            if a != b and below(a, b):
                for c in elements:
                    one, other = table[a, c], table[b, c]
                    if one is not None and other is not None and not below(one, other):
                        monotone.append(f"{a} ≤ {b}, but {a} ∨ {c} = {one} is not below {b} ∨ {c} = {other}")
    count = len(elements)

    def law(name: str, cases: int, failures: list[str]) -> Law:
        return Law(name, cases, len(failures), tuple(failures[:shown]))

    return Laws(
        (
            law("idempotent", count, idempotent),
            law("commutative", count * (count - 1) // 2, commutative),
            law("associative", count**3, associative),
            law("unique least upper bound", count**2, least),
            law("monotone", count**3, monotone),
        )
    )


BY_OPERATORS = "associative by operators"


def chain_law(
    dtypes: Sequence[Element], join: Callable[[Element, Element], Element | None], shown: int = 3
) -> Law:
    """Check whether chains of binary operators give the same dtype in either grouping.

    `join` returns the dtype that a value has: choices that a join of several operands keeps open are decided
    in between.
    """

    def at(a: Element | None, b: Element | None) -> Element | None:
        return None if a is None or b is None else join(a, b)

    failures = []
    for a, b, c in product(dtypes, repeat=3):
        one, other = at(at(a, b), c), at(a, at(b, c))
        if one != other:
            failures.append(f"({a} ∨ {b}) ∨ {c} = {_or_none(one)}, but {a} ∨ ({b} ∨ {c}) = {_or_none(other)}")
    return Law(BY_OPERATORS, len(dtypes) ** 3, len(failures), tuple(failures[:shown]))


def _or_none(element: object) -> object:
    return "nothing" if element is None else element


def _list(elements: Iterable[object]) -> str:
    return ", ".join(map(str, elements)) or "none"


def _upsets(elements: Sequence[Hashable], above: list[list[int]]) -> tuple[int, ...]:
    """Return for each element the bit set of everything above or equal to it.

    Raises `UserError` on a cycle.
    """
    done: dict[int, int] = {}
    for root in range(len(elements)):
        trail: list[int] = []  # elements whose upset is under construction, in order
        pending = [(root, False)]
        while pending:
            node, finished = pending.pop()
            if finished:
                trail.pop()
                mask = 1 << node
                for larger in above[node]:
                    mask |= done[larger]
                done[node] = mask
            elif node in trail:
                cycle = [*trail[trail.index(node) :], node]
                raise UserError(
                    f"lattice: cycle {' → '.join(str(elements[n]) for n in cycle)}; remove one edge of it"
                )
            elif node not in done:
                trail.append(node)
                pending.append((node, True))
                pending.extend((larger, False) for larger in above[node])
    return tuple(done[node] for node in range(len(elements)))


def _covering(
    elements: tuple[Element, ...], above: list[list[int]], upsets: tuple[int, ...]
) -> tuple[tuple[Element, Element], ...]:
    """Return the given edges without those that other edges imply (the transitive reduction)."""
    edges = []
    for node, larger in enumerate(above):
        for target in larger:
            implied = any(other != target and upsets[other] >> target & 1 for other in larger)
            if not implied:
                edges.append((elements[node], elements[target]))
    return tuple(edges)


def _joins(elements: tuple[Element, ...], upsets: tuple[int, ...]) -> dict[tuple[Element, Element], Element]:
    """Return the join table: a ∨ b is the element whose upset *is* the set of upper bounds of a and b.

    Raises `UserError` for a pair with several minimal upper bounds.
    """
    by_upset = {upset: element for upset, element in zip(upsets, elements, strict=True)}
    joins = {}
    for i, a in enumerate(elements):
        for j in range(i, len(elements)):
            common = upsets[i] & upsets[j]
            if not common:
                continue
            least = by_upset.get(common)
            if least is None:
                bounds = [k for k in range(len(elements)) if common >> k & 1]
                minimal = [k for k in bounds if not any(k != m and upsets[m] >> k & 1 for m in bounds)]
                raise UserError(
                    f"lattice: {a} and {elements[j]} have no least upper bound: "
                    f"{_list(elements[k] for k in minimal)} are all minimal; "
                    f"add an element below them and above both, or an edge that orders them"
                )
            joins[a, elements[j]] = joins[elements[j], a] = least
    return joins
