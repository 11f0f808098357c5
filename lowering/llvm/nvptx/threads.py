"""Values of one thread: its lane and warp, linear functions of them, and moves between threads.

Elements travel as bits: integers of 8, 16, 32 or 64 bits, in words of 32 where the hardware moves those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ....promotion.dataclass import dataclass
from ...linear_layouts.arithmetic import IndexExpression, index_arithmetic
from ...linear_layouts.layout import LANE, LinearLayout
from ...linear_layouts.linear import Condition, ThreadMap, ThreadPredicate
from ..elementwise import Bits, Rounded, from_memory, memory_element, memory_size, reinterpreted, to_memory
from ..ir import Function
from ..values import FALSE, TRUE, Deferred, V, const, i32, is_integer, poison, same
from .targets import WARP_SIZE

ALL_LANES = i32(-1)


def bits_of(elem: str) -> int:
    """Returns the bits of an element when it travels: 8, 16, 32 or 64."""
    return 8 * memory_size(elem)


@dataclass(frozen=True, slots=True)
class Piece:
    """The origin of an element that is packed with others: element `index` of `count` packed into `whole`."""

    whole: V
    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The origin of an address: another one and the distance from it in bytes."""

    address: V
    constant: int


def base_and_distance(address: V) -> tuple[V, int]:
    if isinstance(address, Deferred) and isinstance(address.origin, Moved):
        return address.origin.address, address.origin.constant
    return address, 0


