"""Proves that no integer from which addresses and masks are computed wraps, in any lane of any program, masked or not.

Every operation that could wrap is looked at where it stands, in the context of its block: its operands are the numbers that
they are in the run, wrapped or not, and the exact result must fit. Everything that may have a part in an address is looked at.
An operation that is on no list here counts as not modelled, whatever it returns: a float may be made of a number that wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from xdsl.ir import Operation, SSAValue

from ...promotion.errors import InternalError
from ..tt import types as t
from ..tt.dialect.arith import INTEGER_PREDICATES
from ..tt.dialect.attributes import property_number
from .bounds import Bounds
from .evaluate.contexts import NotModelled, bounds_of, context, iteration
from .evaluate.slices import computing
from .evaluate.values import Condition, Integer, Pointer
from .found import SHOWN, Found
from .preparation import Access, line_of
from .proof import REFUTED, UNDER, UNKNOWN, Counterexample
from .single_programs import COMPUTING, SinglePrograms
from .specify.expressions import parse_assumption
from .terms.formulas import FALSE, Formula, at_most, both, either, equal, negated, within
from .terms.polynomials import Polynomial, TooLarge
from .world import ALWAYS, Level, World

_RING = frozenset({"arith.addi", "arith.subi", "arith.muli", "arith.shli", "arith.trunci"})
_MIN = frozenset({"arith.divsi", "arith.floordivsi", "arith.ceildivsi", "math.absi"})
"""Operations that wrap for the least number alone."""
_EXACT = frozenset({
    "arith.constant", "tt.get_program_id", "tt.get_num_programs", "tt.make_range", "tt.splat", "tt.unsplat", "tt.broadcast",
    "tt.expand_dims", "tt.trans", "tt.reshape", "tt.join", "tt.split", "tt.cat", "tt.gather", "tt.sort", "arith.cmpi",
    "arith.sitofp", "arith.uitofp", "arith.select", "arith.extsi", "arith.extui", "arith.andi", "arith.ori", "arith.xori",
    "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui", "arith.shrsi", "arith.shrui", "arith.remsi", "arith.remui",
    "arith.divui",
    "tt.bitcast", "arith.bitcast", "scf.for", "scf.if", "scf.while", "scf.execute_region",
})  # fmt: skip
"""Operations whose integers are those of their operands, or cannot wrap."""
_FLOATS = frozenset([
    *[f"arith.{name}" for name in (
        "addf", "subf", "mulf", "divf", "remf", "negf", "maximumf", "minimumf", "maxnumf", "minnumf", "extf", "truncf", "cmpf",
    )],
    *[f"math.{name}" for name in (
        "absf", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "fma", "log", "log10", "log1p", "log2", "powf", "round",
        "roundeven", "rsqrt", "sin", "sqrt", "tanh", "trunc",
    )],
    "tt.fp_to_fp", "tt.approx_divf", "tt.precise_divf", "tt.precise_sqrt", "tt.clampf",
])  # fmt: skip
"""Operations that compute with floats alone."""
_UNSIGNED = frozenset({
    "arith.divui", "arith.remui", "arith.shrui", "arith.minui", "arith.maxui", "arith.extui", "arith.cmpi", "arith.uitofp",
})  # fmt: skip
"""Operations that may read their operands as unsigned numbers."""
_SIGNED = frozenset({
    "arith.extsi", "arith.sitofp", "arith.cmpi", "arith.minsi", "arith.maxsi", "arith.remsi", "arith.shrsi", "arith.divsi",
    "arith.floordivsi", "arith.ceildivsi", "math.absi",
})  # fmt: skip
"""Operations that may read truth values as signed numbers, of which true is -1."""
_LOADS = frozenset({"tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_poll"})
"""Operations whose results are what memory holds."""

_MAX_TRIED = 3
"""Operations that may wrap of which a launch is looked for, for each access."""
_MAX_ITERATION = 40
"""The last iteration of a loop in which it is looked for one."""
_STEPS_AN_OPERATION = 10
"""What each operation counts from which an access is computed: that may be all of the kernel's, for each access."""


