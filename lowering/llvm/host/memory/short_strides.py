"""Loads elements that are a few apart in pieces of 16 bytes, of which each instruction picks.

    stride 3, 16 bytes:   a b c a b c a b c a b c a b c a │ b c a b … │ … a        three loads, the last one ends at the last a
                          one shuffle of each of them, within 16 bytes, and two `or`s

Both halves of a register hold such a group of their own, so that no shuffle crosses them. Every second byte is half of a number
of 16 bits, and every second one of these of 32. Nothing beyond the last element is read. Of the first lanes alone, as at the
end of a row, shorter vectors are loaded so; under other masks elements are read one by one, or by the gathers of AVX-512.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Function
from ...masks.accesses import gather_lanes, known_lanes
from ...module import Module
from ...values import V, bits, const, element, i64, int_vector, lanes, vector, zero
from .gathers import gather, has_instructions

LANE = 16
"""Bytes within which shuffles are cheap."""
MAX_APART = {1: 8, 2: 8, 4: 8, 8: 4}
"""The most elements from one to the next, by the bytes of one: so many loads and shuffles for a register. Others are loaded one
by one, at addresses that are known: those of a gather would first be taken out of registers."""


MIN_IN_PIECES, MAX_IN_PIECES = {1: 9, 2: 9, 4: 6, 8: 3}, 20
"""The same where one instruction picks elements of two registers: nearer ones are loaded with all between them if they may be
(`gathers.are_few_apart`), and others by gathers."""


def are_in_pieces(module: Module, size: int, stride: int, few: bool = False, otherwise: bool = False) -> bool:
    """Whether elements of `size` bytes, `stride` apart, are loaded so.

    few: several at a time. otherwise: where they are not loaded with all between them.
    """
    if stride < 2 or size not in MAX_APART or "avx2" not in module.features or (few and stride > MAX_APART[size]):
        return False
    if "avx512f" not in module.features:
        return True
    return (2 if otherwise else MIN_IN_PIECES[size]) <= stride <= MAX_IN_PIECES


def load_in_pieces(f: Function, pointer: V, mask: V | None, type_: str, stride: int, align: int) -> V:
    """Emits the vector `type_` of elements `stride` apart from a pointer on, zero where the mask is false."""
    known = None if mask is None else known_lanes(mask)
    if known is not None and not any(known):
        return zero(type_)
    if known is not None and not all(known):
        assert mask is not None
        first = sum(known)
        if all(known[:first]) and stride <= MAX_APART[bits(element(type_)) // 8]:
            return _first_lanes(f, pointer, type_, first, stride, align)
        return _gathered(f, type_, pointer, stride, mask, align)
    if mask is None or known is not None:
        return _loaded(f, pointer, type_, stride, align)
    whole, part, done = f.label("whole"), f.label("part"), f.label("loaded")
    f.cond_branch(f.intrinsic("vector.reduce.and", [mask], "i1"), whole, part)
    f.start(whole)
    together = _loaded(f, pointer, type_, stride, align)
    f.branch(done)
    f.start(part)
    apart = _gathered(f, type_, pointer, stride, mask, align)
    f.branch(done)
    f.start(done)
    return f.phi(type_, [(together, whole), (apart, part)])


def _first_lanes(f: Function, pointer: V, type_: str, count: int, stride: int, align: int) -> V:
    """Emits the vector `type_` whose first lanes are elements `stride` apart and whose others are zero: loads of powers of two
    of them, and then single ones. A gather of the eight floats of half a register takes twenty cycles."""
    n, item = lanes(type_), element(type_)
    result, at, step = zero(type_), 0, n // 2
    while step * bits(item) >= 8 * LANE:
        if count - at >= step:
            part = _loaded(f, f.gep(pointer, at * stride, item), vector(item, step), stride, align)
            whole = f.shuffle(part, part, [lane if lane < step else -1 for lane in range(n)])
            result = f.shuffle(result, whole, [n + lane - at if at <= lane < at + step else lane for lane in range(n)])
            at += step
        step //= 2
    for lane in range(at, count):
        result = f.insert(result, f.load(item, f.gep(pointer, lane * stride, item), align), lane)
    return result


def _gathered(f: Function, type_: str, pointer: V, stride: int, mask: V, align: int) -> V:
    """Emits the loads of the lanes of a mask, by one instruction where there is one."""
    if not has_instructions(f.module, type_):
        return gather_lanes(f, type_, pointer, i64(stride), mask)
    n, item = lanes(type_), element(type_)
    steps = int_vector(range(0, n * stride, stride), "i64")
    addresses = f"getelementptr {item}, ptr {pointer.operand()}, {steps.type} {steps.operand()}"
    return gather(f, f.pure(addresses, vector("ptr", n)), mask, type_, align)


def _loaded(f: Function, pointer: V, type_: str, stride: int, align: int) -> V:
    item, n = element(type_), lanes(type_)
    size = bits(item) // 8
    each = min(n, LANE // size)
    if stride > MAX_APART[size]:
        groups = [f.gep(pointer, at * stride, item) for at in range(0, n, each)]
        return f.concatenated([_one_by_one(f, group, item, each, stride, align) for group in groups])
    if stride == 2 and item in ("i8", "i16") and n * size >= LANE:
        return _of_pairs(f, pointer, type_, align)
    last = (stride - 1) * (each - 1)  # from where a piece ends at the last element
    starts = [min(number * each, last) for number in range(stride - 1)] + [last]
    pieces = [
        f.concatenated([
            f.load(vector(item, each), f.gep(pointer, group * stride + start, item), align) for group in range(0, n, each)
        ])
        for start in starts
    ]  # fmt: skip
    wanted = []
    for lane in range(n):
        position = lane % each * stride
        number = min(position // each, stride - 1)
        wanted.append((number, lane // each * each + position - starts[number]))
    return picked(f, pieces, wanted)


def _one_by_one(f: Function, pointer: V, item: str, n: int, stride: int, align: int) -> V:
    found = zero(vector(item, n))
    for lane in range(n):
        found = f.insert(found, f.load(item, f.gep(pointer, lane * stride, item), align), lane)
    return found


def _of_pairs(f: Function, pointer: V, type_: str, align: int) -> V:
    """Emits the loads of every second element: the lower halves of pairs, and the upper ones of those that end with the last
    element. Where what follows has twice the bits, as sums of bytes do, nothing is left of the conversion."""
    size, half = bits(element(type_)), lanes(type_) // 2
    pair = vector(f"i{2 * size}", half)
    first = f.load(pair, pointer, align)
    second = f.load(pair, f.gep(pointer, 2 * half - 1, element(type_)), align)
    lower = f.binary("and", first, f.splat(const((1 << size) - 1, f"i{2 * size}"), half))
    upper = f.binary("lshr", second, f.splat(const(size, f"i{2 * size}"), half))
    return f.cast("trunc", f.concatenated([lower, upper]), type_)


def picked(f: Function, vectors: Sequence[V], wanted: Sequence[tuple[int, int]]) -> V:
    """Returns the elements (vector, lane), in shuffles that each add those of one more vector."""
    lanes = len(wanted)
    if len(vectors) == 1:
        return f.shuffle(vectors[0], vectors[0], [lane for _, lane in wanted])
    result = f.shuffle(vectors[0], vectors[1], [n * lanes + lane if n < 2 else -1 for n, lane in wanted])
    for number in range(2, len(vectors)):
        mask = [i if n < number else lanes + lane if n == number else -1 for i, (n, lane) in enumerate(wanted)]
        result = f.shuffle(result, vectors[number], mask)
    return result
