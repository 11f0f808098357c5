"""Builds conditional expressions: branches of scalars, masks and selections of blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from xdsl.ir import SSAValue

from ....tt import types as t
from ....tt.builder.block_builder import BlockBuilder
from ....tt.limits import MAX_NESTED_REGIONS
from ..checking import typed
from ..checking.typed import Symbol
from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from ..types import BOOL, VOID, type_of
from .axes import Lanes
from .elements import Elements, Locations, mlir_types
from .masks import Masks

_EFFECTS = (typed.Load, typed.Store, typed.Assign, typed.Call, typed.Atomic, typed.Effect)
ACCESSES = (typed.Load, typed.Store, typed.Call, typed.Atomic, typed.Effect, typed.Gather)
"""What the mask of an arm is for: memory, and indices, which may lie outside where lanes are inactive."""
COSTLY = (*_EFFECTS, typed.Dot, typed.Gather, typed.Reduce, typed.ArgReduce, typed.Math)
"""What a branch is made for, so that only the chosen arm is evaluated; other arms are evaluated both."""
MAX_BLOCK_ARMS = 128
"""Conditional expressions by blocks of which each is the last arm of another: back ends follow them by recursion."""
MAX_ARMS = 8
"""Conditional expressions by scalars that are branches within one another; those behind them are branches of their own."""


class ConditionalBuilder(ABC):
    """Holds the state of building one function, and builds the conditional expressions in it.

    Attributes:
        values: the value of each variable at this point.
        _made: what is visible here of ranges, views, broadcasts and program ids: texts write them again in every expression.
        mask: the active lanes, in arms of conditionals with blocks of conditions; None: all.
        arm: the mask of the arm that is being built, in the shape of its condition, and an expression that has its axes.
        lanes: what masks of callers mean here, in a function that is built in place of a call.
    """

    def __init__(self, builder: BlockBuilder, diagnostics: Diagnostics, locations: Locations) -> None:
        self.builder = builder
        self.diagnostics = diagnostics
        self.locations = locations
        self.elements = Elements(builder)
        self.masks = Masks(builder)
        self.values: dict[Symbol, SSAValue] = {}
        self.mask: SSAValue | None = None
        self.arm: tuple[SSAValue, typed.Expression] | None = None
        self.lanes: Lanes | None = None
        self._made: dict[tuple[object, ...], SSAValue] = {}
        self._depth = 0

    def at(self, token: Token) -> BlockBuilder:
        """Return the builder, whose next operations come from a token."""
        self.builder.location = self.locations.of(token)
        return self.builder

    @abstractmethod
    def build(self, node: typed.Expression) -> SSAValue:
        """Return the value of an expression."""

    @abstractmethod
    def _loaded(self, node: typed.Load, lanes: SSAValue | None, other: SSAValue | None) -> SSAValue:
        """Load where `lanes` holds, and `other` elsewhere: 0 unless it is given."""

    @abstractmethod
    def inlined(self, node: typed.Call, arguments: list[SSAValue]) -> list[SSAValue]:
        """Build the body of a function in place of a call, if any lane is active."""

    @abstractmethod
    def own_lanes(self) -> Lanes:
        """Return the axes of the function that is built, and the masks of its callers."""

    @abstractmethod
    def is_idle(self, node: typed.Expression) -> bool:
        """Return whether an expression does nothing but read memory for a value that nobody takes, in masked code."""

    @contextmanager
    def region(self, token: Token) -> Iterator[None]:
        """Build inside of a region, whose values nobody sees behind it."""
        outer, self._made = self._made, dict(self._made)
        self._depth += 1
        if self._depth >= MAX_NESTED_REGIONS:
            message = f"more than {MAX_NESTED_REGIONS - 1} branches and loops in one another, of conditional expressions too"
            self.diagnostics.fatal(token, message, "variables for the inner ones")
        try:
            yield
        finally:
            self._made = outer
            self._depth -= 1

    def _once(self, token: Token, key: tuple[object, ...], make: Callable[[BlockBuilder], SSAValue]) -> SSAValue:
        """Return the value that was made for a key, or make it."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make(self.at(token))
        return found

    @contextmanager
    def under(self, mask: SSAValue | None) -> Iterator[None]:
        """Build with other active lanes."""
        outer, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = outer

    @contextmanager
    def in_arm(self, lanes: SSAValue | None, like: typed.Expression) -> Iterator[None]:
        """Build an arm, whose lanes have the axes of `like`; None: what is no arm."""
        outer = self.arm
        mask = self.masks.both(self.mask, lanes)
        if lanes is not None and mask is not None:
            self.arm = mask, like
        try:
            with self.under(mask):
                yield
        finally:
            self.arm = outer

    def chosen(
        self, token: Token, condition: SSAValue, first: typed.Expression, second: typed.Expression, writes: frozenset[Symbol]
    ) -> SSAValue:
        """Return the value of one of two arms, of which one is evaluated, with what it does to variables."""
        is_void = first.type.element == VOID
        changed = [symbol for symbol in self.values if symbol in writes]
        types = [*([] if is_void else [first.type.mlir]), *mlir_types(changed)]
        branch = self.at(token).if_(condition, types)
        before = dict(self.values)
        for context, arm in ((branch.then, first), (branch.otherwise, second)):
            self.values = dict(before)
            with context(), self.region(token):
                value = self.build(arm)
                self.at(token)
                branch.yield_([*([] if is_void else [value]), *(self.values[symbol] for symbol in changed)])
        self.values = before
        results = list(branch.results)
        if not is_void:
            value = results.pop(0)
        self.values.update(zip(changed, results, strict=True))
        return value

    def _conditional(self, node: typed.Conditional) -> SSAValue:
        """Build `c ? a : b`. Chains, of which each is the last arm of another, may be long, and are built without recursion."""
        chain = [node]
        while isinstance(following := chain[-1].second, typed.Conditional) and _is_alike(following, node):
            chain.append(following)
        if not node.condition.type.shape or node.is_eager:
            if not node.is_eager and typed.contains(node, COSTLY):
                return self._branched(chain)
            built = [(each, self.build(each.condition), self.build(each.first)) for each in chain]
            value = self.build(chain[-1].second)
            for each, condition, first in reversed(built):
                value = self.at(each.token).select(condition, first, value)
            return value
        if len(chain) > MAX_BLOCK_ARMS:
            message = f"more than {MAX_BLOCK_ARMS} conditional expressions by blocks, of which each is the last arm of another"
            self.diagnostics.fatal(node.token, message, "variables for parts of them, or a table in constant memory")
        conditions: list[SSAValue] = []
        with ExitStack() as arms:
            levels: list[ExitStack] = []
            for each in chain[:-1]:
                conditions.append(self.build(each.condition))
                levels.append(arms.enter_context(ExitStack()))
                levels[-1].enter_context(self._in_second_arm(each, conditions[-1]))
            value = self._masked(chain[-1], self.build(chain[-1].condition), None)
            for each in reversed(chain[:-1]):
                levels.pop().close()
                value = self._masked(each, conditions.pop(), value)
        return value

    def _branched(self, chain: list[typed.Conditional]) -> SSAValue:
        """Build a chain by scalars of which one arm is evaluated. Of a long one, groups are built one behind the other."""
        node = chain[0]
        size = max(1, min(MAX_ARMS, MAX_NESTED_REGIONS - 3 - self._depth))
        if len(chain) <= size:
            return self.chosen(node.token, self.build(node.condition), node.first, node.second, node.writes)
        token, nothing = node.token, type_of(VOID)
        result, rest = Symbol("the chosen value", node.type, token), Symbol("rest", type_of(BOOL), token)
        self.at(token)
        if node.type.element != VOID:
            self.values[result] = self.elements.zero(node.type.element, node.type.shape)
        self.values[rest] = self.builder.const(0, t.I1)

        def made(value: typed.Expression) -> typed.Expression:
            assigned = value if value.type.element == VOID else typed.Assign(value.type, value.token, result, value)
            return typed.Sequence(nothing, token, (assigned,), 0)

        def is_left(flag: int) -> typed.Expression:
            constant = typed.Constant(rest.type, token, flag)
            return typed.Sequence(nothing, token, (typed.Assign(rest.type, token, rest, constant),), 0)

        for start in range(0, len(chain), size):
            group = chain[start : start + size]
            arm = made(group[-1].second) if group[-1] is chain[-1] else is_left(1)
            for each in reversed(group[1:]):
                writes = each.writes | {result, rest}
                arm = typed.Conditional(nothing, each.token, each.condition, made(each.first), arm, writes, False)
            condition, first, writes = group[0].condition, made(group[0].first), group[0].writes | {result, rest}
            if start:
                inner = typed.Conditional(nothing, group[0].token, condition, first, arm, writes, False)
                first = typed.Sequence(nothing, token, (is_left(0), inner), 1)
                condition, arm = typed.Variable(rest.type, token, rest), is_left(0)
                writes = node.writes | {result, rest}  # the condition may assign, too
            self.chosen(token, self.build(condition), first, arm, writes)
        del self.values[rest]
        return self.values.pop(result, None) or self.builder.const(0, t.I1)

    def _masked(self, node: typed.Conditional, condition: SSAValue, second: SSAValue | None) -> SSAValue:
        """Return the value of `c ? a : b` by a block of conditions. second: the value of the last arm, if it is built."""
        if isinstance(node.first, typed.Load) and node.first.mask is None and node.first.type == node.type:
            second = self._arm(node, condition, node.second, is_second=True) if second is None else second
            return self._loaded(node.first, condition, second)
        if isinstance(node.second, typed.Load) and node.second.mask is None and node.second.type == node.type:
            first = self._arm(node, condition, node.first, is_second=False)
            return self._loaded(node.second, self._inverted(node.token, condition), first)
        first = self._arm(node, condition, node.first, is_second=False)
        second = self._arm(node, condition, node.second, is_second=True) if second is None else second
        return self.at(node.token).select(condition, first, second)

    @contextmanager
    def _in_second_arm(self, node: typed.Conditional, condition: SSAValue) -> Iterator[None]:
        """Build inside of the last arm of `c ? a : b`."""
        if not typed.contains(node.second, ACCESSES):
            yield
            return
        lanes = self._inverted(node.token, condition)
        with self.in_arm(lanes, node.second if node.second.type.shape == node.condition.type.shape else node.condition):
            yield

    def _arm(self, node: typed.Conditional, condition: SSAValue, arm: typed.Expression, is_second: bool) -> SSAValue:
        """Return the value of an arm, whose accesses are masked by the condition or its negation."""
        if not typed.contains(arm, ACCESSES):
            return self.build(arm)
        if is_second:
            with self._in_second_arm(node, condition):
                return self.build(arm)
        with self.in_arm(condition, arm if arm.type.shape == node.condition.type.shape else node.condition):
            return self.build(arm)

    def _inverted(self, token: Token, condition: SSAValue) -> SSAValue:
        b = self.at(token)
        return b.binary("arith.xori", condition, b.const(1, t.I1, t.shape_of(condition.type)))


def _is_alike(node: typed.Conditional, other: typed.Conditional) -> bool:
    """Return whether two conditional expressions are built alike: both by scalars, or both by blocks of conditions."""
    return node.is_eager == other.is_eager and bool(node.condition.type.shape) == bool(other.condition.type.shape)


__all__ = ["ACCESSES", "COSTLY", "ConditionalBuilder"]
