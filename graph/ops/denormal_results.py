"""Where gelu and silu end: for x below these numbers their results would be denormal, and are -0.

A denormal number is at most 2^-126 in float32, nothing beside what it is added to, but products that read it take a hundred
times as long on some processors, and these results are mostly read by products. Where x / 2 · (1 + erf(x / √2)) and
x / (1 + exp(-x)) are computed as they are written, -0 comes from -5.6 and -88.8 on.

The numbers are the least operands with a normal result, computed with mpmath at 200 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DENORMAL_BELOW: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "x_phi": {"float32": -13.146245956420898, "float64": -37.615868313955986},
    "x_sigmoid": {"float32": -91.85677337646484, "float64": -714.9686572379665},
    "x_sigmoid_quick": {"float32": -53.653995513916016, "float64": -419.7626956954254},
    "x_sigmoid_tanh": {"float32": -10.10063648223877, "float64": -21.17688025178522},
})  # fmt: skip
"""Part of a composite → dtype that it is computed in → the operand below which its result is -0."""
