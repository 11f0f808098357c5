"""Compiled models read tensors by pointer, sizes and strides, and take for granted only what they have looked at."""

from __future__ import annotations

import ctypes
import gc
import mmap
import resource
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import joinery.torch  # noqa: E402
from joinery.interface.torch import native  # noqa: E402
from joinery.interface.torch.parts import CompiledPart  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts without compiled frames and without reports."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)
    with torch.no_grad():
        yield


@pytest.fixture
def native_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs through arrays of NumPy."""

    def fail(*arguments: Any) -> Any:
        raise AssertionError("the slow path ran")

    monkeypatch.setattr(CompiledPart, "_run", fail)


def compiled(function: Any, **settings: Any) -> Any:
    return torch.compile(function, backend="joinery", fullgraph=True, **settings)


def copied() -> int:
    return sum(graph.copied for graph in joinery.torch.report())


def assert_same(got: Any, wanted: Any) -> None:
    assert got.stride() == wanted.stride()
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_this_version_of_pytorch_has_an_entry() -> None:
    assert native.has_known_tensors()


# -- strides -----------------------------------------------------------------------------------------------------------

STRIDED: dict[str, Callable[[], Any]] = {
    "every other column": lambda: torch.randn(3, 8)[:, ::2],
    "every other of an odd number": lambda: torch.randn(3, 7)[:, ::2],
    "every third": lambda: torch.randn(10)[1::3],
    "a box": lambda: torch.randn(4, 6, 8)[1:, 2:5, 3:7],
    "a box, turned": lambda: torch.randn(4, 6, 8)[1:, 2:5, 3:7].transpose(0, 2),
    "a box with steps, turned": lambda: torch.randn(4, 6, 8)[:, 2:5, ::3].transpose(0, 1),
    "rows repeated": lambda: torch.randn(4, 1).expand(4, 7),
    "a cut, repeated": lambda: torch.randn(4, 1, 6)[:, :, 1:4].expand(4, 7, 3),
    "one number": lambda: torch.tensor(2.0).expand(3, 4),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "a cut of channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)[:, :2],
    "seven axes": lambda: torch.randn(2, 1, 2, 3, 2, 2, 4)[:, :, :, 1:, :, :, :3].transpose(1, 5),
    "bfloat16": lambda: torch.randn(6, 8).bfloat16()[:, 2:5],
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.usefixtures("native_only")
def test_strided_inputs_are_read_where_they_lie(name: str) -> None:
    x = STRIDED[name]()
    function = lambda x: x * 2 + 1  # noqa: E731
    assert_same(compiled(function)(x), function(x))
    assert copied() == 0


@pytest.mark.parametrize("function", [
    lambda x: x @ x.t(), lambda x: torch.softmax(x, 1), lambda x: x.sum(0), lambda x: x.t().contiguous(),
    lambda x: x.cumsum(1), lambda x: torch.nn.functional.layer_norm(x, (x.shape[1],)),
], ids=["product", "softmax", "sum", "transpose", "cumsum", "norm"])  # fmt: skip
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.usefixtures("native_only")
def test_kernels_of_every_kind_read_between_gaps(function: Any, step: int) -> None:
    x = torch.randn(37, 150)[:, 3:134:step]
    torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-4)
    assert copied() == 0


def fenced(rows: int, columns: int, width: int) -> Any:
    """Return a tensor of rows with gaps between them that ends where memory that cannot be read begins."""
    page = mmap.PAGESIZE
    count = (rows - 1) * width + columns
    whole = -(-4 * count // page) * page
    memory = mmap.mmap(-1, whole + page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(first + whole), page, 0) == 0
    flat = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=whole - 4 * count)
    flat.copy_(torch.randn(count))
    return flat.as_strided((rows, columns), (width, 1))


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: x @ x.t(), lambda x: x.t() @ x, lambda x: x.softmax(-1),
                                      lambda x: x.sum(0), lambda x: x.t().contiguous()],
                         ids=["add", "product", "product of columns", "softmax", "sum", "transpose"])  # fmt: skip
@pytest.mark.usefixtures("native_only")
def test_nothing_behind_the_last_element_is_read(function: Any) -> None:
    x = fenced(70, 133, 150)
    torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: torch.randn(20).as_strided((3, 4), (2, 3)), lambda: torch.randn(20).unfold(0, 4, 2)],
                         ids=["woven", "windows"])  # fmt: skip
def test_elements_that_lie_in_no_box_are_copied_and_counted(make: Any) -> None:
    x = make()
    run = compiled(lambda x: x + 1)
    torch.testing.assert_close(run(x), x + 1)
    torch.testing.assert_close(run(x), x + 1)
    assert copied() == 2


@pytest.mark.usefixtures("native_only")
def test_symbolic_strides_are_found_by_each_call() -> None:
    function = lambda x: x * 2 + x.sum(1, keepdim=True)  # noqa: E731
    run = compiled(function, dynamic=True)
    for width, first, last, step in ((6, 1, 4, 1), (9, 1, 6, 1), (8, 2, 7, 1), (8, 0, 8, 2), (12, 0, 12, 3)):
        x = torch.randn(width + 1, width)[:, first:last:step]
        assert_same(run(x), function(x))
    assert copied() == 0


# -- what is not taken for granted -------------------------------------------------------------------------------------


def part_of(function: Any, *examples: Any) -> CompiledPart:
    """Return the only part of a function that was compiled for examples."""
    found: list[CompiledPart] = []
    before = CompiledPart.caller

    def caller(self: CompiledPart, given: Any) -> Any:
        found.append(self)
        return before(self, given)

    CompiledPart.caller = caller  # type: ignore[method-assign]
    try:
        compiled(function)(*examples)
    finally:
        CompiledPart.caller = before  # type: ignore[method-assign]
    (part,) = found
    return part


@pytest.mark.parametrize("given", [
    lambda: torch.randn(6, 4).t(), lambda: torch.randn(4, 12)[:, ::2], lambda: torch.randn(1, 6).expand(4, 6),
    lambda: torch.randn(5, 7)[1:, 1:], lambda: torch.randn(4, 6, requires_grad=True), lambda: nn.Parameter(torch.randn(4, 6)),
    lambda: torch._neg_view(torch.randn(4, 6)), lambda: torch._lazy_clone(torch.randn(4, 6)),
    lambda: torch._efficientzerotensor((4, 6)), lambda: torch.randn(4, 6).as_subclass(type("Named", (torch.Tensor,), {})),
], ids=["transposed", "steps", "repeated", "cut", "needs a gradient", "parameter", "negative bit", "copied on write",
        "zeros without memory", "subclass"])  # fmt: skip
def test_whatever_comes_for_a_dense_tensor_is_read_as_it_is(given: Any) -> None:
    part = part_of(lambda x: x + 1, torch.randn(4, 6))
    call = part.caller(part.needs)
    x = given()
    torch.testing.assert_close(call(x)[0], (x + 1).detach().as_subclass(torch.Tensor))


def test_a_tensor_that_was_to_repeat_its_elements_may_have_all_of_them() -> None:
    part = part_of(lambda x: x + 1, torch.randn(4, 1).expand(4, 6))
    call = part.caller(part.needs)
    for x in (torch.randn(4, 6), torch.randn(4, 1).expand(4, 6), torch.randn(6, 4).t()):
        torch.testing.assert_close(call(x)[0], x + 1)


def test_gaps_other_than_those_compiled_for_are_read_too() -> None:
    part = part_of(lambda x: x + 1, torch.randn(4, 8)[:, :6])
    call = part.caller(part.needs)
    for x in (torch.randn(4, 6), torch.randn(4, 9)[:, 2:8], torch.randn(8, 8)[::2, :6], torch.randn(6, 4).t()):
        torch.testing.assert_close(call(x)[0], x + 1)


@pytest.mark.parametrize("given", [lambda: torch.randn(4, 7), lambda: torch.randn(4), lambda: torch.ones(4, 6).int(),
                                   lambda: 3.0, lambda: None])  # fmt: skip
def test_what_does_not_fit_is_an_error(given: Any) -> None:
    part = part_of(lambda x: x + 1, torch.randn(4, 6))
    call = part.caller(part.needs)
    with pytest.raises((joinery.UserError, AttributeError, RuntimeError, TypeError)):
        call(given())
    with pytest.raises(KeyError if not native.has_known_tensors() else (IndexError, KeyError, TypeError)):
        call()


def test_sizes_that_must_agree_are_compared() -> None:
    part = part_of(lambda x, y: x + y, torch.randn(5, 3), torch.randn(5, 3))
    call = part.caller(part.needs)
    with pytest.raises(joinery.UserError, match=r"shape|size"):
        call(torch.randn(5, 3), torch.randn(4, 3))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.usefixtures("native_only")
def test_tensors_without_elements(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    for function in (lambda x: x + 1, lambda x: x.sum(0), lambda x: x @ x.t()):
        assert_same(compiled(function)(x), function(x))


def test_results_that_no_memory_can_hold_are_an_error() -> None:
    run = compiled(lambda x: x[:, None] + x[None], dynamic=True)
    assert run(torch.ones(5)).shape == (5, 5)
    with pytest.raises((RuntimeError, MemoryError), match=r"memory|allocate"):
        run(torch.ones(1 << 23))
    assert run(torch.ones(6)).shape == (6, 6)


# -- without an entry, and in the long run -----------------------------------------------------------------------------


def test_where_tensors_are_kept_otherwise_arrays_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", [None])
    for make in STRIDED.values():
        torch._dynamo.reset()
        x = make()
        assert_same(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1)


def test_a_layout_that_is_not_known_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_NUMEL", 18)
    native.has_known_tensors.cache_clear()
    assert not native.has_known_tensors()
    native.has_known_tensors.cache_clear()


@pytest.mark.usefixtures("native_only")
def test_results_and_arguments_are_given_back() -> None:
    run = compiled(lambda x: (x + 1, x.t() * 2), dynamic=True)
    x = torch.randn(512, 500)
    result = run(x)
    given, got = weakref.ref(x), weakref.ref(result[0])
    del x, result
    gc.collect()
    assert given() is None
    assert got() is None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in range(80):
        run(torch.ones(500 + size % 2, 512))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 << 10  # KiB; 160 MB would have been kept


@pytest.mark.usefixtures("native_only")
def test_several_threads_call_at_once() -> None:
    run = compiled(lambda x: (x @ x.t()).relu().sum(1))
    examples = [torch.randn(64, 96) for _ in range(4)]
    run(examples[0])
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.no_grad():
            wanted = (examples[number] @ examples[number].t()).relu().sum(1)
            for _ in range(20):
                if not torch.allclose(run(examples[number]), wanted, rtol=1e-3, atol=1e-3):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
