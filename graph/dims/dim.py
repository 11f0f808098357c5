"""Represents sizes that are known only at launch: polynomials over named dims, kept canonical.

A `Dim` is `Σ coefficient · Π atom**power`. An atom is a name ("batch") or an opaque `Atom`: `floordiv(p, q)`,
`mod(p, q)` or `max(p, 0)`. Everything else is rewritten into these, so that equal values usually have equal
structure, and equality and hash are structural:

* integer multiples leave a division: `(2*n + 1) // 2` is `n`, `(6*n) % 4` is `2*(n % 2)`;
* quotients of quotients are one: `(n // 4 + 1) // 2` is `(n + 4) // 8`;
* `max(p, q)` is `q + max(p - q, 0)`, `min(p, q)` is `p - max(p - q, 0)`, and `max(-p, 0)` is `max(p, 0) - p`.

Named dims are sizes, hence >= 0. Division by a symbolic divisor assumes that it is not 0 (`n*m // m` is `n`);
evaluated at 0 it follows the numeric contract: `p // 0 = 0`, `p % 0 = p`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, NoReturn, TypeAlias

from ...promotion.errors import UserError
from .bounds import lower
from .messages import long_size, size_given
from .parser import RESERVED, Makes, parse_expression

AtomKind = Literal["floordiv", "mod", "max"]
Extent: TypeAlias = "int | Dim"
Monomial: TypeAlias = "tuple[tuple[str | Atom, int], ...]"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_MAX_POWER = 64
_MAX_TERMS = 1024
MAX_ATOM = 2048
"""Most characters in the text of an atom, which doubles with each nested max or min."""
_BOUND_DEPTH = 6


class Atom:
    """An opaque factor of a monomial. `args` are (dividend, divisor), or (p, 0) for "max"."""

    __slots__ = ("_hash", "_key", "args", "kind")

    kind: AtomKind
    args: tuple[Extent, Extent]
    _hash: int
    _key: tuple[int, str]

    def __init__(self, kind: AtomKind, args: tuple[Extent, Extent], is_written: bool = True) -> None:
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "args", args)
        put(self, "_hash", hash((kind, args)))
        text = str(self)
        if len(text) > MAX_ATOM and is_written:
            problem = f"a size whose {kind} takes {len(text)} characters, more than {MAX_ATOM}: {text:.60}…"
            raise long_size(problem, [name for argument in args for name in _names(argument)])
        put(self, "_key", (1, text))

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"Atom is immutable: cannot set {attribute!r}")

    def __reduce__(self) -> tuple[type[Atom], tuple[AtomKind, tuple[Extent, Extent], bool]]:
        return Atom, (self.kind, self.args, False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        first, second = self.args
        if self.kind == "max":
            return f"max({first}, {second})"
        sign = "//" if self.kind == "floordiv" else "%"
        return f"({_factor_text(first)} {sign} {_factor_text(second)})"

    def __repr__(self) -> str:
        return f"Atom({str(self)!r})"

    def evaluate(self, env: Mapping[str, int]) -> int:
        first, second = (evaluate_dim(argument, env) for argument in self.args)
        if self.kind == "max":
            return max(first, second)
        if second == 0:
            return 0 if self.kind == "floordiv" else first
        return first // second if self.kind == "floordiv" else first % second


class Dim:
    """An integer-valued polynomial that is not constant. Make one with `dim(name)`, arithmetic, or `Dim.parse(text)`.

    Supports `+ - * // % **` with ints and dims, and unary minus; a constant result is a plain `int`. Comparison with `==`
    is structural; there is no order, because sizes are not known before launch.
    """

    __slots__ = ("_hash", "_terms", "_text")

    _terms: tuple[tuple[Monomial, int], ...]
    _hash: int
    _text: str | None

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in RESERVED:
            if _is_expression(name):
                raise UserError(
                    f"{name!r} is not a dim name but an expression; fix: compute with dims, as in dim('batch') - 1, or write "
                    f"Dim.parse({name!r})"
                )
            raise UserError(
                f"{name!r} is not a dim name; expected letters, digits, '_' or '.' not starting with a digit, and none of "
                f"{', '.join(RESERVED)}; fix: rename it, or use Dim.parse for an expression such as '2*batch + 1'"
            )
        _fill(self, ((((name, 1),), 1),))

    @staticmethod
    def parse(text: str) -> Extent:
        """Parse a dim expression: names, integers, `+ - * // % **`, parentheses, `min(…)`, `max(…)`.

        This is the inverse of `str()`. Raises `UserError` for anything else.
        """
        return _parsed(text) if isinstance(text, str) else parse_expression(text, MAKES)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"Dim is immutable: cannot set {attribute!r}")

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Dim.parse, (str(self),)

    @property
    def terms(self) -> tuple[tuple[int, Monomial], ...]:
        """(coefficient, monomial) pairs, highest degree first; a monomial is ((atom, power), …), () for the constant."""
        return tuple([(coefficient, monomial) for monomial, coefficient in self._terms])

    @property
    def name(self) -> str | None:
        """The name when this is a plain named dim, else None."""
        if len(self._terms) != 1:
            return None
        monomial, coefficient = self._terms[0]
        if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
            return None
        atom = monomial[0][0]
        return atom if isinstance(atom, str) else None

    def symbols(self) -> frozenset[str]:
        """Return the names that this dim depends on."""
        return frozenset(_names(self))

    def evaluate(self, env: Mapping[str, int]) -> int:
        """Return the value for given sizes. Raises `UserError` when a name is missing."""
        total = 0
        for monomial, coefficient in self._terms:
            for atom, power in monomial:
                value = size_given(atom, env) if isinstance(atom, str) else atom.evaluate(env)
                coefficient *= value if power == 1 else value**power
            total += coefficient
        return total

    def without(self, monomial: tuple[object, ...]) -> Extent:
        """Return this dim less its term of that monomial."""
        return _make({key: coefficient for key, coefficient in self._terms if key != monomial})

    def substitute(self, replacements: Mapping[str, Extent]) -> Extent:
        """Return this dim with names replaced by other dims or ints."""
        if self.symbols().isdisjoint(replacements):
            return self
        total: Extent = 0
        for monomial, coefficient in self._terms:
            product_: Extent = coefficient
            for atom, power in monomial:
                product_ = product_ * _power(_substituted(atom, replacements), power)
            total = total + product_
        return total

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Dim) and self._hash == other._hash and self._terms == other._terms

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> NoReturn:
        raise UserError(
            f"the truth of the dim {self} is not known before launch; fix: compare with == for structural equality, or "
            "decide on the sizes in Python before building the graph"
        )

    def __str__(self) -> str:
        if (text := self._text) is None:
            object.__setattr__(self, "_text", text := _text(self))
        return text

    def __repr__(self) -> str:
        return f"Dim({str(self)!r})" if self.name else f"Dim.parse({str(self)!r})"

    def __add__(self, other: Extent) -> Extent:
        if isinstance(other, int):
            if other == 0:
                return self
            return _make({**dict(self._terms), (): self._constant() + other})
        if not isinstance(other, Dim):
            return NotImplemented
        total = dict(self._terms)
        for monomial, coefficient in other._terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return _make(total)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _scaled(self, -1)

    def __sub__(self, other: Extent) -> Extent:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return self + -other

    def __rsub__(self, other: Extent) -> Extent:
        return -self + other

    def __mul__(self, other: Extent) -> Extent:
        if isinstance(other, int):
            return _scaled(self, int(other)) if other else 0
        if not isinstance(other, Dim):
            return NotImplemented
        return _multiplied(self, other)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Extent:
        if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER:
            raise UserError(f"({self}) ** {exponent!r}: expected an integer exponent from 0 to {_MAX_POWER}")
        return _power(self, exponent)

    def __floordiv__(self, other: Extent) -> Extent:
        return _floordiv(self, other) if isinstance(other, (int, Dim)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Extent:
        return _floordiv(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Extent) -> Extent:
        return _mod(self, other) if isinstance(other, (int, Dim)) else NotImplemented

    def __rmod__(self, other: int) -> Extent:
        return _mod(other, self) if isinstance(other, int) else NotImplemented

    def _constant(self) -> int:
        monomial, coefficient = self._terms[-1]
        return 0 if monomial else coefficient


# ------------------------------------------------------------------------------------------------- construction


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Extent:
    return parse_expression(text, MAKES)


def _fill(target: Dim, terms: tuple[tuple[Monomial, int], ...]) -> None:
    put = object.__setattr__
    put(target, "_terms", terms)
    put(target, "_hash", hash(terms))
    put(target, "_text", None)


def _atom_key(atom: str | Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else atom._key


def _order(monomial: Monomial) -> tuple[int, tuple[tuple[tuple[int, str], int], ...]]:
    """Return a sort key: falling degree, then lexicographic; exact division needs such a monomial order."""
    degree = 0
    for _, power in monomial:
        degree += power
    return (-degree, tuple([(_atom_key(atom), -power) for atom, power in monomial]))


def _make(terms: Mapping[Monomial, int]) -> Extent:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if not kept:
        return 0
    if len(kept) == 1:
        if not kept[0][0]:
            return kept[0][1]
    else:
        kept.sort(key=lambda term: _order(term[0]))
    result = object.__new__(Dim)
    _fill(result, tuple(kept))
    return result


def _scaled(value: Dim, factor: int) -> Dim:
    result = object.__new__(Dim)
    _fill(result, tuple([(monomial, coefficient * factor) for monomial, coefficient in value._terms]))
    return result


def _atom(kind: AtomKind, first: Extent, second: Extent, is_written: bool = True) -> Dim:
    result = object.__new__(Dim)
    _fill(result, ((((Atom(kind, (first, second), is_written), 1),), 1),))
    return result


@lru_cache(maxsize=4096)
def _multiplied(first: Dim, second: Dim) -> Extent:
    if len(first._terms) * len(second._terms) > _MAX_TERMS or _degree(first) + _degree(second) > _MAX_POWER:
        raise long_size(
            f"a product of dims with {len(first._terms)} and {len(second._terms)} terms, of degrees {_degree(first)} "
            f"and {_degree(second)}, is beyond the limits of {_MAX_TERMS} terms and degree {_MAX_POWER}",
            (*_names(first), *_names(second)),
        )
    total: dict[Monomial, int] = {}
    for left, a in first._terms:
        for right, b in second._terms:
            monomial = _times(left, right)
            total[monomial] = total.get(monomial, 0) + a * b
    return _make(total)


def _degree(value: Dim) -> int:
    return sum([power for _, power in value._terms[0][0]])


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda factor: _atom_key(factor[0])))


def _power(value: Extent, exponent: int) -> Extent:
    result: Extent = 1
    for _ in range(exponent):
        result = result * value
    return result


def _items(value: Extent) -> Iterable[tuple[Monomial, int]]:
    return value._terms if isinstance(value, Dim) else (((), value),)


@lru_cache(maxsize=4096)
def _floordiv(dividend: Extent, divisor: Extent) -> Extent:
    if isinstance(divisor, Dim):
        quotient = exact_quotient(dividend, divisor)
        return quotient if quotient is not None else _atom("floordiv", dividend, divisor)
    if divisor == 0:
        raise UserError(f"({dividend}) // 0: a size cannot be divided by zero; fix: divide by a positive number")
    if divisor < 0:
        return _floordiv(-dividend, -divisor)
    whole = _make({monomial: coefficient // divisor for monomial, coefficient in _items(dividend)})
    rest = _make({monomial: coefficient % divisor for monomial, coefficient in _items(dividend)})
    if isinstance(rest, int):  # 0 <= rest < divisor
        return whole
    common = math.gcd(divisor, *[c for monomial, c in rest._terms if monomial])
    # floor((g·p + r) / (g·q)) = floor((p + floor(r/g)) / q)
    rest = _make({monomial: coefficient // common for monomial, coefficient in rest._terms})
    return whole + (rest if divisor == common else _floor_of_floor(rest, divisor // common))


def _floor_of_floor(dividend: Extent, divisor: int) -> Extent:
    """Return the quotient of a reduced dividend: floor((floor(p / m) + r) / q) is floor((p + r·m) / (m·q))."""
    if isinstance(dividend, Dim):
        monomial, coefficient = dividend._terms[0]
        ((atom, power), *others) = monomial
        if coefficient == power == 1 and not others and isinstance(atom, Atom) and atom.kind == "floordiv":
            first, second = atom.args
            rest = dividend._constant() if len(dividend._terms) > 1 else 0
            if isinstance(second, int) and second > 0 and dividend.without(monomial) == rest:
                return _floordiv(first + rest * second, second * divisor)
    return _atom("floordiv", dividend, divisor)


@lru_cache(maxsize=4096)
def _mod(dividend: Extent, divisor: Extent) -> Extent:
    if isinstance(divisor, Dim):
        return 0 if exact_quotient(dividend, divisor) is not None else _atom("mod", dividend, divisor)
    if divisor == 0:
        raise UserError(f"({dividend}) % 0: a size has no remainder by zero; fix: use a positive number")
    if divisor < 0:
        return -_mod(-dividend, -divisor)
    rest = _make({monomial: coefficient % divisor for monomial, coefficient in _items(dividend)})
    if isinstance(rest, int):
        return rest
    common = math.gcd(divisor, *[c for monomial, c in rest._terms if monomial])
    # (g·p + r) mod (g·q) = g·((p + floor(r/g)) mod q) + r mod g
    low = rest._constant() % common
    high = _make({monomial: coefficient // common for monomial, coefficient in rest._terms})
    inner: Extent = 0 if divisor == common else _atom("mod", high, divisor // common)
    return inner * common + low


def exact_quotient(dividend: Extent, divisor: Extent) -> Extent | None:
    """Return `dividend / divisor` when it is a polynomial with integer coefficients, else None."""
    if isinstance(divisor, int):
        if divisor == 0 or any(coefficient % divisor for _, coefficient in _items(dividend)):
            return None
        return _make({monomial: coefficient // divisor for monomial, coefficient in _items(dividend)})
    lead, lead_coefficient = divisor._terms[0]
    quotient: Extent = 0
    rest = dividend
    while isinstance(rest, Dim):
        monomial, coefficient = rest._terms[0]
        factor = _without(monomial, lead)
        if factor is None or coefficient % lead_coefficient:
            return None
        step = _make({factor: coefficient // lead_coefficient})
        quotient = quotient + step
        rest = rest - step * divisor
    return quotient if rest == 0 else None


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for atom, power in factor:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            del powers[atom]
    return tuple(powers.items())  # still in order: atoms were only removed


@lru_cache(maxsize=4096)
def positive_part(value: Extent, is_written: bool = True) -> Extent:
    """Return max(value, 0). is_written: whether graphs have it in their texts, which are limited."""
    if isinstance(value, int):
        return max(value, 0)
    low = lower_bound(value)
    if low is not None and low >= 0:
        return value
    high = lower_bound(-value)
    if high is not None and high >= 0:
        return 0
    common = math.gcd(*[coefficient for _, coefficient in value._terms])
    if common > 1:
        smaller = _make({monomial: coefficient // common for monomial, coefficient in value._terms})
        return positive_part(smaller, is_written) * common
    if value._terms[0][1] < 0:
        return positive_part(-value, is_written) + value
    return _atom("max", value, 0, is_written)


# -------------------------------------------------------------------------------------------------------- queries


def _is_expression(text: object) -> bool:
    """Return whether this is the text of a size that depends on named dims."""
    try:
        return isinstance(text, str) and isinstance(Dim.parse(text), Dim)
    except UserError:
        return False


@lru_cache(maxsize=1024)
def dim(name: str) -> Dim:
    """Return the named dim `name`: a size known at launch, from the shapes of the inputs that mention it."""
    return Dim(name)


def maximum(first: Extent, *others: Extent) -> Extent:
    """Return the largest of several extents."""
    for other in others:
        first = other + positive_part(first - other)
    return first


def minimum(first: Extent, *others: Extent) -> Extent:
    """Return the smallest of several extents."""
    for other in others:
        first = first - positive_part(first - other)
    return first


def ceil_div(dividend: Extent, divisor: Extent) -> Extent:
    """Return `dividend / divisor` rounded up, for a positive `divisor`."""
    return (dividend + (divisor - 1)) // divisor


def product(extents: Iterable[Extent]) -> Extent:
    """Return the product of extents; 1 for none."""
    result: Extent = 1
    for extent in extents:
        result = result * extent
    return result


def total(extents: Iterable[Extent]) -> Extent:
    """Return the sum of extents; 0 for none."""
    terms: dict[Monomial, int] = {}
    for extent in extents:
        for monomial, coefficient in _items(extent):
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return _make(terms)


def evaluate_dim(extent: Extent, env: Mapping[str, int]) -> int:
    """Return the value of an int or `Dim` for given sizes."""
    return extent.evaluate(env) if isinstance(extent, Dim) else extent


MAKES = Makes(name=dim, total=total, maximum=maximum, minimum=minimum)


def dims_equal(first: Extent, second: Extent) -> bool | None:
    """Return True when equal for all sizes, False when for none, None when it depends or is unknown."""
    if first == second:
        return True
    difference = first - second
    if isinstance(difference, int):
        return difference == 0
    if difference._constant() % math.gcd(*[c for monomial, c in difference._terms if monomial]):
        return False
    for candidate in (difference, -difference):
        low = lower_bound(candidate)
        if low is not None and low > 0:
            return False
    return None


@lru_cache(maxsize=4096)
def lower_bound(extent: Extent) -> int | None:
    """Return a number the extent is never below, or None when no bound is found. Names are >= 0."""
    return lower(extent, _BOUND_DEPTH)


def at_most(lhs: Extent, rhs: Extent) -> bool:
    """Return True when `lhs <= rhs` for all sizes, False when it does not hold or is not known."""
    difference = rhs - lhs
    if isinstance(difference, int):
        return difference >= 0
    low = lower_bound(difference)
    return low is not None and low >= 0


def _names(extent: Extent) -> Iterator[str]:
    if isinstance(extent, Dim):
        for monomial, _ in extent._terms:
            for atom, _ in monomial:
                if isinstance(atom, str):
                    yield atom
                else:
                    for argument in atom.args:
                        yield from _names(argument)


def _substituted(atom: str | Atom, replacements: Mapping[str, Extent]) -> Extent:
    if isinstance(atom, str):
        return replacements[atom] if atom in replacements else dim(atom)
    first, second = (a.substitute(replacements) if isinstance(a, Dim) else a for a in atom.args)
    if atom.kind == "max":
        return maximum(first, second)
    if isinstance(second, int) and second == 0:
        return 0 if atom.kind == "floordiv" else first
    return _floordiv(first, second) if atom.kind == "floordiv" else _mod(first, second)


# ----------------------------------------------------------------------------------------------------------- text


def _factor_text(extent: Extent) -> str:
    if isinstance(extent, int):
        return str(extent) if extent >= 0 else f"({extent})"
    alone = len(extent._terms) == 1 and extent._terms[0][1] == 1 and len(extent._terms[0][0]) == 1
    return str(extent) if alone and extent._terms[0][0][0][1] == 1 else f"({extent})"


def _text(value: Dim) -> str:
    """Return the polynomial as text; a lone positive part of coefficient 1 or -1 is shown as a max or min."""
    parts_of = [
        (monomial, coefficient)
        for monomial, coefficient in value._terms
        if any(isinstance(atom, Atom) and atom.kind == "max" for atom, _ in monomial)
    ]
    if len(parts_of) == 1 and len(parts_of[0][0]) == 1:
        (((atom, power),), coefficient) = parts_of[0]
        if isinstance(atom, Atom) and power == 1 and coefficient in (1, -1):
            rest = value - _make({((atom, 1),): coefficient})
            other = rest + atom.args[0] * coefficient
            shown = sorted((rest, other), key=lambda extent: isinstance(extent, int))
            return f"{'max' if coefficient > 0 else 'min'}({shown[0]}, {shown[1]})"
    texts: list[str] = []
    for monomial, coefficient in value._terms:
        factors = [str(atom) if power == 1 else f"{atom}**{power}" for atom, power in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not texts else (" - " if coefficient < 0 else " + ")
        texts.append(sign + "*".join(factors))
    return "".join(texts)
