"""Defines the compiled form of a graph: plain data that the runtime links, saves and loads, without LLVM,
xDSL or graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..promotion.dataclass import dataclass
from .integers import DIVISIONS, INTEGERS, SHIFTS, signed

NUMERICS = ("strict", "fast", "reproducible")
"""The contracts of float arithmetic that code is compiled for; see docs/design/011-numerics.md."""

GPU_ALIGNMENT = 64
"""Alignment in bytes of the buffers that a graph's kernels on a GPU take; inputs have it too, since they are
copied."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A model input or output. `shape` entries are ints, or text of a dim expression (`"batch"`, `"2*seq + 1"`)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A weight or constant the kernels read: its array (by name in the weights) and the layout it must be stored in.

    `layout` is "plain", or "panels:<n>": a (…, K, N) matrix stored as N/n panels of shape (K, n), zero padded, for `tt.dot`;
    others are those of `runtime/storage/weight_packing.py`.
    `weight` is the name of the array in the artifact that the code lies in; "" elsewhere, and in artifacts of earlier versions.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str = "plain"
    weight: str = ""


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One launch, as `Model.kernels` and printed plans show it. Sizes are ints or the text of a dim
    expression."""

    name: str
    template: str
    fused: tuple[str, ...]
    grid: int | str
    tiles: tuple[tuple[str, int], ...]
    bytes_read: int | str
    bytes_written: int | str
    flops: int | str

EXPRESSION_OPERATIONS = frozenset({*INTEGERS, "extsi", "extui", "trunci"})
"""The operations that an `ArgumentExpression` may use, under their names in `arith`."""
MAX_EXPRESSION_STEPS = 64


@dataclass(frozen=True, slots=True)
class ArgumentExpression:
    """An integer that a launch computes from the 64-bit arguments of a kernel, by wrapping arithmetic in
    postfix order.

    steps: (operation, width in bits, number). "constant" pushes the number, "argument" the argument of that
    number; "extsi", "extui" and "trunci" convert the last value (width is that of the operand, for "trunci"
    that of the result); all others are operations of `arith` on the last two values, both of that width.
    """

    steps: tuple[tuple[str, int, int], ...]

    @staticmethod
    def argument(number: int, width: int = 64) -> ArgumentExpression:
        return ArgumentExpression((("argument", width, number),))

    @staticmethod
    def constant(value: int, width: int = 64) -> ArgumentExpression:
        return ArgumentExpression((("constant", width, value),))

    @property
    def arguments(self) -> frozenset[int]:
        """Numbers of the arguments that the expression uses."""
        return frozenset(number for operation, _, number in self.steps if operation == "argument")

    @property
    def argument_number(self) -> int | None:
        """Number of the argument that the expression equals up to widening, or None if it computes something
        else."""
        (first, _, number), *rest = self.steps
        return number if first == "argument" and all(step[0] in ("extsi", "extui") for step in rest) else None

    def problem(self, is_integer: Callable[[int], bool]) -> str:
        """Returns what is wrong with the expression, or "" if nothing is.

        is_integer: returns whether a kernel has an argument of that number that is an integer.
        """
        if len(self.steps) > MAX_EXPRESSION_STEPS:
            return f"{len(self.steps)} steps"
        depth = 0
        for operation, width, number in self.steps:
            if not 1 <= width <= 64 or not -(1 << 63) <= number < 1 << 63:
                return f"step {operation[:100]!r} of {width} bits with {number}"
            if operation in ("constant", "argument"):
                if operation == "argument" and not is_integer(number):
                    return f"argument {number}"
                depth += 1
            elif operation not in EXPRESSION_OPERATIONS:
                return f"step {operation[:100]!r}"
            elif operation in INTEGERS:
                depth -= 1
            if depth < 1:
                return f"step {operation!r} without operands"
        return "" if depth == 1 else f"{depth} values"

    def evaluate(self, values: Sequence[Any]) -> int | None:
        """Returns the signed value for the arguments `values`, or None if a division or shift in it is
        undefined."""
        stack: list[int] = []
        for operation, width, number in self.steps:
            if operation == "constant":
                stack.append(signed(number, width))
            elif operation == "argument":
                stack.append(signed(int(values[number]), width))
            elif operation == "trunci":
                stack[-1] = signed(stack[-1], width)
            elif operation == "extui":
                stack[-1] &= (1 << width) - 1
            elif operation != "extsi":  # a value with its sign is the same number in more bits
                y = stack.pop()
                undefined = (operation in DIVISIONS and y == 0) or (operation in SHIFTS and not 0 <= y < width)
                if undefined:
                    return None
                stack[-1] = signed(INTEGERS[operation](stack[-1], y, (1 << width) - 1), width)
        return stack[0]


@dataclass(frozen=True, slots=True)
class TensorSizes:
    """Extents and strides (in elements, outermost first) of a tensor at a launch, and whether padding is NaN
    or zero."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    pads_with_nan: bool


