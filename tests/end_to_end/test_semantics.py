"""Graphs of mixed dtypes under every rule set: compiled code and the reference evaluator agree, whatever the casts are."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import pytest
from joinery.promotion import PRESETS, rules

from ..support.tiers import both_tiers, share

SIZE = 37


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
@both_tiers
def test_mixed_dtypes(agreement: Any, name: str, in_full: bool) -> None:
    """Every pair of dtypes that computes: added, compared, selected, joined, and with literals; one graph per left operand."""
    dtypes = [d for d in rules(name).dtypes if not d.is_abstract and d.has_arithmetic and not d.is_complex]
    assert len(dtypes) >= 10
    arrays = {d: agreement.random(d, SIZE, number, tame=d.is_float) for number, d in enumerate(dtypes)}
    outputs_seen = 0
    lefts = share(dtypes, list(PRESETS).index(name), 8, in_full)
    for a in lefts:
        graph = jn.Graph("mixed", [jn.TensorType(d, (SIZE,), f"x_{d}") for d in dtypes], semantics=name)
        by_dtype = dict(zip(dtypes, graph.inputs, strict=True))
        x = by_dtype[a]
        outputs = []
        for b in dtypes:
            y = by_dtype[b]
            for build in (
                lambda x, y: jn.maximum(x, y), lambda x, y: x < y, lambda x, y: jn.where(x == y, x, y),
                lambda x, y: jn.concat([x, y, x], 0),
            ):  # fmt: skip
                try:
                    outputs.append(build(x, y))
                except (jn.UserError, jn.UnsupportedError):
                    continue
        with_literals = (lambda x, v: x + v, lambda x, v: v - x, lambda x, v: jn.where(x > v, x, v))
        for value, combine in itertools.product((1, 1.5), with_literals):
            try:
                outputs.append(combine(x, value))
            except (jn.UserError, jn.UnsupportedError):
                continue
        graph.output(*outputs)
        outputs_seen += len(outputs)
        agreement.agrees(graph, *[arrays[d] for d in dtypes])
    assert outputs_seen > 4 * len(lefts)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["max", "jax", "numpy", "torch", "triton", "exact"])
def test_chains_and_reductions(agreement: Any, name: str) -> None:
    """Sums, means, quotients and weak intermediate values, whose dtypes the rule set decides."""
    dtypes = ("int8", "uint8", "int32", "float16", "float32")
    graph = jn.Graph("chain", [jn.TensorType(d, (SIZE,), d) for d in dtypes], semantics=name)
    i8, u8, i32, f16, f32 = graph.inputs
    outputs = [jn.sum(i8), jn.sum(u8), jn.prod(u8 // 2 * 0 + 1), i8 // 3 + i8 % 3, u8 // 7, (i8 < u8).cast("int8") + i8]
    if name not in ("exact",):
        outputs += [(i8 + 1.5) * f16, i32 + f16]
    outputs += [f16 * f32 + i8, jn.sqrt(u8), jn.mean(i8), i8 / 2]
    graph.output(*outputs)
    arrays = [agreement.random(s.dtype, SIZE, k, tame=s.dtype.is_float) for k, s in enumerate(graph.inputs)]
    agreement.bounded(graph, *arrays)
