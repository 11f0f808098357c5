"""Provides `joinery.compile` and `joinery.save`, in which graph, lowering and runtime meet."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.constants import array_digest
from ..graph.dims.binding import parse_extent
from ..graph.dims.dim import Extent
from ..graph.graph import Graph
from ..graph.ops.host import needs_host
from ..graph.outline import with_arrays
from ..graph.reference.budget import Budget
from ..graph.text.parsing import stored_graph
from ..graph.text.printing import stored_text
from ..lowering.artifact import CompiledGraph, TensorSpec
from ..lowering.block_texts import BlockTexts
from ..lowering.choices.model_schedule import EMPTY, ModelSchedule, ScheduleError, checked_schedule
from ..lowering.choices.options import FEW_THREADS, Options, planned_threads
from ..lowering.gc_paused import gc_paused, loading_modules
from ..lowering.graph_passes.coded_weights import with_coded_weights
from ..lowering.graph_passes.constants import fold_constants
from ..lowering.graph_passes.products.integer_products import with_integer_products
from ..lowering.graph_passes.selected_codes import with_selected_codes
from ..lowering.keys import compile_key, constant_labels
from ..lowering.numerics import checked_numerics
from ..lowering.target import HostTarget
from ..promotion.arrays import Array
from ..promotion.dtype import DType
from ..promotion.errors import InternalError, UnsupportedError, UserError
from ..promotion.float_modes import default_modes
from ..runtime.host.memory import address
from ..runtime.host.threads import MAX_THREADS, resolve_threads
from ..runtime.model.model import Archive
from ..runtime.native.library import preload_native_library
from ..runtime.storage import artifact_file
from ..runtime.storage.artifact_file import StoredWeight
from ..runtime.storage.cache import CacheOption, CompileCache, cache_of
from ..runtime.storage.weight_packing import is_reversible, unpack
from .model import Model
from .opening import devices

if TYPE_CHECKING:
    from pathlib import Path

    from ..lowering.stages import Backend, Tiled
    from .tuning.models import Tuning

def compile(  # noqa: A001 - the public name
    graph: Graph,
    device: str = "auto",
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: str = "strict",
    debug: bool = False,
    schedule: ModelSchedule | str | Path | None = None,
    tune: float | Tuning | None = None,
    cache: CacheOption = True,
) -> Model:
    """Compile a finished graph into a model.

    Args:
        graph: a graph whose `output` has been called.
        device: "cpu"; "cuda", "cuda:1"; "auto" for the first GPU, or the CPU where there is none or the graph has
            operations that run on the host (kind `host` in docs/ops.md); "ptxsim" interprets the PTX that a GPU would run, and
            checks every access (slow: for tests).
        target: what code is made for: a GPU, such as "sm_90a", by default what fits the device best, and "sm_80" for
            "ptxsim"; for "cpu" a level of x86-64, "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512), by default this CPU.
        threads: threads a call may use, the caller included; None uses every core, 1 keeps all work on the calling thread.
            Beyond 4 the code has more and smaller programs; results have the same bits. Threads need 128 KiB of stack.
        numerics: "strict": every operation rounds to its dtype as IEEE 754 says, and elementary functions of float32 are
            within 2 ulp. "fast": products may be fused with sums, and elementary functions, quotients and square roots of
            float32 approximated, within the bounds of docs/design/011-numerics.md; results that would be denormal may be 0, and
            3 × 3 convolutions may have larger errors (F(4×4, 3×3) of docs/design/018-convolution.md). Infinities, NaN and
            signed zeros stay what they are, and nothing else is reassociated. "reproducible": as "strict", and sums, matrix
            products and functions have the same bits on every device, with any number of threads; slower.
        debug: whether the code says which of your lines its instructions come from, for debuggers and profilers: line tables
            (DWARF) on the CPU, `.loc` in PTX. The instructions are the same; compiling takes up to a tenth longer, and the code
            is kept for these lines only. Files of saved models have the lines too, with the full paths of your sources.
            `Kernel.ttir` of the model's kernels names lines always.
        schedule: how kernels are cut into programs where the cost model's choice is not wanted: an edited `Model.schedule`, or
            the path of a file with its text. Results may differ by the order of sums. A saved model keeps it.
        tune: for how many seconds schedules are tried and measured on this machine, or a `Tuning` that says with which sizes,
            and in which file choices are kept. For CPUs; the model is no slower than without, as far as seven turns show.
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
    planned = planned_threads(resolve_threads(threads))
    options = Options(checked_numerics(numerics, "compile"), debug, checked_schedule(schedule, "compile"), planned)
    if needs_host(graph):
        if tune is not None:
            raise UnsupportedError(f"compile: graph {graph.name!r} has operations that run on the host; fix: leave tune= out")
        return _staged(graph, device, target, threads, options, cache)
    store = cache_of(cache)
    device, resolved = devices.resolve(device, target, "compile")
    if tune is not None:
        options = replace(options, schedule=_tuned(graph, threads, options, tune, resolved))
    graph = _prepared(graph, options.numerics, resolved)
    compiled = _compiled(graph, resolved, options, cache, store, constant_labels(graph))
    constants = _constants(graph, compiled, {})
    kept = _KeptGraph(graph, compiled, constants)
    options = replace(options, debug=False)  # of what is made later, which has lines anyway
    compiled = replace(compiled, ttir=_texts(kept.graph, resolved, options))

    def archive() -> Archive:
        text, weights, names = _stored_graph(kept.graph(), compiled, constants)
        texts = _texts(kept.graph, resolved, options, locations=False)  # it does not depend on where its model was built
        return [replace(_named(compiled, names), ttir=texts)], text, weights, metadata_of(options, resolved)

    there = devices.device_of(device, resolved, store)
    return Model(
        compiled, constants, "", threads, archive=archive, device=there, tiled=lambda: _tiled(kept.graph(), resolved, options),
        saving=save_for,
    )


