"""Proofs of the kernels that a run of tests launches: each for all sizes that its launches suggest."""

from __future__ import annotations

import hashlib
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


class Proven(NamedTuple):
    """What was found of a kernel. key: the same for all that is said of one kernel, of which the last counts.

    Attributes:
        verdicts: in one line.
        text: the proof.
        launches: from how many launches its sizes were guessed.
        others: how many more launches it is not about, or about which that is not known.
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
        launches: from which it was guessed.
        seen: the sizes of launches.
    """

    specification: Any = None
    count: int = 0
    launches: list[Any] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    proven: Proven | None = None


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
    prove = loaded.kernel.prove
    try:
        given = flattened(names, types, args)
        arguments = [_argument(each, *rest) for each, rest in zip(loaded.kernel.parameters, _expanded(given), strict=True)]
        sizes = (extents, *map(_sizes, arguments))
        is_about_elements = known.specification is not None and any("[:]" in each for each in known.specification.assume)
        if sizes in known.seen and not is_about_elements:
            return
        known.seen.add(sizes)
        launch = prove.launch(extents, *arguments)
        if known.specification is not None and prove.describes(known.specification, launch):
            return
        if len(known.launches) >= _MAX_LAUNCHES:
            _say(loaded, known, others=1)
            return
        proof = prove.like(extents, *arguments, before=known.launches)
        known.launches.append(launch)
        count = sum(proof.verdict(prop) in _SHOWN for prop in proof.properties)
        if count < known.count:  # launches have no sizes in common of which as much is shown
            _say(loaded, known, others=1)
            return
        known.specification, known.count = proof.specification, count
        verdicts = ", ".join(f"{prop} {proof.verdict(prop)}" for prop in proof.properties)
        verdicts += f"; fixed: {', '.join(proof.fixed)}" if proof.fixed else ""
        _say(loaded, known, verdicts, str(proof))
    except JoineryError as error:
        if known.proven is None:
            _say(loaded, known, "not proven", str(error))
        else:
            _say(loaded, known, others=1)


def _say(loaded: Any, known: _Kernel, verdicts: str = "", text: str = "", others: int = 0) -> None:
    last = known.proven
    if verdicts or last is None:
        key = f"{hashlib.sha256(loaded.text.encode()).hexdigest()} {os.getpid()}"
        last = Proven(key, loaded.name, verdicts, text, len(known.launches), 0 if last is None else last.others)
    known.proven = _new[last.key] = last._replace(others=last.others + others)


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
