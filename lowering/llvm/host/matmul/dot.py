"""Lowers `tt.dot` on the host: register-tiled micro-kernels over operands that are read in place when their layout allows it.

The micro-kernel keeps an MR × (NV · lanes) tile of the result in registers and streams k (`panels.py`; A is not packed: its
elements are broadcast from memory). It needs B contiguous along n; B blocks that are not (keys in attention) are transposed
into scratch once per block.

A mask that cuts an operand makes the product shorter: where both operands are zero, nothing is added. Where one is zero and
the other is not, the products are 0 · x, NaN for an infinite x or NaN, and are formed as well (`ragged_products.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....promotion.errors import UnsupportedError
from ...elementwise import NARROW, constant, register_element
from ...values import FALSE, TRUE, V, i64, integer, is_constant, is_integer
from ..evaluate import Evaluator
from ..loops.coordinates import Bound, memory_size_of
from ..loops.loop_nests import LoopNests
from ..masks.zero_limits import is_zero
from ..nodes import Map, Node, Splat, Stored, view
from ..reduce.combine import Combine
from ..reduce.loops import reduce
from ..scalars import ZERO
from ..scratch.unwritten_lanes import clear_beyond
from .across_pairs import STEPS, LeftPairs
from .int8.parts import Part, by_widened_rows, scratch_bytes
from .int8.quads import Quads, form_of
from .int8.stored_quads import stored_quads
from .int8.unsigned_bytes import unsigned_of
from .operands import EVERYTHING, Operand, Operands, Wanted, cut, rows_of, shared_limits
from .pairs import Pairs
from .panels import FAR_BYTES, Panel, panel_vectors
from .ragged_products import Factors, Missing, Panels, Region, add_zeros
from .skinny import MAX_TOGETHER, FewColumns, SingleRow, fetches_rows, rows_together

FEWEST_PACKED = 12
"""The rows of the left operand from which on panels are copied whose rows lie in the same pages."""
NEAR_COLUMNS, FEW_COLUMNS, STEPS_A_COLUMN = 64, 8, 8
"""Elements from a row of the right operand to the next up to which rows are near; columns up to which the product of a matrix
that lies along its rows is the transposed one, or one is formed along k; and steps for each of these from which on it is."""


class Dots:
    def __init__(self, evaluator: Evaluator, nests: LoopNests) -> None:
        self.ev = evaluator
        self.nests = nests
        self.operands = Operands(evaluator, nests)
        self.fetches = False  # whether operands come from memory, and not from a cache

    # -- the product ------------------------------------------------------------

    def dot(
        self, a: Node, b: Node, c: Node, precision: str, into: Stored | None = None, wanted: Wanted = EVERYTHING,
        ordered: bool = False, target: Stored | None = None,
    ) -> Stored:  # fmt: skip
        """Emits `c + a · b` for a (M, K), b (K, N), c (M, N) and returns the result in scratch.

        `into`: scratch that already holds c and is updated in place. `ordered`: floats are summed in the order of
        `tt/transforms/numerics/fix_order.py`. `target`: memory for sums that begin with zeros, in place of scratch.
        UnsupportedError for operands of another rank.
        """
        if len(a.shape) != 2:
            raise UnsupportedError(
                f"host lowering: tt.dot of rank {len(a.shape)} blocks; only rank 2 is implemented"
            )
        ev = self.ev
        if c.shape[1] == 1 and ordered:
            return self._column_in_order(a, b, c, precision, into)
        if not ordered and self.is_read_across(a, b, c):
            left, right, start = (view(node, node.shape[::-1], (1, 0)) for node in (b, a, c if into is None else into))
            turned = self.dot(left, right, start, precision, None, wanted.turned)
            found = Stored(c.shape, c.elem, turned.pointer, turned.strides[::-1], turned.memory)
            return found if into is None else self.nests.materialize(found, into, wanted.result)
        if c.shape[1] == 1:
            column = None if ordered or precision == "tf32" else self._one_column(a, b, c, into, wanted)
            return column or self._matrix_vector(a, b, c, precision, into, rows_of(wanted.result))
        if a.elem == "i8" and c.elem == "i32":
            return self._dot_int8(a, b, c, into, wanted.result)
        if (a.elem, b.elem, c.elem) == ("bf16", "bf16", "f32") and ev.target.multiplies_pairs and not ordered:
            product = self._dot_bfloat16(a, b, c, into, wanted)
            if product is not None:
                return product
        fresh, within = into is None, target is not None
        overwrite = fresh and isinstance(c, Splat) and is_zero(c)
        if target is None:
            target = ev.scratch(c.shape, c.elem) if into is None else into
            if overwrite:
                whole = self._whole(target, wanted.result)
                if whole.limits(1):
                    clear_beyond(ev, target, self._limit(c.shape[0], (whole, 0)), self._limit(c.shape[1], (whole, 1)))
        if fresh and not overwrite:
            self.nests.materialize(c, target, wanted.result)
        self._multiply_into(target, a, b, c, precision, not overwrite, wanted, ordered, within)
        return target

    def _multiply_into(
        self, target: Stored, a: Node, b: Node, c: Node, precision: str, accumulate: bool, wanted: Wanted, ordered: bool,
        within: bool = False,
    ) -> None:  # fmt: skip
        """Emits a product into memory. within: where nothing but its elements may be written."""
        tf32 = precision == "tf32" and c.elem == "f32"
        elem = _summed(c.elem)
        left = self.operands.operand(a, elem, False, tf32, wanted.left)
        if not ordered and self._few_columns(left, target, a, b, c, tf32, accumulate, wanted):
            self._finish(target, c, elem, False, wanted)
            return
        coded = None if tf32 else self.operands.coded(b, elem)
        if coded is not None and _missing(left, coded, self._whole(target, wanted.result)).anything():
            coded = None  # what is missing is looked at as it is multiplied
        right = coded or self.operands.operand(b, elem, True, tf32, wanted.right)
        self._multiply(left, right, target, c, a.shape[1], accumulate, wanted.result, elem[0] == "i", within)
        self._finish(target, c, elem, ordered, wanted)

    def _finish(self, target: Stored, c: Node, elem: str, ordered: bool, wanted: Wanted) -> None:
        """Rounds the sums of a product, and releases what it read."""
        self.operands.release()
        sums: Node = Stored(c.shape, elem, target.pointer, target.strides, target.memory)
        if ordered:  # turns -0 into 0, which steps that a mask leaves out would have done
            sums = Map(c.shape, elem, "arith.addf", (sums, Splat(c.shape, elem, constant(0.0, elem))))
        if elem != c.elem:
            sums = _rounded(sums, c.elem)
        if ordered or elem != c.elem:
            self.nests.materialize(sums, target, wanted.result)

    def _few_columns(
        self, left: Operand, target: Stored, a: Node, b: Node, c: Node, tf32: bool, accumulate: bool, wanted: Wanted
    ) -> bool:
        """Emits a product with few columns along k; returns False, with nothing emitted, where it is none."""
        ev, (rows, columns), depth, elem = self.ev, c.shape, a.shape[1], _summed(c.elem)
        n = ev.target.vector_bytes // memory_size_of(target.memory)
        if not self._is_few(columns, depth, elem, 1) or not is_integer(left.column, 1):
            return False
        whole, nowhere = self._whole(target, wanted.result), V("null", "ptr")
        right = Operand(nowhere, ZERO, ZERO, self.operands.limits(b))
        live = self._limit(columns, (whole, 1))
        if not is_constant(live) or integer(live) < min(2, columns) or _missing(left, right, whole).anything():
            return False
        m, k = self._limit(rows, (whole, 0)), self._limit(depth, (left, 1), (right, 0))
        across = view(b, (columns, depth), (1, 0))
        if is_constant(k) and not self._is_few(columns, integer(k), elem, 1):
            return False
        in_place = None if tf32 else self.operands.direct(across, target.memory)
        if 2 * columns > n and (in_place is None or not is_integer(in_place.column, 1)):
            return False  # panels are as fast where the right operand would have to be transposed
        turned = [Bound(1 - bound.dim, bound.limit) for bound in wanted.right]
        found = self.operands.operand(across, elem, True, tf32, turned)
        ldc = ev.s.constant(target.strides[0])
        function = FewColumns(target.memory, n, integer(live), ev.target.registers, left.gathered)
        arguments = [left.pointer, left.row, found.pointer, found.row, target.pointer, ldc, m, k, TRUE if accumulate else FALSE]
        ev.f.call(ev.f.module.provide(function), "void", arguments)
        return True

    def _one_column(self, a: Node, b: Node, c: Node, into: Stored | None, wanted: Wanted) -> Stored | None:
        """Emits a product with one column as one of few columns, eight rows at a time; None, with nothing emitted, where rows
        are not read in place, or vectors of registers are so long that one row after the other is as fast: unless the column
        fills the first-level cache, which each row would read again."""
        elem, fresh, machine = _summed(c.elem), into is None, self.ev.target
        is_long = 2 * a.shape[1] * memory_size_of(register_element(elem)) >= machine.l1_bytes
        begins = not fresh or (isinstance(c, Splat) and is_zero(c))
        if not (machine.has_short_vectors or is_long) or elem != c.elem or not begins:
            return None
        left = self.operands.direct(a, register_element(elem)) if a.elem == elem else None
        if left is None or a.shape[0] < MAX_TOGETHER or not self._is_few(1, a.shape[1], elem, least=1):
            return None
        target = self.ev.scratch(c.shape, c.elem) if into is None else into
        if not self._few_columns(left, target, a, b, c, False, not fresh, wanted):
            return None
        self._finish(target, c, elem, False, wanted)
        return target

    def _is_few(self, columns: int, depth: int, elem: str, least: int = 2) -> bool:
        """Returns whether a product with so many columns is formed along k: few enough, for so many steps.

        All sums of a tile are added up at its end, as many for 2 rows of 8 columns as for 8 rows of 2.
        """
        if elem not in ("f32", "f64"):
            return False
        n = self.ev.target.vector_bytes // memory_size_of(register_element(elem))
        return least <= columns <= min(FEW_COLUMNS, n) and depth >= max(2 * n, STEPS_A_COLUMN * columns)

    def is_read_across(self, a: Node, b: Node, c: Node) -> bool:
        """Whether the matrix of a product with a vector lies in memory as the transposed product reads it: along its rows for a
        column, or for a few of them, along k for a row, or for a few."""
        (rows, columns), elem = c.shape, _summed(c.elem)
        row = rows == 1 or (rows < columns and self._is_few(rows, a.shape[1], elem))
        column = columns == 1 or columns <= min(FEW_COLUMNS, rows // 4)
        if row == column or a.elem != elem or b.elem != elem or elem[0] != "f":
            return False
        found = self.operands.direct(a if column else b, register_element(elem))
        return found is not None and is_integer(found.row, 1) and not is_integer(found.column, 1)

    def _column_in_order(self, a: Node, b: Node, c: Node, precision: str, into: Stored | None) -> Stored:
        """Emits a product with one column, every row a chain along k: as a product with one row, whose lanes are columns."""
        (rows, depth), start = a.shape, c if into is None else into
        if rows > 1:
            left, right = view(b, (1, depth), (1, 0)), view(a, (depth, rows), (1, 0))
            turned = self.dot(left, right, view(start, (1, rows), (1, 0)), precision, ordered=True)
            found = Stored(c.shape, c.elem, turned.pointer, (turned.strides[1], 0), turned.memory)
        else:
            found = self.nests.materialize(start, self.ev.scratch(c.shape, c.elem, pad=1))  # with room for a vector
            self._multiply_into(found, a, b, c, precision, True, EVERYTHING, True)
        return found if into is None else self.nests.materialize(found, into)

    def _matrix_vector(
        self, a: Node, b: Node, c: Node, precision: str, into: Stored | None, wanted: Sequence[Bound]
    ) -> Stored:
        """Emits a product with one column: row by row, vectors along k. (The panels write whole vectors of columns.)"""
        tf32 = precision == "tf32" and c.elem == "f32"
        multiply, add = ("arith.muli", "arith.addi") if c.elem[0] == "i" else ("arith.mulf", "arith.addf")
        elem = _summed(c.elem)
        rows = self.operands.converted(a, elem, tf32)
        limits = shared_limits(self.operands.limits(a), self.operands.limits(b))
        memory = self.nests.materialize(self.operands.converted(b, elem, tf32), bounds=[Bound(0, limit) for limit in limits])
        product = cut(Map(a.shape, elem, multiply, (rows, view(memory, a.shape, (1, None)))), limits)
        left, right, total = object(), object(), object()
        combine = Combine((left, right), ((add, elem, total, (left, right), (elem, elem), {}),), (total,))
        sums = reduce(self.nests, [product], 1, combine, wanted)[0]
        assert isinstance(sums, Stored)
        result: Node = Stored(c.shape, elem, sums.pointer, (sums.strides[0], 0), sums.memory)
        if into is not None or not is_zero(c):
            result = Map(c.shape, elem, add, (self.operands.converted(c if into is None else into, elem, False), result))
        elif isinstance(result, Stored) and elem == c.elem:
            return result
        return self.nests.materialize(result if elem == c.elem else _rounded(result, c.elem), into, wanted)

    def _dot_int8(
        self, a: Node, b: Node, c: Node, into: Stored | None, wanted: Sequence[Bound], left: Operand | None = None,
        repetition: tuple[V, ...] = (),
    ) -> Stored:  # fmt: skip
        """Emits a product of int8 summed in int32, four steps of k at a time (`int8/quads.py`).

        left: the left operand in memory, if it is known. repetition: how many such products are summed, and the bytes from
        one's left and right operand to the next one's.
        """
        target, accumulate = self._sums(c, into, wanted)
        columns, machine, quads = c.shape[1], self.ev.target, stored_quads(self.ev, b)
        n, vectors = machine.vector_bytes // memory_size_of("i32"), self._vectors(columns)
        if quads is not None and quads.columns % (vectors * n):
            quads = None
        read = (*rows_of(wanted), *self.operands.limits(a))
        left = left or self._bytes_in_place(a, b, wanted) or self.operands.side_by_side(a, "i8", read)
        right = Operand(quads.pointer, ZERO, ZERO, quads.bounds) if quads else self.operands.operand(b, "i8", True, False)
        stored = 0 if quads is None else quads.columns
        ragged = not stored and (bool(right.limits(1)) or columns % (vectors * n) != 0)
        repeated = bool(repetition)
        form = form_of(machine)
        panel = Quads(form, n, vectors, machine.registers, left.gathered, ragged, stored, repeated, left.moved)
        panel = replace(panel, few=form == "madd" and c.shape[0] <= panel.height)
        self._by_panels(panel, (left, right), target, c, a.shape[1], accumulate, wanted, repetition)
        return target

    def repeated(self, a: Node, b: Node, c: Node, repetition: tuple[V, ...], wanted: Sequence[Bound]) -> Stored | None:
        """Emits the sum of c and some products of int8, as `_dot_int8` does; None, where B does not lie in quads or A not in
        place."""
        if a.elem != "i8" or c.elem != "i32" or len(a.shape) != 2 or c.shape[1] == 1:
            return None
        quads = stored_quads(self.ev, b)
        n = self.ev.target.vector_bytes // memory_size_of("i32")
        if quads is None or quads.columns % (self._vectors(c.shape[1]) * n):
            return None
        left = self._bytes_in_place(a, b, wanted)
        return None if left is None else self._dot_int8(a, b, c, None, wanted, left, repetition)

    def _bytes_in_place(self, a: Node, b: Node, wanted: Sequence[Bound]) -> Operand | None:
        """Returns a left operand of int8 where it lies, unsigned if memory and the processor have it so; None, where it must be
        copied.

        What a mask leaves out of unsigned bytes stands for -128: it is out of the result, or multiplied with zeros.
        """
        found = unsigned_of(self.ev, a) if self.ev.target.multiplies_unsigned else None
        rows = None if found is None else self.operands.rows_in_place(found[0], "i8")
        if found is not None and rows is not None:
            unread = {bound.limit.operand() for bound in wanted if bound.dim == 0}
            zeros = {bound.limit.operand() for bound in found[1] if bound.dim == 1}
            zeros |= {bound.limit.operand() for bound in self.operands.limits(b) if bound.dim == 0}
            if rows.limits(0) <= unread and rows.limits(1) <= zeros:
                return replace(rows, bounds=(*rows.bounds, *found[1]), moved=True)
        return self.operands.rows_in_place(a, "i8")

    def _dot_bfloat16(self, a: Node, b: Node, c: Node, into: Stored | None, wanted: Wanted) -> Stored | None:
        """Emits a product of bfloat16 summed in float32, two steps of k at a time (`pairs.py`).

        Returns None, with nothing emitted, where a mask cuts one operand and not the other: zeros of one are to be multiplied
        with infinities of the other then.
        """
        limits = self.operands.limits(a), self.operands.limits(b)
        nowhere = V("null", "ptr")
        sides = [Operand(nowhere, ZERO, ZERO, bounds) for bounds in limits]
        if _missing(sides[0], sides[1], Operand(nowhere, ZERO, ZERO, tuple(wanted.result))).anything():
            return None
        target, accumulate = self._sums(c, into, wanted.result)
        left = self.operands.direct(a, "i16")
        paired = left is not None and is_integer(left.row, 1) and not is_integer(left.column, 1)
        if left is None or not paired:
            left = self.operands.side_by_side(a, "i16", (*wanted.left, *limits[0]))
        left = replace(left, bounds=limits[0])
        if paired:
            left = self._in_pairs(left, a.shape)
        direct = self.operands.direct(b, "i16")
        across = direct is not None and is_integer(direct.row, 1) and not is_integer(direct.column, 1)
        if direct is None or not across:
            direct = self.operands.side_by_side(b, "i16", (*wanted.right, *limits[1]), False)
        right = replace(direct, bounds=limits[1])
        panel = Pairs(self._vectors(c.shape[1]), left.gathered, across, paired)
        self._by_panels(panel, (left, right), target, c, a.shape[1], accumulate, wanted.result)
        return target

    def _in_pairs(self, left: Operand, shape: tuple[int, ...]) -> Operand:
        """Returns a left operand of bfloat16, whose columns have their elements side by side, in pairs in scratch."""
        ev, (rows, depth) = self.ev, shape
        distance = -(-rows // STEPS) * STEPS + STEPS // 2  # an odd number of cache lines: all sets of a cache are used
        memory = ev.scratch((-(-depth // 2) * distance,), "i32")
        self.operands.copies.append(memory)
        between = ev.s.constant(distance)
        m, k = self._limit(rows, (left, 0)), self._limit(depth, (left, 1))
        name = ev.f.module.provide(LeftPairs())
        ev.f.call(name, "void", [left.pointer, left.column, m, k, memory.pointer, between])
        return replace(left, pointer=memory.pointer, row=between)

    def _sums(self, c: Node, into: Stored | None, wanted: Sequence[Bound]) -> tuple[Stored, bool]:
        """Returns the scratch of a result's sums, and whether it holds what they are added to."""
        if into is not None:
            return into, True
        target, accumulate = self.ev.scratch(c.shape, c.elem), not (isinstance(c, Splat) and is_zero(c))
        if accumulate:
            self.nests.materialize(c, target, wanted)
        return target, accumulate

    def _vectors(self, columns: int) -> int:
        """Returns the vectors of 32-bit sums in a row of a panel."""
        n = self.ev.target.vector_bytes // memory_size_of("i32")
        return next(v for v in (1, 2, 4) if v * n >= min(columns, self._widths()[0] * n))

    def _by_panels(
        self, panel: Quads | Pairs, operands: tuple[Operand, Operand], target: Stored, c: Node, depth: int, accumulate: bool,
        wanted: Sequence[Bound], repetition: tuple[V, ...] = (),
    ) -> None:  # fmt: skip
        """Emits a product whose elements are multiplied in groups along k, one panel of columns after the other."""
        (left, right), (rows, columns) = operands, c.shape
        ev, f = self.ev, self.ev.f
        whole = self._whole(target, wanted)
        m = wanted_m = self._limit(rows, (whole, 0))
        if left.limits(0) - whole.limits(0):
            m = ev.s.min(self._limit(rows, (left, 0)), wanted_m)
            if not accumulate:
                self.nests.materialize(Splat(c.shape, c.elem, constant(0, c.elem)), target, wanted)
        j, k = self._limit(columns, (right, 1)), self._limit(depth, (left, 1), (right, 0))
        needed = scratch_bytes(panel, depth, repetition) if isinstance(panel, Quads) else panel.scratch_bytes(depth)
        packed = ev.scratch((needed,), "i8").pointer
        ldc, read = ev.s.constant(target.strides[0]), self._limit(columns, (whole, 1))

        def multiply(panel: Quads | Pairs, part: Part, column: V) -> None:
            start = f.gep(part.b, f.mul(column, i64(panel.column_bytes)))
            between = right.row
            if isinstance(panel, Pairs) and panel.across:
                start, between = f.gep(part.b, f.mul(column, right.column), "i16"), right.column
            live = f.smax(f.sub(j, column), ev.s.constant(0))
            there = [part.a, part.row, start, between, f.gep(part.c, column, "i32"), ldc, part.m, part.k]
            f.call(f.module.provide(panel), "void", [*there, part.accumulate, packed, live, *part.repetition])

        def panels(panel: Quads | Pairs, part: Part) -> None:
            with f.loop(0, read, panel.width) as state:
                if panel.vectors == 1 or is_constant(read):
                    multiply(panel, part, state.index)
                else:  # half a panel is enough for the last columns
                    narrow, wide, done = f.label("narrow"), f.label("wide"), f.label("multiplied")
                    f.cond_branch(f.icmp("sle", f.sub(read, state.index), i64(panel.width // 2)), narrow, wide)
                    for label, chosen in ((narrow, replace(panel, vectors=panel.vectors // 2)), (wide, panel)):
                        f.start(label)
                        multiply(chosen, part, state.index)
                        f.branch(done)
                    f.start(done)

        added = TRUE if accumulate else FALSE
        everything = Part(left.pointer, left.row, right.pointer, target.pointer, m, k, added, repetition)
        if isinstance(panel, Quads) and panel.form == "madd":
            by_widened_rows(ev, panel, everything, (rows, depth), (right.row, ldc), panels)
        else:
            panels(panel, everything)
        self.operands.release()

    def _limit(self, size: int, *limits: tuple[Operand, int]) -> V:
        count = self.ev.s.constant(size)
        for operand, dim in limits:
            for bound in operand.bounds:
                if bound.dim == dim:
                    count = self.ev.s.min(count, bound.limit)
        return self.ev.s.max(count, self.ev.s.constant(0))

    def _whole(self, target: Stored, wanted: Sequence[Bound]) -> Operand:
        """Returns a result, with the bounds within which it is read."""
        return Operand(target.pointer, ZERO, ZERO, tuple(wanted))

    def _widths(self) -> tuple[int, ...]:
        """Returns the numbers of vectors per panel to try, widest first."""
        return (4, 2) if self.ev.target.registers >= 32 else (2,)

    def _multiply(
        self, left: Operand, right: Operand, target: Stored, c: Node, depth: int, accumulate: bool,
        wanted: Sequence[Bound], finite: bool, within: bool,
    ) -> None:  # fmt: skip
        """Emits a product by micro-kernels. finite: no element of an operand is NaN or infinite. within: as above."""
        ev = self.ev
        rows, columns = c.shape
        element = target.memory
        n = ev.target.vector_bytes // memory_size_of(element)
        k = self._limit(depth, (left, 1), (right, 0))
        whole = self._whole(target, wanted)
        missing = _missing(left, right, whole)
        m, j = wanted_m, wanted_j = self._limit(rows, (whole, 0)), self._limit(columns, (whole, 1))
        if missing.rows:
            m = ev.s.min(self._limit(rows, (left, 0)), wanted_m)
        if missing.columns:
            j = ev.s.min(self._limit(columns, (right, 1)), wanted_j)
        if not accumulate and (missing.rows or missing.columns):  # blocks cut by a mask are zero outside it
            self.nests.materialize(Splat(c.shape, c.elem, constant(0, c.elem)), target, wanted)
        ldc = ev.s.constant(target.strides[0] or max(columns, n))
        unit = is_integer(left.column, 1)
        adjacent = not unit and not left.gathered and is_integer(left.row, 1)
        vectors = panel_vectors(self._widths(), rows, columns // n, ev.target.registers, right.decoding)
        packed: V | None = None
        if vectors:
            nearest = vectors * n if ev.target.has_short_vectors else NEAR_COLUMNS
            near = is_constant(right.row) and 0 <= integer(right.row) <= nearest
            least = Panel(element, n, vectors, unit, ev.target.registers, decoding=right.decoding).least_packed
            if right.decoding is None and is_constant(right.row) and integer(right.row) * memory_size_of(element) < FAR_BYTES:
                least = max(least, FEWEST_PACKED)
            if (right.decoding is not None or not near) and rows >= least and (unit or adjacent):
                packed = ev.scratch((depth, vectors * n), c.elem).pointer
        panels = Panels(
            element, n, vectors, unit, ev.target.registers, -(-columns // n) * n, packed, left.gathered, right.decoding,
            right.decoded, adjacent, within,
        )  # fmt: skip
        factors = Factors(left.pointer, left.row, left.column, right.pointer, right.row, target.pointer, ldc)
        wide = columns > self._widths()[0] * n and right.decoding is None and not left.gathered
        if rows == 1 and is_integer(m, 1) and wide and element in ("float", "double"):
            row = [left.pointer, left.column, right.pointer, right.row, target.pointer, j, k]
            between = integer(right.row) if is_constant(right.row) else None
            facts = n, element, between, self.fetches
            function = SingleRow(element, n, fetches_rows(*facts), rows_together(*facts))
            ev.f.call(ev.f.module.provide(function), "void", [*row, TRUE if accumulate else FALSE])
        else:
            panels.multiply(ev, factors, Region(m, j, k), accumulate)
        if missing.anything() and not finite:
            regions = Region(m, j, k), Region(wanted_m, wanted_j, ev.s.constant(depth))
            deep = self._limit(depth, (left, 1)), self._limit(depth, (right, 0))
            add_zeros(ev, panels, factors, missing, regions, deep)


def _missing(left: Operand, right: Operand, whole: Operand) -> Missing:
    """Returns where one operand is cut and the other one, or the result (`whole`), is not."""
    return Missing(
        bool(left.limits(1) - right.limits(0)), bool(right.limits(0) - left.limits(1)),
        bool(left.limits(0) - whole.limits(0)), bool(right.limits(1) - whole.limits(1)),
    )  # fmt: skip


def _summed(elem: str) -> str:
    """Returns the element type in which a product with results of this type is summed; 16-bit floats are rounded at the end."""
    return "f32" if elem in NARROW else elem


def _rounded(sums: Node, elem: str) -> Map:
    """Rounds sums of float32 to 16-bit floats."""
    return Map(sums.shape, elem, "arith.truncf", (sums,))
