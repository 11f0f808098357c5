"""Every exception that users may catch survives copies, and the trip from another process."""

from __future__ import annotations

import ast
import copy
import importlib
import multiprocessing
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import joinery as jn
import pytest
from joinery.graph.checks import ShapeError
from joinery.interface.distributed.failures import BlocksFailed, Failure
from joinery.interface.triton.slow_launches import FailedAssertionError
from joinery.lowering.frontends.triton_c.reading.diagnostics import Diagnostic, TritonCError
from joinery.lowering.tt.sanitize.findings import Finding, Report, SanitizerError
from joinery.promotion.errors import (
    DeviceError,
    DeviceMemoryError,
    JoineryError,
    KernelAssertionError,
    PromotionWarning,
    ResourceError,
)
from joinery.runtime.cuda.driver import CudaFailure
from joinery.runtime.ptxsim.checks import findings as ptxsim

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
REPORT = Report((Finding("race", "two programs", "tt.store", "k.py:3", (1, 0, 0), other_program=(2, 0, 0)),) * 12, dropped=3)
COMPOSED: dict[type, Callable[[], Exception]] = {
    KernelAssertionError: lambda: KernelAssertionError.of("x < 0", ("k.py", 3), (1, 0, 0), (7,)),
    DeviceError: lambda: DeviceError("the device fell off", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ResourceError: lambda: ResourceError("too much shared memory", "shared memory", 3, 2),
    DeviceMemoryError: lambda: DeviceMemoryError("too little memory", 3, 2, 1),
    CudaFailure: lambda: CudaFailure("cuMemFree", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an address", "a log"),
    ShapeError: lambda: ShapeError("sizes differ", "equal sizes", "reshape"),
    TritonCError: lambda: TritonCError("k.tc:1:1: error: x", (Diagnostic("error", "x", "y", ()),)),
    SanitizerError: lambda: SanitizerError("kernel", REPORT),
    FailedAssertionError: lambda: FailedAssertionError("kernel", REPORT),
    BlocksFailed: lambda: BlocksFailed([Failure(3, "killed", 4, (768, 1024))]),
    ptxsim.PtxCheckError: lambda: ptxsim.PtxCheckError([ptxsim.Finding("race", "a race", 3, "st.shared")] * 2),
}
"""An error of each class that has an `__init__` of its own."""


MAY_DEFINE = re.compile(r"^class [^:]*(Error|Warning)", re.MULTILINE)
"""The head of a class that has one of the two words, in its name or its bases."""


def exception_classes() -> Iterator[type[BaseException]]:
    """The exceptions of the package but those that never leave a function of joinery: these derive from `Exception` alone."""
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not MAY_DEFINE.search(text):  # most files, which take two seconds to parse
                continue
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and any("Error" in name or "Warning" in name for name in names(node)):
                    module = ".".join(("joinery", *path.relative_to(ROOT).with_suffix("").parts))
                    found = getattr(importlib.import_module(module), node.name)
                    if issubclass(found, (JoineryError, Warning)):
                        yield found


def names(node: ast.ClassDef) -> list[str]:
    """The names of a class and its bases."""
    return [node.name, *[ast.unparse(base) for base in node.bases]]


CLASSES = sorted(exception_classes(), key=lambda cls: cls.__name__)


def sample(cls: type[BaseException]) -> BaseException:
    error = COMPOSED[cls]() if "__init__" in vars(cls) else cls("what is wrong; fix: this")
    if isinstance(error, JoineryError):
        error.origin = "model.py:12"
        error.add_note("a note")
    return error


def test_all_classes_are_found() -> None:
    assert {JoineryError, jn.InternalError, jn.UnsupportedError, PromotionWarning, *COMPOSED} <= set(CLASSES)
    assert {cls for cls in CLASSES if "__init__" in vars(cls)} == set(COMPOSED)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_public_classes_are_named_as_users_find_them(cls: type[BaseException]) -> None:
    assert (cls.__module__ == "joinery") == (cls.__name__ in jn._LOCATIONS)
    if cls.__module__ in ("joinery", "joinery.triton"):
        assert getattr(importlib.import_module(cls.__module__), cls.__name__) is cls


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_copies_are_equal(cls: type[BaseException]) -> None:
    error = sample(cls)
    copies = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for again in (*copies, copy.copy(error), copy.deepcopy(error)):
        assert type(again) is cls
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


RAISES = """
from joinery.lowering.frontends.triton_c.reading.diagnostics import Diagnostic, TritonCError
from joinery.lowering.tt.sanitize.findings import Finding, Report, SanitizerError
raise SanitizerError("kernel", Report((Finding("race", "two programs", "tt.store", "k.py:3", (1, 0, 0)),)))
"""


def test_an_error_of_another_process_arrives() -> None:
    """One that cannot be read there stalls `multiprocessing.Pool`."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, pytest.raises(jn.SanitizerError) as caught:
        pool.submit(exec, RAISES).result(timeout=60)
    assert str(caught.value).startswith("@kernel: the sanitizer has 1 finding\nrace: two programs")
    assert [finding.kind for finding in caught.value.findings] == ["race"]
