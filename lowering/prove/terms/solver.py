"""Asks z3 whether formulas can hold together, in linear arithmetic with lemmas about products.

z3 comes with the extra `joinery-graph[prove]`, and loads when the first question is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....promotion.dataclass import dataclass
from .atoms import Range, Terms
from .counts import MAX_COUNTED, relations
from .formulas import (
    FALSE,
    TRUE,
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
    is_linear,
    polynomials_of,
)
from .lemmas import (
    MAX_PAIRS,
    FewValues,
    Lemma,
    Limits,
    Multiples,
    Signs,
    Values,
    few_values,
    multiples,
    products_in,
)
from .limits import limits
from .models import Model, Models
from .orders import MAX_ELEMENTS, orders
from .polynomials import Monomial, Polynomial, TooLarge
from .questions import Context, Question, load_z3, name

DEFAULT_LIMIT = 2_000_000
"""Steps of z3's resource count for one question: about a second, ten at most, and the same on every machine."""
_MIN_STEPS = 20_000
_STEPS_A_LETTER = 3
"""What a question counts at least, and for each letter of it: making it takes time, too."""
_STEPS_A_ROUND = 10_000
_STEPS_A_LEMMA = 40
"""What a question counts each time that it is asked again, and for each lemma that is looked at then."""
_MAX_BITS = 8192
"""Most bits of a number in a question: Python writes no longer ones than 4300 digits."""
_MAX_LEMMAS = 60
"""Most lemmas that are added at once."""
_FEW_LEMMAS = 48
"""Most lemmas of a question of whose products more is said by the numbers that z3 found."""
_STEPS_A_MODEL = 10_000
"""What a question counts that the numbers of another one answer."""
_MAX_ROUNDS, _MAX_MULTIPLES = 2, 20
"""How often that is, and of how many products at once."""
_MAX_EARLY_STEPS, _FEW_STEPS = 50_000, 400_000
"""Most steps until all lemmas are said: with few of them z3 may search without end where all of them leave nothing to find. So
few steps as guesses have for a question are all for that: what is not decided then is asked anew. Nor are their questions
answered by the numbers of others: what z3 has read decides on its luck, and one guess was worse for it."""


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
    """What z3 says.

    Attributes:
        verdict: "unsat", "sat" or "unknown".
        model: values of atoms, if products are those of their factors.
        unneeded: conditions without which it is "unsat" as well.
    """

    verdict: str
    model: dict[int, int]
    unneeded: frozenset[Formula] = frozenset()


_UNSAT, _UNKNOWN, _SAT = Answer("unsat", {}), Answer("unknown", {}), Answer("sat", {})


