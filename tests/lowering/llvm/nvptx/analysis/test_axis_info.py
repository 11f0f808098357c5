"""What the axis analysis says of integer blocks holds for the numbers that the interpreter computes."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.llvm.nvptx.analysis.axis_info import MAX_DIVISIBILITY, AxisAnalysis, AxisInfo
from joinery.lowering.llvm.nvptx.analysis.known_non_negative import Dividends
from joinery.lowering.llvm.nvptx.passes.non_negative_dividends import NonNegativeDividends
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.transforms.facts.assume_divisibility import AssumeDivisibility

from .....support.random_kernels.hashes import program


def groups(values: np.ndarray, dim: int, size: int) -> np.ndarray:
    """Aligned groups of `size` elements along a dim, one per row."""
    return np.moveaxis(values, dim, -1).reshape(-1, size)


def check(info: AxisInfo, values: np.ndarray, what: str) -> None:
    wide = values.astype(np.int64)
    for dim in range(values.ndim):
        runs = groups(wide, dim, min(info.contiguity[dim], values.shape[dim]))
        steps = np.diff(runs, axis=1) % (1 << min(8 * values.itemsize, 62))  # few bits may wrap around
        assert (steps == 1).all(), f"{what}: contiguity {info} along {dim}"
        least = min(info.divisibility[dim], MAX_DIVISIBILITY)
        assert (runs[:, 0] % least == 0).all(), f"{what}: divisibility {info} along {dim}"
        same = groups(wide, dim, min(info.constancy[dim], values.shape[dim]))
        assert (same == same[:, :1]).all(), f"{what}: constancy {info} along {dim}"


def follow(text: str, *args: int) -> int:
    """Check every integer block of a function for these arguments; how many there were."""
    module = parse(text)
    function = find_function(module, None)
    noted = function.clone()
    NonNegativeDividends((*Dividends(function).at((2, 1, 1), args),)).run(noted)
    analysis = AxisAnalysis(noted)
    named = {result.name_hint: analysis.of(result) for op in noted.walk() for result in op.results}
    checked = 0

    def look(step: jn.kernel.Step) -> None:
        nonlocal checked
        value = step.results[0] if len(step.results) == 1 else None
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iub":
            check(named[step.text.split(" ")[0].removeprefix("%")], value, f"{step.text} with {args}")
            checked += 1

    interpret(module, (2,), args, None, look)
    return checked


TEXT = """
tt.func @f(%n: i32 {tt.divisibility = 16 : i32}, %m: i32) {
  %pid = tt.get_program_id x : i32
  %size = arith.constant 64 : i32
  %first = arith.muli %pid, %size : i32
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %late = tt.make_range {start = 24 : i32, end = 88 : i32} : tensor<64xi32>
  %f = tt.splat %first : i32 -> tensor<64xi32>
  %at = arith.addi %f, %r : tensor<64xi32>
  %ns = tt.splat %n : i32 -> tensor<64xi32>
  %ms = tt.splat %m : i32 -> tensor<64xi32>
  %below = arith.cmpi slt, %at, %ns : tensor<64xi32>
  %above = arith.cmpi sge, %at, %ms : tensor<64xi32>
  %turned = arith.cmpi sgt, %ns, %at : tensor<64xi32>
  %most = arith.cmpi sle, %ms, %at : tensor<64xi32>
  %both = arith.andi %below, %above : tensor<64xi1>
  %wrapped = arith.remsi %at, %ns : tensor<64xi32>
  %wrapped_m = arith.remsi %late, %ms : tensor<64xi32>
  %sixteen = arith.constant dense<16> : tensor<64xi32>
  %before = arith.subi %r, %ns : tensor<64xi32>
  %negative = arith.remsi %before, %sixteen : tensor<64xi32>
  %unsigned = arith.remui %before, %sixteen : tensor<64xi32>
  %byte = arith.trunci %late : tensor<64xi32> to tensor<64xi8>
  %hundred = arith.constant dense<100> : tensor<64xi8>
  %far = arith.addi %byte, %hundred : tensor<64xi8>
  %signed_again = arith.extsi %far : tensor<64xi8> to tensor<64xi32>
  %unsigned_again = arith.extui %far : tensor<64xi8> to tensor<64xi32>
  %moved = arith.addi %late, %ms : tensor<64xi32>
  %back = arith.subi %late, %ns : tensor<64xi32>
  %away = arith.subi %ns, %late : tensor<64xi32>
  %scaled = arith.muli %late, %ns : tensor<64xi32>
  %twelve = arith.constant dense<12> : tensor<64xi32>
  %by = arith.muli %at, %twelve : tensor<64xi32>
  %sum = arith.addi %by, %late : tensor<64xi32>
  %chosen = arith.select %below, %at, %late : tensor<64xi1>, tensor<64xi32>
  %row = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %q = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %column = tt.expand_dims %q {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %wide = tt.splat %n : i32 -> tensor<16x1xi32>
  %start = arith.muli %column, %wide : tensor<16x1xi32>
  %rows = tt.broadcast %start : tensor<16x1xi32> -> tensor<16x64xi32>
  %columns = tt.broadcast %row : tensor<1x64xi32> -> tensor<16x64xi32>
  %places = arith.addi %rows, %columns : tensor<16x64xi32>
  %other = tt.trans %places {order = array<i32: 1, 0>} : tensor<16x64xi32> -> tensor<64x16xi32>
  %long = arith.extsi %places : tensor<16x64xi32> to tensor<16x64xi64>
  %short = arith.trunci %places : tensor<16x64xi32> to tensor<16x64xi16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %step = arith.constant dense<48> : tensor<64xi32>
  %end = scf.for %i = %zero to %three step %one iter_args(%x = %at) -> (tensor<64xi32>) : i32 {
    %y = arith.addi %x, %step : tensor<64xi32>
    %z = arith.cmpi slt, %x, %ns : tensor<64xi32>
    scf.yield %y : tensor<64xi32>
  }
  %last = arith.addi %end, %r : tensor<64xi32>
  %turn = arith.constant 64 : i32
  scf.for %i = %n to %m step %turn : i32 {
    %is = tt.splat %i : i32 -> tensor<64xi32>
    %ir = arith.addi %is, %r : tensor<64xi32>
    %inside = arith.cmpi slt, %ir, %ns : tensor<64xi32>
    scf.yield
  }
  scf.for %j = %one to %m step %one : i32 {
    %js = tt.splat %j : i32 -> tensor<64xi32>
    %jr = arith.addi %js, %r : tensor<64xi32>
    scf.yield
  }
  tt.return
}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [0, 16, 48, 64, 96, 1024])
@pytest.mark.parametrize("m", [1, 7, 24, 64])
def test_the_facts_hold(n: int, m: int) -> None:
    assert follow(TEXT, n, m) > 80


