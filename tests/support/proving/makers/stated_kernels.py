"""Makes kernels of what proofs take from texts and specifications: names, descriptors, functions that are called.

Parameters are named like positions, like each other without the numbers at the end, and like parts of descriptors, and
assumptions say the names that the text has. Arrays have more elements than their extents, which are the least. Tensor maps of
128 bytes are written and read in functions that are called, two calls deep.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import joinery as jn
import numpy as np

_ALIKE = [
    ["n_1", "n_2"], ["n", "n_1"], ["m.k"], ["a-b", "a_b"], ["a-1", "a_1"], ["d.shape.0", "d"], ["0", "argument_0"], ["0", "1"],
    ["arg1_1", "arg1"], ["arg2_", "arg2"], ["x"],
]  # fmt: skip
"""Names that are one without numbers and signs, and names that no parameter keeps."""
_OPTIONS = "{elem_type = 7 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 0 : i32}"
_LARGE = 48


class Launch(NamedTuple):
    """The arguments of one launch, by the names of the text."""

    grid: int
    arguments: list[Any]


class StatedKernel:
    """A kernel, a specification in the names of its text, and launches that it allows."""

    def __init__(self, rng: random.Random) -> None:
        """Draws a kernel: an index by a number, by the tensor of a descriptor, or a tensor map."""
        self._rng = rng
        self.extents: dict[str, Any] = {}
        self.assume: list[str] = []
        self.grid = rng.choice([1, 1, 2])
        self._parameters: list[tuple[str, str]] = []
        self._given: dict[str, Any] = {}
        self._callees: list[str] = []
        self.body: list[str] = []
        kind = rng.choice([self._number, self._number, self._tensor, self._map])
        kind()
        head = ", ".join([f"%{name}: {type_}" for name, type_ in self._parameters])
        body = "\n".join([f"  {line}" for line in self.body])
        callees = "\n".join(self._callees)
        self.text = f"module {{\n{callees}\ntt.func public @k({head}) {{\n{body}\n  tt.return\n}}\n}}\n"

    def launch(self) -> Launch:
        """Draws a launch that the specification allows, if names mean what they do in the text."""
        rng = self._rng
        arguments = []
        for name, type_ in self._parameters:
            given = self._given.get(name)
            value = given() if callable(given) else given
            if value is None:
                value = rng.choice([-1, 0, 1, 3, 7, 40, 100]) if type_ == "i32" else np.zeros(rng.choice([0, 1, 2]), np.int32)
            arguments.append(value)
        return Launch(self.grid, arguments)

    def _number(self) -> None:
        """Stores at an index that is bounded by name: in an array that has an extent by name."""
        rng = self._rng
        count = rng.randint(2, 4)
        pool = list(dict.fromkeys([name for group in rng.sample(_ALIKE, 2) for name in group]))
        pool += [name for name in [f"arg{at}" for at in range(count + 1)] if name not in pool]
        names = rng.sample(pool, count + 1)
        arrays = rng.randint(1, min(2, count))
        self._parameters = [(name, "i32" if at >= arrays else "!tt.ptr<i32>") for at, name in enumerate(names)]
        rng.shuffle(self._parameters)
        numbers = [name for name, type_ in self._parameters if type_ == "i32"]
        pointers = [name for name, type_ in self._parameters if type_ != "i32"]
        stated, used = self._pair(numbers)
        extended, stored = self._pair(pointers)
        size = rng.choice([4, 8])
        self.assume = [f"0 <= {stated} < {size}"]
        self.extents = {extended: size}
        self._given = {stated: lambda: rng.randrange(size), extended: lambda: np.zeros(size, np.int32)}
        self.body = [
            f"%at = tt.addptr %{stored}, %{used} : !tt.ptr<i32>, i32", "%v = tt.load %at : !tt.ptr<i32>",
        ]  # fmt: skip

    def _pair(self, names: list[str]) -> tuple[str, str]:
        """Draws a name that the specification says, and one that the kernel uses: what could be taken for it, or any."""
        rng = self._rng
        stated = rng.choice(names)
        at = {f"arg{position}": name for position, (name, _) in enumerate(self._parameters)}
        alike = [name for name in names if name != stated and name in (at.get(stated), stated.replace("-", "_"))]
        return stated, rng.choice(alike or names) if rng.random() < 0.7 else stated

    def _tensor(self) -> None:
        """Stores as far as a tensor reaches, whose array may have more elements than its extent."""
        rng = self._rng
        size = rng.choice([8, 16])
        shape = [0]

        def descriptor() -> jn.TensorDescriptor:
            tensor = np.zeros(rng.choice([size, size + 1, _LARGE]), np.int32)
            shape[0] = rng.choice([size // 2, tensor.size, tensor.size])
            return jn.TensorDescriptor(tensor, shape=[shape[0]], strides=[1])

        self._parameters = [("d", "!tt.tensordesc<4xi32>"), ("x", "!tt.ptr<i32>"), ("n", "i32")]
        self._given = {"d": descriptor, "x": lambda: np.zeros(size, np.int32), "n": lambda: shape[0]}
        self.assume = ["n == d.shape.0", "d.stride.0 == 1", "n >= 1", *rng.choice([[], [f"n <= {size}"]])]
        if len(self.assume) > 3:
            self._given["d"] = lambda: _bounded(rng, size, shape)
        if rng.random() < 0.2:  # the assumptions are about that parameter
            self._parameters.append(("d.shape.0", "i32"))
            stated = rng.choice([size // 2, size, _LARGE if len(self.assume) < 4 else 1])
            self._given |= {"n": lambda: stated, "d.shape.0": lambda: stated}
        self.extents = {"x": size, **rng.choice([{"d": size}, {"d": size}, {}])}
        self.grid = 1
        self.body = [
            "%zero = arith.constant 0 : i32", "%one = arith.constant 1 : i32",
            "%b = tt.descriptor_load %d[%zero] : !tt.tensordesc<4xi32> -> tensor<4xi32>",
            "%last = arith.subi %n, %one : i32", "%at = tt.addptr %x, %last : !tt.ptr<i32>, i32",
            "tt.store %at, %n : !tt.ptr<i32>",
        ]  # fmt: skip

    def _map(self) -> None:
        """Writes, reads or fences a tensor map, in the kernel or in what it calls."""
        rng = self._rng
        step, depth = rng.choice([40, 80, 120, 128]), rng.randint(0, 2)
        size = rng.choice([step * self.grid, 128 * self.grid])
        types = "(!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32) -> ()"
        make = f"ttng.tensormap_create %w, %y, [%c8], [%c8], [], [%c1] {_OPTIONS} : {types}"
        read = "%r = ttng.reinterpret_tensor_descriptor %w : !tt.ptr<i8> to !tt.tensordesc<8xf32>"
        lines = ["%c1 = arith.constant 1 : i32", "%c8 = arith.constant 8 : i32", rng.choice([make, make, read])]
        for level in range(depth):
            body = "\n".join([f"  {line}" for line in lines])
            self._callees.append(f"tt.func private @f{level}(%w: !tt.ptr<i8>, %y: !tt.ptr<f32>) {{\n{body}\n  tt.return\n}}")
            lines = [f"tt.call @f{level}(%w, %y) : (!tt.ptr<i8>, !tt.ptr<f32>) -> ()"]
        self._parameters = [("ws", "!tt.ptr<i8> {tt.divisibility = 16 : i32}"), ("y", "!tt.ptr<f32>")]
        self._given = {"ws": lambda: _aligned(size), "y": lambda: np.zeros(8, np.float32)}
        self.extents = {"ws": size, "y": 8}
        self.body = [
            "%p = tt.get_program_id x : i32", f"%step = arith.constant {step} : i32", "%o = arith.muli %p, %step : i32",
            "%w = tt.addptr %ws, %o : !tt.ptr<i8>, i32", *lines,
        ]  # fmt: skip


def _bounded(rng: random.Random, size: int, shape: list[int]) -> jn.TensorDescriptor:
    """A descriptor of a tensor of at most `size` elements in a longer array; notes its extent."""
    shape[0] = rng.randint(1, size)
    return jn.TensorDescriptor(np.zeros(_LARGE, np.int32), shape=[shape[0]], strides=[1])


def _aligned(size: int) -> Any:
    memory = np.zeros(size + 64, np.int8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


__all__ = ["Launch", "StatedKernel"]
