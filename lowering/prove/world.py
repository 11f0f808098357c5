"""Makes the symbols of a proof: sizes, extents and the grid as terms, what is assumed of them, and a symbolic program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..tt import types as t
from .evaluate.contexts import context
from .evaluate.evaluator import Evaluator, Lanes, Run
from .evaluate.rules import RULES
from .evaluate.values import Condition, Contents, Integer, Pointer, Unknown, Value
from .preparation import Access, PreparedFunction, ProofParameter, claims_of
from .specify.expressions import (
    Assumption,
    Call,
    Comparison,
    Elements,
    Expression,
    Joined,
    Name,
    Number,
    arrays_in,
    has_division,
    names_in,
    parse_assumption,
)
from .specify.specification import ParsedSpecification
from .terms.atoms import LANE, PROGRAM, Terms
from .terms.formulas import (
    TRUE,
    Flag,
    Formula,
    at_least,
    at_most,
    both,
    either,
    equal,
    implies,
    less,
    negated,
    within,
)
from .terms.polynomials import ONE, ZERO, Polynomial, constant
from .terms.renaming import Renaming
from .terms.solver import Budget, Solver

Level = tuple[str, ...]
"""Conditions under which something is proven, as assumptions."""
ALWAYS: Level = ()
BLOCK = -1
"""What stands for the parameter of a pointer into a block."""
_MAX_EXTENT = (1 << 31) - 1
_MAX_SIGNS = 150
"""Most numbers whose sign is asked for while terms are made; each question repeats what those before were about."""
_MAX_BYTES = (1 << 63) - 1
"""Bytes of the largest array that an address space of 64 bits could have."""


@dataclass(frozen=True, slots=True)
class AccessTerms:
    """An access of a program in a lane.

    Attributes:
        live: the condition that the lane touches memory.
        pointer: where it reads or writes, as far as `live` holds.
    """

    live: Formula
    pointer: Pointer | Unknown


class World:
    """The terms of a function under a specification.

    Attributes:
        base: what is assumed.
        symbols: the sizes by name.
        extents: by position of a pointer parameter, how many elements its array has: at least those that are specified. Of a
            descriptor it is the array's own number, since its tensor fits that, and not the specified one.
        specified: by position of a pointer parameter, the extent that the specification says.
        promises: what the text promises of sizes, as assumptions.
        offsets: the offsets of accesses that are inside their arrays, by conditions.
    """

    def __init__(
        self, prepared: PreparedFunction, specification: ParsedSpecification, budget: Budget, make_run: type[Run] = Run
    ) -> None:
        """Makes the terms of sizes. make_run: makes the symbolic program."""
        self.prepared = prepared
        self.specification = specification
        self.terms = Terms()
        self.solver = Solver(self.terms, budget)
        self.base: list[Formula] = []
        self.symbols: dict[str, Polynomial] = {}
        self.promises: list[str] = claims_of(prepared.function)
        self._make_run = make_run
        self._proven: dict[Formula, bool] = {}
        self._make_symbols()
        self.terms.is_proven = self._is_proven
        formulas = [each for _, each in specification.assume if not any(True for _ in arrays_in(each))]
        for assumption in sorted(formulas, key=has_division):  # those without say that divisors are positive
            self.base.append(self.assumption(assumption))
        self.extents: dict[int, Polynomial] = {}
        self.specified: dict[int, Polynomial] = {}
        for name, expression in specification.extents.items():
            extent = self.size(expression)
            size = prepared.parameters[prepared.arrays[name]].element_size
            self.base += [at_least(extent, 0), at_most(extent, _MAX_BYTES // size)]
            self.extents[prepared.arrays[name]] = extent
            self.specified[prepared.arrays[name]] = extent
            if extent.number is None:
                self.promises.append(f"{specification.texts[name]} >= 0, as {name} has so many elements")
        self._describe_tensors()
        x, y, z = [self.size(axis) for axis in specification.grid]
        self.grid = (x, y, z)
        self.base += [both(at_least(axis, 0), at_most(axis, _MAX_EXTENT)) for axis in self.grid]
        self._runs: dict[Level, Run] = {}
        self._access_terms: dict[tuple[Level, Access], AccessTerms] = {}
        self.offsets: dict[tuple[Level, Access], Polynomial] = {}
        self._contents = self._ranges_of_contents()
        self.other_program = Renaming(self.terms, PROGRAM)
        self.other_lane = Renaming(self.terms, LANE)

    def _is_proven(self, formula: Formula) -> bool:
        found = self._proven.get(formula)
        if found is None:
            self._proven[formula] = False  # while it is asked
            if len(self._proven) > _MAX_SIGNS:
                return False
            found = self._proven[formula] = self.solver.is_impossible(*self.base, negated(formula))
        return found

    # Sizes

    def _make_symbols(self) -> None:
        numbers = self.prepared.numbers
        names = list(dict.fromkeys([*numbers, *self.specification.names()]))
        ranges, equations = self.specification.ranges(), self.specification.equations(numbers)
        for name in names:
            self._symbol(name, ranges, equations, ())
        self.symbols = {name: self.symbols[name] for name in names}
        for name, position in numbers.items():
            parameter = self.prepared.parameters[position]
            bits = t.bit_width(parameter.type)
            self.promises.append(f"-2**{bits - 1} <= {name} < 2**{bits - 1}: the signed number that the kernel is given")
            if parameter.divisor > 1:
                self._promise(name, self.symbols[name], parameter)

    def _symbol(
        self, name: str, ranges: Mapping[str, tuple[int | None, int | None]], equations: Mapping[str, Expression],
        waiting: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Makes the term of a size: an atom, or what it is by the assumptions. waiting: names for which this one is made."""
        if name in self.symbols:
            return
        low, high = ranges.get(name, (None, None))
        position = self.prepared.numbers.get(name)
        half = 1 << (63 if position is None else t.bit_width(self.prepared.parameters[position].type) - 1)
        if position is not None:
            low, high = max(-half, -half if low is None else low), min(half - 1, half - 1 if high is None else high)
            if low > high:  # the assumption itself is among the formulas, and refutes itself there
                low, high = -half, half - 1
        elif low is not None and high is not None and low > high:
            low, high = None, None
        equation = equations.get(name)
        waiting = (*waiting, name)
        if low is not None and low == high:  # products with a size that is one number are linear
            self.symbols[name] = constant(low)
        elif equation is not None and not {*names_in(equation)} & {*waiting}:
            for other in names_in(equation):
                self._symbol(other, ranges, equations, waiting)
            self.symbols[name] = self.size(equation)
            if position is not None:
                self.base.append(within(self.symbols[name], -half, half - 1))
        else:
            self.symbols[name] = self.terms.atom(("size", name), name, low, high)

    def _promise(self, name: str, symbol: Polynomial, parameter: ProofParameter) -> None:
        times = self.terms.atom(("multiple", name), f"{name} / {parameter.divisor}")
        self.base.append(equal(symbol, times * parameter.divisor))
        self.promises.append(f"{name} % {parameter.divisor} == 0")

    def _describe_tensors(self) -> None:
        """States what launches check of tensor descriptors: that their tensors fit their arrays.

        An array may have more elements than its extent says, and its tensor then reaches further.
        """
        for position, parameter in enumerate(self.prepared.parameters):
            rank = parameter.rank
            if not rank:
                continue
            shape = [self.symbols[f"{parameter.name}.shape.{axis}"] for axis in range(rank)]
            strides = [self.symbols[f"{parameter.name}.stride.{axis}"] for axis in range(rank)]
            self.base += [both(at_least(extent, 0), at_most(extent, _MAX_EXTENT)) for extent in shape]
            some = both(*[at_least(extent, 1) for extent in shape])
            for extent, stride in zip(shape, strides, strict=True):  # of an axis of extent 1 launches take any
                self.base.append(implies(both(some, at_least(extent, 2)), at_least(stride, 0)))
            limits = "its extents are from 0 to 2**31 - 1"
            self.promises.append(f"the tensor of {parameter.name} fits its array, and {limits} (launches check it)")
            most = _MAX_BYTES // parameter.element_size
            elements = self.terms.atom(("size", f"elements of {parameter.name}"), f"{parameter.name}", 0, most)
            if position in self.specified:
                self.base.append(at_least(elements, self.specified[position]))
            self.extents[position] = elements
            reach = ONE
            for extent, stride in zip(shape, strides, strict=True):
                reach = reach + (extent - 1) * stride
            self.base.append(implies(some, at_least(self.extents[position], reach)))

    def size(self, expression: Expression) -> Polynomial:
        """Returns a size as a term. Raises `UserError` for divisors that may be 0 or negative."""
        match expression:
            case Number(value):
                return constant(value)
            case Name(name):
                return self.symbols[name]
            case Elements(name):
                raise UserError(f"prove: the elements of {name} have no single value; fix: compare them with a size")
            case Call(operation, left, right):
                return self._combined(operation, self.size(left), self.size(right))

    def _combined(self, operation: str, x: Polynomial, y: Polynomial) -> Polynomial:
        match operation:
            case "+":
                return x + y
            case "-":
                return x - y
            case "*":
                return x * y
            case "min":
                return self.terms.smaller(x, y)
            case "max":
                return self.terms.larger(x, y)
        if not self.terms.is_non_negative(y - 1):
            divisor = self.terms.text(y)
            raise UserError(f"prove: {operation} by {divisor}, which may be 0 or less; fix: assume '{divisor} >= 1'")
        if operation == "cdiv":
            return self.terms.floor_parts(x + y - 1, y)[0]
        return self.terms.floor_parts(x, y)[0 if operation == "//" else 1]

    def assumption(self, assumption: Assumption) -> Formula:
        """Returns an assumption about sizes as a formula."""
        match assumption:
            case Joined(by, parts):
                formulas = [self.assumption(part) for part in parts]
                return both(*formulas) if by == "and" else either(*formulas)
            case Comparison(relation, left, right):
                if any(True for _ in arrays_in(assumption)):
                    return TRUE
                x, y = self.size(left), self.size(right)
                match relation:
                    case "<":
                        return less(x, y)
                    case "<=":
                        return at_most(x, y)
                    case ">":
                        return less(y, x)
                    case ">=":
                        return at_least(x, y)
                    case "==":
                        return equal(x, y)
                    case _:
                        return negated(equal(x, y))

    # Programs

    def _ranges_of_contents(self) -> dict[int, Contents]:
        """Returns the ranges of elements, which users take for signed or unsigned as their arrays are."""
        found = {}
        for name, bounds in self.specification.contents().items():
            position = self.prepared.arrays[name]
            bits = t.bit_width(t.pointee(self.prepared.parameters[position].type))
            low, high = constant(-(1 << (bits - 1))), constant((1 << bits) - 1)
            for relation, expression in bounds:
                value = self.size(expression)
                if relation in (">", ">=", "=="):
                    low = self.terms.larger(low, value + (relation == ">"))
                if relation in ("<", "<=", "=="):
                    high = self.terms.smaller(high, value - (relation == "<"))
            found[position] = Contents(low, high, bits)
            if position in self.extents:  # an array with elements has a range for them
                self.base.append(implies(at_least(self.extents[position], 1), at_most(low, high)))
        return found

    def level(self, level: Level) -> list[Formula]:
        """Returns conditions as formulas."""
        return [self.assumption(parse_assumption(text)) for text in level]

    def run(self, level: Level = ALWAYS) -> Run:
        """Returns the symbolic program whose sizes satisfy the assumptions, and conditions besides."""
        found = self._runs.get(level)
        if found is None:
            base = [*self.base, *self.level(level)]
            found = self._runs[level] = self._make_run(
                self.terms, self.solver, base, self.prepared.function, self._parameters(), self.grid, self._contents, RULES
            )
        return found

    @property
    def uses_contents(self) -> bool:
        """Whether anything relies on what arrays hold."""
        return any(run.loads for run in self._runs.values())

    def _parameters(self) -> dict[int, Value]:
        values: dict[int, Value] = {}
        for position, parameter in enumerate(self.prepared.parameters):
            if parameter.is_array:
                values[position] = Pointer(position, ZERO)
            elif not t.is_integer(parameter.type):
                values[position] = Unknown(f"the number {parameter.name}")
            elif t.bit_width(parameter.type) == 1:
                values[position] = Condition(Flag(self.terms.flag(("parameter", position), parameter.name)))
            else:
                values[position] = Integer(self.symbols[parameter.name], t.bit_width(parameter.type), is_number=True)
        return values

    def is_impossible(self, level: Level, *formulas: Formula) -> bool:
        """Returns whether formulas are shown not to hold together where the conditions hold."""
        return self.solver.is_impossible(*self.run(level).base, *formulas)

    def access_terms(self, access: Access, level: Level = ALWAYS) -> AccessTerms:
        """Returns an access as terms. Raises `NotModelled`."""
        found = self._access_terms.get((level, access))
        if found is None:
            run = self.run(level)
            lanes = run.lanes(access.shape)
            assert access.op.parent is not None
            ev = context(run, access.op.parent)
            if access.mask is not None:
                ev = ev.under(ev.condition(access.mask, lanes if t.is_tensor(access.mask.type) else ()).formula)
            pointer = self._index(ev, access, lanes) if access.is_gather else ev.value(access.pointer, lanes)
            assert isinstance(pointer, Pointer | Unknown)
            found = self._access_terms[level, access] = AccessTerms(ev.formula, pointer)
        return found

    def _index(self, ev: Evaluator, access: Access, lanes: Lanes) -> Pointer | Unknown:
        """Returns the index of a gather as a place behind the beginning of a block, which is no parameter."""
        found = ev.value(access.op.operands[1], lanes)
        if not isinstance(found, Integer):
            return Unknown("an index that is no integer")
        return Pointer(BLOCK, ev.signed(found))


def others(one: Sequence[Polynomial], renaming: Renaming) -> list[Formula]:
    """Returns by axis that indices are not those of their copies."""
    return [negated(equal(each, renaming.polynomial(each))) for each in one]


__all__ = ["ALWAYS", "BLOCK", "AccessTerms", "Level", "World", "others"]
