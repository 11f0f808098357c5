"""What host code of texts looks like where its length or its loops matter, and that it computes the same."""

from __future__ import annotations

import re
import threading

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(11)


def wrapped_load(elem: str, mask: str, width: int = 64) -> str:
    """o[i] = x[(s·i + k) % n]; where i ≥ m nothing is written ("mask"), or 7 ("other")."""
    given = {"": "", "mask": ", %inside", "other": ", %inside, %fill"}[mask]
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{elem}>, %o: !tt.ptr<{elem}>, %k: i32, %s: i32, %n: i32, %m: i32) {{
    %r = tt.make_range {{end = {width} : i32, start = 0 : i32}} : tensor<{width}xi32>
    %ks = tt.splat %k : i32 -> tensor<{width}xi32>
    %ss = tt.splat %s : i32 -> tensor<{width}xi32>
    %ns = tt.splat %n : i32 -> tensor<{width}xi32>
    %ms = tt.splat %m : i32 -> tensor<{width}xi32>
    %inside = arith.cmpi slt, %r, %ms : tensor<{width}xi32>
    %fill = arith.constant dense<{"7" if elem[0] == "i" else "7.0"}> : tensor<{width}x{elem}>
    %sr = arith.muli %r, %ss : tensor<{width}xi32>
    %at = arith.addi %sr, %ks : tensor<{width}xi32>
    %wrapped = arith.remui %at, %ns : tensor<{width}xi32>
    %bx = tt.splat %x : !tt.ptr<{elem}> -> tensor<{width}x!tt.ptr<{elem}>>
    %px = tt.addptr %bx, %wrapped : tensor<{width}x!tt.ptr<{elem}>>, tensor<{width}xi32>
    %v = tt.load %px{given} : tensor<{width}x!tt.ptr<{elem}>>
    %bo = tt.splat %o : !tt.ptr<{elem}> -> tensor<{width}x!tt.ptr<{elem}>>
    %po = tt.addptr %bo, %r : tensor<{width}x!tt.ptr<{elem}>>, tensor<{width}xi32>
    tt.store %po, %v{", %inside" if mask == "mask" else ""} : tensor<{width}x!tt.ptr<{elem}>>
    tt.return
  }}
}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("elem", ["i8", "i16", "f16", "i32", "f64"])
@pytest.mark.parametrize("mask", ["", "mask", "other"])
@pytest.mark.parametrize(("k", "s", "n"), [(0, 1, 64), (5, 1, 64), (3, 7, 50), (0, 0, 1)])
def test_computed_offsets(agree, elem: str, mask: str, k: int, s: int, n: int) -> None:
    """Runs of neighbours, runs that wrap, and scattered ones, which no x86 loads in one instruction for 8 and 16 bits."""
    dtype = {"i8": np.int8, "i16": np.int16, "f16": np.float16, "i32": np.int32, "f64": np.float64}[elem]
    m = 40 if mask else 64
    x = RNG.integers(-100, 100, n).astype(dtype)
    found = agree(wrapped_load(elem, mask), 1, x, np.full(64, 3, dtype), k, s, n, m)[1]
    places = (s * np.arange(64) + k) % n
    inside = np.arange(64) < m
    assert np.array_equal(found, np.where(inside, x[places], dtype(7 if mask == "other" else 3)))


def test_masked_out_offsets_are_not_read(agree) -> None:
    """Lanes beyond the mask would read far outside: element 60 000 of an array of 8."""
    x = RNG.integers(-100, 100, 8).astype(np.int8)
    found = agree(wrapped_load("i8", "other"), 1, x, np.zeros(64, np.int8), 0, 1000, 1 << 30, 1)[1]
    assert found[0] == x[0]
    assert (found[1:] == 7).all()


def test_gathers_of_bytes_are_in_a_kernel_once() -> None:
    text = jn.kernel.from_ttir(wrapped_load("i8", "other")).llvm_ir()
    assert len(re.findall(r"define internal <\d+ x i8> @jn_gather_", text)) == 1
    assert "masked.gather" not in text


