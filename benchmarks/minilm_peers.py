"""Builds all-MiniLM-L6-v2 for torch (eager) and JAX (jit), from the same weights as the other contenders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

LOWEST = float(np.finfo(np.float32).min)


def configuration(model_dir: Path) -> dict[str, Any]:
    return dict(json.loads((model_dir / "config.json").read_text()))


def torch_minilm(torch: Any, model_dir: Path) -> Callable[[Any, Any], Any]:
    """Returns embed(input_ids, attention_mask) with torch's layer norm, gelu and scaled dot-product attention."""
    functional = torch.nn.functional
    config = configuration(model_dir)
    arrays = load_file(model_dir / "model.safetensors")
    weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
    hidden_size, heads, epsilon = (
        config["hidden_size"],
        config["num_attention_heads"],
        config["layer_norm_eps"],
    )

    def linear(x: Any, prefix: str) -> Any:
        return functional.linear(x, weights[prefix + ".weight"], weights[prefix + ".bias"])

    def layer_norm(x: Any, prefix: str) -> Any:
        scale, bias = weights[prefix + ".weight"], weights[prefix + ".bias"]
        return functional.layer_norm(x, (hidden_size,), scale, bias, epsilon)

    def embed(input_ids: Any, attention_mask: Any) -> Any:
        batch, seq = input_ids.shape
        x = weights["embeddings.word_embeddings.weight"][input_ids]
        x = x + weights["embeddings.position_embeddings.weight"][:seq]
        x = layer_norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        real = attention_mask.to(torch.float32)
        bias = ((1.0 - real) * LOWEST)[:, None, None, :]
        for layer in range(config["num_hidden_layers"]):
            prefix = f"encoder.layer.{layer}"
            query, key, value = (
                linear(x, f"{prefix}.attention.self.{part}").view(batch, seq, heads, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
            mixed = mixed.transpose(1, 2).reshape(batch, seq, hidden_size)
            mixed = linear(mixed, prefix + ".attention.output.dense")
            x = layer_norm(x + mixed, prefix + ".attention.output.LayerNorm")
            wide = functional.gelu(linear(x, prefix + ".intermediate.dense"))
            x = layer_norm(x + linear(wide, prefix + ".output.dense"), prefix + ".output.LayerNorm")
        column = real[:, :, None]
        mean = (x * column).sum(1) / column.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=1)

    return embed


def jax_minilm(jax: Any, model_dir: Path) -> Callable[[Any, Any], Any]:
    """Returns embed(input_ids, attention_mask), to be jitted; the weights are constants of the program."""
    jnp = jax.numpy
    config = configuration(model_dir)
    weights = load_file(model_dir / "model.safetensors")
    dense = [name for name in weights if name.startswith("encoder.") and weights[name].ndim == 2]
    matrices = {name: np.ascontiguousarray(weights[name].T) for name in dense}
    hidden_size, heads, epsilon = (
        config["hidden_size"],
        config["num_attention_heads"],
        config["layer_norm_eps"],
    )
    head_size = hidden_size // heads

    def linear(x: Any, prefix: str) -> Any:
        return x @ matrices[prefix + ".weight"] + weights[prefix + ".bias"]

    def layer_norm(x: Any, prefix: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt(variance + epsilon)
        return scaled * weights[prefix + ".weight"] + weights[prefix + ".bias"]

    def embed(input_ids: Any, attention_mask: Any) -> Any:
        batch, seq = input_ids.shape
        x = jnp.asarray(weights["embeddings.word_embeddings.weight"])[input_ids]
        x = x + weights["embeddings.position_embeddings.weight"][:seq]
        x = layer_norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        real = attention_mask.astype(jnp.float32)
        bias = ((1.0 - real) * LOWEST)[:, None, None, :]
        for layer in range(config["num_hidden_layers"]):
            prefix = f"encoder.layer.{layer}"
            query, key, value = (
                linear(x, f"{prefix}.attention.self.{part}").reshape(batch, seq, heads, head_size)
                for part in ("query", "key", "value")
            )
            scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.float32(np.sqrt(head_size)) + bias
            mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)
            mixed = linear(mixed.reshape(batch, seq, hidden_size), prefix + ".attention.output.dense")
            x = layer_norm(x + mixed, prefix + ".attention.output.LayerNorm")
            wide = jax.nn.gelu(linear(x, prefix + ".intermediate.dense"), approximate=False)
            x = layer_norm(x + linear(wide, prefix + ".output.dense"), prefix + ".output.LayerNorm")
        column = real[:, :, None]
        mean = (x * column).sum(axis=1) / jnp.maximum(column.sum(axis=1), 1e-9)
        return mean / jnp.maximum(jnp.linalg.norm(mean, axis=1, keepdims=True), 1e-12)

    return embed
