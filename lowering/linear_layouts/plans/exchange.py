"""Plans conversions through shared memory: where the elements lie there, and every store and load.

The tensor bits are split into V (elements of a vector, the lowest offset bits), B (banks) and S (segments, the highest).
An access is free of bank conflicts iff span(V + S) and the span of what its lanes touch together meet in span(V) only. Two
subspaces of equal dimension always have a common complement, so an S without conflicts on both sides exists; it is built, not
searched for (Zhou et al., arXiv 2505.23819, "optimal swizzling").
"""

from __future__ import annotations

from dataclasses import replace

from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError
from ..f2 import Span, combine, complement, extend, intersect, log2, units
from ..layout import BLOCK, LANE, OFFSET, REGISTER, WARP, LinearLayout
from ..levels import check_pair
from ..linear import ThreadMap, ThreadPredicate, expand_unique, table, to_unique
from ..matching import BANK_BYTES, BANKS, MAX_VECTOR_BITS, Access, bank_conflicts


@dataclass(frozen=True, slots=True)
class Accesses:
    """The stores or loads of a thread: an address in bytes is `address` at its lane and warp XOR the offset of the access."""

    address: ThreadMap
    accesses: tuple[Access, ...]
    predicate: ThreadPredicate
    conflicts: int

    @property
    def elements(self) -> int:
        """Number of elements of one vector."""
        return len(self.accesses[0].registers)


@dataclass(frozen=True, slots=True)
class SharedExchange:
    """A store, a barrier and a load.

    Registers of `store` are those of the source; those of `load` are values, and `destination_registers` says for each register
    of the result which value it is. `layout` maps the element offset to the coordinates, or to the number of the element where
    not all are exchanged together: when `is_warp_local` every warp has its own region and the barrier is one of the warp. With
    several `repetitions` the buffer is used again and again, with a barrier before each further use: (what is XORed into the
    source registers, into the values).
    """

    layout: LinearLayout
    bytes: int
    store: Accesses
    load: Accesses
    is_warp_local: bool
    destination_registers: tuple[int, ...]
    repetitions: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def instructions(self) -> int:
        """Number of stores and loads of a thread, each counted as often as its bank conflicts make it wait."""
        stores = len(self.store.accesses) * self.store.conflicts
        return len(self.repetitions) * (stores + len(self.load.accesses) * self.load.conflicts)


