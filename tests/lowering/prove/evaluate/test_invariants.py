"""Bounds of what loops carry, by induction: kernels that rest on them against the sanitizer, and rules that are made wrong."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.evaluate import invariants
from joinery.lowering.prove.specify.expressions import evaluate, parse_size

from ....support.proving import consistency, differential, witness
from ....support.proving.makers.searching_kernels import searching_kernel

PROVED = ("proven", "proven under")
_SEARCH = """
    %s = arith.addi %l, %h : i32
    %m = arith.divsi %s, %c2 : i32
    %at = tt.addptr %x, %m : !tt.ptr<i32>, i32
    %v = tt.load %at : !tt.ptr<i32>
    %up = arith.cmpi slt, %v, %p : i32
    %m1 = arith.addi %m, %c1 : i32
    %l2 = arith.select %up, %m1, %l : i32
    %h2 = arith.select %up, %h, %m : i32"""
_LEFT = """
  %to = tt.addptr %x, %r#0 : !tt.ptr<i32>, i32
  %w = tt.load %to : !tt.ptr<i32>"""
_FOR = "%r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%l = %c0, %h = %n) -> (i32, i32) : i32 {"


class Carrying(NamedTuple):
    """The loop of a kernel, the elements of its array, and whether these are enough."""

    body: str
    extent: str
    is_right: bool
    assume: tuple[str, ...] = ("n >= 1",)


def _while(condition: str, upper: str = "%h2 = arith.select %up, %h, %m") -> str:
    search = _SEARCH.replace("%h2 = arith.select %up, %h, %m", upper)
    return f"""
  %r:2 = scf.while (%l = %c0, %h = %n) : (i32, i32) -> (i32, i32) {{
    %is = arith.cmpi {condition}, %l, %h : i32
    scf.condition(%is) %l, %h : i32, i32
  }} do {{
  ^bb0(%l: i32, %h: i32):{search}
    scf.yield %l2, %h2 : i32, i32
  }}"""


_BEFORE = "%before = arith.subi %m, %c1 : i32\n    %h2 = arith.select %up, %h, %before"
_GUARDED = f"""
  {_FOR}
    %is = arith.cmpi slt, %l, %h : i32
    %g:2 = scf.if %is -> (i32, i32) {{{_SEARCH}
      scf.yield %l2, %h2 : i32, i32
    }} else {{
      scf.yield %l, %h : i32, i32
    }}
    scf.yield %g#0, %g#1 : i32, i32
  }}"""
_OPEN = f"""
  {_FOR}{_SEARCH}
    scf.yield %l2, %h2 : i32, i32
  }}{_LEFT}"""
_INDEX = """
    %at = tt.addptr %x, %l : !tt.ptr<i32>, i32
    %v = tt.load %at : !tt.ptr<i32>
    %up = arith.cmpi slt, %v, %p : i32"""


def _walk(following: str, start: str = "%c0") -> str:
    return f"""
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%l = {start}) -> (i32) : i32 {{{_INDEX}{following}
    scf.yield %l2 : i32
  }}"""


_STEP = "\n    %l1 = arith.addi %l, %c1 : i32"
_RING = f"{_STEP}\n    %l2 = arith.remsi %l1, %c8 : i32"
_BITS = f"{_STEP}\n    %masked = arith.xori %l1, %v : i32\n    %l2 = arith.andi %masked, %c7 : i32"
_CLAMPED = f"{_STEP}\n    %least = arith.minsi %l1, %c8 : i32\n    %l2 = arith.select %up, %least, %c0 : i32"
_LAST = "%r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%l = %p, %h = %c0) -> (i32, i32) : i32 {"
_EXCHANGED = f"  {_LAST}{_INDEX}\n    scf.yield %h, %l : i32, i32\n  }}"
_KEPT = f"  {_LAST}{_INDEX}\n    scf.yield %p, %v : i32, i32\n  }}"

CASES = {
    "a search that stops": Carrying(_GUARDED, "n", True),
    "a search that stops, and what is left": Carrying(_GUARDED + _LEFT, "n + 1", True),
    "what is left may be the end": Carrying(_GUARDED + _LEFT, "n", False),
    "a search that goes on": Carrying(_OPEN, "n + 2", True),
    "one that goes on leaves one more than the end": Carrying(_OPEN, "n + 1", False),
    "a search with a condition": Carrying(_while("slt"), "n", True),
    "a search with a condition, below 0": Carrying(_while("slt"), "n", True, ("n >= -3",)),
    "a condition that goes on at the end": Carrying(_while("sle", _BEFORE), "n", False),
    "a ring": Carrying(_walk(_RING), "8", True),
    "a ring of less": Carrying(_walk(_RING), "7", False, ("n >= 8",)),
    "bits of anything": Carrying(_walk(_BITS), "8", True),
    "bits of anything, of less": Carrying(_walk(_BITS), "7", False, ("n >= 8",)),
    "a limit": Carrying(_walk(_CLAMPED), "9", True),
    "a limit of less": Carrying(_walk(_CLAMPED), "1", False, ("n >= 3",)),
    "a start that is beyond the limit": Carrying(_walk(_CLAMPED, "%n"), "9", False),
    "two that are exchanged": Carrying(_EXCHANGED, "max(n, 2)", True),
    "two that are exchanged, and less": Carrying(_EXCHANGED, "1", False),
    "what it starts with, again and again": Carrying(_KEPT, "2", True),
    "what it starts with, of less": Carrying(_KEPT, "1", False),
}  # fmt: skip
"""Each has a grid of 2."""
QUICK = ("a search with a condition", "a ring", "a ring of less", "a limit", "two that are exchanged", "bits of anything")
"""Cases of the fast tier."""


def kernel(case: Carrying) -> jn.kernel.Kernel:
    numbers = "\n".join([f"  %c{n} = arith.constant {n} : i32" for n in (0, 1, 2, 7, 8)])
    head = f"tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {{\n{numbers}\n  %p = tt.get_program_id x : i32\n"
    return jn.kernel.from_ttir(f"{head}{case.body}\n  tt.return\n}}\n")


def verdict(case: Carrying) -> str:
    return str(kernel(case).prove(case.assume, {"x": case.extent}, 2, ("bounds",)).verdict("bounds"))


def is_outside(case: Carrying) -> bool:
    """Whether a launch with small sizes leaves the array: of numbers that send it here, there, and anywhere."""
    own, found = kernel(case), False
    for n in range(-4 if case.assume[0] == "n >= -3" else 1, 12):
        count = evaluate(parse_size(case.extent, "extent"), {"n": n})
        if count < 0 or n < int(case.assume[0].split()[-1]):
            continue
        drawn = np.random.default_rng(n).integers(-3, 9, (3, count), "i4")
        for array in (np.full(count, -9, "i4"), np.full(count, 9, "i4"), *drawn):
            found |= any(each.kind == "out-of-bounds" for each in own.sanitize(2, array.copy(), n).findings)
    return found


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES])
def test_bounds_are_proven_where_launches_stay_inside(name: str) -> None:
    case = CASES[name]
    assert (verdict(case) in PROVED) is case.is_right
    assert is_outside(case) is not case.is_right


def test_a_step_of_the_induction_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried is taken for shown."""
    monkeypatch.setattr(invariants, "_holds", lambda ev, claim: True)
    for name in ("a ring of less", "two that are exchanged, and less", "a limit of less"):
        assert verdict(CASES[name]) in PROVED


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_what_is_proven_of_random_kernels_holds(first: int) -> None:
    """`python -m tests.support.proving.differential searching SEED COUNT LAUNCHES` tries others."""
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + (3 if not first else 80)):
        found += differential.check(seed, 6, kind="searching", properties=("bounds", "races"))
    assert sum(count for (_, each), count in found.items() if each in differential.PROVED) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_terms_allow_what_random_kernels_carry(first: int) -> None:
    for seed in range(first, first + (2 if not first else 60)):
        rng = random.Random(seed)
        subject = searching_kernel(rng)
        assert witness.check(subject, rng, 2, 15, f"searching {seed}")["sat"]
        assert consistency.check(subject.text, subject.assume, subject.extents, subject.grid, rng) == ""
