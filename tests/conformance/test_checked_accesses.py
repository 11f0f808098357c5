"""Native code that compares accesses with its arrays computes what it computes otherwise, and stops where the interpreter does.

The interpreter looks at every element of every access: it knows nothing of the ends that the host's code computes for blocks.
"""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tt.interpret.memory import AccessError

from ..support.corpus import CASES, WITH_DATA, Case, read, run
from ..support.tiers import both_tiers, halved, share


def some(number: int, of: int) -> list[Any]:
    """The cases, all but every n-th of them slow."""
    return [pytest.param(name, marks=() if i % of == number else pytest.mark.slow) for i, name in enumerate(CASES)]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", some(0, 6))
def test_what_is_right_is_let_through(name: str) -> None:
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, check_bounds=True))


def shortened(name: str) -> list[tuple[int, int]]:
    """The (argument, elements left out at its end) that a case is tried with."""
    return [
        (position, short)
        for position, argument in enumerate(Case(name).arguments()[0])
        if isinstance(argument, np.ndarray) and argument.size
        for short in sorted({1, min(7, argument.size), argument.size // 2 or 1})
    ]


def leaves(run: Any, case: Case, position: int, short: int, **options: Any) -> bool:
    """Whether a launch leaves an argument that lacks its last elements."""
    arguments, _ = case.arguments()
    arguments[position] = arguments[position][: arguments[position].size - short].copy()
    try:
        run(case.facts["grid"], *arguments, **options)
    except AccessError:
        return True
    return False


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", halved(WITH_DATA))
@both_tiers
def test_arrays_that_are_too_short_are_noticed(name: str, in_full: bool) -> None:
    case, kernel = Case(name), read(name)
    for position, short in share(shortened(name), WITH_DATA.index(name), 12, in_full):
        found = leaves(kernel.launch, case, position, short, check_bounds=True)
        assert found == leaves(kernel.interpret, case, position, short), f"argument {position}, {short} short"


FOLLOWED = """module { tt.func public @f(%t: !tt.ptr<i64>, %s: !tt.ptr<i32>, %o: !tt.ptr<f32>) {
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %ts = tt.splat %t : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>
  %tp = tt.addptr %ts, %r : tensor<64x!tt.ptr<i64>>, tensor<64xi32>
  %a = tt.load %tp : tensor<64x!tt.ptr<i64>>
  %p = tt.int_to_ptr %a : tensor<64xi64> -> tensor<64x!tt.ptr<f32>>
  %ss = tt.splat %s : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %sp = tt.addptr %ss, %r : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  %d = tt.load %sp : tensor<64x!tt.ptr<i32>>
  %most = arith.constant dense<1000> : tensor<64xi32>
  %m = arith.cmpi slt, %d, %most : tensor<64xi32>
  %q = tt.addptr %p, %d : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %none = arith.constant dense<-1.0> : tensor<64xf32>
  %v = tt.load %q, %m, %none : tensor<64x!tt.ptr<f32>>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %op = tt.addptr %os, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %op, %v : tensor<64x!tt.ptr<f32>>
  tt.return } }"""


@pytest.mark.parametrize("count", [1, 2, 3, 17, 64])
def test_addresses_that_are_loaded_lead_to_arrays(count: int) -> None:
    """Each lane follows an address of its own, in any order; masked lanes may lead anywhere."""
    kernel, rng = jn.kernel.from_ttir(FOLLOWED), np.random.default_rng(count)
    arrays = [rng.standard_normal(1 + 3 * number).astype(np.float32) for number in range(count)]
    chosen = rng.permutation(np.arange(64) % count)
    steps = np.array([rng.integers(0, len(arrays[number])) for number in chosen], np.int32)
    steps[rng.integers(0, 64, 8)] = 1 << 30
    expected = [-1.0 if step == 1 << 30 else arrays[number][step] for number, step in zip(chosen, steps, strict=True)]
    o = np.zeros(64, np.float32)
    kernel.launch(1, jn.PointerTable([arrays[number] for number in chosen]), steps, o, check_bounds=True)
    np.testing.assert_array_equal(o, np.array(expected, np.float32))
    for lane, off in ((int(rng.integers(64)), 0), (63, -1), (0, -1)):
        wrong = steps.copy()
        wrong[lane] = len(arrays[chosen[lane]]) if off == 0 else off
        spare = np.concatenate([np.zeros(1, np.float32), *[np.append(each, np.zeros(1, np.float32)) for each in arrays]])
        apart, at = [], 1  # in one memory, one element apart, so that none touches the next
        for each in arrays:
            apart.append(spare[at : at + len(each)])
            at += len(each) + 1
        with pytest.raises(AccessError, match=rf"lies in no array, by element \({lane},\)"):
            kernel.launch(1, jn.PointerTable([apart[number] for number in chosen]), wrong, o, check_bounds=True)
