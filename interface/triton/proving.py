"""Proofs of the kernels that a run of tests launches: each once, from its first launch, for all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...lowering.tt import types as t
from ...promotion.arrays import Array
from ...promotion.errors import JoineryError
from ..tensor_arguments import TensorDescriptor
from .memory import EVERYWHERE, bytes_of, flattened, storage_of
from .slow_launches import wrapped

_proofs: dict[str, str] | None = None
"""What was found by the kernel's text; None where nothing is proven."""
_new: list[tuple[str, str, str]] = []


def start() -> None:
    """Prove kernels from now on. Raises `UnsupportedError` where z3 is missing."""
    global _proofs
    from ...lowering.prove.terms.solver import load_z3

    load_z3()
    _proofs = {}


def is_on() -> bool:
    """Whether kernels are proven."""
    return _proofs is not None


def note(loaded: Any, extents: tuple[int, int, int], names: Sequence[str], types: Sequence[Any], args: Sequence[Any]) -> None:
    """Prove a kernel that has not been launched before. Nothing that is found fails the launch: a guess may be wrong."""
    if _proofs is None or loaded.text in _proofs:
        return
    _proofs[loaded.text] = ""
    try:
        kernel = loaded.kernel
        given = flattened(names, types, args)
        arguments = [_argument(each, *rest) for each, rest in zip(kernel.parameters, _expanded(given), strict=True)]
        proof = kernel.prove.like(extents, *arguments)
        verdicts = ", ".join(f"{prop} {proof.verdict(prop)}" for prop in proof.properties)
        verdicts += f"; fixed: {', '.join(proof.fixed)}" if proof.fixed else ""
        text = str(proof)
    except JoineryError as error:
        verdicts, text = "not proven", str(error)
    _proofs[loaded.text] = text
    _new.append((loaded.name, verdicts, text))


def take() -> list[tuple[str, str, str]]:
    """(kernel, verdicts, proof) of kernels that were proven since this was asked last."""
    found, _new[:] = list(_new), []
    return found


def _expanded(given: Iterator[tuple[str, str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Yields what each parameter of the kernel is given; a descriptor's extents and strides follow it."""
    for what, type_, arg in given:
        yield what, type_, arg
        if type_.startswith("tensordesc"):
            yield from [(what, "i32", int(each)) for each in arg.shape]
            yield from [(what, "i64", int(each)) for each in arg.strides]


def _argument(parameter: Any, what: str, type_: str, arg: Any) -> Any:
    """An argument as proofs take it: arrays begin at their pointer and end with the storage of their tensor."""
    if type_.startswith("tensordesc"):
        address, span = storage_of(arg.base, what)
        whole = _elements(bytes_of(span)[address - span[0] :], int(arg.base.element_size()))
        return TensorDescriptor(whole, [int(each) for each in arg.shape], [int(each) for each in arg.strides])
    if not type_.startswith("*"):
        return wrapped(type_, arg)
    address, span = storage_of(arg, what)
    if not address or span == EVERYWHERE:
        return None
    pointee = parameter.type.pointee
    return _elements(bytes_of(span)[address - span[0] :], 8 if t.is_pointer(pointee) else max(1, t.bit_width(pointee) // 8))


def _elements(memory: Array, size: int) -> Array:
    return memory[: len(memory) // size * size].view(np.dtype(f"i{size}"))


__all__ = ["is_on", "note", "start", "take"]
