"""Asks z3 whether formulas can hold together, in linear arithmetic with lemmas about products.

z3 comes with the extra `joinery-graph[prove]`, and loads when the first question is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError
from .atoms import Range, Terms
from .counts import relations
from .formulas import (
    FALSE,
    AtMost,
    Both,
    Either,
    Equal,
    Flag,
    Formula,
    Not,
    Truth,
    both,
    equal,
    flags_of,
    polynomials_of,
)
from .lemmas import bounded_lemmas, product_lemmas, products_in, small_factors
from .limits import limits
from .orders import orders
from .polynomials import ONE, Monomial, Polynomial

DEFAULT_LIMIT = 2_000_000
"""Steps of z3's resource count for one question: about a second, and the same on every machine."""
_MIN_STEPS = 20_000
_STEPS_A_LETTER = 3
"""What a question counts at least, and for each letter of it: making and reading it takes time, too."""


@dataclass(slots=True)
class Budget:
    """How many steps one question may take, and how many are left for all of them."""

    limit: int
    left: int

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is asked."""
        return self.left <= 0

    def take(self, steps: int) -> None:
        """Counts steps."""
        self.left -= steps


@dataclass(frozen=True, slots=True)
class Answer:
    """What z3 says. verdict: "unsat", "sat" or "unknown". model: values of atoms, which products need not agree with."""

    verdict: str
    model: dict[int, int]


_UNSAT, _UNKNOWN = Answer("unsat", {}), Answer("unknown", {})


def load_z3() -> Any:
    """Imports z3. Raises `UnsupportedError` that names the extra where it is missing."""
    try:
        import z3
    except ImportError as error:
        raise UnsupportedError("proofs need z3; fix: pip install 'joinery-graph[prove]'") from error
    return z3


class Solver:
    """Questions about the atoms of one proof. Equal questions are asked once.

    Attributes:
        budget: what questions take their steps from.
        asked: the number of questions, and `steps` how much of z3's resource count they took.
    """

    def __init__(self, terms: Terms, budget: Budget) -> None:
        self._z3 = load_z3()
        self._context: Any = None  # of its own, so that what was asked before in this process changes nothing
        self._terms = terms
        self.budget = budget
        self._known: dict[tuple[frozenset[Formula], bool], Answer] = {}
        self._texts: dict[Formula, str] = {}
        self._lemmas: dict[tuple[Polynomial, Polynomial], tuple[str, frozenset[Monomial]]] = {}
        self._limited: dict[tuple[Polynomial, Polynomial, Range], str] = {}
        self._ranges: dict[Monomial, str] = {}
        self.asked = 0
        self.steps = 0

    def is_impossible(self, *formulas: Formula, bounded: bool = False) -> bool:
        """Returns whether the formulas are shown not to hold together.

        bounded: with what limits of single numbers say of their products, which is for sums that wrap beyond a number.
        Elsewhere it would make sizes that are fixed as good as those that are not, and guesses would prefer them.
        """
        return self.check(formulas, bounded).verdict == "unsat"

    def model(self, formulas: Sequence[Formula], share: int = 1) -> dict[int, int] | None:
        """Returns values of atoms with which the formulas hold, products included; None if none are found.

        share: the question may take the limit divided by this.
        """
        found = self.exact(formulas, share)
        return found.model if found.verdict == "sat" else None

    def exact(self, formulas: Sequence[Formula], share: int = 1) -> Answer:
        """Returns whether formulas can hold together, products included, with values of atoms. share: as in `model`."""
        parts = list(dict.fromkeys(_flattened(formulas)))
        return _UNSAT if FALSE in parts else self._ask(parts, exact=True, share=share)

    def check(self, formulas: Sequence[Formula], bounded: bool = False) -> Answer:
        """Returns whether formulas can hold together. bounded: as in `is_impossible`."""
        parts = frozenset(_flattened(formulas))
        if FALSE in parts:
            return _UNSAT
        found = self._known.get((parts, bounded))
        if found is None:
            found = self._ask(list(dict.fromkeys(_flattened(formulas))), bounded=bounded)
            self._known[parts, bounded] = found
        return found

    def _ask(self, formulas: list[Formula], exact: bool = False, share: int = 1, bounded: bool = False) -> Answer:
        if self.budget.is_spent:
            return _UNKNOWN
        atoms = self._with_facts(formulas)
        polynomials = list(dict.fromkeys(polynomials_of(formulas)))
        products = {monomial for each in polynomials for monomial, _ in each if len(monomial) > 1}
        asserted = [self._formula(formula) for formula in formulas]
        pairs = products_in(polynomials)
        ranges = limits(formulas, self._range_of) if pairs and bounded else {}
        for factor, other in pairs:
            lemma, its = self._lemma(factor, other)
            asserted.append(lemma)
            products |= its
            if bounded:
                (atom,) = factor.atoms
                asserted.append(self._bounded(factor, other, ranges.get(atom) or self._range_of(atom)))
        for monomial in sorted(products):
            lemma, its = self._small_factors(monomial)
            asserted.append(lemma)
            products |= its
        variables: list[Monomial] = [*[(atom,) for atom in sorted(atoms)], *sorted(products)]
        asserted += [self._range(monomial) for monomial in variables]
        if exact:
            asserted += [f"(= {_name(each)} (* {' '.join([_name((atom,)) for atom in each])}))" for each in sorted(products)]
        flags = sorted(set(flags_of(formulas)))
        lines = [f"(declare-const {_name(monomial)} Int)" for monomial in variables]
        lines += [f"(declare-const b{flag} Bool)" for flag in flags]
        lines += [f"(assert {each})" for each in asserted if each != "true"]
        if self._context is None:  # making one takes longer than most questions, and many a guess asks none
            self._context = self._z3.Context()
        solver = self._z3.SimpleSolver(ctx=self._context)  # the tactics of others look at the clock
        solver.set("random_seed", 0)
        solver.set("rlimit", max(1, self.budget.limit // share))  # 0 would be no limit
        solver.set("ctrl_c", False)  # z3's own handler leaves SIGINT such that it interrupts no wait of this process any more
        text = "\n".join(lines)
        solver.from_string(text)
        self.asked += 1
        verdict = str(solver.check())
        before, self.steps = self.steps, _steps(solver)
        self.budget.take(max(_MIN_STEPS, self.steps - before) + _STEPS_A_LETTER * len(text))
        if verdict != "sat":
            return _UNSAT if verdict == "unsat" else _UNKNOWN
        model = solver.model()
        values = dict.fromkeys(atoms, 0)
        for declaration in model.decls():
            parts = declaration.name()[1:].split("_")
            if declaration.name()[0] == "v" and len(parts) == 1:
                values[int(parts[0])] = model[declaration].as_long()
        return Answer("sat", values)

    def _lemma(self, factor: Polynomial, other: Polynomial) -> tuple[str, frozenset[Monomial]]:
        """Returns what signs say of a product, and the products in that, made once."""
        found = self._lemmas.get((factor, other))
        if found is None:
            formulas = product_lemmas(factor, other)
            products = frozenset(monomial for each in polynomials_of(formulas) for monomial, _ in each if len(monomial) > 1)
            found = self._lemmas[factor, other] = self._formula(both(*formulas)), products
        return found

    def _range_of(self, atom: int) -> Range:
        return self._terms.atoms[atom].low, self._terms.atoms[atom].high

    def _bounded(self, factor: Polynomial, other: Polynomial, ends: Range) -> str:
        """Returns what the limits of a factor say of a product, made once."""
        key = (factor, other, ends)
        found = self._limited.get(key)
        if found is None:
            found = self._limited[key] = self._formula(both(*bounded_lemmas(factor, other, ends)))
        return found

    def _small_factors(self, monomial: Monomial) -> tuple[str, frozenset[Monomial]]:
        """Returns what a product is for each value of a factor that has few, and the products in that, made once."""
        key = (Polynomial([(monomial, 1)]), ONE)
        found = self._lemmas.get(key)
        if found is None:
            formulas = list(small_factors(self._terms, monomial))
            products = frozenset(product for each in polynomials_of(formulas) for product, _ in each if len(product) > 1)
            found = self._lemmas[key] = self._formula(both(*formulas)), products
        return found

    def _range(self, monomial: Monomial) -> str:
        """Returns what the range of a product says of it, made once."""
        found = self._ranges.get(monomial)
        if found is None:
            low, high = self._terms.range(Polynomial([(monomial, 1)]))
            name = _name(monomial)
            parts = [] if low is None else [f"(>= {name} {_number(low)})"]
            parts += [] if high is None else [f"(<= {name} {_number(high)})"]
            found = self._ranges[monomial] = "true" if not parts else f"(and {' '.join(parts)})"
        return found

    def _with_facts(self, formulas: list[Formula]) -> set[int]:
        """Adds the facts of all atoms and flags, and the orders of elements, to the formulas, and returns the atoms."""
        seen: set[int] = set()
        flags: set[int] = set()
        elements = self._terms.elements
        related: set[Formula] = set()
        at = 0
        while at < len(formulas):
            for flag in flags_of((formulas[at],)):
                if flag not in flags:
                    flags.add(flag)
                    formulas += self._terms.flag_facts(flag)
            for polynomial in polynomials_of((formulas[at],)):
                for atom in polynomial.atoms:
                    if atom not in seen:
                        seen.add(atom)
                        formulas += self._terms.atoms[atom].facts
            at += 1
            if at == len(formulas):  # what an order says of two elements may be about more atoms, with facts of their own
                loaded = {atom: elements[atom] for atom in seen & elements.keys()}
                counted = {atom: self._terms.counted[atom] for atom in seen & self._terms.counted.keys()}
                new = [each for each in (*orders(loaded), *relations(counted)) if each not in related]
                related.update(new)
                formulas += new
        return seen

    def _formula(self, formula: Formula) -> str:
        """Returns a formula in SMT-LIB, made once."""
        found = self._texts.get(formula)
        if found is None:
            found = self._texts[formula] = self._written(formula)
        return found

    def _written(self, formula: Formula) -> str:
        match formula:
            case Truth(value):
                return "true" if value else "false"
            case AtMost(polynomial):
                whole, rest = polynomial.split(polynomial.divisor)
                # divisor * x + rest <= 0 is x <= -rest / divisor, rounded down; split leaves 0 <= rest < divisor.
                return _compared("<=", whole + (1 if rest.terms else 0))
            case Equal(polynomial):
                digits = [equal(each, 0) for each in self._terms.digits(polynomial)]
                if len(digits) > 1:
                    return self._formula(both(*digits))
                return _compared("=", polynomial)
            case Flag(number):
                return f"b{number}"
            case Both(parts) | Either(parts):
                joined = " ".join([self._part(part) for part in parts])
                return f"({'and' if isinstance(formula, Both) else 'or'} {joined})"
            case Not(part):
                return f"(not {self._part(part)})"

    def _part(self, formula: Formula) -> str:
        """Returns a part of a formula; what compares is met in many of them, and what joins in few."""
        return self._formula(formula) if isinstance(formula, AtMost | Equal) else self._written(formula)


@functools.lru_cache(maxsize=1 << 14)
def _name(monomial: Monomial) -> str:
    return "v" + "_".join(map(str, monomial))


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def _compared(relation: str, polynomial: Polynomial) -> str:
    """Returns that a polynomial with atoms is at most, or is, 0."""
    parts = [
        _name(monomial) if factor == 1 else f"(* {_number(factor)} {_name(monomial)})"
        for monomial, factor in polynomial if monomial
    ]  # fmt: skip
    left = parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
    return f"({relation} {left} {_number(-polynomial.constant_part)})"


def _steps(solver: Any) -> int:
    statistics = solver.statistics()
    return int(statistics.get_key_value("rlimit count")) if "rlimit count" in statistics.keys() else 0  # noqa: SIM118


def _flattened(formulas: Iterable[Formula]) -> Iterator[Formula]:
    for formula in formulas:
        match formula:
            case Truth(True):
                continue
            case Both(parts):
                yield from _flattened(parts)
            case _:
                yield formula


__all__ = ["DEFAULT_LIMIT", "Answer", "Budget", "Solver", "load_z3"]
