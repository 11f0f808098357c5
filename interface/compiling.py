"""Provides `joinery.compile` and `joinery.load`, in which graph, lowering and runtime meet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.dims.binding import parse_extent
from ..graph.dims.dim import Extent
from ..graph.graph import Graph
from ..graph.ops.host import needs_host
from ..graph.reference.budget import Budget
from ..graph.text.parsing import from_text
from ..graph.text.printing import to_text
from ..lowering.artifact import CompiledGraph, ConstantSpec, TensorSpec
from ..lowering.block_texts import BlockTexts
from ..lowering.gc_paused import gc_paused, loading_modules
from ..lowering.keys import compile_key, constant_labels
from ..lowering.llvm.compile import host_target
from ..lowering.llvm.nvptx.targets import GpuTarget, gpu_target
from ..lowering.numerics import checked_numerics
from ..lowering.target import HostTarget
from ..promotion.arrays import Array
from ..promotion.dtype import DType
from ..promotion.errors import InternalError, UnsupportedError, UserError
from ..promotion.float_modes import default_modes
from ..runtime.cuda.current import why_unavailable
from ..runtime.device import Device
from ..runtime.host.device import HostDevice
from ..runtime.host.memory import address, aligned_copy, is_aligned
from ..runtime.native.library import preload_native_library
from ..runtime.storage import artifact_file
from ..runtime.storage.artifact_file import StoredWeight
from ..runtime.storage.cache import CacheOption, CompileCache, cache_of
from ..runtime.storage.weight_packing import pack
from .model import Archive, Model

if TYPE_CHECKING:
    from ..lowering.stages import Backend, Tiled

DEVICES = ("auto", "cpu", "cuda", "cuda:1", "ptxsim")
SIMULATED_TARGET = "sm_80"
Target = HostTarget | GpuTarget


def compile(  # noqa: A001 - the public name
    graph: Graph,
    device: str = "auto",
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: str = "strict",
    debug: bool = False,
    cache: CacheOption = True,
) -> Model:
    """Compile a finished graph into a model.

    Args:
        graph: a graph whose `output` has been called.
        device: "cpu"; "cuda", "cuda:1"; "auto" for the first GPU, or the CPU where there is none or the graph has
            operations that run on the host (kind `host` in docs/ops.md); "ptxsim" interprets the PTX that a GPU would run, and
            checks every access (slow: for tests).
        target: the GPU that code is made for, such as "sm_90a"; by default what fits the device best, and "sm_80" for
            "ptxsim".
        threads: threads a call may use, the caller included; None uses every core, 1 keeps all work on the calling thread.
        numerics: "strict": every operation rounds to its dtype as IEEE 754 says, and elementary functions of float32 are
            within 2 ulp. "fast": products may be fused with sums, and elementary functions, quotients and square roots of
            float32 approximated, within the bounds of docs/design/011-numerics.md; results that would be denormal may be 0.
            Infinities, NaN and signed zeros stay what they are, and nothing is reassociated. "reproducible": as "strict", and
            sums, matrix products and functions have the same bits on every device, with any number of threads; slower.
        debug: whether the code says which of your lines its instructions come from, for debuggers and profilers: line tables
            (DWARF) on the CPU, `.loc` in PTX. The instructions are the same; compiling takes up to a tenth longer, and the code
            is kept for these lines only. Files of saved models have the lines too, with the full paths of your sources.
            `Kernel.ttir` of the model's kernels names lines always.
        cache: True keeps compiled code in the user's cache directory; False neither reads nor writes it; "must-hit" raises
            instead of compiling; a path or a `CompileCache` names the directory.

    A graph with host operations becomes a `StagedModel`: compiled parts, between which these run.

    Raises `UserError` for an unfinished graph, an unknown device or `numerics`, or a missed "must-hit"; `UnsupportedError`
    for a graph that cannot be compiled; `DeviceError` for a GPU that is not there.
    """
    if not isinstance(graph, Graph):
        raise UserError(
            f"compile: expected a Graph, got {type(graph).__name__}; fix: pass the graph, not its result"
        )
    if not graph.finished:
        raise UserError(f"compile: graph {graph.name!r} has no outputs yet; fix: call graph.output(…) first")
    numerics = checked_numerics(numerics, "compile")
    if needs_host(graph):
        return _staged(graph, device, target, threads, numerics, debug, cache)
    device, resolved = _resolve(device, target, "compile")
    store = cache_of(cache)
    compiled = _compiled(graph, resolved, numerics, cache, store, constant_labels(graph), debug)
    constants = _constants(graph, compiled, {})

    def archive() -> Archive:
        text, weights = _stored_graph(graph, compiled, constants)
        texts = _texts(graph, resolved, numerics, locations=False)  # a file does not depend on where its model was built
        return replace(compiled, ttir=texts), text, weights

    there = _device(device, resolved, store)
    return Model(
        compiled, constants, "", threads, archive=archive, device=there, tiled=lambda: _tiled(graph, resolved, numerics)
    )


def _staged(
    graph: Graph, device: str, target: str | None, threads: int | None, numerics: str, debug: bool, cache: CacheOption
) -> Model:
    """Compile a graph with host operations, for the CPU."""
    from .staged import StagedModel, host_symbols

    if device not in ("cpu", "auto") or target is not None:
        device, found = _resolve(device, target, "compile")
        if not isinstance(found, HostTarget):
            first = max(host_symbols(graph), key=lambda symbol: symbol.op.kind == "host")
            raise UnsupportedError(
                f"compile: {first.op.name}, {first.dtype} from {first.location}, runs on the host between compiled parts; "
                f"device {device!r} has none; fix: device='cpu', or graphs of their own for what comes before and after it"
            )

    def compiled(part: Graph) -> Model:
        return compile(part, "cpu", threads=threads, numerics=numerics, debug=debug, cache=cache)

    def save(path: str | os.PathLike[str]) -> None:
        text, by_digest = to_text(graph)
        weights = [
            StoredWeight(digest, _dtype_name(array), array.shape, "plain", array) for digest, array in by_digest.items()
        ]
        artifact_file.save(path, graph.name, text, [], weights, {"numerics": numerics})

    return StagedModel(graph, compiled, save)


def _constants(
    graph: Graph, compiled: CompiledGraph, ready: Mapping[tuple[int, tuple[int, ...], str], Array]
) -> list[Array]:
    """Return the arrays that the kernels read.

    ready: arrays that already lie in memory as kernels read them, by address and shape of the plain array and
    layout.
    """
    labels = constant_labels(graph)
    arrays = {labels[id(array)]: array for array in _arrays(graph)}
    constants = []
    for spec in compiled.constants:
        array = arrays[spec.name]
        at_hand = ready.get((address(array), array.shape, spec.layout))
        constants.append(_stored(spec, array) if at_hand is None else at_hand)
    return constants


def _dtype_name(array: Array) -> str:
    return DType.from_numpy(array.dtype).name


def _resolve(device: str, target: str | None, what: str) -> tuple[str, Target]:
    """Return the device, and the target that code is generated for."""
    if device == "auto":
        device = "cpu" if why_unavailable() is not None else "cuda"
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        from ..runtime.cuda.device import cuda_device

        gpu = cuda_device(device)
        found = gpu_target(gpu.target if target is None else target)
        return device, replace(found, processors=gpu.processors)
    if device == "ptxsim":
        return device, gpu_target(SIMULATED_TARGET if target is None else target)
    if device != "cpu":
        raise UserError(
            f"{what}: unknown device {device!r}; expected one of {', '.join(DEVICES)}; fix: use device='cpu'"
        )
    if target is not None:
        raise UserError(f"{what}: target {target!r} is for GPUs; fix: device='ptxsim', or no target")
    return device, host_target()


def _device(device: str, target: Target, store: CompileCache | None) -> Device:
    if isinstance(target, HostTarget):
        return HostDevice(store)
    from ..runtime.model.gpu_model import (
        GpuBackend,  # GPUs and the simulator load only when they are asked for
    )

    if device == "ptxsim":
        from ..runtime.ptxsim.device import SimulatedGpu

        return GpuBackend(SimulatedGpu(target.name), store)
    from ..runtime.cuda.arrays import CudaArrays
    from ..runtime.cuda.device import cuda_device

    gpu = cuda_device(device)
    return GpuBackend(gpu, store, CudaArrays(gpu))


def _arrays(graph: Graph) -> list[Array]:
    return [symbol.attrs["value"] for symbol in graph.symbols if symbol.op.name in ("constant", "weight")]


def _compiled(
    graph: Graph,
    target: Target,
    numerics: str,
    cache: CacheOption,
    store: CompileCache | None,
    labels: Mapping[int, str],
    debug: bool = False,
) -> CompiledGraph:
    key = compile_key(graph, target, numerics, debug)

    texts = _texts(graph, target, numerics)
    found = store.get(key) if store is not None else None
    if found is not None:
        return replace(found, name=graph.name, ttir=texts)  # equal graphs of other names share an entry
    if cache == "must-hit":
        raise UserError(
            f"compile: graph {graph.name!r} is not in the cache (key {key[:16]}…); fix: compile it once with cache=True "
            "on this machine with these versions, or drop cache='must-hit'"
        )
    if isinstance(target, HostTarget):
        preload_native_library(store)
    with loading_modules():  # xDSL loads only when something is really compiled
        from ..lowering.pipeline import compile_graph, finish
        from ..lowering.stages import Options

        backend = _backend(target)
    options = Options(numerics, debug)
    with gc_paused(), default_modes():  # cached code must not depend on the modes that folded its constants
        made = compile_graph(graph, backend, options)
    lowered = made.tiled.laid_out.expanded
    names = {number: labels.get(id(array), "") for number, array in lowered.constants().items()}
    with gc_paused(), default_modes():
        compiled = finish(made, target, options, key, names)
    if any(not spec.name for spec in compiled.constants):
        raise InternalError(f"compile: graph {graph.name!r} reads a constant that is not in the source graph")
    if store is not None:
        store.put(key, compiled)
    return replace(compiled, ttir=texts)


def _texts(graph: Graph, target: Target, numerics: str, locations: bool = True) -> BlockTexts:
    """Return the block programs as text, made when they are read; `locations` adds the user's lines."""

    def make() -> dict[str, str]:
        from ..lowering.pipeline import block_texts
        from ..lowering.stages import Options

        with default_modes():
            return block_texts(graph, _backend(target), Options(numerics), locations)

    return BlockTexts(make)