def _tuned(graph: Graph, threads: int | None, options: Options, tune: object, resolved: devices.Target) -> ModelSchedule:
    """Return the schedules of a graph's kernels that are fastest on this machine. Candidates are not kept in the cache."""
    from .tuning.models import checked_tuning, tuned

    tuning = checked_tuning(tune)
    if not isinstance(resolved, HostTarget):
        raise UnsupportedError(f"compile: tune for {resolved.key}; fix: device='cpu': launches on GPUs are not measured")
    if options.schedule.kernels:
        raise UserError("compile: schedule and tune; fix: one of them")

    def compile_with(schedule: ModelSchedule) -> Model:
        return compile(graph, "cpu", threads=threads, numerics=options.numerics, schedule=schedule, cache=False)

    def tiled_with(schedule: ModelSchedule) -> Tiled:
        return _tiled(_prepared(graph, options.numerics, resolved), resolved, replace(options, schedule=schedule))

    key = compile_key(graph, resolved, options.numerics)[:16]
    return tuned(tuning, f"{graph.name} {key} {resolved.cpu} {resolve_threads(threads)} threads", compile_with, tiled_with)


_LARGE = 1 << 20
"""From this many bytes on, an array that kernels read in panels is not held as it was."""


class _KeptGraph:
    """Holds a compiled graph for what a model is asked for later, and no large array twice.

    Those that kernels read in panels go when nothing else holds the graph; it is made again with arrays from panels.
    """

    def __init__(self, graph: Graph, compiled: CompiledGraph, constants: Sequence[Array]) -> None:
        labels = constant_labels(graph)
        pairs = zip(compiled.constants, constants, strict=True)
        stored = {spec.name: (spec, array) for spec, array in pairs if is_reversible(spec.layout)}
        gone: dict[int, Array] = {}
        self._panels: list[tuple[Array, tuple[int, ...], str, Array]] = []
        for array in _arrays(graph):
            spec, panels = stored.get(labels[id(array)], (None, array))
            if spec is not None and spec.layout != "plain" and array.nbytes >= _LARGE and id(array) not in gone:
                gone[id(array)] = empty = np.broadcast_to(np.zeros((), array.dtype), array.shape)
                self._panels.append((empty, array.shape, spec.layout, panels))
        self._names, self._whole = graph.output_names, weakref.ref(graph)
        self._light = with_arrays(graph, graph.outputs, gone) if gone else (graph, graph.outputs)

    def graph(self) -> Graph:
        """Return the graph."""
        whole = self._whole()
        if whole is not None:
            return whole
        arrays = {}
        for empty, shape, layout, panels in self._panels:
            arrays[id(empty)] = array = unpack(panels, shape, layout)
            array.flags.writeable = False
        made, outputs = with_arrays(*self._light, arrays)
        made.output(*outputs, names=self._names)
        self._whole = weakref.ref(made)
        return made