@dataclass(frozen=True, slots=True)
class TensorSource:
    """The tensor that a tensor map describes, as expressions in the arguments before the maps.

    parameter: number of the parameter with the tensor's address.  extents, strides: in elements, outermost
    first.
    pads_with_nan: nonzero for padding with NaN, 0 for zeros.
    """

    parameter: int
    extents: tuple[ArgumentExpression, ...]
    strides: tuple[ArgumentExpression, ...]
    pads_with_nan: ArgumentExpression

    @staticmethod
    def of_parts(parameter: int, rank: int) -> TensorSource:
        """Returns the source of a descriptor parameter: address, extents, strides and padding are consecutive arguments."""
        sizes = [ArgumentExpression.argument(parameter + 1 + number) for number in range(2 * rank + 1)]
        return TensorSource(parameter, tuple(sizes[:rank]), tuple(sizes[rank:-1]), sizes[-1])

    def sizes(self, values: Sequence[Any]) -> TensorSizes | None:
        """Returns the sizes for the arguments `values` of a launch, or None if an expression has no value."""
        extents = [each.evaluate(values) for each in self.extents]
        strides = [each.evaluate(values) for each in self.strides]
        nan = self.pads_with_nan.evaluate(values)
        known = [tuple([each for each in numbers if each is not None]) for numbers in (extents, strides)]
        if nan is None or len(known[0]) < len(extents) or len(known[1]) < len(strides):
            return None
        return TensorSizes(known[0], known[1], nan != 0)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map (`CUtensorMap`) that a launch encodes and passes by value: 128 bytes aligned to 64, which
    PTX declares as `.b8 …[128]`.

    source: gives address, extents, strides and padding. A launch encodes them as `cuTensorMapEncodeTiled`
    does: extents, box and strides innermost first, strides in bytes and without the innermost, which is 1
    element; element strides are 1, and nothing is interleaved.
    element: type of the elements ("f16", "bf16", "f32", "f64", "i8" … "i64", "f8E5M2", …; fp8 is copied as
    8-bit integers).
    box: extents of the box that one copy moves, outermost first.  swizzle: 0, 32, 64 or 128 bytes.

    The kernel may be launched if the address and, in bytes, every stride but the last are multiples of 16,
    the last stride is 1, all extents are positive, the tensor lies within its argument's memory, and no other
    argument overlaps that memory.
    """

    source: TensorSource
    element: str
    box: tuple[int, ...]
    swizzle: int

    @property
    def parameter(self) -> int:
        return self.source.parameter

    @property
    def rank(self) -> int:
        return len(self.box)


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel for GPUs: its PTX and what a launch of it needs.

    target: the GPU it is for (`"sm_80"`).  ptx_version: version of the text times ten (70 for PTX 7.0).
    threads: per thread block, which runs one program.  shared_bytes: dynamic shared memory per thread block.
    parameters: LLVM types of the parameters in order; addresses are `"i64"`, tensor maps `"ptr"`.
    tensor_maps: the tensor maps that the last parameters take, in order.
    """

    name: str
    target: str
    ptx: str
    ptx_version: int
    threads: int
    shared_bytes: int
    parameters: tuple[str, ...]
    tensor_maps: tuple[TensorMap, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuLaunch:
    """One launch of a kernel.

    kernel: index into `GpuProgram.kernels`.
    arguments: one per parameter before the tensor maps: the `Location` of the buffer whose address is passed, or a size.
    grid: the number of programs.
    """

    kernel: int
    arguments: tuple[tuple[str, int] | int | str, ...]
    grid: int | str


@dataclass(frozen=True, slots=True)
class GpuSection:
    """Launches number `first` to `last - 1` of a program, in order."""

    first: int
    last: int


Location: TypeAlias = tuple[str, int]
"""Where an array lies: its kind ("input", "constant", "output", "temporary", "variable") and its index."""


@dataclass(frozen=True, slots=True)
class GpuCarried:
    """A value that a loop carries. All but `begin` and `memory` are numbers of variables, -1 for none; see
    `control.steps.Carried`."""

    begin: Location
    now: int
    following: int = -1
    spare: int = -1
    memory: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSlice:
    """A row of the array `whole` that each iteration reads or writes; the variable `row` has its address.

    positions, count: as in `control.steps.Slice`. bits: of a position.
    """

    whole: Location
    row: int
    nbytes: int | str
    positions: Location | None = None
    count: int | str = 1
    bits: int = 64


def clamped_positions(positions: Sequence[int], count: int) -> list[int]:
    """Return which of `count` rows positions mean: those below 0 count from the end, those out of range are clamped."""
    return [max(min(position + count if position < 0 else position, count - 1), 0) for position in positions]


@dataclass(frozen=True, slots=True)
class GpuLoop:
    """A loop, as `control.steps.Loop`.

    index, count: where the number of the iteration, and in the end of all of them, go; None where nothing reads them.
    """

    body: tuple[GpuStep, ...]
    carried: tuple[GpuCarried, ...]
    slices: tuple[GpuSlice, ...]
    length: int | str
    limit: Location | None
    condition: tuple[GpuStep, ...]
    asked: Location | None
    index: Location | None
    count: Location | None
    reverse: bool


@dataclass(frozen=True, slots=True)
class GpuBranch:
    """A branch, as `control.steps.Branch`. number: where the number of the region that ran goes, or None."""

    condition: Location
    then: tuple[GpuStep, ...]
    otherwise: tuple[GpuStep, ...]
    number: Location | None


GpuStep: TypeAlias = "GpuSection | GpuLoop | GpuBranch"


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """The kernels that a GPU runs for a graph, and their launches in order.

    offsets: byte offset of every temporary in the arena, whose size is `arena_bytes`.  checks: pairs of sizes
    that have to be equal, in the order of `CompiledGraph.checks`.
    steps: what runs, where that is more than all launches in order; variables: how many addresses it changes.
    """

    kernels: tuple[KernelCode, ...]
    launches: tuple[GpuLaunch, ...]
    offsets: tuple[int | str, ...]
    arena_bytes: int | str
    checks: tuple[tuple[int | str, int | str], ...]
    steps: tuple[GpuStep, ...] = ()
    variables: int = 0


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """Everything needed to run a graph on one target: `object_code` on a host, `gpu` on a GPU.

    `object_code` exports `jn_prepare` and `jn_run` (docs/design/001-architecture.md). `dims` lists the
    symbolic dims in the order of the `dims` argument. `checks` are the messages of the runtime checks
    `jn_prepare` makes, by index. `ttir` (text by kernel name, which may be made when it is read) and
    `llvm_ir` (text of the modules) are for inspection. `numerics` is one of `NUMERICS`.
    """

    name: str
    target: str
    key: str
    object_code: bytes
    dims: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[ConstantSpec, ...]
    checks: tuple[str, ...]
    kernels: tuple[KernelReport, ...]
    ttir: Mapping[str, str]
    llvm_ir: str
    gpu: GpuProgram | None = None
    numerics: str = "strict"
