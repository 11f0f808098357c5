"""Defines a run over files: what is computed, in which blocks, and how a worker computes one of them."""

from __future__ import annotations

import dataclasses
import os
import pickle
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .... import __version__
from ....graph.dims.dim import Dim, evaluate_dim
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ....promotion.errors import UserError
from ....runtime.model.inputs import InputSpec
from ..blocks import require_dtype, run_block
from ..failures import RunError
from ..references import ModelReference, absolute_path, foreign
from ..signatures import Signature
from .columns import opened, read_rows
from .formats import Tensor, is_of_numpy
from .outputs import Output, block_digest, output_kind
from .padding import Lists, calls_of, lists_of, padded_inputs, require_lengths
from .sources import Column, Ragged, Source

_MAX_BLOCKS = 100_000_000
"""The client has a byte for each, and the journal a line."""
_TRIED_CALLS = 4096
"""So many rows at most are tried for a call of a model that refuses more."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run, as every worker gets it.

    Attributes:
        reference: the model.
        sources: where inputs that have rows come from; all have `rows` rows.
        whole: where inputs without the batch dim come from, which every call takes whole.
        masks: (mask, input): inputs that are 1 where another one has values, and 0 where it is padded.
        mask_dtypes: of each of them.
        output: where results go.
        batch: rows of a call of the model.
        width: what rows of different lengths are padded to; None for the longest of each call.
        lists: the inputs whose rows have different lengths.
        target: what code must have been made for, None for anything.
        host: the machine of the client, which asks its disk for blocks that were written there.
    """

    reference: ModelReference
    sources: tuple[Source, ...]
    whole: tuple[Source, ...]
    masks: tuple[tuple[str, str], ...]
    output: Output
    batch: int
    width: int | None = None
    lists: tuple[Lists, ...] = ()
    target: str | None = None
    host: str = ""
    mask_dtypes: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        return -(-self.output.rows // self.output.block)

    def rows_of(self, number: int) -> tuple[int, int]:
        """Return the first row of a block and the one after its last."""
        return self.output.store.bounds(number)

    def require_same_inputs(self) -> None:
        """Raise `InputChanged` if files of inputs have changed since the run was planned, back to what they were or not."""
        for source in (*self.sources, *self.whole):
            source.require_undisturbed()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes]]:
        # As bytes, since another version may have other fields and classes, and a worker of Dask ends where it cannot read a
        # message.
        fields = tuple([getattr(self, each.name) for each in dataclasses.fields(self)])
        return _restored, (__version__, pickle.dumps(fields, pickle.HIGHEST_PROTOCOL))


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """A run that another joinery version has sent, and that nobody can compute here."""

    version: str
    content: bytes

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes]]:
        return _restored, (self.version, self.content)


def _restored(version: str, content: bytes) -> Job | ForeignJob:
    """Make a job again where it has arrived."""
    return Job(*pickle.loads(content)) if version == __version__ else ForeignJob(version, content)


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """What is noted of a block that is written: the SHA-256 of its results, what computed it, and whether the disk has it."""

    number: int
    digest: str
    target: str
    seconds: float
    worker: str
    durable: bool = False


def run_job_block(job: Job | ForeignJob, number: int) -> BlockRecord:
    """Read, compute and write one block.

    Raises `RunError` where nothing can be read or written at all, where files of inputs have changed before all was computed,
    and for a job of another joinery version.
    """
    if isinstance(job, ForeignJob):
        raise foreign(job.version)
    began = time.monotonic()
    start, stop = job.rows_of(number)
    columns = {source.name: read_rows(source, start, stop) for source in job.sources}
    fixed = {source.name: _everything(source) for source in job.whole}
    results = {
        tensor.name: np.empty((stop - start, *tensor.item), _numpy(tensor)) for tensor in job.output.tensors
    }
    target = ""
    masks = [(mask, of, DType(dtype).numpy) for (mask, of), dtype in zip(job.masks, job.mask_dtypes, strict=True)]
    require_lengths(job.lists, columns, start, job.batch, job.width)
    for rows in calls_of(columns, stop - start, job.batch, job.width):
        inputs = padded_inputs(columns, rows, job.width, masks, job.lists)
        found = run_block(job.reference, {**fixed, **inputs}, job.target)
        target = found.target
        for name, array in found.outputs.items():
            results[name][rows] = array
    for source in job.sources:  # arrays of .npy are mapped, and read by the calls
        source.require_unchanged(opened(source).files(start, stop))
    for source in job.whole:
        source.require_unchanged(opened(source).files(0, opened(source).rows))
    job.output.write(number, results)
    durable = job.host != host_name()
    if durable:
        job.output.sync([number])
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return BlockRecord(number, block_digest(results), target, time.monotonic() - began, worker, durable)


