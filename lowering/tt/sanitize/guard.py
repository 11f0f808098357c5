"""Defines the sanitizer's memory: every lane of every access is checked, and only faultless ones are carried
out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from ..interpret.machine import Value
from ..interpret.memory import Memory, Scalar, is_near_null, segment_of
from ..op_locations import OpLocations
from .findings import MAX_FINDINGS, Collector, Finding, Program
from .partial import cause_of
from .pending import PendingStores
from .races import PLAIN_READ, PLAIN_WRITE, Access, Conflict, RaceDetector
from .shadow import Shadow

Use = tuple[str, "Shadow | None"]

_Known = Array | np.int64
"""One number for each lane, or one for all."""


@dataclass(slots=True)
class Allowance:
    """What sanitized launches may still do.

    Attributes:
        operations: how many operations they may run, those of each iteration of a loop and of each program.
        findings: how many different findings are kept of a launch.
        prints: whether `tt.print` does.
    """

    operations: float = inf
    findings: int = MAX_FINDINGS
    prints: bool = True


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowing(allowance: Allowance) -> Iterator[None]:
    """Lets launches that are sanitized in the block end after so many operations, which are counted down."""
    token = _ALLOWANCE.set(allowance)
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


class Guard(Memory):
    """Memory that reports instead of raising.

    Operations that the sanitizer knows ask `lanes` which of their lanes are sound. Accesses of other
    operations are checked in `load` and `store`, by the addresses alone, on behalf of the operation
    `watched`, which leaves in `blank` what `touch` returns; `written` says which lanes of what it stores are
    undefined (`poison`). `calls`: the calls that are being run. `changes` counts writes that may have changed something.

    unwritten: which bytes of an array nothing has written yet, by the address of its memory; kept up to date. Lanes that load
    one are undefined; an atomic that reads one is a finding. Arrays without an entry count as written.
    needs_barriers: whether a lane that loads what another lane of its program stored needs a barrier between.
    undefined_arithmetic: whether integer divisions by zero and shifts by the width or more leave lanes undefined.
    """

    def __init__(
        self,
        locations: OpLocations,
        extents: tuple[int, int, int],
        unwritten: Mapping[int, Array] | None = None,
        needs_barriers: bool = False,
        undefined_arithmetic: bool = False,
    ) -> None:
        super().__init__()
        self._unwritten_of = {} if unwritten is None else unwritten
        self._unwritten: list[Array | None] = []
        self._allowance = _ALLOWANCE.get() or Allowance()
        self.prints = self._allowance.prints
        self.collector = Collector(self._allowance.findings)
        self.watched: Operation | None = None
        self._locations = locations
        self._extents = extents
        self._program: Program | None = None
        self._races = RaceDetector()
        self._pending = PendingStores()
        self._needs_barriers = needs_barriers
        self.undefined_arithmetic = undefined_arithmetic
        self.changes = 0
        self.blank: Array | None = None
        self.written: Array | None = None
        self.calls: list[Operation] = []
        self._arrays: list[Array] = []
        self._has_addresses = False
        self._operations: list[Operation] = []
        self._numbers: dict[Operation, int] = {}
        self._unwritten_reads: dict[Operation, int] = {}
        self._sources: dict[int, str] = {}  # by such a number: what it stands for, in memory
        self._starts = self._lengths = self._phases = np.zeros(0, np.int64)
        self._closed = np.zeros(0, np.bool_)

    def gives_up(self, operations: int) -> bool:
        """Counts operations that are about to run, and returns whether there were too many."""
        self._allowance.operations -= operations
        return self._allowance.operations < 0

    # Set-up

    def add(self, array: Array, name: str) -> int:
        known = len(self._buffers)
        base = super().add(array, name)
        if len(self._buffers) == known:
            return base  # a second pointer to the same memory
        self._arrays.append(array)
        self._unwritten.append(self._unwritten_of.get(array.__array_interface__["data"][0]) if array.size else None)
        if self._has_addresses:
            self._races.register([array], len(self._arrays) - 1)
        self._starts = np.array([buffer.base for buffer in self._buffers], np.int64)
        self._lengths = np.array([len(buffer.raw) for buffer in self._buffers], np.int64)
        # An array may itself begin at an odd address: its position in a cache line matters for the alignment.
        self._phases = np.array([each.__array_interface__["data"][0] & 63 for each in self._arrays], np.int64)
        self._closed = np.array([not buffer.writeable for buffer in self._buffers], np.bool_)
        return base

    def enter(self, index: int, program: Program) -> None:
        """Begin program number `index`."""
        if not self._has_addresses:
            self._races.register(self._arrays)
            self._has_addresses = True
        self._program = program
        self.calls.clear()
        self._races.enter(index)
        self._pending.clear()

    def number(self, op: Operation) -> int:
        """Return the number that stands for the operation in shadows: 1, 2, …"""
        found = self._numbers.get(op)
        if found is None:
            self._operations.append(op)
            found = self._numbers[op] = len(self._operations)
        return found

    def stands_for(self, part: Operation, whole: Operation) -> None:
        """Report what an operation does that is not in the text as done by one that is."""
        self._locations.stands_for(part, whole)

    def barrier(self) -> None:
        """Take note that the threads of the program have waited for each other."""
        self._pending.clear()

    # Reports

    def report(
        self, kind: str, op: Operation, count: int, message: str, key: Hashable = None, lane: tuple[int, ...] = (),
        address: str = "", origin: int = 0, other: Program | None = None,
    ) -> None:  # fmt: skip
        """Add a finding of `op`, or count lanes of an earlier one; `key` tells findings of one kind and operation apart."""

        def make() -> Finding:
            line = self._locations.line(self._operations[origin - 1]) if origin else ""
            calls = "".join([f" called at {self._locations.line(call)}" for call in reversed(self.calls)])
            return Finding(
                kind,
                message,
                self._locations.text(op),
                f"{self._locations.line(op)}{calls}",
                self._program,
                lane,
                address,
                line,
                other,
            )

        self.collector.add((kind, self.number(op), origin, key), count, make)

    def undefined(self, op: Operation, what: str, shadow: Shadow | None) -> bool:
        """Report a scalar that decides something if it is undefined, and return whether it is."""
        poison = None if shadow is None or shadow.poison is None else np.asarray(shadow.poison)
        if poison is None or not poison.any():
            return False
        first = int(np.flatnonzero(poison)[0])
        self._undefined(op, what, poison.reshape(-1), np.array([first]), poison.shape, "")
        return True

    def _undefined(
        self, op: Operation, what: str, poison: Array, found: Array, shape: tuple[int, ...], address: str
    ) -> None:
        lane, origin = int(found[0]), int(poison[found[0]])
        born = self._operations[origin - 1]
        text, line = self._locations.text(born), self._locations.line(born)
        source, (kind, deed) = self._sources.get(origin), cause_of(born)
        if deed:
            message = f"{what} is undefined: {text!r} at {line} {deed}"
        elif source is None:
            message = f"{what} is undefined: it comes from a lane that {text!r} at {line} left undefined"
        else:
            message = f"{what} is undefined: it comes from {source}, which {text!r} at {line} reads and nothing has written"
        if address:
            message += f"; {address}"
        self.report(kind, op, len(found), message, what, _index(lane, shape), address, origin)

    # Checks

    def real_addresses(self, pointer: Value, shadow: Shadow | None) -> Array:
        """Return the addresses that pointers have outside of the interpreter."""
        addresses = np.asarray(pointer).reshape(-1)
        numbers, start, _, _ = self._behind(addresses, shadow)
        if not self._arrays:
            return np.asarray(pointer)
        real = np.array([each.__array_interface__["data"][0] for each in self._arrays], np.int64)
        known = (numbers >= 0) & (numbers < len(real))
        base = np.where(known, real[np.where(known, numbers, 0)], start)
        return np.asarray(addresses - start + base).reshape(np.shape(pointer))

    def lanes(
        self, op: Operation, pointer: Value, shadow: Shadow | None, mask: Value, mask_shadow: Shadow | None, size: int,
        access: Access, uses: Sequence[Use] = (),
    ) -> tuple[Array, Array]:  # fmt: skip
        """Check an access; return (lanes to carry out, lanes that a defined mask turns off), both of the
        pointer's shape.

        Args:
            size: bytes of an element.
            uses: values that must be defined in active lanes, and what they are called.
        """
        addresses = np.asarray(pointer)
        shape = addresses.shape
        addresses = addresses.reshape(-1)
        count = len(addresses)
        active = np.ones(count, np.bool_) if mask is None else np.broadcast_to(mask, shape).reshape(-1).copy()
        off = ~active
        numbers, start, length, phase = self._behind(addresses, shadow)
        offsets = addresses - start
        outside = (offsets < 0) | (offsets + size > length)

        def where(lane: int) -> str:
            return self._address(
                int(addresses[lane]), int(numbers[lane]) if numbers.ndim else int(numbers), size
            )

        if mask_shadow is not None and mask_shadow.poison is not None:
            poison = np.broadcast_to(mask_shadow.poison, shape).reshape(-1)
            found = np.flatnonzero(poison)
            if len(found):
                self._undefined(op, "the mask", poison, found, shape, where(int(found[0])))
                active &= poison == 0
                off &= poison == 0
        active = self._defined(op, "the address", shadow, active, shape, None)
        sound = active.copy()  # each check looks at all active lanes: one may be wrong in several ways
        for what, used in uses:
            sound &= self._defined(op, what, used, active, shape, where)
        if shadow is not None and shadow.wrap is not None:
            wrap = np.broadcast_to(shadow.wrap, shape).reshape(-1)
            found = np.flatnonzero(active & (wrap != 0))
            if len(found):
                self._wrapped(op, wrap, found, shape, where(int(found[0])))
                sound &= wrap == 0
        if outside.any():
            self._outside(op, outside, active, off, shape, access, where)
            sound &= ~outside
        misfit = ((offsets + phase) | offsets) & (size - 1)
        if misfit.any() and len(found := np.flatnonzero(active & (misfit != 0))):
            address = where(int(found[0]))
            verb = _VERBS[access.reads, access.writes]
            message = f"{verb} {size} bytes at an address that is no multiple of {size}: {address}"
            self.report("misaligned", op, len(found), message, None, _index(int(found[0]), shape), address)
            sound &= misfit == 0
        if access.writes and sound.any():
            sound = self._writeable(op, numbers, sound, shape, where)
        return sound.reshape(shape), off.reshape(shape)

    def _defined(
        self,
        op: Operation,
        what: str,
        shadow: Shadow | None,
        active: Array,
        shape: tuple[int, ...],
        where: Callable[[int], str] | None,
    ) -> Array:
        """Return the active lanes that are defined, and report the others."""
        if shadow is None or shadow.poison is None:
            return active
        poison = np.broadcast_to(shadow.poison, shape).reshape(-1)
        found = np.flatnonzero(active & (poison != 0))
        if len(found):
            self._undefined(op, what, poison, found, shape, where(int(found[0])) if where is not None else "")
        return np.asarray(active & (poison == 0))

    def _behind(self, addresses: Array, shadow: Shadow | None) -> tuple[Array, _Known, _Known, _Known]:
        """Return per lane (or once for all) the array that the pointer was made from: its number, start,
        length, and offset in a cache line."""
        base = None if shadow is None else shadow.base
        nearest = segment_of(addresses)
        if base is None:
            numbers = nearest
        elif base.ndim == 0:
            numbers = base.astype(np.int64) - 1
        else:
            base = base.reshape(-1).astype(np.int64)
            numbers = np.where(base != 0, base - 1, nearest)
        known = (numbers >= 0) & (numbers < len(self._starts))
        if not len(self._starts):
            return numbers, np.int64(0), np.int64(0), np.int64(0)
        safe = np.where(known, numbers, 0)
        length = np.where(known, self._lengths[safe], 0)
        return numbers, np.where(known, self._starts[safe], 0), length, self._phases[safe]

    def _address(self, address: int, number: int, size: int) -> str:
        if is_near_null(address):
            return f"address {address:#x} (reached from a null pointer)"
        if not 0 <= number < len(self._buffers):
            return f"address {address:#x} (in no array)"
        buffer = self._buffers[number]
        offset = address - buffer.base
        if offset % size:
            return f"%{buffer.name} + {offset} (array of {len(buffer.raw)} bytes)"
        return f"%{buffer.name} + {size} * {offset // size} (array of {len(buffer.raw) // size} elements)"

    def _outside(
        self,
        op: Operation,
        outside: Array,
        active: Array,
        off: Array,
        shape: tuple[int, ...],
        access: Access,
        where: Callable[[int], str],
    ) -> None:
        found = np.flatnonzero(outside & active)
        if len(found):
            address = where(int(found[0]))
            message = f"{_VERBS[access.reads, access.writes]} outside the array: {address}"
            self.report("out-of-bounds", op, len(found), message, None, _index(int(found[0]), shape), address)
        masked = np.flatnonzero(outside & off)
        if len(masked):
            lane = int(masked[0])

            def note() -> Finding:
                address = where(lane)
                message = f"only the mask keeps the access inside the array: {address}"
                return Finding(
                    "masked-out-of-bounds", message, self._locations.text(op), self._locations.line(op), self._program,
                    _index(lane, shape), address,
                )  # fmt: skip

            self.collector.note(op, len(masked), note)

    def _wrapped(
        self, op: Operation, wrap: Array, found: Array, shape: tuple[int, ...], address: str
    ) -> None:
        lane = int(found[0])
        origin = int(wrap[lane])
        guilty = self._operations[origin - 1]
        is_far = guilty.name == "tt.addptr"
        message = (
            f"the offset {'leads more than 2^60 bytes away' if is_far else 'wrapped around'} in "
            f"{self._locations.text(guilty)!r} at {self._locations.line(guilty)}: {address}; "
            f"fix: {'stay within the array' if is_far else 'compute it in i64'}"
        )
        self.report("overflow", op, len(found), message, None, _index(lane, shape), address, origin)

    def _writeable(
        self, op: Operation, numbers: Array, active: Array, shape: tuple[int, ...], where: Callable[[int], str]
    ) -> Array:
        if not self._closed.any():
            return active
        closed = self._closed[np.clip(numbers, 0, len(self._closed) - 1)]
        found = np.flatnonzero(active & closed)
        if len(found):
            address = where(int(found[0]))
            message = f"writes to a read-only array: {address}"
            self.report("read-only", op, len(found), message, None, _index(int(found[0]), shape), address)
        return np.asarray(active & ~closed)

    # Races

    def touch(
        self,
        op: Operation,
        pointer: Value,
        shadow: Shadow | None,
        live: Array,
        size: int,
        access: Access,
        value: Value = None,
    ) -> Array | None:
        """Tell the detectors about the lanes in `live`; `value` is what a plain store is about to write.

        Returns, for a plain load, an array of the pointer's shape that is not 0 in lanes that nothing has written: `poison`.
        """
        shape = np.shape(pointer)
        addresses = np.asarray(pointer).reshape(-1)
        performed = np.flatnonzero(live)
        poison: Array | None = None
        if not len(performed):
            return None
        numbers = np.broadcast_to(self._behind(addresses, shadow)[0], addresses.shape)[performed]
        addresses = addresses[performed]
        values = None if value is None else np.broadcast_to(value, shape).reshape(-1)[performed]
        if values is not None and not access.is_atomic:
            self._between_lanes(op, addresses, values, performed, numbers, shape, size)
        first = int(numbers[0])
        for number in [first] if (numbers == first).all() else np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            offsets = addresses[chosen] - self._buffers[number].base
            unwritten = self._unwritten[number]
            if unwritten is not None:
                lanes = self._follow_writes(op, unwritten, offsets, size, access, performed[chosen], shape, number)
                if len(lanes):
                    poison = np.zeros(np.size(pointer), np.int32) if poison is None else poison
                    where = int(addresses[np.searchsorted(performed, lanes[0])])
                    poison[lanes] = self._unwritten_number(op, number, where, size)
            if self._needs_barriers and not access.is_atomic:
                self._between_operations(op, number, offsets, performed[chosen], shape, size, access)
            for conflict in self._races.access(number, offsets, size, access, self.number(op)):
                at = chosen[conflict.positions]
                old = None
                if values is not None and conflict.earlier.is_write:
                    old = self._buffers[number].view(values.dtype)[offsets[conflict.positions] // size]
                same = old is not None and old.tobytes() == values[at].tobytes()  # type: ignore[index]
                lane = int(performed[at[0]])
                address = self._address(int(addresses[at[0]]), number, size)
                self._race(op, conflict, access, same, len(np.unique(at)), _index(lane, shape), address)
        return None if poison is None else poison.reshape(shape)

    def _follow_writes(
        self, op: Operation, unwritten: Array, offsets: Array, size: int, access: Access, lanes: Array,
        shape: tuple[int, ...], number: int,
    ) -> Array:  # fmt: skip
        """Return the lanes of a load that read bytes that nothing has written, and record what is written now.

        An update of such bytes is reported at once.
        """
        touched = offsets[:, np.newaxis] + np.arange(size)
        found = lanes[:0]
        if access.reads:
            blank = np.flatnonzero(unwritten[touched].any(axis=1))
            found = lanes[blank]
            if len(blank) and (access.writes or access.is_atomic):
                address = self._address(self._buffers[number].base + int(offsets[blank[0]]), number, size)
                message = f"{_VERBS[access.reads, access.writes]} what nothing has written: {address}"
                self.report("uninitialised", op, len(blank), message, number, _index(int(found[0]), shape), address)
                found = lanes[:0]
        if access.writes:
            unwritten[touched] = False
        return found

    def _unwritten_number(self, op: Operation, array: int, address: int, size: int) -> int:
        """Return the number that stands in shadows for what an operation reads and nothing has written."""
        found = self._unwritten_reads.get(op)
        if found is None:
            self._operations.append(op)
            found = self._unwritten_reads[op] = len(self._operations)
            self._sources[found] = self._address(address, array, size)
        return found

    def _between_operations(
        self, op: Operation, array: int, offsets: Array, lanes: Array, shape: tuple[int, ...], size: int, access: Access
    ) -> None:
        """Report lanes that read what other lanes of an earlier store wrote, with no barrier between."""
        if access.writes:
            self._pending.store(self.number(op), array, offsets, lanes, shape, size)
            return
        for early in self._pending.load(array, offsets, lanes, shape, size):
            first = early.positions[0]
            address = self._address(self._buffers[array].base + int(offsets[first]), array, size)
            writer = f"lane {list(_index(early.lane, early.shape))}" if early.shape else "one thread"
            line = self._locations.line(self._operations[early.op - 1])
            message = f"reads {address}, which {writer} wrote at {line}, with no barrier between; fix: tl.debug_barrier()"
            lane = _index(int(lanes[first]), shape)
            self.report("lane-race", op, len(early.positions), message, early.op, lane, address, early.op)

    def _race(
        self,
        op: Operation,
        conflict: Conflict,
        access: Access,
        same: bool,
        count: int,
        lane: tuple[int, ...],
        address: str,
    ) -> None:
        earlier = conflict.earlier
        other = self._program_of(earlier.program)
        kind = f"{'write' if earlier.is_write else 'read'}-{'write' if access.writes else 'read'}"
        what = "wrote" if earlier.is_write else "read"
        line = self._locations.line(self._operations[earlier.op - 1])
        message = f"{kind} race on {address}: program {other} {what} it at {line}, and nothing orders the two"
        if same:
            message += " (both write the same value)"
        self.report("race", op, count, message, (kind, same), lane, address, earlier.op, other)

    def _between_lanes(
        self,
        op: Operation,
        addresses: Array,
        values: Array,
        performed: Array,
        numbers: Array,
        shape: tuple[int, ...],
        size: int,
    ) -> None:
        """Report lanes of one store with one address and different values, of which any may stay."""
        if (np.diff(addresses) > 0).all():
            return
        order = np.argsort(addresses, kind="stable")
        again = np.flatnonzero(np.diff(addresses[order]) == 0)
        if not len(again):
            return
        bits = np.ascontiguousarray(values).view(f"u{size}") if values.dtype != np.bool_ else values
        differs = again[bits[order[again]] != bits[order[again + 1]]]
        if not len(differs):
            return
        one, two = int(order[differs[0]]), int(order[differs[0] + 1])
        lane, other = _index(int(performed[one]), shape), _index(int(performed[two]), shape)
        address = self._address(int(addresses[one]), int(numbers[one]), size)
        message = f"lanes {list(lane)} and {list(other)} write different values to {address}; either may stay"
        self.report("lane-race", op, len(differs), message, None, lane, address)

    def _program_of(self, index: int) -> Program:
        columns, rows, _ = self._extents
        return index % columns, index // columns % rows, index // (columns * rows)

    def take_changes(self, pointer: Value, live: Array, old: Value) -> None:
        """Count an atomic update as a change if it left something else than `old`."""
        before = np.asarray(old)
        after = super().load(np.asarray(pointer), live, before.dtype, 0)
        self.changes += after[live].tobytes() != before[live].tobytes()

    # Operations without a rule of their own

    def load(
        self, addresses: Array, mask: Array | None, dtype: NumpyDType, fill: Scalar, verb: str = "read"
    ) -> Array:
        if self.watched is None:
            return super().load(addresses, mask, dtype, fill, verb)
        addresses = np.asarray(self.resolved(addresses))
        access = _ATOMIC.get(self.watched.name, PLAIN_READ)
        live, _ = self.lanes(self.watched, addresses, None, mask, None, dtype.itemsize, access)
        self.blank = self.touch(self.watched, addresses, None, live, dtype.itemsize, access)
        return super().load(addresses, live, dtype, fill)

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        if self.watched is None:
            super().store(addresses, values, mask)
            return
        values = np.asarray(values)
        addresses = np.asarray(self.resolved(addresses))
        access = _ATOMIC.get(self.watched.name, PLAIN_WRITE)
        shape = np.shape(addresses)
        uses = [] if self.written is None else [("the stored value", Shadow(self.written.reshape(shape)))]
        live, _ = self.lanes(self.watched, addresses, None, mask, None, values.dtype.itemsize, access, uses)
        self.touch(self.watched, addresses, None, live, values.dtype.itemsize, access, values)
        self.changes += 1
        super().store(addresses, values, live)


_ATOMIC = {
    "tt.descriptor_reduce": Access(reads=True, writes=True, is_atomic=True),
    "tt.atomic_poll": Access(reads=True, writes=False, is_atomic=True, acquires=True),
}
"""Operations without a rule whose accesses are atomic."""

_VERBS = {(True, False): "reads", (False, True): "writes", (True, True): "updates"}


def _index(lane: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(lane, shape)) if shape else ()


__all__ = ["Allowance", "Guard", "allowing"]
