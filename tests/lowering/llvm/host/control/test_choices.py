"""Choices among many ways, regions that execute in place, and numbers of type `index`."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.errors import UserError

HEAD = """tt.func public @k(%p: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32) {
  %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %s = tt.splat %p : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
  %v = tt.load %a : tensor<4x!tt.ptr<i32>>
  %ten = arith.constant dense<10> : tensor<4xi32>
"""
TAIL = """
  %sx = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %ax = tt.addptr %sx, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
  tt.store %ax, %z : tensor<4x!tt.ptr<i32>>
  tt.return
}"""
SWITCH = """
  cf.switch %n : i32, [
    default: ^out(%v : tensor<4xi32>),
    1: ^out(%ten : tensor<4xi32>),
    -7: ^twice(%ten : tensor<4xi32>)
  ]
^twice(%u: tensor<4xi32>):
  %more = arith.addi %u, %v : tensor<4xi32>
  cf.br ^out(%more : tensor<4xi32>)
^out(%z: tensor<4xi32>):"""
INDEX_SWITCH = """
  %i = arith.index_cast %n : i32 to index
  %z = scf.index_switch %i -> tensor<4xi32>
  case 1 {
    scf.yield %ten : tensor<4xi32>
  }
  case -7 {
    %u = arith.addi %ten, %v : tensor<4xi32>
    scf.yield %u : tensor<4xi32>
  }
  default {
    scf.yield %v : tensor<4xi32>
  }"""
REGION = """
  %seven = arith.constant -7 : i32
  %one = arith.constant 1 : i32
  %z = scf.execute_region -> (tensor<4xi32>) {
    %is_one = arith.cmpi eq, %n, %one : i32
    cf.cond_br %is_one, ^one, ^other
  ^one:
    scf.yield %ten : tensor<4xi32>
  ^other:
    %is_seven = arith.cmpi eq, %n, %seven : i32
    %u = arith.addi %ten, %v : tensor<4xi32>
    %w = arith.select %is_seven, %u, %v : tensor<4xi32>
    scf.yield %w : tensor<4xi32>
  }"""
NO_CASES = """
  %i = arith.index_cast %n : i32 to index
  %z = scf.index_switch %i -> tensor<4xi32>
  default {
    scf.yield %v : tensor<4xi32>
  }"""
X = np.array([3, -4, 5, 1 << 30], np.int32)


@pytest.mark.parametrize("n", [0, 1, -7, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("body", [SWITCH, INDEX_SWITCH, REGION], ids=["cf.switch", "scf.index_switch", "scf.execute_region"])
def test_the_case_is_chosen(agree, body: str, n: int) -> None:
    text = HEAD + body + TAIL
    found = agree(text, 1, X, np.zeros(4, np.int32), n)[1]
    np.testing.assert_array_equal(found, {1: np.full(4, 10), -7: X + 10}.get(n, X))
    assert jn.kernel.from_ttir(text).sanitize(1, X.copy(), np.zeros(4, np.int32), n).findings == ()


def test_switches_without_cases_and_results(agree) -> None:
    np.testing.assert_array_equal(agree(HEAD + NO_CASES + TAIL, 1, X, np.zeros(4, np.int32), 3)[1], X)
    store = """
  %i = arith.index_cast %n : i32 to index
  scf.index_switch %i
  case 2 {
    tt.store %a, %ten : tensor<4x!tt.ptr<i32>>
    scf.yield
  }
  default {
    scf.yield
  }
  %z = arith.addi %v, %v : tensor<4xi32>"""
    for n in (2, 3):
        p, x, _ = agree(HEAD + store + TAIL, 1, X, np.zeros(4, np.int32), n)
        np.testing.assert_array_equal(p, np.full(4, 10) if n == 2 else X)
        np.testing.assert_array_equal(x, X + X)
    alone = """
  %i = arith.index_cast %n : i32 to index
  %z = scf.index_switch %i -> tensor<4xi32>
  default {
    %w = arith.addi %v, %v : tensor<4xi32>
    scf.yield %w : tensor<4xi32>
  }"""
    np.testing.assert_array_equal(agree(HEAD + alone + TAIL, 1, X, np.zeros(4, np.int32), 3)[1], X + X)
    for_flow = HEAD + "\n  cf.switch %n : i32, [\n    default: ^out(%v : tensor<4xi32>)\n  ]\n^out(%z: tensor<4xi32>):" + TAIL
    np.testing.assert_array_equal(agree(for_flow, 1, X, np.zeros(4, np.int32), 3)[1], X)


def test_loops_over_index(agree) -> None:
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i = arith.index_cast %n : i32 to index
  %z = scf.for %k = %c0 to %i step %c1 iter_args(%acc = %v) -> (tensor<4xi32>) {
    %j = arith.index_cast %k : index to i32
    %block = tt.splat %j : i32 -> tensor<4xi32>
    %q = arith.addi %acc, %block : tensor<4xi32>
    scf.yield %q : tensor<4xi32>
  }"""
    for n in (0, 5, -3):
        np.testing.assert_array_equal(agree(HEAD + body + TAIL, 1, X, np.zeros(4, np.int32), n)[1], X + sum(range(n)))


