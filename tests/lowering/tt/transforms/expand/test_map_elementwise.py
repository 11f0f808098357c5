"""tt.map_elementwise: interpreted with and without control flow, expanded, and run on the host where its region is straight."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.expand.expand_maps import expand_map_elementwise
from joinery.lowering.tt.verify import verify

RNG = np.random.default_rng(32)
NUMPY = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i32": np.int32, "i64": np.int64,
    "i8": np.int8, "i16": np.int16,
}  # fmt: skip


def kernel(shape, inputs, outputs, region: str, pack: int = 1, before: str = "") -> str:
    """Reads one block per input type, maps the region over them and writes its results."""
    count = int(np.prod(shape))
    extents = "x".join(map(str, shape))
    lines, parameters = [before], []
    flat = f"tensor<{count}xi32>"
    lines.append(f"%line = tt.make_range {{start = 0 : i32, end = {count} : i32}} : {flat}")
    for n, elem in enumerate((*inputs, *outputs)):
        parameters.append(f"%p{n}: !tt.ptr<{elem}>")
        pointers = f"tensor<{count}x!tt.ptr<{elem}>>"
        lines.append(f"%s{n} = tt.splat %p{n} : !tt.ptr<{elem}> -> {pointers}")
        lines.append(f"%q{n} = tt.addptr %s{n}, %line : {pointers}, {flat}")
        if n < len(inputs):
            lines.append(f"%l{n} = tt.load %q{n} : {pointers}")
            lines.append(f"%x{n} = tt.reshape %l{n} : tensor<{count}x{elem}> -> tensor<{extents}x{elem}>")
    sources = ", ".join(f"%x{n}" for n in range(len(inputs)))
    arguments = ", ".join(f"%a{n}: {elem}" for n, elem in enumerate(e for e in inputs for _ in range(pack)))
    types = [", ".join(f"tensor<{extents}x{elem}>" for elem in side) for side in (inputs, outputs)]
    results = types[1] if len(outputs) == 1 else f"({types[1]})"
    lines.append(f'%y:{len(outputs)} = "tt.map_elementwise"({sources}) <{{pack = {pack} : i32}}> ({{')
    lines.append(f"^bb0({arguments}):\n{region}\n}}) : ({types[0]}) -> {results}")
    for n, elem in enumerate(outputs):
        place = n + len(inputs)
        lines.append(f"%z{n} = tt.reshape %y#{n} : tensor<{extents}x{elem}> -> tensor<{count}x{elem}>")
        lines.append(f"tt.store %q{place}, %z{n} : tensor<{count}x!tt.ptr<{elem}>>")
    body = "\n".join(lines)
    return f"tt.func public @f({', '.join(parameters)}) {{\n{body}\ntt.return\n}}"


def evaluate(text: str, inputs, outputs, grid=1):
    """(interpreted, expanded and interpreted, launched or None): each a list of the output arrays."""
    found = []
    module = parse(text)
    assert print_module(parse(print_module(module))) == print_module(module)
    made = [np.zeros_like(array) for array in outputs]
    interpret(module, grid, [*inputs, *made])
    found.append(made)
    expand_map_elementwise(find_function(module))
    verify(module)
    made = [np.zeros_like(array) for array in outputs]
    interpret(module, grid, [*inputs, *made])
    found.append(made)
    if "map_elementwise" not in print_module(module):
        made = [np.zeros_like(array) for array in outputs]
        jn.kernel.from_ttir(text).launch(grid, *inputs, *made)
        found.append(made)
    return found


def values(elem: str, count: int) -> np.ndarray:
    dtype = np.dtype(NUMPY[elem])
    if dtype.kind == "i":
        return RNG.integers(-100, 100, count).astype(dtype)
    return RNG.normal(size=count).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(1,), (64,), (1, 16), (8, 1), (4, 8), (2, 1, 4), (2, 2, 2, 4)])
@pytest.mark.parametrize("elem", ["f32", "bf16", "f64"])
def test_a_straight_region(shape, elem: str) -> None:
    region = f"""%two = arith.constant 2.0 : {elem}
    %s = arith.mulf %a0, %two : {elem}
    %d = arith.addf %s, %a1 : {elem}
    %c = arith.cmpf ogt, %d, %a0 : {elem}
    %r = arith.select %c, %d, %a0 : {elem}
    tt.map_elementwise.return %r, %c : {elem}, i1"""
    count = int(np.prod(shape))
    x, y = values(elem, count), values(elem, count)
    d = x * np.dtype(x.dtype).type(2) + y
    runs = evaluate(kernel(shape, [elem, elem], [elem, "i1"], region), [x, y], [x, np.zeros(count, np.uint8)])
    assert len(runs) == 3
    for result, larger in runs:
        np.testing.assert_array_equal(result, np.where(d > x, d, x))
        np.testing.assert_array_equal(larger, d > x)


@pytest.mark.parametrize("elem", ["i8", "i16", "i32", "i64"])
def test_integers_of_every_width(elem: str) -> None:
    region = f"""%s = arith.addi %a0, %a1 : {elem}
    %h = tt.mulhiui %s, %a1 : {elem}
    tt.map_elementwise.return %h, %s : {elem}, {elem}"""
    x, y = values(elem, 32), values(elem, 32)
    width = 8 * x.dtype.itemsize
    total = x + y
    mask = (1 << width) - 1
    high = [((int(a) & mask) * (int(b) & mask)) >> width for a, b in zip(total, y, strict=True)]
    for first, second in evaluate(kernel((32,), [elem] * 2, [elem] * 2, region), [x, y], [x, x]):
        assert [int(v) & mask for v in first] == high
        np.testing.assert_array_equal(second, total)


def test_uniform_values_stay_scalars() -> None:
    """Values from outside the region and the program's place are splatted only where they meet elements."""
    region = """%p = tt.get_program_id x : i32
    %q = arith.addi %p, %base : i32
    %r = arith.addi %a0, %q : i32
    tt.map_elementwise.return %r, %q : i32, i32"""
    text = kernel((8,), ["i32"], ["i32", "i32"], region, before="%base = arith.constant 40 : i32")
    x = values("i32", 8)
    for first, second in evaluate(text, [x], [x, x], grid=3):
        np.testing.assert_array_equal(first, x + 42)
        np.testing.assert_array_equal(second, np.full(8, 42))
    module = parse(text)
    expand_map_elementwise(find_function(module))
    printed = print_module(module)
    assert "arith.addi %" in printed
    assert sum(line.strip().endswith(": i32") and "arith.addi" in line for line in printed.splitlines()) == 1