class Overflow:
    """The verdicts on overflow of one function."""

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms."""
        self._bounds = bounds
        self._for_examples = bounds.steps_besides()
        self._unsigned = _read_as_unsigned(bounds.prepared.function)
        self._signed_bits = _bits_read_as_signed(bounds.prepared.function)
        self._asked: dict[tuple[Operation, Level], str] = {}
        self._faults: dict[Operation, Formula] = {}
        self._examples: dict[Operation, Counterexample | None] = {}
        self._operations: dict[Access, list[Operation]] = {}
        self._programs: SinglePrograms | None = None

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        accesses = [each for each in self._bounds.prepared.accesses if not each.is_gather]
        found = {each: self._bounds.guarded(partial(self._verdict, each)) for each in accesses}
        # At last, so that what the solver was asked for a verdict does not depend on examples.
        return {access: self._with_example(access, each) for access, each in found.items()}

    def _with_example(self, access: Access, found: Found) -> Found:
        """Returns a verdict with a launch in which a number wraps, if one is found: refuted if there is no condition."""
        operations = [each for each in self._operations.get(access, ()) if each in self._faults]
        if found.verdict not in (UNDER, UNKNOWN) or not operations:
            return found
        tried = 0
        for op in operations:
            if op not in self._examples:
                tried += 1
                self._examples[op] = None
                self._examples.update(self._searched(op))
            example = self._examples[op]
            if example is not None and found.verdict == UNKNOWN:
                return Found(REFUTED, counterexample=example)
            if example is not None:
                if self._bounds.satisfies(dict(example.sizes), [parse_assumption(text) for text in found.level]):
                    raise InternalError(f"prove: proven under {found.level}, and a number wraps there: {example}")
                return replace(found, counterexample=example)
            if tried == _MAX_TRIED:
                break
        return found

    def _verdict(self, access: Access) -> Found:
        if access.obstacle:
            return Found(UNKNOWN, reason=access.obstacle)
        operations = self._operations[access] = _computing(self._bounds.prepared.function, access)
        self._bounds.world.solver.budget.take(_STEPS_AN_OPERATION * len(operations))
        pointer = self._bounds.pointer(access)

        order = list(operations)

        def holds(level: Level) -> bool:
            failed = next((op for op in order if self._problem(op, level)), None)
            if failed is not None:  # it is asked first the next time: under fewer conditions it most likely fails again
                order.remove(failed)
                order.insert(0, failed)
            return failed is None

        array = pointer.base if isinstance(pointer, Pointer) else None
        found = self._bounds.climb(array, holds, [partial(self._bounds.live, access)])
        if found.verdict in SHOWN or found.reason:
            return found
        levels = self._bounds.levels(array)
        strongest = levels[-1] if levels else ALWAYS
        for each in (strongest, ALWAYS):  # what is left under all conditions is in the way, and not what they are for
            for op in operations:
                if problem := self._problem(op, each):
                    is_sum = bool(each) and problem.endswith("bits")
                    most = f", also where sizes are at most {each[-1].rpartition('<= ')[2]}" if is_sum else ""
                    return Found(UNKNOWN, reason=f"may wrap: {problem} at {line_of(op)}{most}")
        return Found(UNKNOWN, reason="may wrap")

    def _searched(self, op: Operation) -> Mapping[Operation, Counterexample]:
        """Looks for a launch in which an operation wraps, and returns all that wrap in a run of its program."""
        world = self._bounds.world
        solver, budget = world.solver, world.solver.budget
        solver.budget = self._for_examples
        try:
            run = world.run()
            loops = [each for each in _around(op) if each.name in ("scf.for", "scf.while")]
            early = [at_most(iteration(run, loop), _MAX_ITERATION) for loop in loops]  # a program runs few of them
            if self._programs is None:
                self._programs = SinglePrograms(self._bounds.prepared, self._faults)
            formulas = [self._faults[op], *early]
            return self._bounds.launches.of_any_size(world, formulas, run.program, self._programs.run)
        except (NotModelled, TooLarge, RecursionError):
            return {}
        finally:
            solver.budget = budget

    def _problem(self, op: Operation, level: Level) -> str:
        """Returns what may wrap in an operation; "" if nothing does."""
        found = self._asked.get((op, level))
        if found is None and level and not self._problem(op, ALWAYS):
            found = self._asked[op, level] = ""  # what wraps in no launch at all wraps in none of those that conditions leave
        if found is None:
            try:
                found = self._ask(op, level)
            except NotModelled as error:
                found = error.reason
            except (TooLarge, RecursionError):
                found = f"{op.name}, whose operands are too long terms"
            self._asked[op, level] = found
        return found

    def _ask(self, op: Operation, level: Level) -> str:
        world = self._bounds.world
        run = world.run(level)
        if op.name == "scf.for":
            return (
                ""
                if bounds_of(run, op) is not None
                else "a loop that is not shown to count upwards as signed numbers do"
            )
        is_unsigned = op in self._unsigned
        if not is_unsigned and op.name not in (*_RING, *_MIN, "tt.addptr"):
            is_exact = op.name in _EXACT | _LOADS or (op.name in _FLOATS and not any(map(_holds_integers, op.operands)))
            return "" if is_exact else f"{op.name}, which is not modelled,"
        assert op.parent is not None
        ev = context(run, op.parent)
        lanes = run.lanes(t.shape_of(op.results[0].type))
        if op.name == "tt.addptr":
            pointer = ev.value(op.results[0], lanes)
            if not isinstance(pointer, Pointer):
                return "an address that is not known"
            return self._unless(
                level,
                ev.formula,
                _unfit(world, pointer.offset, 64),
                f"{world.terms.text(pointer.offset)} in 64 bits",
            )
        operands = [ev.value(operand, lanes) for operand in op.operands]
        is_bit = t.bit_width(op.results[0].type) == 1
        if all(isinstance(each, Condition) for each in operands):
            if op.name not in (*_RING, *_MIN):
                return ""  # reads a truth value
            bits = [each.formula for each in operands if isinstance(each, Condition)]
            return self._unless(level, ev.formula, _bit_wraps(op, bits, op in self._signed_bits), f"{op.name} in 1 bit")
        if not all(isinstance(each, Integer) for each in operands):
            return f"{op.name} of what is not modelled"
        numbers = [ev.signed(each) for each in operands if isinstance(each, Integer)]
        if is_unsigned:
            widths = [each.width for each in operands if isinstance(each, Integer)]
            fault = either(
                *[_negative(world, number, width) for number, width in zip(numbers, widths, strict=True)]
            )
            text = f"{op.name} of what is read as unsigned, and may be negative"
            if (found := self._unless(level, ev.formula, fault, text)) or op.name not in (*_RING, *_MIN):
                return found
        if is_bit:  # arith.trunci: a truth value is 0 or 1, and -1 where it is read as signed
            fault = negated(within(numbers[0], 0, 0 if op in self._signed_bits else 1))
            return self._unless(level, ev.formula, fault, f"{world.terms.text(numbers[0])} in 1 bit")
        wraps, text = _wraps(world, op, numbers)
        if wraps is None:
            return text
        found = self._unless(level, ev.formula, wraps, text)
        if found and level == ALWAYS and op.name in COMPUTING and not is_unsigned:
            self._faults[op] = both(ev.formula, wraps)
        return found

    def _unless(self, level: Level, given: Formula, fault: Formula, text: str) -> str:
        """Returns "" if a fault is shown not to be there, and else the text."""
        return "" if fault == FALSE or self._bounds.world.is_impossible(level, given, fault, bounded=True) else text


def _around(op: Operation) -> Iterator[Operation]:
    """Yields the operations in whose regions an operation stands."""
    while (parent := op.parent_op()) is not None:
        yield parent
        op = parent


def _negative(world: World, number: Polynomial, width: int) -> Formula:
    """Returns that a number is not the same one read as signed and as unsigned."""
    most = (1 << (width - 1)) - 1
    return FALSE if world.terms.fits(number, 0, most) else negated(within(number, 0, most))


def _unfit(world: World, exact: Polynomial, width: int) -> Formula:
    """Returns that a number does not fit a width."""
    half = 1 << (width - 1)
    return FALSE if world.terms.fits(exact, -half, half - 1) else negated(within(exact, -half, half - 1))


def _wraps(world: World, op: Operation, operands: Sequence[Polynomial]) -> tuple[Formula | None, str]:
    """Returns when the result of an operation is not its exact number, and that number in words; None: perhaps always."""
    width = t.bit_width(op.results[0].type)
    half = 1 << (width - 1)
    x, y = operands[0], operands[-1]
    match op.name:
        case "math.absi":
            return equal(x, -half), f"abs({world.terms.text(x)}) in {width} bits"
        case "arith.divsi" | "arith.floordivsi" | "arith.ceildivsi":
            return both(
                equal(x, -half), equal(y, -1)
            ), f"{world.terms.text(x)} / {world.terms.text(y)} in {width} bits"
        case "arith.addi":
            exact = x + y
        case "arith.subi":
            exact = x - y
        case "arith.muli":
            exact = x * y
        case "arith.shli":
            if not world.terms.fits(y, 0, width - 1):
                return None, f"{world.terms.text(x)} << {world.terms.text(y)} in {width} bits"
            exact = x * world.terms.power_of_two(y)
        case _:
            exact = x
    return _unfit(world, exact, width), f"{world.terms.text(exact)} in {width} bits"


def _bit_wraps(op: Operation, operands: Sequence[Formula], is_signed: bool) -> Formula:
    """Returns when an operation on truth values, which are 0 and 1, has another result than with numbers.

    is_signed: whether the result is read as a signed number, too, in which it is 0 or -1.
    """
    x, y = operands[0], operands[-1]
    match op.name:
        case "arith.subi":
            return both(negated(x), y)
        case "arith.muli":
            return both(x, y) if is_signed else FALSE
        case "arith.shli" | "math.absi":
            return y
        case _:
            return both(x, y)


def _is_unsigned(op: Operation) -> bool:
    if op.name == "arith.cmpi":
        return str(INTEGER_PREDICATES[property_number(op, "predicate")]).startswith("u")
    return op.name in _UNSIGNED


def _read_as_unsigned(function: Operation) -> frozenset[Operation]:
    """Returns the operations that read unsigned numbers, and the sums and products of which these are made.

    A number that is not negative is the same one read as signed; only for such numbers is it the same question whether a sum
    wraps.
    """
    readers = [op for op in function.walk() if _is_unsigned(op)]
    made = (
        computing(function, [operand for op in readers for operand in op.operands], [])
        if readers
        else []
    )
    return frozenset([*readers, *[op for op in made if op.name in _RING or op.name in _MIN]])


def _bits_read_as_signed(function: Operation) -> frozenset[Operation]:
    """Returns the operations that compute truth values of which numbers are made that are signed: of true, -1."""
    readers = [op for op in function.walk() if op.name in _SIGNED and t.bit_width(op.operands[0].type) == 1]
    readers = [op for op in readers if op.name != "arith.cmpi" or _is_signed_comparison(op)]
    made = computing(function, [operand for op in readers for operand in op.operands], []) if readers else []
    return frozenset([op for op in made if op.name in _RING or op.name in _MIN])


def _is_signed_comparison(op: Operation) -> bool:
    return str(INTEGER_PREDICATES[property_number(op, "predicate")]).startswith("s")


def _holds_integers(value: SSAValue) -> bool:
    return (t.is_integer(value.type) and t.bit_width(value.type) > 1) or t.is_pointer(value.type)


def _computing(function: Operation, access: Access) -> list[Operation]:
    """Returns the operations from which an access's address, mask and path are computed, what controls these included."""
    return computing(
        function, [access.pointer, *([access.mask] if access.mask is not None else [])], [access.op]
    )


__all__ = ["Overflow"]
