"""Equations of offsets are split axis by axis: what follows is true, and elements of rows of rows are shown to be apart."""

from __future__ import annotations

from itertools import product
from random import Random
from types import SimpleNamespace
from typing import cast

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.races import axes
from joinery.lowering.prove.races.axes import _parts
from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import at_least, equal, holds, less
from joinery.lowering.prove.terms.solver import DEFAULT_LIMIT, Budget, Solver
from joinery.lowering.prove.world import World

from ....support.proving.launches import PROVED

KERNEL = """
__global__ void copied(float *a, float *c, int Bt, int M, int N) {
  int b = get_program_id(2);
  int i[4] = get_program_id(0) * 4 + 0 ... 4;
  int j[4] = get_program_id(1) * 4 + 0 ... 4;
  bool in[4,4] = i[:,newaxis] < M && j[newaxis,:] < N;
  float v[4,4] = *?(in)(a + j[newaxis,:]);
  *?(in)(c + OFFSET) = v;
}"""
RIGHT = ("(b*M + i)*N + j", "(i*Bt + b)*N + j", "(j*Bt + b)*M + i")
"""With the elements that they have, these are not shown to be apart without a split."""
WRONG = ("(b*N + i)*N + j", "(b*M + i)*M + j", "(i*M + b)*N + j")


def races_of(offset: str, elements: str) -> str:
    text = offset.replace("i", "i[:,newaxis]").replace("j", "j[newaxis,:]")
    kernel = jn.kernel.from_triton_c(KERNEL.replace("OFFSET", text))
    sizes = ["Bt >= 1", "M >= 1", "N >= 1", "Bt <= 1000", "M <= 1000", "N <= 1000"]
    extents = {"a": "N", "c": elements}
    proof = kernel.prove(sizes, extents, ("cdiv(M, 4)", "cdiv(N, 4)", "Bt"), ("bounds", "races"))
    return proof.verdict("races")


@pytest.mark.slow
@pytest.mark.parametrize("offset", RIGHT)
def test_rows_of_rows_are_apart(offset: str) -> None:
    assert races_of(offset, "Bt*M*N") in PROVED


@pytest.mark.slow
def test_they_are_not_without_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_parts", lambda *given: [])
    assert "unknown" in {races_of(offset, "Bt*M*N") for offset in RIGHT}


@pytest.mark.slow
@pytest.mark.parametrize("offset", WRONG)
def test_rows_of_rows_of_another_width_are_not(offset: str) -> None:
    assert races_of(offset, "Bt*M*N + Bt*N*N + Bt*M*M") not in PROVED


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_follows_from_an_equation_holds_wherever_it_does(seed: int) -> None:
    random = Random(seed)
    found = 0
    for _ in range(15):
        terms = Terms()
        world = cast(World, SimpleNamespace(terms=terms, solver=Solver(terms, Budget(DEFAULT_LIMIT, 10**9))))
        n, m = terms.atom("n", "n", -3, 3), terms.atom("m", "m", -3, 3)
        x, y, z = (terms.atom(name, name, -3, 3, ("program",)) for name in "xyz")
        width = random.choice((n, m, n + 1))
        rows = random.choice((n * x, n * m * x, (m * x + y) * n)) * random.choice((1, 4))
        formulas = [equal(rows + random.choice((y, z, z * 2)), 0)]
        formulas += [less(each, random.choice((width, m, n))) for each in random.sample((y, z), 2)]
        formulas += [at_least(random.choice((y, z)), random.choice((0, -1)))] * random.randrange(2)
        formulas += [at_least(each + random.choice((n, m)), 1) for each in (y, z) if random.random() < 0.7]
        parts = _parts(world, formulas)
        found += bool(parts)
        atoms = [next(iter(each.atoms)) for each in (n, m, x, y, z)]
        for numbers in product(range(-3, 4), repeat=5):
            values = dict(zip(atoms, numbers, strict=True))
            if all(holds(each, values) for each in formulas):
                assert all(holds(each, values) for each in parts)
    assert found > 1