def _prepared(graph: Graph, numerics: str, target: devices.Target) -> Graph:
    """Return a graph in the operations that code for a target is made of, which is what its file has."""
    if isinstance(target, HostTarget):
        exact = numerics == "reproducible"
        graph = with_integer_products(graph, exact, target.sums_fours, target.multiplies_unsigned)
        graph = with_coded_weights(with_selected_codes(graph))
    return fold_constants(graph)


def _staged(
    graph: Graph, device: str, target: str | None, threads: int | None, options: Options, cache: CacheOption,
    opened: artifact_file.Artifact | None = None,
) -> Model:
    """Compile a graph with host operations, for the CPU. opened: the file that it was read from."""
    from .staged import StagedModel, host_symbols

    if options.schedule.kernels:
        raise UnsupportedError(
            f"compile: graph {graph.name!r} has operations that run on the host between compiled parts, whose kernels have no "
            "common names; fix: leave schedule= out"
        )
    if device not in ("cpu", "auto") or target is not None:
        device, found = devices.resolve(device, target, "compile")
        if not isinstance(found, HostTarget):
            first = max(host_symbols(graph), key=lambda symbol: symbol.op.kind == "host")
            raise UnsupportedError(
                f"compile: {first.op.name}, {first.dtype} from {first.location}, runs on the host between compiled parts; "
                f"device {device!r} has none; fix: device='cpu', or graphs of their own for what comes before and after it"
            )

    def compiled(part: Graph) -> Model:
        return compile(part, "cpu", target=target, threads=threads, numerics=options.numerics, debug=options.debug, cache=cache)

    def assemble() -> artifact_file.Assembled:
        if opened is not None:
            opened.require_verified()
        text, arrays = stored_text(graph)
        weights = [StoredWeight(name, _dtype_name(array), array.shape, "plain", array) for name, array in arrays.items()]
        return artifact_file.assemble(graph.name, text, [], weights, {"numerics": options.numerics})

    digest = None if opened is None else opened.manifest.digest
    return StagedModel(graph, compiled, assemble, digest, cache_of(cache))


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
        constants.append(devices.stored(spec, array) if at_hand is None else at_hand)
    return constants


def _dtype_name(array: Array) -> str:
    return DType.from_numpy(array.dtype).name


def _arrays(graph: Graph) -> list[Array]:
    return [symbol.attrs["value"] for symbol in graph.symbols if symbol.op.name in ("constant", "weight")]


def _compiled(
    graph: Graph,
    target: devices.Target,
    options: Options,
    cache: CacheOption,
    store: CompileCache | None,
    labels: Mapping[int, str],
) -> CompiledGraph:
    key = compile_key(graph, target, options.numerics, options.debug, str(options.schedule), options.threads)

    texts = _texts(lambda: graph, target, replace(options, debug=False))
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

        backend = _backend(target)
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


def _texts(graph: Callable[[], Graph], target: devices.Target, options: Options, locations: bool = True) -> BlockTexts:
    """Return the block programs as text, made when they are read; `locations` adds the user's lines."""

    def make() -> dict[str, str]:
        from ..lowering.pipeline import block_texts

        with default_modes():
            return block_texts(graph(), _backend(target), options, locations)

    return BlockTexts(make)