def test_a_branch_on_an_undefined_number_is_reported() -> None:
    for body in (SWITCH.replace("%n :", "%bad :"), INDEX_SWITCH.replace("%n :", "%bad :")):
        kernel = jn.kernel.from_ttir(HEAD + "  %bad = ub.poison : i32\n" + body + TAIL)
        (finding,) = kernel.sanitize(1, X.copy(), np.zeros(4, np.int32), 0).findings
        assert finding.kind == "uninitialised", finding


def test_wrong_switches_are_refused() -> None:
    with pytest.raises(UserError, match=r"cf.switch: number 0 of the values passed to block 1 of the branch is i32, expected"):
        jn.kernel.from_ttir(HEAD + SWITCH.replace("1: ^out(%ten : tensor<4xi32>)", "1: ^out(%n : i32)") + TAIL)
    with pytest.raises(UserError, match="duplicate case value"):
        jn.kernel.from_ttir(HEAD + INDEX_SWITCH.replace("case -7", "case 1") + TAIL)


INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


def elementwise(operation: str, x: str, y: str, results: tuple[str, ...], n: int = 256) -> str:
    def pointers(elem: str) -> str:
        return f"tensor<{n}x!tt.ptr<{elem}>>"

    names = dict(zip(("x", "y", "o", "h"), (x, y, *results), strict=False))
    lines = [f"%r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>"]
    for name, elem in names.items():
        lines.append(f"%b{name} = tt.splat %{name} : !tt.ptr<{elem}> -> {pointers(elem)}")
        lines.append(f"%p{name} = tt.addptr %b{name}, %r : {pointers(elem)}, tensor<{n}xi32>")
        if name in "xy":
            lines.append(f"%v{name} = tt.load %p{name} : {pointers(elem)}")
    lines.append(operation)
    lines += [f"tt.store %p{name}, %v{name} : {pointers(names[name])}" for name in names if name in "oh"]
    parameters = ", ".join(f"%{name}: !tt.ptr<{elem}>" for name, elem in names.items())
    return f"tt.func public @k({parameters}) {{\n" + "\n".join(lines) + "\ntt.return\n}"


