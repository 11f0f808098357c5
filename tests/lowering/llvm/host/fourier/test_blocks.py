"""`tt.fft` on the host and in the interpreter, against NumPy: lines beside each other and one by one, of every kind."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest

from .....support.kernels.transforms import KINDS, check, kernel
from .....support.tiers import each

CASES = (
    ((2,), 0, 1), ((8,), 0, 5), ((64,), 0, 33), ((4, 16), 1, 11), ((16, 32), 1, 30), ((32, 8), 0, 31), ((64, 16), 0, 49),
    ((256,), 0, 128), ((512,), 0, 400), ((1024,), 0, 512), ((2, 1024), 1, 1000), ((4096,), 0, 2048), ((2, 128, 4), 1, 96),
    ((128, 32), 0, 100), ((512, 2), 0, 256), ((2, 256), 1, 155), ((512,), 0, 286), ((8, 2, 64), 2, 60), ((2048, 2), 0, 1155),
)  # fmt: skip
"""(shape, axis, length): one pass and several, matrices of whole registers and of others, prime factors up to 31."""


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("how", "case"), each(list(itertools.product(KINDS, (False, True))), CASES))
def test_lines_are_transformed_along_every_axis(how: tuple[str, bool], case: tuple[tuple[int, ...], int, int]) -> None:
    (kind, is_wide), (shape, axis, length) = how, case
    check(shape, axis, kind, length, "cpu", is_wide=is_wide)


def test_lengths_with_large_prime_factors_are_refused() -> None:
    with pytest.raises(jn.UserError, match=r"a transform of 74 numbers; expected prime factors up to 31"):
        jn.kernel.from_ttir(kernel((128,), 0, "forward", 2 * 37))


def test_one_number() -> None:
    for shape, axis in (((64, 1), 1), ((1, 64), 0), ((1,), 0)):
        check(shape, axis, "forward", 1, "cpu")
        check(shape, axis, "inverse", 1, "cpu", is_wide=True)


def test_results_beyond_half_of_the_largest_number() -> None:
    for length in (8, 400, 134):  # columns, one line, products with matrices
        x = np.zeros((2, length), np.float32)
        x[:, 0] = 2e38
        graph = jn.Graph("g", [jn.TensorType("float32", x.shape, "x")])
        graph.output(jn.rfft(graph.inputs[0]))
        found = jn.compile(graph, device="cpu", cache=False)(x)
        np.testing.assert_allclose(found[..., 0], 2e38, rtol=1e-6)
        assert np.abs(found[..., 1]).max() <= (1e32 if length == 134 else 0)  # what chirps leave
