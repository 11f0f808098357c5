"""Training: losses, gradients of regressions, steps of optimisers."""

from __future__ import annotations

from typing import Any

from ..formulas import log_softmax, logistic, total
from ..workload import Family, flags, normal, positions, positive

family = Family("training")


# Losses.
def binary_cross_entropy(lib: Any, x: Any, labels: Any) -> Any:
    """Return the mean cross entropy of logits and truth values."""
    return lib.mean(lib.maximum(x, 0.0) - x * labels + lib.log(1 + lib.exp(-lib.abs(x))))


def huber(lib: Any, x: Any, y: Any) -> Any:
    """Return the mean of Huber's loss."""
    distance = lib.abs(x - y)
    return lib.mean(lib.where(distance < 1, 0.5 * distance * distance, distance - 0.5))


def focal(lib: Any, x: Any) -> Any:
    """Return focal losses of logits."""
    chance = logistic(lib, x)
    return -(1 - chance) * (1 - chance) * lib.log(chance + 1e-6)


def cross_entropy_of_jax(jax: Any, scores: Any, labels: Any) -> Any:
    """Return the mean cross entropy, which JAX has no function for."""
    return -jax.numpy.mean(jax.numpy.take_along_axis(jax.nn.log_softmax(scores, -1), labels[:, None], 1))


def add_cross_entropy(rows: int, classes: int, jax: Any = None) -> None:
    """Add a cross entropy of scores and classes."""
    family.add(
        f"cross entropy {rows}x{classes}", [normal(rows, classes), positions(classes, rows)],
        lambda jn, scores, labels: jn.cross_entropy(scores, labels),
        torch=lambda torch, scores, labels: torch.nn.functional.cross_entropy(scores, labels),
        jax=jax,
    )  # fmt: skip


add_cross_entropy(1000, 1000)
add_cross_entropy(512, 10_000, cross_entropy_of_jax)
family.add_program("binary cross entropy", [normal(500_000), flags(500_000, dtype="float32")], binary_cross_entropy)
family.add_program("Huber loss", [normal(1_000_000), normal(1_000_000)], huber)
family.add_program("focal loss", [normal(300_000)], focal)


def smoothed_cross_entropy(lib: Any, scores: Any, labels: Any) -> Any:
    """Return the mean cross entropy of scores and chances, which are drawn towards equal ones."""
    return -lib.mean(lib.sum((labels * 0.9 + 0.0001) * log_softmax(lib, scores), axis=1))


def contrast(lib: Any, x: Any, y: Any) -> Any:
    """Return the mean logarithm of the sums of exponentials of all rows' similarities."""
    scores = x @ lib.transpose(y) * (0.01 / 0.07)
    powers = lib.exp(scores - lib.max(scores, axis=1, keepdims=True))
    return lib.mean(lib.log(lib.sum(powers, axis=1)) + lib.max(scores, axis=1))


def triplet(lib: Any, x: Any, near: Any, far: Any) -> Any:
    """Return by how much rows are not nearer to the ones than to the others, in the mean."""
    to_near, to_far = (lib.sqrt(lib.sum((x - each) * (x - each), axis=1)) for each in (near, far))
    return lib.mean(lib.maximum(to_near - to_far + 0.2, 0.0))


def divergence(lib: Any, mean: Any, variance: Any) -> Any:
    """Return the mean divergence of normal distributions from the standard one; `variance` has logarithms."""
    return -0.5 * lib.mean(lib.sum(1.0 + variance - mean * mean - lib.exp(variance), axis=1))


def clipped_policy(lib: Any, new: Any, old: Any, gains: Any) -> Any:
    """Return the loss of proximal policy optimisation."""
    ratio = lib.exp(new - old)
    return -lib.mean(lib.minimum(ratio * gains, lib.clip(ratio, 0.8, 1.2) * gains))


def discounted(lib: Any, rewards: Any) -> Any:
    """Return the sums of what follows each of eight steps, the later the less."""
    sums = [
        total(rewards[:, step] if step == first else rewards[:, step] * 0.95 ** (step - first) for step in range(first, 8))
        for first in range(8)
    ]
    return lib.stack(sums, axis=1)


