"""What a planted bug is: a kernel, its launch, the same with one fault, and what the sanitizer has to find."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Empty:
    """Memory that nothing has written, as `torch.empty` gives it."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Addresses:
    """A table of the addresses of arrays. `stale`: positions whose array is gone when the kernel runs."""

    arrays: tuple[Array, ...]
    stale: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """A launch of a kernel that is right, and what it computes.

    args: in the order of the kernel's parameters, constexprs left out. expected: what arrays hold afterwards. faulty: what the
    launch with the fault has in place of `grid` or of arguments; without it, the kernel's constexpr FAULT is what differs.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: Mapping[str, Any]
    expected: Mapping[str, Array]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    faulty: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5

    @property
    def has_switch(self) -> bool:
        """Whether the kernel itself has the fault, as its constexpr FAULT says."""
        return "FAULT" in self.kernel.arg_names

    def launch(self, is_faulty: bool) -> tuple[tuple[int, ...], dict[str, Any], dict[str, Any]]:
        """The grid, arguments, and constexprs of a launch."""
        changed = self.faulty if is_faulty else {}
        constexprs = {**self.constexprs, **({"FAULT": is_faulty} if self.has_switch else {})}
        args = {name: changed.get(name, value) for name, value in self.args.items()}
        return changed.get("grid", self.grid), args, constexprs


Make = Callable[[], Case]


@dataclass(frozen=True)
class Planted:
    """A planted bug.

    kind, program: of the finding. line: the one that it names, which ends in the comment `# found: NAME`. about: the fault, and
    how it shows on a GPU.
    """

    name: str
    about: str
    kind: str
    program: tuple[int, int, int]
    file: str
    line: int
    make: Make
    is_recorded: bool


BUGS: dict[str, Planted] = {}


def planted(kind: str, program: Sequence[int], is_recorded: bool = True) -> Callable[[Make], Make]:
    """Register a function that makes a case. Its docstring says what the fault is, and how it shows on a GPU."""

    def register(make: Make) -> Make:
        name = make.__name__
        file = Path(inspect.getfile(make))
        lines = file.read_text(encoding="utf-8").splitlines()
        (line,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# found: {name}")]
        x, y, z = (*program, 0, 0)[:3]
        about = " ".join((make.__doc__ or "").split())
        BUGS[name] = Planted(name, about, kind, (x, y, z), file.name, line, make, is_recorded)
        return make

    return register


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))
