"""The objects of the fake CUDA driver: allocations, streams, loaded code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joinery.runtime.ptxsim.launch import Module


@dataclass
class Block:
    """An allocation, or a variable of a module."""

    device: int
    address: int
    size: int
    pooled: bool
    data: np.ndarray[Any, Any]
    is_freed: bool = False
    is_variable: bool = False


@dataclass
class Stream:
    device: int
    todo: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0
    recorded: list[Callable[[], None]] | None = None


@dataclass(eq=False)
class Loaded:
    device: int
    module: Module
    addresses: dict[str, int]
    is_initialised: bool = False


@dataclass
class Function:
    loaded: Loaded
    kernel: Any
    dynamic: int = 48 << 10