family.add_program("cross entropy of smoothed labels 256x1000", [normal(256, 1000)] * 2, smoothed_cross_entropy)
family.add_program("contrast of 256 and 256 rows of 128", [normal(256, 128)] * 2, contrast)
family.add_program("triplet loss of 4096 rows of 128", [normal(4096, 128)] * 3, triplet)
family.add_program("divergence from a normal distribution 512x256", [normal(512, 256)] * 2, divergence)
family.add_program(
    "samples of a normal distribution 512x256", [normal(512, 256)] * 3,
    lambda lib, mean, variance, noise: mean + lib.exp(0.5 * variance) * noise,
)  # fmt: skip
family.add_program(
    "clipped policy loss", [normal(65_536, scale=0.1), normal(65_536, scale=0.1), normal(65_536)], clipped_policy
)
family.add_program("discounted rewards of eight steps", [normal(1024, 8)], discounted)
family.add_program(
    "images mixed with others of the batch", [normal(64, 3, 64, 64)], lambda lib, x: x * 0.7 + lib.flip(x, axis=0) * 0.3
)


# Gradients of regressions.
def linear_gradient(lib: Any, x: Any, weight: Any, y: Any) -> Any:
    """Return the gradient of a linear regression."""
    return lib.transpose(x) @ (x @ weight - y)


def logistic_gradient(lib: Any, x: Any, weight: Any, labels: Any) -> Any:
    """Return the gradient of a logistic regression."""
    return (logistic(lib, x @ weight) - labels) @ x / 4000.0


family.add_program("gradient of a linear regression", [normal(10_000, 64), normal(64), normal(10_000)], linear_gradient)
family.add_program(
    "gradient of a logistic regression", [normal(4000, 64), normal(64), flags(4000, dtype="float32")], logistic_gradient
)


# Optimisers.
def adam(lib: Any, weight: Any, mean: Any, square: Any, gradient: Any) -> Any:
    """Return weights and moments after a step of Adam."""
    mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient * gradient
    return weight - 0.001 * mean / (lib.sqrt(square) + 1e-8), mean, square


def adam_with_correction(lib: Any, weight: Any, gradient: Any, mean: Any, square: Any) -> Any:
    """Return weights and moments after the first step of Adam, corrected for where they began."""
    mean, square = mean * 0.9 + gradient * 0.1, square * 0.999 + gradient * gradient * 0.001
    return weight - 1e-3 * (mean / 0.1) / (lib.sqrt(square / 0.001) + 1e-8), mean, square


family.add_program("Adam, 500000 weights", [normal(500_000), normal(500_000), positive(500_000), normal(500_000)], adam)
family.add_program(
    "Adam with correction, 1000000 weights", [normal(1_000_000), normal(1_000_000), normal(1_000_000), positive(1_000_000)],
    adam_with_correction,
)  # fmt: skip
family.add_program(
    "gradients clipped by their norm", [normal(1_000_000)],
    lambda lib, x: x * (1 / lib.maximum(lib.sqrt(lib.sum(x * x)), 1.0)),
)  # fmt: skip


def momentum(weight: Any, mean: Any, gradient: Any) -> tuple[Any, Any]:
    """Return weights and momentum after a step of gradient descent."""
    mean = 0.9 * mean + gradient
    return weight - 0.01 * mean, mean


family.add_operators("gradient descent with momentum, 1000000 weights", [normal(1_000_000)] * 3, momentum)
family.add_operators(
    "moving averages of 2000000 weights", [normal(2_000_000)] * 2, lambda x, y: x * 0.999 + y * 0.001
)
family.add_program(
    "ratio of two norms 1000x1000", [normal(1000, 1000)] * 2,
    lambda lib, x, y: lib.sqrt(lib.sum(x * x)) / lib.sqrt(lib.sum(y * y)),
)  # fmt: skip
