"""Operands that are copied into panels at each run are copied right before their product."""

from __future__ import annotations

import joinery as jn
import numpy as np

ROWS, WIDTH, LAYERS = 512, 384, 6


def test_the_arena_holds_the_panels_of_one_operand_at_a_time() -> None:
    inputs = [jn.TensorType(jn.float32, (ROWS, WIDTH), name="x")]
    inputs += [jn.TensorType(jn.float32, (WIDTH, WIDTH), name=f"w{number}") for number in range(LAYERS)]
    graph = jn.Graph("layers", inputs=inputs)
    x, *weights = graph.inputs
    for weight in weights:
        x = jn.relu(x @ weight.T)
    graph.output(x)
    model = jn.compile(graph, "cpu", cache=False)
    assert sum("pack" in kernel.name for kernel in model.kernels) == LAYERS
    panels, activations = 4 * WIDTH * WIDTH, 4 * ROWS * WIDTH
    assert model._executable.plan({}).arena_bytes <= panels + 2 * activations
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(spec.shape, np.float32) / np.float32(16) for spec in model.inputs]
    wanted = arrays[0].astype(np.float64)
    for weight in arrays[1:]:
        wanted = np.maximum(wanted @ weight.T.astype(np.float64), 0)
    np.testing.assert_allclose(model(*arrays), wanted, rtol=1e-4, atol=1e-5)
