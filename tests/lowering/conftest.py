"""What every scheduling test needs: running a plan in NumPy on real memory, and comparing it with the reference evaluator."""

import math

import numpy as np
import pytest
from joinery.graph.dims.dim import evaluate_dim
from joinery.graph.graph import Graph
from joinery.graph.reference.evaluate import bind_inputs, evaluate
from joinery.graph.types import TensorType
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.schedule.plan import schedule

from ..support.nest_interpreter import run_nest

GUARD = 64  # bytes on both sides of the arena that nobody may write


class Harness:
    """Builds graphs with few characters, schedules them and runs the plans."""

    def graph(self, *inputs, name="test"):
        """A graph from (dtype, shape) pairs, or shapes of float32 inputs."""
        types = []
        for number, entry in enumerate(inputs):
            dtype, shape = (
                entry
                if len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], tuple)
                else ("float32", entry)
            )
            types.append(TensorType(dtype, shape, f"x{number}"))
        return Graph(name, types)

    @staticmethod
    def op(op, *operands, **attrs):
        graph = next(operand.graph for operand in operands if hasattr(operand, "graph"))
        return graph.apply(op, operands, attrs)

    def reduce(self, name, x, *axes, keepdims=True):
        axes = tuple(sorted([axis % len(x.shape) for axis in axes]))
        return self.op(name, x, axes=axes, keepdims=keepdims)

    def softmax(self, x, axis=-1):
        """Written out in primitive ops."""
        powers = self.op("exp", x - self.reduce("reduce_max", x, axis))
        return powers / self.reduce("reduce_sum", powers, axis)

    def layer_norm(self, x, scale, bias, epsilon=1e-5):
        return self.op("layer_norm", x, scale, bias, epsilon=epsilon, has_scale=True, has_bias=True)

    def plan(self, graph, *outputs):
        if outputs:
            graph.output(*outputs)
        return schedule(expand(graph))

    def run(self, graph, plan, arrays):
        """The outputs of the plan, on memory laid out as the memory plan says."""
        expanded = expand(graph)
        values, dims = bind_inputs(graph, arrays)

        def size(buffer):
            return math.prod(evaluate_dim(extent, dims) for extent in buffer.shape)

        memory = {("input", i): np.ascontiguousarray(value).reshape(-1) for i, value in enumerate(values)}
        for buffer in plan.constants:
            memory["constant", buffer.index] = np.asarray(
                expanded.symbols[buffer.symbol].attrs["value"]
            ).reshape(-1)
        for buffer in plan.outputs:
            memory["output", buffer.index] = np.full(size(buffer), 77).astype(buffer.dtype.numpy)
        total = evaluate_dim(plan.memory.size, dims)
        arena = np.full(total + 2 * GUARD, 0xCD, np.uint8)
        for buffer, offset in zip(plan.temporaries, plan.memory.offsets, strict=True):
            start, count = evaluate_dim(offset, dims), size(buffer) * buffer.dtype.itemsize
            assert start % 64 == 0
            assert start >= 0
            assert start + count <= total
            memory["temporary", buffer.index] = arena[GUARD + start : GUARD + start + count].view(
                buffer.dtype.numpy
            )
        for nest in plan.nests:
            run_nest(nest, memory, dims)
        assert (arena[:GUARD] == 0xCD).all()
        assert (arena[total + GUARD :] == 0xCD).all()
        shapes = [[evaluate_dim(extent, dims) for extent in buffer.shape] for buffer in plan.outputs]
        return [memory["output", i].reshape(shape) for i, shape in enumerate(shapes)]

    def check(self, graph, *arrays, tolerance=1e-5, plan=None):
        """Schedules `graph`, runs it on `arrays` and compares with the reference evaluator. Returns the plan."""
        plan = plan or self.plan(graph)
        expected = evaluate(graph, *arrays)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for ours, theirs in zip(self.run(graph, plan, arrays), expected, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            if theirs.dtype.kind in "biu":
                np.testing.assert_array_equal(ours, theirs)
            else:
                np.testing.assert_allclose(
                    ours.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance
                )
        return plan

    @staticmethod
    def array(*shape, seed=0, dtype=np.float32):
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture(scope="session")
def harness():
    return Harness()