def _tiled(graph: Graph, target: Target, numerics: str) -> Tiled:
    """Return the block programs of a graph and their launches."""
    from ..lowering.pipeline import tile_graph
    from ..lowering.stages import Options

    with default_modes():
        return tile_graph(graph, _backend(target), Options(numerics))


def _backend(target: Target) -> Backend[Any]:
    if isinstance(target, HostTarget):
        from ..lowering.host_stages import HostBackend

        return HostBackend(target)
    from ..lowering.gpu_stages import NvptxBackend

    return NvptxBackend(target)


def _stored(spec: ConstantSpec, array: Array) -> Array:
    """Return a constant as the kernels read it: in its layout, contiguous, on a 64-byte boundary."""
    stored = np.ascontiguousarray(pack(array, spec.layout))
    return stored if is_aligned(stored) else aligned_copy(stored)


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    targets: Sequence[str] = ("cpu",),
    *,
    numerics: str = "strict",
    cache: CacheOption = True,
) -> None:
    """Compile a finished graph for several targets, and write all of it as one file, which `load` opens on each of them.

    Args:
        graph: a graph whose `output` has been called.
        path: where to write; an existing file is replaced when the new one is complete.
        targets: "cpu" for CPUs such as this machine's, and GPUs by name, such as "sm_80" and "sm_90a". None of them has to be
            there. On others, and wherever the file is not trusted, `load` compiles the graph anew.
        numerics, cache: what `compile` takes.

    A graph with host operations is written without code: loading compiles its parts. Raises what `compile` raises.
    """
    if not isinstance(graph, Graph) or not graph.finished:
        raise UserError("save: expected a graph with outputs; fix: call graph.output(…) first, and pass the graph")
    numerics = checked_numerics(numerics, "save")
    if isinstance(targets, str) or not targets or len(set(targets)) != len(targets):
        raise UserError(f"save: targets {targets!r}; fix: different ones in a tuple, such as ('cpu', 'sm_80')")
    resolved = [host_target() if name == "cpu" else gpu_target(name) for name in targets]
    if needs_host(graph):
        compile(graph, "cpu" if list(targets) == ["cpu"] else "ptxsim", numerics=numerics, cache=cache).save(path)
        return
    store, labels = cache_of(cache), constant_labels(graph)
    made = []
    for target in resolved:
        texts = _texts(graph, target, numerics, locations=False)
        made.append(replace(_compiled(graph, target, numerics, cache, store, labels), ttir=texts))
    packed = next((each for each, name in zip(made, targets, strict=True) if name == "cpu"), made[0])
    text, weights = _stored_graph(graph, packed, _constants(graph, packed, {}))
    artifact_file.save(path, graph.name, text, made, weights, {"numerics": numerics})


