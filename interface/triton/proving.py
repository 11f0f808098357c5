"""Proofs of the kernels that a run of tests launches: each for all sizes that its launches suggest."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from ...lowering.tt import types as t
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError
from ..tensor_arguments import TensorDescriptor
from .memory import EVERYWHERE, bytes_of, flattened, storage_of
from .slow_launches import wrapped

_SHOWN = ("proven", "proven under", "never executed")
_MAX_LAUNCHES = 8
"""Launches from which a specification is guessed anew."""
_MAX_KEPT = 200
"""Launches of which it is looked whether the last guess describes them."""


class Proven(NamedTuple):
    """What was found of a kernel. key: the same for all that is said of one kernel, of which the last counts.

    Attributes:
        verdicts: in one line.
        text: the proof.
        launches: from how many launches its sizes were guessed.
        others: how many launches it does not describe, of those that differ.
    """

    key: str
    kernel: str
    verdicts: str
    text: str
    launches: int
    others: int


@dataclass(slots=True)
class _Kernel:
    """What is known of a kernel.

    Attributes:
        specification: what was guessed; None if nothing was proven.
        count: of how many properties something was shown with it.
        said: the verdicts and the text of that, or why there is none.
        used: from how many launches it was guessed.
        guessed: the launches from which guesses were made, also such with which less is shown.
        launches: all that differ.
        refused: how many more there are of which no proof is, as of those in which arrays share memory.
        seen: the sizes of launches.
    """

    specification: Any = None
    count: int = 0
    said: tuple[str, str] = ("", "")
    used: int = 0
    guessed: list[Any] = field(default_factory=list)
    launches: list[Any] = field(default_factory=list)
    refused: int = 0
    seen: set[Any] = field(default_factory=set)


_kernels: dict[str, _Kernel] | None = None
"""What was found by the kernel's text; None where nothing is proven."""
_new: dict[str, Proven] = {}


def start() -> None:
    """Prove kernels from now on. Raises `UnsupportedError` where z3 is missing."""
    global _kernels
    from ...lowering.prove.terms.solver import load_z3

    load_z3()
    _kernels = {}


def is_on() -> bool:
    """Whether kernels are proven."""
    return _kernels is not None


def note(loaded: Any, extents: tuple[int, int, int], names: Sequence[str], types: Sequence[Any], args: Sequence[Any]) -> None:
    """Prove a kernel that has not been launched before, and again if what was guessed is not about this launch.

    Nothing that is found fails the launch: a guess may be wrong.
    """
    if _kernels is None:
        return
    known = _kernels.setdefault(loaded.text, _Kernel())
    try:
        given = flattened(names, types, args)
        arguments = [_argument(each, *rest) for each, rest in zip(loaded.kernel.parameters, _expanded(given), strict=True)]
        sizes = (extents, *map(_sizes, arguments), _shares_memory(arguments))
        is_about_elements = known.specification is not None and any("[:]" in each for each in known.specification.assume)
        if sizes in known.seen and not is_about_elements:
            return
        known.seen.add(sizes)
        _try(known, loaded.kernel.prove, extents, arguments)
    except JoineryError as error:
        known.refused += 1
        if known.specification is None:
            known.said = "not proven", str(error)
    met = [each for each in known.launches if known.specification is not None and _describes(loaded, known, each)]
    others = known.refused + len(known.launches) - len(met)
    if known.specification is None and others == 1:  # the one that is said
        others = 0
    key = f"{hashlib.sha256(loaded.text.encode()).hexdigest()} {os.getpid()}"
    _new[key] = Proven(key, loaded.name, *known.said, known.used, others)


def _try(known: _Kernel, prove: Any, extents: tuple[int, int, int], arguments: Sequence[Any]) -> None:
    """Guess and prove if a launch is not described, and keep the proof that shows the most."""
    launch = prove.launch(extents, *arguments)
    is_met = known.specification is not None and prove.describes(known.specification, launch)
    if not is_met and len(known.guessed) < _MAX_LAUNCHES:
        proof = prove.like(extents, *arguments, before=known.guessed)
        known.guessed.append(launch)
        count = sum(proof.verdict(prop) in _SHOWN for prop in proof.properties)
        if count >= known.count:
            verdicts = ", ".join(f"{prop} {proof.verdict(prop)}" for prop in proof.properties)
            verdicts += f"; fixed: {', '.join(proof.fixed)}" if proof.fixed else ""
            known.specification, known.count, known.said = proof.specification, count, (verdicts, str(proof))
            known.used = len(known.guessed)
    if launch in known.launches:
        return
    if len(known.launches) < _MAX_KEPT:
        known.launches.append(launch)
    elif not is_met:
        known.refused += 1


def _describes(loaded: Any, known: _Kernel, launch: Any) -> bool:
    return bool(loaded.kernel.prove.describes(known.specification, launch))


def _shares_memory(arguments: Sequence[Any]) -> bool:
    arrays = [each.array if isinstance(each, TensorDescriptor) else each for each in arguments]
    spans = sorted((each.ctypes.data, each.nbytes) for each in arrays if isinstance(each, np.ndarray) and each.nbytes)
    return any(at + size > after for (at, size), (after, _) in itertools.pairwise(spans))


def _sizes(argument: Any) -> Any:
    """Returns what a launch says of an argument but for what it holds."""
    if isinstance(argument, TensorDescriptor):
        return argument.shape, argument.strides
    return argument.size if isinstance(argument, np.ndarray) else repr(argument)


def take() -> list[Proven]:
    """What was found since this was asked last."""
    found = list(_new.values())
    _new.clear()
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