def _tiled(graph: Graph, target: devices.Target, options: Options) -> Tiled:
    """Return the block programs of a graph and their launches."""
    from ..lowering.pipeline import tile_graph

    with default_modes():
        return tile_graph(graph, _backend(target), options)


def _backend(target: devices.Target) -> Backend[Any]:
    if isinstance(target, HostTarget):
        from ..lowering.host_stages import HostBackend

        return HostBackend(target)
    from ..lowering.gpu_stages import NvptxBackend

    return NvptxBackend(target)


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
        targets: "cpu" for CPUs such as this machine's, "x86-64-v3" and "x86-64-v4" for all that have AVX2 and AVX-512, and GPUs
            by name, such as "sm_80" and "sm_90a". None of them has to be there. On others, and wherever the file is not
            trusted, `load` compiles the graph anew.
        numerics, cache: what `compile` takes.

    A graph with host operations is written without code: loading compiles its parts. Raises what `compile` raises.
    """
    if not isinstance(graph, Graph) or not graph.finished:
        raise UserError("save: expected a graph with outputs; fix: call graph.output(…) first, and pass the graph")
    options = Options(checked_numerics(numerics, "save"), threads=planned_threads(resolve_threads(None)))
    resolved = devices.named_targets(targets)
    if needs_host(graph):
        on_hosts = all(isinstance(target, HostTarget) for target in resolved)
        compile(graph, "cpu" if on_hosts else "ptxsim", numerics=numerics, cache=cache).save(path)
    else:
        metadata = {name: value for target in resolved for name, value in metadata_of(options, target).items()}
        first = next((target for target in resolved if isinstance(target, HostTarget)), resolved[0])
        graph = _prepared(graph, numerics, first)  # a file has one graph
        _assembled(graph, [(target, options) for target in resolved], metadata, cache).write(path)


def save_for(assembled: artifact_file.Assembled, path: str | os.PathLike[str], targets: Sequence[str]) -> None:
    """Write a model's file with code for other targets than it has, compiled with its numerics and schedules.

    Raises what `save` raises.
    """
    resolved = devices.named_targets(targets)
    opened = artifact_file.load(assembled.content(), digest=assembled.digest, verify=False)
    graph, _ = _read(opened, None)
    options = [(target, _fitting(opened, graph, target)) for target in resolved]
    _assembled(graph, options, opened.manifest.metadata, cache=True).write(path)


def _assembled(
    graph: Graph, targets: Sequence[tuple[devices.Target, Options]], metadata: Mapping[str, str], cache: CacheOption
) -> artifact_file.Assembled:
    """Return the content of a graph's file with code for several targets, each compiled with options of its own."""
    labels, store = constant_labels(graph), cache_of(cache)
    made: list[CompiledGraph] = []
    for target, options in targets:
        texts = _texts(lambda: graph, target, options, locations=False)
        made.append(replace(_compiled(graph, target, options, cache, store, labels), ttir=texts))
    hosts = [each for each, (target, _) in zip(made, targets, strict=True) if isinstance(target, HostTarget)]
    packed = hosts[0] if hosts else made[0]
    text, weights, names = _stored_graph(graph, packed, _constants(graph, packed, {}))
    return artifact_file.assemble(graph.name, text, [_named(each, names) for each in made], weights, metadata)


def _named(compiled: CompiledGraph, weights: Mapping[str, str]) -> CompiledGraph:
    """Return code whose constants say which weight of its file they are. weights: their names, by those of the constants."""
    constants = tuple([replace(spec, weight=weights.get(spec.name, "")) for spec in compiled.constants])
    return replace(compiled, constants=constants)


