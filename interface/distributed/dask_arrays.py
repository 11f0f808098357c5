"""Applies a model to arrays of Dask, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ...graph.dims.dim import Dim, evaluate_dim
from ...promotion.arrays import Array
from ...promotion.errors import UserError
from .blocks import output_shapes, require_dtype, require_no_mask, run_block
from .extras import required
from .independence import Along
from .references import ModelReference, target_here
from .signatures import Signature, require_flag, signature


def map_blocks(
    reference: ModelReference,
    arrays: Sequence[Any],
    named: Mapping[str, Any],
    independent: Iterable[str],
    same_target: bool,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """Implement `joinery.distributed.map_blocks`.

    labels: what xarray calls the axes of inputs, where arrays are its.
    """
    what = "map_blocks" if labels is None else "apply"
    da = required("dask.array", what)
    require_flag(same_target, "same_target", what)
    model = signature(reference, what)
    model.require_known_sizes(what)
    given = _given(model, arrays, named, what)
    foreign = {name for name, array in given.items() if not hasattr(array, "rechunk")} if labels is None else set()
    for spec in model.inputs:
        _require_array(spec.name, given[spec.name], what)
        require_no_mask(spec.name, getattr(given[spec.name], "_meta", given[spec.name]), what)
        given[spec.name] = _of_dask(da, given[spec.name])
        _require_sizes(spec.name, given[spec.name], what)
        require_dtype(spec, given[spec.name].dtype, what)
    dims, shapes = output_shapes(model.inputs, model.outputs, {name: array.shape for name, array in given.items()}, what)
    chunks = _cut_dims(model, given, foreign, labels, what)
    known = model.named_dims(independent, what)
    _require_accepted(model, foreign, dims, chunks, labels, what)
    alongs = {dim: (model.believed if dim in known else model.cut_along)(dim, what) for dim in chunks}
    whole = _outputs_of_blocks(da, reference, model, given, tuple(chunks), target_here(reference) if same_target else None)
    results = tuple([
        _output(da, whole, model, number, dims, chunks, alongs, shapes[spec.name]) for number, spec in enumerate(model.outputs)
    ])  # fmt: skip
    return results[0] if len(results) == 1 else results


def _given(model: Signature, arrays: Sequence[Any], named: Mapping[str, Any], what: str) -> dict[str, Any]:
    names = [spec.name for spec in model.inputs]
    if len(arrays) > len(names) or any(name in named for name in names[: len(arrays)]):
        raise UserError(f"{what}: model {model.name!r} takes {', '.join(names)}, each once, by position or by name")
    given = dict(zip(names, arrays, strict=False)) | dict(named)
    model.require_inputs(given, what)
    return given


def _require_array(name: str, array: object, what: str) -> None:
    """Raise `UserError` for a table or a task of Dask, which have rows and columns of their own."""
    kind, library = type(array).__name__, type(array).__module__.partition(".")[0]
    is_task = library == "dask" and kind.startswith("Delayed")  # which have any attribute
    is_table = library in ("pandas", "polars", "pyarrow", "dask", "dask_expr") and not hasattr(array, "dtype")
    if is_task or is_table:
        fix = "dask.array.from_delayed" if is_task else "numpy.asarray, or to_dask_array(lengths=True)"
        raise UserError(f"{what}: input {name!r} is a {kind} of {library}; fix: an array, as {fix} makes one")


def _of_dask(da: Any, array: Any) -> Any:
    """Return an array of Dask: of one block, unless the given one has chunks, as those of Dask, Zarr and HDF5 have."""
    if type(array).__module__.partition(".")[0] == "xarray":
        array = getattr(array, "data", array)
    if hasattr(array, "dask"):
        return array
    return da.asarray(array, chunks=getattr(array, "shards", None) or getattr(array, "chunks", None) or -1)


def _require_sizes(name: str, array: Any, what: str) -> None:
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise UserError(f"{what}: input {name!r} has chunks of unknown size; fix: {name}.compute_chunk_sizes()")


def _cut_dims(
    model: Signature, given: Mapping[str, Any], foreign: Set[str], labels: Mapping[str, Sequence[str]] | None, what: str
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the blocks along each dim that is cut into several.

    foreign: inputs whose arrays were none of Dask, and have no `rechunk`.
    """
    cut: dict[str, tuple[int, ...]] = {}
    origins: dict[str, str] = {}
    for spec in model.inputs:
        for axis, (extent, sizes) in enumerate(zip(spec.shape, given[spec.name].chunks, strict=True)):
            if len(sizes) == 1:
                continue
            if not isinstance(extent, Dim) or extent.name is None:
                one = f"rechunk({{{axis}: -1}})" if labels is None else f"chunk({{{labels[spec.name][axis]!r}: -1}})"
                array = f"dask.array.asarray({spec.name})" if spec.name in foreign else spec.name
                raise UserError(
                    f"{what}: axis {axis} of input {spec.text} has the size {extent} in every block, but the array has blocks "
                    f"of {_shown(sizes)}; fix: {array}.{one}"
                )
            cut.setdefault(extent.name, sizes)
            origins.setdefault(extent.name, f"axis {axis} of {spec.name!r}")
    for spec in model.inputs:
        for axis, (extent, sizes) in enumerate(zip(spec.shape, given[spec.name].chunks, strict=True)):
            name = next((name for name in extent.symbols() if name in cut), None) if isinstance(extent, Dim) else None
            if name is not None and (str(extent) != name or sizes != cut[name]):
                raise UserError(
                    f"{what}: axis {axis} of input {spec.text} has blocks of {_shown(sizes)}, {origins[name]} has blocks of "
                    f"{_shown(cut[name])} along {name!r}; fix: rechunk both alike"
                )
    return cut