def test_a_region_without_elements() -> None:
    region = "%c = arith.constant 7 : i32\ntt.map_elementwise.return %c : i32"
    x = values("i32", 8)
    for (found,) in evaluate(kernel((8,), ["i32"], ["i32"], region), [x], [x]):
        np.testing.assert_array_equal(found, np.full(8, 7))


def test_an_argument_returned_as_it_is() -> None:
    x, y = values("i32", 8), values("i32", 8)
    region = "tt.map_elementwise.return %a1, %a0 : i32, i32"
    for first, second in evaluate(kernel((8,), ["i32", "i32"], ["i32", "i32"], region), [x, y], [x, x]):
        np.testing.assert_array_equal(first, y)
        np.testing.assert_array_equal(second, x)


def test_loads_in_a_region() -> None:
    region = "%q = tt.addptr %p0, %a0 : !tt.ptr<i32>, i32\n%v = tt.load %q : !tt.ptr<i32>\ntt.map_elementwise.return %v : i32"
    x = RNG.permutation(16).astype(np.int32)
    for (found,) in evaluate(kernel((16,), ["i32"], ["i32"], region), [x], [x]):
        np.testing.assert_array_equal(found, x[x])


BRANCHES = """%z = arith.constant 0 : i32
    %c = arith.cmpi slt, %a0, %a1 : i32
    %m = arith.constant -1 : i32
    cf.cond_br %c, ^end(%m : i32), ^more
  ^more:
    %e = arith.cmpi eq, %a0, %a1 : i32
    %o = arith.constant 1 : i32
    cf.cond_br %e, ^end(%z : i32), ^end(%o : i32)
  ^end(%r: i32):
    tt.map_elementwise.return %r : i32"""

