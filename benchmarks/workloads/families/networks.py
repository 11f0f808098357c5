"""Parts of neural networks: softmax, normalisations, channels, tokens, attention, positions, recurrent cells, quantization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..formulas import log_softmax, logistic, softmax, standardised
from ..workload import Family, counting, flags, integers, normal, positions, positive

family = Family("networks")


# Softmax.
def add_softmax(shape: tuple[int, ...], axis: int, dtype: str = "float32") -> None:
    """Add a softmax that is one function everywhere."""
    family.add(
        f"softmax {dtype} {shape[0]}x{shape[1]} axis {axis}", [normal(*shape, dtype=dtype)],
        lambda jn, x: jn.softmax(x, axis=axis),
        torch=lambda torch, x: torch.softmax(x, axis),
        jax=lambda jax, x: jax.nn.softmax(x, axis=axis),
    )  # fmt: skip


def masked_softmax(lib: Any, x: Any, mask: Any) -> Any:
    """Return a softmax of the scores that a mask has."""
    return softmax(2)(lib, lib.where(mask, x, x * 0 - 1e9))


add_softmax((2000, 1000), 1)
for rows, classes in ((200_000, 5), (100_000, 10), (50_000, 20), (64, 32_000)):
    add_softmax((rows, classes), 1)
add_softmax((1000, 1000), 0)
add_softmax((512, 1000), 1, "bfloat16")
family.add_program("softmax by its formula 16x128x128 axis 2", [normal(16, 128, 128)], softmax(2))
family.add_program("softmax by its formula 64x50x64 axis 1", [normal(64, 50, 64)], softmax(1))
for rows, classes in ((64, 32_000), (256, 8000)):
    size, scores = f"{rows}x{classes}", normal(rows, classes)
    family.add_program(f"softmax by its formula {size} axis 1", [scores], softmax(1))
    family.add_program(f"softmax of x / 0.7 {size} axis 1", [scores], softmax(1, lambda x: x / 0.7))
family.add_program("softmax of x * 1.4 64x32000 axis 1", [normal(64, 32_000)], softmax(1, lambda x: x * 1.4))
family.add_program("masked softmax 16x128x128", [normal(16, 128, 128), flags(16, 128, 128)], masked_softmax)
family.add_program("log softmax by its formula 512x1000", [normal(512, 1000)], log_softmax)
family.add(
    "causal softmax 16x256x256", [normal(16, 256, 256)],
    lambda jn, x: jn.softmax(jn.where(jn.tril(jn.ones_like(x)) > 0.5, x, -1e9), axis=-1),
    torch=lambda torch, x: torch.softmax(x.masked_fill(~torch.ones(256, 256, dtype=torch.bool).tril(), -1e9), -1),
    jax=lambda jax, x: jax.nn.softmax(jax.numpy.where(jax.numpy.tril(jax.numpy.ones((256, 256), bool)), x, -1e9), -1),
)  # fmt: skip
family.add_program(
    "gradient of softmax 1024x1000", [normal(1024, 1000), normal(1024, 1000)],
    lambda lib, y, gradient: y * (gradient - lib.sum(y * gradient, axis=1, keepdims=True)),
)  # fmt: skip


# Normalisations.
def layer_norm_of_jax(jax: Any, x: Any, scale: Any, bias: Any) -> Any:
    """Return a layer norm, which JAX has no function for."""
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def group_norm(lib: Any, x: Any) -> Any:
    """Return a group norm without weights."""
    return lib.reshape(standardised(lib, lib.reshape(x, (8, 8, 4 * 28 * 28)), 2, 1e-5), (8, 32, 28, 28))


def layer_norm_gradient(module: Any, rsqrt: Any, x: Any, gradient: Any, scale: Any) -> Any:
    """Return the gradient of a layer norm's input."""

    def mean(values: Any) -> Any:
        return module.mean(values, axis=1, keepdims=True)

    deviations = x - mean(x)
    factor = rsqrt(mean(deviations * deviations) + 1e-5)
    unit, scaled = deviations * factor, gradient * scale
    return factor * (scaled - mean(scaled) - unit * mean(scaled * unit))


