"""Reads block kernels from text in the tt dialect, shows their code, interprets them, and runs them.

    k = joinery.interface.kernel.from_ttir("softmax.ttir")
    k.launch((rows,), x, out, columns)      # arrays are written in place
    k.interpret((rows,), x, out, columns)   # the same, by the NumPy interpreter that defines the dialect
    print(k.ttir, k.llvm_ir("host"), k.asm("host"))
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..lowering.llvm.compile import host_target
from ..lowering.llvm.host.launch_specialization import GENERIC, LaunchSpecialization
from ..lowering.llvm.host.launcher import HostKernel, lower_for_launch
from ..lowering.llvm.nvptx.targets import DEFAULT_TARGET, DEFAULT_WARPS, gpu_target, is_host
from ..lowering.numerics import checked_numerics
from ..lowering.tt.analysis.alias_sets import AliasSet
from ..lowering.tt.analysis.aliasing import AliasAnalysis
from ..lowering.tt.arguments import Parameter, grid_extents, parameters_of, supplied
from ..lowering.tt.dialect.functions import FuncOp
from ..lowering.tt.instrument.bounds import check_bounds
from ..lowering.tt.interpret.interpreter import interpret
from ..lowering.tt.interpret.machine import find_function
from ..lowering.tt.interpret.trace import Step
from ..lowering.tt.printing import print_module
from ..lowering.tt.sanitize.findings import Finding, Report, SanitizerError
from ..lowering.tt.sanitize.sanitizer import sanitize
from ..lowering.tt.transforms.pipeline import FunctionStages, Pipeline, copy_function, pipeline_of
from ..lowering.tt.transforms.pipelines import HOST, TILED
from ..promotion.arrays import Array
from ..promotion.errors import UnsupportedError, UserError
from ..promotion.float_modes import default_modes
from ..runtime.host.threads import launch_threads
from ..runtime.storage.cache import CacheOption, CompileCache, cache_of
from .argument_packing import plain_sizes
from .native.arguments import HostArguments
from .native.array_launches import ArrayLaunches
from .native.code import decode_native
from .native.facts import launch_facts
from .native.host_program import HostObject
from .native.kernel import LaunchFacts, NativeKernel
from .native.looks import UNKNOWN, FirstLook
from .proving.provable import Provable
from .texts import KernelText, MakeArguments, triton_c_text, ttir_text
from .tuning.tuned import TunedKernel, Tuner

if TYPE_CHECKING:  # the modules for GPUs take as long to load as all others, and load on first use
    from .cuda_launching import CudaLaunches
    from .gpu_code import GpuCode, GpuEntry, GpuKernelCompiler, GpuRequest
    from .native.sanitizer import NativeSanitizer


class Kernel(Provable):
    """One block function of a module. Make one with `from_ttir` or `from_triton_c`.

    Attributes:
        name: the function's name.
        numerics: "strict", "fast" or "reproducible", see `from_ttir`.
        debug: whether its code has line tables.
    """

    def __init__(
        self, source: KernelText, name: str | None, store: CompileCache | None = None, numerics: str = "strict",
        debug: bool = False,
    ) -> None:
        """Read a module and find the function. `source`: what it is made of; the others are those of `from_ttir`."""
        self._source = source
        self._store = store
        self.numerics: str = numerics
        self.debug = debug
        with default_modes():
            module = source.module()
        function = find_function(module, name)
        self.name: str = function.sym_name.data
        if function.body.blocks:
            self.parameters = parameters_of(function)
        self._module = module
        self._function = function
        self._stages = FunctionStages(function)
        self._host: dict[LaunchSpecialization, HostKernel] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Kernel {self.name!r}: {len(self.parameters)} parameters>"

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Kernel:
        return self

    def __reduce__(self) -> tuple[type[Kernel], tuple[object, ...]]:
        return Kernel, (self._source, self.name, self._store, self.numerics, self.debug)  # its code is made anew

    @functools.cached_property
    def _arguments(self) -> MakeArguments:
        """What makes the arguments of the block function, found once: hashing a text takes a part of a launch."""
        return self._source.launcher(lambda: self.constants)

    @functools.cached_property
    def constants(self) -> Mapping[str, Array]:
        """The constant memory of a text in Triton-C, by name: launches read it, and the host fills in what has no values."""
        return self._source.constants()

    @functools.cached_property
    def _written(self) -> AliasSet:
        """The alias set that the kernel may write."""
        return AliasAnalysis(self._prepared()).written

    @functools.cached_property
    def _defining_module(self) -> Any:
        """The module that the interpreter runs: the text, with sums in the order that `numerics` asks for."""
        if self.numerics != "reproducible":
            return self._module
        module = self._module.clone()
        for function in [op for op in module.body.block.ops if isinstance(op, FuncOp)]:
            Pipeline.parse(TILED[self.numerics]).run(function)
        return module

    @functools.cached_property
    def ttir(self) -> str:
        """The module as text, with the lines that it names."""
        return print_module(self._module, locations=True)

    def text(self, spelling: str = "3.9", locations: bool = True) -> str:
        """Return the module as text: `ttir`, or with `spelling="seed"` in the spelling of Triton 3.3.

        locations: whether to add the lines that operations come from, `loc("kernel.py":12:8)`, as far as the
        module names any.
        """
        return print_module(self._module, locations, spelling)

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of a launch, in order. Raises `UserError` for a declaration."""
        return parameters_of(find_function(self._module, self.name))

    def interpret(self, grid: int | Sequence[int], *args: Any, trace: Callable[[Step], object] | None = None) -> None:
        """Run all programs with NumPy, one after the other: slow, and the definition of what the kernel does.

        Args:
            grid: number of programs, or one number per axis x, y, z.
            args: one per parameter: C-contiguous arrays for pointers, written in place, or None: a null pointer; numbers; a
                `TensorDescriptor` for a descriptor and the sizes behind it; a `PointerTable` for a pointer to addresses; for a
                struct of Triton-C a mapping, a tuple or a structured scalar of NumPy, or its members one after the other.
            trace: called after every operation with a `Step`: where it is, its operands and results. An exception
                ends the run.

        What the kernel prints (`tt.print`) goes to `sys.stdout`.

        Raises `UserError` for arguments that do not fit, `AccessError` (with program and operation) for accesses outside the
        arrays, `KernelAssertionError` for assertions of the kernel that fail, `UnsupportedError` for operations the interpreter
        does not know.
        """
        args = self._arguments(grid, args)
        with default_modes():
            interpret(self._defining_module, grid, args, self.name, trace)

    def sanitize(
        self, grid: int | Sequence[int], *args: Any, unwritten: Mapping[int, Array] | None = None, needs_barriers: bool = False,
        undefined_arithmetic: bool = False, notes: bool = True, proofs: bool = False,
    ) -> Report:  # fmt: skip
        """Run all programs under the sanitizer, with the arguments of `interpret`.

        Every lane of every access is checked, undefined values and wrapped offsets are followed, and races
        between programs are found. Faulty lanes are reported and left out, the others are carried out. Raises
        `UserError` for arguments that do not fit, `UnsupportedError` for operations the interpreter does not
        know; what the programs do wrong is in the report.

        Args:
            unwritten: which bytes of an array nothing has written yet (bool), by the address of its memory. What programs load
                from there is undefined; what they write is marked as written. Arrays without an entry count as written.
            needs_barriers: whether a lane that loads what another lane of its program stored needs a barrier between, as in
                Triton's own code for GPUs. joinery's keeps the operations of a program in order by itself.
            undefined_arithmetic: whether integer divisions by zero and shifts by the width or more leave lanes undefined, as in
                Triton's own code. joinery's has results there.
            notes: whether the report says which accesses only their mask keeps inside the arrays. Without it, the launch is
                run natively first, by code that stops where a finding is possible; only then is it undone and looked at. That
                takes a small part of the time of a launch that has no findings. `sanitizer_obstacle` says why it is not done.
                Of more than 64 programs, some do not run when something is found in others (`Report.looked_at`).
            proofs: without `notes`, whether races are not watched natively where none is proven possible at the sizes of the
                call (`prove`). The first call of these sizes waits for the proof. Needs z3.
        """
        args = self._arguments(grid, args)
        look = None
        if not notes:
            apart = proofs and self.prove.holds_at(grid, args)
            look = self._first_look(grid, args, unwritten or {}, needs_barriers, undefined_arithmetic, apart)
        if look is not None and look.is_clean:
            return Report(())
        facts = (self.name, unwritten, needs_barriers, undefined_arithmetic)
        with default_modes():
            found = functools.partial(sanitize, self._defining_module, grid, args, *facts)
            return found() if look is None else look.second(found)

    @property
    def sanitizer_obstacle(self) -> str | None:
        """What keeps sanitized launches of this kernel from being run natively first, with its line; None if they are."""
        return self._native_sanitizer.obstacle

    @functools.cached_property
    def _native_sanitizer(self) -> NativeSanitizer:
        from .native.sanitizer import PREPARATION, NativeSanitizer

        def lowered(function: FuncOp, specialization: LaunchSpecialization) -> HostKernel:
            pipeline_of(HOST, self.numerics).run(function)
            return self._lower(function, specialization)

        identity = f"{self.name} {self.numerics} {self.debug} {self._source!r}"
        return NativeSanitizer(
            self.name, lambda: self._stages.after(Pipeline.parse(PREPARATION)), lowered, identity, self._store
        )

    def _first_look(
        self, grid: int | Sequence[int], args: Sequence[Any], unwritten: Mapping[int, Array], needs_barriers: bool,
        undefined_arithmetic: bool = False, apart: bool = False,
    ) -> FirstLook:  # fmt: skip
        """Run a launch natively, and return whether the sanitizer would find nothing; if it might, undo it."""
        extents = grid_extents(grid)
        if self._native_sanitizer.obstacle is not None:
            return UNKNOWN
        try:
            arguments = self._kernel_arguments(args)
        except UserError:
            return UNKNOWN  # the sanitizer says what is wrong with them
        return self._native_sanitizer.look(extents, arguments, unwritten, needs_barriers, undefined_arithmetic, apart)

    def launch(
        self, grid: int | Sequence[int], *args: Any, device: str = "cpu", target: str | None = None,
        sanitize: bool | str = False, threads: int | None = None, warps: int = DEFAULT_WARPS, check_bounds: bool = False,
    ) -> None:  # fmt: skip
        """Run all programs of the grid, natively; the kernel is compiled at the first launch.

        Args:
            grid: number of programs, or one number per axis x, y, z.
            args: as for `interpret`.
            device: "cpu"; "cuda" or "cuda:1": the GPU of that number; "auto": "cuda" if there is one, else "cpu"; "ptxsim":
                the kernel's PTX, interpreted and checked; broken rules raise `PtxCheckError`.
            target: with "ptxsim" the GPU that the PTX is made for; "sm_80" by default.
            sanitize: run under the sanitizer instead (see `sanitize`), and raise `SanitizerError` if it finds something;
                "prove": with `proofs`.
            threads: threads of the CPU to use; None for the default.
            warps: on a GPU, how many warps of 32 threads run one program, a power of two up to 32; 4 by default.
            check_bounds: run code for the CPU that compares every access with the array that it may reach. One outside of it
                stops the launch, before memory is touched, with an `AccessError`: line, program, array and element.

        On a GPU, arrays are copied there and back; a `joinery.Buffer`, or an array of another library in the GPU's memory
        (`__dlpack__`, `__cuda_array_interface__`), is used in place. With nothing but buffers made here the launch returns
        before the kernel is done, and reading one waits for it.

        What the kernel prints (`tt.print`) goes to `sys.stdout`; on a GPU, to the standard output of the process.

        Without `sanitize` and `check_bounds` nothing checks that masks keep accesses inside the arrays.

        Raises `AccessError` for accesses that `check_bounds` finds, `UserError` for arguments that do
        not fit, `KernelAssertionError` for assertions of the kernel that fail, `UnsupportedError` for operations, devices and
        options this version does not have, `DeviceError` for a GPU that is not there or fails.
        """
        args = self._arguments(grid, args)
        is_native = device == "cpu" and target is None and not sanitize
        if is_native and self._launches[bool(check_bounds)].launch(grid, args, threads):
            return
        with default_modes(), self._source.naming_types():  # this thread rounds constants, and computes for simulated GPUs
            self._launch(grid_extents(grid), args, device, target, sanitize, threads, warps, check_bounds)

    def _launch(
        self, extents: tuple[int, int, int], args: Sequence[Any], device: str, target: str | None, sanitize: bool | str,
        threads: int | None, warps: int, check_bounds: bool,
    ) -> None:  # fmt: skip
        if sanitize not in (True, False, "prove"):
            raise UserError(f"launch: sanitize={sanitize!r}; fix: True, False or 'prove'")
        if device == "auto":
            from ..runtime.cuda.current import why_unavailable

            device = "cpu" if sanitize or check_bounds or why_unavailable() is not None else "cuda"
        if check_bounds and device != "cpu":
            message = f"launch: check_bounds=True with device={device!r}"
            raise UnsupportedError(f"{message}; fix: device='cpu', or leave out; device='ptxsim' checks all memory anyway")
        if isinstance(device, str) and device.split(":")[0] == "cuda":
            from ..runtime.cuda.device import cuda_device

            gpu = cuda_device(device)  # without one nothing is compiled
            self.on_cuda.launch(gpu, extents, args, target, bool(sanitize), warps)
            return
        if device == "ptxsim":
            given = supplied(self.name, self.parameters, args)
            self._gpu.simulate(extents, given, target or DEFAULT_TARGET, 3 if sanitize else 1, warps)
            return
        if device != "cpu" or target is not None:
            raise UnsupportedError(
                f"launch: device {device!r}, target {target!r}; this version launches on device='cpu' and 'cuda' without a "
                "target, and on device='ptxsim'"
            )
        if sanitize:
            report = self.sanitize(extents, *args, notes=False, proofs=sanitize == "prove")
            if report.findings:
                raise SanitizerError(self.name, report)
            return
        if not check_bounds:
            self._source.refuse_null(args)
        arguments = self._kernel_arguments(args)
        native = self.checked_native if check_bounds else self.native
        reach = arguments.reach(native.facts.follows) if check_bounds else None
        values = arguments.values
        native.program(arguments.spans, values).run(self.name, values, extents, launch_threads(threads), reach)

    @functools.cached_property
    def _launches(self) -> tuple[ArrayLaunches, ArrayLaunches]:
        """Launches with plain arguments, and those that compare accesses with the arrays."""
        make = functools.partial(ArrayLaunches, self.name, self.parameters, self._sizes)
        return make(lambda: self.native), make(lambda: self.checked_native)

    @functools.cached_property
    def on_cuda(self) -> CudaLaunches:
        """Launches of this kernel on CUDA devices."""
        from .cuda_launching import CudaLaunches

        return CudaLaunches(self._gpu, self.name, self.parameters, self._arguments, self._sizes, self._written)

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes that the text goes through on its way to native code for the CPU, in order.

        A second pass of the same name has #2 appended.
        """
        return pipeline_of(HOST, self.numerics).names

    def pipeline(self, target: str = HOST) -> str:
        """Return the passes for a target, with their options, as text; the kernel is not compiled.

        The target is "host", or a GPU such as "sm_80" (as `ptx` makes code).
        """
        return str(self._pipeline(target))

    def _pipeline(self, target: str, through: str | None = None) -> Pipeline:
        """Return the passes for a target, as far as the one of the name `through`."""
        if not is_host(target):
            with default_modes():
                return self._gpu.pipeline(target, through)
        found = pipeline_of(HOST, self.numerics)
        return found if through is None else found.through(through)

    def ttir_after(self, name: str, target: str = HOST) -> str:
        """Return the function as text after the pass of this name on the way to a target, as `stages` has it.

        What comes after that pass is not run, and may refuse the kernel. Raises `UserError` for other names, listing those
        there are.
        """
        return print_module(self._after(self._pipeline(target, name)), locations=True)

    def ttir_through(self, passes: str) -> str:
        """Return the function as text after the passes of a pipeline, such as "inline,canonicalize,cse".

        Like `ttir`, it has the lines that operations come from. Functions that it still calls stand behind it, as they
        were. See docs/passes.md. Raises `UserError` for an invalid pipeline, listing the passes there are.
        """
        return print_module(self._after(Pipeline.parse(passes)), locations=True)

    def stages(self, target: str = HOST) -> dict[str, str]:
        """Return pass → the function as text after it, in order, on the way to a target."""
        found: dict[str, str] = {}

        def keep(name: str, function: FuncOp) -> None:
            found[name] = print_module(function, locations=True)

        with default_modes():
            self._pipeline(target).run(copy_function(self._function), keep)
        return found

    def _after(self, pipeline: Pipeline) -> FuncOp:
        with default_modes():
            return self._stages.after(pipeline)

    def llvm_ir(self, target: str = HOST, *, passes: str | None = None) -> str:
        """Return the LLVM IR for a target: "host", the CPU of this process, or a GPU such as "sm_80".

        passes: a pipeline in place of the target's own (`pipeline`), which launches use. Operations that it
            leaves and the back end has no code for raise `UnsupportedError`.
        """
        if not is_host(target):
            return self._gpu_code(target, passes).lowered.llvm_ir
        return self._lowered(passes).llvm_ir

    def ptx(self, target: str = DEFAULT_TARGET, *, passes: str | None = None) -> str:
        """Return PTX for a GPU, made on any machine: that of `gpu_code(target)`, which says what it assumes.

        Library functions are NVIDIA's where a libdevice.10.bc is found: the environment variable
        JOINERY_LIBDEVICE (a path, or "none"), `cuda.pathfinder`, a CUDA toolkit. Else they are joinery's own.
        passes: as for `llvm_ir`.

        Raises `UserError` for unknown targets, listing the known ones, and for a libdevice that cannot be
        used, and `UnsupportedError` for operations that have no GPU code yet.
        """
        return self._gpu_code(target, passes).ptx

    def _gpu_code(self, target: str, passes: str | None) -> GpuCode:
        return self._gpu.code(target) if passes is None else self._gpu.code_through(Pipeline.parse(passes), target)

    def gpu_code(
        self,
        target: str = DEFAULT_TARGET,
        warps: int = DEFAULT_WARPS,
        *,
        tensor_maps: bool = True,
        multiples: bool = False,
        bounded: bool = False,
    ) -> GpuCode:
        """Return PTX with what a launch of it needs.

        Launches find out which of the following assumptions hold, and run the code for these.

        Args:
            warps: how many warps of 32 threads run one program, a power of two up to 32.
            tensor_maps: whether tensors behind descriptors are as `tl.make_tensor_descriptor` asks for: last
                strides are 1, addresses and other strides multiples of 16 bytes. On targets with tensor
                copies (sm_90a and later) the last parameters are then tensor maps
                (`GpuCode.lowered.tensor_maps` has what each is made of): of descriptors that are parameters,
                and of those that the kernel makes of what is the same in all programs. Other targets have
                wide accesses to them, and assume that parameters are padded with zeros. If False, descriptors
                are pointers and masks, for any strides.
            multiples: whether addresses and integers are multiples of 16, except last strides. Launches
                distinguish 4, 8 and 16.
            bounded: whether grid and arguments are such that no number wraps around to a negative one before
                it is divided, where that is up to them: neighbouring elements then have neighbouring
                remainders. Launches prove it for their numbers.

        Raises what `ptx` raises.
        """
        arguments = tuple([(argument, 16) for argument in self._gpu.descriptors.integers]) if multiples else ()
        return self._gpu.code(target, warps, arguments, None if tensor_maps else (), "easy" if bounded else "any")

    @functools.cached_property
    def _gpu(self) -> GpuKernelCompiler:
        from .device_library import called_symbols
        from .gpu_code import GpuKernelCompiler

        def symbols() -> tuple[str, ...]:
            is_ours = self.numerics == "reproducible"  # expansions of our own are the same on every device
            return () if is_ours or "extern_elementwise" not in self._source.text else called_symbols(self._module)

        with self._lock:
            return GpuKernelCompiler(
                self._stages, self.numerics, self.parameters, lambda: self._written, symbols, self._store, self.debug
            )

    def asm(self, target: str = HOST, *, passes: str | None = None) -> str:
        """Return the assembly for the CPU; for a GPU, that is the work of its own assembler, see `ptx`.

        passes: as for `llvm_ir`. Raises `UnsupportedError` for GPUs, `UserError` for unknown targets.
        """
        if not is_host(target):
            known = gpu_target(target).name  # UserError for a name that is none
            raise UnsupportedError(f"asm: target {known!r}; fix: target='host', or ptx({known!r}) for a GPU")
        return self._lowered(passes).assembly()

    def _lowered(self, passes: str | None) -> HostKernel:
        if passes is None:
            return self._lowered_for(GENERIC)
        function = self._after(Pipeline.parse(passes))
        with default_modes():
            return self._lower(function, GENERIC)

    def _lower(self, function: FuncOp, specialization: LaunchSpecialization) -> HostKernel:
        return lower_for_launch(function, host_target(), specialization, self.debug)

    def _prepared(self) -> FuncOp:
        """Return the function after the passes for hosts."""
        with default_modes():
            return self._stages.after(pipeline_of(HOST, self.numerics))

    def _lowered_for(self, specialization: LaunchSpecialization) -> HostKernel:
        with self._lock, default_modes():
            if specialization not in self._host:
                function = self._prepared()
                if specialization.checked:
                    function = copy_function(function)
                    check_bounds(function)
                self._host[specialization] = self._lower(function, specialization)
            return self._host[specialization]

    @functools.cached_property
    def native(self) -> NativeKernel:
        """The native code for launches on the CPU."""
        return NativeKernel(self._launch_facts(False), self.host_object, self._store)

    @functools.cached_property
    def checked_native(self) -> NativeKernel:
        """The native code for launches on the CPU whose accesses are compared with the memory that they may reach."""
        return NativeKernel(self._launch_facts(True), self.host_object, self._store)

    def native_code(self, check_bounds: bool = False) -> tuple[LaunchFacts, HostObject]:
        """What launches on the CPU need to know, and the code of those whose arguments do not overlap and fit the caches."""
        facts = self._launch_facts(check_bounds)
        return facts, self.host_object(facts.simplest)

    def gpu_entry(self, request: GpuRequest) -> GpuEntry:
        """Return the code for a launch on a GPU, for `on_cuda.keep` of an equal kernel. Raises what compiling raises."""
        with default_modes(), self._source.naming_types():
            return self._gpu.entry(request)

    def use_native(self, code: bytes) -> None:
        """Take what `encode_native` made of the code of an equal kernel, in place of compiling it for the CPU."""
        self.native = decode_native(code, self.host_object, self._store)

    def _launch_facts(self, checked: bool) -> LaunchFacts:
        return launch_facts(self.name, self._prepared(), self._written, checked)

    def host_object(self, specialization: LaunchSpecialization) -> HostObject:
        """The object code for launches of a specialization."""
        lowered = self._lowered_for(specialization)
        with default_modes():
            return HostObject(lowered.object_code(), lowered.sites, lowered.shared)

    def _kernel_arguments(self, args: Sequence[Any]) -> HostArguments:
        """Pack the arguments. The caller keeps the arrays alive."""
        arguments = HostArguments(self._written)
        if len(args) == len(self._sizes):
            for parameter, size, arg in zip(self.parameters, self._sizes, args, strict=True):
                if not arguments.add_plain(size, arg):
                    arguments.add(parameter, arg)
            return arguments
        for parameter, arg in supplied(self.name, self.parameters, args):
            arguments.add(parameter, arg)
        return arguments

    @functools.cached_property
    def _sizes(self) -> tuple[int, ...]:
        return plain_sizes(self.parameters)


def from_ttir(
    text_or_path: str | os.PathLike[str],
    name: str | None = None,
    *,
    numerics: str = "strict",
    debug: bool = False,
    cache: CacheOption = True,
) -> Kernel:
    """Read a block kernel from text in the tt dialect, as Triton prints it or written by hand.

    Args:
        text_or_path: the module's text, or the path of a file that holds it: a `Path`, or one line ending in .ttir or .mlir.
            Texts of up to 16,777,216 characters are read, in a time that grows with their length.
        name: which `tt.func`, when there are several public ones.
        numerics: what the native code may do with float arithmetic. "strict": every operation rounds as IEEE 754 says,
            elementary functions of float32 are within 2 ulp, denormals are kept. "fast": as if every operation of the text had
            `fastmath<arcp,contract,afn>`: products are fused with sums, and elementary functions, quotients and square roots
            of float32 are approximated, within bounds that docs/design/011-numerics.md states; results that would be
            denormal may be 0. Infinities, NaN and signed zeros stay what they are, nothing is reassociated. "reproducible": as
            "strict", and sums, products of blocks and functions have the same bits on every device; slower, and atomic sums of
            floats are refused. `interpret` and `sanitize` are strict; with "reproducible" they add in its order.
        debug: whether code has line tables, for debuggers and profilers: instructions come from the lines that the text's
            `loc(…)` name. They are the same without.
        cache: where native code that kernels share is kept between processes: True for the user's cache directory, False for
            nowhere, or a directory or `CompileCache`.

    Raises `UserError` with line and column for text that is no valid module, for functions that are not there,
    and for unknown `numerics`.
    """
    return Kernel(ttir_text(text_or_path), name, cache_of(cache), checked_numerics(numerics, "from_ttir"), debug)


def from_triton_c(
    text_or_path: str | os.PathLike[str],
    defines: Mapping[str, object] | None = None,
    name: str | None = None,
    *,
    include: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
    single_precision_constants: bool = False,
    numerics: str = "strict",
    debug: bool = False,
    cache: CacheOption = True,
) -> Kernel:
    """Read a block kernel in Triton-C (docs/triton_c.md), from text or a file: a `Path`, or one line ending in .tc or .c.

    Args:
        defines: macro → what it stands for: text (any list of tokens), a number, a bool, a dtype; None: not defined.
        name: which `__global__` function, when there are several.
        include: the files that `#include` finds: name → text or `Path`; or paths, found by the last part of theirs.
        single_precision_constants: whether floating constants without a suffix are float, not double.
        numerics, debug, cache: as for `from_ttir`.

    Raises `UserError` with all errors of the text, as values in its `diagnostics`; warns with `TritonCWarning`.
    """
    numerics = checked_numerics(numerics, "from_triton_c")
    text = triton_c_text(text_or_path, defines, name, include, single_precision_constants)
    return Kernel(text, name, cache_of(cache), numerics, debug)


tune = Tuner(Kernel).tune


__all__ = ["Finding", "Kernel", "Report", "SanitizerError", "Step", "TunedKernel", "from_triton_c", "from_ttir", "tune"]
