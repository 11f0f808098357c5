"""Arguments that no kernel takes: each is named, with what to pass in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import joinery
import numpy as np
import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
tl = triton.language


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def first(pair, y, KIND: tl.constexpr):
    tl.store(y, tl.load(pair[1]))


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    joinery.triton.enable()
    yield
    joinery.triton.disable()


VALUES = torch.arange(8.0)
FORMS = {
    "a quantized tensor (qint8); fix: pass x.int_repr()": lambda: torch.quantize_per_tensor(VALUES, 0.1, 0, torch.qint8),
    "a tensor of complex64; complex numbers are pairs of real ones; fix: pass torch.view_as_real(x)": VALUES.cfloat,
    "a sparse tensor, which is no memory in rows; fix: pass x.indices() and x.values()": VALUES.to_sparse,
    "fix: pass x.crow_indices(), x.col_indices() and x.values()": lambda: VALUES.view(2, 4).to_sparse_csr(),
    "fix: pass x.ccol_indices(), x.row_indices() and x.values()": lambda: VALUES.view(2, 4).to_sparse_csc(),
    "a NestedTensor without memory of its own; fix: pass x.values()": lambda: torch.nested.nested_tensor(
        [VALUES, VALUES[:2]], layout=torch.jagged
    ),
    "a nested tensor, which is several; fix: pass x.values(), or torch.nested.to_padded_tensor(x, 0)": (
        lambda: torch.nested.nested_tensor([VALUES, VALUES[:2]])
    ),
    "a tensor with torch's negative bit, whose memory has the other signs; fix: pass x.resolve_neg()": VALUES._neg_view,
    "a MaskedArray, whose mask kernels do not see; fix: pass x.filled(…), or x.data": lambda: np.ma.masked_array(np.ones(8), 0),
    "a matrix, which may mean more than its memory says; fix: pass np.asarray(x)": lambda: np.ones((2, 4)).view(np.matrix),
    "a tensor of bits8, which Triton has no type for; fix: pass x.view(torch.uint8)": lambda: VALUES.view(torch.bits8),
    "an array of <U1, which holds no numbers": lambda: np.array(["a", "b"]),
    "an array of |S1, which holds no numbers": lambda: np.array([b"a"]),
    "an array of object, which holds no numbers": lambda: np.array([None]),
    "an array of complex128; complex numbers are pairs of real ones; fix: pass x.view(x.real.dtype)": lambda: np.ones(8) * 1j,
    "wider than 64 bits; fix: x.astype(np.float64)": lambda: np.ones(8, np.longdouble),
    "a complex number; kernels compute with real ones": lambda: 1j,
    "a str; kernels take tensors and numbers": lambda: "text",
    "a UntypedStorage, which has no dtype": VALUES.untyped_storage,
}


@pytest.mark.parametrize("text", FORMS)
def test_what_is_no_argument_is_named(text: str) -> None:
    with pytest.raises(joinery.UserError) as error:
        copy[(1,)](FORMS[text](), torch.zeros(8), 8, BLOCK=8)
    assert str(error.value).startswith("x: ")
    assert text in str(error.value)
    with pytest.raises(joinery.UserError):
        copy[(1,)](x=FORMS[text](), y=torch.zeros(8), n=8, BLOCK=8)


def test_what_to_pass_works() -> None:
    found = torch.zeros(8)
    pairs = torch.view_as_real(torch.arange(4).cfloat())
    copy[(1,)](pairs, found, 8, BLOCK=8)
    assert found.tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
    quantized = torch.quantize_per_tensor(VALUES, 1.0, 0, torch.qint8)
    copy[(1,)](quantized.int_repr(), found, 8, BLOCK=8)
    assert torch.equal(found, VALUES)


def test_parts_of_tuples_are_named_and_constants_are_let_be() -> None:
    with pytest.raises(TypeError, match=r"pair\[1\]: a tensor of complex64"):
        first[(1,)]((VALUES, VALUES.cfloat()), torch.zeros(1), KIND="text")
    with pytest.raises(TypeError, match=r"n: a scalar of complex64.*fix: pass n.real and n.imag"):
        copy[(1,)](VALUES, torch.zeros(8), np.complex64(1), BLOCK=8)
    with pytest.raises(TypeError, match="failed to specialize argument of type: object"):
        copy[(1,)](object(), torch.zeros(8), 8, BLOCK=8)


def test_arrays_in_files_are_memory(tmp_path: Path) -> None:
    file = tmp_path / "values"
    mapped = np.memmap(file, np.float32, "w+", shape=(8,))
    mapped[:] = range(8)
    copy[(1,)](mapped[2:], mapped, n=6, BLOCK=8)
    copy[(1,)](x=mapped, y=(result := np.zeros(8, np.float32)), n=8, BLOCK=8)
    assert result.tolist() == [2, 3, 4, 5, 6, 7, 6, 7]
    mapped.flush()
    assert np.fromfile(file, np.float32).tolist() == result.tolist()
    with pytest.raises(joinery.UserError, match="read-only array"):
        copy[(1,)](np.memmap(file, np.float32, "r", shape=(8,)), result, 8, BLOCK=8)


def test_texts_that_nobody_has_read_are_there() -> None:
    kernel = copy[(1,)](VALUES.clone(), torch.zeros(8), 8, BLOCK=8)
    assert [key for key in ("ttir", "ptx", "llir", "cubin", "asm") if key in kernel.asm] == ["ttir", "ptx", "llir", "asm"]
    assert kernel.asm.get("cubin", 3) == 3
    assert ".target" in kernel.asm.get("ptx")


@pytest.mark.parametrize("options", [{"interpret": True}, {"sanitize": True}, {"device": "ptxsim"}])
def test_nested_tensors_are_refused_in_every_mode(options: dict[str, object]) -> None:
    with pytest.raises(joinery.UserError, match=r"x: a nested tensor, which is several; fix: pass x\.values\(\)"):
        copy[(1,)](torch.nested.nested_tensor([VALUES, VALUES[:2]]), torch.zeros(8), 8, BLOCK=8, **options)


@triton.jit
def kept(y, byte: tl.uint8, short: tl.int16):
    tl.store(y, byte.to(tl.int64))
    tl.store(y + 1, short.to(tl.int64))


@pytest.mark.parametrize("mode", ["native", "sanitize", "interpret"])
def test_integers_that_are_too_large_lose_bits_as_in_tritons_launchers(mode: str) -> None:
    joinery.triton.enable(mode)
    for byte, short in ((300, 70_000), (255, -5), (256, 32_768)):
        y = torch.zeros(2, dtype=torch.int64)
        kept[(1,)](y, byte, short)
        assert y.tolist() == [int(np.array(byte).astype(np.uint8)), int(np.array(short).astype(np.int16))]