COLLATZ = """%z = arith.constant 0 : i32
    %o = arith.constant 1 : i32
    %t = arith.constant 2 : i32
    %th = arith.constant 3 : i32
    %r:2 = scf.while (%v = %a0, %n = %z) : (i32, i32) -> (i32, i32) {
      %g = arith.cmpi sgt, %v, %o : i32
      scf.condition(%g) %v, %n : i32, i32
    } do {
    ^bb1(%v: i32, %n: i32):
      %odd = arith.remui %v, %t : i32
      %is = arith.cmpi eq, %odd, %o : i32
      %w = scf.if %is -> (i32) {
        %t3 = arith.muli %v, %th : i32
        %t31 = arith.addi %t3, %o : i32
        scf.yield %t31 : i32
      } else {
        %h = arith.divui %v, %t : i32
        scf.yield %h : i32
      }
      %k = arith.addi %n, %o : i32
      scf.yield %w, %k : i32, i32
    }
    tt.map_elementwise.return %r#1 : i32"""

POWER = """%z = arith.constant 0 : i32
    %o = arith.constant 1 : i32
    %r = scf.for %i = %z to %a1 step %o iter_args(%v = %o) -> (i32) : i32 {
      %w = arith.muli %v, %a0 : i32
      scf.yield %w : i32
    }
    tt.map_elementwise.return %r : i32"""


def collatz(number: int) -> int:
    steps = 0
    while number > 1:
        number, steps = (3 * number + 1 if number % 2 else number // 2), steps + 1
    return steps


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(1,), (16,), (2, 8), (2, 2, 4), (2, 1, 2, 4)])
def test_control_flow(shape) -> None:
    count = int(np.prod(shape))
    x, y = (RNG.integers(-3, 4, count).astype(np.int32) for _ in range(2))
    runs = evaluate(kernel(shape, ["i32", "i32"], ["i32"], BRANCHES), [x, y], [x])
    assert len(runs) == 2  # the expansion leaves branches alone
    for (found,) in runs:
        np.testing.assert_array_equal(found, np.sign(x.astype(int) - y))
    start = RNG.integers(1, 40, count).astype(np.int32)
    for (found,) in evaluate(kernel(shape, ["i32"], ["i32"], COLLATZ), [start], [start]):
        assert found.tolist() == [collatz(int(n)) for n in start]
    powers = RNG.integers(0, 6, count).astype(np.int32)
    for (found,) in evaluate(kernel(shape, ["i32", "i32"], ["i32"], POWER), [x, powers], [x]):
        np.testing.assert_array_equal(found, x.astype(int) ** powers)


@pytest.mark.parametrize("pack", [1, 2, 4])
def test_packs(pack: int) -> None:
    """Arguments come operand by operand, `pack` neighbours each; so do results."""
    names = [f"%u{n}" for n in range(pack)]
    lines = [f"%t{n} = arith.subi %a{n}, %a{pack + n} : i32" for n in range(pack)]
    lines += [f"%u{n} = arith.addi %a{n}, %a{(n + 1) % pack} : i32" for n in range(pack)]
    returned = ", ".join([f"%t{n}" for n in range(pack)] + names)
    lines.append(f"tt.map_elementwise.return {returned} : {', '.join(['i32'] * 2 * pack)}")
    x, y = values("i32", 32), values("i32", 32)
    groups = x.reshape(-1, pack)
    text = kernel((4, 8), ["i32", "i32"], ["i32", "i32"], "\n".join(lines), pack)
    for first, second in evaluate(text, [x, y], [x, x]):
        np.testing.assert_array_equal(first, x - y)
        np.testing.assert_array_equal(second, (groups + np.roll(groups, -1, axis=1)).reshape(-1))


def test_an_assertion_in_a_region() -> None:
    region = """%z = arith.constant 0 : i32
    %c = arith.cmpi sge, %a0, %z : i32
    tt.assert %c, "negative" : i1
    tt.map_elementwise.return %a0 : i32"""
    text = kernel((8,), ["i32"], ["i32"], region)
    good = np.arange(8, dtype=np.int32)
    interpret(parse(text), 1, [good, good.copy()])
    bad = good - 3
    module = parse(text)
    with pytest.raises(jn.KernelAssertionError, match="negative"):
        interpret(module, 1, [bad, good.copy()])
    expand_map_elementwise(find_function(module))
    with pytest.raises(jn.KernelAssertionError, match="negative") as caught:
        interpret(module, 1, [bad, good.copy()])
    assert caught.value.lane == (0,)


