"""What is said of numbers that wrap: products of bounded sizes, against all small launches, and what is looked at."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.found import joined

from ...support.tiers import both_tiers

_TILE = """
  %c16 = arith.constant 16 : i32
  %program = tt.get_program_id x : i32
  %first = arith.muli %program, %c16 : i32
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %firsts = tt.splat %first : i32 -> tensor<16xi32>
  %rm = arith.addi %firsts, %lanes : tensor<16xi32>
  %ldcs = tt.splat %ldc : i32 -> tensor<16xi32>
  %rows = arith.muli %rm, %ldcs : tensor<16xi32>
  %at = arith.addi %rows, %lanes : tensor<16xi32>
  %ms = tt.splat %M : i32 -> tensor<16xi32>
  %inside = arith.cmpi slt, %rm, %ms : tensor<16xi32>
  %cs = tt.splat %C : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %p = tt.addptr %cs, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  tt.store %p, %lanes, %inside : tensor<16x!tt.ptr<i32>>"""




def kernel(parameters: str, body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n")


def _tile(*assume: str, extent: str = "M * ldc") -> Any:
    made = kernel("%C: !tt.ptr<i32>, %M: i32, %ldc: i32", _TILE)
    return made.prove(assume, {"C": extent}, "cdiv(M, 16)", ("overflow",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "holds"), [(3000, True), (30_000, True), (46_332, True), (46_341, False), (100_000, False), (2**30, False)]
)
def test_a_product_of_two_bounded_sizes_wraps_where_its_bounds_let_it(most: int, holds: bool) -> None:
    """The last row that a program computes is the 16th of its tile, masked or not."""
    last = -(-most // 16) * 16 - 1
    assert (last * most + 15 < 2**31) == holds
    proof = _tile(f"1 <= M <= {most}", f"1 <= ldc <= {most}")
    assert (proof.verdict("overflow") == "proven") == holds, proof
    assert proof.verdict("overflow") in ("proven", "proven under")


@pytest.mark.slow
def test_bounds_of_one_size_by_another_are_followed() -> None:
    assert _tile("1 <= M <= 3000", "1 <= ldc <= M").ok
    assert _tile("1 <= M < 2 * ldc", "1 <= ldc <= 3000").ok
    assert not _tile("1 <= M", "1 <= ldc <= M").ok
    assert not _tile("1 <= M", "M <= 3000 or ldc <= 3000", "1 <= ldc").ok


@pytest.mark.slow
def test_negative_bounds_count_as_well() -> None:
    assert _tile("0 <= M <= 3000", "-3000 <= ldc <= 3000", extent="4096").ok
    assert not _tile("0 <= M <= 3000", "-1000000 <= ldc <= 3000", extent="4096").ok
    assert _tile("0 <= M <= 3000", "-1000000 <= ldc <= 3000").ok  # no array has M * ldc elements for a negative ldc


@pytest.mark.slow
def test_products_are_proven_under_small_sizes_where_nothing_bounds_them() -> None:
    """The condition that is reported is one under which launches do not wrap, and no bound of a size stands there twice."""
    (verdict,) = _tile("1 <= M", "1 <= ldc").accesses
    assert verdict.verdict == "proven under"
    bounds = {name: eval(most) for name, _, most in [each.partition(" <= ") for each in verdict.condition]}
    assert len(bounds) == len(verdict.condition)
    rows = ldc = 1
    for each in range(31):  # the largest of both that the condition allows
        for rows, ldc in ((1 << each, 1 << 15), (1 << 15, 1 << each), (1 << each, (1 << 31 - each) - 1)):
            if all(most >= {"M": rows, "ldc": ldc, "M * ldc": rows * ldc}.get(name, 0) for name, most in bounds.items()):
                assert (-(-rows // 16) * 16 - 1) * ldc + 15 < 2**31, (rows, ldc, bounds)


@pytest.mark.slow
def test_conditions_are_weakened_one_by_one_where_a_weaker_number_does() -> None:
    """Both were bounded by 2**24, as the weakest number that does for all sizes together; it proves less with 2**31 - 2**16."""
    (verdict,) = _tile("1 <= M", "1 <= ldc").accesses
    assert set(verdict.condition) == {"ldc <= 2**24", "M * ldc <= 2**30"}
    assert _tile("1 <= M", "1 <= ldc <= 2**24", "M * ldc <= 2**30").ok
    assert not _tile("1 <= M", "1 <= ldc <= 2**24", "M * ldc <= 2**31 - 2**16").ok


def test_of_conditions_on_one_size_the_strongest_stands_alone() -> None:
    long = ("H * W <= 2**31 - 1", "n <= 2**24", "H*W <= 2**30")
    short = ("n <= 2**15", "n >= 3", "W <= n", "H + W <= 2**24")
    assert joined(long) == ("n <= 2**24", "H*W <= 2**30")
    assert joined(long, short) == ("H*W <= 2**30", *short)
    assert joined(short, short) == short
    assert joined() == joined(()) == ()


# Random sums and products of 8 bits, against all sizes

_OPERATIONS = ("addi", "subi", "muli", "muli", "minsi", "maxsi", "shli", "lane shift")


def _random_case(
    rng: random.Random, width: int = 8
) -> tuple[str, list[tuple[str, int, int]], tuple[tuple[int, int], tuple[int, int]]]:
    """A kernel whose address is made of sizes n and m, the program and the lane, the operations, and ranges of n and m."""
    lines, steps = [], []
    for number in range(rng.randint(1, 4)):
        name = rng.choice(_OPERATIONS)
        x, y = rng.randrange(4 + number), rng.randrange(4 + number)
        operand, operation = f"%v{y}", name
        if name == "shli":
            y = rng.randrange(4)
            operand = f"%k{y}"
        if name == "lane shift":
            y, operand, operation = 3, "%v3", "shli"
        lines.append(f"  %v{4 + number} = arith.{operation} %v{x}, {operand} : tensor<4xi8>")
        steps.append((name, x, y))
    ranges = [(low, min(127, low + rng.randrange(0, 24))) for low in (rng.randint(-6, 8), rng.randint(-1, 3))]
    last = 3 + len(steps)
    text = "\n".join(f"  %k{each} = arith.constant dense<{each}> : tensor<4xi8>" for each in range(4))
    text += f"""
  %v0 = tt.splat %n : i8 -> tensor<4xi8>
  %v1 = tt.splat %m : i8 -> tensor<4xi8>
  %p = tt.get_program_id x : i32
  %ps = tt.splat %p : i32 -> tensor<4xi32>
  %v2 = arith.trunci %ps : tensor<4xi32> to tensor<4xi8>
  %lanes = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
  %v3 = arith.trunci %lanes : tensor<4xi32> to tensor<4xi8>
{chr(10).join(lines)}
  %xs = tt.splat %x : !tt.ptr<i8> -> tensor<4x!tt.ptr<i8>>
  %a = tt.addptr %xs, %v{last} : tensor<4x!tt.ptr<i8>>, tensor<4xi8>
  tt.store %a, %v{last} : tensor<4x!tt.ptr<i8>>"""
    if width == 32:
        text = text.replace("i8", "i32").replace("arith.trunci %ps : tensor<4xi32> to", "arith.addi %ps, %k0 :")
        text = text.replace("arith.trunci %lanes : tensor<4xi32> to", "arith.addi %lanes, %k0 :")
    return text, steps, (ranges[0], ranges[1])


def _wraps(steps: Sequence[tuple[str, int, int]], last: int, values: Sequence[int], half: int = 128) -> bool:
    """Whether an operation that the address is computed from has another result than its exact one."""
    needed, waiting = set(), [last]
    while waiting:
        at = waiting.pop()
        if at >= 4 and at not in needed:
            needed.add(at)
            name, x, y = steps[at - 4]
            waiting += [x] if name == "shli" else [x, y]
    found = list(values)
    wrapped = False
    for number, (name, x, y) in enumerate(steps):
        one, two = found[x], y if name == "shli" else found[y]
        exact = {
            "addi": one + two, "subi": one - two, "muli": one * two, "minsi": min(one, two), "maxsi": max(one, two),
        }.get(name, one << (two if "sh" in name else 0))  # fmt: skip
        wrapped |= 4 + number in needed and not -half <= exact < half
        found.append((exact + half & 2 * half - 1) - half)
    return wrapped


@pytest.mark.slow
@both_tiers
def test_what_is_proven_of_random_numbers_wraps_in_no_launch(in_full: bool) -> None:
    proven = fitting = refuted = 0
    for seed in range(600 if in_full else 25):
        rng = random.Random(seed)
        text, steps, (n, m) = _random_case(rng)
        grid = rng.randint(1, 6)
        made = kernel("%x: !tt.ptr<i8>, %n: i8, %m: i8", text)
        proof = made.prove([f"{n[0]} <= n <= {n[1]}", f"{m[0]} <= m <= {m[1]}"], {"x": 128}, grid, ("overflow",))
        every = itertools.product(range(n[0], n[1] + 1), range(m[0], m[1] + 1), range(grid), range(4))
        wraps = any(_wraps(steps, 3 + len(steps), values) for values in every)
        assert not (wraps and proof.ok), f"kernel {seed}:\n{text}\n{proof}"
        verdict = proof.verdict("overflow")
        assert not wraps or verdict in ("refuted", "unknown"), f"kernel {seed}: its sizes are below all conditions"
        if verdict == "refuted":
            assert _is_wrap(proof.accesses[0].counterexample, steps), f"kernel {seed}:\n{text}\n{proof}"
        proven, fitting, refuted = proven + proof.ok, fitting + (not wraps), refuted + (verdict == "refuted")
    assert proven >= 0.8 * fitting > 0, (proven, fitting)
    assert refuted >= 0.8 * ((600 if in_full else 25) - fitting) > 0, (refuted, fitting)


def _is_wrap(example: Any, steps: Sequence[tuple[str, int, int]], half: int = 128) -> bool:
    """Whether a number wraps in the program and lane of an example, of the sizes that it has."""
    sizes, finding = dict(example.sizes), example.finding
    x, y, z = finding.program
    assert (y, z) == (0, 0)
    assert 0 <= x < example.grid[0]
    assert finding.kind == "overflow"
    return _wraps(steps, 3 + len(steps), (sizes["n"], sizes["m"], x, finding.lane[0]), half)


@pytest.mark.slow
@both_tiers
def test_what_is_proven_under_conditions_wraps_in_no_launch_that_has_them(in_full: bool) -> None:
    """Numbers of 32 bits without upper bounds: sizes are drawn at the ends of the conditions, and anywhere below."""
    tried = shown = unbounded = 0
    for seed in range(1000, 1400 if in_full else 1012):
        rng = random.Random(seed)
        text, steps, _ = _random_case(rng, 32)
        made = kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32", text)
        (verdict,) = made.prove(["n >= 0", "m >= -2"], {"x": "k"}, "g", ("overflow",)).accesses
        if verdict.counterexample is not None:
            shown += 1
            assert _is_wrap(verdict.counterexample, steps, 1 << 31), f"kernel {seed}\n{made.ttir}\n{verdict}"
        if verdict.verdict not in ("proven", "proven under"):
            continue
        unbounded += verdict.verdict == "proven under"
        most = {"n": 2**31 - 1, "m": 2**31 - 1, "g": 2**31 - 1, "k": 2**60}
        for condition in verdict.condition:
            name, _, text = condition.partition(" <= ")
            most[name] = min(most[name], eval(text))
        for _ in range(60):
            n, m = [max(-2 * (name == "m"), rng.choice((most[name], rng.randint(0, most[name])))) for name in "nm"]
            m = rng.choice((m, m, m, -2, -1))
            program = most["g"] - 1 if rng.random() < 0.6 else rng.randrange(most["g"])
            values = n, m, program, rng.randrange(4)
            assert not _wraps(steps, 3 + len(steps), values, 1 << 31), f"kernel {seed}: {values}\n{made.ttir}\n{verdict}"
            tried += bool(verdict.condition)
    assert tried >= 100
    assert shown >= 0.7 * unbounded > 0, (shown, unbounded)


# Which operations an address is computed from

_LOOP = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %cols = tt.expand_dims %lanes {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
  %rows = tt.expand_dims %lanes {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %c16s = arith.constant dense<16> : tensor<16x1xi32>
  %scaled = arith.muli %rows, %c16s : tensor<16x1xi32>
  %i = tt.broadcast %scaled : tensor<16x1xi32> -> tensor<16x16xi32>
  %j = tt.broadcast %cols : tensor<1x16xi32> -> tensor<16x16xi32>
  %ij = arith.addi %i, %j : tensor<16x16xi32>
  %step = arith.constant dense<256> : tensor<16x16xi32>
  %as = tt.splat %a : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %start = tt.addptr %as, %ij : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
  %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero, %at = %start) -> (tensor<16x16xf32>, tensor<16x16x!tt.ptr<f32>>) : i32 {
    %v = tt.load %at : tensor<16x16x!tt.ptr<f32>>
    %sum = tt.dot %v, %v, %acc : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
    %next = tt.addptr %at, %step : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    scf.yield %sum, %next : tensor<16x16xf32>, tensor<16x16x!tt.ptr<f32>>
  }
  %cs = tt.splat %c : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %p = tt.addptr %cs, %ij : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
  tt.store %p, %r#0 : tensor<16x16x!tt.ptr<f32>>"""  # noqa: E501


