"""The cases of ONNX's backend suite, run by its own runner, with what became of each."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from joinery.promotion.errors import JoineryError

from .backend import Joinery

GROUPS = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendRealModelTest": "real",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
}
"""The runner's classes of cases → the groups' names."""
EXPANDED = re.compile(r"_expanded(_ver\d+)?$")
"""How the names of cases end whose operator is replaced by the function that defines it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case of the suite."""

    name: str
    group: str
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        operator: of the first node, with its domain.
        opset: the version of that domain in the model.
        specialised: whether inputs had to be constants.
        computes: whether the graph had inputs, so that there was something to compute.
        reason: why it failed, in one line; "" if it passed.
    """

    operator: str
    opset: int
    specialised: bool
    computes: bool
    reason: str


def cases(backend: type[Joinery]) -> list[Case]:
    """All cases for the CPU, in the order of groups and names. The runner writes into a folder of its own."""
    os.environ.setdefault("ONNX_HOME", tempfile.mkdtemp(prefix="onnx-suite-"))
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, from the suite's own expected values
        classes = BackendTest(backend, __name__).test_cases
    found = []
    for group, short in GROUPS.items():
        for name, function in sorted(vars(classes[group]).items()):
            if name.startswith("test_") and name.endswith("_cpu"):
                found.append(
                    Case(name.removeprefix("test_").removesuffix("_cpu"), short, lambda function=function: function(None))
                )
    return found


def share(every: list[Case], parts: int) -> list[Case]:
    """One case in so many, chosen by digests of names: the same ones in every run."""
    return [case for case in every if int.from_bytes(sha256(case.name.encode()).digest()[:4]) % parts == 0]


def outcome(case: Case, backend: type[Joinery]) -> Outcome:
    """Run a case. Whatever a case raises is its reason to fail; the suite's comparisons raise AssertionError."""
    backend.last = None
    reason = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.run()
        except JoineryError as error:
            reason = shortened(str(error))
        except Exception as error:  # the runner's comparison raises whatever it likes
            reason = one_line(f"{type(error).__name__}: {error}")
    prepared: Any = backend.last
    if prepared is None:
        return Outcome("", 0, False, False, reason or "the model was not prepared")
    node = prepared.model.graph.node[0]
    domain = "" if node.domain == "ai.onnx" else node.domain
    versions = [entry.version for entry in prepared.model.opset_import if entry.domain in (domain, domain or "ai.onnx")]
    operator = f"{domain}.{node.op_type}" if domain else node.op_type
    return Outcome(operator, max(versions, default=1), bool(prepared.specialised), prepared.computes, reason)


def one_line(text: str) -> str:
    """The beginning of a message, in one line."""
    return " ".join(text.split())[:160]


def shortened(text: str) -> str:
    """An error in one line: without what it is about, and without operands."""
    line = re.sub(r" operand 0: .*", "", " ".join(text.split()))
    line = re.sub(r"^[^:]*: (node \d+ )?(\([^)]*\)( on .*?)?: )?", "", line, count=1)
    return one_line(line)


def operators(found: dict[str, Outcome]) -> Iterator[tuple[str, Outcome, str]]:
    """(case, outcome, operator it is about): that of the case it is the expansion of, if it is one."""
    for name, result in found.items():
        base = found.get(EXPANDED.sub("", name), result)
        yield name, result, base.operator
