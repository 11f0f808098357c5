"""Which exponentials count as weights of an online softmax, and what becomes of results then, against NumPy in float64."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

WIDE, LINE, THIN = "tensor<32x32xf32>", "tensor<32xf32>", "tensor<32x1xf32>"
POINTERS = "tensor<32x32x!tt.ptr<ELEM>>"
MAXIMUM = f"""%high = "tt.reduce"(%s) <{{axis = 1 : i32}}> ({{
    ^bb0(%a0: f32, %a1: f32):
      %a2 = arith.maxnumf %a0, %a1 : f32
      tt.reduce.return %a2 : f32
    }}) : ({WIDE}) -> {LINE}"""
TOTAL = f"""%mass = "tt.reduce"(%p) <{{axis = 1 : i32}}> ({{
    ^bb0(%b0: f32, %b1: f32):
      %b2 = arith.addf %b0, %b1 : f32
      tt.reduce.return %b2 : f32
    }}) : ({WIDE}) -> {LINE}"""
STARTS = f"""%top0 = arith.constant dense<0xFF800000> : {LINE}
  %den0 = arith.constant dense<0.0> : {LINE}"""
NEXT_TOP = f"%new = arith.maxnumf %top, %high : {LINE}"
BELOW = f"%below = arith.subf %s, %new_w : {WIDE}"
FALL = f"%fall = arith.subf %top, %new : {LINE}"
NEXT_DEN = f"%den_next = arith.addf %kept, %mass : {LINE}"
NARROWED = f"%p_x = arith.truncf %p : {WIDE} to tensor<32x32xELEM>"
LOOP = f"""%sum:3 = scf.for %j = %zero to %n step %one iter_args(%top = %top0, %den = %den0, %acc = %none)
      -> ({LINE}, {LINE}, {WIDE}) : i32 {{
    %at = arith.muli %j, %size : i32
    %xq = tt.addptr %x, %at : !tt.ptr<f32>, i32
    %xs = tt.splat %xq : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %index : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
    %s = tt.load %xp : tensor<32x32x!tt.ptr<f32>>
    {MAXIMUM}
    {NEXT_TOP}
    {FALL}
    %alpha = math.exp2 %fall : {LINE}
    %new_t = tt.expand_dims %new {{axis = 1 : i32}} : {LINE} -> {THIN}
    %new_w = tt.broadcast %new_t : {THIN} -> {WIDE}
    {BELOW}
    %p = math.exp2 %below : {WIDE}
    {TOTAL}
    %kept = arith.mulf %den, %alpha : {LINE}
    {NEXT_DEN}
    %vq = tt.addptr %v, %at : !tt.ptr<ELEM>, i32
    %vs = tt.splat %vq : !tt.ptr<ELEM> -> {POINTERS}
    %vp = tt.addptr %vs, %index : {POINTERS}, tensor<32x32xi32>
    %v_x = tt.load %vp : {POINTERS}
    {NARROWED}
    %alpha_t = tt.expand_dims %alpha {{axis = 1 : i32}} : {LINE} -> {THIN}
    %alpha_w = tt.broadcast %alpha_t : {THIN} -> {WIDE}
    %less = arith.mulf %acc, %alpha_w : {WIDE}
    %acc_next = tt.dot %p_x, %v_x, %less : tensor<32x32xELEM> * tensor<32x32xELEM> -> {WIDE}
    scf.yield %new, %den_next, %acc_next : {LINE}, {LINE}, {WIDE}
  }}"""
TEXT = f"""
tt.func public @weights(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %v: !tt.ptr<ELEM> {{tt.divisibility = 16 : i32}},
    %o: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %l: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %n: i32, %scale: f32) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %size = arith.constant 1024 : i32
  %width = arith.constant dense<32> : tensor<32x1xi32>
  {STARTS}
  %none = arith.constant dense<0.0> : {WIDE}
  %r = tt.make_range {{start = 0 : i32, end = 32 : i32}} : tensor<32xi32>
  %rt = tt.expand_dims %r {{axis = 1 : i32}} : tensor<32xi32> -> tensor<32x1xi32>
  %rs = arith.muli %rt, %width : tensor<32x1xi32>
  %rb = tt.broadcast %rs : tensor<32x1xi32> -> tensor<32x32xi32>
  %ct = tt.expand_dims %r {{axis = 0 : i32}} : tensor<32xi32> -> tensor<1x32xi32>
  %cb = tt.broadcast %ct : tensor<1x32xi32> -> tensor<32x32xi32>
  %index = arith.addi %rb, %cb : tensor<32x32xi32>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %op = tt.addptr %os, %index : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  %ls = tt.splat %l : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %lp = tt.addptr %ls, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  %factor = tt.splat %scale : f32 -> {WIDE}
  %line_factor = tt.splat %scale : f32 -> {LINE}
  {LOOP}
  tt.store %op, %sum#2 : tensor<32x32x!tt.ptr<f32>>
  tt.store %lp, %sum#1 : tensor<32x!tt.ptr<f32>>
  tt.return
}}
"""


def text(*changes: tuple[str, str], elem: str = "f16") -> str:
    found = TEXT
    for old, new in changes:
        assert old in found
        found = found.replace(old, new)
    return found.replace("ELEM", elem)


def marked(source: str) -> tuple[bool, bool]:
    """Whether alpha and p, the exponentials of a block with one and two axes, are weights."""
    after = jn.kernel.from_ttir(source).ttir_after("softmax-weights")
    found = [(LINE in line, "joinery.weight" in line) for line in after.splitlines() if re.search(r"math\.exp2? ", line)]
    assert len(found) >= 2
    return all(mark for line, mark in found if line), all(mark for line, mark in found if not line)


ZEROS = f"dense<0.0> : {LINE}\n  %none"
SECOND_LOOP = LOOP.replace("%sum:", "%sum2:").replace("%top0", "%sum#0").replace("%den0", "%sum#1").replace("%none", "%sum#2")
WHOLE: list[Any] = [
    pytest.param([], id="as it is"),
    pytest.param([("math.exp2", "math.exp")], id="base e"),
    pytest.param([("arith.maxnumf", "arith.maximumf")], id="maxima that pass NaN on"),
    pytest.param([(NEXT_TOP, NEXT_TOP.replace("%top, %high", "%high, %top"))], id="maximum the other way round"),
    pytest.param([(NEXT_DEN, NEXT_DEN.replace("%kept, %mass", "%mass, %kept"))], id="sum the other way round"),
    pytest.param([("dense<0xFF800000>", "dense<-1.0e30>")], id="starting low"),
    pytest.param([("dense<0xFF800000>", "dense<0.5>"), (ZEROS, ZEROS.replace("0.0", "1.0"))], id="a sink"),
    pytest.param(
        [(NEXT_TOP, f"%scaled = arith.mulf %high, %line_factor : {LINE}\n{NEXT_TOP.replace('%high', '%scaled')}"),
         (BELOW, f"%s_s = arith.mulf %s, %factor : {WIDE}\n{BELOW.replace('%s,', '%s_s,')}")], id="scaled after the maximum",
    ),
    pytest.param(
        [(BELOW, f"%below_1 = arith.subf %s, %new_w : {WIDE}\n%below = arith.mulf %below_1, %factor : {WIDE}"),
         (FALL, f"%fall_1 = arith.subf %top, %new : {LINE}\n%fall = arith.mulf %line_factor, %fall_1 : {LINE}")],
        id="scaled after the difference",
    ),
    pytest.param(
        [(f"%new_t = tt.expand_dims %new {{axis = 1 : i32}} : {LINE}", f"%new_s = arith.mulf %new, %line_factor : {LINE}\n"
          f"%new_t = tt.expand_dims %new_s {{axis = 1 : i32}} : {LINE}"),
         (BELOW, f"%s_s = arith.mulf %s, %factor : {WIDE}\n{BELOW.replace('%s,', '%s_s,')}"),
         (FALL, f"%top_s = arith.mulf %top, %line_factor : {LINE}\n%new_u = arith.mulf %new, %line_factor : {LINE}\n"
          f"%fall = arith.subf %top_s, %new_u : {LINE}")], id="scaled before the difference",
    ),
    pytest.param(
        [(NEXT_TOP, f"""{NEXT_TOP}
    %least = arith.constant dense<0xFF800000> : {LINE}
    %zeros = arith.constant dense<0.0> : {LINE}
    %is_none = arith.cmpf oeq, %new, %least : {LINE}
    %safe = arith.select %is_none, %zeros, %new : tensor<32xi1>, {LINE}"""),
         ("tt.expand_dims %new {", "tt.expand_dims %safe {"), (FALL, FALL.replace("%new", "%safe"))], id="guarded",
    ),
    pytest.param(
        [(NARROWED, f"%half = arith.constant dense<true> : tensor<32x32xi1>\n%none_w = arith.constant dense<0.0> : {WIDE}\n"
          f"%dropped = arith.select %half, %p, %none_w : tensor<32x32xi1>, {WIDE}\n{NARROWED.replace('%p :', '%dropped :')}")],
        id="dropout",
    ),
    pytest.param([("%sum#", "%sum2#"), (LOOP, f"{LOOP}\n  {SECOND_LOOP}")], id="two loops"),
]  # fmt: skip


def scaled(source: str, factor: str, name: str = "") -> str:
    """With distances multiplied by a constant."""
    for line, total in ((BELOW, WIDE), (FALL, LINE)):
        result = line.split(" ")[0]
        own = f"%k{name}{result[1:]} = arith.constant dense<{factor}> : {total}\n"
        source = source.replace(line, f"{own}{line.replace(result, f'{result}_1')}\n{result} = arith.mulf {result}_1, "
                                f"%k{name}{result[1:]} : {total}")  # fmt: skip
    return source


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("start", "factor", "found"),
    [
        ("0xFF800000", "0.001", True), ("-4294967296.0", "1.0", True), ("-2147483648.0", "1.0", False),
        ("-8589934592.0", "0.001", False), ("-8589934592.0", "0.5", True), ("-8589934592.0", "0.49", False),
        ("-1.0e30", "0.125", True), ("-1.0e30", "1.0e-22", False), ("-2147483648.0", "2.0", True), ("1.0e30", "1.0", False),
        ("-1.0e30", "%factor", False), ("0xFF800000", "%factor", True),
    ],
)  # fmt: skip
def test_how_low_maxima_start_where_distances_are_scaled(start: str, factor: str, found: bool) -> None:
    source = text(("dense<0xFF800000>", f"dense<{start}>"))
    if factor[0] == "%":
        for line, by, block in ((BELOW, "%factor", WIDE), (FALL, "%line_factor", LINE)):
            result = line.split(" ")[0]
            product = f"{result} = arith.mulf {result}_1, {by} : {block}"
            source = source.replace(line, f"{line.replace(result, f'{result}_1')}\n{product}")
    else:
        source = scaled(source, factor)
    assert marked(source) == (found, found)


def test_a_second_loop_scales_more() -> None:
    """The first may have no turn: then the second starts with the constants."""
    low = text(("dense<0xFF800000>", "dense<-8589934592.0>"), ("%sum#", "%sum2#"))
    for second, found in (("0.5", True), ("0.001", False)):
        both = scaled(LOOP, "1.0") + scaled(SECOND_LOOP, second, "s")
        assert marked(low.replace(LOOP.replace("ELEM", "f16"), both.replace("ELEM", "f16"))) == (found, found)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize(
    ("start", "factor"), [(-(2.0**33), 0.001), (-(2.0**33), 1.0), (-(2.0**32), 2.0**-8), (-1e30, 2.0**-77), (-(2.0**31), 1.0)]
)
def test_scores_a_little_lower_than_the_start(start: float, factor: float, device: str) -> None:
    """Whatever the first maximum is, the mean of V by weights is what the interpreter finds, where floats hold the weights."""
    source = scaled(text(("dense<0xFF800000>", f"dense<{start}>"), elem="f32"), str(factor))
    source = source.replace("  %p_x = arith.truncf %p : tensor<32x32xf32> to tensor<32x32xf32>", "").replace("%p_x", "%p")
    kernel, steps = jn.kernel.from_ttir(source.replace(NARROWED.replace("ELEM", "f32"), "")), np.spacing(np.float32(-start))
    rng = np.random.default_rng(5)
    x = (np.float32(start) - steps * rng.integers(127, 140, (2, 32, 32)) / max(1, round(steps * factor))).astype(np.float32)
    v = rng.random((2, 32, 32), np.float32)
    found, expected = ((np.zeros((32, 32), np.float32), np.zeros(32, np.float32)) for _ in range(2))
    kernel.interpret(1, x, v, *expected, 2, 1.0)
    kernel.launch(1, x, v, *found, 2, 1.0, device=device)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=2.0**-126)
    np.testing.assert_array_equal(found[1] > 0, expected[1] > 0)
    mean, exact = ((out / total[:, None])[total > 2.0**-135] for (out, total) in (found, expected))
    np.testing.assert_allclose(mean, exact, rtol=1e-3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("changes", WHOLE)
def test_weights_are_found(changes: list[tuple[str, str]]) -> None:
    assert marked(text(*changes)) == (True, True)


SCALED = (BELOW, f"%s_s = arith.mulf %s, %factor : {WIDE}\n{BELOW.replace('%s,', '%s_s,')}")
SIGN = [(BELOW, f"%below_1 = arith.subf %s, %new_w : {WIDE}\n%below = arith.mulf %below_1, %factor : {WIDE}"), ("exp2", "exp")]
KEPT = "%kept = arith.mulf"
NOT_ADDED_TO = f"%acc_2 = arith.mulf %acc_next, %alpha_w : {WIDE}\n    scf.yield %new, %den_next, %acc_2"
NONE, P_ALONE = (False, False), (False, True)
OTHERS: list[Any] = [
    pytest.param([(TOTAL, f"{TOTAL}\ntt.store %op, %p : tensor<32x32x!tt.ptr<f32>>")], NONE, id="stored weights"),
    pytest.param([(NARROWED, f"%q = arith.mulf %p, %s : {WIDE}\n{NARROWED.replace('%p :', '%q :')}")], NONE, id="multiplied"),
    pytest.param([(f"%new {{axis = 1 : i32}} : {LINE} -> {THIN}", f"%new {{axis = 0 : i32}} : {LINE} -> tensor<1x32xf32>"),
                  (f"%new_t : {THIN}", "%new_t : tensor<1x32xf32>")], NONE, id="maxima of rows taken from columns"),
    pytest.param([(TOTAL, TOTAL.replace("axis = 1", "axis = 0"))], NONE, id="sums of columns"),
    pytest.param([SCALED], NONE, id="other scores than the maximum's"),
    pytest.param([(MAXIMUM, MAXIMUM.replace("maxnumf", "minnumf"))], NONE, id="minima"),
    pytest.param([(NEXT_TOP, NEXT_TOP.replace("maxnumf", "minnumf"))], NONE, id="running minima"),
    pytest.param([("dense<0xFF800000>", "dense<0.0>")], NONE, id="a first maximum that scores may be below"),
    pytest.param([(ZEROS, ZEROS.replace("0.0", "-1.0"))], NONE, id="sums that start below 0"),
    pytest.param([(NEXT_DEN, NEXT_DEN.replace("%kept, %mass", "%den, %mass"))], NONE, id="sums that are not rescaled"),
    pytest.param([(NEXT_DEN, NEXT_DEN.replace("addf", "subf"))], NONE, id="sums taken away"),
    pytest.param([("scf.yield %new, %den_next", "scf.yield %new, %kept")], NONE, id="sums that are not kept"),
    pytest.param([("scf.yield %new,", "scf.yield %high,")], NONE, id="maxima that are not kept"),
    pytest.param([("math.exp2", "math.exp"), (NARROWED, ""), ("%p_x", "%p"), ("ELEM", "f32")], NONE, id="exp, f32 products"),
    pytest.param(SIGN, NONE, id="exp, scaled by what may be negative"),
    pytest.param([(KEPT, f"tt.store %lp, %alpha : tensor<32x!tt.ptr<f32>>\n{KEPT}")], P_ALONE, id="stored decay"),
    pytest.param([("%v_x, %less", "%v_x, %acc"), ("scf.yield %new, %den_next, %acc_next", NOT_ADDED_TO)], P_ALONE,
                 id="decay of what is not added to"),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("changes", "expected"), OTHERS)
def test_other_exponentials_are_not(changes: list[tuple[str, str]], expected: tuple[bool, bool]) -> None:
    assert marked(text(*changes)) == expected


def scores(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Three blocks of 32 rows: weights from 1 down to 2^-150, maxima that stay and that rise by as much, masked scores."""
    x = rng.uniform(-150, 0, (3, 32, 32)) + rng.choice([-140.0, -20.0, 0.0, 130.0], (3, 32, 1))
    x[rng.random(x.shape) < 0.1] = -1e30
    x[0, :, 0] = np.maximum(x[0, :, 0], -1e4)  # each row has a score at once
    return x.astype(np.float32)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("target", ["sm_80", "host"])
