"""Compares the results of a workload's contenders, and times them by turns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Contender, ForeignLoad, Measurement, sample
from peers import Peers

from .workload import Workload

TOLERANCES = {"float16": 1e-2, "bfloat16": 3e-2, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-10, "complex128": 1e-10}
"""Relative errors in the 2-norm, by the dtype of joinery's result."""
OURS = "joinery"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a workload: a measurement, unless there is a fault.

    Attributes:
        faults: results that differ, and errors of joinery.
        unable: peers that it is written for and that cannot run it, and why.
    """

    workload: Workload
    measurement: Measurement | None
    faults: tuple[str, ...]
    unable: dict[str, str]

    @property
    def ratio(self) -> float | None:
        """The time of joinery over that of the best peer, or None where there is none."""
        best = self.measurement.best_peer() if self.measurement else None
        return self.measurement.ratio(OURS, best).median if self.measurement and best else None


def measured(workload: Workload, peers: Peers, seconds: float, rounds: int) -> Outcome:
    """Compare all results with those of the first peer that can run the workload, and time the contenders if they agree."""
    arrays, constants = workload.arrays(), workload.constants()
    unable: dict[str, str] = {}
    theirs: list[Contender] = []
    results: list[list[np.ndarray]] = []
    for name in workload.peers:
        if name in peers.modules:
            try:
                contender = contender_of(name, workload, peers, arrays, constants)
                results.append(arrays_of(called(contender)))
                theirs.append(contender)
            except Exception as error:  # whatever a peer raises says that it lacks this, and the others go on
                unable[name] = first_line(error)
        elif name in peers.absent:
            unable[name] = peers.absent[name]
    try:
        ours = contender_of(OURS, workload, peers, arrays, constants)
        result = arrays_of(called(ours))
    except Exception as error:  # the other workloads go on; the command's exit status tells of it
        return Outcome(workload, None, (f"joinery cannot run it: {first_line(error)}",), unable)
    faults = []
    if theirs:
        reference = theirs[0].name
        for name, values in ((OURS, result), *zip((each.name for each in theirs[1:]), results[1:], strict=True)):
            difference = compared(workload, values, results[0])
            if difference:
                faults.append(f"{name} differs from {reference}: {difference}")
    if faults:
        return Outcome(workload, None, tuple(faults), unable)
    foreign = ForeignLoad()
    samples = sample([ours, *theirs], seconds, rounds, brief=True)
    notes = {name: f"cannot run it: {reason}" for name, reason in unable.items()}
    measurement = Measurement(workload.name, "", samples, (OURS,), notes)
    foreign.mark(measurement)
    return Outcome(workload, measurement, (), unable)


def contender_of(
    name: str, workload: Workload, peers: Peers, arrays: list[np.ndarray], constants: list[np.ndarray]
) -> Contender:
    """Return a library's contender. Constants belong to the graphs of joinery and JAX, and are arguments of the others."""

    def with_constants(jn: Any, *symbols: Any) -> Any:
        graph = symbols[0].graph
        return workload.joinery(jn, *symbols, *(graph.constant(each) for each in constants))

    function = getattr(workload, name)
    if name == OURS:
        found = peers.joinery(with_constants, *arrays)
    elif name == "jax":
        found = peers.jax(lambda jax, *values: function(jax, *values, *constants), *arrays)
    else:
        found = getattr(peers, name)(function, *arrays, *constants)
    return found[0]


def called(contender: Contender) -> Any:
    """Return the result of a call."""
    return eval(contender.statement, dict(contender.names))


def arrays_of(result: Any) -> list[np.ndarray]:
    """Return results as arrays; NumPy does not read PyTorch's bfloat16."""
    if isinstance(result, tuple | list):
        return [array for each in result for array in arrays_of(each)]
    if hasattr(result, "detach"):
        if str(result.dtype) == "torch.bfloat16":
            return [result.float().numpy().astype("bfloat16")]
        return [result.numpy()]
    return [np.asarray(result)]


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]:.160}" if text else type(error).__name__


def compared(workload: Workload, results: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """Return what is different between results, or an empty text."""
    if len(results) != len(wanted):
        return f"{len(results)} results for {len(wanted)}"
    found = (difference(workload, one, other) for one, other in zip(results, wanted, strict=True))
    return "; ".join(filter(None, found))


def difference(workload: Workload, result: np.ndarray, wanted: np.ndarray) -> str:
    """Return what is different between two arrays, or an empty text. Pairs on the last axis are complex numbers, too."""
    if np.iscomplexobj(wanted) and result.shape == (*wanted.shape, 2):
        wanted = np.stack([wanted.real, wanted.imag], axis=-1)
    if result.shape != wanted.shape:
        return f"shape {result.shape} for {wanted.shape}"
    if not workload.compared:
        return ""
    if result.dtype.kind in "biu" and wanted.dtype.kind in "biu":
        share = float(np.mean(result != wanted)) if result.size else 0.0
        return f"{share:.2%} of the integers differ" if share > workload.differing else ""
    tolerance = workload.tolerance
    if tolerance is None:
        tolerance = max(TOLERANCES.get(array.dtype.name, 0.0) for array in (result, wanted))
    wide = np.complex128 if np.iscomplexobj(wanted) else np.float64
    exact = wanted.astype(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN and infinity make the error NaN, which is a difference
        error = np.linalg.norm((result.astype(wide) - exact).ravel()) / max(np.linalg.norm(exact.ravel()), 1e-300)
    return "" if error <= tolerance else f"relative error {error:.2e}, allowed {tolerance:.0e}"
