"""Sums of 16-bit floats, against NumPy in float64: within one rounding, but for those in a fixed order."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline

ROWS, COLUMNS = 8, 512
BLOCK = f"tensor<{ROWS}x{COLUMNS}xELEM>"
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def text(elem: str, combined: str, shape: str, combine: str = "arith.addf") -> str:
    """Loads a block of %x, combines along rows, and stores what comes of it to %y."""
    one = f"tensor<{ROWS}x!tt.ptr<ELEM>>" if "x" not in shape else BLOCK.replace("ELEM", "!tt.ptr<ELEM>")
    index = "%rows" if "x" not in shape else "%at"
    name, attributes = combined.split(" ", 1)
    indices = f"tensor<{shape}xi32>"
    return f"""
tt.func public @f(%x: !tt.ptr<ELEM>, %y: !tt.ptr<ELEM>) {{
  %rows = tt.make_range {{start = 0 : i32, end = {ROWS} : i32}} : tensor<{ROWS}xi32>
  %columns = tt.make_range {{start = 0 : i32, end = {COLUMNS} : i32}} : tensor<{COLUMNS}xi32>
  %r1 = tt.expand_dims %rows {{axis = 1 : i32}} : tensor<{ROWS}xi32> -> tensor<{ROWS}x1xi32>
  %c1 = tt.expand_dims %columns {{axis = 0 : i32}} : tensor<{COLUMNS}xi32> -> tensor<1x{COLUMNS}xi32>
  %length = arith.constant dense<{COLUMNS}> : tensor<{ROWS}x1xi32>
  %starts = arith.muli %r1, %length : tensor<{ROWS}x1xi32>
  %starts2 = tt.broadcast %starts : tensor<{ROWS}x1xi32> -> tensor<{ROWS}x{COLUMNS}xi32>
  %c2 = tt.broadcast %c1 : tensor<1x{COLUMNS}xi32> -> tensor<{ROWS}x{COLUMNS}xi32>
  %at = arith.addi %starts2, %c2 : tensor<{ROWS}x{COLUMNS}xi32>
  %xs = tt.splat %x : !tt.ptr<ELEM> -> {BLOCK.replace("ELEM", "!tt.ptr<ELEM>")}
  %xp = tt.addptr %xs, %at : {BLOCK.replace("ELEM", "!tt.ptr<ELEM>")}, tensor<{ROWS}x{COLUMNS}xi32>
  %v = tt.load %xp : {BLOCK.replace("ELEM", "!tt.ptr<ELEM>")}
  %s = "{name}"(%v) <{attributes}> ({{
    ^bb0(%a: ELEM, %b: ELEM):
      %c = {combine} %a, %b : ELEM
      {name}.return %c : ELEM
    }}) : ({BLOCK}) -> tensor<{shape}xELEM>
  %ys = tt.splat %y : !tt.ptr<ELEM> -> {one}
  %yp = tt.addptr %ys, {index} : {one}, {indices}
  tt.store %yp, %s : {one}
  tt.return
}}
""".replace("ELEM", elem)


SUM, PREFIXES = "tt.reduce {axis = 1 : i32}", "tt.scan {axis = 1 : i32, reverse = false}"
SUFFIXES = PREFIXES.replace("false", "true")
WHOLE = f"{ROWS}x{COLUMNS}"
EXACT = {
    SUM: lambda x: x.sum(1), PREFIXES: lambda x: x.cumsum(1), SUFFIXES: lambda x: x[:, ::-1].cumsum(1)[:, ::-1],
}  # fmt: skip


def run(elem: str, combined: str, numerics: str = "strict", defined: bool = False) -> tuple[np.ndarray, np.ndarray]:
    shape = str(ROWS) if combined == SUM else WHOLE
    x = np.random.default_rng(3).uniform(0.5, 1.5, (ROWS, COLUMNS)).astype(DTYPES[elem])
    y = np.zeros([int(each) for each in shape.split("x")], DTYPES[elem])
    kernel = jn.kernel.from_ttir(text(elem, combined, shape), numerics=numerics)
    (kernel.interpret if defined else kernel.launch)((1,), x, y)
    return x, y


@pytest.mark.one_in(2)
@pytest.mark.parametrize("numerics", ["strict", "fast"])
@pytest.mark.parametrize("combined", EXACT, ids=["sum", "prefixes", "suffixes"])
@pytest.mark.parametrize("elem", DTYPES)
def test_sums_are_rounded_once(elem: str, combined: str, numerics: str) -> None:
    x, y = run(elem, combined, numerics=numerics)
    exact = EXACT[combined](x.astype(np.float64))
    error = np.abs(y.astype(np.float64) - exact) / (exact * float(ml_dtypes.finfo(DTYPES[elem]).eps))
    assert error.max() < 0.501, error.max()


def test_a_fixed_order_rounds_each_step_as_the_interpreter_does() -> None:
    for combined in EXACT:
        _, native = run("bf16", combined, numerics="reproducible")
        x, defined = run("bf16", combined, defined=True)
        assert native.tobytes() == defined.tobytes()
        exact = EXACT[combined](x.astype(np.float64))
        error = np.abs(native.astype(np.float64) - exact) / (exact * float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps))
        assert error.max() > 0.501  # else the other test shows nothing


@pytest.mark.parametrize(("elem", "combine"), [("f32", "arith.addf"), ("bf16", "arith.mulf"), ("bf16", "arith.maxnumf")])
def test_what_is_no_sum_of_16_bits_stays(elem: str, combine: str) -> None:
    function = find_function(parse(text(elem, SUM, str(ROWS), combine), "<test>"), None)
    before = print_module(function)
    Pipeline.parse("wide-sums").run(function)
    assert print_module(function) == before
