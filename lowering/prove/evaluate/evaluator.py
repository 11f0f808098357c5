"""Evaluates SSA values of a block function as terms, one lane at a time and backwards from whoever asks.

Blocks are never built: `value(ssa, lanes)` is the element at an index of terms. What no rule describes is a free integer in the
range of its type, which stands for any value that it may have. Programs, lanes and iterations are free, too.

A term stands for a value in every run that the assumptions and the conditions of its context allow: integers wrap where the
run wraps them. The only shortcut is that a number which the solver shows to fit, from exactly these assumptions and conditions,
needs no wrapping.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ...tt import types as t
from ..terms.atoms import LANE, PROGRAM, Terms
from ..terms.formulas import Flag, Formula, Truth, both, is_larger, less, negated, within
from ..terms.orders import Meaning
from ..terms.polynomials import ZERO, Polynomial, TooLarge
from ..terms.solver import Solver
from .blocks import Blocks
from .values import Condition, Contents, Integer, Unknown, Value

Lanes = tuple[Polynomial, ...]
Rule = Callable[["Evaluator", SSAValue, Lanes], Value | None]
"""(evaluator, value, lanes) → the value in the lane; None if nothing is known of it."""

Invariant = Integer | tuple[tuple[Polynomial, ...], tuple[Polynomial, ...]] | None
"""What is known of an integer that a loop carries: that it always is another one, or limits from below and from above."""

MAX_STEPS = 60_000
_MAX_DEPTH = 100
_MAX_FORMULA = 100
"""Largest condition that is written out wherever it is used; longer ones get a name."""


def _below(end: Polynomial) -> Callable[[Polynomial], tuple[Formula, ...]]:
    """Returns the facts of an index that is less than `end`."""
    return lambda made: (less(made, end),)


class Run:
    """One symbolic program of a launch: what all contexts of its terms share.

    Attributes:
        terms: the atoms.
        base: what is assumed of sizes.
        function: the function, whose calls, descriptors and switches have been expanded.
        parameters: values by position.
        grid: the numbers of programs.
        program: the program's index along each axis.
        contents: by position of a parameter, the range of all elements of its array.
        rules: by name of the operation that makes a value; those of the arguments of regions by the name of the operation that
            has the region, with ":argument".
        steps_left: how many more values are evaluated; others are free.
        invariants: what is known of carried integers, by loop, number and lanes of the one that was asked for.
        open_invariants: loops of which that is being found.
        loads: operations of which the contents of their array were used.
        wraps: whether numbers wrap. Guesses of specifications, which are proven afterwards, are made as if they did not.
    """

    wraps = True

    def __init__(
        self, terms: Terms, solver: Solver, base: Sequence[Formula], function: Operation, parameters: Mapping[int, Value],
        grid: tuple[Polynomial, Polynomial, Polynomial], contents: Mapping[int, Contents], rules: Mapping[str, Rule],
    ) -> None:  # fmt: skip
        """Starts with nothing evaluated."""
        self.terms = terms
        self.solver = solver
        self.base = tuple(base)
        self.function = function
        self.parameters = parameters
        self.grid = grid
        self.contents = contents
        self.rules = rules
        self.steps_left = MAX_STEPS
        self.depth = 0
        self.open_loops = 0
        self.blocks = Blocks()
        self.contexts: dict[Block, Evaluator] = {}
        self.increments: dict[Hashable, Polynomial | None] = {}
        self.exact: dict[Hashable, bool] = {}
        self.bounds_of_loops: dict[Operation, tuple[Polynomial, Polynomial, Polynomial] | None] = {}
        self.invariants: dict[tuple[Operation, int, Lanes], Invariant] = {}
        self.open_invariants: set[Operation] = set()
        self.loads: dict[Operation, None] = {}
        self.program = tuple(
            [terms.atom(
                ("program", axis), f"program({'xyz'[axis]})", 0, (1 << 31) - 2, (PROGRAM,),
                _below(grid[axis]),
            ) if grid[axis].number != 1 else ZERO for axis in range(3)]
        )  # fmt: skip
        terms.below |= {atom: grid[axis] for axis, each in enumerate(self.program) for atom in each.atoms}

    def lanes(self, shape: Sequence[int]) -> Lanes:
        """Returns free lanes of a block."""
        found = []
        for axis, extent in enumerate(shape):
            label = f"lane({axis if len(shape) > 1 else ''})"  # no name of a parameter has parentheses
            key = ("lane", axis, extent)
            found.append(ZERO if extent == 1 else self.terms.atom(key, label, 0, extent - 1, (PROGRAM, LANE)))
        return tuple(found)

    def loops(self, ssa: SSAValue) -> frozenset[Hashable]:
        """Returns by what a value may differ beside its lane: the program, and the loops around its definition."""
        op = ssa.op.parent_op() if isinstance(ssa, OpResult) else ssa.owner.parent_op()
        return self.around(op)

    def forget(self, loop: Operation) -> None:
        """Makes everything inside a loop anew when it is asked for again.

        What was made is true, but more may be shown when more is known of what the loop carries.
        """

        def is_inside(op: Operation | None) -> bool:
            while op is not None and op is not loop:
                op = op.parent_op()
            return op is loop

        for block, own in list(self.contexts.items()):
            if block.parent_op() is loop and block is loop.regions[0].blocks[0]:
                own.forget()
            elif is_inside(block.parent_op()):
                del self.contexts[block]
        def is_made_inside(key: Hashable) -> bool:
            op = key[0] if isinstance(key, tuple) else key
            return isinstance(op, Operation) and op is not loop and is_inside(op)

        self.bounds_of_loops = {key: each for key, each in self.bounds_of_loops.items() if not is_made_inside(key)}
        self.increments = {key: each for key, each in self.increments.items() if not is_made_inside(key)}
        self.exact = {key: each for key, each in self.exact.items() if not is_made_inside(key)}
        self.invariants = {key: each for key, each in self.invariants.items() if not is_made_inside(key)}

    def around(self, op: Operation | None) -> frozenset[Hashable]:
        """Returns the program, and the loops that an operation is or is in."""
        found: set[Hashable] = {PROGRAM}
        while op is not None and op is not self.function:
            if op.name in ("scf.for", "scf.while"):
                found.add(op)
            op = op.parent_op()
        return frozenset(found)


class Evaluator:
    """Terms of the values of a run, as far as conditions hold in it.

    Attributes:
        run: the symbolic program.
        given: the conditions. Terms stand for what is computed in runs in which these hold, and for anything in others.
    """

    def __init__(
        self, run: Run, given: tuple[Formula, ...] = (), above: Evaluator | None = None,
        taken: Mapping[tuple[SSAValue, Lanes], Value] | None = None,
    ) -> None:  # fmt: skip
        """Starts with nothing evaluated.

        above: a context whose conditions are among these. taken: values that stand for others.
        """
        self.run = run
        self.terms = run.terms
        self.given = given
        self._above = above
        self._taken = dict(taken or {})
        self._known = dict(self._taken)
        self._fits: dict[tuple[Polynomial, int], bool] = {}
        self._below: dict[Formula, Evaluator] = {}

    def under(self, condition: Formula) -> Evaluator:
        """Returns the context in which a condition holds besides."""
        if condition == Truth(True) or condition in self.given:
            return self
        found = self._below.get(condition)
        if found is None:
            found = self._below[condition] = Evaluator(self.run, (*self.given, condition), self, self._taken)
        return found

    def taking(self, ssa: SSAValue, lanes: Lanes, value: Value) -> Evaluator:
        """Returns a context in which a value stands for another one, from which everything else is computed."""
        return Evaluator(self.run, self.given, self, {**self._taken, (ssa, lanes): value})

    def forget(self) -> None:
        """Makes values anew when they are asked for again, but for those that stand for others."""
        self._known = dict(self._taken)
        self._below.clear()

    @property
    def formula(self) -> Formula:
        """The conditions of the context."""
        return both(*self.given)

    # Values

    def value(self, ssa: SSAValue, lanes: Lanes) -> Value:
        """Returns the value in a lane; `lanes` has one index for each axis of a block, and is () for a scalar."""
        key = (ssa, lanes)
        found = self._known.get(key)
        if found is None:
            run = self.run
            run.steps_left -= 1
            if run.steps_left < 0 or run.depth > _MAX_DEPTH:
                return self.free(ssa, lanes)
            run.depth += 1
            try:
                found = self._value(ssa, lanes)
                if isinstance(found, Condition) and is_larger(found.formula, _MAX_FORMULA):
                    found = Condition(self.terms.named(found.formula))
            except TooLarge:
                found = self.free(ssa, lanes)
            finally:
                run.depth -= 1
            self._known[key] = found
        return found

    def _value(self, ssa: SSAValue, lanes: Lanes) -> Value:
        run = self.run
        if isinstance(ssa, BlockArgument):
            parent = ssa.block.parent_op()
            if parent is run.function and ssa.block is run.function.regions[0].blocks[0]:
                return run.parameters[ssa.index]
            rule = run.rules.get(f"{parent.name}:argument") if parent is not None else None
        else:
            assert isinstance(ssa, OpResult)
            rule = run.rules.get(ssa.op.name)
        found = None if rule is None else rule(self, ssa, lanes)
        return self.free(ssa, lanes) if found is None else found

    def integer(self, ssa: SSAValue, lanes: Lanes) -> Integer:
        """Returns the value of an SSA value whose type is an integer of more than one bit."""
        found = self.value(ssa, lanes)
        assert isinstance(found, Integer)
        return found

    def condition(self, ssa: SSAValue, lanes: Lanes) -> Condition:
        """Returns the value of an i1."""
        found = self.value(ssa, lanes)
        assert isinstance(found, Condition)
        return found

    def free(self, ssa: SSAValue, lanes: Lanes, array: int | None = None) -> Value:
        """Returns an integer or condition of which nothing but its type is known. array: whose element it is."""
        from_op = ssa.op.name if isinstance(ssa, OpResult) else "carried"
        name = f"{from_op} {ssa.name_hint or ''}".strip()
        if not t.is_integer(ssa.type):
            return Unknown(name)
        depends = self.run.loops(ssa) | self.terms.depends(*lanes)
        width = t.bit_width(ssa.type)
        if width == 1:
            return Condition(Flag(self.terms.flag((ssa, lanes), name, depends)))
        half = 1 << (width - 1)
        meaning = None if array is None else Meaning(array)
        return Integer(self.terms.atom((ssa, lanes, array), name, -half, half - 1, depends, meaning=meaning), width)

    # What rules ask

    def signed(self, value: Integer) -> Polynomial:
        """Returns the signed number that an integer is."""
        half = 1 << (value.width - 1)
        number = value.value
        if value.is_number or not self.run.wraps or self.terms.fits(number, -half, half - 1) or self.fits(number, value.width):
            return number
        return self.terms.wrapped(number, value.width)

    def fits(self, number: Polynomial, width: int) -> bool:
        """Returns whether a number is shown to be one of this width, in every run that the context allows."""
        key = (number, width)
        found = self._fits.get(key)
        if found is None:
            above = self._above
            while above is not None and not found:
                found = above._fits.get(key)
                above = above._above
            half = 1 << (width - 1)
            self._fits[key] = found = bool(found) or self.is_shown(within(number, -half, half - 1))
        return found

    def is_shown(self, claim: Formula) -> bool:
        """Returns whether the solver shows a claim for every run that the context allows."""
        return self.run.solver.is_impossible(*self.run.base, *self.given, negated(claim))


__all__ = ["MAX_STEPS", "Evaluator", "Lanes", "Rule", "Run"]