def _require_accepted(
    model: Signature, foreign: Set[str], dims: Mapping[str, int], chunks: Mapping[str, tuple[int, ...]],
    labels: Mapping[str, Sequence[str]] | None, what: str,
) -> None:
    """Raise `UserError` where the graph's checks refuse the sizes of a block, before any is computed."""
    whole = {name: {size} for name, size in dims.items()}
    found = model.refusal({**whole, **{name: set(sizes) for name, sizes in chunks.items()}})
    if found is None:
        return
    refusal, names = found
    dims_of = [(spec.name, axis, str(extent)) for spec in model.inputs for axis, extent in enumerate(spec.shape)]
    dim = next((name for name in names if name in chunks), names[0] if names else "")
    at = next(((name, axis) for name, axis, extent in dims_of if extent == dim), None)
    if at is None:
        raise UserError(f"{what}: {refusal}; fix: arrays whose sizes satisfy it")
    name, axis = at
    one = f"rechunk({{{axis}: N}})" if labels is None else f"chunk({{{labels[name][axis]!r}: N}})"
    array = f"dask.array.asarray({name})" if name in foreign else name
    raise UserError(f"{what}: {refusal}; fix: {array}.{one} with an N that satisfies it in all blocks, the last one as well")


def _shown(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else ", ".join(map(str, sizes[:3])) + (", …" if len(sizes) > 3 else "")


def _outputs_of_blocks(
    da: Any, reference: ModelReference, model: Signature, given: Mapping[str, Any], cut: tuple[str, ...], target: str | None
) -> Any:
    """Return an array with one element per block: the tuple of its outputs."""
    operands: list[Any] = []
    for spec in model.inputs:
        labels = [
            extent.name if isinstance(extent, Dim) and extent.name in cut else f"{spec.name} {axis}"
            for axis, extent in enumerate(spec.shape)
        ]
        operands += [given[spec.name], labels]
    return da.blockwise(
        _call, cut, *operands, reference=reference, names=tuple([spec.name for spec in model.inputs]), target=target,
        concatenate=True, align_arrays=False, dtype=object, meta=np.empty((0,) * len(cut), object), name=None,
        token=f"joinery-{reference.name}",
    )  # fmt: skip


def _call(*arrays: Array, reference: ModelReference, names: tuple[str, ...], target: str | None) -> tuple[Array, ...]:
    for name, array in zip(names, arrays, strict=True):
        require_no_mask(name, array, "map_blocks")
    result = run_block(reference, dict(zip(names, map(np.asarray, arrays), strict=True)), target)
    return tuple(result.outputs.values())


def _output(
    da: Any, whole: Any, model: Signature, number: int, dims: Mapping[str, int], chunks: Mapping[str, tuple[int, ...]],
    found: Mapping[str, Mapping[str, Along]], shape: tuple[int, ...],
) -> Any:
    """Return the array of one output, whose blocks are one element of each block's tuple."""
    spec = model.outputs[number]
    alongs = {dim: along[spec.name] for dim, along in found.items()}
    by_axis = {along.axis: dim for dim, along in alongs.items()}
    labels = [by_axis.get(axis, f"axis {axis}") for axis in range(len(shape))]
    sizes = {dim: tuple([size * evaluate_dim(alongs[dim].inner, dims) for size in chunks[dim]]) for dim in chunks}
    new_axes = {label: size for label, size in zip(labels, shape, strict=True) if label not in chunks}
    return da.blockwise(
        _select, labels, whole, tuple(chunks), number=number, new_axes=new_axes, adjust_chunks=sizes, align_arrays=False,
        dtype=spec.dtype.numpy, meta=np.empty((0,) * len(shape), spec.dtype.numpy), token=f"{model.name}-{spec.name}",
    )  # fmt: skip


def _select(outputs: tuple[Array, ...], *, number: int) -> Array:
    return outputs[number]