def test_facts_that_make_wide_accesses() -> None:
    function = find_function(parse(TEXT), None)
    NonNegativeDividends((*Dividends(function).possible,)).run(function)
    analysis = AxisAnalysis(function)
    named = {result.name_hint: analysis.of(result) for op in function.walk() for result in op.results}
    assert named["at"].contiguity == (64,)
    assert named["below"].constancy == (16,)
    assert named["ir"].divisibility == (16,)  # of the start and the step
    assert named["jr"].divisibility == (1,)
    assert named["wrapped"].contiguity == (16,)
    assert named["wrapped_m"].contiguity == (1,)
    assert named["negative"].contiguity == (1,)  # -16, -15, … become 0, -15, …
    assert named["unsigned"].contiguity == (16,)
    assert (named["places"].contiguity, named["places"].divisibility) == ((1, 64), (1, 16))
    assert named["end"].contiguity == (64,)
    assert named["end"].divisibility == (16,)


def test_pointers_count_in_bytes() -> None:
    text = """
tt.func @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32>) {
  %r = tt.make_range {start = 4 : i32, end = 68 : i32} : tensor<64xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %known = tt.addptr %ps, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %unknown = tt.addptr %qs, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.return
}
"""
    function = find_function(parse(text), None)
    named = {}
    for known in ((), (1,)):
        AssumeDivisibility(known, (32,) * len(known)).run(function)
        analysis = AxisAnalysis(function)
        named[len(known)] = {r.name_hint: analysis.of(r) for op in function.walk() for r in op.results}
    assert (named[0]["known"].contiguity, named[0]["known"].divisibility) == ((64,), (16,))
    assert named[0]["unknown"].divisibility == (4,)
    assert named[1]["unknown"].divisibility == (16,)


def loading(offsets: str, parameters: str = "") -> jn.kernel.Kernel:
    """Copies elements of 1024 `%offsets` behind the 256th; `%i` are the lanes of all programs."""
    array = "!tt.ptr<f32> {tt.divisibility = 16 : i32}"
    return jn.kernel.from_ttir(f"""
tt.func public @f(%x: {array}, %o: {array}{parameters}) {{
  %pid = tt.get_program_id x : i32
  %size = arith.constant 1024 : i32
  %start = arith.constant 256 : i32
  %first = arith.muli %pid, %size : i32
  %firsts = tt.splat %first : i32 -> tensor<1024xi32>
  %r = tt.make_range {{start = 0 : i32, end = 1024 : i32}} : tensor<1024xi32>
  %i = arith.addi %firsts, %r : tensor<1024xi32>
  {offsets}
  %middle = tt.addptr %x, %start : !tt.ptr<f32>, i32
  %xs = tt.splat %middle : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %px = tt.addptr %xs, %offsets : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %px : tensor<1024x!tt.ptr<f32>>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %po = tt.addptr %os, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  tt.store %po, %v : tensor<1024x!tt.ptr<f32>>
  tt.return
}}
""")


