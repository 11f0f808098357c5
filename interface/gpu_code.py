"""Compiles block kernels to PTX, and launches it in the simulator."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from ..lowering.artifact import KernelCode, TensorMap
from ..lowering.gpu_stages import kernel_code
from ..lowering.llvm.compile_ptx import compile_ptx
from ..lowering.llvm.nvptx.analysis.known_non_negative import Dividends
from ..lowering.llvm.nvptx.gpu_kernel import GpuKernel
from ..lowering.llvm.nvptx.kernel import lower_to_threads
from ..lowering.llvm.nvptx.passes.mark_few_pointers import MarkFewPointers
from ..lowering.llvm.nvptx.passes.non_negative_dividends import NonNegativeDividends
from ..lowering.llvm.nvptx.targets import DEFAULT_WARPS, WARPS, GpuTarget, gpu_target
from ..lowering.tt.analysis.alias_sets import AliasSet
from ..lowering.tt.analysis.aliasing import converts_addresses
from ..lowering.tt.analysis.hoistable_descriptors import hoistable_descriptors, makes_descriptors
from ..lowering.tt.arguments import Parameter
from ..lowering.tt.dialect.functions import FuncOp
from ..lowering.tt.dialect.memory.descriptor_types import TensorDescType
from ..lowering.tt.host_values import DescriptorArgument, TableArgument
from ..lowering.tt.source_locations import calls_to
from ..lowering.tt.transforms.expand.expand_descriptors import ExpandDescriptors
from ..lowering.tt.transforms.expand.expand_library import ExpandLibrary
from ..lowering.tt.transforms.facts.assume_divisibility import AssumeDivisibility
from ..lowering.tt.transforms.function_pass import FunctionPass
from ..lowering.tt.transforms.pipeline import FunctionStages, Pipeline, pipeline_of
from ..lowering.tt.transforms.pipelines import FIRST_FOR_THREADS, NVPTX
from ..promotion.arrays import PointerArgument
from ..promotion.dataclass import dataclass
from ..promotion.errors import InternalError, KernelAssertionError, UnsupportedError, UserError
from ..runtime.gpu import GpuDevice, LoadedKernel
from ..runtime.ptxsim.async_copies.tensor_maps import TensorMap as SimulatedMap
from ..runtime.ptxsim.checks.findings import Finding as PtxFinding
from ..runtime.ptxsim.checks.findings import PtxCheckError
from ..runtime.ptxsim.launch import Kernel as SimulatedKernel
from ..runtime.ptxsim.launch import Module, Result
from ..runtime.storage.cache import CompileCache
from .argument_packing import ArgumentPacker
from .device_library import check_calls, current_libdevice, linked_functions
from .gpu_descriptors import Descriptors, MappedTensor, width_of

_Passes = tuple[tuple[int, ...], tuple[int, ...], str, str]
_Key = tuple[str, int, tuple[tuple[int, int], ...], tuple[int, ...], str, tuple[int, ...], bool, bool]


class GpuRequest(NamedTuple):
    """What the code for a launch is compiled for: the arguments of `GpuKernelCompiler.code`, which has their meaning."""

    target: str
    warps: int
    multiples: tuple[tuple[int, int], ...]
    mapped: tuple[int, ...] | None
    launch: tuple[tuple[int, int, int], Sequence[Any]] | str


@dataclass(frozen=True, slots=True, eq=False)
class GpuCode:
    """A lowered kernel and its PTX.

    Attributes:
        mapped: the numbers of the descriptors that its tensor maps are made of.
        pipeline: the passes that the kernel went through.
        reports: whether it may print or assert.
    """

    lowered: GpuKernel
    ptx: str
    pipeline: Pipeline
    mapped: tuple[int, ...]
    reports: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reports", "vprintf" in self.ptx or "__assertfail" in self.ptx)

    @property
    def kernel(self) -> KernelCode:
        """The parts of it that a device needs."""
        return kernel_code(self.lowered, self.ptx)


GpuEntry = tuple[_Key, GpuCode]
"""Code, and what it is found by."""


class _Prepared:
    """A function after the passes that do not depend on numbers of threads and arguments.

    Attributes:
        linked: the library functions that it calls → their code.
        pipeline, rest: the passes that it went through, and those that follow.
    """

    def __init__(self, function: FuncOp, linked: dict[str, str], pipeline: Pipeline, rest: Pipeline) -> None:
        self.function = function
        self.linked = linked
        self.pipeline = pipeline
        self.rest = rest

    @functools.cached_property
    def dividends(self) -> Dividends:
        return Dividends(self.function)


class GpuKernelCompiler:
    """Compiles one block function for each target that is asked for, and keeps the code."""

    def __init__(
        self,
        stages: FunctionStages,
        numerics: str,
        parameters: Sequence[Parameter],
        written: Callable[[], AliasSet],
        symbols: Callable[[], Sequence[str]],
        store: CompileCache | None,
        debug: bool = False,
    ) -> None:
        """Take the kernel to compile.

        Args:
            stages: those of the kernel's function.
            written: the alias set, after the passes, that the kernel writes.
            symbols: the functions of libdevice that the text names.
            store: where functions taken out of libdevice are kept.
            debug: whether PTX says which lines its instructions come from.
        """
        self._stages = stages
        self._pipeline = pipeline_of(NVPTX, numerics)
        self._parameters = parameters
        self._written = written
        self._named = symbols
        self._store = store
        self._debug = debug
        self._codes: dict[_Key, GpuCode] = {}
        self._prepared: dict[_Passes, _Prepared] = {}
        self._loaded: dict[tuple[str, GpuCode], LoadedKernel] = {}
        self._simulated: dict[GpuCode, SimulatedKernel] = {}
        self._lock = threading.Lock()

    @functools.cached_property
    def descriptors(self) -> Descriptors:
        """The descriptors of the parameters, and those that the kernel creates and a launch could create."""
        if not makes_descriptors(self._stages.start):
            return Descriptors(self._parameters, ())
        before, _ = self._pipeline.split("expand-descriptors")
        return Descriptors(self._parameters, tuple(hoistable_descriptors(self._stages.after(before))))

    @functools.cached_property
    def _symbols(self) -> Sequence[str]:
        return self._named()

    @functools.cached_property
    def _makes_numbers_of_addresses(self) -> bool:
        """Whether the kernel makes numbers of addresses, or addresses of numbers, itself or in memory."""
        start = self._stages.start
        return any(map(converts_addresses, (start.parent_op() or start).walk()))

    def may_fit(self, has_tensor_copies: bool) -> bool:
        """Return whether the code depends on which tensors fit a tensor map.

        Without tensor copies only those of parameters matter, and what the kernel makes need not be looked
        for.
        """
        has_descriptors = has_tensor_copies or any(isinstance(each.type, TensorDescType) for each in self._parameters)
        return has_descriptors and bool(self.descriptors.mappable)

    def fitting(
        self, supplied: Sequence[tuple[Parameter, Any]], arguments: Sequence[Any], has_tensor_copies: bool
    ) -> dict[int, MappedTensor]:
        """Return what `Descriptors.fitting` returns; without tensor copies only tensors padded with zeros."""
        found = self.descriptors.fitting(supplied, arguments, self._written)
        return {number: each for number, each in found.items() if has_tensor_copies or not each.sizes.pads_with_nan}

    def loaded(self, device: GpuDevice, code: GpuCode) -> LoadedKernel:
        """Return the code on a device, where it stays as long as this object lives."""
        found = self._loaded.get((device.name, code))
        if found is None or found.device is not device:
            # Not under the lock: a thread that records launches has the device, and may wait for the lock.
            found = self._loaded[device.name, code] = device.load(code.kernel)
        return found

    def code(
        self,
        target: str,
        warps: int = DEFAULT_WARPS,
        multiples: tuple[tuple[int, int], ...] = (),
        mapped: tuple[int, ...] | None = None,
        launch: tuple[tuple[int, int, int], Sequence[Any]] | str = "any",
        lines: bool = False,
    ) -> GpuCode:
        """Return PTX for a target.

        Library functions are called where there is a libdevice (see `runtime.toolchain.libdevice`), else
        joinery's own.

        Args:
            multiples: (parameter after the passes, what its address or value is a multiple of), see
                `gpu_descriptors.WIDTHS`. In a launch nothing else is known of them, whatever the text says.
            mapped: numbers of descriptors of tensors that fit a tensor map; None: all descriptors. On targets
                without tensor copies they allow wide accesses: last strides are 1, the others and addresses
                multiples of 16 bytes.
            launch: the grid and the values of the parameters after the passes, which decide whether numbers
                wrap; "any" launch, or an "easy" one, in which all dividends that can be non-negative are.
            lines: whether the text says which lines its instructions come from, also without `debug`. The instructions are
                the same.

        Raises `UserError` for a libdevice that cannot be used, `UnsupportedError` for functions that only
        libdevice has.
        """
        return self._entry(GpuRequest(target, warps, multiples, mapped, launch), lines)[1]

    def entry(self, request: GpuRequest) -> GpuEntry:
        """Return the code for a launch in a form that the compiler of an equal kernel, in another process, can `keep`."""
        return self._entry(request, False)

    def keep(self, entry: GpuEntry) -> None:
        """Take code that the compiler of an equal kernel made, in place of compiling it."""
        with self._lock:
            self._codes.setdefault(*entry)

    def _entry(self, request: GpuRequest, lines: bool) -> GpuEntry:
        target, warps, multiples, mapped, launch = request
        resolved = gpu_target(target)
        if warps not in WARPS:
            raise UserError(f"{warps} warps for a program; fix: one of {', '.join(map(str, WARPS))}")
        fitting, along = self._mapped_descriptors(resolved, mapped)
        library = current_libdevice() if self._symbols else None
        digest = "" if library is None else library.digest
        with self._lock:
            passes = (*fitting,), (*along,), digest, target if library is not None else ""  # linked code differs by target
            if passes not in self._prepared:
                linked = linked_functions(self._symbols, library, resolved, self._store)
                self._prepared[passes] = self._prepare(linked, fitting, (*along,))
                check_calls(self._prepared[passes].function, linked, library)
            prepared = self._prepared[passes]
            if isinstance(launch, str):
                non_negative = () if launch == "any" else prepared.dividends.possible
            else:
                non_negative = prepared.dividends.at(*launch)
            is_launched = not isinstance(launch, str)
            has_lines = lines or self._debug
            key = (target, warps, multiples, (*fitting, *along), digest, non_negative, is_launched, has_lines)
            if key not in self._codes:
                passed = (_divisors(multiples, along, is_launched), NonNegativeDividends(non_negative), MarkFewPointers(warps))
                own = prepared.rest.configured(*passed)
                lowered = lower_to_threads(own.run_on_copy(prepared.function), resolved, warps, has_lines)
                numbers = tuple([self.descriptors.number_of(each.source, fitting) for each in lowered.tensor_maps])
                ptx = compile_ptx(lowered.llvm_ir, resolved, {name: prepared.linked[name] for name in lowered.functions})
                self._codes[key] = GpuCode(lowered, ptx, prepared.pipeline + own, numbers)
            return key, self._codes[key]

    def pipeline(self, target: str, through: str | None = None) -> Pipeline:
        """Return the passes of `code(target)`, with their options; as far as the one of the name `through`.

        The kernel is not lowered. Only to number the descriptors that it makes does it go through passes, those before
        `expand-descriptors`: where one of them raises, what comes before is still to be had.
        """
        resolved = gpu_target(target)
        found = self._pipeline if through is None else self._pipeline.through(through)
        options: list[FunctionPass] = []
        if ExpandLibrary.name in found.names:
            library = current_libdevice() if self._symbols else None
            options.append(ExpandLibrary((*linked_functions(self._symbols, library, resolved, self._store),)))
        if ExpandDescriptors.name in found.names:
            fitting, along = self._mapped_descriptors(resolved, None)
            options += [ExpandDescriptors((*fitting,), (*along,)), _divisors((), along, False)]
        return found.configured(*[each for each in options if each.name in found.names])

    def _mapped_descriptors(
        self, target: GpuTarget, mapped: tuple[int, ...] | None
    ) -> tuple[list[int], dict[int, Mapping[int, int]]]:
        """Return the descriptors that become tensor maps, and those whose strides are known to be regular.

        The latter have the numbers of parameters → what divides these (`Descriptors.regular`).
        """
        fitting: list[int] = []
        if mapped != ():
            fitting = [number for number in self.descriptors.mappable if mapped is None or number in mapped]
        if target.has_tensor_copies:
            return fitting, {}
        return [], {number: self.descriptors.regular(number) for number in fitting}  # they are pointers there

    def code_through(self, pipeline: Pipeline, target: str, warps: int = DEFAULT_WARPS) -> GpuCode:
        """Return PTX of the function after another pipeline than the target's own.

        Raises what `code` raises.
        """
        resolved = gpu_target(target)
        library = current_libdevice() if self._symbols else None
        linked = linked_functions(self._symbols, library, resolved, self._store)
        function = self._stages.after(pipeline)
        check_calls(function, linked, library)
        lowered = lower_to_threads(function, resolved, warps, self._debug)
        ptx = compile_ptx(lowered.llvm_ir, resolved, {name: linked[name] for name in lowered.functions})
        return GpuCode(lowered, ptx, pipeline, ())

    def _prepare(self, linked: dict[str, str], keep: Sequence[int], along: Sequence[int]) -> _Prepared:
        pipeline = self._pipeline.configured(ExpandLibrary((*linked,)), ExpandDescriptors((*keep,), (*along,)))
        shared, rest = pipeline.split(FIRST_FOR_THREADS)
        function = self._stages.after(shared)
        return _Prepared(function, linked, shared, rest)

    def simulate(
        self,
        grid: tuple[int, int, int],
        supplied: Sequence[tuple[Parameter, Any]],
        target: str,
        level: int,
        warps: int = DEFAULT_WARPS,
    ) -> Result | None:
        """Run the PTX on arrays in the simulator; return None for an empty grid.

        What the kernel prints goes to `sys.stdout`. `warps` is that of `code`, `level` how much the simulator
        checks. Raises `KernelAssertionError` for assertions of the kernel that fail, `PtxCheckError` for
        broken rules of PTX, `UserError` for arguments that do not fit.
        """
        arguments = SimulatedArguments()
        for parameter, arg in supplied:
            arguments.add(parameter, arg)
        values = arguments.values
        if 0 in grid:
            return None
        mapped: tuple[int, ...] = ()
        has_tensor_copies = gpu_target(target).has_tensor_copies
        if self.may_fit(has_tensor_copies):
            mapped = tuple(self.fitting(supplied, values, has_tensor_copies))
        at_host = self._makes_numbers_of_addresses
        multiples = tuple([(i, width) for i, value in enumerate(values) if (width := width_of(value, at_host)) > 1])
        code = self.code(target, warps, multiples, mapped, (grid, values), lines=True)
        maps = code.lowered.tensor_maps
        given = [*arguments.given, *(simulated_map(each, values) for each in maps)]
        names = [*arguments.names, *(arguments.names[each.parameter] for each in maps)]
        kernel = self._simulated.get(code)
        if kernel is None:
            kernel = self._simulated[code] = Module(code.ptx).kernel(code.lowered.symbol)
        try:
            result = kernel.launch(
                grid, None, given, shared=code.lowered.shared_bytes, level=level, names=names, host_addresses=at_host
            )
        except PtxCheckError as error:
            sys.stdout.write(error.printed)
            error.ptx = code.ptx
            failed = _failed_assertion(error.findings[0], code.lowered)
            if failed is not None:
                raise failed from error
            called = self._with_calls(error)
            if called is None:
                raise
            raise called from None
        sys.stdout.write(result.printed)
        return result

    def _with_calls(self, error: PtxCheckError) -> PtxCheckError | None:
        """Return the error with the calls that led to its lines, which PTX does not have; None if there are none."""
        start = self._stages.start
        findings = [
            each if each.source is None else replace(each, callers=calls_to(start, each.source)) for each in error.findings
        ]
        if not any(each.callers for each in findings):
            return None
        found = PtxCheckError(findings)
        found.printed, found.ptx = error.printed, error.ptx
        return found


def _divisors(
    multiples: tuple[tuple[int, int], ...], along: Mapping[int, Mapping[int, int]], only: bool
) -> AssumeDivisibility:
    """Return the pass that states what divides parameters, and what regular strides of descriptors are multiples of."""
    divisors = dict(multiples)
    for argument, least in [fact for each in along.values() for fact in each.items()]:
        divisors[argument] = max(least, divisors.get(argument, 1))  # powers of two
    return AssumeDivisibility((*divisors,), (*divisors.values(),), only)


def _failed_assertion(finding: PtxFinding, lowered: GpuKernel) -> KernelAssertionError | None:
    """Return the error for the kernel's own assertion behind a finding; None if there is none."""
    what = lowered.assertions.get(finding.message) if finding.kind == "assert" else None
    if what is None:
        return None
    lane = tuple(int(i) for i in np.unravel_index(what.first + finding.lanes[0], what.shape)) if what.shape else ()
    return KernelAssertionError.of(what.message, what.location, finding.cta, lane)


