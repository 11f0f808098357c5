"""Memory of torch that nothing has written: values that happen to be what it held are written, what nobody wrote is found."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
import joinery  # noqa: E402
import joinery.triton  # noqa: E402
import triton.language as tl  # noqa: E402
from joinery.interface.triton.testing.memory import shadows, writes  # noqa: E402

COUNT = 48
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
INTEGERS = [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, *UNSIGNED]
DTYPES = [*FLOATS, *INTEGERS, torch.float8_e4m3fn, torch.float8_e5m2]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
NUMBERS = [0, 1, -1, 300, 2**40, 1.5, -0.0, 1e-30, 1e300, float("inf"), float("nan"), True, 1 + 2j, 0.1]


@pytest.fixture(autouse=True, scope="module")
def sanitized() -> Iterator[None]:
    joinery.triton.enable("sanitize")
    yield
    joinery.triton.disable()


def blank(tensor: Any) -> list[bool]:
    """Which elements of a tensor with its storage to itself are unwritten, in part at least."""
    storage = tensor.untyped_storage()
    found = shadows.unwritten_bytes((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    if found is None:
        return [False] * tensor.numel()
    return [bool(each) for each in found.reshape(-1, tensor.element_size()).any(axis=1)]


def octets(tensor: Any) -> Any:
    return tensor.view(torch.uint8)


# What torch writes: the values that the memory holds already, so that only the writing itself can tell

WRITERS: dict[str, Callable[[Any, Any, int], None]] = {
    "copy_": lambda x, held, n: x[:n].copy_(held[:n]),
    "assignment": lambda x, held, n: x.__setitem__(slice(0, n), held[:n]),
    "a view of other elements": lambda x, held, n: octets(x[:n]).copy_(octets(held[:n])),
    "data": lambda x, held, n: x.data[:n].copy_(held[:n]),
    "detach": lambda x, held, n: x.detach()[:n].copy_(held[:n]),
    "a column": lambda x, held, n: [x[:n].view(n // 4, 4).t()[i].copy_(held[:n].view(-1, 4).t()[i]) for i in range(4)],
    "as_strided": lambda x, held, n: x.as_strided((n,), (1,)).copy_(held[:n]),
    "out=": lambda x, held, n: torch.cat([held[: n // 2], held[n // 2 : n]], out=x[:n]),
    "set_": lambda x, held, n: torch.empty(0, dtype=x.dtype).set_(x)[:n].copy_(held[:n]),
    "index_put_": lambda x, held, n: x.index_put_((torch.arange(n),), held[:n]),
    "scatter_": lambda x, held, n: x.scatter_(0, torch.arange(n), held),
    "index_copy_": lambda x, held, n: x.index_copy_(0, torch.arange(n), held[:n]),
    "put_": lambda x, held, n: x.put_(torch.arange(n), held[:n]),
    "masked_scatter_": lambda x, held, n: x.masked_scatter_(torch.arange(COUNT) < n, held),
    "fill_": lambda x, held, n: [x[i].fill_(held[i]) for i in range(n)],
    "masked_fill_": lambda x, held, n: [x.masked_fill_(torch.arange(COUNT) == i, held[i]) for i in range(n)],
    "index_fill_": lambda x, held, n: [x.index_fill_(0, torch.tensor([i]), held[i]) for i in range(n)],
}
LACK = {"scatter_", "index_copy_", "put_", "masked_scatter_", "masked_fill_", "index_fill_", "index_put_", "out="}


@each_dtype
@pytest.mark.parametrize("writer", WRITERS)
def test_what_torch_writes_is_written_and_the_rest_is_not(writer: str, dtype: Any) -> None:
    x = torch.empty(COUNT, dtype=dtype)
    held = x.clone()
    for n in (8, 24):
        try:
            WRITERS[writer](x, held, n)
        except (NotImplementedError, RuntimeError):
            if writer not in LACK:
                raise
            pytest.skip("torch has no such function of this dtype")
        if dtype != torch.bool and writer not in ("fill_", "masked_fill_", "index_fill_", "scatter_"):  # others change NaNs
            assert torch.equal(octets(x), octets(held)), "only the writing itself can tell"
        assert not any(blank(x)[:n])
        if (writer, dtype) != ("scatter_", torch.bfloat16):  # which torch writes as a whole
            assert all(blank(x)[n:])


@each_dtype
def test_what_is_computed_in_place_is_written(dtype: Any) -> None:
    same = torch.nn.functional.relu if dtype.is_floating_point else None
    for change in (
        lambda x: x.zero_(), lambda x: torch._foreach_zero_([x]), lambda x: x.mul_(x.clone()), lambda x: x.add_(0),
        lambda x: torch.bitwise_and(x, x, out=x), lambda x: x.sort(out=(x, torch.empty(COUNT, dtype=torch.int64))),
        lambda x: torch.nn.init.normal_(x), lambda x: same(x, inplace=True),
    ):  # fmt: skip
        x = torch.empty(COUNT, dtype=dtype)
        try:
            change(x)
        except (NotImplementedError, RuntimeError, TypeError):
            continue  # torch has no such function of this dtype
        assert blank(x) == [False] * COUNT


def test_threads_gradients_and_inference() -> None:
    x = torch.empty(COUNT, dtype=torch.int8)
    held = x.clone()
    thread = threading.Thread(target=lambda: x[:8].copy_(held[:8]))
    thread.start()
    thread.join()
    with torch.inference_mode():
        x[8:16] = held[8:16]
    assert blank(x) == [i >= 16 for i in range(COUNT)]
    weight = torch.ones(COUNT, requires_grad=True)
    weight.grad = torch.empty(COUNT)
    weight.grad.zero_()
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [2.0] * COUNT
    assert not any(blank(weight.grad))


def test_elements_that_an_operator_leaves_stay_unwritten_whatever_it_reads() -> None:
    x = torch.empty(COUNT, dtype=torch.int32)
    x[:4] = 1
    x.scatter_add_(0, torch.tensor([0, 1]), torch.tensor([0, 0], dtype=torch.int32))
    x.index_add_(0, torch.tensor([2]), torch.tensor([5], dtype=torch.int32))
    x.index_put_((torch.tensor([10, 11]),), x[20:22].clone())
    assert blank(x) == [i >= 4 and i not in (10, 11) for i in range(COUNT)]
    assert x[:4].tolist() == [1, 1, 6, 1]


def test_results_are_what_they_were() -> None:
    """Numbers that torch makes tensors of keep their precision, and their place among dtypes."""
    blanks = [torch.empty(3) for _ in range(3)]
    single = torch.tensor(1, dtype=torch.int8)
    assert (single + 1).dtype == torch.int8
    assert single.add_(300).item() == 45
    assert torch.add(single, 1, out=torch.empty((), dtype=torch.int8)).item() == 46
    assert torch.ones(3, dtype=torch.float64).mul_(0.1).tolist() == [0.1] * 3
    assert torch.ones(3, dtype=torch.float64).copy_(torch.tensor(0.1, dtype=torch.float64)).tolist() == [0.1] * 3
    assert torch.ones(2, dtype=torch.complex128).add_(0.1j).tolist() == [1 + 0.1j] * 2
    before = blanks[0]._version
    assert blanks[0].fill_(2)._version == before + 1
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        torch.ones(3, dtype=torch.int32).add_(0.5)


# NumPy, and whoever else is not asked


def computed_in_place(dtype: Any) -> list[str]:
    """What operators of a tensor and a number leave in the tensor, bit for bit, or how they refuse it."""
    found = []
    for shape in ((), (1,), (3, 5)):
        for name, options in (("add_", {}), ("add_", {"alpha": 3}), ("sub_", {}), ("mul_", {}), ("div_", {})):
            for number in NUMBERS:
                tensor = (torch.arange(-7.0, 8.0)[: int(np.prod(shape))] * 7).to(dtype).reshape(shape)
                try:
                    getattr(tensor, name)(number, **options)
                    found.append(str(octets(tensor.reshape(-1)).tolist()))
                except RuntimeError as error:
                    found.append(str(error))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.uint8], ids=str)
def test_numbers_are_what_they_are_to_torch(dtype: Any) -> None:
    writes.unwatch()
    try:
        expected = computed_in_place(dtype)
    finally:
        writes.watch(torch)
    shadows.clear()
    assert computed_in_place(dtype) == expected
    kept = torch.empty(COUNT)
    assert computed_in_place(dtype) == expected
    assert all(blank(kept))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64, torch.float64, torch.complex64])
@pytest.mark.parametrize("alias", [lambda x: x.numpy(), np.asarray, np.from_dlpack, lambda x: x.detach().numpy()[:]])
def test_what_arrays_of_numpy_write_is_found_by_what_it_changes(dtype: Any, alias: Any) -> None:
    x = torch.empty(COUNT, dtype=dtype)
    held = x.clone()
    array = alias(x)
    assert blank(x) == [True] * COUNT, "an array alone writes nothing"
    array[8:24] = np.flip(held.numpy()[8:24])
    near = shadows.DOUBT // x.element_size()
    found = blank(x)
    assert not any(found[8:24])
    assert all(found[: 8 - near] + found[24 + near :])
    x[: 8 - near].copy_(held[: 8 - near])
    assert not any(blank(x)[: 8 - near])


def test_a_value_that_memory_held_is_written_beside_others() -> None:
    x = torch.empty(COUNT, dtype=torch.int32)
    held = x.clone().numpy()
    array = x.numpy()
    array[:16] = np.where(np.arange(16) % 4 == 3, held[:16], 5)  # every fourth value is what was there
    assert not any(blank(x)[:16])
    assert all(blank(x)[20:])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool, torch.int16, torch.float16])
def test_elements_too_small_to_tell_count_as_written_once_numpy_has_them(dtype: Any) -> None:
    x = torch.empty(COUNT, dtype=dtype)
    assert all(blank(x))
    x.numpy()
    assert not any(blank(x))


def test_what_was_never_handed_out_is_not_guessed() -> None:
    x = torch.empty(4096, dtype=torch.int32)
    first = shadows.unwritten_bytes((x.data_ptr(), x.data_ptr() + 16384))
    assert first is not None
    assert first.all()
    fill = x.numpy().copy()
    y = torch.from_numpy(fill)  # the same bytes, of which NumPy says that they are written
    assert not any(blank(y))
    assert len(set(fill.tolist())) > 3000, "no value that a program could write by habit"
    assert np.isnan(fill.view(np.float32)).all()


# Storages


def test_memory_that_moves_dies_or_is_used_again() -> None:
    x = torch.empty(COUNT)
    storage = x.untyped_storage()
    span = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    x.resize_(1 << 16)
    assert shadows.unwritten_bytes(span) is None
    assert all(blank(x))
    for _ in range(50):  # memory of one size comes again
        y = torch.empty(COUNT, dtype=torch.uint8)
        assert all(blank(y))
        del y
        z = torch.zeros(COUNT, dtype=torch.uint8)
        assert not any(blank(z))
        z[:] = 255
        del z
    assert not any(blank(torch.empty(COUNT).set_(torch.zeros(COUNT))))


def test_frozen_objects_and_storages_alone() -> None:
    x = torch.empty(COUNT, dtype=torch.int16)
    held = x.clone()
    gc.freeze()
    try:
        x[:8] = held[:8]
        storage = x.untyped_storage()
        whole = torch.empty(0, dtype=torch.int16).set_(storage)
        del x
        assert blank(whole) == [i >= 8 for i in range(COUNT)]
        whole[8:] = held[8:]
        assert not any(blank(whole))
    finally:
        gc.unfreeze()


def test_overlapping_shadows_end() -> None:
    memory = torch.zeros(64, dtype=torch.uint8)
    first, other = memory.data_ptr(), torch.zeros(1).untyped_storage()
    from torch.multiprocessing.reductions import StorageWeakRef

    for start, size in ((0, 64), (8, 8), (4, 20), (32, 16), (28, 8)):
        shadows.add(StorageWeakRef(other), first + start, size)
    held = [i for i in range(64) if shadows.around(first + i) is not None]
    assert held == [*range(4, 24), *range(28, 36)]
    for start in (4, 28):
        found = shadows.around(first + start)
        assert found is not None
        shadows.remove(found)


def test_torch_that_cannot_be_asked_tells_by_what_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    joinery.triton.disable()
    monkeypatch.setattr(writes, "_POINT", "NoSuchKey")
    joinery.triton.enable("sanitize")
    try:
        assert not writes._library
        x = torch.empty(COUNT)
        x[:8] = 1
        assert blank(x) == [i >= 8 + shadows.DOUBT // 4 for i in range(COUNT)]
    finally:
        monkeypatch.undo()
        joinery.triton.disable()
        joinery.triton.enable("sanitize")
        assert writes._library


# Kernels


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_by_address(table, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def finds(kernel: Any, *args: Any) -> bool:
    message = ""
    try:
        kernel[(1,)](*args, BLOCK=64)
    except joinery.SanitizerError as error:
        message = str(error)
    assert not message or "nothing has written" in message
    return message != ""


@each_dtype
def test_what_kernels_store_is_written(dtype: Any) -> None:
    if dtype == torch.complex64:
        pytest.skip("Triton has no complex numbers")
    x, y = torch.empty(COUNT, dtype=dtype), torch.zeros(COUNT, dtype=dtype)
    held = x.clone()
    assert finds(copy, x, y, 1)
    assert not finds(copy, held, x, 20)
    assert blank(x) == [i >= 20 for i in range(COUNT)]
    assert not finds(copy, x, y, 20)
    assert finds(copy, x, y, 21)
    assert not finds(copy, held[20:], x[20:], COUNT - 20)
    assert not finds(copy, x, y, COUNT)


def test_what_interpreted_launches_store_and_load_through_tables() -> None:
    x, y = torch.empty(COUNT), torch.zeros(COUNT)
    held = x.clone()
    assert finds(copy_by_address, torch.tensor([x.data_ptr()]), y, 1)
    assert not finds(copy_by_address, torch.tensor([held.data_ptr()]), x, 20)
    assert blank(x) == [i >= 20 for i in range(COUNT)]
    assert not finds(copy_by_address, torch.tensor([x.data_ptr()]), y, 20)
    assert finds(copy_by_address, torch.tensor([x.data_ptr()]), y, 21)


def test_launches_in_other_modes_write_too() -> None:
    x, ones = torch.empty(COUNT), torch.ones(COUNT)
    copy[(1,)](ones, x, 16, BLOCK=64, interpret=True)
    copy[(1,)](ones, x[16:], 16, BLOCK=64, device="cpu")
    assert blank(x) == [i >= 32 + shadows.DOUBT // 4 for i in range(COUNT)]


ON_CUDA = """
import torch, triton, triton.language as tl
import joinery, joinery.triton
from joinery.interface.triton.testing.memory import shadows
from joinery.interface.triton.testing.suites import Choices, prepare

