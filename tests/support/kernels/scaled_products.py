"""Builds kernels with one tt.dot_scaled, and a float64 model of it with ml_dtypes."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np

RNG = np.random.default_rng(31)
# kind -> (type of the stored element, the number format)
KINDS = {
    "e4m3": ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
    "e5m2": ("f8E5M2", ml_dtypes.float8_e5m2),
    "e2m3": ("i8", ml_dtypes.float6_e2m3fn),
    "e3m2": ("i8", ml_dtypes.float6_e3m2fn),
    "e2m1": ("i8", ml_dtypes.float4_e2m1fn),
    "bf16": ("bf16", ml_dtypes.bfloat16),
    "fp16": ("f16", np.float16),
}
RESULTS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def block(shape, elem: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{elem}>"


class Case:
    """A kernel that reads all operands from memory, and the numbers behind them."""

    def __init__(self, a="e4m3", b="e4m3", m=16, n=8, k=64, scales="ab", group=32, batch=(), result="f32", packed="ab",
                 span=6, scale_type="i8"):  # fmt: skip
        self.result = result
        self.arrays: list[np.ndarray] = []
        self.lines: list[str] = []
        self.parameters: list[str] = []
        a_text, a_type, self.a = self.elements("a", a, (*batch, m, k), -1 if "a" in packed else -2)
        b_text, b_type, self.b = self.elements("b", b, (*batch, k, n), -2 if "b" in packed else -1)
        self.a_scale = self.b_scale = None
        if "a" in scales:
            text, type_, self.a_scale = self.scales("sa", (*batch, m, k // group), span, scale_type)
            a_text, a_type = f"{a_text} scale {text}", f"{a_type}, {type_}"
        if "b" in scales:
            text, type_, self.b_scale = self.scales("sb", (*batch, n, k // group), span, scale_type)
            b_text, b_type = f"{b_text} scale {text}", f"{b_type}, {type_}"
        self.group = group
        shape = (*batch, m, n)
        self.c = RNG.normal(size=shape).astype(RESULTS[result])
        c_text, c_type = self.load("c", self.c, shape, result)
        flags = "fastMath = false"
        flags += ", lhs_k_pack = false" if "a" not in packed else ""
        flags += ", rhs_k_pack = false" if "b" not in packed else ""
        self.operation = (
            f"%d = tt.dot_scaled {a_text}, {b_text}, {c_text} lhs = {a} rhs = {b} {{{flags}}} : {a_type} * {b_type} -> {c_type}"
        )
        self.lines.append(self.operation)
        count = int(np.prod(shape))
        self.parameters.append(f"%out: !tt.ptr<{result}>")
        self.lines += [
            f"%flat = tt.reshape %d : {c_type} -> {block((count,), result)}",
            f"%oi = tt.make_range {{start = 0 : i32, end = {count} : i32}} : {block((count,), 'i32')}",
            f"%op = tt.splat %out : !tt.ptr<{result}> -> tensor<{count}x!tt.ptr<{result}>>",
            f"%oq = tt.addptr %op, %oi : tensor<{count}x!tt.ptr<{result}>>, {block((count,), 'i32')}",
            f"tt.store %oq, %flat : tensor<{count}x!tt.ptr<{result}>>",
        ]
        body = "\n".join(self.lines)
        self.text = f"tt.func public @f({', '.join(self.parameters)}) {{\n{body}\ntt.return\n}}"
        self.shape = shape

    def load(self, name: str, array: np.ndarray, shape, elem: str) -> tuple[str, str]:
        count = int(np.prod(shape))
        memory = "i8" if array.dtype.itemsize == 1 else elem
        self.arrays.append(array.reshape(-1))
        self.parameters.append(f"%{name}_ptr: !tt.ptr<{memory}>")
        self.lines += [
            f"%{name}_i = tt.make_range {{start = 0 : i32, end = {count} : i32}} : {block((count,), 'i32')}",
            f"%{name}_p = tt.splat %{name}_ptr : !tt.ptr<{memory}> -> tensor<{count}x!tt.ptr<{memory}>>",
            f"%{name}_q = tt.addptr %{name}_p, %{name}_i : tensor<{count}x!tt.ptr<{memory}>>, {block((count,), 'i32')}",
            f"%{name}_l = tt.load %{name}_q : tensor<{count}x!tt.ptr<{memory}>>",
            f"%{name}_r = tt.reshape %{name}_l : {block((count,), memory)} -> {block(shape, memory)}",
        ]
        if memory == elem:
            return f"%{name}_r", block(shape, elem)
        self.lines.append(f"%{name}_b = tt.bitcast %{name}_r : {block(shape, memory)} -> {block(shape, elem)}")
        return f"%{name}_b", block(shape, elem)

    def elements(self, name: str, kind: str, shape, packed_axis: int) -> tuple[str, str, np.ndarray]:
        elem, number = KINDS[kind]
        if kind in ("bf16", "fp16"):
            values = RNG.normal(size=shape).astype(number)
            stored = values
        else:
            bits = 1 << {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(kind, 8)
            patterns = RNG.integers(0, bits, shape, dtype=np.uint8)
            values = patterns.view(number)
            patterns[~np.isfinite(values.astype(np.float32))] = 1
            stored = patterns
            if kind == "e2m1":
                moved = np.moveaxis(patterns, packed_axis, -1)
                stored = np.ascontiguousarray(np.moveaxis(moved[..., 0::2] | moved[..., 1::2] << 4, -1, packed_axis))
        text, type_ = self.load(name, stored, stored.shape, elem)
        return text, type_, values.astype(np.float64)

    def scales(self, name: str, shape, span: int, scale_type: str) -> tuple[str, str, np.ndarray]:
        stored = RNG.integers(127 - span, 128 + span, shape).astype(np.uint8)
        number = ml_dtypes.float8_e8m0fnu
        if scale_type != "i8":
            stored, number = RNG.integers(0x20, 0x48, shape).astype(np.uint8), ml_dtypes.float8_e4m3fn
        text, type_ = self.load(name, stored, shape, scale_type)
        return text, type_, stored.view(number).astype(np.float64)

    def expected(self) -> np.ndarray:
        a, b = self.a, self.b
        if self.a_scale is not None:
            a = a * np.repeat(self.a_scale, self.group, axis=-1)
        if self.b_scale is not None:
            b = b * np.swapaxes(np.repeat(self.b_scale, self.group, axis=-1), -1, -2)
        return a @ b + self.c.astype(np.float64)

    def check(self, **launch: Any) -> jn.kernel.Kernel:
        """Runs the kernel by the interpreter, and with these options of a launch; compares both with the model."""
        expected = self.expected()
        out = np.zeros(self.shape, RESULTS[self.result])
        interpreted, launched = out.copy(), out.copy()
        kernel = jn.kernel.from_ttir(self.text)
        kernel.interpret(1, *self.arrays, interpreted.reshape(-1))
        scale = np.abs(expected).max()
        unit = float(ml_dtypes.finfo(out.dtype).eps)
        np.testing.assert_allclose(interpreted.astype(np.float64), expected, rtol=unit, atol=scale * 1e-14)
        kernel.launch(1, *self.arrays, launched.reshape(-1), **launch)
        atol = scale * (1e-13 if self.result == "f64" else 3e-6)
        np.testing.assert_allclose(launched.astype(np.float64), expected, rtol=unit, atol=atol)
        return kernel
