"""What PyTorch runs itself where it is there has a form in exported programs: random numbers, factorisations, assertions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import joinery.torch
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import linalg  # noqa: E402


def exported(function: Callable[..., Any], *inputs: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *values: Any) -> Any:
            return function(*values)

    return torch.export.export(Model(), inputs)


def results(function: Callable[..., Any], *inputs: Any, seed: int | None = None) -> list[Any]:
    found = jn.compile(jn.from_exported(exported(function, *inputs), seed=seed), "cpu")(*[each.numpy() for each in inputs])
    return [torch.from_numpy(np.asarray(each)) for each in (found if isinstance(found, tuple) else (found,))]


# -- assertions --------------------------------------------------------------------------------------------------------


def asserting(x: Any) -> Any:
    torch._assert_async((x.abs() < 2).all(), "x is too large")
    torch._assert_async(x.sum() != 0, "x is nothing")
    return x * 2


def test_assertions_are_checked_by_runs() -> None:
    model = jn.compile(jn.from_exported(exported(asserting, torch.ones(3))), "cpu")
    assert model(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    with pytest.raises(jn.UserError, match="x is too large"):
        model(np.full(3, 5, np.float32))
    with pytest.raises(jn.UserError, match="x is nothing"):
        model(np.zeros(3, np.float32))


def test_compiled_graphs_check_assertions_themselves() -> None:
    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    compiled = torch.compile(asserting, backend="joinery", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="x is too large"):
        compiled(torch.full((3,), 5.0))
    with pytest.raises(RuntimeError, match="x is nothing"):
        compiled(torch.zeros(3))
    assert joinery.torch.report().share == 1


# -- random numbers ----------------------------------------------------------------------------------------------------

DRAWS: dict[str, tuple[Callable[[Any], Any], float, float, float, float]] = {
    "rand": (torch.rand_like, 0.5, 12**-0.5, 0, 1),
    "rand64": (lambda x: torch.rand(x.shape, dtype=torch.float64) + 0 * x, 0.5, 12**-0.5, 0, 1),
    "rand16": (lambda x: torch.rand(x.shape, dtype=torch.float16) + 0 * x.half(), 0.5, 12**-0.5, 0, 1),
    "randn": (torch.randn_like, 0, 1, -9, 9),
    "randint": (lambda x: torch.randint(-3, 4, x.shape) + 0 * x.long(), 0, 2, -3, 3.5),
    "randint_like": (lambda x: torch.randint_like(x, 7), 3, 2, 0, 6.5),
    "bernoulli": (lambda x: torch.bernoulli(x * 0.25), 0.25, 0.1875**0.5, 0, 1.5),
    "dropout": (lambda x: torch.nn.functional.dropout(x, 0.5), 1, 1, 0, 2.5),
    "uniform": (lambda x: torch.empty_like(x).uniform_(2, 3), 2.5, 12**-0.5, 2, 3),
    "normal": (lambda x: torch.normal(x * 3, 2.0), 3, 2, -15, 20),
    "normal_": (lambda x: x.clone().normal_(1, 0.5), 1, 0.5, -4, 6),
    "exponential": (lambda x: x.clone().exponential_(2.0), 0.5, 0.5, 0, 30),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_have_their_distribution(name: str) -> None:
    function, mean, deviation, least, most = DRAWS[name]
    x = torch.ones(100, 200)
    program = exported(function, x)
    model = jn.compile(jn.from_exported(program, seed=1), "cpu")
    found = np.asarray(model(x.numpy()), np.float64)
    assert abs(found.mean() - mean) < 6 * deviation / found.size**0.5
    assert abs(found.std() - deviation) < 0.03 * deviation
    assert least <= found.min() <= found.max() < most
    assert (model(x.numpy()) == found).all()
    assert not (jn.compile(jn.from_exported(program, seed=2), "cpu")(x.numpy()) == found).all()


def test_each_call_draws_numbers_of_its_own() -> None:
    (found,) = results(lambda x: torch.rand_like(x) - torch.rand_like(x), torch.ones(50), seed=0)
    assert (found != 0).all()


def test_permutations_and_classes() -> None:
    (order,) = results(lambda x: torch.randperm(20) + 0 * x.long(), torch.zeros(20), seed=0)
    assert sorted(order.tolist()) == list(range(20))
    weights = torch.tensor([[0.0, 1, 2, 5]])
    (drawn,) = results(lambda w: torch.multinomial(w, 8000, replacement=True), weights, seed=0)
    shares = np.bincount(drawn[0], minlength=4) / 8000
    assert np.abs(shares - [0, 1 / 8, 2 / 8, 5 / 8]).max() < 0.03
    assert shares[0] == 0
    (pairs,) = results(lambda w: torch.multinomial(w.repeat(2000, 1), 2), weights, seed=0)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert (pairs != 0).all()


def test_models_that_draw_are_refused_without_a_seed() -> None:
    program = exported(torch.rand_like, torch.ones(3))
    with pytest.raises(jn.UnsupportedError, match="seed=0"):
        jn.from_exported(program)
    with pytest.raises(jn.UserError, match="64 bits"):
        jn.from_exported(program, seed=-1)


# -- factorisations ----------------------------------------------------------------------------------------------------


def matrices(size: int, dtype: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(size)
    a, b = torch.randn(3, size, size, dtype=dtype), torch.randn(3, size, 2, dtype=dtype)
    return a, a @ a.mT + torch.eye(size, dtype=dtype), b


FACTORISATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cholesky": lambda a, s, b: (linalg.cholesky(s), linalg.cholesky(s, upper=True), linalg.cholesky_ex(s)[1]),
    "cholesky_solve": lambda a, s, b: (torch.cholesky_solve(b, linalg.cholesky(s)), torch.cholesky_inverse(linalg.cholesky(s))),
    "solve": lambda a, s, b: (linalg.solve(a, b), linalg.solve(a, b.mT, left=False), linalg.solve(a, b[0]),
                              linalg.solve(a[0], b[0, :, 0])),
    "inverse": lambda a, s, b: (linalg.inv(a), linalg.inv_ex(a)[1]),
    "determinants": lambda a, s, b: (linalg.det(a), torch.logdet(s), *linalg.slogdet(a)),
    "lu": lambda a, s, b: (*linalg.lu(a), *linalg.lu(torch.cat([a, b], 2)), *linalg.lu_factor(a)),
    "lu_solve": lambda a, s, b: linalg.lu_solve(*linalg.lu_factor(a), b),
    "triangular": lambda a, s, b: (linalg.solve_triangular(s.triu(), b, upper=True),
                                   linalg.solve_triangular(s.tril(), b.mT, upper=False, left=False),
                                   linalg.solve_triangular(a.tril() / 9, b, upper=False, unitriangular=True)),
    "qr": lambda a, s, b: (*linalg.qr(a), *linalg.qr(torch.cat([a, b], 2)), linalg.qr(a, mode="r")[1],
                           *linalg.qr(torch.cat([a, b.mT], 1), mode="complete")),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_factorisations_are_those_of_lapack(name: str, size: int) -> None:
    given = matrices(size, torch.float64)
    wanted = FACTORISATIONS[name](*given)
    found = results(FACTORISATIONS[name], *given)
    for mine, theirs in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert mine.dtype == theirs.dtype
        worst = max(1.0, *(float(linalg.cond(each).max()) for each in given[:2]))
        bound = size * 2.0**-50 * worst * max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(mine, theirs, rtol=0, atol=bound)


def test_a_failing_factorisation_is_told_of() -> None:
    model = jn.compile(jn.from_exported(exported(linalg.cholesky, torch.eye(2))), "cpu")
    with pytest.raises(jn.UserError, match="not positive definite"):
        model(np.array([[1, 2], [2, 1]], np.float32))
    model = jn.compile(jn.from_exported(exported(linalg.inv, torch.eye(2))), "cpu")
    with pytest.raises(jn.UserError, match="singular"):
        model(np.array([[1, 2], [2, 4]], np.float32))
    (info,) = results(lambda x: linalg.inv_ex(x)[1], torch.tensor([[1.0, 2], [2, 4]]))
    assert int(info) == 2


def test_no_matrices_and_matrices_of_no_elements() -> None:
    assert results(linalg.inv, torch.empty(0, 3, 3))[0].shape == (0, 3, 3)
    assert results(linalg.det, torch.empty(2, 0, 0))[0].tolist() == [1, 1]


# -- functions ---------------------------------------------------------------------------------------------------------


def test_incomplete_gamma_functions_and_zeta() -> None:
    special = pytest.importorskip("scipy.special")
    a = np.array([0, 1e-8, 0.1, 0.5, 1, 3.7, 9.9, 10.1, 250.5, 1e4, np.inf, -1])[:, None]
    x = np.array([0, 1e-12, 0.1, 0.5, 1, 1.2, 5, 9.9, 26, 250, 1e4, np.inf])[None]
    both = [torch.from_numpy(np.broadcast_to(each, (12, 12)).copy()) for each in (a, x)]
    lower, upper = results(lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), *both)
    for found, wanted in ((lower, special.gammainc(a, x)), (upper, special.gammaincc(a, x))):
        torch.testing.assert_close(found, torch.from_numpy(wanted), rtol=1e-11, atol=1e-200, equal_nan=True)
    s = np.array([0.5, 1, 1.0001, 2, 3, 3.5, 10, 50])[:, None]
    q = np.array([-7.5, -2, -0.25, 0, 1e-3, 0.5, 1, 9, 1e6])[None]
    both = [torch.from_numpy(np.broadcast_to(each, (8, 9)).copy()) for each in (s, q)]
    (found,) = results(torch.special.zeta, *both)
    torch.testing.assert_close(found, torch.from_numpy(special.zeta(s, q)), rtol=1e-11, atol=0, equal_nan=True)