def _stored_graph(
    graph: Graph, compiled: CompiledGraph, constants: Sequence[Array]
) -> tuple[str, list[StoredWeight], dict[str, str]]:
    """Return a graph as text, its arrays as the code reads them, where it does, and the weight that each constant is.

    Small arrays stand in the text; those that the code reads are weights as well.
    """
    text, by_digest = stored_text(graph)
    labels, identities = constant_labels(graph), {id(array): digest for digest, array in by_digest.items()}
    read = {spec.name for spec in compiled.constants}
    names: dict[str, str] = {}
    for array in _arrays(graph):
        label, digest = labels[id(array)], identities.get(id(array))
        if digest is None and label in read:
            digest = str(array_digest(array).hexdigest())
            by_digest.setdefault(digest, array)
        if digest is not None:
            names[label] = digest
    pairs = zip(compiled.constants, constants, strict=True)
    stored: dict[str, tuple[str, Array]] = {}
    for spec, array in pairs:
        digest = names[spec.name]
        kept = by_digest[digest]  # which may be another one of equal bytes
        if is_reversible(spec.layout) and (spec.dtype, spec.shape) == (_dtype_name(kept), kept.shape):
            stored[digest] = spec.layout, array
    weights = []
    for digest, array in by_digest.items():
        layout, kept = stored.get(digest, ("plain", array))
        weights.append(StoredWeight(digest, _dtype_name(array), array.shape, layout, kept))
    return text, weights, names


def saved_graph(path: str | os.PathLike[str], budget: Budget | None = None) -> Graph:
    """Return the graph of a file that `Model.save` or `save` wrote; what it may need at a run is bounded."""
    return _read(artifact_file.load(path), budget)[0]


def require_budget(budget: object) -> None:
    """Raise `UserError` for what is no budget."""
    if not isinstance(budget, Budget):
        raise UserError(f"load: budget is {budget!r:.60}; fix: budget=joinery.Budget(bytes=2**40)")


def _limits(budget: Budget | None, trusted: bool) -> Budget | None:
    return (None if trusted else Budget()) if budget is None else budget


def code_of_file(
    opened: artifact_file.Artifact, device: str, resolved: devices.Target, target: str | None, threads: int | None,
    cache: CacheOption, store: CompileCache | None, budget: Budget | None, trusted: bool,
) -> Model | tuple[CompiledGraph, list[Array], bool]:
    """Return the code for a file's graph, its own or compiled anew, the arrays that it reads, and whether it checks a budget; a
    whole model where the graph has operations of the host.

    Raises `UserError` for a graph beyond its budget, and for code that belongs to another graph.
    """
    graph, plain = _read(opened, _limits(budget, trusted))
    if needs_host(graph):
        options = options_of(opened, resolved, resolve_threads(threads))
        return _staged(graph, device, target, threads, options, cache, opened)
    if opened.compiled is None or budget is not None:  # the code in a file has no checks of a budget
        options = _fitting(opened, graph, resolved, resolve_threads(threads))
        compiled = _compiled(graph, resolved, options, cache, store, constant_labels(graph))
    else:
        compiled = opened.compiled
        _check_code(opened.source, graph, compiled)
    addresses = {entry.name: (address(plain[entry.name]), entry.shape) for entry in opened.manifest.weights}
    ready = {(*addresses[entry.name], entry.layout): opened.weights[entry.name] for entry in opened.manifest.weights}
    return compiled, _constants(graph, compiled, ready), bool(graph.limits)


def archive_of_file(
    opened: artifact_file.Artifact, code: CompiledGraph, resolved: devices.Target, cache: CacheOption,
    store: CompileCache | None, is_limited: bool, threads: int,
) -> Archive:
    """Return what is saved of a model that was opened: code without checks of a budget, and what the file has.

    Code for other targets stays, if the file was trusted. threads: those of a call of the model. Raises `UserError` where the
    file is not what its digest stands for.
    """
    opened.require_verified()
    kept = code is opened.compiled and not is_limited
    options = options_of(opened, resolved, None if kept else threads)
    own = (_schedule_key(resolved), *([_THREADS_KEY] if isinstance(resolved, HostTarget) else []))
    others = {name: value for name, value in opened.manifest.metadata.items() if opened.code and (kept or name not in own)}
    metadata = {**others, **metadata_of(options, resolved)}
    weights = [
        StoredWeight(entry.name, entry.dtype, entry.shape, entry.layout, opened.weights[entry.name])
        for entry in opened.manifest.weights
    ]
    if kept:
        return opened.code, opened.graph_text, weights, metadata
    if is_limited or any(not spec.weight for spec in code.constants):
        again, _ = _read(opened, None)
        labels = constant_labels(again)
        if is_limited:
            code = _compiled(again, resolved, _fitting(opened, again, resolved, threads), cache, store, labels)
        stored = {entry.name for entry in opened.manifest.weights}
        digests = {labels[id(array)]: str(array_digest(array).hexdigest()) for array in _arrays(again)}
        code = _named(code, {label: name for label, name in digests.items() if name in stored})
    if isinstance(code.ttir, BlockTexts):  # of code that was compiled here
        options = _fitting(opened, _read(opened, None)[0], resolved, threads)
        texts = _texts(lambda: _read(opened, None)[0], resolved, options, locations=False)
        code = replace(code, ttir=texts)
    rest = [each for each in opened.code if each.target != code.target]
    return [code, *rest], opened.graph_text, weights, metadata