def test_a_product_that_a_loop_carries_beside_an_address_has_no_part_in_it() -> None:
    """`tt.dot` was said to be in the way of loads, as it is yielded by the loop that yields their addresses."""
    made = kernel("%a: !tt.ptr<f32>, %c: !tt.ptr<f32>, %n: i32", _LOOP)
    proof = made.prove(["0 <= n <= 1000000"], {"a": "256 * n", "c": 256}, 1, ("overflow",))
    assert proof.ok, proof


_SWAPPED = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.{head} {{
    %w = {made}
    scf.yield {yielded} : i32, i32
  }}{tail}
  %p = tt.addptr %x, %r#{which} : !tt.ptr<i32>, i32
  %m = arith.cmpi eq, %n, %c0 : i32
  tt.store %p, %c1, %m : !tt.ptr<i32>"""
_FOR = "for %k = %c0 to %c1 step %c1 iter_args(%u = %c0, %v = %c0) -> (i32, i32) : i32"
_IF = "if %b -> (i32, i32)"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("yielded", ["%w, %c0", "%c0, %w"])
def test_what_a_loop_or_a_branch_passes_is_followed_at_its_own_place(yielded: str, which: int) -> None:
    """The sum that wraps is passed as one result; the address is made of that one, or of the other."""
    wraps = yielded.split(", ")[which] == "%w"
    loop = _SWAPPED.format(head=_FOR, made="arith.addi %n, %c1 : i32", yielded=yielded, which=which, tail="")
    branch = _SWAPPED.format(
        head=_IF, made="arith.addi %n, %c1 : i32", yielded=yielded, which=which,
        tail=" else {\n    scf.yield %c0, %c0 : i32, i32\n  }",
    )  # fmt: skip
    for text, more in ((loop, ""), (branch, ", %b: i1")):
        proof = kernel(f"%x: !tt.ptr<i32>, %n: i32{more}", text).prove((), {"x": 1}, 1, ("overflow",))
        assert proof.ok != wraps, (text, str(proof))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("which", [0, 1])
def test_what_a_loop_with_a_condition_swaps_is_followed_through_both_regions(which: int) -> None:
    """The number that may wrap comes to either result, as the loop swaps the two; the third is of nothing but itself."""
    text = f"""
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:3 = scf.while (%u = %c0, %v = %n, %s = %c0) : (i32, i32, i32) -> (i32, i32, i32) {{
    %more = arith.cmpi slt, %s, %c1 : i32
    scf.condition(%more) %u, %v, %s : i32, i32, i32
  }} do {{
  ^bb0(%a: i32, %b: i32, %t: i32):
    %w = arith.addi %a, %n : i32
    %next = arith.constant 1 : i32
    scf.yield %b, %w, %next : i32, i32, i32
  }}
  %p = tt.addptr %x, %r#{which} : !tt.ptr<i32>, i32
  tt.store %p, %c1 : !tt.ptr<i32>"""
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", text).prove(["n >= 1"], {"x": 1}, 1, ("overflow",))
    assert proof.verdict("overflow") in ("unknown", "proven under"), proof
    text = text.replace(f"%r#{which}", "%r#2")
    proof = kernel("%x: !tt.ptr<i32>, %n: i32", text).prove(["n >= 1"], {"x": 1}, 1, ("overflow",))
    assert proof.ok, proof


def test_the_reason_is_what_no_condition_on_sizes_takes_away() -> None:
    """A sum of sizes fits under a condition; what is not modelled stays, and is the reason."""
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %f: f32", """
  %c1 = arith.constant 1 : i32
  %s = arith.addi %n, %n : i32
  %g = arith.fptosi %f : f32 to i32
  %m = arith.cmpi slt, %s, %g : i32
  tt.store %x, %c1, %m : !tt.ptr<i32>""")
    (verdict,) = made.prove(["n >= 1"], {"x": 1}, 1, ("overflow",)).accesses
    assert verdict.verdict == "unknown"
    assert "arith.fptosi" in verdict.reason
    assert "arith.addi" not in verdict.reason


def test_the_reason_says_up_to_which_sizes_it_was_tried() -> None:
    made = kernel("%x: !tt.ptr<i32>, %n: i32, %m: i32, %k: i32", """
  %c0 = arith.constant 0 : i32
  %nm = arith.muli %n, %m : i32
  %nmk = arith.muli %nm, %k : i32
  %is = arith.cmpi slt, %nmk, %c0 : i32
  tt.store %x, %c0, %is : !tt.ptr<i32>""")
    sizes = ["n >= 1", "m >= 1", "k >= 1"]
    (verdict,) = made.prove(sizes, {"x": 1}, 1, ("overflow",)).accesses
    assert (verdict.verdict, verdict.reason) == ("refuted", "")
    made = jn.kernel.from_ttir(made.ttir.replace("%x:", "%t: !tt.ptr<i32>, %x:"))
    (verdict,) = made.prove([*sizes, "distinct(t[:])"], {"x": 1}, 1, ("overflow",)).accesses  # no launch is made of such
    assert verdict.verdict == "unknown"
    assert "in 32 bits" in verdict.reason
    assert verdict.reason.endswith("also where sizes are at most 2**15")
