"""Runs a model on one block, in whatever process that happens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...graph.dims.binding import ArrayShape, bind_dims
from ...graph.dims.dim import evaluate_dim
from ...promotion.arrays import Array, is_masked
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ...runtime.model.inputs import InputSpec
from .failures import RunError
from .references import ModelReference

_NO_NUMBERS = "SUTVMm"
"""NumPy's kinds of bytes, strings, records and times."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a block gave: the outputs by name, and the target of the code that computed them."""

    outputs: Mapping[str, Array]
    target: str

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.outputs.values())


def run_block(reference: ModelReference, arrays: Mapping[str, Array], target: str | None = None) -> BlockResult:
    """Run a model on the arrays of one block, by input name.

    target: what the code must have been made for, None for anything. Raises `RunError` for another one, and what the model
    raises for arrays that do not fit.
    """
    for name, array in arrays.items():
        require_no_mask(name, array, f"model {reference.name!r}")
    opened = reference.opened()
    if target is not None and opened.target != target:
        raise RunError(
            f"model {reference.name!r}: this worker's code is for {opened.target}, other blocks are computed with code for "
            f"{target}, so their last bits may differ; fix: workers with one kind of CPU, or same_target=False"
        )
    with opened.running:
        result = BlockResult(opened.model.run(arrays), opened.target)
    opened.require_unchanged()
    return result


def output_shapes(
    inputs: tuple[InputSpec, ...], outputs: tuple[InputSpec, ...], shapes: Mapping[str, tuple[int, ...]], what: str
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return the sizes of dims for inputs of these shapes, and the shapes of the outputs.

    Raises `UserError` for ranks and sizes that disagree.
    """
    for spec in inputs:
        if len(shapes[spec.name]) != len(spec.shape):
            raise UserError(
                f"{what}: input {spec.name!r} expects {spec.text}, got {len(shapes[spec.name])} axes: {shapes[spec.name]}; "
                "fix: reshape it, or take another array"
            )
    dims = bind_dims([ArrayShape(spec.name, spec.shape, shapes[spec.name]) for spec in inputs], what)
    return dims, {spec.name: tuple([evaluate_dim(extent, dims) for extent in spec.shape]) for spec in outputs}


def require_no_mask(name: str, array: object, what: str) -> None:
    """Raise `UserError` for a masked array, whose mask would be lost."""
    if is_masked(array):
        raise UserError(f"{what}: input {name!r} is a masked array, and no model knows masks; fix: {name}.filled(0)")


def require_dtype(spec: InputSpec, dtype: np.dtype[np.generic], what: str) -> None:
    """Raise `UserError` for an array of another dtype than an input has; byte orders do not matter."""
    expected = spec.dtype.numpy
    if dtype != expected and (dtype.isnative or dtype.newbyteorder("=") != expected):
        name = repr(expected.name)  # ml_dtypes' floats have the kind of records
        fix = f"an array of numbers, {name}" if dtype.kind in _NO_NUMBERS and dtype.isbuiltin != 2 else f".astype({name})"
        raise UserError(f"{what}: input {spec.name!r} expects {spec.text}, got {dtype}; fix: {fix}")
