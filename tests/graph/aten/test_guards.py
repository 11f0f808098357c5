"""Conditions on sizes that exported programs state become checks."""

from __future__ import annotations

import math

import joinery as jn
import pytest
from joinery.graph.aten.guards import checks_of
from joinery.graph.dims.dim import evaluate_dim

N, M = jn.dim("n"), jn.dim("m")
SIZES = {"L['x'].size()[0]": N, "L['d']['a'][0].size()[1]": M, "L['x'].size()[1]": 4, "L['k']": M}


def holds(condition: str, n: int, m: int = 1) -> bool:
    checks, unread = checks_of([condition], SIZES)
    assert not unread
    values = {"n": n, "m": m}
    return all(evaluate_dim(check.lhs, values) == evaluate_dim(check.rhs, values) for check in checks)


@pytest.mark.parametrize(("condition", "right"), [
    ("(L['x'].size()[0] % 2) == 0", lambda n, m: n % 2 == 0),
    ("((3 + L['x'].size()[0]) // 4) == 2", lambda n, m: (3 + n) // 4 == 2),
    ("((-4) + L['x'].size()[0]) != 1", lambda n, m: n - 4 != 1),
    ("(-16) + 4*L['x'].size()[0] >= 2", lambda n, m: 4 * n - 16 >= 2),
    ("L['x'].size()[0] > 3", lambda n, m: n > 3),
    ("(-1)*L['x'].size()[0] > -7", lambda n, m: n < 7),
    ("L['x'].size()[0] <= 5", lambda n, m: n <= 5),
    ("L['x'].size()[0] < L['d'][\"a\"][0].size()[1]", lambda n, m: n < m),
    ("L['x'].size()[0] == 2*L['k'] + 1", lambda n, m: n == 2 * m + 1),
    ("L['x'].size()[0]**2 >= 10", lambda n, m: n * n >= 10),
    ("max(L['x'].size()[0], L['k']) == 6", lambda n, m: max(n, m) == 6),
    ("L['x'].size()[0] // L['k'] == 2", lambda n, m: n // m == 2),
    ("math.trunc(0.5*torch.sym_float(L['x'].size()[0])) >= 2", lambda n, m: int(0.5 * n) >= 2),
    ("math.ceil(0.75*torch.sym_float(L['x'].size()[0])) != 3", lambda n, m: math.ceil(0.75 * n) != 3),
    ("math.trunc(L['x'].size()[0] / 3) == 2 and L['k'] > 2", lambda n, m: n // 3 == 2 and m > 2),
    ("math.floor(0.5*torch.sym_float((-4) + L['x'].size()[0])) != -2", lambda n, m: math.floor(0.5 * (n - 4)) != -2),
    ("math.ceil(L['x'].size()[0] / 2) != 1", lambda n, m: math.ceil(n / 2) != 1),
    ("L['x'].size()[0] - ((1 + L['x'].size()[0]) // 2) == 1", lambda n, m: n - (n + 1) // 2 == 1),
])  # fmt: skip
def test_conditions_hold_for_the_same_sizes(condition: str, right: object) -> None:
    for n in range(12):
        for m in range(1, 9):
            assert holds(condition, n, m) == right(n, m), (n, m)  # type: ignore[operator]


def test_what_always_holds_is_no_check_and_what_never_does_is_refused() -> None:
    assert checks_of(["L['x'].size()[1] == 4", "3 < 4"], SIZES) == ([], [])
    with pytest.raises(jn.UserError, match="never holds; fix: export the model again"):
        checks_of(["L['x'].size()[1] == 5"], SIZES)


@pytest.mark.parametrize("condition", [
    "L['y'].size()[0] == 1", "L['x'].stride()[0] == 4", "__import__('os').system('true') == 0", "0 < L['k'] < 3",
    "L['x'].size()[0] == 1 or L['k'] == 2", "L['x'].size()[0] / 2 == 1", "L['x'].size()[0] == True", "1.5 == L['k']",
    "L['k'] ** 99999 == 1", "L['k'] // 0 == 1", "L['k'] ==",
    "math.trunc(0.5*torch.sym_float((-4) + L['k'])) == 0", "math.cos(L['k'] / 2) == 1",
    "math.trunc(0.1*torch.sym_float(L['k'])) == 1", "(" * 5000 + ")" * 5000, "9" * 20_000 + " == L['k']",
])  # fmt: skip
def test_other_texts_are_named_and_never_run(condition: str) -> None:
    assert checks_of([condition], SIZES) == ([], [condition])
