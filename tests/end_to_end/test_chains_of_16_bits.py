"""Two operations in a row on 16-bit floats, as scalars and as rows: LLVM combines their conversions, and may then ask for
functions of a run-time library that generated code does not have."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.table import OPS

from ..support.tiers import both_tiers, each, share

UNARY = [row.name for row in OPS.values()
         if row.kind == "map" and row.arity == 1 and not row.attrs and "internal" not in row.traits]  # fmt: skip
FIRST = ("rem", "mod", "pow", "atan", "sin", "tanh", "log")


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("first", "dtype"), each(FIRST, ["float16", "bfloat16"]))
@both_tiers
def test_pairs_of_operations(first: str, dtype: str, in_full: bool) -> None:
    shapes = ((), (33,))
    cases = [(name, shape) for i, name in enumerate(UNARY) for shape in share(shapes, i + FIRST.index(first), 2, in_full)]
    graph = jn.Graph("g", [jn.TensorType(dtype, shape) for _, shape in cases])  # an input each: no kernel serves two
    outputs = []
    for (name, _), x in zip(cases, graph.inputs, strict=True):
        y = getattr(jn, first)(x, x) if OPS[first].arity == 2 else getattr(jn, first)(x)
        try:
            outputs.append(getattr(jn, name)(y))
        except jn.UserError:  # of integers or bools only
            continue
    graph.output(*outputs)
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.1, 0.9, shape).astype(jn.DType(dtype).numpy) for _, shape in cases]
    found = jn.compile(graph, "cpu", cache=False)(*arrays)
    for ours, theirs, symbol in zip(found, jn.evaluate(graph, *arrays), outputs, strict=True):
        ours, theirs = np.asarray(ours).astype(np.float64), np.asarray(theirs).astype(np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=2**-7 if dtype == "bfloat16" else 2**-10, atol=1e-6, err_msg=str(symbol))