class Threads:
    """Emits values that depend on the thread. They are remembered for the blocks in which they may be used."""

    def __init__(self, function: Function, warps: int) -> None:
        self.f = function
        self.warps = warps
        thread = self.call("read.ptx.sreg.tid.x", [], "i32")
        self.lane = function.binary("and", thread, i32(WARP_SIZE - 1))
        self.warp = i32(0) if warps == 1 else function.binary("lshr", thread, i32(5))
        self._scopes: list[dict[object, V]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._scopes.append({})
        with self.f.scope():
            yield
        self._scopes.pop()

    def all_remembered(self) -> dict[object, V]:
        """Returns everything that is remembered at the current position."""
        return {key: value for scope in self._scopes for key, value in scope.items()}

    @contextmanager
    def knowing(self, remembered: dict[object, V]) -> Iterator[None]:
        """Replaces what is remembered here by `remembered`, which grows inside."""
        kept, self._scopes = self._scopes, [remembered]
        yield
        self._scopes = kept

    def call(self, name: str, operands: Sequence[V], result: str) -> V:
        """Calls an intrinsic of `llvm.nvvm`."""
        return self.f.target_intrinsic(f"llvm.nvvm.{name}", operands, result)

    def remembered(self, key: object) -> V | None:
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: object, value: V) -> V:
        self._scopes[-1][key] = value
        return value

    def is_first(self) -> V:
        """Emits whether this is the first thread of the block."""
        found = self.remembered("first thread")
        if found is None:
            first = self.f.icmp("eq", self.call("read.ptx.sreg.tid.x", [], "i32"), i32(0))
            found = self.remember("first thread", first)
        return found

    # -- linear functions ------------------------------------------------------------

    def _parts(self, maps: Sequence[tuple[V, Sequence[int]]]) -> V | None:
        """Emits the XOR of the images of the set bits, grouped by how far they are shifted; None if there are none."""
        diagonals: dict[tuple[str, int], int] = {}
        sources = {}
        disjoint, reached = True, 0
        for source, columns in maps:
            sources[source.operand()] = source
            for bit, image in enumerate(columns):
                disjoint = disjoint and not image & reached
                reached |= image
                while image:
                    low = image & -image
                    key = (source.operand(), low.bit_length() - 1 - bit)
                    diagonals[key] = diagonals.get(key, 0) | 1 << bit
                    image ^= low
        total: V | None = None
        for (ref, shift), mask in diagonals.items():
            source = sources[ref]
            whole = (1 << (5 if ref == self.lane.operand() else (self.warps - 1).bit_length())) - 1
            part = source if mask == whole else self.f.binary("and", source, i32(mask))
            if shift:
                part = self.f.binary("shl" if shift > 0 else "lshr", part, i32(abs(shift)))
            total = part if total is None else self.f.binary("or disjoint" if disjoint else "xor", total, part)
        return total

    def linear(self, lanes: Sequence[int], warps: Sequence[int] = ()) -> V:
        """Emits the XOR of the images of the set bits of lane and warp, without a constant."""
        key = ("linear", tuple(lanes), tuple(warps))
        found = self.remembered(key)
        if found is None:
            found = self._parts([(self.lane, lanes), (self.warp, warps if self.warps > 1 else ())]) or i32(0)
            self.remember(key, found)
        return found

    def map(self, function: ThreadMap) -> V:
        own = self.linear(function.lane, function.warp)
        return self.with_constant(own, function.constant, function.thread_bits)

    def with_constant(self, thread: V, constant: int, thread_bits: int) -> V:
        """Emits thread ^ constant; an addition where that is the same, which addresses can absorb."""
        if not constant:
            return thread
        if is_integer(thread, 0):
            return i32(constant)
        return self.f.binary("xor" if constant & thread_bits else "or disjoint", thread, i32(constant))

    def indices(self, layout: LinearLayout, axis: int, registers: Sequence[int]) -> list[V]:
        """Emits the coordinate along an axis of the element of each of these registers, as i32."""
        expression = index_arithmetic(layout)[axis]
        thread, constants = self.expression(expression), expression.constants
        return [self.with_constant(thread, constants[register], expression.thread_bits) for register in registers]

    def split_indices(self, layout: LinearLayout, axis: int, registers: Sequence[int]) -> list[tuple[V, int]]:
        """Emits the same coordinates as sums of a part of the thread and a constant."""
        expression = index_arithmetic(layout)[axis]
        thread, bits = self.expression(expression), expression.thread_bits
        found = []
        for register in registers:
            constant = expression.constants[register]
            found.append((self.with_constant(thread, constant & bits, bits), constant & ~bits))
        return found

    def expression(self, expression: IndexExpression) -> V:
        """Emits the thread's part of an index expression."""
        key = ("expression", expression.terms)
        found = self.remembered(key)
        if found is not None:
            return found
        total: V | None = None
        for term in expression.terms:
            source = self.lane if term.dim == LANE else self.warp
            if is_integer(source, 0):
                continue
            part = self.f.binary("and", source, i32(term.mask))
            if term.shift:
                part = self.f.binary("shl" if term.shift > 0 else "lshr", part, i32(abs(term.shift)))
            total = part if total is None else self.f.binary("or disjoint" if expression.disjoint else "xor", total, part)
        return self.remember(key, total or i32(0))

    def parity(self, lane_mask: int, warp_mask: int, value: int = 1) -> V:
        """Emits whether the parity of lane and warp under the masks is `value` (i1)."""
        lane = self.f.binary("and", self.lane, i32(lane_mask)) if lane_mask else None
        warp = self.f.binary("and", self.warp, i32(warp_mask)) if warp_mask and self.warps > 1 else None
        parts = [each for each in (lane, warp) if each is not None]
        if not parts:
            return TRUE if value == 0 else FALSE
        many = bin(lane_mask).count("1") + (bin(warp_mask).count("1") if warp is not None else 0) > 1
        if not many:
            return self.f.icmp("ne" if value else "eq", parts[0], i32(0))
        counts = [self.f.intrinsic("ctpop", [each]) for each in parts]
        total = counts[0] if len(counts) == 1 else self.f.binary("add", counts[0], counts[1])
        return self.f.icmp("eq", self.f.binary("and", total, i32(1)), i32(value))

    def condition(self, condition: Condition, register: int) -> V:
        """Emits whether the condition holds for a register (i1)."""
        flipped = bin(condition.register & register).count("1") & 1
        return self.parity(condition.lane, condition.warp, condition.value ^ flipped)

    def predicate(self, predicate: ThreadPredicate) -> V | None:
        """Emits whether this thread acts; None when all do."""
        lane, warp = predicate.lane, predicate.warp if self.warps > 1 else 0
        tests = [
            self.f.icmp("eq", self.f.binary("and", source, i32(mask)), i32(0))
            for source, mask in ((self.lane, lane), (self.warp, warp))
            if mask
        ]
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else self.f.binary("and", tests[0], tests[1])

    def both(self, left: V | None, right: V | None) -> V | None:
        """Emits the conjunction of two conditions; None holds always."""
        if left is None or right is None or same(left, right):
            return right if left is None else left
        return self.f.binary("and", left, right)

    def where(self, guard: V | None) -> AbstractContextManager[None]:
        """Executes what is emitted inside where the condition holds; None holds always."""
        return nullcontext() if guard is None else self.f.when(guard)

    def moved(self, address: V, constant: int) -> V:
        """Returns address + constant in bytes, so that accesses can absorb the constant."""
        if not constant:
            return address
        step = const(constant, address.type)
        return self.f.deferred(address.type, lambda: self.f.add(address, step), Moved(address, constant), [address])

    # -- elements as bits ------------------------------------------------------------

    def to_bits(self, value: V, elem: str) -> V:
        return reinterpreted(self.f, to_memory(self.f, value, elem), f"i{bits_of(elem)}")

    def from_bits(self, value: V, elem: str) -> V:
        return from_memory(self.f, reinterpreted(self.f, value, memory_element(elem)), elem)

    def shuffle(self, kind: str, value: V, operand: V, clamp: int = 31) -> V:
        """Emits shfl.sync of an integer of any width: "idx", "bfly", "up" or "down"."""
        f, width = self.f, int(value.type[1:])
        if width == 64:
            halves = f.bitcast(value, "<2 x i32>")
            moved = [self.shuffle(kind, f.extract(halves, i), operand, clamp) for i in (0, 1)]
            pair = f.insert(f.insert(poison("<2 x i32>"), moved[0], 0), moved[1], 1)
            return f.bitcast(pair, "i64")
        extended = f.cast("zext", value, "i32")
        shuffled = self.call(f"shfl.sync.{kind}.i32", [ALL_LANES, extended, operand, i32(clamp)], "i32")
        return f.cast("trunc", shuffled, value.type)

    def pack(self, values: Sequence[V]) -> V:
        """Packs integers, the first in the low bits, into one integer or, when they are more, a vector of 32-bit words."""
        width, count = int(values[0].type[1:]), len(values)
        if count == 1:
            return values[0]
        whole = _whole(values)
        if whole is not None:
            return whole
        each = 32 // width
        if each > 1 and count > each:
            return self.pack([self.pack(values[start : start + each]) for start in range(0, count, each)])
        found = self._rounded_pair(values)
        if found is None:
            found = poison(f"<{count} x i{width}>")
            for index, value in enumerate(values):
                found = self.f.insert(found, value, index)
        total = width * count
        return self.f.bitcast(found, f"i{total}" if total <= 32 else f"<{total // 32} x i32>")

    def _rounded_pair(self, values: Sequence[V]) -> V | None:
        """Rounds two floats to 16 bits by one instruction, as a vector; None where the values are not such a pair."""
        narrow = [v.origin.value if isinstance(v, Deferred) and isinstance(v.origin, Bits) else v for v in values]
        origins = [v.origin if isinstance(v, Deferred) else None for v in narrow]
        first, *more = origins
        if len(narrow) != 2 or not isinstance(first, Rounded) or not isinstance(more[0], Rounded):
            return None
        return self.rounded(first.value, more[0].value, narrow[0].type)

    def rounded(self, first: V, second: V, type_: str) -> V:
        """Rounds two floats to half or bfloat, as a vector."""
        name = "ff2bf16x2.rn" if type_ == "bfloat" else "ff2f16x2.rn"
        return self.call(name, [second, first], f"<2 x {type_}>")

    def unpack(self, value: V, count: int, width: int) -> list[V]:
        if count == 1:
            return [reinterpreted(self.f, value, f"i{width}")]
        if value.type[0] == "<" and width < 32:
            registers = self.unpack(value, count * width // 32, 32)
            return [piece for register in registers for piece in self.unpack(register, 32 // width, width)]

        f, type_ = self.f, f"<{count} x i{width}>"
        whole = value if value.type == type_ else f.deferred(type_, lambda: f.bitcast(value, type_), of=[value])

        def piece(index: int) -> V:
            return f.deferred(f"i{width}", lambda: f.extract(whole, index), Piece(value, index, count), [whole])

        return [piece(index) for index in range(count)]

    def choose(self, values: Sequence[V], lane: Sequence[int], warp: Sequence[int], constant: int = 0) -> V:
        """Emits values[constant ^ linear(lane, warp)]: a tree of selects over the index bits that depend on the thread."""
        moving = 0
        for each in (*lane, *(warp if self.warps > 1 else ())):
            moving |= each
        return self._choose(values, constant, moving, lane, warp)

    def _choose(self, values: Sequence[V], index: int, moving: int, lane: Sequence[int], warp: Sequence[int]) -> V:
        if not moving:
            return values[index]
        bit = moving & -moving
        rest = moving ^ bit
        flips = self.parity(
            sum(1 << i for i, each in enumerate(lane) if each & bit), sum(1 << i for i, each in enumerate(warp) if each & bit)
        )
        stay = self._choose(values, index, rest, lane, warp)
        go = self._choose(values, index ^ bit, rest, lane, warp)
        return stay if same(stay, go) else self.f.select(flips, go, stay)


def _whole(values: Sequence[V]) -> V | None:
    """Returns the value whose pieces these are, all and in order; None if they are not."""
    first = values[0].origin if isinstance(values[0], Deferred) else None
    if not isinstance(first, Piece) or first.count != len(values):
        return None
    for position, value in enumerate(values):
        origin = value.origin if isinstance(value, Deferred) else None
        if not isinstance(origin, Piece) or origin.whole is not first.whole or origin.index != position:
            return None
    return first.whole
