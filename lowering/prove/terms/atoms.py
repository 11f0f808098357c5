"""Keeps the atoms of polynomials: their ranges, and the facts that define quotients, choices and the like.

An atom stands for one integer. Equal definitions give one atom, so that a quotient of sizes is the same in the grid, in the
kernel and in two programs.

Facts only ever define: whatever numbers the other atoms in them are, some number is the new one, so that no fact excludes a
run. What an atom may differ by is its `depends`, and nothing in its facts may depend on more; `Terms.atom` refuses that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from math import gcd

from ....promotion.dataclass import dataclass
from ....promotion.errors import InternalError
from .counts import Counted, Prefix
from .formulas import (
    Flag,
    Formula,
    Truth,
    at_least,
    at_most,
    both,
    either,
    equal,
    flags_of,
    implies,
    less,
    negated,
    polynomials_of,
)
from .orders import Element, Meaning
from .polynomials import ONE, ZERO, Monomial, Polynomial, TooLarge, constant, variable

Range = tuple[int | None, int | None]
"""(lowest, highest), both included; None: no bound."""

PROGRAM, LANE = "program", "lane"
"""What an atom may depend on besides loops: the program, and the lane of a block."""
MAX_ATOMS = 20_000
_MAX_SHIFT = 64
_MAX_NAME = 120


@dataclass(slots=True)
class Atom:
    """One unknown integer. facts: what holds of it.

    Attributes:
        depends: by what it may differ: PROGRAM, LANE, and the loops with an iteration of their own in it. What depends on
            nothing is one number for all programs: sizes, and what is made of them.
        meaning: what memory has to do with it.
    """

    name: str
    low: int | None
    high: int | None
    depends: frozenset[Hashable]
    facts: tuple[Formula, ...] = field(default=())
    meaning: Meaning | None = None


class Terms:
    """The atoms and flags of one proof.

    All conditions, programs and properties share them. What is said of an atom is said when it is made, and of whatever asks
    for one with the same key it must be the same: nothing here is ever replaced.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._numbers: dict[Hashable, int] = {}
        self._flags: dict[Hashable, int] = {}
        self.flag_names: list[str] = []
        self._flag_depends: list[frozenset[Hashable]] = []
        self._flag_facts: list[tuple[Formula, ...]] = []
        self.loaded: dict[int, int] = {}
        """Atoms that are elements of arrays: the position of the parameter."""
        self.addresses: dict[int, int] = {}
        """Atoms that are addresses of arrays: the base of pointers behind them."""
        self.targets: list[tuple[int, Polynomial]] = []
        """Arrays that elements of others are addresses of: the position of the parameter with these elements, and bytes."""
        self.elements: dict[int, Element] = {}
        """Atoms that are elements of arrays whose elements have an order."""
        self.counted: dict[int, Counted] = {}
        """Atoms that counters held, or that scans made."""
        self.is_proven: Callable[[Formula], bool] = lambda formula: False
        self._ranges: dict[Monomial, Range] = {}
        self.divisions: dict[int, tuple[Polynomial, Polynomial, Polynomial]] = {}
        """Quotients and remainders by a size: the number that is divided, the divisor and the remainder."""
        self.below: dict[int, Polynomial] = {}
        """Indices from 0 on: programs, and their quotients and remainders by what divides the number of them. What they are
        less than."""
        self._divided: dict[int | None, tuple[Polynomial, int]] = {}
        """Atoms that are quotients by numbers: of what, and by which."""
        self._quotients: dict[Polynomial, list[tuple[int, int, Polynomial]]] = {}
        """By a sum without its constant: that, a number, and the quotient by it."""
        self._nested: set[tuple[Polynomial, int]] = set()
        self._extremes: dict[int, tuple[Polynomial, Polynomial, Callable[[Polynomial, Polynomial], Formula]]] = {}
        """Atoms that are minima and maxima: of which two, and how the one that it is compares with the other one."""

    def atom(
        self, key: Hashable, name: str, low: int | None = None, high: int | None = None,
        depends: Iterable[Hashable] = (), facts: Callable[[Polynomial], Sequence[Formula]] | None = None,
        meaning: Meaning | None = None,
    ) -> Polynomial:  # fmt: skip
        """Returns the atom of this key, which is made at the first call. facts: what defines it, made once.

        The key holds all that range, facts and meaning are made of.
        """
        number = self._numbers.get(key)
        if number is None:
            number = len(self.atoms)
            if number >= MAX_ATOMS:
                raise TooLarge
            if low is not None and high is not None and low > high:
                raise InternalError(f"prove: {name} could be no number: {low} is above {high}")
            self._numbers[key] = number
            made = Atom(_shortened(name), low, high, frozenset(depends), meaning=meaning)
            self.atoms.append(made)
            if meaning is not None:
                self._note(number, made, meaning)
            if facts is not None:
                found = tuple([each for each in facts(variable(number)) if not isinstance(each, Truth)])
                self._check(made.name, made.depends, found)
                made.facts = found
        elif self.atoms[number].meaning != meaning:
            raise InternalError(f"prove: {self.atoms[number].name} is two different numbers of memory")
        return variable(number)

    def _note(self, number: int, made: Atom, meaning: Meaning) -> None:
        element = meaning.element
        if element is not None:
            if not self.depends(element.offset) | self.formula_depends(element.live) <= made.depends:
                raise InternalError(f"prove: where {made.name} is loaded depends on more than what it is about")
            self.elements[number] = element
        if meaning.counted is not None:
            self._check(made.name, made.depends, _said(meaning.counted))
            self.counted[number] = meaning.counted
        if meaning.array is not None:
            self.loaded[number] = meaning.array
        if meaning.target is not None:
            self.addresses[number] = meaning.target

    def _check(self, name: str, depends: frozenset[Hashable], facts: Sequence[Formula]) -> None:
        for each in facts:
            if not self.formula_depends(each) <= depends:
                raise InternalError(f"prove: a fact of {name} depends on more than what it is about")

    def target(self, array: int, size: Polynomial) -> int:
        """Returns the base of pointers into an array whose address is an element of a parameter's array.

        Arrays of one base are not the same one, but have equally many bytes.
        """
        if (array, size) not in self.targets:
            self.targets.append((array, size))
        return -2 - self.targets.index((array, size))

    def target_of(self, base: int) -> tuple[int, Polynomial] | None:
        """Returns the parameter with the addresses, and the bytes of the array, for the base of pointers into a target."""
        return self.targets[-2 - base] if base <= -2 else None

    def number_of(self, key: Hashable) -> int | None:
        """Returns the number of an atom that exists already."""
        return self._numbers.get(key)

    def quotients(self) -> Iterator[tuple[Polynomial, Polynomial]]:
        """Yields the divisions that were made: (number, divisor)."""
        for key in self._numbers:
            if isinstance(key, tuple) and key[0] in ("quotient", "truncated quotient"):
                yield key[1], key[2]

    def choices(self) -> Iterator[tuple[int, Polynomial, Polynomial]]:
        """Yields the atoms that are one of two numbers by a condition, with these."""
        return self._of_two("chosen")

    def extremes(self) -> Iterator[tuple[int, Polynomial, Polynomial]]:
        """Yields the atoms that are the minimum or the maximum of two numbers, with these."""
        return self._of_two("smaller", "larger")

    def _of_two(self, *kinds: str) -> Iterator[tuple[int, Polynomial, Polynomial]]:
        for key, number in self._numbers.items():
            if isinstance(key, tuple) and key[0] in kinds:
                yield number, key[-2], key[-1]

    def flag(
        self, key: Hashable, name: str, depends: Iterable[Hashable] = (),
        facts: Callable[[Formula], Sequence[Formula]] | None = None,
    ) -> int:  # fmt: skip
        """Returns the number of the flag of this key. facts: what holds of it, made once."""
        number = self._flags.get(key)
        if number is None:
            number = self._flags[key] = len(self.flag_names)
            self.flag_names.append(name)
            self._flag_depends.append(frozenset(depends))
            self._flag_facts.append(())
            if facts is not None:
                found = tuple(facts(Flag(number)))
                self._check(name, self._flag_depends[number], found)
                self._flag_facts[number] = found
        return number

    def flag_depends(self, number: int) -> frozenset[Hashable]:
        """Returns the loops of which a flag may differ from iteration to iteration."""
        return self._flag_depends[number]

    def flag_facts(self, number: int) -> tuple[Formula, ...]:
        """Returns what holds of a flag."""
        return self._flag_facts[number]

    def named(self, formula: Formula) -> Formula:
        """Returns a flag that holds where a formula does, so that what it is a part of stays short."""
        facts = lambda made: (implies(made, formula), implies(formula, made))  # noqa: E731
        return Flag(self.flag(("named", formula), "condition", self.formula_depends(formula), facts))

    def name(self, atom: int) -> str:
        return self.atoms[atom].name

    def text(self, polynomial: Polynomial) -> str:
        return polynomial.text(self.name)

    # What is known of polynomials

    def range(self, polynomial: Polynomial) -> Range:
        """Returns bounds of the polynomial by those of its atoms."""
        low: int | None = 0
        high: int | None = 0
        for monomial, factor in polynomial:
            least, most = self._monomial(monomial)
            if factor < 0:
                least, most = most, least
            low = None if low is None or least is None else low + factor * least
            high = None if high is None or most is None else high + factor * most
        return low, high

    def _monomial(self, monomial: Monomial) -> Range:
        if not monomial:
            return 1, 1
        found = self._ranges.get(monomial)
        if found is None:
            atom = self.atoms[monomial[0]]
            own = (atom.low, atom.high)
            found = own if len(monomial) == 1 else _product(own, self._monomial(monomial[1:]))
            self._ranges[monomial] = found
        return found

    def fits(self, polynomial: Polynomial, low: int, high: int) -> bool:
        """Returns whether bounds of the atoms alone show low <= polynomial <= high."""
        least, most = self.range(polynomial)
        return least is not None and most is not None and low <= least and most <= high

    def is_non_negative(self, polynomial: Polynomial) -> bool:
        """Returns whether the polynomial is known to be 0 or more, by ranges or, for sizes, by the assumptions."""
        low, high = self.range(polynomial)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0:
            return False
        return not self.depends(polynomial) and self.is_proven(at_least(polynomial, 0))

    def depends(self, *polynomials: Polynomial) -> frozenset[Hashable]:
        """Returns the loops of which polynomials may differ from iteration to iteration."""
        found: set[Hashable] = set()
        for polynomial in polynomials:
            for atom in polynomial.atoms:
                found |= self.atoms[atom].depends
        return frozenset(found)

    def formula_depends(self, formula: Formula) -> frozenset[Hashable]:
        """Returns the loops of which a formula may differ from iteration to iteration."""
        found = set(self.depends(*polynomials_of((formula,))))
        for flag in flags_of((formula,)):
            found |= self._flag_depends[flag]
        return frozenset(found)

    def digits(self, polynomial: Polynomial) -> list[Polynomial]:
        """Returns polynomials that are all 0 exactly where this one is: 64 x + y is 0, for |y| < 64, where x and y are."""
        for factor in sorted({abs(factor) for monomial, factor in polynomial if monomial})[1:]:
            low = Polynomial([term for term in polynomial if term[1] % factor])
            if low.terms and self.fits(low, 1 - factor, factor - 1):
                high, _ = (polynomial - low).split(factor)
                return [low, *self.digits(high)]
        return [polynomial]

    # Defined numbers

    def floor_parts(self, value: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Returns quotient and remainder of a division that rounds down, by a divisor of at least 1."""
        number = divisor.number
        whole = ZERO
        if number is not None and number < 1:
            raise InternalError(f"prove: a quotient by {number} is none that rounds down")
        if number is not None:
            whole, value = self._reduced(value, number)
            if self.fits(value, 0, number - 1):
                return whole, value
            common = gcd(value.divisor, number)
            if common > 1:  # (2 n + 1023) // 1024 is (n + 511) // 512: one number has one atom
                least_part = value.constant_part % common
                quotient, rest = self.floor_parts((value - least_part).split(common)[0], constant(number // common))
                return whole + quotient, rest * common + least_part
            inner = self._divided.get(_only_atom(value))
            if inner is not None and (value, number) not in self._nested:  # (n // 2 + 255) // 256 is (n + 510) // 512
                quotient, _ = self.floor_parts(inner[0] + value.constant_part * inner[1], constant(number * inner[1]))
                rest = self.atom(
                    ("rest", value, divisor), f"({self.text(value)} % {number})", 0, number - 1, self.depends(value),
                    lambda made: [equal(value, quotient * number + made)],
                )  # fmt: skip
                return whole + quotient, rest
            if (nested := self._as_nested(value, number)) is not None:
                return whole + nested[0], nested[1]
        low, high = self.range(value)
        least, most = self.range(divisor)
        ends = [None if end is None else end // (least or 1) if number is not None else end for end in (low, high)]
        if number is None:  # a divisor of 1 or more brings the quotient nearer to 0
            ends = [None if low is None else min(low, 0), None if high is None else max(high, 0) // max(least or 1, 1)]
            if high is not None and high < 0:
                ends[1] = -1
        parts = self._parts(value, divisor)
        if parts is not None:
            ends = [0, _smaller(ends[1], self._last_below(parts))]
        depends = self.depends(value, divisor)
        name = f"({self.text(value)} // {self.text(divisor)})"

        def facts(quotient: Polynomial) -> Sequence[Formula]:
            rest = self.atom(
                ("rest", value, divisor), f"({self.text(value)} % {self.text(divisor)})", 0,
                None if most is None else most - 1, depends,
            )  # fmt: skip
            found = [equal(value, divisor * quotient + rest), less(rest, divisor)]
            if number is None:
                is_positive_or_0 = at_least(value, 0)
                found += [
                    implies(is_positive_or_0, both(at_least(quotient, 0), at_most(quotient, value), at_most(rest, value))),
                    implies(both(is_positive_or_0, less(value, divisor)), equal(quotient, 0)),
                ]
            return found

        quotient = self.atom(("quotient", value, divisor), name, ends[0], ends[1], depends, facts)
        if number is not None:
            self._divided[next(iter(quotient.atoms))] = value, number
            known = self._quotients.setdefault(value - value.constant_part, [])
            known += [each for each in [(value.constant_part, number, quotient)] if each not in known]
        rest = self.atom(("rest", value, divisor), "")
        # The remainder alone needs the definition, too.
        self.atoms[next(iter(rest.atoms))].facts = self.atoms[next(iter(quotient.atoms))].facts
        if number is None:
            self.divisions |= dict.fromkeys([*quotient.atoms, *rest.atoms], (value, divisor, rest))
        if parts is not None:
            self.below |= {next(iter(quotient.atoms)): parts, next(iter(rest.atoms)): divisor}
        return whole + quotient, rest

    def _parts(self, index: Polynomial, divisor: Polynomial) -> Polynomial | None:
        """Returns what a quotient is less than: of an index that is less than a multiple of the divisor, by how much it is.

        If either of the two is not negative, both are 1 or more where there is an index at all.
        """
        bound = self.below.get(next(iter(index.atoms))) if len(index.atoms) == 1 else None
        if bound is None or index != variable(next(iter(index.atoms))):
            return None
        parts = bound.exact_quotient(divisor)
        is_known = parts is not None and (self.is_non_negative(divisor) or self.is_non_negative(parts))
        return parts if is_known else None

    def _last_below(self, bound: Polynomial) -> int | None:
        """Returns the largest number that is less than a bound, as far as ranges say; 0 if there is none at all."""
        _, most = self.range(bound)
        return None if most is None else max(most - 1, 0)

    def _reduced(self, value: Polynomial, number: int) -> tuple[Polynomial, Polynomial]:
        """Returns (whole, rest): value = number * whole + rest, where coefficients of the rest are from 0 on.

        Its constant is less if quotients by the number begin with 0 then: of n - 2 by 3 for n >= 2, where n + 1 has 1 at least.
        """
        whole, rest = value.split(number)
        least, _ = self.range(rest)
        if least is not None and least >= number:
            whole, rest = whole + least // number, rest - least // number * number
        return whole, rest

    def _as_nested(self, value: Polynomial, number: int) -> tuple[Polynomial, Polynomial] | None:
        """Returns the quotient and remainder by a number where a quotient by a part of that is known.

        (n + 510) // 512 is (n // 2 + 255) // 256 beside n // 2: what n is does not matter any more.
        """
        given = value.constant_part
        known = self._quotients.get(value - given, ())
        if any(own == given and divisor == number for own, divisor, _ in known):  # one number has one atom
            return None
        parts = [each for each in known if number % each[1] == 0 and (given - each[0]) % each[1] == 0]
        if not parts:
            return None
        own, divisor, quotient = parts[0]
        inner, factor = quotient + (given - own) // divisor, number // divisor
        self._nested.add((self._reduced(inner, factor)[1], factor))
        found, _ = self.floor_parts(inner, constant(factor))
        rest = self.atom(
            ("rest", value, constant(number)), f"({self.text(value)} % {number})", 0, number - 1, self.depends(value),
            lambda made: [equal(value, found * number + made)],
        )  # fmt: skip
        return found, rest

    def truncated_parts(self, value: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Returns quotient and remainder of joinery's signed division: toward zero, x / 0 = 0 and x % 0 = x."""
        number = divisor.number
        if number == 0:
            return ZERO, value
        if number is not None and number < 0:
            quotient, rest = self.truncated_parts(value, -divisor)
            return -quotient, rest
        is_positive = number is not None or self.is_non_negative(divisor - 1)
        if is_positive and self.is_non_negative(value):
            return self.floor_parts(value, divisor)
        low, high = self.range(value)
        most = max(abs(low), abs(high)) if low is not None and high is not None else None
        least = None if low is None else min(low, 0)
        greatest = None if high is None else max(high, 0)
        if number is not None:
            least = max(1 - number, 1 - number if least is None else least)
            greatest = min(number - 1, number - 1 if greatest is None else greatest)
        depends = self.depends(value, divisor)
        names = self.text(value), self.text(divisor)
        lowest = None if most is None else -most
        has_sign = self.is_non_negative(value) and self.is_non_negative(divisor)
        if has_sign:  # a divisor of 0 leaves 0, and the value as rest
            lowest = least = 0
        parts = self._parts(value, divisor)
        if parts is not None:
            lowest, least = 0, 0
            most = _smaller(most, self._last_below(parts))

        def facts(quotient: Polynomial) -> Sequence[Formula]:
            rest = self.atom(
                ("truncated rest", value, divisor, has_sign), f"rem({names[0]}, {names[1]})",
                least, greatest, depends,
            )  # fmt: skip
            above, below = at_least(value, 0), at_most(value, 0)
            positive, negative = at_least(divisor, 1), at_most(divisor, -1)
            return [
                equal(value, divisor * quotient + rest),
                implies(above, both(at_least(rest, 0), at_most(rest, value))),
                implies(below, both(at_most(rest, 0), at_least(rest, value))),
                implies(both(above, positive), both(less(rest, divisor), at_least(quotient, 0), at_most(quotient, value))),
                implies(both(below, positive), both(less(-rest, divisor), at_most(quotient, 0), at_least(quotient, value))),
                implies(both(above, negative), both(less(rest, -divisor), at_most(quotient, 0))),
                implies(both(below, negative), both(less(-rest, -divisor), at_least(quotient, 0))),
                implies(equal(divisor, 0), both(equal(quotient, 0), equal(rest, value))),
            ]

        key = ("truncated quotient", value, divisor, has_sign)
        quotient = self.atom(key, f"div({names[0]}, {names[1]})", lowest, most, depends, facts)
        rest = self.atom(("truncated rest", value, divisor, has_sign), "")
        self.atoms[next(iter(rest.atoms))].facts = self.atoms[next(iter(quotient.atoms))].facts
        if parts is not None:
            self.below |= {next(iter(quotient.atoms)): parts, next(iter(rest.atoms)): divisor}
        self.divisions |= dict.fromkeys([*quotient.atoms, *rest.atoms], (value, divisor, rest))
        return quotient, rest

    def chosen(self, condition: Formula, yes: Polynomial, no: Polynomial) -> Polynomial:
        """Returns `yes` where the condition holds, else `no`."""
        if yes == no:
            return yes
        if isinstance(condition, Truth):
            return yes if condition.value else no
        one, two = self.range(yes), self.range(no)
        return self.atom(
            ("chosen", condition, yes, no), f"({self.text(yes)} or {self.text(no)})", _least(one[0], two[0]),
            _most(one[1], two[1]), self.depends(yes, no) | self.formula_depends(condition),
            lambda made: (implies(condition, equal(made, yes)), implies(negated(condition), equal(made, no))),
        )  # fmt: skip

    def smaller(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Returns the minimum."""
        return self._extreme(left, right, True)

    def larger(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Returns the maximum."""
        return self._extreme(left, right, False)

    def _extreme(self, left: Polynomial, right: Polynomial, is_least: bool) -> Polynomial:
        if left == right:
            return left
        (one, two), (three, four) = self.range(left), self.range(right)
        if two is not None and three is not None and two <= three:
            return left if is_least else right
        if four is not None and one is not None and four <= one:
            return right if is_least else left
        for end, other in ((left, right), (right, left)):
            if end.number is not None and other.constant_part:  # max(n - 2, 0) is max(n, 2) - 2: one number has one atom
                shift = other.constant_part
                return self._extreme(other - shift, end - shift, is_least) + shift
        left, right = sorted((left, right), key=lambda each: each.terms)
        ends = (_least(one, three), _smaller(two, four)) if is_least else (_larger(one, three), _most(two, four))
        relation = at_most if is_least else at_least
        found = self.atom(
            ("smaller" if is_least else "larger", left, right),
            f"{'min' if is_least else 'max'}({self.text(left)}, {self.text(right)})", *ends, self.depends(left, right),
            lambda made: (relation(made, left), relation(made, right), either(equal(made, left), equal(made, right))),
        )  # fmt: skip
        self._extremes[next(iter(found.atoms))] = left, right, relation
        return found

    def same(self, left: Polynomial, right: Polynomial) -> Formula:
        """Returns that two numbers are equal: of a maximum and one of what it is of, that this is not less than the other."""
        difference = left - right
        for atom in sorted(difference.atoms & self._extremes.keys()):
            one, two, relation = self._extremes[atom]
            times = difference.group(atom).number
            for own, other in ((one, two), (two, one)):
                if times is not None and difference == (variable(atom) - own) * times:
                    return relation(own, other)
        return equal(left, right)

    def unsigned(self, value: Polynomial, width: int) -> Polynomial:
        """Returns the number that the bits of a signed one are when they are read as unsigned."""
        if self.is_non_negative(value):
            return value
        return self.chosen(at_least(value, 0), value, value + (1 << width))

    def power_of_two(self, exponent: Polynomial) -> Polynomial:
        """Returns 2 ** exponent for an exponent whose range is known and small; raises `TooLarge` for others."""
        low, high = self.range(exponent)
        if low is None or high is None or low < 0 or high >= _MAX_SHIFT:
            raise TooLarge
        if low == high:
            return constant(1 << low)
        return self.atom(
            ("power", exponent), f"2**({self.text(exponent)})", 1 << low, 1 << high, self.depends(exponent),
            lambda made: [implies(equal(exponent, each), equal(made, 1 << each)) for each in range(low, high + 1)],
        )

    def wrapped(self, value: Polynomial, width: int) -> Polynomial:
        """Returns the signed number of this width that the value wraps to, in any run."""
        half = 1 << (width - 1)
        if self.fits(value, -half, half - 1):
            return value
        depends = self.depends(value)
        low, high = [None if end is None else (end + half) >> width for end in self.range(value)]

        def facts(made: Polynomial) -> Sequence[Formula]:
            times = self.atom(("wraps", value, width), f"wraps({self.text(value)})", low, high, depends)
            return (equal(made + times * (1 << width), value),)

        name = f"wrap{width}({self.text(value)})"
        return self.atom(("wrapped", value, width), name, -half, half - 1, depends, facts)


def _said(counted: Counted) -> tuple[Formula, ...]:
    """Returns formulas with all that is said of a number that was counted."""
    if isinstance(counted, Prefix):
        numbers = (counted.lane, counted.value, counted.total, *counted.run)
    else:
        numbers = (counted.amount, *counted.program)
    return (counted.live, *[equal(each, 0) for each in numbers])


def _only_atom(polynomial: Polynomial) -> int | None:
    """Returns the atom of a sum of one atom and a number; None for others."""
    others = [(monomial, factor) for monomial, factor in polynomial if monomial]
    return others[0][0][0] if len(others) == 1 and others[0][1] == 1 and len(others[0][0]) == 1 else None


def _shortened(name: str) -> str:
    """Returns a name that is no longer than what people read: names are made of names, twice as long with each operation."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."


def _product(one: Range, two: Range) -> Range:
    if None not in (*one, *two):
        found = [x * y for x in one for y in two]  # type: ignore[operator]
        return min(found), max(found)
    if one[0] is not None and two[0] is not None and one[0] >= 0 and two[0] >= 0:
        return one[0] * two[0], None
    return None, None


def _least(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else min(one, two)


def _smaller(one: int | None, two: int | None) -> int | None:
    """Returns the smaller one of the ends that are known."""
    known = [each for each in (one, two) if each is not None]
    return min(known) if known else None


def _larger(one: int | None, two: int | None) -> int | None:
    """Returns the larger one of the ends that are known."""
    known = [each for each in (one, two) if each is not None]
    return max(known) if known else None


def _most(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else max(one, two)


__all__ = ["LANE", "MAX_ATOMS", "ONE", "PROGRAM", "Atom", "Range", "Terms"]
