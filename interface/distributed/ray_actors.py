"""Makes the class that Ray keeps in its actors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ...graph.dims.dim import Dim
from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ...runtime.model.inputs import InputSpec
from .blocks import require_no_mask, run_block
from .references import ModelReference
from .signatures import signature


class BlockActor:
    """An actor that opens a model when it starts, and runs it on batches: columns by name in, outputs by name out.

    Columns that are no inputs of the model are handed on, so that rows keep their keys.
    """

    reference: ClassVar[ModelReference]

    def __init__(self) -> None:
        self._specs = [InputSpec.of(spec) for spec in self.reference().inputs]
        self._inputs = [spec.name for spec in self._specs]
        self._outputs = {spec.name for spec in self.reference().outputs}

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Any]:
        """Return the outputs of a batch, and its other columns."""
        if not hasattr(batch, "items"):  # a table of Arrow, or the rows of `map`
            raise UserError(
                f"ray_actor: a batch is a {type(batch).__name__}, not columns by name; fix: map_batches with "
                'batch_format="numpy", the default'
            )
        missing = [name for name in self._inputs if name not in batch]
        others = {name: column for name, column in batch.items() if name not in self._inputs}
        if missing or self._outputs & set(others):
            problem = f"lack {missing}" if missing else f"have the names of outputs, {sorted(self._outputs & set(others))}"
            raise UserError(
                f"ray_actor: the batch's columns {sorted(batch)} {problem}; model {self.reference.name!r} takes "
                f"{', '.join(self._inputs)}; fix: dataset.rename_columns"
            )
        result = run_block(self.reference, {spec.name: _rows(spec, batch[spec.name]) for spec in self._specs})
        return {**others, **result.outputs}


def _rows(spec: InputSpec, column: Any) -> Array:
    """Return a column as one array: Ray gives lists of Parquet as an array of objects, one for each row."""
    require_no_mask(spec.name, column, "ray_actor")
    array = np.asarray(column)
    if array.dtype != object:
        return array
    for row in array:
        require_no_mask(spec.name, row, "ray_actor")
    rows = [np.asarray(row) for row in array]
    if not rows:
        return np.empty([extent if isinstance(extent, int) else 0 for extent in spec.shape], spec.dtype.numpy)
    wrong = next((number for number, row in enumerate(rows) if row.shape != rows[0].shape or row.dtype == object), None)
    if wrong is not None:
        raise UserError(
            f"ray_actor: row {wrong} of a batch's column {spec.name!r} has the shape {rows[wrong].shape} and elements of "
            f"{rows[wrong].dtype}, row 0 has {rows[0].shape}, and input {spec.text} takes one array of numbers; fix: rows of "
            "one length without nulls, or joinery batch, which pads"
        )
    return np.stack(rows)


def actor_class(reference: ModelReference, independent: Iterable[str]) -> type[BlockActor]:
    """Implement `joinery.distributed.ray_actor`: Ray pickles the class by value, with the reference in it."""
    what = "ray_actor"
    model = signature(reference, what)
    model.require_known_sizes(what)
    known = model.named_dims(independent, what)
    # Ray cuts batches where it likes: at the ends of files, and after as many rows as it was told.
    for spec in model.inputs:
        if not spec.shape or (isinstance(spec.shape[0], int) and spec.shape[0] != 1):
            raise UserError(
                f"{what}: input {spec.text} of model {model.name!r} has no named size of rows, so nobody can tell whether rows "
                "are treated alone; fix: a graph with one along its first axis, or joinery.distributed.stream with blocks of "
                "rows that belong together"
            )
    rows = {name for spec in model.inputs for extent in spec.shape[:1] if isinstance(extent, Dim) for name in extent.symbols()}
    for dim in sorted(rows):
        for name, along in (model.believed if dim in known else model.cut_along)(dim, what).items():
            if along.axis != 0 or along.inner != 1:
                spec = next(spec for spec in model.outputs if spec.name == name)
                raise UserError(
                    f"{what}: output {spec.text} of model {model.name!r} has not one row for each of {dim!r}, as columns have; "
                    f"fix: an output whose first axis is {dim!r}, in the graph"
                )
    return type("JoineryActor", (BlockActor,), {"reference": reference, "__doc__": BlockActor.__doc__})
