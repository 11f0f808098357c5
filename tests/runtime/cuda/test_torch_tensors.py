"""Launches on tensors of torch: in place, on torch's stream, without a capsule. The tensors are a stand-in's."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.cuda.device import cuda_device

from ...support.cuda.kernels import VECTOR_ADD
from .test_launch import floats, kernel

LEGACY = 1
"""The driver's number of the default stream, on which the stand-in for torch works."""


class Tensor:
    """A tensor of the stand-in, over a buffer's memory."""

    layout, requires_grad = "strided", False

    def __init__(self, array: np.ndarray, **differences: Any) -> None:
        self.buffer: Any = jn.Buffer(array)
        self.exported = 0
        self.__dict__.update(differences)

    is_cuda = property(lambda self: True)

    def get_device(self) -> int:
        return 0

    def element_size(self) -> int:
        return int(self.buffer.itemsize)

    def is_contiguous(self) -> bool:
        return True

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def data_ptr(self) -> int:
        return int(self.buffer.address)

    def __dlpack_device__(self) -> Any:
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        self.exported += 1
        return self.buffer.__dlpack__(**options)


@pytest.fixture
def tensor(monkeypatch: pytest.MonkeyPatch, fake: Any) -> Callable[..., Tensor]:
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.strided = Tensor, "strided"
    torch.cuda = SimpleNamespace(current_stream=lambda ordinal: SimpleNamespace(cuda_stream=0))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Tensor


def streams(fake: Any) -> list[int]:
    return [call[1][4] for call in fake.named("cuLaunchKernelEx")]


def test_a_launch_on_tensors_joins_their_stream_and_returns_at_once(fake: Any, tensor: Callable[..., Tensor]) -> None:
    x, y, out = (tensor(floats(300, seed)) for seed in (1, 2, 3))
    k = kernel(VECTOR_ADD)
    fake.calls.clear()
    for _ in range(2):
        k.launch((2,), x, y, out, 300, device="cuda")
    assert streams(fake) == [LEGACY, LEGACY]
    assert fake.named("cuStreamSynchronize", "cuEventRecord") == []
    assert (x.exported, y.exported, out.exported) == (0, 0, 0)
    fake.settle()
    np.testing.assert_array_equal(out.buffer.numpy(), floats(300, 1) + floats(300, 2))


def test_buffers_beside_tensors_are_ordered_on_both_sides(fake: Any, tensor: Callable[..., Tensor]) -> None:
    """Streams are lazy here: a wait that is missing is a wrong result."""
    x, y, last = jn.Buffer(floats(300, 1)), jn.Buffer(floats(300, 2)), jn.Buffer((300,))
    there, k = tensor(floats(300, 3)), kernel(VECTOR_ADD)
    k.launch((2,), x, y, y, 300, device="cuda")  # on the device's own stream
    k.launch((2,), y, y, there, 300, device="cuda")
    k.launch((2,), there, y, y, 300, device="cuda")
    k.launch((2,), y, y, last, 300, device="cuda")
    own = streams(fake)[0]
    assert streams(fake) == [own, LEGACY, LEGACY, own]
    np.testing.assert_array_equal(last.numpy(), (floats(300, 1) + floats(300, 2)) * 6)


def test_arrays_of_the_host_beside_tensors(fake: Any, tensor: Callable[..., Tensor]) -> None:
    x, out = floats(300, 1), np.zeros(300, np.float32)
    kernel(VECTOR_ADD).launch((2,), x, tensor(floats(300, 2)), out, 300, device="cuda")
    np.testing.assert_array_equal(out, x + floats(300, 2))


def test_what_is_printed_is_there_when_the_launch_returns(fake: Any, tensor: Callable[..., Tensor]) -> None:
    text = VECTOR_ADD.replace("tt.return", 'tt.print " n: " {hex = false, isSigned = array<i32: 1>} : %n : i32\ntt.return')
    kernel(text).launch(1, *[tensor(floats(300))] * 3, 300, device="cuda")
    assert "n: 300" in fake.printed


@pytest.mark.parametrize("is_torchs", [False, True])
def test_a_kernel_on_their_stream_is_never_unloaded(fake: Any, tensor: Callable[..., Tensor], is_torchs: bool) -> None:
    """They may have recorded it, and replay it later."""
    x = tensor(floats(300)) if is_torchs else jn.Buffer(floats(300))
    kernel(VECTOR_ADD).launch((2,), x, x, x, 300, device="cuda")
    gc.collect()
    cuda_device().synchronize()
    assert len(fake.named("cuModuleUnload")) == (0 if is_torchs else 1)
    assert len(fake.modules) == (1 if is_torchs else 0)


@pytest.mark.parametrize(
    "differences", [{"layout": "sparse"}, {"requires_grad": True}, {"is_contiguous": lambda: False}, {"is_neg": lambda: True},
                    {"is_conj": lambda: True}, {"element_size": lambda: 8}, {"get_device": lambda: 1}],
)  # fmt: skip
def test_tensors_that_are_not_plain_are_asked_for_a_capsule(
    fake: Any, tensor: Callable[..., Tensor], differences: dict[str, Any]
) -> None:
    """Their own library says whether there is one, and why not."""
    odd = tensor(floats(300, 1), **differences)
    kernel(VECTOR_ADD).launch((2,), odd, odd, odd, 300, device="cuda")
    assert odd.exported > 0


def test_subclasses_are_asked_for_a_capsule(fake: Any, tensor: Callable[..., Tensor]) -> None:
    odd = type("Subclass", (Tensor,), {})(floats(300, 1))
    kernel(VECTOR_ADD).launch((2,), odd, odd, odd, 300, device="cuda")
    assert odd.exported > 0
