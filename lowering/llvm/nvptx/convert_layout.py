"""Converts layouts: emits the plans of `linear_layouts` as instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...linear_layouts.conversion import Equal, RenamedRegisters, plan_conversion
from ...linear_layouts.f2 import log2, units
from ...linear_layouts.layout import LinearLayout
from ...linear_layouts.linear import ThreadMap
from ...linear_layouts.plans.exchange import Accesses, SharedExchange
from ...linear_layouts.plans.shuffles import ShufflePlan, ShuffleRound
from ..values import V, i32
from .memory.shared_memory import SharedMemory
from .threads import Threads, bits_of


class Moves:
    """Emits layout conversions between the threads of a block."""

    def __init__(self, threads: Threads, shared: SharedMemory) -> None:
        self.t = threads
        self.f = threads.f
        self.shared = shared

    def convert(self, values: Sequence[V], elem: str, src: LinearLayout, dst: LinearLayout) -> tuple[V, ...]:
        """Converts registers from layout `src` to `dst`."""
        plan = plan_conversion(src, dst, bits_of(elem))
        match plan:
            case Equal():
                return tuple(values)
            case RenamedRegisters():
                lane, warp = plan.flips.lane, plan.flips.warp
                if plan.flips.is_constant:
                    return tuple(values[source] for source in plan.sources)
                return tuple(self.t.choose(values, lane, warp, source) for source in plan.sources)
            case ShufflePlan():
                return self._shuffled(values, elem, plan)
            case SharedExchange():
                return self.exchange(values, elem, plan)

    # -- shuffles --------------------------------------------------------------------

    def _shuffled(self, values: Sequence[V], elem: str, plan: ShufflePlan) -> tuple[V, ...]:
        t, size = self.t, 1 << plan.packed
        bits = [t.to_bits(values[register], elem) for register in plan.source_registers]
        registers = [t.pack(bits[start : start + size]) for start in range(0, len(bits), size)]
        count = max(plan.destination_registers) + 1
        found: list[V | None] = [None] * max(1, count // size)
        for each in plan.rounds:
            self._round(each, registers, found)
        width = bits_of(elem)
        fetched = [piece for packed in found if packed is not None for piece in t.unpack(packed, size, width)]
        return tuple(t.from_bits(fetched[each], elem) for each in plan.destination_registers)

    def _round(self, step: ShuffleRound, packed: Sequence[V], found: list[V | None]) -> None:
        t, f = self.t, self.f
        offered = t.choose(packed, step.offered.lane, step.offered.warp, step.offered.constant)
        if step.kind == "xor":
            got = t.shuffle("bfly", offered, i32(step.source_lane.constant))
        elif step.kind == "idx":
            got = t.shuffle("idx", offered, t.map(step.source_lane))
        else:
            got = offered
        wanted: V | None = None
        for condition in step.keep:
            holds = t.condition(condition, 0)
            wanted = holds if wanted is None else f.binary("and", wanted, holds)
        for index in self._reached(step.kept):
            here = self._equals(step.kept, index)
            keep = here if wanted is None else wanted if here is None else f.binary("and", here, wanted)
            old = found[index]
            found[index] = got if keep is None or old is None else f.select(keep, got, old)

    def _reached(self, function: ThreadMap) -> list[int]:
        indices = {function.constant}
        for each in (*function.lane, *(function.warp if self.t.warps > 1 else ())):
            indices |= {index ^ each for index in indices}
        return sorted(indices)

    def _equals(self, function: ThreadMap, index: int) -> V | None:
        """Emits whether the function's value is `index`; None if it always is."""
        if not function.thread_bits:
            return None
        return self.f.icmp("eq", self.t.map(function), i32(index))

    # -- shared memory ---------------------------------------------------------------

    def exchange(self, values: Sequence[V], elem: str, plan: SharedExchange) -> tuple[V, ...]:
        """Converts through shared memory: store, barrier, load."""
        width = bits_of(elem)
        bits: dict[int, V] = {}
        for access in plan.store.accesses:
            for register in access.registers:
                for flip, _ in plan.repetitions:
                    bits[register ^ flip] = self.t.to_bits(values[register ^ flip], elem)
        fetched: dict[int, V] = {}
        regions = self.shared.regions(*_touched(plan, width)) if plan.is_warp_local else None
        for stored, loaded in plan.repetitions:
            base = self.shared.reserve(plan.bytes)
            self.shared.before_writing(regions)
            self.store(base, plan.store, {register: bits[register ^ stored] for register in bits})
            self.shared.between(plan.is_warp_local)
            for register, value in self._load(base, plan.load, width).items():
                fetched[register ^ loaded] = value
            self.shared.after_reading(regions)
        return tuple(self.t.from_bits(fetched[each], elem) for each in plan.destination_registers)

    def store(self, base: V, accesses: Accesses, values: Mapping[int, V]) -> None:
        """Emits the stores of a plan; `values` are the bits of registers."""
        f = self.f
        address = self._thread_address(base, accesses)
        predicate = self.t.predicate(accesses.predicate)
        packed = [
            (self._address(base, address, accesses, access.offset), self.t.pack([values[r] for r in access.registers]))
            for access in accesses.accesses
        ]

        def store() -> None:
            for index, bits in packed:
                size = _bytes(bits.type)
                f.emit(f"store {bits.type} {bits.operand()}, ptr addrspace(3) {index.operand()}, align {size}")

        if predicate is None:
            store()
        else:
            with f.when(predicate):
                store()

    def _load(self, base: V, accesses: Accesses, width: int) -> dict[int, V]:
        f, count = self.f, accesses.elements
        address = self._thread_address(base, accesses)
        total = width * count
        type_ = f"i{total}" if total <= 32 or count == 1 else f"<{total // 32} x i32>"
        found: dict[int, V] = {}
        for access in accesses.accesses:
            index = self._address(base, address, accesses, access.offset)
            packed = f.op(f"load {type_}, ptr addrspace(3) {index.operand()}, align {total // 8}", type_)
            found.update(zip(access.registers, self.t.unpack(packed, count, width), strict=True))
        return found

    def _thread_address(self, base: V, accesses: Accesses) -> V:
        """Emits the thread's part of the offsets, in bytes (i32)."""
        return self.t.map(accesses.address)

    def _address(self, base: V, address: V, accesses: Accesses, offset: int) -> V:
        return self.shared.address(base, address, offset, accesses.address.thread_bits)


def _touched(plan: SharedExchange, width: int) -> tuple[list[int], Sequence[int]]:
    """Returns the basis of a warp's byte offsets in an exchange within warps, and how these depend on the warp."""
    inside = [own ^ other for own, other in zip(plan.store.address.warp, plan.load.address.warp, strict=True)]
    for accesses in (plan.store, plan.load):
        inside += [accesses.address.constant, *accesses.address.lane, *[each.offset for each in accesses.accesses]]
        inside += units(log2(accesses.elements * width // 8))
    return inside, plan.store.address.warp


def _bytes(type_: str) -> int:
    if type_[0] == "<":
        count, _, element = type_[1:-1].split(" ")
        return int(count) * int(element[1:]) // 8
    return int(type_[1:]) // 8
