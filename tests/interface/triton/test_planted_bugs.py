"""Planted bugs of real kernel shapes through Triton, in every mode. Needs triton and torch (`make test-doors`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joinery.triton
import pytest
from joinery.lowering.tt.interpret.memory import AccessError
from joinery.runtime.ptxsim.checks.findings import PtxCheckError

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from ...support.planted_bugs.launches import BUGS, NOTHING, found, launch, noticed  # noqa: E402
from ...support.planted_bugs.recorded import ENDLESS, FACTS, MODES, Recorded  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def enabled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        joinery.triton.enable("sanitize")
        yield
        joinery.triton.disable()


@pytest.mark.parametrize("mode", ["sanitize", "native", *MODES])
@pytest.mark.parametrize("name", BUGS)
def test_the_right_kernel_computes_what_the_reference_does(name: str, mode: str) -> None:
    options: dict[str, Any] = {"sanitize": {"sanitize": True}, "native": {"device": "cpu"}, **MODES}[mode]
    assert launch(BUGS[name], False, **options) == NOTHING


@pytest.mark.parametrize("name", BUGS)
def test_the_sanitizer_finds_the_fault(name: str) -> None:
    bug = BUGS[name]
    findings = [each for each in found(bug) if each.kind == bug.kind and f"{bug.file}:{bug.line}:" in each.line]
    assert bug.program in [each.program for each in findings]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BUGS)
def test_what_other_modes_notice(name: str, mode: str) -> None:
    expected = FACTS[name]["noticed"][mode]
    if name in ENDLESS.get(mode, ()):
        assert expected == "does not end"
    else:
        assert noticed(BUGS[name], **MODES[mode]) == expected


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if facts["noticed"]["ptxsim"] == "error"])
def test_the_simulator_names_the_line_and_the_tensor(name: str) -> None:
    """As native code that checks bounds does; a deadlock, which that would not leave, at the line of the fault."""
    bug = BUGS[name]
    with pytest.raises(PtxCheckError) as caught:
        launch(bug, True, device="ptxsim")
    text = str(caught.value)
    if name in ENDLESS["native, checked"]:
        assert caught.value.origin.endswith(f"{bug.file}:{bug.line}")
        return
    with pytest.raises(AccessError) as native:
        launch(bug, True, **MODES["native, checked"])
    line, program = re.match(r"(\S+:\d+): @\w+, program (\(.*?\)): ", str(native.value)).groups()
    assert caught.value.origin == line
    assert f"(program {program}, thread" in text
    assert f"[{line}]" in text
    element = re.search(r"element (-?\d+) of array '(\w+)' .* has elements 0 … (\d+) \((\d+) bytes", str(native.value))
    if element is not None:  # else the address comes from a tensor of addresses
        number, tensor, last, size = int(element[1]), element[2], int(element[3]), int(element[4])
        assert re.search(rf"byte {number * (size // (last + 1))} of argument \d+ \({tensor}\) with {size} bytes", text)


def test_the_records_are_of_these_programs() -> None:
    assert list(FACTS) == list(BUGS)
    for name, bug in BUGS.items():
        facts = FACTS[name]
        assert (facts["kind"], facts["line"], tuple(facts["program"])) == (bug.kind, f"{bug.file}:{bug.line}", bug.program)
        assert facts["about"] == bug.about
        if bug.is_recorded:
            case = bug.make()
            assert [Recorded(name).grid(is_faulty) for is_faulty in (False, True)] == [case.launch(f)[0] for f in (False, True)]


# Memory of torch that nothing has written


def blank(tensor: Any) -> int:
    """How many bytes of a tensor's storage count as not written."""
    from joinery.interface.triton.testing.unwritten import unwritten_bytes

    storage = tensor.untyped_storage()
    found = unwritten_bytes((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return 0 if found is None else int(found.sum())


MAKERS = {
    "empty": lambda: torch.empty(10, 7),
    "empty_like": lambda: torch.empty_like(torch.zeros(10, 7)),
    "empty_strided": lambda: torch.empty_strided((10, 7), (7, 1)),
    "new_empty": lambda: torch.zeros(3).new_empty((10, 7)),
    "new_empty_strided": lambda: torch.zeros(3).new_empty_strided((10, 7), (7, 1)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_who_writes_is_seen(name: str) -> None:
    x = MAKERS[name]()
    assert blank(x) == 280
    x[:2] = 1
    assert blank(x) == 280 - 56
    x.numpy()[2:4] = 1
    assert blank(x) == 280 - 112 - 16, "what lies beside elements that NumPy changed is not known"
    torch.add(torch.ones(6, 7), 1, out=x[4:])
    assert blank(x) == 0
    assert blank(x.clone()) == 0


def test_what_has_no_note() -> None:
    for x in (torch.zeros(70), torch.rand(70), torch.empty(0), torch.empty(4, device="meta"), torch.empty(70).clone()):
        assert x.device.type == "meta" or blank(x) == 0
    assert blank(torch.empty(2, dtype=torch.int8)) == 2
    for dtype in (torch.bfloat16, torch.float16, torch.int8, torch.float64):
        assert blank(torch.empty(64, dtype=dtype)) == 64 * dtype.itemsize
        assert blank(torch.empty(64, dtype=dtype).fill_(0)) == 0


def copied(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    z = torch.empty(3).fill_(1)
    return y.copy_(x) + z.new_empty(3).fill_(2)


def test_whoever_else_calls_these_functions() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    ones = torch.ones(3)
    compiled = torch.compile(copied, backend="eager", fullgraph=True)
    for function in (torch.jit.script(copied), torch.jit.trace(copied, ones), compiled):
        assert (function(ones) == 3).all()
    assert (torch.func.vmap(copied)(torch.ones(2, 3)) == 3).all()
    with FakeTensorMode():
        assert torch.empty(3).shape == (3,)


def test_a_note_ends_with_the_memory() -> None:
    x = torch.empty(1000)
    first = x.untyped_storage().data_ptr()
    gone = weakref.ref(x)
    del x
    assert gone() is None
    from joinery.interface.triton.testing import unwritten

    assert unwritten.unwritten_bytes((first, first + 4000)) is None


PROGRAM = """
import torch
import triton
import triton.language as tl
import joinery

@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

x = torch.empty(32)  # before anything is launched
try:
    double[(1,)](x, BLOCK=32)
except joinery.SanitizerError as error:
    assert "nothing has written" in str(error), error
else:
    raise AssertionError("nothing found")
x.fill_(1)
double[(1,)](x, BLOCK=32)
assert (x == 2).all()
"""


def test_the_environment_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    surroundings = {**os.environ, "JOINERY_TRITON": "sanitize", "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_torch_gets_its_functions_back() -> None:
    joinery.triton.enable("native")
    try:
        launch(BUGS["missing_mask_of_a_load"], False, sanitize=True)  # one launch is no mode of the process
        assert not hasattr(torch.empty, "__wrapped__")
        assert "new_empty" not in vars(torch.Tensor)
        assert blank(torch.empty(100)) == 0
    finally:
        joinery.triton.enable("sanitize")
    assert blank(torch.empty(100)) == 400
