"""Evaluates SSA values of a block function as terms, one lane at a time and backwards from whoever asks.

Blocks are never built: `value(ssa, lanes)` is the element at an index of terms. What no rule describes is a free integer in the
range of its type, which stands for any value that it may have. Programs, lanes and iterations are free, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ...tt import types as t
from ..terms.atoms import Terms
from ..terms.formulas import Flag, both, is_larger, less
from ..terms.polynomials import ZERO, Polynomial, TooLarge
from .blocks import Blocks
from .values import Condition, Contents, Integer, Need, Needs, Unknown, Value, integer, merged

Lanes = tuple[Polynomial, ...]
Rule = Callable[["Evaluator", SSAValue, Lanes], Value | None]
"""(evaluator, value, lanes) → the value in the lane; None if nothing is known of it."""

MAX_STEPS = 40_000
_MAX_DEPTH = 120
_MAX_FORMULA = 100
"""Largest condition that is written out wherever it is used; longer ones get a name."""


class Evaluator:
    """Terms of the values of one symbolic program.

    Attributes:
        terms: the atoms, which programs share.
        function: the function, whose calls, descriptors and switches have been expanded.
        copy: tells programs apart.
        grid: the numbers of programs.
        program: the program's index along each axis.
        contents: by position of a parameter, the range of all elements of its array.
        steps_left: how many more values are evaluated; others are free.
    """

    def __init__(
        self, terms: Terms, function: Operation, copy: str, parameters: Mapping[int, Value],
        grid: tuple[Polynomial, Polynomial, Polynomial], contents: Mapping[int, Contents],
        rules: Mapping[str, Rule], wrapping: frozenset[Operation] = frozenset(),
    ) -> None:  # fmt: skip
        """Starts with nothing evaluated.

        parameters: values by position. rules: by name of the operation that makes a value; those of the arguments of regions by
        the name of the operation that has the region, with ":argument". wrapping: operations that look at integers which may
        wrap, so that what they wrap to is an integer of its own.
        """
        self.terms = terms
        self.function = function
        self.copy = copy
        self.grid = grid
        self.contents = contents
        self.steps_left = MAX_STEPS
        self._parameters = parameters
        self._rules = rules
        self._wrapping = wrapping
        self._known: dict[tuple[SSAValue, Lanes], Value] = {}
        self._depth = 0
        self.open_loops = 0
        self.blocks = Blocks()
        self.program = tuple(
            [self.terms.atom(
                (copy, "program", axis), f"{copy}_{'xyz'[axis]}", 0, (1 << 31) - 2, (),
                lambda made, axis=axis: (less(made, grid[axis]),),  # type: ignore[misc]
            ) if grid[axis].number != 1 else ZERO for axis in range(3)]
        )  # fmt: skip

    # Values

    def value(self, ssa: SSAValue, lanes: Lanes) -> Value:
        """Returns the value in a lane; `lanes` has one index for each axis of a block, and is () for a scalar."""
        key = (ssa, lanes)
        found = self._known.get(key)
        if found is None:
            self.steps_left -= 1
            if self.steps_left < 0 or self._depth > _MAX_DEPTH:
                return self.free(ssa, lanes)
            self._depth += 1
            try:
                found = self._value(ssa, lanes)
                if isinstance(found, Condition) and is_larger(found.formula, _MAX_FORMULA):
                    found = Condition(self.terms.named(found.formula), found.needs)
            except TooLarge:
                found = self.free(ssa, lanes)
            finally:
                self._depth -= 1
            self._known[key] = found
        return found

    def _value(self, ssa: SSAValue, lanes: Lanes) -> Value:
        if isinstance(ssa, BlockArgument):
            parent = ssa.block.parent_op()
            if parent is self.function and ssa.block is self.function.regions[0].blocks[0]:
                return self._parameters[ssa.index]
            rule = self._rules.get(f"{parent.name}:argument") if parent is not None else None
        else:
            assert isinstance(ssa, OpResult)
            rule = self._rules.get(ssa.op.name)
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

    def free(self, ssa: SSAValue, lanes: Lanes) -> Value:
        """Returns an integer or condition of which nothing but its type is known."""
        name = self._name(ssa)
        depends = self.loops(ssa)
        for lane in lanes:
            depends |= self.terms.depends(lane)
        if not t.is_integer(ssa.type):
            return Unknown(name)
        width = t.bit_width(ssa.type)
        if width == 1:
            return Condition(Flag(self.terms.flag((self.copy, ssa, lanes), name, depends)))
        half = 1 << (width - 1)
        return Integer(self.terms.atom((self.copy, ssa, lanes), name, -half, half - 1, depends), width)

    def _name(self, ssa: SSAValue) -> str:
        from_op = ssa.op.name if isinstance(ssa, OpResult) else "carried"
        return f"{from_op} {ssa.name_hint or ''}".strip()

    def loops(self, ssa: SSAValue) -> frozenset[Hashable]:
        """Returns the loops around the definition of a value, in whose iterations it may differ."""
        op = ssa.op.parent_op() if isinstance(ssa, OpResult) else ssa.owner.parent_op()
        found: set[Hashable] = set()
        while op is not None and op is not self.function:
            if op.name in ("scf.for", "scf.while"):
                found.add((self.copy, op))
            op = op.parent_op()
        return frozenset(found)

    # What rules ask

    def signed(self, value: Integer, op: Operation) -> tuple[Polynomial, Needs]:
        """Returns the number that an integer is, and its needs, with the one that it fits."""
        half = 1 << (value.width - 1)
        if self.terms.fits(value.value, -half, half - 1):
            return value.value, value.needs
        if op in self._wrapping:
            return self.terms.wrapped(value.value, value.width), value.needs
        return value.value, merged(value.needs, (Need(value.value, value.width, both(), op),))

    def assuming(self, key: tuple[SSAValue, Lanes], value: Value) -> dict[tuple[SSAValue, Lanes], Value]:
        """Begins to take a value for granted; what is evaluated until `restore` is called depends on it."""
        known = self._known
        self._known = dict(known)
        self._known[key] = value
        return known

    def restore(self, known: dict[tuple[SSAValue, Lanes], Value]) -> None:
        """Forgets what has been evaluated since `assuming`."""
        self._known = known

    def lanes(self, shape: Sequence[int], name: str = "") -> Lanes:
        """Returns free lanes of a block. name: tells several lanes of one program apart."""
        found = []
        for axis, extent in enumerate(shape):
            key = (self.copy, "lane", axis, extent, name)
            label = f"{self.copy}{name}_lane{axis if len(shape) > 1 else ''}"
            found.append(ZERO if extent == 1 else self.terms.atom(key, label, 0, extent - 1))
        return tuple(found)


__all__ = ["MAX_STEPS", "Evaluator", "Lanes", "Rule", "integer"]