def tiled_of_file(
    opened: artifact_file.Artifact, resolved: devices.Target, budget: Budget | None, trusted: bool, threads: int | None
) -> Tiled:
    """Return the block programs of a file's graph and their launches. threads: as for `options_of`."""
    graph = _read(opened, _limits(budget, trusted))[0]
    return _tiled(graph, resolved, _fitting(opened, graph, resolved, threads))


def _read(opened: artifact_file.Artifact, budget: Budget | None) -> tuple[Graph, dict[str, Array]]:
    """Return the graph of a file, and its weights in the plain layout, by name."""
    plain = {entry.name: opened.plain_weight(entry.name) for entry in opened.manifest.weights}
    try:
        return stored_graph(opened.graph_text, plain, budget), plain
    except UserError as error:
        raise UserError(f"artifact {opened.source}: {error}") from error


def metadata_of(options: Options, target: devices.Target) -> dict[str, str]:
    """Return what a file says of the options that its model is compiled with for a target."""
    found = {"numerics": options.numerics}
    if options.schedule.kernels:
        found[_schedule_key(target)] = str(options.schedule)
    if isinstance(target, HostTarget) and options.threads != FEW_THREADS:
        found[_THREADS_KEY] = str(options.threads)
    return found


_THREADS_KEY = "cpu_threads"


def options_of(opened: artifact_file.Artifact, target: devices.Target, threads: int | None = None) -> Options:
    """Return the options that a file's model is compiled with for a target.

    threads: those of calls that code is made for here; None for code that the file has, which it says the number of. Raises
    `UserError` for others than there are.
    """
    metadata = opened.manifest.metadata
    numerics = checked_numerics(metadata.get("numerics", "strict"), f"artifact {opened.source}")
    written = metadata.get(_THREADS_KEY, str(FEW_THREADS))
    if not written.isdecimal() or len(written) > 4 or not 1 <= int(written) <= MAX_THREADS:
        raise UserError(f"artifact {opened.source}: {_THREADS_KEY} is {written!r:.60}; fix: save it anew")
    planned = planned_threads(int(written) if threads is None else threads)
    schedule = ModelSchedule.from_text(metadata.get(_schedule_key(target), ""))
    return Options(numerics, schedule=schedule, threads=planned)


def _fitting(
    opened: artifact_file.Artifact, graph: Graph, target: devices.Target, threads: int | None = None
) -> Options:
    """Return the options of a file, without a schedule that does not fit its graph: kernels of another version have other
    names. A warning says so. threads: as for `options_of`."""
    options = options_of(opened, target, threads)
    if options.schedule.kernels:
        try:
            _tiled(graph, target, options)
        except ScheduleError as error:
            warnings.warn(f"joinery: the schedule in {opened.source} is left out: {error}", stacklevel=2)
            return replace(options, schedule=EMPTY)
    return options


def _schedule_key(target: devices.Target) -> str:
    return "cpu_schedule" if isinstance(target, HostTarget) else "gpu_schedule"


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


__all__: Sequence[str] = ["compile", "save", "saved_graph"]
