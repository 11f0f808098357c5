"""Reads the rows of a left operand of int8 in quads, and widens them to int16 where processors multiply pairs of these
(`vpmaddwd`) and no bytes.

Every panel of the other operand reads the same rows. A product that widens what it has loaded takes three operations for each
quad and panel, beside the two or four that multiply and add; widened once, pairs are loaded and need none.
"""

from __future__ import annotations

from ......promotion.dataclass import dataclass
from ....ir import Function
from ....module import Module
from ....values import V, const, i64, lanes, vector

QUAD = 4
_ORDER = 0, 2, 1, 3


def whole_quads(steps: int) -> int:
    """Return the steps of as many quads as so many steps begin."""
    return QUAD * -(-steps // QUAD)


@dataclass(frozen=True, slots=True)
class WidenedRows:
    """The function that writes the quads of some rows as two pairs of int16, of the first and third byte and of the others.

    Implements `SharedFunction`. Row i begins at `a + row[i]`, or `a + i · row` where rows are not `gathered`, and has k bytes;
    `times` such matrices lie `step` bytes apart. Row i of the result begins at `widened + i · pitch`, with 8 bytes for each
    quad of the first matrix, and then those of the others. The last quad of a row ends with whatever there is to be read.

    bytes_at_once: how many are loaded together.
    """

    bytes_at_once: int
    gathered: bool = False

    @property
    def name(self) -> str:
        return f"jn_widened_rows_{self.bytes_at_once}{'_gathered' * self.gathered}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("ptr" if self.gathered else "i64", "row"), ("i64", "m"), ("i64", "k"), ("i64", "times"),
                ("i64", "step"), ("ptr", "widened"), ("i64", "pitch")]  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, row, m, k, times, step, widened, pitch = f.params
        width = self.bytes_at_once
        bulk, quads = f.binary("and", k, i64(-width)), f.binary("and", k, i64(-QUAD))
        length = f.mul(f.binary("and", f.add(k, i64(QUAD - 1)), i64(-QUAD)), i64(2))
        with f.loop(0, m) as each:
            begin = f.load("i64", f.gep(row, each.index, "i64"), 8) if self.gathered else f.mul(each.index, row)
            first, into = f.gep(a, begin), f.gep(widened, f.mul(each.index, pitch))
            with f.loop(0, times) as matrix:
                source = f.gep(first, f.mul(matrix.index, step))
                target = f.gep(into, f.mul(matrix.index, length))
                for low, high, count in ((i64(0), bulk, width), (bulk, quads, QUAD)):
                    with f.loop(low, high, count) as state:
                        found = f.load(vector("i8", count), f.gep(source, state.index), 1)
                        f.store(_pairs(f, found), f.gep(target, f.mul(state.index, i64(2))), 1)
                with f.when(f.icmp("slt", quads, k)):
                    last = f.bitcast(last_quad(f, source, quads, k), vector("i8", QUAD))
                    f.store(_pairs(f, last), f.gep(target, f.mul(quads, i64(2))), 1)
        f.ret()
        module.add(f)


def _pairs(f: Function, found: V) -> V:
    count = lanes(found.type)
    order = [quad + at for quad in range(0, count, QUAD) for at in _ORDER]
    return f.cast("sext", f.shuffle(found, found, order), vector("i16", count))


def last_quad(f: Function, row: V, bulk: V, k: V) -> V:
    """Return the last one to three bytes of a row as a quad, and read no other row. What the other operand has beyond them is
    zero."""
    long, short, done = f.label("long"), f.label("short"), f.label("quad")
    f.cond_branch(f.icmp("sge", k, i64(QUAD)), long, short)
    f.start(long)
    last = f.load("i32", f.gep(row, f.sub(k, i64(QUAD))))
    missing = f.cast("trunc", f.binary("shl", f.sub(f.add(bulk, i64(QUAD)), k), i64(3)), "i32")
    moved = f.binary("lshr", last, missing)
    f.branch(done)
    f.start(short)
    quad = f.cast("zext", f.load("i8", f.gep(row, bulk)), "i32")
    for number in range(1, QUAD - 1):
        at = f.smin(f.add(bulk, i64(number)), f.sub(k, i64(1)))
        byte = f.cast("zext", f.load("i8", f.gep(row, at)), "i32")
        quad = f.binary("or", quad, f.binary("shl", byte, const(8 * number, "i32")))
    f.branch(done)
    f.start(done)
    return f.phi("i32", [(moved, long), (quad, short)])