def integers(dtype: type, seed: int, n: int = 256) -> np.ndarray:
    info = np.iinfo(dtype)
    edges = [0, 1, -1, 2, -2, info.max, info.min, info.max - 1]
    values = np.random.default_rng(seed).integers(info.min, info.max, n, dtype, endpoint=True)
    values[: len(edges) ** 2] = np.repeat(edges, len(edges)) if seed else np.tile(edges, len(edges))
    return values


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signed", [False, True])
def test_both_halves_of_a_product(agree, elem: str, signed: bool) -> None:
    dtype, block = INTEGERS[elem], f"tensor<256x{elem}>"
    x, y = integers(dtype, 0), integers(dtype, 1)
    text = elementwise(f"%vo, %vh = arith.mul{'su'[not signed]}i_extended %vx, %vy : {block}", elem, elem, (elem, elem))
    low, high = agree(text, 1, x, y, np.zeros_like(x), np.zeros_like(x))[2:]
    width = 8 * x.itemsize
    views = (x, y) if signed else (x.view(f"u{x.itemsize}"), y.view(f"u{x.itemsize}"))
    exact = [int(a) * int(b) for a, b in zip(*views, strict=True)]
    assert [int(a) % (1 << width) for a in low] == [value % (1 << width) for value in exact]
    assert [int(a) % (1 << width) for a in high] == [(value >> width) % (1 << width) for value in exact]


@pytest.mark.parametrize("elem", INTEGERS)
def test_sums_with_their_carry(agree, elem: str) -> None:
    dtype, block = INTEGERS[elem], f"tensor<256x{elem}>"
    x, y = integers(dtype, 0), integers(dtype, 1)
    text = elementwise(f"%vo, %vh = arith.addui_extended %vx, %vy : {block}, tensor<256xi1>", elem, elem, (elem, "i1"))
    total, carry = agree(text, 1, x, y, np.zeros_like(x), np.zeros(256, np.bool_))[2:]
    unsigned = f"u{x.itemsize}"
    exact = [int(a) + int(b) for a, b in zip(x.view(unsigned), y.view(unsigned), strict=True)]
    assert [int(a) for a in total.view(unsigned)] == [value % (1 << 8 * x.itemsize) for value in exact]
    assert carry.tolist() == [bool(value >> 8 * x.itemsize) for value in exact]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("elem", INTEGERS)
def test_integer_powers(agree, elem: str) -> None:
    dtype, block = INTEGERS[elem], f"tensor<256x{elem}>"
    x, n = integers(dtype, 0), integers(dtype, 1)
    n[100:] = np.arange(156) % 40 - 5
    text = elementwise(f"%vo = math.ipowi %vx, %vy : {block}", elem, elem, (elem,))
    found = agree(text, 1, x, n, np.zeros_like(x))[2]
    modulus = 1 << 8 * x.itemsize
    for base, exponent, value in zip(x.tolist(), n.tolist(), found.tolist(), strict=True):
        reciprocal = base ** (exponent % 2) if abs(base) == 1 else 0
        expected = pow(base, exponent, modulus) if exponent >= 0 else reciprocal
        assert value % modulus == expected % modulus, (base, exponent)


@pytest.mark.parametrize("exponent", ["i32", "i64"])
@pytest.mark.parametrize("elem", ["f16", "f32", "f64"])
def test_float_powers(elem: str, exponent: str) -> None:
    dtype = np.dtype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[elem])
    rng = np.random.default_rng(0)
    x = np.concatenate([[0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -2.0], rng.normal(size=248)]).astype(dtype)
    n = np.concatenate([np.tile([3, -3, 0, 2], 2), rng.integers(-9, 10, 248)]).astype(INTEGERS[exponent])
    if exponent == "i64":
        n[8:16], x[8:12] = 2**60 + 1, -1  # odd, which no float64 of that size is
    text = elementwise(f"%vo = math.fpowi %vx, %vy : tensor<256x{elem}>, tensor<256x{exponent}>", elem, exponent, (elem,))
    kernel = jn.kernel.from_ttir(text)
    with np.errstate(all="ignore"):
        size = np.float_power(np.abs(x.astype(np.float64)), n.astype(np.float64))
        expected = np.where(np.signbit(x) & (n % 2 != 0), -size, size).astype(dtype)
    for run in (kernel.launch, kernel.interpret):
        found = np.zeros_like(x)
        run(1, x, n, found)
        np.testing.assert_array_max_ulp(found[~np.isnan(expected)], expected[~np.isnan(expected)], 4)
        assert (np.isnan(found) == np.isnan(expected)).all()
        assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
