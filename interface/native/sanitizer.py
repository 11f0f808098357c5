"""Runs sanitized launches natively first: most have no findings, and instrumented code shows that in little time.

Where it stops, what the programs had written is undone, and the sanitizer itself looks (`lowering/tt/sanitize`).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import IntegerAttr

from ...lowering.keys import source_fingerprint
from ...lowering.llvm.host.launch_specialization import LaunchSpecialization
from ...lowering.llvm.host.launcher import HostKernel
from ...lowering.tt import types as t
from ...lowering.tt.analysis.alias_sets import Groups, shared_memory
from ...lowering.tt.analysis.aliasing import AliasAnalysis
from ...lowering.tt.analysis.integer_ranges import LaunchRanges
from ...lowering.tt.dialect.functions import FuncOp
from ...lowering.tt.facts import DIVISIBILITY, parameter_attributes
from ...lowering.tt.instrument.instrument import instrument
from ...lowering.tt.instrument.obstacles import obstacle
from ...lowering.tt.instrument.plan import NOT_WRITTEN, Instrumented, Plan
from ...lowering.tt.instrument.wraps import Offsets, offsets_of
from ...lowering.tt.interpret.memory import AccessError
from ...lowering.tt.transforms.pipeline import copy_function
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import KernelAssertionError, UnsupportedError, UserError
from ...promotion.float_modes import default_modes
from ...runtime.native.linking import target_key
from ...runtime.storage.cache import CompileCache
from .arguments import HostArguments
from .code import decode_object, encode_object
from .host_program import HostObject
from .kernel import LaunchFacts, NativeKernel
from .looks import CLEAN, UNKNOWN, Before, FirstLook
from .stamps import STAMPS, LaunchStamps

PREPARATION = "inline,drop-claims,expand-control,expand-assembly,expand-descriptors"
"""The passes before instrumentation. They compute nothing in another way, so that undefined values and wraps are the text's."""
MAX_PROGRAMS = 1 << 32
"""Programs of launches that are run natively first."""
_MAX_RANGES = 256
"""Launches whose ranges are remembered, by their numbers."""


@dataclass(frozen=True, slots=True)
class _Variant:
    """Code for a plan: `instrumented` says what its launches pass."""

    instrumented: Instrumented
    native: NativeKernel


