"""Records what onnxruntime computes of the cases: python -m tests.conformance.onnxruntime, in an environment that has it."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import helper

from ...support.onnx_models import code
from .cases import RECORD, Case, cases


def model(case: Case) -> bytes:
    """A model of one node."""
    given = {name: array for name, array in case.inputs.items() if array is not None}
    names = [name if case.inputs[name] is not None else "" for name in case.inputs]
    node = helper.make_node(case.op, names, case.outputs.split(), domain="com.microsoft", **case.attributes)
    inputs = [helper.make_tensor_value_info(name, code(array.dtype), array.shape) for name, array in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in case.outputs.split()]
    graph = helper.make_graph([node], "case", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def main() -> None:
    arrays = {"onnxruntime": np.array(onnxruntime.__version__)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # with more, each quantises the states of its own rows of a batch
    for name, case in cases().items():
        given = {key: array for key, array in case.inputs.items() if array is not None}
        session = onnxruntime.InferenceSession(model(case), options, providers=["CPUExecutionProvider"])
        results = session.run(None, given)
        arrays |= {f"{name}/{key}": array for key, array in given.items()}
        arrays |= {f"{name}/= {key}": array for key, array in zip(case.outputs.split(), results, strict=True)}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(RECORD, **arrays)


main()
