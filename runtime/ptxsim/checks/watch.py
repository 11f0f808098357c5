"""Tracks, at level 2, values that were never written, and bytes in flight.

Every byte of a register, per lane, and every byte of shared and local memory has a bit that says whether it is defined.
Undefined values may be moved and computed with; the result is undefined. It is a violation to branch on one, to use one
as an address, and to store one to global memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....lowering.ptx.instructions import Decoded
from ....lowering.ptx.syntax import Address, Instruction, Operand, Register
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ..async_copies.copies import CopyQueue
from ..async_copies.mbarriers import check_not_opaque
from ..core.binding import Access, Binding, Observer
from ..core.blocks import Cta
from ..core.context import MachineContext
from ..core.types import Mask, Step
from ..memory.spaces import GlobalMemory, SharedMemory, Space
from .product_registers import ProductRegisters
from .shadows import ALL, as_bits, result_bits, targets_of

_ORDERED = frozenset(["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"])
"""Modifiers of accesses that may order others."""
_DEFINED: Array = np.zeros((), np.uint8)


@dataclass(frozen=True, slots=True)
class Coherence:
    """Two masks over the bytes of global memory: those that .nc loads have read, and those that the grid has
    written."""

    read_only: Array
    written: Array


class Watch(Observer):
    """Keeps and checks the shadows of a machine's registers and memory."""

    def __init__(self, machine: MachineContext) -> None:
        self.machine = machine
        keys = list(machine.registers.rows)
        self.block = np.full((len(keys), machine.lanes), ALL)
        self.undefined = dict(zip(keys, self.block, strict=True))
        self.products = ProductRegisters(machine)
        cached = any("nc" in i.modifiers for f in machine.functions for i in f.code or ())
        size = machine.memory.octets.size
        self.coherence = Coherence(np.zeros(size, np.bool_), np.zeros(size, np.bool_)) if cached else None
        self.local = machine.local.watch(False)

    @property
    def arrays(self) -> list[Array]:
        """The shadows that belong to the current block."""
        return [self.block, self.local]

    def clear(self) -> None:
        self.block.fill(ALL)
        self.local.fill(False)

    def row(self, k: Binding, name: str) -> Array:
        return self.undefined[k.function.name, name]

    def rows(self, k: Binding, operands: Sequence[Operand]) -> list[Array | None]:
        return [self.row(k, o.name) if isinstance(o, Register) else None for o in operands]

    # -- instructions

    def step(self, k: Binding, i: Instruction, step: Step) -> Step:
        """Wraps a step so that undefinedness passes from the registers that an instruction reads to those
        that it writes."""
        if i.opcode != "wgmma":
            step = self.products.around(k.function.name, k.reads, k.writes, step)
        targets = [self.row(k, name) for name in sorted(k.writes)]
        if not targets:
            return step
        shadow = k.shadow
        if shadow is not None:
            ordered = [self.row(k, name) for name in k.shadow_targets]

            def exact(mask: Mask) -> None:
                found = shadow(mask)
                step(mask)
                for target, value in zip(ordered, found, strict=True):
                    np.copyto(target, as_bits(value), where=True if mask is None else mask)

            return exact
        if k.accesses:  # the access itself writes the shadow, except for the results of atomics
            return self._defining(step, targets) if i.opcode == "atom" else step
        if k.decoded is not None:
            return self._arithmetic(k, k.decoded, step)
        sources = [self.row(k, name) for name in sorted(k.reads)]
        warps = k.of_warps

        def carried(mask: Mask) -> None:
            found: Array = np.zeros(k.lanes, np.bool_)
            for source in sources:
                found = found | (source != 0)
            if warps:
                there = found if mask is None else found & mask
                found = np.repeat(there.reshape(-1, 32).any(1), 32)
            step(mask)
            for target in targets:
                np.copyto(target, as_bits(found), where=True if mask is None else mask)

        return carried

    def _defining(self, step: Step, targets: list[Array]) -> Step:
        def defined(mask: Mask) -> None:
            step(mask)
            for target in targets:
                np.copyto(target, np.uint8(0), where=True if mask is None else mask)

        return defined

    def _arithmetic(self, k: Binding, d: Decoded, step: Step) -> Step:
        bits = result_bits(k, d)
        targets = [(self.row(k, name), np.uint8(offset), size) for name, offset, size in targets_of(d)]
        if len(targets) == 1 and targets[0][1] == 0:
            row = targets[0][0]

            def single(mask: Mask) -> None:
                found = bits()
                step(mask)
                np.copyto(row, found, where=True if mask is None else mask)

            return single

        def several(mask: Mask) -> None:
            found = np.array(bits())
            step(mask)
            for row, offset, size in targets:
                part = (found >> offset) & np.uint8((1 << size) - 1)
                np.copyto(row, part, where=True if mask is None else mask)

        return several

    def guard(self, k: Binding, guard: Register, value: Callable[[], Array]) -> Callable[[], Array]:
        undefined = self.row(k, guard.name)
        machine = self.machine

        def checked() -> Array:
            mask = machine.scheduler.mask
            bad = undefined != 0 if mask is None else (undefined != 0) & mask
            if np.count_nonzero(bad):
                message = f"the predicate {guard.name.split('#')[0]} was never assigned, or computed from undefined values"
                machine.violation("uninitialised", message, np.flatnonzero(bad))
            return value()

        return checked

    # -- memory

    def access(
        self, k: Binding, address: Operand, values: Sequence[Operand], size: int, write: bool
    ) -> Access:
        k.accesses = True
        base = address.base if isinstance(address, Address) else address
        pointer = self.row(k, base.name) if isinstance(base, Register) else None
        rows = self.rows(k, values)
        used = self._used_bytes(k, size)
        machine = self.machine
        races, coherence = machine.races, self.coherence
        atomic = k.instruction.opcode in ("atom", "red")
        ordered = atomic or not _ORDERED.isdisjoint(k.instruction.modifiers)
        cached = "nc" in k.instruction.modifiers

        def look(space: Space, offset: Array, lanes: Array | None) -> None:
            if pointer is not None:
                bad = pointer if lanes is None else pointer[lanes]
                if np.count_nonzero(bad):
                    self._report(
                        "an address that was never assigned, or computed from undefined values", bad, lanes
                    )
            if races is not None:
                races.access(space, offset, size, lanes, write, ordered)
            if space.flight is not None and not isinstance(space, GlobalMemory):
                self._flight(space, space.flight, offset, size, lanes, write)
            if isinstance(space, SharedMemory) and space.mbarriers:
                who = np.arange(machine.lanes) if lanes is None else lanes
                check_not_opaque(machine, space, offset.astype(np.int64)[:, None] + np.arange(0, size, min(size, 8)), who)
            if (write or atomic) and isinstance(space, SharedMemory) and space.dirty is not None:
                space.dirty[self._offsets(offset, size)] = True
            if coherence is not None and isinstance(space, GlobalMemory) and (write or atomic or cached):
                self._coherent(coherence, offset, size, lanes, write or atomic)
            if atomic:
                self._atomic(space, offset, size, lanes, rows)
            elif write:
                self._write(space, offset, size, lanes, rows)
            else:
                self._read(space, offset, size, lanes, rows, used)

        return look

    def _coherent(
        self, coherence: Coherence, offset: Array, size: int, lanes: Array | None, write: bool
    ) -> None:
        """Reports bytes that .nc loads read and the grid writes in the same launch."""
        offsets = self._offsets(offset, size)
        other = coherence.read_only if write else coherence.written
        if np.count_nonzero(other[offsets]):
            bad = np.flatnonzero(other[offsets].any(1))
            text = "global bytes that the grid writes are loaded with .nc"
            self.machine.violation("non-coherent", text, bad if lanes is None else lanes[bad])
        (coherence.written if write else coherence.read_only)[offsets] = True

    def _used_bytes(self, k: Binding, size: int) -> Array:
        """Returns which bytes of a widened load matter, as the compiler's pragma says."""
        used = np.ones(size, np.bool_)
        for pragma in k.pragmas:
            fields = pragma.split()
            if len(fields) == 2 and fields[0] == "used_bytes_mask":
                try:
                    mask = int(fields[1], 0)
                except ValueError:
                    continue
                used = np.array([mask >> b & 1 for b in range(size)], np.bool_)
        return used

    def _report(self, message: str, bad: Array, lanes: Array | None) -> None:
        found = np.flatnonzero(bad)
        self.machine.violation("uninitialised", message, found if lanes is None else lanes[found])

    def _flight(
        self, space: Space, flight: Array, offset: Array, size: int, lanes: Array | None, write: bool
    ) -> None:
        if not np.count_nonzero(flight):
            return
        marks = flight[offset.astype(np.int64)[:, None] + np.arange(size)]
        found = (marks != 0 if write else marks == 1).any(1)  # bytes that a copy reads may be read
        if np.count_nonzero(found):
            bad = np.flatnonzero(found)
            what = "written" if write else "read"
            message = f"{space.kind} bytes are {what} while an asynchronous copy into them is pending"
            self.machine.violation("in flight", message, bad if lanes is None else lanes[bad])

    def _offsets(self, offset: Array, size: int) -> Array:
        return np.asarray(offset.astype(np.int64)[:, None] + np.arange(size))

    def _read(
        self,
        space: Space,
        offset: Array,
        size: int,
        lanes: Array | None,
        rows: list[Array | None],
        used: Array,
    ) -> None:
        if not rows:
            return
        defined = space.defined
        each = size // len(rows)
        known: Array | None = None
        if defined is not None and not isinstance(space, GlobalMemory):
            known = defined[self._offsets(offset, size)] | ~used
        weights = np.uint8(1) << np.arange(each, dtype=np.uint8)
        for index, row in enumerate(rows):
            if row is None:
                continue
            bad: Array = _DEFINED
            if known is not None:
                bad = (~known[:, index * each : (index + 1) * each] * weights).sum(1, dtype=np.uint8)
            if lanes is None:
                row[...] = bad
            else:
                row[lanes] = bad

    def _write(
        self, space: Space, offset: Array, size: int, lanes: Array | None, rows: list[Array | None]
    ) -> None:
        if not rows:
            return
        each = size // len(rows)
        bits = np.uint8(1) << np.arange(each, dtype=np.uint8)
        for index, row in enumerate(rows):
            bad: Array | None = None if row is None else (row if lanes is None else row[lanes])
            undefined = None if bad is None else (bad[:, None] & bits) != 0
            if isinstance(space, GlobalMemory):
                if undefined is not None and np.count_nonzero(undefined):
                    self._report("an undefined value is stored to global memory", undefined.any(1), lanes)
            elif space.defined is not None:
                offsets = self._offsets(offset, each) + index * each
                space.defined[offsets] = True if undefined is None else ~undefined

    def _atomic(
        self, space: Space, offset: Array, size: int, lanes: Array | None, rows: list[Array | None]
    ) -> None:
        for row in rows:
            if row is not None:
                bad = row if lanes is None else row[lanes]
                if np.count_nonzero(bad):
                    self._report("an atomic with an undefined operand", bad, lanes)
        if space.defined is not None and not isinstance(space, GlobalMemory):
            known = np.asarray(space.defined[self._offsets(offset, size)].all(1))
            if not known.all():
                self._report("an atomic on bytes that nothing has written", ~known, lanes)

    # -- end of a block

    def ending(self, cta: Cta, mask: Mask) -> None:
        queue = cta.agents.get("cp.async")
        if isinstance(queue, CopyQueue) and queue.pending:
            lanes = np.concatenate([copy.lanes for copy, _ in queue.pending])
            left = lanes if mask is None else lanes[mask[lanes]]
            if left.size:
                self.machine.warn(
                    "in flight", "lanes end with cp.async copies that were never waited for", np.unique(left)
                )