@pytest.mark.parametrize("function", ["math.exp2", "math.exp"])
@pytest.mark.parametrize("elem", ["f16", "bf16", "f32"])
def test_results_are_those_of_exact_weights(elem: str, function: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[elem]
    x, v = scores(rng), rng.standard_normal((3, 32, 32)).astype(dtype)
    wide = [(NARROWED, ""), ("%p_x", "%p")] if elem == "f32" else []
    source = text(("math.exp2", function), *wide, elem=elem)
    assert ("joinery.weight" in jn.kernel.from_ttir(source).ttir_after("licm")) == (elem != "f32" or function == "math.exp2")
    on = {"device": "cpu"} if target == "host" else {"device": "ptxsim", "target": target, "sanitize": True}

    def run() -> tuple[Any, Any]:
        out, total = np.zeros((32, 32), np.float32), np.zeros(32, np.float32)
        jn.kernel.from_ttir(source).launch((1,), x, v, out, total, 3, 1.0, **on)
        return out, total

    out, total = run()
    exponents = (x.astype(np.float64) - x.max(axis=(0, 2))[None, :, None]) * (1 if function == "math.exp2" else np.log2(np.e))
    weights = np.exp2(exponents)
    exact, size = (np.einsum("jik,jkn->in", weights, part(v.astype(np.float64))) for part in (np.asarray, np.abs))
    np.testing.assert_allclose(total, weights.sum(axis=(0, 2)), rtol=5e-7)
    unit = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-22}[elem]
    assert (np.abs(out - exact) <= unit * size + 2.0**-24).all()
    if function == "math.exp2" and elem != "f32":  # the marks change no bit: what they cost is too small beside 1
        monkeypatch.setattr("joinery.lowering.tt.transforms.numerics.softmax_weights._EXPONENTIALS", frozenset())
        before = run()
        np.testing.assert_array_equal(total, before[1])
        np.testing.assert_array_equal(out, before[0])


