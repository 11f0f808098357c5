"""Loads and stores that touch the same memory keep their order, whether through one array or through overlapping ones."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

N = 128


def body(lines: str, n: int = N, parameters: str = "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %k: i32") -> str:
    """A function with pointers %px and %py to the first n elements of x and y."""
    return f"""
module {{
  tt.func public @f({parameters}) {{
    %r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{n}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %r : tensor<{n}x!tt.ptr<f32>>, tensor<{n}xi32>
    %by = tt.splat %y : !tt.ptr<f32> -> tensor<{n}x!tt.ptr<f32>>
    %py = tt.addptr %by, %r : tensor<{n}x!tt.ptr<f32>>, tensor<{n}xi32>
    {lines}
    tt.return
  }}
}}
"""


def load(name: str, pointers: str, n: int = N) -> str:
    return f"%{name} = tt.load %{pointers} : tensor<{n}x!tt.ptr<f32>>\n"


def store(pointers: str, value: str, n: int = N) -> str:
    return f"tt.store %{pointers}, %{value} : tensor<{n}x!tt.ptr<f32>>\n"


SWAP = body(load("a", "px") + load("b", "py") + store("px", "b") + store("py", "a"))
SHIFT = body(
    f"""%o = arith.constant dense<1> : tensor<{N}xi32>
    %to = tt.addptr %px, %o : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
"""
    + load("a", "px")
    + store("to", "a")
)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(N, dtype=np.float32)
    return x, -x - 1


def test_a_swap(agree) -> None:
    x, y = arrays()
    found_x, found_y, _ = agree(SWAP, 1, x, y, 0)
    assert np.array_equal(found_x, y)
    assert np.array_equal(found_y, x)


def test_a_swap_of_one_array_with_itself(agree) -> None:
    x, _ = arrays()
    found, _, _ = agree(SWAP, 1, x, x, 0)
    assert np.array_equal(found, x)


def test_a_shift_within_one_array_reads_before_it_writes(agree) -> None:
    x = np.arange(N + 1, dtype=np.float32)
    found, _, _ = agree(SHIFT, 1, x, x.copy(), 0)
    assert np.array_equal(found, np.concatenate([[0], np.arange(N)]).astype(np.float32))


@pytest.mark.parametrize("distance", [0, 1, 7, 16, N])
def test_arrays_that_overlap(agree, distance: int) -> None:
    memory = np.arange(2 * N, dtype=np.float32)
    x, y = memory[:N], memory[distance : distance + N]
    lines = load("a", "px") + load("b", "py") + store("py", "a") + store("px", "b")
    expected = memory.copy()
    expected[distance : distance + N] = memory[:N]
    expected[:N] = memory[distance : distance + N]
    found_x, found_y, _ = agree(body(lines), 1, x, y, 0)
    assert np.array_equal(found_x, expected[:N])
    assert np.array_equal(found_y, expected[distance : distance + N])


def test_in_place_element_by_element(agree) -> None:
    x, y = arrays()
    lines = load("a", "px") + "%b = arith.mulf %a, %a : tensor<128xf32>\n" + store("px", "b") + store("py", "a")
    found_x, found_y, _ = agree(body(lines), 1, x, y, 0)
    assert np.array_equal(found_x, x * x)
    assert np.array_equal(found_y, x)  # what was loaded, not what has been written since


def test_a_reversal_in_place(agree) -> None:
    lines = (
        f"""%last = arith.constant dense<{N - 1}> : tensor<{N}xi32>
    %back = arith.subi %last, %r : tensor<{N}xi32>
    %to = tt.addptr %bx, %back : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
"""
        + load("a", "px")
        + store("to", "a")
    )
    x, y = arrays()
    found, _, _ = agree(body(lines), 1, x, y, 0)
    assert np.array_equal(found, x[::-1])


def test_a_permutation_by_indices_of_the_same_memory(agree) -> None:
    """Where to write is loaded from what is written."""
    lines = (
        load("a", "px")
        + f"%i = arith.fptosi %a : tensor<{N}xf32> to tensor<{N}xi32>\n"
        + f"%to = tt.addptr %bx, %i : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>\n"
        + load("b", "py")
        + store("to", "b")
        + store("py", "a")
    )
    order = np.random.default_rng(0).permutation(N).astype(np.float32)
    y = np.arange(N, dtype=np.float32)
    found_x, found_y, _ = agree(body(lines), 1, order, y, 0)
    expected = np.empty_like(order)
    expected[order.astype(int)] = y
    assert np.array_equal(found_x, expected)
    assert np.array_equal(found_y, order)


LOOP = body(
    load("a", "px")
    + """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %k step %one : i32 {
      %b = tt.load %py : tensor<128x!tt.ptr<f32>>
      %c = arith.addf %a, %b : tensor<128xf32>
      tt.store %px, %c : tensor<128x!tt.ptr<f32>>
      tt.store %py, %c : tensor<128x!tt.ptr<f32>>
    }
"""
)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_what_was_loaded_before_a_loop_that_writes(agree, turns: int) -> None:
    x, y = arrays()
    found_x, found_y, _ = agree(LOOP, 1, x, y, turns)
    expected = y + turns * x
    assert np.array_equal(found_y, expected)
    assert np.array_equal(found_x, expected if turns else x)


@pytest.mark.parametrize("taken", [0, 1])
def test_what_was_loaded_before_a_branch_that_writes(agree, taken: int) -> None:
    lines = (
        load("a", "px")
        + """
    %zero = arith.constant 0 : i32
    %yes = arith.cmpi ne, %k, %zero : i32
    scf.if %yes {
      %b = tt.load %py : tensor<128x!tt.ptr<f32>>
      tt.store %px, %b : tensor<128x!tt.ptr<f32>>
    }
