"""Handles mixtures of experts: a router chooses for each token which of several small networks compute its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....promotion.dtype import float32, float64, int64, uint8
from ....functions.activations import gelu, silu, softmax
from ....functions.building import apply
from ....functions.control.branches import cond
from ....functions.control.loops import scan
from ....functions.linalg import matmul
from ....functions.ordered.sorting import top_k
from ....functions.positions import counting
from ....functions.reductions import any_, sum_
from ....functions.shaping import flip
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from .fused import unpacked

_DOMAIN = "com.microsoft"


@handles("MoE", domain=_DOMAIN)
def mixture_of_experts(node: Node) -> Result:
    """Add up what the best experts of each token compute, times how sure the router is of them."""
    return _mixture(node, {"fc1": node[2], "fc2": node[4]}, {"fc1": node.get(3), "fc2": node.get(5)})


@handles("QMoE", domain=_DOMAIN)
def quantised_mixture_of_experts(node: Node) -> Result:
    """Do what MoE does, with weights of 2, 4 or 8 bits that have a scale for each row, or for each block of one.

    onnxruntime 1.32 divides by the sum of the best weights on the CPU whatever normalize_routing_weights says; here it counts.
    """
    node.require(node.attr("quant_type", "int") == "int", f"quant_type {node.attr('quant_type', 'int')!r}", "integers")
    layout = node.attr("weights_prepacked", -1)
    node.require(layout in (-1, 0), f"weights_prepacked {layout}, a layout of GPUs", "weights_prepacked=0")
    node.ignore("accuracy_level")  # how much less precise than this it may be
    bits = node.attr("expert_weight_bits", 4)
    weights = {
        name: _dequantised(node, position, zero, node.attr(f"{name}_expert_weight_bits", bits))
        for name, position, zero in (("fc1", 2, 11), ("fc2", 5, 12))
    }
    return _mixture(node, weights, {"fc1": node.get(4), "fc2": node.get(7)})


def _dequantised(node: Node, position: int, zero: int, bits: int) -> Symbol:
    """Return weights (experts, rows, columns) in float32."""
    packed, scales, block = node[position], node[position + 1].cast(float32), node.attr("block_size", 0)
    node.require(bits in (2, 4, 8) and packed.dtype is uint8, f"weights of {bits} bits in {packed.dtype}", "2, 4 or 8 bits")
    node.require(len(packed.shape) == 3, f"weights of {len(packed.shape)} axes; (experts, rows, bytes) are expected")
    codes = unpacked(packed, bits)
    experts, rows, columns = codes.shape
    blocked = len(scales.shape) == 3
    fits = blocked is (block > 0) and len(scales.shape) in (2, 3)
    node.require(fits, f"block_size {block}, scales of {len(scales.shape)} axes")
    blocks = scales.shape[2] if blocked else 1
    width = block if blocked else columns
    node.graph.shape_checks.require_equal(columns, width * blocks, "blocks of a row of weights")
    if node.has(zero):
        given = unpacked(node[zero], bits)
        middle = (given[..., :blocks] if blocked else given[:, :rows]).cast(float32)
    else:
        middle = node.graph.scalar(float(1 << (bits - 1)), float32)
    wide = codes.cast(float32).reshape((experts, rows, blocks, width))
    shape = (experts, rows, blocks, 1)
    middle = middle.reshape(shape) if node.has(zero) else middle
    return apply("mul", apply("sub", wide, middle), scales.reshape(shape)).reshape((experts, rows, columns))


def _activation(node: Node) -> Callable[[Symbol], Symbol]:
    """Return what stands between the two products of an expert."""
    name = node.attr("activation_type", "relu")
    numbers = [float(node.attr(*each)) for each in (("activation_alpha", 1.0), ("activation_beta", 0.0))]
    limit, fusion = node.attr("swiglu_limit", None), node.attr("swiglu_fusion", 0)
    node.require(not node.attr("swiglu_limit_after_activation", 0), "swiglu_limit_after_activation", "leave it out")

    def gated(x: Symbol) -> Symbol:
        """Multiply one half of the columns with a gate, which the other half is."""
        alpha, beta = numbers
        half = x.shape[-1] // 2
        gate, value = (x[:, 0::2], x[:, 1::2]) if fusion == 1 else (x[:, :half], x[:, half:])
        if limit is not None:
            most = float(limit)
            gate = apply("minimum", gate, most)
            value = apply("maximum", apply("minimum", value, most), -most)
        return apply("mul", apply("mul", gate, apply("sigmoid", apply("mul", gate, alpha))), apply("add", value, beta))

    if name == "swiglu":
        node.require(fusion in (1, 2), "swiglu with its gate in weights of their own (swiglu_fusion 0)", "swiglu_fusion=1")
        return gated
    plain: dict[str, Callable[[Symbol], Symbol]] = {
        "relu": lambda x: apply("relu", x), "gelu": lambda x: gelu(x, "tanh"), "silu": silu, "identity": lambda x: x,
    }  # fmt: skip
    if name not in plain:
        node.unsupported(f"the activation {name!r}", "relu, gelu, silu, swiglu or identity")
    return plain[name]


def _mixture(node: Node, weights: dict[str, Symbol], biases: dict[str, Symbol | None]) -> Symbol:
    """Return the results of all tokens. Experts run one after another, those that no token chose not at all."""
    node.require(not node.attr("use_sparse_mixer", 0), "use_sparse_mixer", "leave it out")
    given, activate = node[0], _activation(node)
    node.require(len(given.shape) in (2, 3), f"tokens of {len(given.shape)} axes; 2 or 3 are expected")
    for name, each in weights.items():
        node.require(len(each.shape) == 3, f"{name} has {len(each.shape)} axes; (experts, rows, columns) are expected")
    wide = float64 if given.dtype is float64 else float32
    x = given.reshape((-1, given.shape[-1])).cast(wide)
    gates = _gates(node, node[1].cast(wide))
    given_biases = {f"{name} bias": each for name, each in biases.items() if each is not None}
    slices: dict[str, Any] = {
        name: node.agreeing(each.cast(wide), (gates.shape[1], *(None,) * (len(each.shape) - 1)), name)
        for name, each in {**weights, **given_biases}.items()
    }
    slices["gate"] = gates.transpose()

    def layer(x: Symbol, own: dict[str, Symbol], name: str) -> Symbol:
        result = matmul(x, own[name].transpose())
        return apply("add", result, own[f"{name} bias"]) if f"{name} bias" in own else result

    def step(total: Symbol, own: dict[str, Symbol]) -> tuple[Symbol, None]:
        gate = own["gate"]

        def used() -> Symbol:
            result = layer(activate(layer(x, own, "fc1")), own, "fc2")
            return apply("add", total, apply("mul", result, gate.reshape((gate.shape[0], 1))))

        return cond(any_(apply("not_equal", gate, 0.0)), used, lambda: total), None

    nothing = apply("broadcast_to", node.graph.scalar(0.0, wide), shape=(x.shape[0], weights["fc2"].shape[1]))
    total, _ = scan(step, nothing, slices)
    result: Symbol = total.reshape(given.shape).cast(given.dtype)
    return result


def _gates(node: Node, scores: Symbol) -> Symbol:
    """Return what each expert counts for each token, 0 for those that are not among its best; of equal ones the last are."""
    count = node.attr("k", 1)
    node.require(len(scores.shape) == 2, f"router_probs of {len(scores.shape)} axes; (tokens, experts) are expected")
    (experts,) = node.static_sizes(scores.shape[1:], "a row of router_probs")
    node.require(0 < count <= experts, f"the best {count} of {experts} experts")
    values, positions = top_k(flip(softmax(scores, 1), 1), count, 1)
    if node.attr("normalize_routing_weights", 0):
        values = apply("div", values, sum_(values, 1, True, scores.dtype))
    chosen = apply("sub", experts - 1, positions)
    tokens = scores.shape[0]
    is_it = apply("equal", chosen.reshape((tokens, count, 1)), counting(scores.graph, experts).cast(int64))
    zero = scores.graph.scalar(0.0, scores.dtype)
    return sum_(apply("where", is_it, values.reshape((tokens, count, 1)), zero), 1, dtype=scores.dtype)
