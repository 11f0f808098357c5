"""Evaluates all-MiniLM-L6-v2 in float64 NumPy: an independent witness for the compiled model, without joinery.

Written from the definition of the BERT encoder (Devlin et al., 2019) and of the sentence embedding (mean over
the real tokens, then unit length). It is deliberately a different program from `examples/minilm.py`: there is
no batch and no mask. Every sentence is evaluated by itself, on its unmasked tokens only: padding cannot leak.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[np.float64]


def embed(model_dir: Path, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Array:
    """Computes sentence embeddings, float64, shape (batch, hidden). A row without any real token embeds to zeros."""
    config = json.loads((model_dir / "config.json").read_text())
    weights = {k: w.astype(np.float64) for k, w in load_file(model_dir / "model.safetensors").items()}
    rows = []
    for ids, mask in zip(input_ids, attention_mask, strict=True):
        positions = np.flatnonzero(mask)
        rows.append(_embed_sentence(ids[positions], positions, weights, config))
    return np.array(rows).reshape(len(rows), config["hidden_size"])


def _embed_sentence(
    ids: NDArray[np.int64], positions: NDArray[np.intp], weights: dict[str, Array], config: dict[str, Any]
) -> Array:
    if len(ids) == 0:
        return np.zeros(config["hidden_size"])
    epsilon = config["layer_norm_eps"]
    tokens = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][positions]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    tokens = _layer_norm(tokens, weights, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        mixed = _attention(tokens, weights, prefix + ".attention.self", config["num_attention_heads"])
        mixed = _linear(mixed, weights, prefix + ".attention.output.dense")
        tokens = _layer_norm(tokens + mixed, weights, prefix + ".attention.output.LayerNorm", epsilon)
        wide = _gelu(_linear(tokens, weights, prefix + ".intermediate.dense"))
        narrow = _linear(wide, weights, prefix + ".output.dense")
        tokens = _layer_norm(tokens + narrow, weights, prefix + ".output.LayerNorm", epsilon)
    mean = tokens.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _attention(tokens: Array, weights: dict[str, Array], prefix: str, heads: int) -> Array:
    query, key, value = (_linear(tokens, weights, f"{prefix}.{part}") for part in ("query", "key", "value"))
    size = tokens.shape[1] // heads
    result = np.empty_like(tokens)
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        scores = query[:, columns] @ key[:, columns].T / math.sqrt(size)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        result[:, columns] = (scores / scores.sum(axis=1, keepdims=True)) @ value[:, columns]
    return result


def _linear(x: Array, weights: dict[str, Array], prefix: str) -> Array:
    return x @ weights[prefix + ".weight"].T + weights[prefix + ".bias"]


def _layer_norm(x: Array, weights: dict[str, Array], prefix: str, epsilon: float) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = np.mean(np.square(centred), axis=1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * weights[prefix + ".weight"] + weights[prefix + ".bias"]


def _gelu(x: Array) -> Array:
    """Computes x · Φ(x) with the C library's erf (accurate to one unit in the last place of float64)."""
    scaled = (x / math.sqrt(2.0)).ravel()
    erf = np.fromiter(map(math.erf, scaled.tolist()), dtype=np.float64, count=scaled.size).reshape(x.shape)
    return 0.5 * x * (1.0 + erf)