@pytest.mark.parametrize(("function", "instructions"), [("math.exp2", 0), ("math.exp", 1)])
def test_weights_take_one_or_two_instructions(function: str, instructions: int) -> None:
    """1024 weights on 128 threads, and one decay each: ex2.approx.ftz, for exp of a product by log2 e."""
    ptx = jn.kernel.from_ttir(text(("math.exp2", function))).ptx("sm_80")
    assert "ex2.approx.f32" not in ptx
    assert ptx.count("ex2.approx.ftz.f32") == 8 + 1
    plain = jn.kernel.from_ttir(text()).ptx("sm_80").count("mul.rn.f32")
    assert ptx.count("mul.rn.f32") - plain == 9 * instructions


ROWS = f"""
tt.func public @softmax(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %o: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}) {{
  %r = tt.make_range {{start = 0 : i32, end = 1024 : i32}} : tensor<1024xi32>
  %i = tt.reshape %r : tensor<1024xi32> -> tensor<32x32xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %xp = tt.addptr %xs, %i : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  %s = tt.load %xp : tensor<32x32x!tt.ptr<f32>>
  {MAXIMUM}
  %high_t = tt.expand_dims %high {{axis = 1 : i32}} : {LINE} -> {THIN}
  %high_w = tt.broadcast %high_t : {THIN} -> {WIDE}
  %below = arith.subf %s, %high_w : {WIDE}
  %p = math.exp %below : {WIDE}
  {TOTAL}
  %mass_t = tt.expand_dims %mass {{axis = 1 : i32}} : {LINE} -> {THIN}
  %mass_w = tt.broadcast %mass_t : {THIN} -> {WIDE}
  %y = arith.divf %p, %mass_w : {WIDE}
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %op = tt.addptr %os, %i : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  tt.store %op, %y : tensor<32x32x!tt.ptr<f32>>
  tt.return
}}
"""