@lru_cache(maxsize=1)
def host_name() -> str:
    """Return what tells this machine, since it was started, from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()} {os.name}"


def _everything(source: Source) -> Array:
    found = read_rows(source, 0, opened(source).rows)
    assert not isinstance(found, Ragged)
    return found


def _numpy(tensor: Tensor) -> np.dtype[np.generic]:
    return DType(tensor.dtype).numpy


# --- planning


def plan_job(
    reference: ModelReference, model: Signature, sources: Sequence[Source], masks: Sequence[tuple[str, str]], output: str,
    *, block: int, batch: int | None, width: int | None, independent: bool,
) -> Job:
    """Return the run of a model over sources, after checking all that can be known before.

    Raises `UserError` for inputs that do not fit the model, and for a graph that cannot be computed in blocks of rows.
    """
    what = "batch"
    model.require_known_sizes(what)
    model.require_inputs([*[source.name for source in sources], *[mask for mask, _ in masks]], what)
    specs = {spec.name: spec for spec in model.inputs}
    sources = [_as_input(source, specs[source.name]) for source in sources]
    columns = {source.name: opened(source) for source in sources}
    dim = _batch_dim(model, what)
    with_rows = [source for source in sources if _has_rows(specs[source.name], dim, what)]
    if not with_rows:
        raise UserError(f"{what}: no file has the rows {dim!r} of model {model.name!r}; fix: --input for one of its inputs")
    alongs = (model.believed if independent else model.cut_along)(dim, what)
    rows = columns[with_rows[0].name].rows
    sizes: dict[str, int | None] = {dim: rows}
    for source in sources:
        _fit(specs[source.name], columns[source.name], source, sizes, width, what)
    ragged = [source.name for source in with_rows if columns[source.name].item is None]
    if width is not None and not ragged:
        raise UserError(
            f"{what}: --pad-to {width} is for lists of different lengths, and all files have rows of one shape; fix: leave it "
            "out, or a column of lists in a .parquet"
        )
    for mask, of in masks:
        if of not in ragged or not _has_zero_and_one(specs[mask].dtype) or specs[mask].shape != specs[of].shape:
            raise UserError(
                f"{what}: --mask {mask}={of} needs numbers or bools of the shape of {of}, whose rows have different "
                f"lengths; {mask} is {specs[mask].text}" + ("" if of in ragged else _why_no_mask(of, columns))
            )
    for source in sources:
        if source not in with_rows and columns[source.name].item is None:
            raise UserError(
                f"{what}: {source} has lists of any length, input {specs[source.name].text} has no rows {dim!r}; fix: a file "
                "with rows of one shape"
            )
    if (blocks := -(-rows // block)) > _MAX_BLOCKS:
        raise UserError(
            f"{what}: {rows} rows are {blocks} blocks of {block}, and a run has {_MAX_BLOCKS} at most; fix: a larger --block"
        )
    tensors = tuple([_tensor(spec, alongs[spec.name].axis, dim, sizes, what) for spec in model.outputs])
    kept = [source for source in sources if source not in with_rows]
    path = absolute_path(output, f"--output {output}")
    made = Output(output_kind(output, tensors), path, tensors, rows, block)
    for source in sources:
        _require_outside(made.path, source, what)
    calls = _rows_of_calls(model, sizes, dim, rows, block, batch, min(block, 64) if ragged else block, what)
    lists = lists_of(model, [specs[name] for name in ragged], masks)
    dtypes = tuple([specs[mask].dtype.name for mask, _ in masks])
    return Job(reference, tuple(with_rows), tuple(kept), tuple(masks), made, calls, width, lists, mask_dtypes=dtypes)


def _rows_of_calls(
    model: Signature, sizes: Mapping[str, int | None], dim: str, rows: int, block: int, wanted: int | None, default: int,
    what: str,
) -> int:
    """Return how many rows a call of the model has: those that are wanted, or as many as its checks on sizes accept.

    Raises `UserError` where they refuse those that are wanted, or any number.
    """
    known = {name: {size} for name, size in sizes.items() if size is not None}
    first = default if wanted is None else wanted

    def refused(count: int) -> tuple[str, list[str]] | None:
        return model.refusal({**known, dim: _call_sizes(rows, block, count)})

    refusal = refused(first)
    if refusal is None:
        return first
    fits = next((count for count in range(min(first, block, _TRIED_CALLS), 0, -1) if not refused(count)), None)
    if fits is not None and wanted is None:
        return fits
    others = f"other files, or a --block and --batch by which calls of {rows} rows satisfy it"
    raise UserError(f"{what}: {refusal[0]}; fix: {others if fits is None else f'--batch {fits}'}")


def _call_sizes(rows: int, block: int, batch: int) -> set[int]:
    """Return the numbers of rows that calls have, those at the ends of blocks as well."""
    found: set[int] = set()
    for count in ({block} if rows >= block else set()) | {rows % block}:
        found |= ({batch} if count >= batch else set()) | {count % batch}
    return found - {0}


def _has_zero_and_one(dtype: DType) -> bool:
    """Tell whether a mask of a dtype can be made: float8_e8m0fnu has no zero."""
    return not dtype.is_complex and np.array_equal(np.arange(2).astype(dtype.numpy).astype(np.int64), [0, 1])


def _as_input(source: Source, spec: InputSpec) -> Source:
    """Return a source whose lists have the length that an input has in all calls, and whose bytes the dtype, if it has such."""
    dtype, expected = opened(source).dtype, spec.dtype.numpy
    is_bytes = dtype.kind == "V" and dtype.names is None and dtype.isbuiltin != 2  # which ml_dtypes' are
    if is_bytes and not is_of_numpy(spec.dtype) and dtype.itemsize == expected.itemsize:
        return replace(source, raw=spec.dtype.name)
    length = spec.shape[1] if len(spec.shape) == 2 else None
    if not isinstance(length, int) or opened(source).item is not None:
        return source
    return replace(source, length=length)


def _require_outside(path: str, source: Source, what: str) -> None:
    """Raise `UserError` for an output among the files of an input, which it would change."""
    folder, parent = source.folder, os.path.realpath(os.path.dirname(path))
    if folder is not None and Path(parent).is_relative_to(os.path.realpath(folder)):
        raise UserError(
            f"{what}: --output {path} is in {folder}, which is input {source.name!r}: its files would change while they are "
            "read; fix: another folder for the output"
        )


def _why_no_mask(of: str, columns: Mapping[str, Column]) -> str:
    return f", and {of} has rows of one length" if of in columns else f", and no --input has the name {of}"


def _batch_dim(model: Signature, what: str) -> str:
    """Return the dim that inputs have along their first axis, and none along another one."""
    names = {extent.name for spec in model.inputs for extent in spec.shape[:1] if isinstance(extent, Dim) and extent.name}
    if len(names) > 1:
        others = [extent for spec in model.inputs for extent in spec.shape[1:] if isinstance(extent, Dim)]
        names -= {name for extent in others for name in extent.symbols()}
    if len(names) != 1:
        raise UserError(
            f"{what}: model {model.name!r} takes {', '.join(spec.text for spec in model.inputs)}; fix: one whose inputs have "
            "rows of one named size along their first axis"
        )
    return names.pop()


def _has_rows(spec: InputSpec, dim: str, what: str) -> bool:
    at = [axis for axis, extent in enumerate(spec.shape) if isinstance(extent, Dim) and dim in extent.symbols()]
    if at not in ([], [0]):
        raise UserError(f"{what}: input {spec.text} has {dim!r} along axis {at[-1]}; fix: a model with rows along axis 0 alone")
    return bool(at)


def _fit(
    spec: InputSpec, column: Column, source: Source, sizes: dict[str, int | None], width: int | None, what: str
) -> None:
    """Raise `UserError` for a file that does not fit an input; note the sizes of dims, None for those that vary."""
    require_dtype(spec, column.dtype, f"{what}: {source}")
    if column.item is None:
        if len(spec.shape) != 2 or not isinstance(spec.shape[1], Dim):
            raise UserError(
                f"{what}: {source} has lists of any length, input {spec.text} has not; fix: a file with rows of one shape"
            )
        given: tuple[int | None, ...] = (column.rows, width)
    else:
        given = () if column.is_number else (column.rows, *column.item)
    if len(given) != len(spec.shape):
        found = f"{source} is a number" if column.is_number else f"{source} has {len(given)}, {given}"
        fix = "a file with a number, as numpy.save(path, array[0]) writes" if not spec.shape else "an array with these axes"
        raise UserError(f"{what}: input {spec.text} has {len(spec.shape)} axes, {found}; fix: {fix}")
    for axis, (extent, size) in enumerate(zip(spec.shape, given, strict=True)):
        if isinstance(extent, int):
            if size != extent:
                raise UserError(
                    f"{what}: axis {axis} of input {spec.text} is {size} in {source}; fix: a file where it is {extent}"
                )
        elif (name := extent.name) is not None and sizes.setdefault(name, size) != size:
            raise UserError(f"{what}: {name} is {sizes[name]} in other files, {size} in {source}; fix: files of equal sizes")


def _tensor(spec: InputSpec, axis: int, dim: str, sizes: Mapping[str, int | None], what: str) -> Tensor:
    if axis == 0 and isinstance(spec.shape[0], Dim) and spec.shape[0].name != dim:
        raise UserError(
            f"{what}: output {spec.text} has {spec.shape[0]} rows, several for each of {dim!r}; fix: give them an axis of "
            f"their own in the graph, joinery.reshape(y, ({dim}, …))"
        )
    if axis != 0 or not isinstance(spec.shape[0], Dim) or spec.shape[0].name != dim:
        raise UserError(f"{what}: output {spec.text} has its rows {dim!r} along axis {axis}; fix: transpose it in the graph")
    known = {name: size for name, size in sizes.items() if size is not None}
    item = []
    for extent in spec.shape[1:]:
        unknown = sorted(extent.symbols() - known.keys()) if isinstance(extent, Dim) else []
        if unknown:
            raise UserError(
                f"{what}: output {spec.text} has {unknown[0]!r}, which differs between rows; fix: --pad-to N for rows alike"
            )
        item.append(evaluate_dim(extent, known))
    return Tensor(spec.name, spec.dtype.name, tuple(item))


__all__ = ["BlockRecord", "Job", "RunError", "host_name", "plan_job", "run_job_block"]
