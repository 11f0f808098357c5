"""Builds texts of matrix products in loops over k, in every arrangement of their operands."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
from joinery.runtime.ptxsim import Module

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i8": np.int8, "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@functools.lru_cache(maxsize=64)
def code_of(text: str, target: str, warps: int) -> Any:
    """Compiles a text, once for all the sizes and numbers that a test uses."""
    return jn.kernel.from_ttir(text).gpu_code(target, warps)


@dataclass(frozen=True)
class Product:
    """C[m, n] = A[m, k] B[k, n] in steps of `depth`; k is masked. Operands are row-major, or stored transposed.

    turned: blocks are loaded as their transpose and go through tt.trans.  facts: attributes of tt.dot.
    body: computes %y from %d, the product, in every iteration.  multiple: the known divisor of lda, ldb and k.
    """

    m: int
    n: int
    depth: int
    elem: str = "f16"
    total: str = "f32"
    a_transposed: bool = False
    b_transposed: bool = False
    facts: str = ""
    body: str = ""
    turned: bool = False
    multiple: int = 16

    def _block(self, name: str, rows: int, columns: int, transposed: bool) -> str:
        """Writes the pointers of a block and its masks' index along k; leading dimensions are %ld{name}."""
        elem, along_k = self.elem, int((name == "a") != self.turned)
        slow = int(transposed != self.turned)
        shape = (rows, columns)
        lines = []
        for axis, extent in enumerate(shape):
            flat, line = f"tensor<{rows}x1x" if axis == 0 else f"tensor<1x{columns}x", f"tensor<{extent}xi32>"
            lines += [
                f"%{name}r{axis} = tt.make_range {{start = 0 : i32, end = {extent} : i32}} : {line}",
                f"%{name}i{axis} = tt.expand_dims %{name}r{axis} {{axis = {1 - axis} : i32}} : {line} -> {flat}i32>",
            ]
            if axis == slow:
                lines += [
                    f"%{name}l{axis} = tt.splat %ld{name} : i32 -> {flat}i32>",
                    f"%{name}o{axis} = arith.muli %{name}i{axis}, %{name}l{axis} : {flat}i32>",
                ]
            used = f"%{name}o{axis}" if axis == slow else f"%{name}i{axis}"
            lines.append(f"%{name}w{axis} = tt.broadcast {used} : {flat}i32> -> tensor<{rows}x{columns}xi32>")
        pointers = f"tensor<{rows}x{columns}x!tt.ptr<{elem}>>"
        lines += [
            f"%{name}o = arith.addi %{name}w0, %{name}w1 : tensor<{rows}x{columns}xi32>",
            f"%{name}s = tt.splat %{name} : !tt.ptr<{elem}> -> {pointers}",
            f"%{name}p = tt.addptr %{name}s, %{name}o : {pointers}, tensor<{rows}x{columns}xi32>",
            f"%{name}step = arith.muli %{'ld' + name if along_k == slow else 'one'}, %depth : i32",
            f"%{name}steps = tt.splat %{name}step : i32 -> tensor<{rows}x{columns}xi32>",
            f"%{name}zero = arith.constant dense<{'0' if elem[0] == 'i' else '0.0'}> : tensor<{rows}x{columns}x{elem}>",
        ]
        return "\n".join(lines)

    def _load(self, name: str, rows: int, columns: int) -> str:
        along_k = int((name == "a") != self.turned)
        block, other = f"tensor<{rows}x{columns}x{self.elem}>", f"tensor<{columns}x{rows}x{self.elem}>"
        turn = f"%{name}x = tt.trans %{name}t {{order = array<i32: 1, 0>}} : {block} -> {other}\n"
        turn, pointers = turn if self.turned else "", f"tensor<{rows}x{columns}x!tt.ptr<{self.elem}>>"
        flat = f"tensor<1x{columns}x" if along_k else f"tensor<{rows}x1x"
        return (
            f"%{name}left = tt.splat %left : i32 -> {flat}i32>\n"
            f"%{name}small = arith.cmpi slt, %{name}i{along_k}, %{name}left : {flat}i32>\n"
            f"%{name}mask = tt.broadcast %{name}small : {flat}i1> -> tensor<{rows}x{columns}xi1>\n"
            f"%{name}{'t' if self.turned else 'x'} = tt.load %{name}now, %{name}mask, %{name}zero : {pointers}\n"
            f"%{name}then = tt.addptr %{name}now, %{name}steps : {pointers}, "
            f"tensor<{rows}x{columns}xi32>\n{turn}"
        )

    @property
    def text(self) -> str:
        m, n, depth, elem, total = self.m, self.n, self.depth, self.elem, self.total
        a, b, c = f"tensor<{m}x{depth}x", f"tensor<{depth}x{n}x", f"tensor<{m}x{n}x"
        sides = [(depth, m), (n, depth)] if self.turned else [(m, depth), (depth, n)]
        pa, pb = (f"tensor<{rows}x{columns}x!tt.ptr<{elem}>>" for rows, columns in sides)
        pc = f"{c}!tt.ptr<{total}>>"
        types = {name: f"!tt.ptr<{of}>" for name, of in (("a", elem), ("b", elem), ("c", total))}
        types |= dict.fromkeys(("lda", "ldb", "k"), "i32")
        known = {name: 16 if name in "abc" else self.multiple for name in types}
        parameters = ", ".join(f"%{name}: {of} {{tt.divisibility = {known[name]} : i32}}" for name, of in types.items())
        return f"""
tt.func public @product({parameters}) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %depth = arith.constant {depth} : i32
  %acc0 = arith.constant dense<{"0" if total == "i32" else "0.0"}> : {c}{total}>
{self._block("a", *sides[0], self.a_transposed)}
{self._block("b", *sides[1], self.b_transposed)}
  %out:4 = scf.for %i = %zero to %k step %depth iter_args(%anow = %ap, %bnow = %bp, %acc = %acc0, %left = %k)
      -> ({pa}, {pb}, {c}{total}>, i32) : i32 {{
{self._load("a", *sides[0])}
{self._load("b", *sides[1])}
    %{"d" if self.body else "y"} = tt.dot %ax, %bx, %acc{self.facts} : {a}{elem}> * {b}{elem}> -> {c}{total}>
{self.body}
    %rest = arith.subi %left, %depth : i32
    scf.yield %athen, %bthen, %y, %rest : {pa}, {pb}, {c}{total}>, i32
  }}
  %cr = tt.make_range {{start = 0 : i32, end = {m} : i32}} : tensor<{m}xi32>
  %ci = tt.expand_dims %cr {{axis = 1 : i32}} : tensor<{m}xi32> -> tensor<{m}x1xi32>
  %cn = arith.constant dense<{n}> : tensor<{m}x1xi32>
  %co = arith.muli %ci, %cn : tensor<{m}x1xi32>
  %cw = tt.broadcast %co : tensor<{m}x1xi32> -> {c}i32>
  %cs = tt.make_range {{start = 0 : i32, end = {n} : i32}} : tensor<{n}xi32>
  %cj = tt.expand_dims %cs {{axis = 0 : i32}} : tensor<{n}xi32> -> tensor<1x{n}xi32>
  %cv = tt.broadcast %cj : tensor<1x{n}xi32> -> {c}i32>
  %cwv = arith.addi %cw, %cv : {c}i32>
  %cp0 = tt.splat %c : !tt.ptr<{total}> -> {pc}
  %cp = tt.addptr %cp0, %cwv : {pc}, {c}i32>
  tt.store %cp, %out#2 : {pc}
  tt.return
}}
"""

    def matrices(self, k: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Returns A and B of small whole numbers, so that sums are exact in any order."""
        rng = np.random.default_rng([self.m, self.n, k])
        dtype = DTYPES[self.elem]
        return rng.integers(-2, 3, (self.m, k)).astype(dtype), rng.integers(-2, 3, (k, self.n)).astype(dtype)

    def launch(self, code: Any, a: Any, b: Any, **options: Any) -> np.ndarray[Any, Any]:
        """Returns C, simulated with the strictest checks."""
        stored = [np.ascontiguousarray(x.T if t else x) for x, t in ((a, self.a_transposed), (b, self.b_transposed))]
        c = np.full((self.m, self.n), 77, DTYPES[self.total])
        # an empty array has no address
        pointers = [x if x.size else np.zeros(16, x.dtype) for x in stored]
        ptx = options.pop("ptx", code.ptx)
        given = (*pointers, c, *(x.shape[1] for x in stored), a.shape[1])
        Module(ptx).kernel().launch((1, 1), None, given, shared=code.lowered.shared_bytes, level=3, **options)
        return c

    def code(self, warps: int = 4, target: str = "sm_90a") -> Any:
        return code_of(self.text, target, warps)
