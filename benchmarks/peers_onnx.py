"""Writes ONNX models for ONNX Runtime: single operations, and all-MiniLM-L6-v2 in two forms.

`minilm_standard` uses standard operators only, the way a careful exporter writes them. `minilm_fused`
uses ONNX Runtime's own contrib operators (embedding + layer norm, attention, residual + layer norm, bias
+ gelu), which is what its transformer optimiser would produce: the best ONNX Runtime can do for this
model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

OPSET = 20
IR_VERSION = 9
CONTRIB = "com.microsoft"


class OnnxBuilder:
    """Collects nodes and initialisers; every method returns the name of a value."""

    def __init__(self, inputs: Mapping[str, tuple[int, Sequence[int | str]]]) -> None:
        self.inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
        self.nodes: list[Any] = []
        self.initialisers: list[TensorProto] = []

    def constant(self, array: Any) -> str:
        name = f"c{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op: str, *operands: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        """Append a node and return its first output; an empty operand name leaves an optional input out."""
        names = [f"v{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, list(operands), names, domain=domain, **attributes))
        return names[0]

    def model(self, output: str, name: str, dtype: int = TensorProto.FLOAT) -> ModelProto:
        self.nodes.append(helper.make_node("Identity", [output], [name]))
        outputs = [helper.make_tensor_value_info(name, dtype, None)]
        graph = helper.make_graph(self.nodes, "benchmark", self.inputs, outputs, self.initialisers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def single(
    steps: Sequence[tuple[str, Sequence[str], Mapping[str, Any]]],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
) -> bytes:
    """Build a model of a few nodes. A step is (op, operands, attributes); operand "-1" is the step before."""
    types = {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()
    }
    builder = OnnxBuilder(types)
    names = {name: builder.constant(array) for name, array in (constants or {}).items()}
    results: list[str] = []
    for op, operands, attributes in steps:
        resolved = [
            results[int(operand)] if operand.startswith("-") else names.get(operand, operand)
            for operand in operands
        ]
        results.append(builder.node(op, *resolved, **attributes))
    return builder.model(results[-1], "result").SerializeToString()


class MiniLM:
    """The parts that both forms share: weights, configuration, pooling."""

    def __init__(self, model_dir: Path, integer_type: int) -> None:
        self.config = json.loads((model_dir / "config.json").read_text())
        self.weights = load_file(model_dir / "model.safetensors")
        shape = ("batch", "seq")
        self.builder = OnnxBuilder(
            {"input_ids": (integer_type, shape), "attention_mask": (integer_type, shape)}
        )

    def weight(self, name: str) -> str:
        return self.builder.constant(self.weights[name])

    def matrix(self, prefix: str) -> str:
        """Return a dense layer's weights as (inputs, outputs)."""
        return self.builder.constant(self.weights[prefix + ".weight"].T)

    def linear(self, x: str, prefix: str) -> str:
        product = self.builder.node("MatMul", x, self.matrix(prefix))
        return self.builder.node("Add", product, self.weight(prefix + ".bias"))

    def pooled(self, hidden: str) -> ModelProto:
        """Append the mean over the real tokens, scaled to unit length, and build the model."""
        node, constant = self.builder.node, self.builder.constant
        mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
        column = node("Unsqueeze", mask, constant(np.array([2], np.int64)))
        axis = constant(np.array([1], np.int64))
        total = node("ReduceSum", node("Mul", hidden, column), axis, keepdims=0)
        count = node("Max", node("ReduceSum", column, axis, keepdims=0), constant(np.float32(1e-9)))
        mean = node("Div", total, count)
        norm = node("ReduceL2", mean, axis, keepdims=1)
        return self.builder.model(
            node("Div", mean, node("Max", norm, constant(np.float32(1e-12)))), "embeddings"
        )