family.add(
    "layer norm 2048x768", [normal(2048, 768), normal(768), normal(768)],
    lambda jn, x, scale, bias: jn.layer_norm(x, scale, bias),
    torch=lambda torch, x, scale, bias: torch.nn.functional.layer_norm(x, (768,), scale, bias),
    jax=layer_norm_of_jax,
)  # fmt: skip
family.add(
    "layer norm bfloat16 1024x768", [normal(1024, 768, dtype="bfloat16")],
    lambda jn, x: jn.layer_norm(x),
    torch=lambda torch, x: torch.nn.functional.layer_norm(x, (768,)),
)  # fmt: skip
family.add(
    "gradient of layer norm 1024x768", [normal(1024, 768), normal(1024, 768), normal(768)],
    lambda jn, *values: layer_norm_gradient(jn, jn.rsqrt, *values),
    jax=lambda jax, *values: layer_norm_gradient(jax.numpy, jax.lax.rsqrt, *values),
)  # fmt: skip
family.add(
    "RMS norm 2048x768", [normal(2048, 768), normal(768)],
    lambda jn, x, scale: jn.rms_norm(x, scale),
    torch=lambda torch, x, scale: torch.nn.functional.rms_norm(x, (768,), scale),
    jax=lambda jax, x, scale: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale,
)  # fmt: skip
family.add_program(
    "RMS norm by its formula 512x1024", [normal(512, 1024), normal(1024)],
    lambda lib, x, scale: x / lib.sqrt(lib.mean(x * x, axis=1, keepdims=True) + 1e-6) * scale,
)  # fmt: skip
family.add_program(
    "batch norm and relu 8x64x56x56", [normal(8, 64, 56, 56), normal(1, 64, 1, 1), normal(1, 64, 1, 1)],
    lambda lib, x, scale, bias: lib.maximum(x * scale + bias, 0),
)  # fmt: skip
family.add_program(
    "bias and relu 8x64x56x56", [normal(8, 64, 56, 56), normal(64)],
    lambda lib, x, bias: lib.maximum(x + lib.reshape(bias, (1, 64, 1, 1)), 0.0),
)  # fmt: skip
family.add(
    "group norm 8x64x32x32", [normal(8, 64, 32, 32), normal(64), normal(64)],
    lambda jn, x, scale, bias: jn.group_norm(x, 8, scale, bias),
    torch=lambda torch, x, scale, bias: torch.nn.functional.group_norm(x, 8, scale, bias),
)  # fmt: skip
family.add_program("group norm by its formula 8x32x28x28", [normal(8, 32, 28, 28)], group_norm)
family.add_program(
    "instance norm by its formula 8x784x64", [normal(8, 784, 64)], lambda lib, x: standardised(lib, x, 1, 1e-5)
)
family.add_program(
    "layer norm of a sum with bias 512x768", [normal(512, 768), normal(512, 768), normal(768)],
    lambda lib, x, y, bias: standardised(lib, x + y + bias, 1, 1e-5),
)  # fmt: skip
family.add_program(
    "rows of 128 over their 2-norms, 5000", [normal(5000, 128)],
    lambda lib, x: x / lib.sqrt(lib.sum(x * x, axis=1, keepdims=True)),
)  # fmt: skip
family.add_program(
    "rows of 128 over their 2-norms, 20000", [normal(20_000, 128)],
    lambda lib, x: x / lib.sqrt(lib.sum(x * x, axis=1, keepdims=True) + 1e-12),
)  # fmt: skip
family.add_program(
    "rows of 64 over their 2-norms, 12x256", [normal(12, 256, 64)],
    lambda lib, x: x / lib.sqrt(lib.sum(x * x, axis=2, keepdims=True) + 1e-6),
)  # fmt: skip


# Channels, tokens, rows of different lengths.
def per_channel(lib: Any, x: Any) -> Any:
    """Return numbers of channels with axes for the pixels."""
    return lib.unsqueeze(lib.unsqueeze(x, 2), 3)


def squeezed_and_excited(lib: Any, x: Any, down: Any, up: Any) -> Any:
    """Return channels times gates, which two products make of their means."""
    hidden = lib.maximum(lib.mean(x, axis=(2, 3)) @ down, 0.0)
    return x * per_channel(lib, logistic(lib, hidden @ up))


def masked_means(lib: Any, x: Any, mask: Any) -> Any:
    """Return means of the tokens that a mask has."""
    count = lib.maximum(lib.sum(mask, axis=1, keepdims=True), 1.0)
    return lib.sum(x * lib.unsqueeze(mask, 2), axis=1) / count


def embedded(lib: Any, table: Any, tokens: Any, places: Any) -> Any:
    """Return rows of a table with those of their places, less their means."""
    x = lib.gather(table, tokens) + places
    return x - lib.mean(x, axis=1, keepdims=True)