def simulated_map(facts: TensorMap, values: Sequence[Any]) -> SimulatedMap:
    """Return a parameter's tensor map for the simulator, from the values of parameters before the maps."""
    sizes = facts.source.sizes(values)
    if sizes is None:
        raise InternalError("a launch whose tensor does not fit a map got code that takes one")
    return SimulatedMap.of(facts, values[facts.parameter], sizes.extents, sizes.strides, sizes.pads_with_nan)


class SimulatedArguments(ArgumentPacker):
    """Packs the arguments of a launch as `ptxsim` takes them: arrays, lists of arrays, numbers.

    Attributes:
        values: the arguments by what code is chosen; of a pointer into memory, the bytes from it on.
        pointers: position → the pointers into memory, and None for null pointers.
        names: of the parameters that the arguments belong to.
    """

    __slots__ = ("names", "pointers", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.pointers: dict[int, PointerArgument | None] = {}
        self.names: list[str] = []

    @property
    def given(self) -> list[Any]:
        """The arguments as the simulator takes them."""
        return [self.pointers.get(position, value) for position, value in enumerate(self.values)]

    def add(self, parameter: Parameter, arg: object) -> None:
        super().add(parameter, arg)
        self.names += [parameter.name] * (len(self.values) - len(self.names))

    def add_memory(self, parameter: Parameter, arg: object) -> None:
        if isinstance(arg, PointerArgument):
            self.pointers[len(self.values)] = arg
            self.values.append(arg.behind)
        else:
            self.values.append(parameter.array(arg))

    def add_null(self) -> None:
        self.pointers[len(self.values)] = None
        self.values.append(0)

    def add_descriptor_address(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        self.values.append(descriptor.array)

    def add_map(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        raise no_maps_in_memory(parameter)

    def add_table(self, parameter: Parameter, table: TableArgument) -> None:
        self.values.append(table.arrays)

    def add_integer(self, number: int) -> None:
        self.values.append(number)

    def add_scalar(self, value: np.generic) -> None:
        self.values.append(int(value) if value.dtype.kind in "biu" else value)


def no_maps_in_memory(parameter: Parameter) -> UnsupportedError:
    return UnsupportedError(f"{parameter.what}: tensor maps on a GPU are not part of this version; fix: device='cpu'")
