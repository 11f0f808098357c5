"""Signals: Fourier transforms, complex numbers as pairs, filters and sums along time, samples and spectra of audio."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formulas import total
from ..workload import Family, integers, normal, positive

family = Family("signals")

family.add(
    "Fourier transforms of 1024 rows of 256", [normal(1024, 256, dtype="complex64")],
    lambda jn, x: jn.fft(x),
    numpy=np.fft.fft,
    torch=lambda torch, x: torch.fft.fft(x),
    jax=lambda jax, x: jax.numpy.fft.fft(x),
)  # fmt: skip
family.add(
    "Fourier transforms of 256 rows of 1024 real numbers", [normal(256, 1024)],
    lambda jn, x: jn.rfft(x),
    numpy=np.fft.rfft,
    torch=lambda torch, x: torch.fft.rfft(x),
    jax=lambda jax, x: jax.numpy.fft.rfft(x),
)  # fmt: skip
family.add_program(
    "products of pairs as complex numbers", [normal(300_000, 2), normal(300_000, 2)],
    lambda lib, x, y: lib.stack(
        [x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1], x[:, 0] * y[:, 1] + x[:, 1] * y[:, 0]], axis=1
    ),
)  # fmt: skip
family.add_program(
    "lengths of pairs", [normal(300_000, 2)], lambda lib, x: lib.sqrt(x[:, 0] * x[:, 0] + x[:, 1] * x[:, 1])
)


# Along time.
def filtered(x: Any, weights: Any, taps: int) -> Any:
    """Return sums of so many neighbours on the last axis, times weights."""
    count = x.shape[-1] - taps + 1
    return total(x[..., tap : tap + count] * weights[tap] for tap in range(taps))


def autocorrelation(module: Any, dot: Any, x: Any) -> Any:
    """Return dot products of a signal with itself, 0 to 31 steps later."""
    return module.stack([dot(x[:100_000], x[lag : lag + 100_000]) for lag in range(32)])


def medians_of_three(lib: Any, x: Any) -> Any:
    """Return medians of neighbours."""
    before, now, after = x[:-2], x[1:-1], x[2:]
    return lib.maximum(lib.minimum(before, now), lib.minimum(lib.maximum(before, now), after))


family.add_operators(
    "filter of 64 taps", [normal(100_063), normal(64, scale=0.1)], lambda x, weights: filtered(x, weights, 64)
)
family.add_operators(
    "exponential moving averages of 8 terms", [normal(500, 1007)],
    lambda x: filtered(x, [0.3 * 0.7 ** (7 - tap) for tap in range(8)], 8),
)  # fmt: skip
family.add(
    "autocorrelation, 32 lags", [normal(100_032)],
    lambda jn, x: autocorrelation(jn, lambda one, other: jn.sum(one * other), x),
    numpy=lambda x: autocorrelation(np, np.dot, x),
    torch=lambda torch, x: autocorrelation(torch, torch.dot, x),
    jax=lambda jax, x: autocorrelation(jax.numpy, jax.numpy.dot, x),
)  # fmt: skip
family.add_program("medians of three neighbours", [normal(1_000_002)], medians_of_three)
family.add_program(
    "running maxima of 8", [normal(200_007)],
    lambda lib, x: lib.max(lib.stack([x[tap : tap + 200_000] for tap in range(8)], axis=0), axis=0),
)  # fmt: skip
family.add_program(
    "zero crossings of rows of 16001", [normal(64, 16_001)],
    lambda lib, x: lib.sum(lib.cast(x[:, 1:] * x[:, :-1] < 0, "int32"), axis=1),
)  # fmt: skip


# Audio.
def frames(lib: Any, x: Any, window: Any) -> Any:
    """Return windows of 512 samples, each 128 after the one before."""
    quarters = [lib.reshape(x[128 * each : 128 * each + 128 * 996], (996, 128)) for each in range(4)]
    return lib.reshape(lib.stack(quarters, axis=1), (996, 512)) * window


family.add_program("frames of 512 samples in steps of 128", [normal(128_000), normal(512)], frames)
family.add_program(
    "root mean squares of frames of 400", [normal(1000, 400)], lambda lib, x: lib.sqrt(lib.mean(x * x, axis=1))
)
family.add_program(
    "decibels of a spectrum", [positive(400, 513)], lambda lib, x: 4.342944819 * lib.log(lib.maximum(x, 1e-10))
)
family.add_program(
    "logarithms of a mel spectrum", [positive(400, 257), positive(257, 80)],
    lambda lib, x, bank: lib.log(lib.maximum(x @ bank, 1e-6)),
)  # fmt: skip
family.add_program(
    "samples in int16 to float32", [integers(-9999, 9999, 500_000, 2, dtype="int16")],
    lambda lib, x: lib.cast(x, "float32") * 0.7 / 32768.0,
)  # fmt: skip
family.add_program(
    "two channels in int16 to one", [integers(-9999, 9999, 500_000, 2, dtype="int16")],
    lambda lib, x: (lib.cast(x[:, 0], "float32") + lib.cast(x[:, 1], "float32")) * 0.5,
)  # fmt: skip
family.add_program(
    "two tracks in int16 mixed and clipped", [integers(-32_768, 32_767, 500_000, dtype="int16")] * 2,
    lambda lib, x, y: lib.clip(lib.cast(x, "int32") + lib.cast(y, "int32"), -32_768, 32_767),
)  # fmt: skip
