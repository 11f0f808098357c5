"""The compiled form of a graph: plain data that the runtime links, saves and loads. No LLVM, no xDSL, no graph objects."""

from __future__ import annotations

from dataclasses import dataclass

NUMERICS = ("strict", "fast")
"""What code may do with float arithmetic: docs/design/011-numerics.md."""

GPU_ALIGNMENT = 64
"""Bytes: the arguments of a graph's kernels on a GPU start at multiples of it, inputs too, since they are copied there."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A model input or output. `shape` entries are ints, or text of a dim expression (`"batch"`, `"2*seq + 1"`)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A weight or constant the kernels read: its array (by name in the weights) and the layout it must be stored in.

    `layout` is "plain", or "panels:<n>": a (…, K, N) matrix stored as N/n panels of shape (K, n), zero padded, for `tt.dot`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str = "plain"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One launch, for `Model.kernels` and printed plans. Sizes are ints or text of a dim expression."""

    name: str
    template: str
    fused: tuple[str, ...]
    grid: int | str
    tiles: tuple[tuple[str, int], ...]
    bytes_read: int | str
    bytes_written: int | str
    flops: int | str


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map (`CUtensorMap`) that a launch makes and hands over by value: 128 bytes, aligned to 64, of a parameter that
    PTX calls `.b8 …[128]`.

    parameter: number of the parameter with the tensor's address. Behind it there are `rank` extents and `rank` strides in
    elements, outermost first, all i64, and 1 for padding with NaN, 0 for zeros. Of these a launch makes the map as
    `cuTensorMapEncodeTiled` does: extents, strides in bytes without the innermost, which is 1, and `box` in the opposite order,
    element strides 1, no interleaving.
    element: type of the elements ("f16", "bf16", "f32", "f64", "i8" … "i64", "f8E5M2", …; fp8 is copied as 8-bit integers).
    box: extents of the box that one copy moves, outermost first.  swizzle: 0, 32, 64 or 128 bytes.

    The code may be launched where the address is a multiple of 16, the strides in bytes but the last one too, the last stride
    is 1, no extent is 0, and where no other argument overlaps the tensor.
    """

    parameter: int
    rank: int
    element: str
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel for GPUs: its PTX and what a launch of it needs.

    target: the GPU it is for (`"sm_80"`).  ptx_version: of the text, times ten (70 for PTX 7.0).
    threads: of a block, which runs one program.  shared_bytes: dynamic shared memory of a block.
    parameters: their LLVM types in order; addresses are `"i64"`, tensor maps `"ptr"`.
    tensor_maps: those of the last parameters, in order.
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

    kernel: which of `GpuProgram.kernels`.
    arguments: in the order of the parameters before the tensor maps. A buffer, whose address it is: kind ("input", "constant",
    "output", "temporary") and index; or a size.
    grid: the number of programs.
    """

    kernel: int
    arguments: tuple[tuple[str, int] | int | str, ...]
    grid: int | str


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """What a GPU runs for a graph: kernels, and their launches in order.

    offsets: byte offset of every temporary in the arena, whose size is `arena_bytes`.  checks: sizes that have to be equal, in
    the order of `CompiledGraph.checks`.
    """

    kernels: tuple[KernelCode, ...]
    launches: tuple[GpuLaunch, ...]
    offsets: tuple[int | str, ...]
    arena_bytes: int | str
    checks: tuple[tuple[int | str, int | str], ...]


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """Everything needed to run a graph on one target: `object_code` on a host, `gpu` on a GPU.

    `object_code` exports `jn_prepare` and `jn_run` (docs/design/001-architecture.md). `dims` lists the symbolic dims in the
    order of the `dims` argument. `checks` are the messages of the runtime checks `jn_prepare` makes, by index.
    `ttir` and `llvm_ir` are kept for inspection: text by kernel name, and the module text. `numerics`: "strict" or "fast".
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
    ttir: dict[str, str]
    llvm_ir: str
    gpu: GpuProgram | None = None
    numerics: str = "strict"