SUB = f"%below = arith.subf %s, %high_w : {WIDE}"
TIMES = f"  %below_k = arith.mulf %below, %k : {WIDE}"


@pytest.mark.parametrize(
    ("old", "new", "in_range"),
    [
        ("", "", True), ("math.exp", "math.exp2", True), ("(%p) <", "(%s) <", False), ("(%s) <", "(%below0) <", False),
        ("divf %p, %mass_w", "divf %mass_w, %p", False), ("divf %p, %mass_w", "divf %s, %mass_w", False),
        (f"%high {{axis = 1 : i32}} : {LINE} -> {THIN}", f"%high {{axis = 0 : i32}} : {LINE} -> AxB", False),
        (f"%mass {{axis = 1 : i32}} : {LINE} -> {THIN}", f"%mass {{axis = 0 : i32}} : {LINE} -> AxB", False),
        ("arith.addf", "arith.maxnumf", False), (SUB, f"{SUB}\n  %k = arith.constant dense<2.0> : {WIDE}\n{TIMES}", True),
        (SUB, f"{SUB}\n  %k = arith.constant dense<-2.0> : {WIDE}\n{TIMES}", False),
        (SUB, f"{SUB}\n  %k = tt.splat %z : f32 -> {WIDE}\n{TIMES}", False),
    ],
)  # fmt: skip
def test_quotients_of_weights_are_in_range(old: str, new: str, in_range: bool) -> None:
    source = ROWS.replace(old, new) if old else ROWS
    assert source != ROWS or not old
    if "AxB" in source:
        name = "high" if "%high {axis = 0" in source else "mass"
        source = source.replace("AxB", "tensor<1x32xf32>").replace(f"%{name}_t : {THIN}", f"%{name}_t : tensor<1x32xf32>")
    source = source.replace('%high = "tt.reduce"(%below0)', f'%below0 = arith.negf %s : {WIDE}\n  %high = "tt.reduce"(%below0)')
    if "%below_k" in source:
        source = source.replace("math.exp %below :", "math.exp %below_k :").replace("%o: !tt", "%z: f32, %o: !tt")
    assert ("joinery.in_range" in jn.kernel.from_ttir(source).ttir_after("licm")) == in_range


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("", "", True), ("math.exp", "math.exp2", True), ("arith.divf %p", "arith.mulf %p", True),
        ("(%s) <", "(%below0) <", False), ("subf %s, %high_w", "subf %high_w, %s", False), ("subf %s", "addf %s", False),
        ("arith.maxnumf", "arith.minnumf", False), (SUB, f"{SUB}\n  %k = arith.constant dense<2.0> : {WIDE}\n{TIMES}", True),
        (SUB, f"{SUB}\n  %k = arith.constant dense<-2.0> : {WIDE}\n{TIMES}", False),
        (SUB, f"{SUB}\n  %k = tt.splat %z : f32 -> {WIDE}\n{TIMES}", False),
    ],
)  # fmt: skip
def test_what_exponentials_of_weights_take_is_not_positive(old: str, new: str, marked: bool) -> None:
    source = ROWS.replace(old, new) if old else ROWS
    assert source != ROWS or not old
    source = source.replace('%high = "tt.reduce"(%below0)', f'%below0 = arith.negf %s : {WIDE}\n  %high = "tt.reduce"(%below0)')
    if "%below_k" in source:
        source = source.replace("math.exp %below :", "math.exp %below_k :").replace("%o: !tt", "%z: f32, %o: !tt")
    assert ("joinery.not_positive" in jn.kernel.from_ttir(source).ttir_after("licm")) == marked