class Solver:
    """Questions about the atoms of one proof. None is asked that others have answered.

    Attributes:
        budget: what questions take their steps from.
        conditions: formulas without which others ask the same. What is impossible without one of them is known to be so there.
        asked: the number of questions, and `steps` how much of z3's resource count they took.
    """

    def __init__(self, terms: Terms, budget: Budget) -> None:
        load_z3()
        self._context: Context | None = None  # of its own, so that what was asked before in this process changes nothing
        self._terms = terms
        self.budget = budget
        self.conditions: set[Formula] = set()
        self._known: dict[tuple[frozenset[Formula], bool], Answer] = {}
        self._answered: dict[tuple[Formula, str, bool], list[frozenset[Formula]]] = {}
        self._texts: dict[Formula, str] = {}
        self._signs: dict[tuple[Polynomial, Polynomial], Signs] = {}
        self._limited: dict[tuple[Polynomial, Polynomial, Range], Limits] = {}
        self._beside: dict[tuple[Polynomial, Polynomial, int], Multiples] = {}
        self._few: dict[Monomial, FewValues | None] = {}
        self._lemmas: dict[tuple[Lemma, int], str] = {}
        self._ranges: dict[Monomial, str] = {}
        self._rests_on_conditions = False  # whether lemmas of the last question do
        self._is_cut = False  # whether the last question was asked without something that is known
        self._models = Models()
        self.asked = 0
        self.steps = 0

    def is_impossible(
        self, *formulas: Formula, bounded: bool = False, whole: frozenset[int] | None = None, share: int = 1
    ) -> bool:  # fmt: skip
        """Returns whether the formulas are shown not to hold together.

        Args:
            bounded: with what limits of single numbers say of their products, which is for sums that wrap beyond a number.
                Elsewhere it would make sizes that are fixed as good as those that are not, and guesses would prefer them.
            whole: atoms of which all facts are said; of others those without products. None: of all atoms all facts.
            share: the question may take the limit divided by this.
        """
        if whole is not None or share > 1:
            parts = list(dict.fromkeys(_flattened(formulas)))
            return FALSE in parts or self._ask(parts, bounded=bounded, whole=whole, share=share).verdict == "unsat"
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
        listed = list(dict.fromkeys(_flattened(formulas)))
        parts = frozenset(listed)
        if FALSE in parts:
            return _UNSAT
        found = self._known.get((parts, bounded))
        if found is None:
            found = self._implied(listed, parts, bounded)
            if found is None:
                found = self._ask([*listed], bounded=bounded)
                if listed and (found.verdict == "unsat" or (found.verdict == "sat" and not self._is_cut)):
                    self._answered.setdefault((listed[-1], found.verdict, bounded), []).append(parts - found.unneeded)
            self._known[parts, bounded] = found
        return found

    def _implied(self, formulas: Sequence[Formula], parts: frozenset[Formula], bounded: bool) -> Answer | None:
        """Returns what earlier answers say: more than what cannot hold together cannot, and fewer than what can do.

        The latter counts where all was said that is known of the formulas: fewer of them may leave room for more of it.
        Looked at are questions with one of these formulas as their last one, which is the claim that is asked about.
        """
        for each in formulas:
            for known in self._answered.get((each, "unsat", bounded), ()):
                if known <= parts:
                    return _UNSAT
        for known in self._answered.get((formulas[-1], "sat", bounded), ()) if formulas else ():
            if parts <= known:
                return _SAT
        return None

    def _ask(
        self, formulas: list[Formula], exact: bool = False, share: int = 1, bounded: bool = False,
        whole: frozenset[int] | None = None,
    ) -> Answer:  # fmt: skip
        if self.budget.is_spent:
            return _UNKNOWN
        self._is_cut = self._rests_on_conditions = False
        claim = formulas[-1] if formulas else TRUE
        conditions = {self._formula(each): each for each in formulas if each in self.conditions and each != claim}
        atoms = sorted(self._with_facts(formulas, whole))
        polynomials = list(dict.fromkeys(polynomials_of(formulas)))
        products = {monomial for each in polynomials for monomial, _ in each if len(monomial) > 1}
        limit = max(1, self.budget.limit // share)
        if not exact and limit >= _FEW_STEPS and self._is_satisfied(claim, formulas, atoms, polynomials, products, bounded):
            self.budget.take(_STEPS_A_MODEL)
            return _SAT
        if self._context is None:  # making one takes longer than most questions, and many a guess asks none
            self._context = Context()
        question = Question(self._context, limit, frozenset(conditions))
        self.asked += 1
        self._context.declare([(atom,) for atom in atoms], flags_of(formulas))
        asserted = [self._formula(formula) for formula in formulas]
        asserted += [self._range((atom,)) for atom in atoms]
        seen = 0
        if exact:
            for lemma in self._lemmas_of(formulas, polynomials, products, bounded):
                asserted += [self._lemma(lemma, number) for number in lemma.numbers()]
                products |= lemma.monomials
            asserted += [f"(= {name(each)} (* {' '.join([name((atom,)) for atom in each])}))" for each in sorted(products)]
        asserted += self._products(self._context, products)
        early = _MAX_EARLY_STEPS if question.limit >= _FEW_STEPS else question.limit
        verdict = question.ask(asserted, None if exact else early)
        if not exact and verdict != "unsat":
            lemmas = self._lemmas_of(formulas, polynomials, products, bounded)
            verdict = self._with_lemmas(question, self._context, claim, atoms, products, lemmas, early, verdict)
            seen = (question.rounds - 1) * len(lemmas)
        self.steps += question.steps
        again = (question.rounds - 1) * _STEPS_A_ROUND + seen * _STEPS_A_LEMMA
        self.budget.take(max(_MIN_STEPS, question.steps) + again + _STEPS_A_LETTER * question.letters)
        if verdict == "unsat":
            if self._rests_on_conditions or not conditions:
                return _UNSAT
            needed = question.needed()
            return Answer("unsat", {}, frozenset([each for text, each in conditions.items() if text not in needed]))
        if verdict == "unknown":
            return _UNKNOWN
        found = question.values() if exact else {}
        return Answer("sat", {atom: found.get((atom,), 0) for atom in atoms} if exact else {})

    def _with_lemmas(
        self, question: Question, context: Context, claim: Formula, atoms: list[int], products: set[Monomial],
        lemmas: list[Lemma], early: int, verdict: str,
    ) -> str:  # fmt: skip
        """Returns the verdict with all lemmas, of which only those are added that the numbers found without contradict.

        Nothing is left out: what cannot hold together with some lemmas cannot with all, and numbers are the answer only if no
        lemma contradicts them. Where nothing is found in `early` steps, it is asked anew with all lemmas, and all steps.
        """
        said = set[tuple[Lemma, int]]()

        def texts(new: Sequence[tuple[Lemma, int]]) -> list[str]:
            said.update(new)
            its = {monomial for lemma, _ in new for monomial in lemma.monomials} - products
            products.update(its)
            ranges = self._products(context, its)
            return [*[self._lemma(lemma, number) for lemma, number in new], *ranges]

        rounds = _MAX_ROUNDS if question.limit >= _FEW_STEPS and len(lemmas) <= _FEW_LEMMAS else 0
        left = rounds
        while verdict == "sat":
            values = dict.fromkeys([(atom,) for atom in atoms], 0) | question.values()
            found = [(each, number) for each in lemmas for number in each.wrong(values)]
            wrong = [each for each in found if each not in said][:_MAX_LEMMAS]
            if not wrong and left and question.steps <= early:
                left -= 1
                wrong = self._multiples(lemmas, values)
            if not wrong:
                self._models.add(claim, Model(values, question.flags()))
                return verdict
            verdict = question.ask(texts(wrong), early)
        if verdict == "unknown" and left < rounds:
            return "sat"  # as it was without what is said of numbers, which may take z3 long
        if verdict == "unknown":
            rest = [(each, number) for each in lemmas for number in each.numbers() if (each, number) not in said]
            verdict = question.ask_anew(texts(rest))
        return verdict

    def _is_satisfied(
        self, claim: Formula, formulas: list[Formula], atoms: list[int], polynomials: list[Polynomial], products: set[Monomial],
        bounded: bool,
    ) -> bool:  # fmt: skip
        """Returns whether numbers that were found for another question hold in this one, lemmas included."""
        ranges = {each: self._terms.range(Polynomial([(each, 1)])) for each in [*[(atom,) for atom in atoms], *products]}
        for values in self._models.satisfying(claim, formulas, ranges):
            lemmas = self._lemmas_of(formulas, polynomials, products, bounded)
            if not any(each.wrong(values) for each in lemmas):
                return True
        return False

    def _multiples(self, lemmas: Sequence[Lemma], values: Values) -> list[tuple[Lemma, int]]:
        """Returns what is to be said of products that are not those of the numbers that z3 found."""
        found: list[tuple[Lemma, int]] = []
        for pair in lemmas:
            made = multiples(pair, values) if isinstance(pair, Signs) else None
            if made is not None and len(found) < _MAX_MULTIPLES:
                made = self._beside.setdefault((made.factor, made.other, made.times), made)
                found += [(made, number) for number in made.wrong(values)]
        return found

    def _products(self, context: Context, products: set[Monomial]) -> list[str]:
        """Declares products, and returns what their ranges say."""
        context.declare(sorted(products))
        return [self._range(monomial) for monomial in sorted(products)]

    def _lemmas_of(
        self, formulas: list[Formula], polynomials: list[Polynomial], products: set[Monomial], bounded: bool
    ) -> list[Lemma]:  # fmt: skip
        """Returns what is known of the products in formulas that all hold."""
        pairs = products_in(polynomials)
        self._is_cut |= len(pairs) >= MAX_PAIRS
        ranges = limits(formulas, self._range_of) if pairs and bounded else {}
        if ranges and not self.conditions.isdisjoint(formulas):  # what is said unconditionally may follow from a condition
            without = limits([each for each in formulas if each not in self.conditions], self._range_of)
            self._rests_on_conditions = any(without.get(atom) != ranges.get(atom) for atom in ranges)
        found: list[Lemma] = []
        monomials = set(products)
        for factor, other in pairs:
            signs = self._signs.get((factor, other))
            if signs is None:
                signs = self._signs[factor, other] = Signs(factor, other)
            found.append(signs)
            monomials |= signs.monomials
            if bounded:
                (atom,) = factor.atoms
                key = (factor, other, ranges.get(atom) or self._range_of(atom))
                if key not in self._limited:
                    self._limited[key] = Limits(*key)
                found.append(self._limited[key])
        for monomial in sorted(monomials):
            if monomial not in self._few:
                self._few[monomial] = few_values(self._terms, monomial)
            if (few := self._few[monomial]) is not None:
                found.append(few)
        return found

    def _lemma(self, lemma: Lemma, number: int) -> str:
        """Returns a lemma in SMT-LIB, made once."""
        found = self._lemmas.get((lemma, number))
        if found is None:
            found = self._lemmas[lemma, number] = self._written(lemma.lemma(number))
        return found

    def _range_of(self, atom: int) -> Range:
        return self._terms.atoms[atom].low, self._terms.atoms[atom].high

    def _range(self, monomial: Monomial) -> str:
        """Returns what the range of a product says of it, made once."""
        found = self._ranges.get(monomial)
        if found is None:
            low, high = self._terms.range(Polynomial([(monomial, 1)]))
            variable = name(monomial)
            parts = [] if low is None else [f"(>= {variable} {_number(low)})"]
            parts += [] if high is None else [f"(<= {variable} {_number(high)})"]
            found = self._ranges[monomial] = "true" if not parts else f"(and {' '.join(parts)})"
        return found

    def _with_facts(self, formulas: list[Formula], whole: frozenset[int] | None = None) -> set[int]:
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
                        facts = self._terms.atoms[atom].facts
                        if whole is None or atom in whole:
                            formulas += facts
                        else:
                            formulas += [fact for fact in facts if is_linear(fact)]
            at += 1
            if at == len(formulas):  # what an order says of two elements may be about more atoms, with facts of their own
                loaded = {atom: elements[atom] for atom in seen & elements.keys()}
                counted = {atom: self._terms.counted[atom] for atom in seen & self._terms.counted.keys()}
                self._is_cut |= len(loaded) > MAX_ELEMENTS or len(counted) > MAX_COUNTED
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


def _number(value: int) -> str:
    if value.bit_length() > _MAX_BITS:
        raise TooLarge
    return str(value) if value >= 0 else f"(- {-value})"


def _compared(relation: str, polynomial: Polynomial) -> str:
    """Returns that a polynomial with atoms is at most, or is, 0."""
    parts = [
        name(monomial) if factor == 1 else f"(* {_number(factor)} {name(monomial)})"
        for monomial, factor in polynomial if monomial
    ]  # fmt: skip
    left = parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
    return f"({relation} {left} {_number(-polynomial.constant_part)})"


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
