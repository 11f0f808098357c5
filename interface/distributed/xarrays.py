"""Applies a model to labelled arrays of xarray."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...graph.dims.dim import Dim
from ...promotion.errors import UserError
from ...runtime.model.inputs import InputSpec
from .blocks import require_dtype, run_block
from .dask_arrays import map_blocks
from .extras import required
from .references import ModelReference
from .signatures import Signature, require_flag, signature


def apply(
    reference: ModelReference, arrays: Sequence[Any], named: Mapping[str, Any],
    output_dims: Mapping[str, Sequence[str]] | None, independent: Iterable[str] = (), same_target: bool = False,
) -> Any:
    """Implement `joinery.distributed.apply`."""
    what = "apply"
    xarray = required("xarray", what)
    require_flag(same_target, "same_target", what)
    model = signature(reference, what)
    given = dict(zip([spec.name for spec in model.inputs], arrays, strict=False)) | dict(named)
    if len(given) != len(arrays) + len(named):
        raise UserError(f"{what}: an input of model {model.name!r} is given twice, or there are too many arrays")
    model.require_inputs(given, what)
    labels = _labels(model, given, xarray, what)
    if unknown := sorted(set(output_dims or {}) - {spec.name for spec in model.outputs}):
        outputs = ", ".join(spec.text for spec in model.outputs)
        raise UserError(f"{what}: output_dims has {unknown}; model {model.name!r} returns {outputs}; fix: names of outputs")
    order = [spec.name for spec in model.inputs]

    def function(*blocks: Any) -> Any:
        if any(hasattr(block, "dask") for block in blocks):
            labelled = {name: given[name].dims for name in order}
            return map_blocks(reference, blocks, {}, independent, same_target, labelled)
        outputs = run_block(reference, {name: np.asarray(block) for name, block in zip(order, blocks, strict=True)}).outputs
        return next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())

    found = xarray.apply_ufunc(
        function, *[given[name] for name in order], input_core_dims=[list(given[name].dims) for name in order],
        output_core_dims=[_dims_of(spec, labels, output_dims or {}, what) for spec in model.outputs], dask="allowed",
        join="exact",
    )  # fmt: skip
    # xarray hands on the name of the inputs, which is not what is in them.
    if len(model.outputs) == 1:
        return found.rename(model.outputs[0].name)
    return tuple([each.rename(spec.name) for each, spec in zip(found, model.outputs, strict=True)])


def _labels(model: Signature, given: Mapping[str, Any], xarray: Any, what: str) -> dict[str, str]:
    """Return the name that xarray has for each dim of the graph."""
    labels: dict[str, str] = {}
    for spec in model.inputs:
        array = given[spec.name]
        if not isinstance(array, xarray.DataArray):
            raise UserError(f"{what}: input {spec.name!r} is a {type(array).__name__}; fix: an xarray.DataArray")
        if len(array.dims) != len(spec.shape):
            raise UserError(
                f"{what}: input {spec.name!r} expects {spec.text}, got the axes {array.dims}; fix: .expand_dims(…), .isel(…)"
            )
        require_dtype(spec, array.dtype, what)
        for extent, label in zip(spec.shape, array.dims, strict=True):
            if isinstance(extent, Dim) and extent.name is not None and labels.setdefault(extent.name, label) != label:
                raise UserError(
                    f"{what}: {extent.name!r} of model {model.name!r} is {labels[extent.name]!r} in one input and {label!r} in "
                    f"{spec.name!r}; fix: {spec.name}.rename({{{label!r}: {labels[extent.name]!r}}})"
                )
    return labels


def _dims_of(spec: InputSpec, labels: Mapping[str, str], wanted: Mapping[str, Sequence[str]], what: str) -> list[str]:
    found = [labels.get(str(extent), f"{spec.name}_{axis}") for axis, extent in enumerate(spec.shape)]
    if spec.name in wanted:
        given: object = wanted[spec.name]
        is_list = isinstance(given, list | tuple) and all(isinstance(each, Hashable) for each in given)
        if not is_list or len(wanted[spec.name]) != len(spec.shape):
            raise UserError(
                f"{what}: output_dims of {spec.name!r} are {given!r:.80}; fix: one for each of {spec.text}, in a list"
            )
        found = list(wanted[spec.name])
    if len(set(found)) < len(found):
        raise UserError(
            f"{what}: the axes of output {spec.text} are called {found}, and xarray tells axes apart by their names; fix: "
            f"output_dims={{{spec.name!r}: …}} with {len(found)} different ones"
        )
    return found
