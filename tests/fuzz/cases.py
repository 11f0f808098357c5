"""Defines what the kinds of cases have in common: plain data that a file holds, the outcome of a run, and
failures."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - registers the 16- and 8-bit floats with NumPy
import numpy as np

from .choices import Choices

Data = dict[str, Any]
"""A case: JSON, complete in itself, so that it means the same after generators have changed. `kind` names its
`Kind`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure: where (device, target, numerics, threads, or the stage), what in one line, and the full text."""

    where: str
    what: str
    text: str = ""

    @property
    def signature(self) -> str:
        """A text that is equal for failures with one likely cause: without the numbers and names in `what`, and of `where` only
        the device."""
        what = re.sub(
            r"0x[0-9a-f]+|%[\w#]+|'[^']*'|\"[^\"]*\"", "…", self.what.splitlines()[0] if self.what else ""
        )
        where = re.sub(r"(cpu|ptxsim) .*", r"\1", self.where)
        return f"{where}: {re.sub(r'[-+]?[0-9][0-9.e+-]*', 'N', what)[:200]}"


@dataclass(slots=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        elements: values that were compared.
        unbounded: those of them without a bound.
        runs: launches and calls that were compared.
        unlike: runs that only had to end without an error, since their results are not defined.
        refused: nothing was run, since the case is not a valid program and was refused as it must be.
    """

    faults: list[Fault] = field(default_factory=list)
    elements: int = 0
    unbounded: int = 0
    runs: int = 0
    unlike: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for making and running cases.

    Attributes:
        simulate: whether the simulator is tried too.
        only: where the fault that is being shrunk occurred: other ways to run the case are left out.
        suite: whether the models of ONNX's suite are mutated, too: it takes seconds to make them.
    """

    simulate: bool = True
    only: str = ""
    suite: bool = False

    def wants(self, place: str, drawn: bool = True) -> bool:
        """Returns whether to run in a way such as "cpu strict 1 thread". drawn: whether the case is one of
        those that try it."""
        if any(device in self.only for device in ("cpu", "ptxsim")):
            return self.only.endswith(place)
        return drawn


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cases.

    Attributes:
        name: its name on the command line.
        generate: makes a case from choices.
        run: runs a case and returns its outcome.
        weight: how often it is tried, relative to the others.
        text: the entry of the data that is a text whose lines can be left out one by one, or "".
        tidy: repairs such a text after lines were left out.
        simpler: yields further texts to try when a failure is shrunk.
        warm: loads what many cases share, before children are forked.
    """

    name: str
    generate: Callable[[Choices, Settings], Data]
    run: Callable[[Data, Settings], Outcome]
    weight: int = 1
    text: str = "text"
    tidy: Callable[[str], str] = str
    simpler: Callable[[str], Iterable[str]] = lambda text: ()
    warm: Callable[[Settings], object] = lambda settings: None


def packed(array: np.ndarray | int | float | bool) -> Any:
    """Encodes an array or a number as JSON."""
    if not isinstance(array, np.ndarray):
        return array
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "content": content}


def unpacked(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    array = np.frombuffer(base64.b64decode(data["content"]), np.dtype(data["dtype"]))
    return array.reshape(data["shape"]).copy()


def as_json(data: Data) -> str:
    return json.dumps(data, indent=1, sort_keys=True)