def test_a_map_in_a_loop() -> None:
    text = """tt.func public @f(%p: !tt.ptr<i32>, %n: i32) {
    %z = arith.constant 0 : i32
    %o = arith.constant 1 : i32
    %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
    %s = scf.for %i = %z to %n step %o iter_args(%v = %r) -> (tensor<8xi32>) : i32 {
      %m = "tt.map_elementwise"(%v) <{pack = 1 : i32}> ({
      ^bb0(%a: i32):
        %b = arith.addi %a, %i : i32
        %c = arith.muli %b, %b : i32
        tt.map_elementwise.return %c : i32
      }) : (tensor<8xi32>) -> tensor<8xi32>
      scf.yield %m : tensor<8xi32>
    }
    %q = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %a = tt.addptr %q, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %a, %s : tensor<8x!tt.ptr<i32>>
    tt.return
    }"""
    expected = np.arange(8, dtype=np.int32)
    for turn in range(3):
        expected = (expected + turn) ** 2
    loaded = jn.kernel.from_ttir(text)
    first, second = np.zeros(8, np.int32), np.zeros(8, np.int32)
    loaded.interpret(1, first, 3)
    loaded.launch(1, second, 3)
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected)


def generic(operands: str, types: str, region: str, results: str, pack: int = 1) -> str:
    bound = "%r:1 = " if results != "()" else ""
    call = f'{bound}"tt.map_elementwise"({operands}) <{{pack = {pack} : i32}}> ({{\n{region}\n}}) : ({types}) -> {results}'
    parameters = "%x: tensor<8xi32>, %y: tensor<16xi32>, %s: i32, %h: tensor<8xf16>, %c: i1"
    return f"tt.func public @f({parameters}) {{\n{call}\ntt.return\n}}"


SAME = "^bb0(%a: i32):\ntt.map_elementwise.return %a : i32"
TWO = "^bb0(%a: i32, %b: i32):\ntt.map_elementwise.return %a : i32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (generic("", "", SAME, "tensor<8xi32>"), "no operands, expected at least one block"),
        (generic("%x", "tensor<8xi32>", SAME, "()"), "no results, expected at least one"),
        (generic("%s", "i32", SAME, "i32"), "operand 0 is i32, expected a block"),
        (generic("%x, %y", "tensor<8xi32>, tensor<16xi32>", TWO, "tensor<8xi32>"), "operand 1 is tensor<16xi32> of shape"),
        (generic("%x, %s", "tensor<8xi32>, i32", TWO, "tensor<8xi32>"), "operand 1 is i32, expected a block"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<16xi32>"), "result 0 is tensor<16xi32> of shape"),
        (generic("%x", "tensor<8xi32>", SAME, "i32"), "result 0 is i32, expected a block"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<8xi32>", 0), "pack is 0, expected a divisor of the 8"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<8xi32>", 3), "pack is 3"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<8xi32>", 16), "pack is 16"),
        (generic("%x", "tensor<8xi32>", TWO, "tensor<8xi32>"), "2 region arguments, expected 1"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<8xi32>", 2), "1 region arguments, expected 2"),
        (generic("%h", "tensor<8xf16>", SAME, "tensor<8xi32>"), "number 0 of the region arguments is i32, expected f16"),
        (generic("%x", "tensor<8xi32>", SAME, "tensor<8xf16>"), "values returned by the region is i32, expected f16"),
        (generic("%x", "tensor<8xi32>", "^bb0(%a: i32):\ntt.map_elementwise.return", "tensor<8xi32>"), "0 values returned"),
        (generic("%x", "tensor<8xi32>", "^bb0(%a: i32):\n%b = arith.addi %a, %a : i32", "tensor<8xi32>"), "does not end in"),
        (generic("%x", "tensor<8xi32>", "^bb0(%a: i32):\nscf.yield %a : i32", "tensor<8xi32>"), "the region ends in scf.yield"),
        (generic("%x", "tensor<8xi32>", "", "tensor<8xi32>"), "the region is empty"),
    ],
)
def test_what_the_verifier_refuses(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.kernel.from_ttir(text)


def test_a_return_outside_a_map() -> None:
    with pytest.raises(jn.UserError, match="map_elementwise"):
        jn.kernel.from_ttir("tt.func public @f() {\ntt.map_elementwise.return\n}")