family.add_program(
    "scale and bias of channels 16x64x32x32", [normal(16, 64, 32, 32), normal(16, 64), normal(16, 64)],
    lambda lib, x, scale, bias: x * per_channel(lib, scale) + per_channel(lib, bias),
)  # fmt: skip
family.add_program(
    "squeeze and excitation 8x64x56x56", [normal(8, 64, 56, 56), normal(64, 16), normal(16, 64)], squeezed_and_excited
)
family.add_program(
    "means of masked tokens 32x128x384", [normal(32, 128, 384), flags(32, 128, dtype="float32")], masked_means
)
family.add_program(
    "embedding and positions, less their means", [normal(10_000, 256), positions(10_000, 512), normal(512, 256)], embedded
)
family.add_program(
    "rows of 512 cut to their lengths", [normal(256, 512), integers(0, 512, 256)],
    lambda lib, x, lengths, places: lib.where(lib.unsqueeze(places, 0) < lib.unsqueeze(lengths, 1), x, 0.0),
    constants=[counting(512)],
)  # fmt: skip
family.add_program(
    "values of actions less their means", [normal(4096, 1), normal(4096, 18)],
    lambda lib, value, gains: value + gains - lib.mean(gains, axis=1, keepdims=True),
)  # fmt: skip


# Attention.
def add_attention(batch: int, heads: int, queries: int, keys: int, extent: int, causal: bool = False) -> None:
    """Add attention, which is written out for JAX."""
    scale = 1 / math.sqrt(extent)

    def jax(jax: Any, query: Any, key: Any, value: Any) -> Any:
        scores = query @ jax.numpy.swapaxes(key, 2, 3) * scale
        if causal:
            scores = jax.numpy.where(jax.numpy.tril(jax.numpy.ones((queries, keys), bool)), scores, -jax.numpy.inf)
        return jax.nn.softmax(scores, -1) @ value

    shapes = ((batch, heads, queries, extent), (batch, heads, keys, extent), (batch, heads, keys, extent))
    sizes = f"{batch}x{heads}x{queries}x{extent}" if queries == keys else f"{batch}x{heads}x{queries}x{extent}, {keys} keys"
    family.add(
        f"attention {sizes}{', causal' if causal else ''}", [normal(*shape) for shape in shapes],
        lambda jn, *values: jn.attention(*values, is_causal=causal),
        torch=lambda torch, *values: torch.nn.functional.scaled_dot_product_attention(*values, is_causal=causal),
        jax=jax,
    )  # fmt: skip


add_attention(1, 12, 512, 512, 64)
for numbers in ((8, 12, 128, 64), (1, 12, 1024, 64), (1, 32, 256, 128), (64, 4, 49, 32)):
    for masked in (False, True):
        add_attention(*numbers[:3], *numbers[2:], causal=masked)
add_attention(1, 32, 1, 2048, 128)
family.add_program(
    "softmax by its formula times values 256x256x64", [normal(256, 256), normal(256, 64)],
    lambda lib, scores, values: softmax(1)(lib, scores) @ values,
)  # fmt: skip


# Rotary positions.
def rotated(half: int, axis: int, spread: int | None) -> Any:
    """Return a program that turns pairs of halves. `spread`: an axis that cosines and sines lack."""

    def program(lib: Any, x: Any, cosines: Any, sines: Any) -> Any:
        if spread is not None:
            cosines, sines = lib.unsqueeze(cosines, spread), lib.unsqueeze(sines, spread)
        low, high = x[..., :half], x[..., half:]
        return lib.concat([low * cosines - high * sines, high * cosines + low * sines], axis=axis)

    return program


family.add_program("rotary positions 8x512x8x64", [normal(8, 512, 8, 64), normal(512, 32), normal(512, 32)], rotated(32, 3, 1))
family.add_program("rotary positions 512x8x64", [normal(512, 8, 64), *[normal(512, 1, 32)] * 2], rotated(32, 2, None))
family.add_program("rotary positions 16x256x64", [normal(16, 256, 64), normal(256, 32), normal(256, 32)], rotated(32, 2, None))
family.add_program(
    "halves turned for rotary positions 16x128x64", [normal(16, 128, 64)],
    lambda lib, x: lib.concat([-x[:, :, 32:], x[:, :, :32]], axis=2),
)  # fmt: skip


# Gates and recurrent cells.
def gated_half(lib: Any, x: Any) -> Any:
    """Return one half of each row, times silu of the other."""
    gate, value = x[:, :1024], x[:, 1024:]
    return gate / (1 + lib.exp(-gate)) * value


