"""None as the argument of a pointer: the address 0, alike on every device; an access through it is found."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tt.interpret.memory import AccessError

from ..support.cuda.fake_driver import FakeDriver
from ..support.cuda.fixtures import install

__all__ = ["install"]
TEXT = """
__global__ void f(float *y, float *bias, float *last, int n, int force) {
  int i[16] = 0 ... 16;
  float v[16] = 1;
  if (bias != 0 || force) v += i < n ? *(bias + i) : 0;
  if (last) v += *(last + 3);
  *?(i < n)(y + i) = v;
}
"""
BIAS, LAST = np.arange(10, dtype=np.float32), np.full(4, 5, np.float32)
RUNS: dict[str, Callable[..., object]] = {
    "interpreter": lambda kernel, *args: kernel.interpret((1,), *args),
    "sanitizer": lambda kernel, *args: _none(kernel.sanitize((1,), *args).findings),
    "native sanitizer": lambda kernel, *args: _none(kernel.sanitize((1,), *args, notes=False).findings),
    "host": lambda kernel, *args: kernel.launch((1,), *args),
    "checked": lambda kernel, *args: kernel.launch((1,), *args, check_bounds=True),
    "sm_80": lambda kernel, *args: kernel.launch((1,), *args, device="ptxsim", sanitize=True),
    "sm_90a": lambda kernel, *args: kernel.launch((1,), *args, device="ptxsim", target="sm_90a"),
}


def _none(findings: tuple[object, ...]) -> None:
    assert findings == ()


@functools.cache
def kernel() -> jn.kernel.Kernel:
    return jn.kernel.from_triton_c(TEXT)


def check(run: Callable[..., object], bias: Any, last: Any) -> None:
    y = np.zeros(10, np.float32)
    run(kernel(), y, bias, last, 10, 0)
    expected = 1 + (0 if bias is None else BIAS) + (0 if last is None else 5) + np.zeros(10)
    assert (y == expected).all()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("bias", "last"), [(None, None), (BIAS, None), (None, LAST)], ids=["none", "bias", "last"])
def test_a_null_pointer_is_0_and_others_are_not(name: str, bias: Any, last: Any) -> None:
    check(RUNS[name], bias, last)


def test_on_a_gpu(install: Callable[..., FakeDriver]) -> None:
    install()
    check(lambda kernel, *args: kernel.launch((1,), *args, device="cuda"), None, LAST)
    y = jn.Buffer(np.zeros(10, np.float32))
    kernel().launch((1,), y, None, None, 10, 0, device="cuda")
    assert (y.numpy() == 1).all()


def arguments() -> tuple[Any, ...]:
    return np.zeros(10, np.float32), None, None, 10, 1


def test_what_is_read_through_it_is_an_error() -> None:
    with pytest.raises(AccessError, match="address 0x0 is read, which is reached from a null pointer"):
        kernel().interpret((1,), *arguments())
    with pytest.raises(AccessError, match=r"address 0x0 is read, by element \(0,\) of the block; 'bias' is a null pointer"):
        kernel().launch((1,), *arguments(), check_bounds=True)
    with pytest.raises(jn.JoineryError, match="global address 0x0, which is outside all buffers"):
        kernel().launch((1,), *arguments(), device="ptxsim")


@pytest.mark.parametrize("notes", [True, False])
def test_what_is_read_through_it_is_a_finding(notes: bool) -> None:
    (finding,) = kernel().sanitize((1,), *arguments(), notes=notes).findings
    assert (finding.kind, finding.count, finding.line) == ("out-of-bounds", 10, "<text>:5:40")
    assert finding.message == "reads outside the array: address 0x0 (reached from a null pointer)"


def test_a_kernel_without_any_array() -> None:
    alone = jn.kernel.from_triton_c("__global__ void g(int *p) { *(p + 2) = 1; }")
    with pytest.raises(AccessError, match="address 0x8 is written, which is reached from a null pointer"):
        alone.interpret((1,), None)
    (finding,) = alone.sanitize((1,), None).findings
    assert finding.address == "address 0x8 (reached from a null pointer)"


def test_none_goes_to_pointers_alone() -> None:
    for run in (RUNS["interpreter"], RUNS["host"]):
        with pytest.raises(jn.UserError, match=r"parameter n of type int .*: expected a number, got NoneType"):
            run(kernel(), np.zeros(10, np.float32), None, None, None, 0)
