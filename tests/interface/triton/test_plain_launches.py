"""Launches by Triton that native code takes apart: tensors and arrays of all kinds. Needs triton and torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joinery
import numpy as np
import pytest
from joinery.interface.native.memory_layout import memory_layout
from joinery.interface.triton.patches.arrays import ArrayArgument

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
tl = triton.language
N = 8


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def unmasked(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * 2, mask=i < n)


@triton.jit
def scaled(x, y, f, d, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * f, mask=i < n)


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    joinery.triton.enable(threads=1)
    yield
    joinery.triton.disable()


def plain_launches(kernel: Any) -> list[Any]:
    """What makes the launches of a kernel natively, of each of its compiled forms."""
    caches = [cache[0] if isinstance(cache, tuple) else cache for cache in kernel.device_caches.values()]
    return [each.run._plain for cache in caches for each in cache.values()]


class Counted:
    """Counts launches of a kernel that native code has made."""

    def __init__(self, kernel: Any) -> None:
        self.native = 0
        for each in plain_launches(kernel):
            each.start = self._counting(each.start)

    def _counting(self, start: Any) -> Any:
        def counted(*args: Any) -> Any:
            answer = start(*args)
            self.native += answer is None
            return answer

        return counted


def natively(kernel: Any, *args: Any, **options: Any) -> bool:
    """Launch twice, and return whether native code took the second launch apart."""
    kernel[(1,)](*args, BLOCK=N, **options)
    counted = Counted(kernel)
    kernel[(1,)](*args, BLOCK=N, **options)
    return counted.native == 1


def test_the_layout_of_tensors_is_found() -> None:
    found = memory_layout(ArrayArgument, "cpu")
    assert found is not None
    assert found.has_tensors


VALUES = np.arange(1.0, N + 1, dtype=np.float32)
TENSORS = {
    "a tensor": lambda: torch.from_numpy(VALUES.copy()),
    "torch's own memory": lambda: torch.arange(1.0, N + 1),
    "a parameter": lambda: torch.nn.Parameter(torch.arange(1.0, N + 1)),
    "a view": lambda: torch.arange(-2.0, N + 4)[3 : 3 + N],
    "a view of a view": lambda: torch.arange(-5.0, N + 1).view(1, -1)[0, 2:][4:].view(N, 1)[:, 0],
    "a transposed view": lambda: torch.arange(1.0, N + 1).view(2, 4).t(),
    "a strided view": lambda: torch.arange(1.0, N + 1)[::2],
    "one that requires a gradient": lambda: torch.arange(1.0, N + 1, requires_grad=True),
    "detached": lambda: torch.arange(1.0, N + 1, requires_grad=True).detach(),
    "computed": lambda: torch.arange(1.0, N + 1, requires_grad=True) * 1,
    "resized": lambda: torch.empty(1).resize_(N).copy_(torch.arange(1.0, N + 1)),
    "one element": lambda: torch.arange(1.0, N + 1)[:1],
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
@pytest.mark.parametrize("check_bounds", [False, True])
def test_tensors_of_one_memory(make: Any, check_bounds: bool) -> None:
    x, y = make(), torch.full((3, N + 3), -1.0)[1, 2:-1]
    n = min(x.untyped_storage().nbytes() // 4 - x.storage_offset(), N)
    assert natively(double, x, y, n, check_bounds=check_bounds)
    expected = x.detach().as_strided((n,), (1,)) * 2
    assert y[:n].tolist() == expected.tolist()
    assert y[n:].tolist() == [-1.0] * (N - n)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool", "float8_e5m2"]
)
def test_elements_of_every_size(dtype: str) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    x = (torch.arange(N + 3) % 2).to(getattr(torch, dtype))[3:]  # a view: its address depends on the size of elements
    y = torch.zeros(N, dtype=torch.float32)
    if dtype.startswith("float8"):
        pytest.importorskip("ml_dtypes")
    assert natively(double, x, y, N)
    assert y.tolist() == (2 * x.float()).tolist()


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x, y = torch.arange(1.0, N + 1), torch.zeros(N)
        assert natively(double, x, y, N)
        assert y.tolist() == [2.0 * i for i in range(1, N + 1)]


def test_tensors_that_share_memory_until_it_is_written_get_their_own() -> None:
    x, y = torch.arange(1.0, N + 1), torch.zeros(N)
    assert natively(double, x, y, N)
    shared = torch._lazy_clone(y)
    before = y.tolist()
    double[(1,)](x * 10, shared, N, BLOCK=N)
    assert y.tolist() == before
    assert shared.tolist() == [10 * each for each in before]


def test_tensors_without_elements_have_no_address() -> None:
    y = torch.zeros(N)
    double[(1,)](y, torch.ones(N), N, BLOCK=N)
    empty = torch.ones(N)[:0]
    assert not natively(double, empty, y, 0)
    assert y.tolist() == [0.0] * N


def test_tensors_without_memory_here_are_refused_after_plain_ones() -> None:
    y = torch.zeros(N)
    assert natively(double, torch.ones(N), y, N)
    with pytest.raises((joinery.UserError, TypeError)):
        double[(1,)](torch.empty(N, device="meta"), y, N, BLOCK=N)
    with pytest.raises((joinery.UserError, TypeError)):
        double[(1,)](torch.ones(N).to_sparse(), y, N, BLOCK=N)

    def launch(x: Any) -> Any:
        double[(1,)](x, y, N, BLOCK=N)
        return x

    with pytest.raises((joinery.UserError, RuntimeError)):
        torch.func.vmap(launch)(torch.ones(2, N))


def test_tensors_that_get_other_memory_are_looked_at_anew() -> None:
    x, y = torch.ones(N), torch.zeros(N)
    assert natively(double, x, y, N)
    x.set_(torch.full((N,), 5.0).untyped_storage())
    double[(1,)](x, y, N, BLOCK=N)
    assert y.tolist() == [10.0] * N
    y.resize_(100 * N)
    y.fill_(0)
    double[(1,)](x, y, N, BLOCK=N)
    assert y[: N + 1].tolist() == [10.0] * N + [0.0]


ARRAYS = {
    "an array": lambda: VALUES.copy(),
    "a view": lambda: np.arange(-2, N + 4, dtype=np.float32)[3 : 3 + N],
    "a transposed view": lambda: VALUES.reshape(2, 4).copy().T,
    "reversed": lambda: VALUES.copy()[::-1],
    "of a tensor": lambda: torch.arange(1.0, N + 1).numpy(),
    "of bytes": lambda: np.frombuffer(bytearray(VALUES.tobytes()), np.float32),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("check_bounds", [False, True])
def test_arrays(make: Any, check_bounds: bool) -> None:
    x, y = make(), np.full(N + 2, -1, np.float32)[1:]
    n = 1 if x.strides == (-4,) else N
    assert natively(double, x, y, n, check_bounds=check_bounds)
    expected = np.lib.stride_tricks.as_strided(x, (n,), (4,)) * 2
    np.testing.assert_array_equal(y, [*expected, *[-1] * (N + 1 - n)])


def test_arrays_in_memory_of_files(tmp_path: Any) -> None:
    file = np.memmap(tmp_path / "x", np.float32, "w+", shape=(N,))
    file[:] = VALUES
    y = np.zeros(N, np.float32)
    double[(1,)](file, y, N, BLOCK=N)
    double[(1,)](file[1:], y, N - 1, BLOCK=N)
    np.testing.assert_array_equal(y[:-1], VALUES[1:] * 2)


@pytest.mark.parametrize("make", [torch.zeros, lambda n: np.zeros(n, np.float32)], ids=["torch", "numpy"])
def test_accesses_outside_say_the_same_at_every_launch(make: Any) -> None:
    x, y, short = make(N), make(N), make(N - 1)
    words = set()
    for _ in range(3):
        unmasked[(1,)](x, y, N, BLOCK=N, check_bounds=True)
        with pytest.raises(joinery.AccessError) as caught:
            unmasked[(1,)](short, y, N, BLOCK=N, check_bounds=True)
        words.add(str(caught.value))
    assert len(words) == 1
    assert "element 7 of array 'x' is read" in words.pop()


def test_memory_in_common_takes_other_code() -> None:
    x = torch.arange(1.0, N + 1)
    assert not natively(double, x, x, N)
    assert x.tolist() == [4.0 * i for i in range(1, N + 1)]
    whole = torch.arange(1.0, 2 * N + 1)
    assert not natively(double, whole[:N], whole[N:], N)  # their storage may be reached from either
    assert whole[N:].tolist() == [2.0 * i for i in range(1, N + 1)]


def test_numbers() -> None:
    x, y = torch.ones(N), torch.zeros(N)
    for factor in (0.1, 1e-5, -0.0, float("inf"), 3e-45, 1e39, float("nan"), 7):
        for _ in range(2):
            scaled[(1,)](x, y, factor, 2.5, N, BLOCK=N)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y.numpy(), np.full(N, np.array(factor).astype(np.float32)))
    assert natively(scaled, x, y, 0.1, 2.5, N)
    assert natively(scaled, x, y, 0.1, True, N)
    assert natively(scaled, x, y, 0.1, (1 << 64) - 1, N)


def test_grids_and_hooks_and_settings() -> None:
    x, y = torch.ones(N), torch.zeros(N)
    assert natively(double, x, y, N)
    for grid in ((np.int64(1),), (torch.tensor(1),), lambda meta: (1, 1), (1, 1, 1)):
        y.zero_()
        double[grid](x, y, N, BLOCK=N)
        assert y.tolist() == [2.0] * N
    double[(0,)](x, y.zero_(), N, BLOCK=N)
    assert y.tolist() == [0.0] * N
    with pytest.raises(joinery.UserError, match="the grid"):
        double[(-1,)](x, y, N, BLOCK=N)
    joinery.triton.enable("interpret")
    counted = Counted(double)
    double[(1,)](x, y, N, BLOCK=N)
    assert counted.native == 0
    assert y.tolist() == [2.0] * N
