"""Statistics of columns, estimates, prices and returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formulas import standardised
from ..workload import Family, ascending, normal, positive, uniform

family = Family("statistics and finance")


def covariance(lib: Any, x: Any, divisor: float) -> Any:
    """Return the covariance of columns."""
    centered = x - lib.mean(x, axis=0, keepdims=True)
    return lib.transpose(centered) @ centered / divisor


def correlation(lib: Any, x: Any) -> Any:
    """Return the correlation of columns."""
    scores = standardised(lib, x, 0)
    return lib.transpose(scores) @ scores / 2000.0


def scaled_to_range(lib: Any, x: Any) -> Any:
    """Return columns from 0 to 1."""
    low = lib.min(x, axis=0, keepdims=True)
    return (x - low) / (lib.max(x, axis=0, keepdims=True) - low)


def quarter_circle(lib: Any, x: Any) -> Any:
    """Return an estimate of pi."""
    inside = x[0] * x[0] + x[1] * x[1] < 1
    return lib.mean(lib.where(inside, x[0] * 0 + 4.0, x[0] * 0))


def black_scholes(erf: Any, log: Any, spot: Any, strike: Any, volatility: Any) -> Any:
    """Return prices of options for one year without interest."""

    def normal_distribution(x: Any) -> Any:
        return 0.5 * (1 + erf(x * 0.7071))

    ratio, half = log(spot / strike), volatility * volatility / 2
    first, second = (ratio + half) / volatility, (ratio - half) / volatility
    return spot * normal_distribution(first) - strike * normal_distribution(second)


family.add_program("covariance of 32 columns", [normal(5000, 32)], lambda lib, x: covariance(lib, x, 5000.0))
family.add_program("correlation of 50 columns float64", [normal(2000, 50, dtype="float64")], correlation)
family.add_program("z-scores of 64 columns", [normal(5000, 64)], lambda lib, x: standardised(lib, x, 0))
family.add_program("16 columns scaled to their range", [normal(20_000, 16)], scaled_to_range)
family.add_program("estimate of pi float64", [uniform(2, 500_000, dtype="float64")], quarter_circle)
family.add_program(
    "trapezoidal rule float64", [ascending(500_000, dtype="float64"), normal(500_000, dtype="float64")],
    lambda lib, x, y: lib.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) * 0.5),
)  # fmt: skip
family.add_operators("returns of rows float64", [positive(500, 1000, dtype="float64")], lambda x: x[:, 1:] / x[:, :-1] - 1.0)
family.add_program(
    "covariance of 64 logarithmic returns", [positive(1000, 64)],
    lambda lib, x: covariance(lib, lib.log(x[1:]) - lib.log(x[:-1]), 998.0),
)  # fmt: skip
family.add(
    "largest losses since a maximum, 200x2000", [positive(200, 2000)],
    lambda jn, x: jn.max(1 - x / jn.cummax(x, axis=1), axis=1),
    numpy=lambda x: np.max(1 - x / np.maximum.accumulate(x, 1), 1),
    torch=lambda torch, x: torch.amax(1 - x / torch.cummax(x, 1)[0], 1),
    jax=lambda jax, x: jax.numpy.max(1 - x / jax.lax.cummax(x, axis=1), 1),
)  # fmt: skip
family.add(
    "Black-Scholes", [positive(500_000), positive(500_000), positive(500_000)],
    lambda jn, *values: black_scholes(jn.erf, jn.log, *values),
    torch=lambda torch, *values: black_scholes(torch.erf, torch.log, *values),
    jax=lambda jax, *values: black_scholes(jax.scipy.special.erf, jax.numpy.log, *values),
)  # fmt: skip