def test_tame_quotients_of_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit those of the IEEE division, but for very small ones, which may be off by one."""
    rng = np.random.default_rng(3)
    x = (rng.uniform(-1, 0, (32, 32)) * np.exp2(rng.integers(0, 8, (32, 1)))).astype(np.float32)
    x[3, 4:] = -np.inf
    x[4], x[5, 0], x[6, 0] = -np.inf, np.nan, np.inf

    def run(**on: Any) -> Any:
        out = np.zeros((32, 32), np.float32)
        jn.kernel.from_ttir(ROWS).launch((1,), x, out, **on)
        return out

    on_gpu = {"device": "ptxsim", "target": "sm_80", "sanitize": True}
    out = run(**on_gpu)
    with np.errstate(invalid="ignore"):
        wide = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(out, wide / wide.sum(axis=1, keepdims=True), rtol=6e-7, atol=2.0**-147)
    np.testing.assert_allclose(run(device="cpu"), out, rtol=6e-7, atol=2.0**-147)
    monkeypatch.setattr("joinery.lowering.tt.transforms.numerics.softmax_weights._EXPONENTIALS", frozenset())
    before = run(**on_gpu)
    usual = ~(before < 2.0**-100)
    np.testing.assert_array_equal(out[usual], before[usual])
    assert (np.abs(out[~usual] - before[~usual]) <= np.maximum(np.spacing(before[~usual]), np.float32(2.0**-148))).all()