@dataclass(frozen=True, slots=True)
class _Region:
    """Memory that parameters share, from its first byte to its end, and the size of its elements."""

    parameters: tuple[int, ...]
    first: int
    end: int
    size: int

    @property
    def elements(self) -> int:
        return -(-(self.end - self.first) // self.size)

    @property
    def memory(self) -> Array:
        return _memory(self.first, self.end)


def _memory(first: int, end: int) -> Array:
    if first == end:
        return np.empty(0, np.uint8)
    found: Array = np.frombuffer(memoryview((ctypes.c_uint8 * (end - first)).from_address(first)), np.uint8)
    return found


class NativeSanitizer:
    """The instrumented code of one block function."""

    def __init__(
        self,
        name: str,
        prepared: Callable[[], FuncOp],
        lowered: Callable[[FuncOp, LaunchSpecialization], HostKernel],
        identity: str,
        store: CompileCache | None,
    ) -> None:
        """prepared: makes the function after `PREPARATION`. lowered: makes native code of an instrumented function.

        identity: all that `lowered` depends on, besides joinery and the processor: a part of the keys by which code is kept in
        `store`.
        """
        self._name = name
        parts = (source_fingerprint(), target_key(), identity)
        self._identity = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
        self._prepare = prepared
        self._lowered = lowered
        self._store = store
        self._variants: dict[Plan, _Variant] = {}
        self._wraps: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._broken: str | None = None
        self._lock = threading.Lock()

    @functools.cached_property
    def _function(self) -> FuncOp:
        with default_modes():
            return self._prepare()

    @functools.cached_property
    def _aliases(self) -> AliasAnalysis:
        return AliasAnalysis(self._function)

    @functools.cached_property
    def _offsets(self) -> Offsets:
        return offsets_of(self._function)

    @functools.cached_property
    def _static_obstacle(self) -> str | None:
        return obstacle(self._function, self._aliases, self._offsets)

    @functools.cached_property
    def _arithmetic_obstacle(self) -> str | None:
        return obstacle(self._function, self._aliases, self._offsets, undefined_arithmetic=True)

    @property
    def obstacle(self) -> str | None:
        """Why launches of the kernel are interpreted at once; None if they are run natively first."""
        try:
            return self._static_obstacle or self._broken
        except UnsupportedError as error:
            return str(error)

    def look(
        self,
        extents: tuple[int, int, int],
        arguments: HostArguments,
        unwritten: Mapping[int, Array],
        needs_barriers: bool,
        undefined_arithmetic: bool = False,
        apart: bool = False,
    ) -> FirstLook:
        """Run a launch natively, and return whether the sanitizer would find nothing in it, and which program stopped it.

        If something might be found, memory is as it was before; if not, `unwritten` is updated. Arguments are as for
        `Kernel.sanitize`. apart: whether it is proven of launches of these sizes, whose arrays do not overlap, that no programs
        and no lanes race.
        """
        if self.obstacle is not None or arguments.listed or not 0 < _programs(extents) <= MAX_PROGRAMS:
            return UNKNOWN
        if undefined_arithmetic and self._arithmetic_obstacle is not None:
            return UNKNOWN
        if not self._keeps_promises(arguments.values):
            return UNKNOWN
        groups = shared_memory(arguments.spans, self._aliases.written)
        regions = self._regions(arguments, groups)
        if regions is None:
            return UNKNOWN
        looked_at = {group: _blank(region, arguments, unwritten) for group, region in regions.items()}
        blank = {group: found for group, found in looked_at.items() if found is not None}
        wraps = self._may_wrap(extents, arguments.values)
        is_apart = apart and not groups and not needs_barriers
        variant = self._variant(Plan(groups, frozenset(blank), wraps, needs_barriers, undefined_arithmetic, is_apart))
        if variant is None:
            return UNKNOWN

        def run(first: int | None) -> FirstLook:
            return self._run(variant, extents, arguments, regions, groups, blank, unwritten, first)

        found = run(None)
        if found.stopped is None:
            return found
        memory = [regions[number].memory for number in self._written_groups(groups) if number in regions]
        return replace(found, before=Before(run, found.stopped, [*memory, *unwritten.values()]))

    def _run(
        self,
        variant: _Variant,
        extents: tuple[int, int, int],
        arguments: HostArguments,
        regions: Mapping[int, _Region],
        groups: Groups,
        blank: Mapping[int, Array],
        unwritten: Mapping[int, Array],
        first: int | None,
    ) -> FirstLook:
        kept: dict[int, Array] = {}
        try:
            kept.update({number: regions[number].memory.copy() for number in self._written_groups(groups) if number in regions})
            with STAMPS.launch(_programs(extents)) as stamps:
                prepared = _Stamped(variant.instrumented, extents, arguments, regions, dict(groups), blank, stamps)
                native = variant.native.program(prepared.spans, prepared.values)
                native.run(self._name, prepared.values, extents, 1, arguments.reach(follows=False), first)
                for group in blank.keys() & prepared.given.keys():  # what no access reaches has no stamps
                    was = blank[group]
                    written = was & (prepared.given[group][: len(was)] != NOT_WRITTEN)
                    _mark_written(regions[group], arguments, unwritten, written)
        except BaseException as error:
            for number, before in kept.items():
                regions[number].memory[:] = before
            if isinstance(error, UnsupportedError):
                self._broken = str(error)
            if isinstance(error, UserError | UnsupportedError | MemoryError):
                return _stop(error, extents)
            raise
        return CLEAN

    def _written_groups(self, groups: Groups) -> frozenset[int]:
        group_of = dict(groups)
        return frozenset(group_of.get(parameter, parameter) for parameter in self._aliases.written)

    def _keeps_promises(self, values: Sequence[int]) -> bool:
        """Whether arguments are multiples of what the text says."""
        for number, value in enumerate(values):
            stated = parameter_attributes(self._function, number).get(DIVISIBILITY)
            if isinstance(stated, IntegerAttr) and stated.value.data > 1 and value % stated.value.data:
                return False
        return True

    def _regions(self, arguments: HostArguments, groups: Groups) -> dict[int, _Region] | None:
        """Group → its memory; None where elements of several sizes share memory, or lie at no multiple of their size."""
        group_of, sizes = dict(groups), self._sizes
        found: dict[int, _Region] = {}
        for number, first, end in arguments.spans:
            group, size = group_of.get(number, number), sizes[number]
            region = found.get(group)
            if region is None:
                region = _Region((number,), first, end, size)
            elif region.size != size:
                return None
            else:
                region = _Region((*region.parameters, number), min(region.first, first), max(region.end, end), size)
            found[group] = region
        for region in found.values():
            addresses = [region.first, *[arguments.values[number] for number in region.parameters]]
            if any(address % region.size for address in addresses):
                return None
        return found

    @functools.cached_property
    def _sizes(self) -> dict[int, int]:
        """Bytes of an element, by the position of the pointer."""
        parameters = enumerate(self._function.body.blocks[0].args)
        types = {number: t.value_type(each.type) for number, each in parameters if t.is_pointer(each.type)}
        return {number: max(1, t.bit_width(type_) // 8) for number, type_ in types.items()}

    def _may_wrap(self, extents: tuple[int, int, int], values: Sequence[int]) -> tuple[int, ...]:
        """The operations that may wrap around in a launch (`Offsets`)."""
        numbers = {
            number: values[number]
            for number, each in enumerate(self._function.body.blocks[0].args)
            if t.is_integer(each.type) and t.bit_width(each.type) > 1
        }
        key = (extents, *numbers.items())
        found = self._wraps.get(key)
        if found is None:
            if len(self._wraps) >= _MAX_RANGES:
                self._wraps.clear()
            x, y, z = [(each, each) for each in extents]
            known = {number: (value, value) for number, value in numbers.items()}
            found = self._wraps[key] = self._offsets.may_wrap(LaunchRanges((x, y, z), known))
        return found

    def _variant(self, plan: Plan) -> _Variant | None:
        with self._lock, default_modes():
            found = self._variants.get(plan)
            if found is None:
                try:
                    found = self._variants[plan] = self._made(plan)
                except UnsupportedError as error:
                    self._broken = str(error)
        return found

    def _made(self, plan: Plan) -> _Variant:
        instrumented = instrument(copy_function(self._function), plan)
        function = instrumented.function
        written = AliasAnalysis(function).written
        facts = LaunchFacts(self._name, written, False, 0, checked=True)

        def compiled(specialization: LaunchSpecialization) -> HostObject:
            details = f"{plan.groups} {sorted(plan.unwritten)} {plan.wraps} {plan.needs_barriers} {plan.undefined_arithmetic}"
            details += f" {plan.apart} {specialization}"
            key = f"sanitizer {self._identity} {details}"
            kept = None if self._store is None else self._store.get_bytes(key)
            if kept is not None:
                with suppress(UserError):  # a damaged entry is made anew
                    return decode_object(kept)
            with default_modes():
                lowered = self._lowered(function, specialization)
                found = HostObject(lowered.object_code(), lowered.sites, lowered.shared)
            if self._store is not None:
                self._store.put_bytes(key, encode_object(found))
            return found

        return _Variant(instrumented, NativeKernel(facts, compiled, self._store))


def _stop(error: Exception, extents: tuple[int, int, int]) -> FirstLook:
    program = error.program if isinstance(error, AccessError | KernelAssertionError) else None
    if program is None:
        return UNKNOWN
    x, y, z = program
    return FirstLook(False, x + extents[0] * (y + extents[1] * z))


class _Stamped:
    """The arguments of an instrumented launch.

    values: what the code reads, behind the arguments' own values.  spans: of all arrays.  given: group → its stamps.
    """

    def __init__(
        self, instrumented: Instrumented, extents: tuple[int, int, int], arguments: HostArguments,
        regions: Mapping[int, _Region], group_of: Mapping[int, int], blank: Mapping[int, Array], stamps: LaunchStamps,
    ) -> None:  # fmt: skip
        self.values, self.spans = [*arguments.values, stamps.floor], list(arguments.spans)
        self.given: dict[int, Array] = {}
        if instrumented.epochs:
            self._epochs = np.zeros(_programs(extents), np.int32)
            self._add(self._epochs, 0)
        for parameter in instrumented.stamps:
            group = group_of.get(parameter, parameter)
            region = regions[group]
            if group not in self.given:
                self.given[group] = stamps.take(2 * region.elements)
                if group in blank:
                    self.given[group][: len(blank[group])] = np.where(blank[group], NOT_WRITTEN, 0)
            self._add(self.given[group], (arguments.values[parameter] - region.first) // region.size * 8)
            if parameter in instrumented.readers:
                self.values.append(region.elements)

    def _add(self, array: Array, offset: int) -> None:
        first = array.ctypes.data
        self.spans.append((len(self.values), first, first + array.nbytes))
        self.values.append(first + offset)


def _programs(extents: tuple[int, int, int]) -> int:
    x, y, z = extents
    return x * y * z


def _blank(region: _Region, arguments: HostArguments, unwritten: Mapping[int, Array]) -> Array | None:
    """Which elements of a region nothing has written, in part at least; None if there are none."""
    found: Array | None = None
    for number, first, end in arguments.spans:
        known = unwritten.get(first) if number in region.parameters and end > first else None
        if known is None or not known.any():
            continue
        if found is None:
            found = np.zeros(region.elements * region.size, np.bool_)
        found[first - region.first : end - region.first] |= known
    return None if found is None else np.asarray(found.reshape(-1, region.size).any(axis=1))


def _mark_written(region: _Region, arguments: HostArguments, unwritten: Mapping[int, Array], written: Array) -> None:
    bytes_ = np.repeat(written, region.size)
    for number, first, end in arguments.spans:
        known = unwritten.get(first) if number in region.parameters and end > first else None
        if known is not None:
            known &= ~bytes_[first - region.first : end - region.first]


__all__ = ["NativeSanitizer"]