def loads_right(kernel: jn.kernel.Kernel, *more: int) -> str:
    """The PTX of the launch."""
    x = np.random.default_rng(2).normal(size=2560).astype(np.float32)
    found, expected = np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    kernel.interpret(2, x, expected, *more)
    kernel.launch(2, x, found, *more, device="ptxsim", sanitize=True)
    assert np.array_equal(found, expected)
    return list(kernel._gpu._codes.values())[-1].ptx


BY_N = """%ns = tt.splat %n : i32 -> tensor<1024xi32>
  %offsets = arith.remsi %i, %ns : tensor<1024xi32>"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [0, -16, 16, 48, 304, -304, 2048])
def test_remainders_by_a_multiple_of_16_are_loaded_wide(n: int) -> None:
    """The columns of a matrix, wrapped around at its end. Remainders are written out for a divisor of 0 before."""
    kernel = loading(BY_N, ", %n: i32 {tt.divisibility = 16 : i32}")
    assert "ld.global.v4" in loads_right(kernel, n)
    assert "ld.global.v4" in kernel.gpu_code("sm_80", bounded=True).ptx
    assert "ld.global.v4" not in kernel.ptx("sm_80")  # in 2**21 programs places wrap around


@pytest.mark.parametrize("n", [-1, 1, 7, 100])
def test_remainders_by_any_number(n: int) -> None:
    kernel = loading(BY_N, ", %n: i32")
    assert "ld.global.v4" not in kernel.ptx("sm_80")
    loads_right(kernel, n)


@pytest.mark.parametrize("quotient", ["", "%g = arith.divsi %c, %n : i32", "%g = arith.remsi %c, %n : i32"])
def test_programs_in_groups_load_remainders_wide(quotient: str) -> None:
    """The number of a program in its group is not negative where that of groups is not, and neither wraps."""
    lines = f"""%c = arith.addi %pid, %pid : i32
  {quotient or "%g = arith.addi %c, %pid : i32"}
  %gs = tt.splat %g : i32 -> tensor<1024xi32>
  %sixteens = arith.constant dense<16> : tensor<1024xi32>
  %scaled = arith.muli %gs, %sixteens : tensor<1024xi32>
  %j = arith.addi %scaled, %r : tensor<1024xi32>
  %offsets = arith.remsi %j, %sixteens : tensor<1024xi32>"""
    kernel = loading(lines, ", %n: i32")
    assert "ld.global.v4" in loads_right(kernel, 3)
    assert "ld.global.v4" not in kernel.ptx("sm_80")


@pytest.mark.parametrize("start", [-512, -16, -8, 0, 16])
def test_remainders_of_negative_numbers(start: int) -> None:
    loads_right(loading(f"""%by = arith.constant dense<{start}> : tensor<1024xi32>
  %sixteens = arith.constant dense<16> : tensor<1024xi32>
  %j = arith.addi %i, %by : tensor<1024xi32>
  %offsets = arith.remsi %j, %sixteens : tensor<1024xi32>"""))


@pytest.mark.parametrize("by", [0, 4, 64])
@pytest.mark.parametrize("extended", ["extsi", "extui"])
def test_offsets_of_few_bits_wrap_around(extended: str, by: int) -> None:
    loads_right(loading(f"""%by = arith.constant dense<{by}> : tensor<1024xi8>
  %b = arith.trunci %i : tensor<1024xi32> to tensor<1024xi8>
  %c = arith.addi %b, %by : tensor<1024xi8>
  %offsets = arith.{extended} %c : tensor<1024xi8> to tensor<1024xi32>"""))


@pytest.mark.parametrize("n", [0, 100, 300, 301])
def test_promises_make_accesses_wide(n: int) -> None:
    """What kernels say of a wrapped block holds for what one access touches, if 4 divides n, and not for the block."""
    said = "{tt.contiguity = dense<1024> : tensor<1xi32>, tt.divisibility = dense<1024> : tensor<1xi32>}"
    kernel = loading(BY_N.replace("%i, %ns", f"%i, %ns {said}"), ", %n: i32")
    assert "ld.global.v4" in kernel.ptx("sm_80")
    if n % 4 == 0:
        loads_right(kernel, n)


def test_promises_of_scalars() -> None:
    said = "{tt.divisibility = dense<16> : tensor<1xi32>}"
    lines = f"""%k = arith.muli %n, %n {said} : i32
  %ks = tt.splat %k : i32 -> tensor<1024xi32>
  %offsets = arith.addi %ks, %r : tensor<1024xi32>"""
    kernel = loading(lines, ", %n: i32")
    assert "ld.global.v4" in kernel.ptx("sm_80")
    loads_right(kernel, 8)
    assert "ld.global.v4" not in loading(lines.replace(said, ""), ", %n: i32").ptx("sm_80")


@pytest.mark.parametrize("n", [0, -16, 16, 48])
def test_quotients_are_constant_between_multiples(n: int) -> None:
    """Columns of a matrix of n columns: place % n, and 16 times what two quotients add up to."""
    lines = """%ns = tt.splat %n : i32 -> tensor<1024xi32>
  %c = arith.remsi %r, %ns : tensor<1024xi32>
  %q = arith.divsi %r, %ns : tensor<1024xi32>
  %u = arith.divui %r, %ns : tensor<1024xi32>
  %sixteen = arith.constant dense<16> : tensor<1024xi32>
  %both = arith.addi %q, %u : tensor<1024xi32>
  %row = arith.remsi %both, %sixteen : tensor<1024xi32>
  %by = arith.muli %row, %sixteen : tensor<1024xi32>
  %offsets = arith.addi %c, %by : tensor<1024xi32>"""
    kernel = loading(lines, ", %n: i32 {tt.divisibility = 16 : i32}")
    assert "ld.global.v4" in kernel.ptx("sm_80")
    loads_right(kernel, n)


@pytest.mark.parametrize(("divisor", "wide"), [(2, True), (4, True), (8, False), (3, False), (6, False)])
def test_quotients_of_multiples(divisor: int, wide: bool) -> None:
    """Half of a multiple of 64 bytes is one of 32; of other divisors nothing is known."""
    lines = f"""%d = arith.constant {divisor} : i32
  %h = arith.divsi %n, %d : i32
  %hs = tt.splat %h : i32 -> tensor<1024xi32>
  %offsets = arith.addi %hs, %r : tensor<1024xi32>"""
    kernel = loading(lines, ", %n: i32 {tt.divisibility = 16 : i32}")
    assert ("ld.global.v4" in kernel.ptx("sm_80")) == wide
    loads_right(kernel, 48)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "said", ["dense<[16, 16]> : tensor<2xi32>", "dense<0> : tensor<1xi32>", '"all"', "dense<> : tensor<0xi32>"]
)
@pytest.mark.parametrize("name", ["contiguity", "divisibility", "constancy"])
def test_what_is_no_promise(name: str, said: str) -> None:
    """Not one number above 0 per dim: nothing follows."""
    kernel = loading(f"%offsets = arith.addi %r, %r {{tt.{name} = {said}}} : tensor<1024xi32>")
    assert "ld.global.v" not in kernel.ptx("sm_80")
    loads_right(kernel)


PLACES = """%big = arith.constant 1431655744 : i32
  %b = arith.muli %pid, %big : i32
  %bs = tt.splat %b : i32 -> tensor<1024xi32>
  %at = arith.addi %bs, %r : tensor<1024xi32>
  %n = arith.constant dense<64> : tensor<1024xi32>"""


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("last", ["%q = arith.remsi %at, %n", "%q = arith.divsi %at, %n"])
def test_places_that_wrap_around_before_they_are_divided(last: str, grid: int) -> None:
    """The third program's is negative: a launch of two has wide loads, one of three does not."""
    kernel = loading(f"""{PLACES}
  {last} : tensor<1024xi32>
  %m = arith.remsi %q, %n : tensor<1024xi32>
  %offsets = arith.addi %m, %n : tensor<1024xi32>""")
    x = np.arange(2560, dtype=np.float32)
    found, expected = np.zeros(1024 * grid, np.float32), np.zeros(1024 * grid, np.float32)
    kernel.interpret(grid, x, expected)
    kernel.launch(grid, x, found, device="ptxsim")
    assert np.array_equal(found, expected)
    (code,) = kernel._gpu._codes.values()
    assert ("ld.global.v4" in code.ptx) == (grid < 3 and "remsi" in last)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_hashes(seed: int) -> None:
    case = program(seed)
    expected = case.run()
    found = case.run(device="ptxsim", target=("sm_80", "sm_90a")[seed % 2], warps=(1, 2)[seed // 2 % 2])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(case.run(device="cpu"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_more_hashes(first: int) -> None:
    for seed in range(first, first + 20):
        case = program(seed)
        expected = case.run()
        for target, warps in (("sm_80", 1), ("sm_90a", 4)):
            found = case.run(device="ptxsim", target=target, warps=warps)
            np.testing.assert_array_equal(found, expected, f"seed {seed}, {target}, {warps} warps")
