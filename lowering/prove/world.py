"""Makes the symbols of a proof: sizes, extents and the grid as terms, what is assumed of them, and a symbolic program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from xdsl.ir import Operation

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..tt import types as t
from .counters.adding import rules
from .evaluate.contexts import context
from .evaluate.evaluator import Evaluator, Lanes, Run
from .evaluate.rules import RULES
from .evaluate.values import Condition, Contents, Integer, Pointer, Unknown, Value
from .preparation import Access, PreparedFunction, ProofParameter, claims_of
from .specify.expressions import (
    Assumption,
    AtLaunch,
    Call,
    Comparison,
    Declared,
    Elements,
    Expression,
    Joined,
    Name,
    Number,
    Ordered,
    Points,
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
from .terms.orders import Element, Meaning, Order
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
MAX_BYTES = (1 << 63) - 1
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
        starts: by position of a pointer parameter, what all elements of its array are when the launch begins.
        promises: what the text promises of sizes, as assumptions.
        offsets: the offsets of accesses that are inside their arrays, by conditions.
        filled: that arrays of which no extent is said, but which have elements in a launch, have numbers for these.
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
        # Those without a division say that divisors are positive.
        for assumption in sorted([each for _, each in specification.assume], key=has_division):
            formula = self.assumption(assumption)
            self.base += [] if formula == TRUE else [formula]
        self.extents: dict[int, Polynomial] = {}
        self._of_extents: list[Formula] = []
        self.specified: dict[int, Polynomial] = {}
        for name, expression in specification.extents.items():
            extent = self.size(expression)
            size = prepared.parameters[prepared.arrays[name]].element_size
            self._of_extents += [at_least(extent, 0), at_most(extent, MAX_BYTES // size)]
            self.extents[prepared.arrays[name]] = extent
            self.specified[prepared.arrays[name]] = extent
            if extent.number is None:
                self.promises.append(f"{specification.texts[name]} >= 0, as {name} has so many elements")
        self.base += self._of_extents
        self._describe_tensors()
        self.starts = {prepared.arrays[name]: self._start(name, size) for name, size in specification.starts().items()}
        x, y, z = [self.size(axis) for axis in specification.grid]
        self.grid = (x, y, z)
        self.base += [both(at_least(axis, 0), at_most(axis, _MAX_EXTENT)) for axis in self.grid]
        self._rules = RULES | rules(prepared, self.starts)
        self._runs: dict[Level, Run] = {}
        self._access_terms: dict[tuple[Level, Access], AccessTerms] = {}
        self.offsets: dict[tuple[Level, Access], Polynomial] = {}
        self.filled: list[Formula] = []
        self._contents = self._ranges_of_contents()
        for name, expression in specification.points().items():
            ranges = "which begins at a multiple of what is read there and overlaps no array that is written"
            others = " and ".join(dict.fromkeys(arrays_in(expression)))
            same = f"; {others}[:] is the element at the same index" if others else ""
            what = f"each element of {name} is the address of an array with the bytes that are said"
            if not others:
                some = at_least(self.extents[prepared.arrays[name]], 1)
                self.base.append(implies(some, at_most(self.size(expression), MAX_BYTES)))
            self.promises.append(f"{what}, {ranges}{same}")
        self.other_program = Renaming(self.terms, PROGRAM)
        self.other_lane = Renaming(self.terms, LANE)
        self._others: dict[frozenset[Operation], Renaming] = {}

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

    def _start(self, name: str, expression: Expression) -> Polynomial:
        """Returns what the elements of an array are when the launch begins: a signed number of their bits."""
        start = self.size(expression)
        bits = t.bit_width(t.pointee(self.prepared.parameters[self.prepared.arrays[name]].type))
        self.base.append(within(start, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        self.promises.append(f"-2**{bits - 1} <= at_launch({name}[:]) < 2**{bits - 1}: the signed number that an element is")
        return start

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
            most = MAX_BYTES // parameter.element_size
            elements = self.terms.atom(("size", f"elements of {parameter.name}"), f"{parameter.name}", 0, most)
            if position in self.specified:
                self.base.append(at_least(elements, self.specified[position]))
            self.extents[position] = elements
            reach = ONE
            for extent, stride in zip(shape, strides, strict=True):
                reach = reach + (extent - 1) * stride
            self.base.append(implies(some, at_least(self.extents[position], reach)))

    def size(self, expression: Expression, elements: Mapping[str, Polynomial] | None = None) -> Polynomial:
        """Returns a size as a term. Raises `UserError` for divisors that may be 0 or negative.

        elements: what is meant by the elements of arrays.
        """
        match expression:
            case Number(value):
                return constant(value)
            case Name(name):
                return self.symbols[name]
            case Elements(name) if elements is not None:
                return elements[name]
            case Elements(name):
                raise UserError(f"prove: the elements of {name} have no single value; fix: compare them with a size")
            case Call(operation, left, right):
                return self._combined(operation, self.size(left, elements), self.size(right, elements))

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
            fix = f"assume '{divisor} >= 1'" if y.number is None else "another divisor"
            raise UserError(f"prove: {operation} by {divisor}, which may be 0 or less; fix: {fix}")
        if operation == "cdiv":
            return self.terms.floor_parts(x + y - 1, y)[0]
        return self.terms.floor_parts(x, y)[0 if operation == "//" else 1]

    def assumption(self, assumption: Assumption) -> Formula:
        """Returns an assumption about sizes as a formula."""
        match assumption:
            case Joined(by, parts):
                formulas = [self.assumption(part) for part in parts]
                return both(*formulas) if by == "and" else either(*formulas)
            case Ordered() | Points() | AtLaunch() | Declared():
                return TRUE
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
                        return self.terms.same(x, y)
                    case _:
                        return negated(self.terms.same(x, y))

    # Programs

    def _ranges_of_contents(self) -> dict[int, Contents]:
        """Returns the ranges of elements, which users take for signed or unsigned as their arrays are."""
        found: dict[int, Contents] = {}
        points = self.specification.points()
        measures = {name for size in points.values() for name in arrays_in(size)}
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
            extent = self.extents.get(position)
            is_sorted = name in self.specification.ordered("sorted")
            is_distinct = name in self.specification.ordered("distinct") and extent is not None
            order = Order(is_sorted, is_distinct, bits // 8, ZERO if extent is None else extent)
            has_order = is_sorted or is_distinct or name in measures
            size = points.get(name)
            target = None if size is None else partial(self._target, found, position, size)
            found[position] = Contents(low, high, bits, order if has_order else None, target)
            if extent is None:
                self.filled.append(at_most(low, high))
            else:  # an array with elements has a range for them
                self.base.append(implies(at_least(extent, 1), at_most(low, high)))
                if is_distinct:  # and as many numbers in it as elements
                    self.base.append(implies(at_least(extent, 1), at_most(extent, high - low + 1)))
                    self.base.append(at_most(extent, 1 << bits))
        return found

    def range_of_contents(self, position: int) -> tuple[int | None, int | None]:
        """Returns the least and the largest number that elements may be; None if they are no numbers, or more is assumed."""
        found = self._contents.get(position)
        if found is None or found.order is not None or found.points is not None:
            return None, None
        return found.low.number, found.high.number

    def _target(
        self, contents: Mapping[int, Contents], table: int, size: Expression, offset: Polynomial, live: Formula
    ) -> Polynomial:
        """Returns the bytes of the array whose address a number is that was loaded from an array of such.

        contents: of all arrays. live: where it is an element at all. Nothing is said beyond the extents of the arrays, of
        negative numbers, which may be unsigned ones, and where the number is no element: there are no bytes then.
        """
        index, _ = offset.split(contents[table].bits // 8)
        conditions = [live, at_least(index, 0), at_most(index, self.extents[table] - 1)]
        values: dict[str, Polynomial] = {}
        for name in dict.fromkeys(arrays_in(size)):
            position = self.prepared.arrays[name]
            own = contents[position]
            half = 1 << (own.bits - 1)
            assert own.order is not None
            element = Element(position, index * own.order.size, TRUE, own.order)
            value = self.terms.atom(
                ("element", position, index), f"{name}[...]", -half, half - 1, self.terms.depends(index),
                lambda made, own=own: [own.facts(made, TRUE)], Meaning(element=element),  # type: ignore[misc]
            )  # fmt: skip
            conditions += [at_most(index, self.extents[position] - 1), at_least(value, 0)]
            values[name] = value
        return self.terms.chosen(both(*conditions), self.size(size, values), ZERO)

    def without_numbers(self) -> list[str]:
        """Returns the arrays with an extent of whose elements something is assumed that is true of no number of their bits."""
        ranges = [(position, each.low.number, each.high.number) for position, each in self._contents.items()]
        return [
            self.prepared.parameters[position].name for position, low, high in ranges
            if position in self.specified and low is not None and high is not None and low > high
        ]  # fmt: skip

    def is_beyond_memory(self, table: str) -> bool:
        """Returns whether no array has as many bytes as are said of the address in the first element of a table."""
        size = self.specification.points()[table]
        names = dict.fromkeys(arrays_in(size))
        tables = [self.prepared.arrays[name] for name in (table, *names)]
        given = [*self.base, *[at_least(self.extents[position], 1) for position in tables]]
        values: dict[str, Polynomial] = {}
        for name in names:
            own = self._contents[self.prepared.arrays[name]]
            value = values[name] = self.terms.atom(("first element", name), f"{name}[0]")
            given += [at_least(value, own.low), at_most(value, own.high), within(value, 0, (1 << (own.bits - 1)) - 1)]
        if self.solver.is_impossible(*given):
            return False
        return self.solver.is_impossible(*given, at_most(self.size(size, values), MAX_BYTES), bounded=True)

    def level(self, level: Level) -> list[Formula]:
        """Returns conditions as formulas."""
        formulas = [self.assumption(parse_assumption(text)) for text in level]
        self.solver.conditions.update(formulas)
        return formulas

    def run(self, level: Level = ALWAYS) -> Run:
        """Returns the symbolic program whose sizes satisfy the assumptions, and conditions besides."""
        found = self._runs.get(level)
        if found is None:
            base = [*self.base, *self.level(level)]
            found = self._runs[level] = self._make_run(
                self.terms, self.solver, base, self.prepared.function, self._parameters(), self.grid, self._contents,
                self._rules,
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

    def other_lane_and(self, loops: frozenset[Operation]) -> Renaming:
        """Returns what terms are in another lane of the same program, in any iteration of loops."""
        found = self._others.get(loops)
        if found is None:
            found = self._others[loops] = Renaming(self.terms, LANE, *loops)
        return found

    def is_impossible(self, level: Level, *formulas: Formula, bounded: bool = False, share: int = 1) -> bool:
        """Returns whether formulas are shown not to hold together where conditions hold. bounded, share: as the solver's."""
        return self.solver.is_impossible(*self.run(level).base, *formulas, bounded=bounded, share=share)

    def without_extents(self, formulas: Iterable[Formula]) -> list[Formula]:
        """Returns formulas without those which say that extents of arrays are numbers of elements."""
        return [each for each in formulas if each not in self._of_extents]

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
            if access.writes and isinstance(pointer, Pointer) and self.terms.target_of(pointer.base) is not None:
                pointer = Unknown("a write to an array whose address is loaded: others may have the same one")
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


__all__ = ["ALWAYS", "BLOCK", "MAX_BYTES", "AccessTerms", "Level", "World", "others"]