prepare(Choices("sanitize", "cuda", "sm_90a", None, True, 1))

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

def blank(x):
    storage = x.untyped_storage()
    found = shadows.unwritten_bytes((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return 0 if found is None else int(found.sum()) // x.element_size()

index = torch.arange(8, device="cuda")
for dtype in (torch.uint8, torch.int16, torch.int32, torch.float32, torch.int64):
    x = torch.empty(64, dtype=dtype, device="cuda")
    held = x.clone()
    x[:8] = held[:8]
    assert blank(x) == 56, "assigned"
    x.view(8, 8).t()[0].copy_(held.view(8, 8).t()[0])
    assert blank(x) == 49, "a column"
    x.index_put_((index + 8,), held[8:16])
    assert blank(x) == 42, "indexed"
    x.scatter_(0, index + 16, held[16:])
    assert blank(x) == 35, "scattered"
    torch.cat([held[24:28], held[28:32]], out=x[24:32])
    assert blank(x) == 28, "out="
    x[32:40].copy_(held[32:40].cpu())
    assert blank(x) == 21, "from the CPU"
    y = torch.zeros_like(x)
    copy[(1,)](x, y, 40, BLOCK=64)
    try:
        copy[(1,)](x, y, 42, BLOCK=64)
    except joinery.SanitizerError as error:
        assert "nothing has written" in str(error)
    else:
        raise AssertionError("not found")
    copy[(1,)](held, x, 64, BLOCK=64)
    copy[(1,)](x, y, 64, BLOCK=64)
    grown = torch.empty(4, dtype=dtype, device="cuda")
    grown.resize_(100)
    assert blank(grown) == 100, "memory that torch resized is new"
x = torch.ones(3, dtype=torch.float64, device="cuda")
assert (x * 0.1).tolist() == [0.1] * 3 and x.mul_(0.1).tolist() == [0.1] * 3
assert (torch.tensor(1, dtype=torch.int8, device="cuda") + 1).dtype == torch.int8
x.requires_grad_()
(x * x).sum().backward()
assert x.grad.tolist() == [0.2] * 3
"""


def test_a_device_that_stands_in_for_cuda(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ON_CUDA)
    surroundings = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    done = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, check=False, env=surroundings, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


DYNAMO = """
import torch, joinery.triton as door
for value in range(3):
    door.disable() if value == 1 else door.enable("sanitize")
    torch._dynamo.reset()
    whole = torch.compile(lambda x: torch.empty_like(x.t()).fill_(value), backend="eager", fullgraph=True)
    assert whole(torch.ones(2, 3)).eq(value).all()
"""


def test_torchs_compiler_knows_the_functions_before_and_afterwards() -> None:
    """It knows functions by identity: with `fullgraph` an unknown one is an error."""
    done = subprocess.run([sys.executable, "-c", DYNAMO], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Every way to memory that nothing has written

MAKERS: dict[str, Callable[[], Any]] = {
    "Tensor": lambda: torch.Tensor(8),
    "Tensor of two sizes": lambda: torch.Tensor(2, 4),
    "Tensor of a size": lambda: torch.Tensor(torch.Size([2, 4])),
    "new": lambda: torch.zeros(3).new(8),
    "new_empty": lambda: torch.zeros(3).new_empty(8),
    "new_empty_strided": lambda: torch.zeros(3).new_empty_strided((2, 4), (4, 1)),
    "empty_like": lambda: torch.empty_like(torch.zeros(8)),
    "empty_strided": lambda: torch.empty_strided((2, 4), (1, 2)),
    "empty_permuted": lambda: torch.empty_permuted((2, 4), (1, 0)),
    "resize_ of nothing": lambda: torch.empty(0).resize_(8),
    "resize_as_ of nothing": lambda: torch.empty(0).resize_as_(torch.zeros(8)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_memory_that_torch_hands_out_is_unwritten(maker: str) -> None:
    x = MAKERS[maker]()
    assert blank(x) == [True] * 8
    x.as_strided((3,), (1,)).copy_(x.as_strided((3,), (1,)).clone())
    assert blank(x) == [False] * 3 + [True] * 5


GROWING: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda x: x.resize_(12), "storage": lambda x: x.untyped_storage().resize_(48)
}  # fmt: skip


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING)
def test_what_grows_is_unwritten_where_it_is_new(grow: Callable[[Any], Any]) -> None:
    x = torch.arange(8.0)
    grow(x)
    assert x[:8].tolist() == [*range(8)]
    assert blank(x.resize_(12)) == [False] * 8 + [True] * 4
    y = torch.empty(8)
    y[2:5] = 1
    grow(y)
    assert blank(y.resize_(12)) == [True] * 2 + [False] * 3 + [True] * 7
    assert y.resize_(4).resize_(12)[2:5].tolist() == [1, 1, 1]
    assert blank(y) == [True] * 2 + [False] * 3 + [True] * 7
    assert blank(y.resize_(2000)) == [True] * 2 + [False] * 3 + [True] * 1995


def test_tensors_of_values_are_written() -> None:
    held = torch.zeros(4)
    made = [torch.Tensor([1, 2]), torch.Tensor((3, 4)), torch.Tensor(held), held.new([1, 2]), held.new(held)]
    made += [torch.Tensor(data=[1, 2]), torch.Tensor(other=held), torch.Tensor(storage=held.untyped_storage())]
    made += [held.new(data=[1, 2]), held.new(other=held)]
    made += [torch.nn.Parameter(torch.zeros(4)), torch.Tensor(), torch.zeros(8).resize_(4), torch.zeros(4).resize_(4)]
    for each in made:
        assert not any(blank(each))
    assert held.tolist() == [0] * 4