def plan_exchange(
    src: LinearLayout, dst: LinearLayout, element_bits: int, *, max_bytes: int | None = None
) -> SharedExchange:
    """Plans an exchange between any two layouts of a block.

    `max_bytes` asks for a smaller buffer that is used several times, where possible. UnsupportedError for an exchange between
    the blocks of a cluster.
    """
    check_pair(src, dst)
    if src[BLOCK] != dst[BLOCK]:
        raise UnsupportedError("a layout conversion between the blocks of a cluster is not supported")
    size = max(8, element_bits) // 8
    own, wanted = _within_dims(src.unique_registers(), dst.unique_registers(), (REGISTER, LANE, WARP))
    outer: list[int] = []
    if max_bytes is not None and own.is_normal_form and wanted.is_normal_form:
        vector, _, _ = choose_shared(own, wanted, size * 8)
        outer = [b for b in own[REGISTER] if b in wanted[REGISTER] and b not in vector]
        short = max(0, own.out_bits - max(0, (max_bytes // size).bit_length() - 1))
        outer = outer[len(outer) - short :] if short < len(outer) else outer
    repetitions = tuple(
        zip(
            table([expand_unique(src)[1 << own[REGISTER].index(each)] for each in outer]),
            table([1 << wanted[REGISTER].index(each) for each in outer]),
            strict=True,
        )
    )
    plan = _plan(_without(own, outer), _without(wanted, outer), size, (REGISTER, LANE, WARP))
    sources = _skipping([own[REGISTER].index(each) for each in outer], len(own[REGISTER]))
    values = _skipping([wanted[REGISTER].index(each) for each in outer], len(wanted[REGISTER]))
    return replace(
        plan,
        store=_renumbered(plan.store, [expand_unique(src)[each] for each in sources]),
        load=_renumbered(plan.load, values),
        destination_registers=to_unique(dst),
        repetitions=repetitions,
    )


def plan_warp_exchange(src: LinearLayout, dst: LinearLayout, element_bits: int) -> SharedExchange:
    """Plans an exchange within warps through a region of shared memory per warp, which needs no barrier of the block."""
    check_pair(src, dst)
    size = max(8, element_bits) // 8
    own, wanted = _within_dims(src.unique_registers(), dst.unique_registers(), (REGISTER, LANE))
    plan = _plan(own, wanted, size, (REGISTER, LANE))
    return replace(
        plan,
        bytes=plan.bytes << len(src[WARP]),
        store=_renumbered(_in_regions(plan.store, plan.bytes), expand_unique(src)),
        load=_in_regions(plan.load, plan.bytes),
        is_warp_local=True,
        destination_registers=to_unique(dst),
    )


def _within_dims(
    src: LinearLayout, dst: LinearLayout, inner: tuple[str, ...]
) -> tuple[LinearLayout, LinearLayout]:
    """Renumbers both layouts by the elements that the source holds in the dims `inner`; what outer dims add is taken off."""
    basis = extend((), src.columns(inner))
    if len(basis) == src.out_bits:
        return src, dst
    span = Span(basis)
    found: list[dict[str, list[int]]] = [{}, {}]
    for name in (REGISTER, LANE, WARP):
        for bases, layout in zip(found, (src, dst), strict=True):
            own = (
                layout[name]
                if name in inner
                else [a ^ b for a, b in zip(layout[name], src[name], strict=True)]
            )
            solved = [span.solve(each) for each in own]
            if None in solved:
                raise ValueError(
                    f"the conversion is not local to {'warps' if WARP not in inner else 'blocks'}"
                )
            bases[name] = [each for each in solved if each is not None]
    shape = (1 << len(basis),)
    return LinearLayout.of(found[0], shape), LinearLayout.of(found[1], shape)


def choose_shared(
    src: LinearLayout, dst: LinearLayout, element_bits: int
) -> tuple[list[int], list[int], list[int]]:
    """Returns (V, B, S): bases of the shared layout, lowest offset bits first. Both layouts have unique registers."""
    bits = src.out_bits
    vector = _choose_vector(src, dst, element_bits)
    sides = [_touched_together(layout, vector, element_bits) for layout in (src, dst)]
    banks = _row_bits(element_bits) - len(vector)
    count = max(0, bits - len(vector) - banks)
    common = vector + extend(vector, intersect(*sides))
    fewer, more = sorted((extend(common, side) for side in sides), key=len)
    pairs = [a ^ b for a, b in zip(fewer, more, strict=False)]
    outside = complement([*sides[0], *sides[1]], bits)
    candidates = [*outside, *pairs, *more[len(fewer) :], *fewer, *common[len(vector) :], *units(bits)]
    segments = extend(vector, candidates)[:count]
    return vector, complement([*vector, *segments], bits), segments


def _choose_vector(src: LinearLayout, dst: LinearLayout, element_bits: int) -> list[int]:
    """Chooses V: what both sides have in registers, then what one side has while the other gets no conflicts by it.

    A word is filled in any case: lanes that meet in one word do not conflict.
    """
    longest, bank = log2(MAX_VECTOR_BITS // element_bits), log2(max(1, BANK_BYTES * 8 // element_bits))
    common = intersect(dst[REGISTER], src[REGISTER])[:longest]
    best = common
    for side in (dst, src):
        vector = list(common)
        for basis in extend(common, side[REGISTER]):
            wider = [*vector, basis]
            touched = max(len(_touched_together(layout, wider, element_bits)) for layout in (src, dst))
            if len(wider) <= longest and (len(wider) <= bank or touched <= _row_bits(element_bits)):
                vector = wider
        best = max(best, vector, key=len)
    more = extend(best, [*src[REGISTER], *dst[REGISTER], *src[LANE], *dst[LANE], *units(src.out_bits)])
    return best + more[: max(0, bank - len(best))]


def _row_bits(element_bits: int) -> int:
    """Returns the number of offset bits of one word in every bank."""
    return log2(BANKS * BANK_BYTES * 8 // element_bits)


def _touched_together(layout: LinearLayout, vector: list[int], element_bits: int) -> list[int]:
    """Returns a basis of what the lanes touch at one time, with the vector. Wider accesses serve fewer lanes at a time."""
    own = _vector_prefix(layout, vector)
    phase = max(0, log2(max(1, (element_bits << own) // (BANK_BYTES * 8))))
    return vector + extend(vector, layout[LANE][: log2(BANKS) - phase])


def _vector_prefix(layout: LinearLayout, vector: list[int]) -> int:
    span, count = Span(layout[REGISTER]), 0
    while count < len(vector) and vector[count] in span:
        count += 1
    return count


def _plan(src: LinearLayout, dst: LinearLayout, size: int, elect_over: tuple[str, ...]) -> SharedExchange:
    vector, banks, segments = choose_shared(src, dst, size * 8)
    bases = [*vector, *banks, *segments]
    free = src.free_masks(elect_over)
    return SharedExchange(
        LinearLayout.of({OFFSET: bases}, src.shape),
        size << len(bases),
        _accesses(src, vector, Span(bases), size, ThreadPredicate(free[LANE], free.get(WARP, 0))),
        _accesses(dst, vector, Span(bases), size, ThreadPredicate()),
        False,
        table(units(len(dst[REGISTER]))),
    )


def _accesses(layout: LinearLayout, vector: list[int], shared: Span, size: int, predicate: ThreadPredicate) -> Accesses:
    offset = shared.coordinates
    lanes, warps = [offset(each) for each in layout[LANE]], [offset(each) for each in layout[WARP]]
    count = _vector_prefix(layout, vector)
    # The position inside a vector must not depend on the thread; outside the normal form it may, and the
    # vector is shortened.
    while any(each % (1 << count) for each in (*lanes, *warps)):
        count -= 1
    registers = Span(layout[REGISTER])
    lead = [found for each in vector[:count] if (found := registers.solve(each)) is not None]
    rest = []
    for unit in extend(lead, units(len(layout[REGISTER]))):
        low = offset(combine(layout[REGISTER], unit)) % (1 << count)
        rest.append(unit ^ combine(lead, low))
    offsets = [offset(combine(layout[REGISTER], each)) * size for each in rest]
    inside = table(lead)
    return Accesses(
        ThreadMap(0, tuple(each * size for each in lanes), tuple(each * size for each in warps)),
        tuple(
            Access(tuple(start ^ each for each in inside), offset_of_access)
            for start, offset_of_access in zip(table(rest), table(offsets), strict=True)
        ),
        predicate,
        bank_conflicts([each * size for each in lanes], size << count),
    )


def _in_regions(accesses: Accesses, region: int) -> Accesses:
    address = accesses.address
    warps = tuple(each | region << bit for bit, each in enumerate(address.warp))
    return replace(accesses, address=ThreadMap(address.constant, address.lane, warps))


def _renumbered(accesses: Accesses, names: list[int] | tuple[int, ...]) -> Accesses:
    moved = tuple(Access(tuple(names[each] for each in a.registers), a.offset) for a in accesses.accesses)
    return replace(accesses, accesses=moved)


def _without(layout: LinearLayout, outer: list[int]) -> LinearLayout:
    """Removes these register bases, unit vectors, and their coordinate bits from a layout; the result has one output dim."""
    if not outer:
        return layout
    keep = [bit for bit in range(layout.out_bits) if 1 << bit not in outer]

    def squeeze(vector: int) -> int:
        return sum((vector >> bit & 1) << index for index, bit in enumerate(keep))

    bases = {n: [squeeze(each) for each in column if each not in outer] for n, column in layout.bases}
    return LinearLayout.of(bases, (1 << len(keep),))


def _skipping(bits: list[int], count: int) -> tuple[int, ...]:
    """Maps a register index without these bits to the register index with them 0."""
    return table([1 << bit for bit in range(count) if bit not in bits])
