"""Bounds of complex numbers, each part by itself, and of Fourier transforms: sums of n terms that are turned (docs/ops.md)."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np

from .nodes import Array, Node, reference

Bound = tuple[Array, Array]
"""Real numbers, or one part of complex ones, and how far each may be off."""


def is_of_complex(node: Node) -> bool:
    return bool(node.dtype.is_complex or any(operand.dtype.is_complex for operand in node.inputs))


def parts_of(node: Node) -> list[Bound]:
    """The bounds of both parts, or of a real value; what no operand says is exact."""
    if not node.dtype.is_complex:
        return [(node.wide, node.error)]
    return node.parts or [(part.astype(np.float64), np.zeros(part.shape)) for part in (node.value.real, node.value.imag)]


def enclose_complex(node: Node) -> None:
    """Sets the bounds of a node that has or takes complex numbers."""
    name = node.op.name
    if name in ("real", "imag"):
        node.around(parts_of(node.inputs[0])[name == "imag"][1])
        return
    if name == "fft_pairs":
        (given,) = (part for operand in node.inputs for part in parts_of(operand))
        node.around(transform_error([given], node.value.shape[-1], node.value.shape, node.dtype))
        return
    if name == "complex_parts":
        node.around(np.stack([error for _, error in parts_of(node.inputs[0])], -1).reshape(node.value.shape))
        return
    errors = _errors(node)
    if not node.dtype.is_complex:
        node.around(errors[0])
        return
    values = (node.value.real.astype(np.float64), node.value.imag.astype(np.float64))
    node.parts = list(zip(values, errors, strict=True))


def _errors(node: Node) -> list[Array]:
    name = node.op.name
    if name == "complex":
        return [np.broadcast_to(operand.error, node.value.shape) for operand in node.inputs]
    given = [part for operand in node.inputs for part in parts_of(operand)]
    if name in ("fft_lines", "rfft_lines", "irfft_lines"):
        length = node.attrs.get("length", node.inputs[0].value.shape[-1])
        return [transform_error(given, int(length), node.value.shape, node.dtype)] * (1 + node.dtype.is_complex)
    attrs, node.attrs = node.attrs, {**node.attrs, "value": 0} if name == "pad" else node.attrs
    moved = [reference(node, [(error + 0j).astype(node.value.dtype)]).real for _, error in given]
    node.attrs = attrs
    return [each.astype(np.float64) for each in moved]


def transform_error(given: list[Bound], length: int, shape: tuple[int, ...], dtype: jn.DType) -> Any:
    """The error of every element of a line: of the sums, and what operands are off."""
    rounding = 2.0**-53 if dtype.name in ("float64", "complex128") else 2.0**-24
    total = sum(np.abs(value).sum(-1, keepdims=True) for value, _ in given)
    own = (12 * np.log2(length) + 70) * rounding * total + sum(error.sum(-1, keepdims=True) for _, error in given)
    finite = np.isfinite(own) & (4 * total < (1e38 if rounding > 1e-10 else 1e307))
    return np.broadcast_to(np.where(finite, 2 * own + 1e-37, np.inf), shape)
