"""Products of blocks that masks cut: the part where both operands are, and the products of infinities and NaN with zeros."""

from __future__ import annotations

from dataclasses import replace

from .....promotion.dataclass import dataclass
from ...values import FALSE, TRUE, V, const, integer, is_integer
from ..evaluate import Evaluator
from ..loops.coordinates import memory_size_of
from ..memory.filled_rows import zeros
from .decoding import Decoding
from .finite import FindOdd
from .panels import Columns, Panel


@dataclass(frozen=True, slots=True)
class Factors:
    """The memory of the micro-kernels: A and B with their strides, and C with its own, all in elements.

    Gathered rows of A have no stride: `a_row` points to their offsets.
    """

    a: V
    a_row: V
    a_column: V
    b: V
    b_row: V
    c: V
    c_row: V


@dataclass(frozen=True, slots=True)
class Region:
    """The part [rows) × [columns) of a product that is formed, with `depth` steps of k."""

    rows: V
    columns: V
    depth: V


@dataclass(frozen=True, slots=True)
class Missing:
    """Whether one operand may be cut by a mask where the other one is not.

    A ends along k before B; B ends before A; the result is read in rows that A lacks; and in columns that B lacks. All are
    false where both operands share their masks along k, and the result has those of rows and columns.
    """

    end_of_a: bool
    end_of_b: bool
    rows: bool
    columns: bool

    def anything(self) -> bool:
        return self.end_of_a or self.end_of_b or self.rows or self.columns


@dataclass(frozen=True, slots=True)
class Panels:
    """The micro-kernels of one product, whose rows have at most `widest` elements, whole vectors.

    `packed`: scratch for a panel of B, where panels are copied. `gathered`: rows of A lie at offsets. `decoding`: how B is made
    floats, if memory holds it in fewer bits, with the arguments of that in `decoded`. `adjacent`: columns of A have their
    elements side by side. `within`: no column is written that is not formed.
    """

    element: str
    lanes: int
    vectors: int
    unit: bool
    registers: int
    widest: int
    packed: V | None
    gathered: bool = False
    decoding: Decoding | None = None
    decoded: tuple[V, ...] = ()
    adjacent: bool = False
    within: bool = False

    def multiply(self, ev: Evaluator, factors: Factors, region: Region, accumulate: bool) -> None:
        """Emits C (+)= A · B over a region."""
        f, width = ev.f, self.vectors * self.lanes
        start = ev.s.round_down(region.columns, width) if self.vectors else ev.s.constant(0)
        wide = half = narrow = tail = None
        if not is_integer(start, 0):
            packs = self.packed is not None
            wide = self._panel(self.vectors, False, packs)
        width = width or self.lanes
        rest = (ev.s.remainders(region.columns, width) or frozenset()) - {0}
        if len(rest) == 1 and self.decoding is None and (self.vectors or is_integer(region.columns, *rest)):
            (columns,) = rest
            tail = self._panel(-(-columns // self.lanes), columns % self.lanes != 0, False)
        elif start != region.columns:
            narrow = self._panel(1, True, False)
            half = self._panel(self.vectors // 2, False, False) if wide is not None and self.vectors > 2 else None
        flag = TRUE if accumulate else FALSE
        extra = [self.packed] if wide is not None and self.packed is not None else []
        before = [factors.a, factors.a_row, factors.a_column, factors.b, factors.b_row, factors.c, factors.c_row, region.rows]
        if wide is not None and is_integer(region.columns, width):
            distance = wide.prefetch_distance(f, factors.b_row)
            f.call(f.module.provide(wide), "void", [*before, region.depth, flag, distance, *self.decoded, *extra])
        elif wide is not None or narrow is not None or tail is not None:
            arguments = [*before, region.columns, region.depth, flag, *self.decoded, *extra]
            f.call(f.module.provide(Columns(wide, narrow, half, tail)), "void", arguments)

    def _panel(self, vectors: int, masked: bool, packs: bool) -> Panel:
        return Panel(
            self.element, self.lanes, vectors, self.unit, self.registers, masked, packs, self.gathered, self.decoding,
            self.adjacent, masked and self.within,
        )  # fmt: skip


def add_zeros(
    ev: Evaluator, panels: Panels, factors: Factors, missing: Missing, regions: tuple[Region, Region], deep: tuple[V, V]
) -> None:
    """Adds the products of one operand with the zeros that a mask left in the other one.

    They are zero, or NaN, so they are formed only where that operand is found to hold other than finite numbers.
    regions: where the product has been formed, and where it is read, of a whole block's depth.  deep: steps of k of A and of B.
    """
    f, s, element = ev.f, ev.s, panels.element
    (done, all_), (deep_a, deep_b), nothing = regions, deep, s.constant(0)
    row = zeros(f, max(integer(all_.depth), panels.widest) * memory_size_of(element))
    no_a = replace(factors, a=row, a_row=nothing, a_column=factors.a_column if panels.unit else nothing)
    no_b = replace(factors, b=row, b_row=nothing)
    plain = replace(panels, gathered=False, adjacent=False)
    found = f.alloca("i8", 1, 1)

    def add(some: tuple[V, V], what: Factors, region: Region) -> None:
        """Adds a product where `some` is a range that is not empty, if the other operand makes it anything but zero."""
        with f.when(f.icmp("slt", *some)), ev.scope():
            if what.a is row:
                seen = [what.b, what.b_row, s.constant(1), region.depth, region.columns]
            else:
                seen = [what.a, what.a_row, what.a_column, region.rows, region.depth]
                if not panels.gathered and not is_integer(seen[2], 1):  # where rows are strided, columns mostly are not
                    seen = [seen[0], seen[2], seen[1], seen[4], seen[3]]
            look = FindOdd(element, panels.lanes, is_integer(seen[2], 1), panels.gathered and what.a is not row)
            f.call(f.module.provide(look), "void", [*seen, found])
            with f.when(f.icmp("ne", f.load("i8", found, 1), const(0, "i8"))), ev.scope():
                (plain if what.a is row else panels).multiply(ev, what, region, True)

    if missing.end_of_a:
        b = f.gep(factors.b, s.mul(done.depth, factors.b_row), element)
        region = Region(done.rows, done.columns, s.sub(deep_b, done.depth))
        add((done.depth, deep_b), replace(no_a, b=b), region)
    if missing.end_of_b:
        a = f.gep(factors.a, s.mul(done.depth, factors.a_column), element)
        region = Region(done.rows, all_.columns, s.sub(deep_a, done.depth))
        add((done.depth, deep_a), replace(no_b, a=a), region)
    if missing.rows:
        c = f.gep(factors.c, s.mul(done.rows, factors.c_row), element)
        region = Region(s.sub(all_.rows, done.rows), done.columns, deep_b)
        add((done.rows, all_.rows), replace(no_a, c=c), region)
    if missing.columns:  # the last vector has had zeros in place of the columns that it reaches beyond B
        start = s.mul(s.ceil_div(done.columns, panels.lanes), s.constant(panels.lanes))
        c = f.gep(factors.c, start, element)
        region = Region(done.rows, s.sub(all_.columns, start), done.depth)
        add((start, all_.columns), replace(no_b, c=c), region)
