"""Defines a workload: inputs, and one computation written for joinery and for each peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by name then)
import numpy as np

from . import PEERS
from .libraries import NUMPY, jax_library, torch_library

Arrays = Callable[[], list[np.ndarray]]
Kind = Callable[[np.random.Generator], np.ndarray]
"""Draws one input."""
Build = Callable[..., Any]


def nothing() -> list[np.ndarray]:
    """Return no arrays."""
    return []


@dataclass(frozen=True, slots=True)
class Workload:
    """One computation. `joinery`, `torch` and `jax` take the library's module before the inputs, `numpy` the inputs alone.

    Attributes:
        name: what the command selects it by; no other workload has it.
        family: the heading under which it is summed up.
        arrays: draws the inputs, the same ones whenever it is called.
        tolerance: the relative error in the 2-norm that floats may have; by the dtype of the result where it is None.
        differing: the share of integers that may differ: those that are rounded from floats, or positions of computed numbers.
        constants: draws weights, which all functions take after the inputs. They are constants of joinery's graph and of JAX's.
        compared: whether values are compared, not shapes alone; they are not where numbers are random.
    """

    name: str
    family: str
    arrays: Arrays
    joinery: Build
    numpy: Build | None = None
    torch: Build | None = None
    jax: Build | None = None
    tolerance: float | None = None
    differing: float = 0.0
    constants: Arrays = nothing
    compared: bool = True

    @property
    def peers(self) -> tuple[str, ...]:
        """The libraries that it is written for, beside joinery."""
        return tuple(name for name in PEERS if getattr(self, name) is not None)


class Family:
    """Collects workloads under one heading."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.workloads: list[Workload] = []

    def add(
        self, name: str, inputs: Sequence[Kind], joinery: Build, constants: Sequence[Kind] = (), **others: Any
    ) -> None:
        """Add a workload whose functions are written one by one."""
        weights = draw(constants, seed=1)
        self.workloads.append(Workload(name, self.name, draw(inputs), joinery, constants=weights, **others))

    def add_operators(self, name: str, inputs: Sequence[Kind], operation: Build, **others: Any) -> None:
        """Add a workload of Python's operators and slices alone, which are the same for all libraries."""

        def with_module(_module: Any, *values: Any) -> Any:
            return operation(*values)

        self.add(name, inputs, with_module, numpy=operation, torch=with_module, jax=with_module, **others)

    def add_program(self, name: str, inputs: Sequence[Kind], program: Build, **others: Any) -> None:
        """Add a workload that is one text for all libraries: `program` takes the functions by joinery's names (`libraries.py`)
        and the inputs. `others` may have a better text for one of them."""
        functions = {
            "numpy": lambda *values: program(NUMPY, *values),
            "torch": lambda torch, *values: program(torch_library(torch), *values),
            "jax": lambda jax, *values: program(jax_library(jax), *values),
        }
        self.add(name, inputs, program, **(functions | others))


def draw(kinds: Sequence[Kind], seed: int = 0) -> Arrays:
    """Return a function that draws one array of each kind, the same ones in every call."""

    def arrays() -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        return [kind(random) for kind in kinds]

    return arrays


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Kind:
    """Draw from the normal distribution; of complex numbers both parts."""

    def kind(random: np.random.Generator) -> np.ndarray:
        if dtype == "complex64":
            values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
        elif dtype == "float64":
            values = random.standard_normal(shape)
        else:
            values = random.standard_normal(shape, dtype=np.float32)
        return (values if scale == 1.0 else values * scale).astype(dtype)

    return kind


def positive(*shape: int, dtype: str = "float32") -> Kind:
    """Draw numbers from 0.1 on."""
    return lambda random: (np.abs(normal(*shape, dtype=dtype)(random)) + 0.1).astype(dtype)


def ascending(*shape: int, dtype: str = "float32", axis: int = -1) -> Kind:
    """Draw numbers that are sorted along an axis."""
    return lambda random: np.sort(normal(*shape, dtype=dtype)(random), axis=axis)


def uniform(*shape: int, dtype: str = "float32", low: float = 0.0, high: float = 1.0) -> Kind:
    """Draw floats from `low` on, below `high`."""
    return lambda random: (random.random(shape) * (high - low) + low).astype(dtype)


def integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Kind:
    """Draw integers from `low` on, below `high`."""
    return lambda random: random.integers(low, high, shape).astype(dtype)


def counting(count: int, dtype: str = "int32") -> Kind:
    """Give the integers from 0 on, below `count`."""
    return lambda _random: np.arange(count, dtype=dtype)


def in_order(kind: Kind) -> Kind:
    """Sort what a kind draws."""
    return lambda random: np.sort(kind(random))


def positions(count: int, *shape: int) -> Kind:
    """Draw indices into an axis of `count` elements."""
    return integers(0, count, *shape, dtype="int64")


def pixels(*shape: int) -> Kind:
    """Draw bytes."""
    return integers(0, 256, *shape, dtype="uint8")


def flags(*shape: int, dtype: str = "bool") -> Kind:
    """Draw truth values, half of them true."""
    return lambda random: (random.random(shape) < 0.5).astype(dtype)


def ones(*shape: int, dtype: str = "float32") -> Kind:
    """Give ones."""
    return lambda _random: np.ones(shape, dtype)


def zeros(*shape: int, dtype: str = "float32") -> Kind:
    """Give zeros."""
    return lambda _random: np.zeros(shape, dtype)


def extents(shape: Sequence[int]) -> str:
    """Write a shape as names have it."""
    return "x".join(map(str, shape))