"""
        + store("py", "a")
    )
    x, y = arrays()
    found_x, found_y, _ = agree(body(lines), 1, x, y, taken)
    assert np.array_equal(found_x, y if taken else x)
    assert np.array_equal(found_y, x)


def test_the_value_of_a_reduction_is_not_read_again(agree) -> None:
    lines = (
        load("a", "px")
        + """%s = "tt.reduce"(%a) <{axis = 0 : i32}> ({
    ^bb0(%l: f32, %m: f32):
      %t = arith.addf %l, %m : f32
      tt.reduce.return %t : f32
    }) : (tensor<128xf32>) -> f32
    %all = tt.splat %s : f32 -> tensor<128xf32>
"""
        + store("px", "all")
        + "%d = arith.divf %a, %all : tensor<128xf32>\n"
        + store("py", "d")
    )
    x, y = arrays()
    found_x, found_y, _ = agree(body(lines), 1, x, y, 0)
    total = np.float32(x.sum())
    assert (found_x == total).all()
    assert np.array_equal(found_y, x / total)


def test_read_only_arrays_are_inputs(agree) -> None:
    x, y = arrays()
    kernel = jn.kernel.from_ttir(body(load("a", "px") + store("py", "a")))
    x.flags.writeable = False
    kernel.launch(1, x, y, 0)
    assert np.array_equal(x, y)
    with pytest.raises(jn.UserError, match="read-only"):
        kernel.launch(1, y, x, 0)


M = 32
TILE = f"tensor<{M}x{M}xf32>"
POINTERS = f"tensor<{M}x{M}x!tt.ptr<f32>>"


def tiles(lines: str) -> str:
    """A function with pointers %px and %py to M × M elements of x and y, and loads %a and %b of them."""
    text = f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {{
    %r = tt.make_range {{end = {M} : i32, start = 0 : i32}} : tensor<{M}xi32>
    %c = tt.expand_dims %r {{axis = 0 : i32}} : tensor<{M}xi32> -> tensor<1x{M}xi32>
    %r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{M}xi32> -> tensor<{M}x1xi32>
    %w = arith.constant dense<{M}> : tensor<{M}x1xi32>
    %rw = arith.muli %r1, %w : tensor<{M}x1xi32>
    %ra = tt.broadcast %rw : tensor<{M}x1xi32> -> tensor<{M}x{M}xi32>
    %ca = tt.broadcast %c : tensor<1x{M}xi32> -> tensor<{M}x{M}xi32>
    %at = arith.addi %ra, %ca : tensor<{M}x{M}xi32>
    %zero = arith.constant dense<0.0> : {TILE}
"""
    for name in "xy":
        text += f"%b{name} = tt.splat %{name} : !tt.ptr<f32> -> {POINTERS}\n"
        text += f"%p{name} = tt.addptr %b{name}, %at : {POINTERS}, tensor<{M}x{M}xi32>\n"
    return text + f"%a = tt.load %px : {POINTERS}\n%b = tt.load %py : {POINTERS}\n{lines}\ntt.return\n}}\n}}\n"


def turned(name: str, value: str) -> str:
    return f"%{name} = tt.trans %{value} {{order = array<i32: 1, 0>}} : {TILE} -> {TILE}\n"


def put(pointers: str, value: str) -> str:
    return f"tt.store %{pointers}, %{value} : {POINTERS}\n"


def test_tiles_swapped_and_transposed(agree) -> None:
    x = np.arange(M * M, dtype=np.float32).reshape(M, M)
    text = tiles(turned("bt", "b") + put("px", "bt") + turned("at_", "a") + put("py", "at_"))
    found_x, found_y = agree(text, 1, x, -x)
    np.testing.assert_array_equal(found_x, -x.T)
    np.testing.assert_array_equal(found_y, x.T)
    found_x, _ = agree(text, 1, x, x)
    np.testing.assert_array_equal(found_x, x.T)


@pytest.mark.parametrize("left", [False, True])
def test_a_product_with_a_transposed_tile_that_has_been_overwritten(agree, left: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-4, 5, (M, M)).astype(np.float32) for _ in range(2))
    operands = "%t, %b" if left else "%b, %t"
    product = f"%d = tt.dot {operands}, %zero, inputPrecision = ieee : {TILE} * {TILE} -> {TILE}\n"
    found_x, found_y = agree(tiles(turned("t", "a") + put("px", "b") + product + put("py", "d")), 1, x, y)
    np.testing.assert_array_equal(found_x, y)
    np.testing.assert_array_equal(found_y, x.T @ y if left else y @ x.T)


@pytest.mark.parametrize("mask", ["triangle", "limits"])
def test_a_masked_tile_that_is_read_transposed(agree, mask: str) -> None:
    lines = {
        "triangle": f"%m = arith.cmpi sle, %ra, %rc : tensor<{M}x{M}xi32>\n",
        "limits": f"%m = arith.cmpi slt, %ca, %limit : tensor<{M}x{M}xi32>\n",
    }[mask]
    shape = f"tensor<{M}x{M}xi32>"
    text = tiles(
        f"%w2 = arith.constant dense<{M}> : {shape}\n%limit = arith.constant dense<19> : {shape}\n"
        f"%rc = arith.muli %ca, %w2 : {shape}\n{lines}%other = arith.constant dense<-1.0> : {TILE}\n"
        f"%v = tt.load %px, %m, %other : {POINTERS}\n" + turned("t", "v") + put("py", "t")
    )
    x = np.arange(M * M, dtype=np.float32).reshape(M, M)
    rows, columns = np.indices((M, M))
    held = rows <= columns if mask == "triangle" else columns < 19
    _, found = agree(text, 1, x, np.zeros_like(x))
    np.testing.assert_array_equal(found, np.where(held, x, -1).T)