def scaled_copy(width: int, steps: int, elem: str = "f32") -> str:
    """o[i] = x[i] after `steps` additions of 1, for i < n."""
    block = f"tensor<{width}x{elem}>"
    lines = "\n".join(f"    %v{i + 1} = arith.addf %v{i}, %one : {block}" for i in range(steps))
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{elem}>, %o: !tt.ptr<{elem}>, %n: i32) {{
    %r = tt.make_range {{end = {width} : i32, start = 0 : i32}} : tensor<{width}xi32>
    %one = arith.constant dense<1.0> : {block}
    %ns = tt.splat %n : i32 -> tensor<{width}xi32>
    %inside = arith.cmpi slt, %r, %ns : tensor<{width}xi32>
    %bx = tt.splat %x : !tt.ptr<{elem}> -> tensor<{width}x!tt.ptr<{elem}>>
    %px = tt.addptr %bx, %r : tensor<{width}x!tt.ptr<{elem}>>, tensor<{width}xi32>
    %v0 = tt.load %px, %inside : tensor<{width}x!tt.ptr<{elem}>>
{lines}
    %bo = tt.splat %o : !tt.ptr<{elem}> -> tensor<{width}x!tt.ptr<{elem}>>
    %po = tt.addptr %bo, %r : tensor<{width}x!tt.ptr<{elem}>>, tensor<{width}xi32>
    tt.store %po, %v{steps}, %inside : tensor<{width}x!tt.ptr<{elem}>>
    tt.return
  }}
}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("steps", [1, 30, 60])
@pytest.mark.parametrize("width", [8, 16, 32, 64, 128, 512])
def test_lengths_around_whole_vectors(agree, width: int, steps: int) -> None:
    """Short, middling and long bodies, whose loops are written out four times, twice, and once under masks."""
    for n in sorted({0, 1, 15, 16, 17, width // 2, width - 1, width} & set(range(width + 1))):
        x = RNG.integers(-100, 100, width).astype(np.float32)
        found = agree(scaled_copy(width, steps), 1, x, np.full(width, -1, np.float32), n)[1]
        assert np.array_equal(found, np.where(np.arange(width) < n, x + steps, -1))


def test_a_turn_takes_no_more_than_a_block_has() -> None:
    """A block of two vectors has a loop for both of them, not one for four that never runs."""
    wide = jn.kernel.from_ttir(scaled_copy(512, 1)).llvm_ir()
    lanes = max(int(lanes) for lanes in re.findall(r"<(\d+) x float>", wide))
    text = jn.kernel.from_ttir(scaled_copy(2 * lanes, 1)).llvm_ir()
    assert f", -{2 * lanes}\n" in text
    assert f", -{4 * lanes}\n" not in text
    assert f", -{4 * lanes}\n" in wide


def test_float16_goes_back_to_memory_as_it_is() -> None:
    """Every float16; NaN is still NaN."""
    kernel = jn.kernel.from_ttir(scaled_copy(512, 0, "f16"))
    for part in np.arange(1 << 16, dtype=np.uint16).reshape(-1, 512):
        out = np.zeros_like(part)
        kernel.launch((1,), part.view(np.float16), out.view(np.float16), 512)
        numbers = ~np.isnan(part.view(np.float16))
        assert np.array_equal(out[numbers], part[numbers])
        assert np.isnan(out.view(np.float16)[~numbers]).all()


def product(elem: str) -> str:
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<{elem}>, %y: !tt.ptr<{elem}>, %o: !tt.ptr<f32>) {{
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %c16 = arith.constant dense<16> : tensor<16x1xi32>
    %rows = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
    %columns = tt.expand_dims %r {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
    %starts = arith.muli %rows, %c16 : tensor<16x1xi32>
    %a0 = tt.broadcast %starts : tensor<16x1xi32> -> tensor<16x16xi32>
    %a1 = tt.broadcast %columns : tensor<1x16xi32> -> tensor<16x16xi32>
    %at = arith.addi %a0, %a1 : tensor<16x16xi32>
    %bx = tt.splat %x : !tt.ptr<{elem}> -> tensor<16x16x!tt.ptr<{elem}>>
    %px = tt.addptr %bx, %at : tensor<16x16x!tt.ptr<{elem}>>, tensor<16x16xi32>
    %by = tt.splat %y : !tt.ptr<{elem}> -> tensor<16x16x!tt.ptr<{elem}>>
    %py = tt.addptr %by, %at : tensor<16x16x!tt.ptr<{elem}>>, tensor<16x16xi32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %po = tt.addptr %bo, %at : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %a = tt.load %px : tensor<16x16x!tt.ptr<{elem}>>
    %b = tt.load %py : tensor<16x16x!tt.ptr<{elem}>>
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %p = tt.dot %a, %b, %zero, inputPrecision = tf32 : tensor<16x16x{elem}> * tensor<16x16x{elem}> -> tensor<16x16xf32>
    tt.store %po, %p : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }}
}}
"""


def test_only_float32_is_rounded_to_tf32() -> None:
    """Rounding takes the bits below the tenth: a constant that no other operation needs."""
    assert "4095" in jn.kernel.from_ttir(product("f32")).llvm_ir()
    for elem in ("f16", "bf16"):
        assert "4095" not in jn.kernel.from_ttir(product(elem)).llvm_ir()
    x, y = (RNG.integers(-8, 8, (16, 16)).astype(np.float16) for _ in range(2))
    out = np.zeros((16, 16), np.float32)
    jn.kernel.from_ttir(product("f16")).launch((1,), x, y, out)
    assert np.array_equal(out, x.astype(np.float32) @ y.astype(np.float32))


def test_a_kernel_is_one_function() -> None:
    """What stops a launch is shared by all kernels; the thread pool is given the kernel's address."""
    text = jn.kernel.from_ttir(scaled_copy(64, 1)).llvm_ir()
    assert len(re.findall(r"^define ", text, re.M)) == 1


def test_the_text_stays_what_it_was() -> None:
    """Passes change the module that was read: printing, stepping and other targets take the text again, from any thread."""
    source = wrapped_load("f16", "other")
    x, fresh = RNG.integers(-100, 100, 50).astype(np.float16), jn.kernel.from_ttir(source)
    printed, stages, ptx = fresh.ttir, fresh.stages(), fresh.ptx("sm_80")
    kernel = jn.kernel.from_ttir(source)
    outs = [np.zeros(64, np.float16) for _ in range(6)]
    runs = [lambda out: kernel.launch((1,), x, out, 3, 7, 50, 40), lambda out: kernel.interpret((1,), x, out, 3, 7, 50, 40)]
    threads = [threading.Thread(target=runs[i % 2], args=(out,)) for i, out in enumerate(outs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        assert np.array_equal(out, outs[0])
    assert out[0] == x[3]
    assert (kernel.ttir, kernel.stages(), kernel.ptx("sm_80")) == (printed, stages, ptx)