def minilm_standard(model_dir: Path) -> bytes:
    """Build the model of standard operators of opset 20. Inputs are int64."""
    model = MiniLM(model_dir, TensorProto.INT64)
    node, constant, config = model.builder.node, model.builder.constant, model.config
    heads, hidden_size, epsilon = (
        config["num_attention_heads"],
        config["hidden_size"],
        config["layer_norm_eps"],
    )
    head_size = hidden_size // heads

    def layer_norm(x: str, prefix: str) -> str:
        scale, bias = model.weight(prefix + ".weight"), model.weight(prefix + ".bias")
        return node("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    length = node("Shape", "input_ids", start=1, end=2)
    zero = constant(np.array([0], np.int64))
    positions = node("Slice", model.weight("embeddings.position_embeddings.weight"), zero, length, zero)
    token_type = constant(model.weights["embeddings.token_type_embeddings.weight"][0])
    words = node("Gather", model.weight("embeddings.word_embeddings.weight"), "input_ids")
    hidden = layer_norm(node("Add", node("Add", words, token_type), positions), "embeddings.LayerNorm")

    mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = node("Unsqueeze", mask, constant(np.array([1, 2], np.int64)))
    lowest = constant(np.finfo(np.float32).min)
    mask = node("Mul", node("Sub", constant(np.float32(1)), mask), lowest)
    split = constant(np.array([0, 0, heads, head_size], np.int64))
    merge = constant(np.array([0, 0, hidden_size], np.int64))
    scale = constant(np.float32(np.sqrt(head_size)))
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"

        def head_view(part: str, permutation: list[int], x: str = hidden, prefix: str = prefix) -> str:
            parted = node("Reshape", model.linear(x, f"{prefix}.attention.self.{part}"), split)
            return node("Transpose", parted, perm=permutation)

        query, value = head_view("query", [0, 2, 1, 3]), head_view("value", [0, 2, 1, 3])
        key = head_view("key", [0, 2, 3, 1])
        scores = node("Add", node("Div", node("MatMul", query, key), scale), mask)
        mixed = node("MatMul", node("Softmax", scores, axis=-1), value)
        mixed = node("Reshape", node("Transpose", mixed, perm=[0, 2, 1, 3]), merge)
        mixed = model.linear(mixed, prefix + ".attention.output.dense")
        hidden = layer_norm(node("Add", mixed, hidden), prefix + ".attention.output.LayerNorm")
        wide = node("Gelu", model.linear(hidden, prefix + ".intermediate.dense"))
        narrow = model.linear(wide, prefix + ".output.dense")
        hidden = layer_norm(node("Add", narrow, hidden), prefix + ".output.LayerNorm")
    return model.pooled(hidden).SerializeToString()


def minilm_fused(model_dir: Path) -> bytes:
    """Build the model of ONNX Runtime's contrib operators. Inputs are int32, as these operators require."""
    model = MiniLM(model_dir, TensorProto.INT32)
    node, constant, config = model.builder.node, model.builder.constant, model.config
    epsilon = config["layer_norm_eps"]
    embeddings = [model.weight(f"embeddings.{table}_embeddings.weight") for table in ("word", "position")]
    token_types = model.weight("embeddings.token_type_embeddings.weight")
    zeros = node("Sub", "input_ids", "input_ids")
    norm = [model.weight("embeddings.LayerNorm.weight"), model.weight("embeddings.LayerNorm.bias")]
    operands = ("input_ids", zeros, *embeddings, token_types, *norm)
    hidden = node("EmbedLayerNormalization", *operands, domain=CONTRIB, outputs=2, epsilon=epsilon)

    def skip_layer_norm(x: str, residual: str, dense: str, prefix: str) -> str:
        """Compute layer_norm(x @ W + b + residual)."""
        product = node("MatMul", x, model.matrix(dense))
        weights = [
            model.weight(prefix + ".weight"),
            model.weight(prefix + ".bias"),
            model.weight(dense + ".bias"),
        ]
        return node("SkipLayerNormalization", product, residual, *weights, domain=CONTRIB, epsilon=epsilon)

    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        matrix = constant(np.concatenate([model.weights[part + ".weight"].T for part in parts], axis=1))
        bias = constant(np.concatenate([model.weights[part + ".bias"] for part in parts]))
        heads = config["num_attention_heads"]
        mixed = node("Attention", hidden, matrix, bias, "attention_mask", domain=CONTRIB, num_heads=heads)
        dense, after = prefix + ".attention.output.dense", prefix + ".attention.output.LayerNorm"
        hidden = skip_layer_norm(mixed, hidden, dense, after)
        wide = node("MatMul", hidden, model.matrix(prefix + ".intermediate.dense"))
        wide = node("BiasGelu", wide, model.weight(prefix + ".intermediate.dense.bias"), domain=CONTRIB)
        hidden = skip_layer_norm(wide, hidden, prefix + ".output.dense", prefix + ".output.LayerNorm")
    return model.pooled(hidden).SerializeToString()
