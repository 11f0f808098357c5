"""Emits sizes that are known at launch: `Dim` expressions as native i64 arithmetic."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from .....graph.dims.dim import Dim, Monomial
from ....nest import Extent
from ...ir import Function
from ...values import V, const
from ..scalars import Scalars


def emit_extent(s: Scalars, extent: Extent, env: Mapping[str, V]) -> V:
    """Emits the value of an extent; `env` maps the names of symbolic dims to i64 values."""
    if isinstance(extent, int):
        return s.constant(extent)
    total = s.constant(0)
    for coefficient, monomial in extent.terms:
        product = s.constant(coefficient)
        for atom, power in monomial:
            value = _atom(s, atom, env)
            for _ in range(power):
                product = s.mul(product, value)
        total = s.add(total, product)
    return total


def emit_approximately(f: Function, extent: Dim, env: Mapping[str, V]) -> V:
    """Emits a polynomial in named dims in float64, where it is rounded but does not wrap."""

    def product(coefficient: int, monomial: Monomial) -> V:
        found = const(float(coefficient), "double")
        for name, power in monomial:
            value = f.cast("sitofp", env[str(name)], "double")
            for _ in range(power):
                found = f.binary("fmul", found, value)
        return found

    return functools.reduce(partial(f.binary, "fadd"), itertools.starmap(product, extent.terms))


def _atom(s: Scalars, atom: Any, env: Mapping[str, V]) -> V:
    if isinstance(atom, str):
        return env[atom]
    left, right = (emit_extent(s, part, env) for part in atom.args)
    if atom.kind == "max":
        return s.max(left, right)
    quotient = s.floor_div_signed(left, right)
    return quotient if atom.kind == "floordiv" else s.sub(left, s.mul(quotient, right))