def _stored_graph(graph: Graph, compiled: CompiledGraph, constants: Sequence[Array]) -> tuple[str, list[StoredWeight]]:
    """Return a graph as text, and its arrays as the code reads them, where it does."""
    text, by_digest = to_text(graph)
    by_label = {label: identity for identity, label in constant_labels(graph).items()}
    stored = {
        by_label[spec.name]: (spec.layout, array) for spec, array in zip(compiled.constants, constants, strict=True)
    }
    weights = []
    for digest, array in by_digest.items():
        layout, kept = stored.get(id(array), ("plain", array))
        weights.append(StoredWeight(digest, _dtype_name(array), array.shape, layout, kept))
    return text, weights


def saved_graph(path: str | os.PathLike[str], budget: Budget | None = None) -> Graph:
    """Return the graph of a file that `Model.save` or `save` wrote; what it may need at a run is bounded."""
    opened = artifact_file.load(path)
    plain = {entry.name: opened.plain_weight(entry.name) for entry in opened.manifest.weights}
    try:
        return from_text(opened.graph_text, plain, budget)
    except UserError as error:
        raise UserError(f"artifact {os.fspath(path)}: {error}") from error


def load(
    path: str | os.PathLike[str],
    device: str = "auto",
    *,
    target: str | None = None,
    threads: int | None = None,
    trusted: bool = False,
    budget: Budget | None = None,
    cache: CacheOption = True,
) -> Model:
    """Open a model that `Model.save` wrote.

    Devices and targets are those of `compile`, `numerics` is that of the saved model. The file is read as a whole
    and checked; later changes to it have no effect. No code in it runs unless `trusted` is True, which is for files
    you wrote yourself; otherwise the graph is compiled anew, through the cache.

    budget: what a run of a file that is not trusted may need, by default `Budget()`. Anything beyond it is refused
    when the file is read or, where it depends on the sizes of the inputs, by the run. A trusted file has no budget
    unless one is given.

    Raises `UserError` for a file that is no artifact, damaged, changed or beyond its budget.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise UserError(f"load: budget is {budget!r:.60}; fix: budget=joinery.Budget(bytes=2**40)")
    device, resolved = _resolve(device, target, "load")
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(
            f"load: expected a path, got {type(path).__name__}; fix: joinery.load('model.joinery')"
        )
    opened = artifact_file.load(path, trusted=trusted, target=_same_code(resolved))
    entries = opened.manifest.weights
    plain = {entry.name: opened.plain_weight(entry.name) for entry in entries}
    try:
        graph = from_text(opened.graph_text, plain, (None if trusted else Budget()) if budget is None else budget)
    except UserError as error:
        raise UserError(f"artifact {os.fspath(path)}: {error}") from error
    if needs_host(graph):
        numerics = checked_numerics(opened.manifest.metadata.get("numerics", "strict"), f"artifact {os.fspath(path)}")
        return _staged(graph, device, target, threads, numerics, False, cache)
    compiled, store = opened.compiled, cache_of(cache)
    if compiled is None or budget is not None:  # the code in a file has no checks of a budget
        numerics = checked_numerics(opened.manifest.metadata.get("numerics", "strict"), f"artifact {os.fspath(path)}")
        compiled = _compiled(graph, resolved, numerics, cache, store, constant_labels(graph))
    else:
        _check_code(os.fspath(path), graph, compiled)
    addresses = {entry.name: (address(plain[entry.name]), entry.shape) for entry in entries}
    ready = {(*addresses[entry.name], entry.layout): opened.weights[entry.name] for entry in entries}
    constants = _constants(graph, compiled, ready)

    limited = bool(graph.limits)

    # What `save` needs is in the file already, so the graph and the unpacked copies of its weights are not kept. A budget
    # belongs to this call, not to the file.
    def archive() -> Archive:
        code = compiled
        if limited:
            again = from_text(opened.graph_text, {entry.name: opened.plain_weight(entry.name) for entry in entries}, None)
            code = _compiled(again, resolved, code.numerics, cache, store, constant_labels(again))
        return code, opened.graph_text, [
            StoredWeight(entry.name, entry.dtype, entry.shape, entry.layout, opened.weights[entry.name])
            for entry in entries
        ]

    def tiled() -> Tiled:
        plain = {entry.name: opened.plain_weight(entry.name) for entry in entries}
        again = from_text(opened.graph_text, plain, (None if trusted else Budget()) if budget is None else budget)
        return _tiled(again, resolved, compiled.numerics)

    return Model(
        compiled, constants, "", threads, archive=archive, device=_device(device, resolved, store), tiled=tiled
    )


def _same_code(target: Target) -> Callable[[str], bool]:
    """Return what tells whether code for a target's key runs here: GPUs of one kind differ in their multiprocessors, by which
    blocks are chosen but which no code depends on."""
    if isinstance(target, HostTarget):
        return lambda key: key == target.key
    return lambda key: key.rpartition("|")[0] == target.key.rpartition("|")[0]


def _check_code(path: str, graph: Graph, compiled: CompiledGraph) -> None:
    """Raise `UserError` unless code in a file takes, reads and returns the tensors of the file's graph."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    takes = [(symbol.name or "", symbol.dtype.name, symbol.shape) for symbol in graph.inputs]
    returns = [(name, symbol.dtype.name, symbol.shape) for name, symbol in outputs]
    arrays = {id(array): array for array in _arrays(graph)}
    reads = {(name, arrays[number].shape) for number, name in constant_labels(graph).items()}
    wrong = ""
    if [_declared(spec) for spec in compiled.inputs] != takes or compiled.dims != graph.dim_names:
        wrong = "inputs"
    elif [_declared(spec) for spec in compiled.outputs] != returns:
        wrong = "outputs"
    elif not {(spec.name, spec.shape) for spec in compiled.constants} <= reads:
        wrong = "weights"
    if wrong:
        raise UserError(
            f"artifact {path}: its code for {compiled.target} is for other {wrong} than its graph has: the file was changed; "
            "fix: load it without trusted=True, which compiles the graph, or save the model again"
        )


def _declared(spec: TensorSpec) -> tuple[str, str, tuple[Extent, ...]]:
    return spec.name, spec.dtype, tuple([parse_extent(extent) for extent in spec.shape])


__all__: Sequence[str] = ["compile", "load", "save", "saved_graph"]
