"""Left operands of neighbouring products that are made of the same elements: evaluated in one nest, within their masks."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.host.reduce import joint_operands

SIZE = 32
KINDS = {"float32": "f32", "float64": "f64"}


def text(rows: bool = False, steps: bool = False, dtype: str = "f32", sums: int = 6) -> str:
    """Products of polynomials in x and z with y, `sums` of them in a loop and after it. Masks cut rows and steps of k at m."""
    block = f"tensor<{SIZE}x{SIZE}x{dtype}>"
    where = f"tensor<{SIZE}x{SIZE}xi32>"
    masks = [f"%{name}in" for name, used in (("r", rows), ("k", steps)) if used]
    both = f"%kept = arith.andi %rin, %kin : tensor<{SIZE}x{SIZE}xi1>" if len(masks) == 2 else ""
    mask = f", {'%kept' if both else masks[0]}, %zero" if masks else ""

    def products(name: str, first: str) -> str:
        lines = [
            f"%{name}a = arith.addf %xv, %zv : {block}",
            f"%{name}b = arith.mulf %{name}a, %xv : {block}",
            f"%{name}c = arith.subf %{name}b, %zv : {block}",
            f"%{name}d = arith.addf %{name}c, %{name}a : {block}",
        ]
        for i in range(sums):
            lines += [
                f"%{name}f{i} = arith.constant dense<{i - 2}.0> : {block}",
                f"%{name}s{i} = math.fma %zv, %{name}f{i}, %{name}d : {block}",
            ]
        total = first
        for i in range(sums):
            lines.append(f"%{name}t{i} = tt.dot %{name}s{i}, %yv, {total} : {block} * {block} -> {block}")
            total = f"%{name}t{i}"
        return "\n    ".join(lines)

    loads = "\n    ".join(
        f"""%{name}p = tt.splat %{name} : !tt.ptr<{dtype}> -> tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>
    %{name}a = tt.addptr %{name}p, %at : tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>, {where}"""
        for name in "xzyo"
    )
    return f"""tt.func public @f(%x: !tt.ptr<{dtype}>, %z: !tt.ptr<{dtype}>, %y: !tt.ptr<{dtype}>, %o: !tt.ptr<{dtype}>,
      %m: i32, %n: i32) {{
    %r = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : tensor<{SIZE}xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{SIZE}xi32> -> tensor<{SIZE}x1xi32>
    %k2 = tt.expand_dims %r {{axis = 0 : i32}} : tensor<{SIZE}xi32> -> tensor<1x{SIZE}xi32>
    %w = arith.constant dense<{SIZE}> : tensor<{SIZE}x1xi32>
    %rw = arith.muli %r2, %w : tensor<{SIZE}x1xi32>
    %rb = tt.broadcast %rw : tensor<{SIZE}x1xi32> -> {where}
    %kb = tt.broadcast %k2 : tensor<1x{SIZE}xi32> -> {where}
    %at = arith.addi %rb, %kb : {where}
    {loads}
    %mr = tt.splat %m : i32 -> tensor<{SIZE}x1xi32>
    %ri = arith.cmpi slt, %r2, %mr : tensor<{SIZE}x1xi32>
    %rin = tt.broadcast %ri : tensor<{SIZE}x1xi1> -> tensor<{SIZE}x{SIZE}xi1>
    %mk = tt.splat %m : i32 -> tensor<1x{SIZE}xi32>
    %ki = arith.cmpi slt, %k2, %mk : tensor<1x{SIZE}xi32>
    %kin = tt.broadcast %ki : tensor<1x{SIZE}xi1> -> tensor<{SIZE}x{SIZE}xi1>
    {both}
    %zero = arith.constant dense<0.0> : {block}
    %xv = tt.load %xa{mask} : tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>
    %zv = tt.load %za{mask} : tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>
    %yv = tt.load %ya : tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %in = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> ({block}) : i32 {{
      {products("i", "%acc")}
      scf.yield %it{sums - 1} : {block}
    }}
    {products("e", "%in")}
    tt.store %oa, %et{sums - 1} : tensor<{SIZE}x{SIZE}x!tt.ptr<{dtype}>>
    tt.return
  }}"""


def wanted(x: np.ndarray, z: np.ndarray, y: np.ndarray, n: int, sums: int = 6) -> np.ndarray:
    shared = (x + z) * x - z + (x + z)
    with np.errstate(invalid="ignore"):
        return (n + 1) * sum((z * (i - 2) + shared) @ y for i in range(sums))


def operands(dtype: str) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    return [generator.integers(-3, 4, (SIZE, SIZE)).astype(dtype) for _ in range(3)]


def kept(x: np.ndarray, rows: bool, steps: bool, m: int) -> np.ndarray:
    inside = np.arange(SIZE) < m
    found = x.copy()
    if rows:
        found[~inside] = 0
    if steps:
        found[:, ~inside] = 0
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "steps"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_products_are_those_of_each_operand(
    rows: bool, steps: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, real = [], joint_operands._evaluate

    def evaluate(k: object, nodes: list[object], *rest: object) -> None:
        together.append(len(nodes))
        real(k, nodes, *rest)

    monkeypatch.setattr(joint_operands, "_evaluate", evaluate)
    kernel = jn.kernel.from_ttir(text(rows, steps, KINDS[dtype]))
    x, z, y = operands(dtype)
    for m, n in ((SIZE, 1), (17, 3), (1, 0), (0, 2), (40, 0)):
        found = np.full((SIZE, SIZE), 7, dtype)
        kernel.launch((1,), x, z, y, found, m, n)
        left = [kept(each, rows, steps, m) for each in (x, z)]
        np.testing.assert_array_equal(found, wanted(*left, y, n), err_msg=f"{m}, {n}")
    assert together
    assert set(together) == {6}


def test_infinities_beyond_a_mask_are_multiplied_with_zeros() -> None:
    kernel = jn.kernel.from_ttir(text(rows=False, steps=True))
    x, z, y = operands("float32")
    y[20, 3], y[5, 6] = np.inf, np.nan
    found = np.zeros((SIZE, SIZE), np.float32)
    kernel.launch((1,), x, z, y, found, 16, 1)
    left = [kept(each, False, True, 16) for each in (x, z)]
    np.testing.assert_array_equal(found, wanted(*left, y, 1))
    assert np.isnan(found[:, [3, 6]]).all()


def test_operands_that_share_little_are_evaluated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_operands, "_evaluate", lambda *_: pytest.fail("together"))
    kernel = jn.kernel.from_ttir(text(sums=1))
    x, z, y = operands("float32")
    found = np.zeros((SIZE, SIZE), np.float32)
    kernel.launch((1,), x, z, y, found, SIZE, 1)
    np.testing.assert_array_equal(found, wanted(x, z, y, 1, 1))