def lstm_gates(lib: Any, gates: Any, cell: Any) -> Any:
    """Return the next cell of an LSTM."""
    kept = logistic(lib, gates[:, 256:512]) * cell
    return kept + logistic(lib, gates[:, :256]) * lib.tanh(gates[:, 512:768])


def gru_cell(lib: Any, x: Any, hidden: Any, weight: Any, hidden_weight: Any) -> Any:
    """Return the next state of a gated recurrent unit."""
    new, old = x @ weight, hidden @ hidden_weight
    update = logistic(lib, new[:, :256] + old[:, :256])
    reset = logistic(lib, new[:, 256:512] + old[:, 256:512])
    return (1 - update) * lib.tanh(new[:, 512:] + reset * old[:, 512:]) + update * hidden


def lstm_step(sigmoid: Any, tanh: Any, state: tuple[Any, Any], gates: Any) -> tuple[Any, Any]:
    """Return hidden state and cell after a step."""
    _hidden, cell = state
    kept = sigmoid(gates[:, 128:256]) * cell
    cell = kept + sigmoid(gates[:, :128]) * tanh(gates[:, 256:384])
    return sigmoid(gates[:, 384:]) * tanh(cell), cell


def lstm_of_joinery(jn: Any, x: Any, weight: Any, hidden_weight: Any) -> Any:
    """Return the hidden states of an LSTM."""
    weight, hidden_weight = jn.transpose(weight), jn.transpose(hidden_weight)

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        hidden, cell = state[:, :128], state[:, 128:]
        hidden, cell = lstm_step(jn.sigmoid, jn.tanh, (hidden, cell), now @ weight + hidden @ hidden_weight)
        return jn.concat([hidden, cell], 1), hidden

    return jn.scan(step, x.graph.constant(np.zeros((32, 256), np.float32)), x)[1]


def lstm_of_jax(jax: Any, x: Any, weight: Any, hidden_weight: Any) -> Any:
    """Return the hidden states of an LSTM."""

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        state = lstm_step(jax.nn.sigmoid, jax.numpy.tanh, state, now @ weight.T + state[0] @ hidden_weight.T)
        return state, state[0]

    start = jax.numpy.zeros((32, 128), "float32")
    return jax.lax.scan(step, (start, start), x)[1]


def lstm_of_torch(torch: Any, x: Any, weight: Any, hidden_weight: Any) -> Any:
    """Return the hidden states of an LSTM."""
    start = torch.zeros(1, 32, 128)
    return torch.lstm(x, (start, start), (weight, hidden_weight), False, 1, 0.0, False, False, False)[0]


family.add_program("silu-gated halves 512x2048", [normal(512, 2048)], gated_half)
family.add_program("gates of an LSTM 64x1024", [normal(64, 1024), normal(64, 256)], lstm_gates)
family.add_program(
    "cell of a GRU 64x256",
    [normal(64, 256), normal(64, 256), normal(256, 768, scale=0.05), normal(256, 768, scale=0.05)],
    gru_cell,
)
family.add(
    "LSTM of 64 steps, 32x128", [normal(64, 32, 128)], lstm_of_joinery,
    torch=lstm_of_torch, jax=lstm_of_jax, constants=[normal(512, 128, scale=0.05), normal(512, 128, scale=0.05)],
)  # fmt: skip


# Quantization, random numbers.
def quantized(lib: Any, x: Any) -> Any:
    """Return rows as int8 with a scale of their own."""
    scaled = x / lib.max(lib.abs(x), axis=1, keepdims=True) * 127.0
    return lib.cast(lib.clip(lib.round(scaled), -128, 127), "int8")


family.add_program("rows quantized to int8", [normal(1000, 1000)], quantized, differing=1e-3)
family.add_program(
    "scales of rows in int8", [normal(1024, 1024)], lambda lib, x: lib.max(lib.abs(x), axis=1) / 127.0
)
family.add_program(
    "rows in int8 to float32", [integers(-128, 127, 1024, 1024, dtype="int8"), positive(1024)],
    lambda lib, x, scales: lib.cast(x, "float32") * lib.unsqueeze(scales, 1),
)  # fmt: skip
family.add(
    "uniform random numbers", [normal(1_000_000)],
    lambda jn, x: jn.random_uniform(x),
    torch=lambda torch, x: torch.rand(1_000_000),
    jax=lambda jax, x: jax.random.uniform(jax.random.key(0), (1_000_000,), dtype="float32"),
    compared=False,
)  # fmt: skip
