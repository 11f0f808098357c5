"""Writes random kernels that multiply blocks: masks of any side, accumulators of any type, with or without a
loop over k."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
SIDES = ("a_rows", "a_depth", "b_depth", "b_columns", "c_rows", "c_columns")
"""The masks that a kernel may have: of A along m and k, of B along k and n, and of the store along m and n."""


@dataclass(frozen=True)
class Product:
    """Programs of m rows: C[2 m, n] = C0 + A[2 m, turns · depth] B[turns · depth, n].

    masks: those of `SIDES` that the text has; each compares with its own axis' limit.  turned: B is loaded as its transpose.
    loaded: C0 is the former content of the output array, else zero.  after: every iteration subtracts C from 1, so that
    the loop is no product and no zero is negative: the sign of a product's zeros is not defined.
    """

    m: int
    n: int
    depth: int
    turns: int
    elem: str
    total: str
    masks: frozenset[str]
    turned: bool
    loaded: bool
    after: bool

    @staticmethod
    def random(seed: int, columns: tuple[int, ...] = (16, 32, 64, 128), wide: bool = False) -> Product:
        rng = random.Random(seed)
        elem = rng.choice(["f16", "f16", "bf16", "f32", *(["f64"] if wide else [])])
        total = rng.choice([elem, "f32"]) if elem != "f64" else elem
        shared = rng.random() < 0.3
        masks = {side for side in SIDES if rng.random() < 0.5}
        if shared:  # as texts are usually written
            masks = {side for side in SIDES if side[2:] != "depth"} | {"a_depth", "b_depth"}
        sizes = rng.choice([16, 32, 64]), rng.choice(columns), rng.choice([16, 32]), rng.choice([1, 2, 3, 9])
        turned, loaded, after = (rng.random() < 0.3 for _ in range(3))
        return Product(*sizes, elem, total, frozenset(masks), turned, loaded, after)

    def _block(self, name: str, sizes: tuple[int, int], rows: str, columns: str, stride: str) -> list[str]:
        """Writes pointers %p{name} to a block with the given lines of row and column indices."""
        shape = f"{sizes[0]}x{sizes[1]}"
        elem = self.total if name == "c" else self.elem
        return [
            f"%{name}r = tt.expand_dims {rows} {{axis = 1 : i32}} : tensor<{sizes[0]}xi32> -> tensor<{sizes[0]}x1xi32>",
            f"%{name}k = tt.expand_dims {columns} {{axis = 0 : i32}} : tensor<{sizes[1]}xi32> -> tensor<1x{sizes[1]}xi32>",
            f"%{name}s = tt.splat {stride} : i32 -> tensor<{sizes[0]}x1xi32>",
            f"%{name}o = arith.muli %{name}r, %{name}s : tensor<{sizes[0]}x1xi32>",
            f"%{name}rw = tt.broadcast %{name}o : tensor<{sizes[0]}x1xi32> -> tensor<{shape}xi32>",
            f"%{name}kw = tt.broadcast %{name}k : tensor<1x{sizes[1]}xi32> -> tensor<{shape}xi32>",
            f"%{name}at = arith.addi %{name}rw, %{name}kw : tensor<{shape}xi32>",
            f"%{name}b = tt.splat %{name} : !tt.ptr<{elem}> -> tensor<{shape}x!tt.ptr<{elem}>>",
            f"%p{name} = tt.addptr %{name}b, %{name}at : tensor<{shape}x!tt.ptr<{elem}>>, tensor<{shape}xi32>",
        ]

    def _mask(self, name: str, sizes: tuple[int, int], limits: tuple[str, str]) -> tuple[list[str], str]:
        """Writes code that compares both indices of a block with limits ("" for none); returns it and the
        mask's name."""
        shape, lines, found = f"{sizes[0]}x{sizes[1]}", [], []
        for axis, limit in enumerate(limits):
            if limit:
                flat = f"{sizes[0]}x1" if axis == 0 else f"1x{sizes[1]}"
                each = f"%{name}m{axis}"
                lines += [
                    f"{each}l = tt.splat {limit} : i32 -> tensor<{flat}xi32>",
                    f"{each}f = arith.cmpi slt, %{name}{'rk'[axis]}, {each}l : tensor<{flat}xi32>",
                    f"{each} = tt.broadcast {each}f : tensor<{flat}xi1> -> tensor<{shape}xi1>",
                ]
                found.append(each)
        if len(found) == 2:
            lines.append(f"%{name}m = arith.andi {found[0]}, {found[1]} : tensor<{shape}xi1>")
            found = [f"%{name}m"]
        return lines, found[0] if found else ""

    def _load(self, name: str, sizes: tuple[int, int], pointer: str, mask: tuple[list[str], str]) -> list[str]:
        block = f"tensor<{sizes[0]}x{sizes[1]}x"
        other = f", {mask[1]}, %{name}z" if mask[1] else ""
        return [*mask[0], f"%{name}z = arith.constant dense<0.0> : {block}{self.elem}>",
                f"%{name}v = tt.load {pointer}{other} : {block}!tt.ptr<{self.elem}>>"]  # fmt: skip

    def text(self) -> str:
        m, n, depth, elem, total = self.m, self.n, self.depth, self.elem, self.total
        size_b = (n, depth) if self.turned else (depth, n)
        shape_b = f"{size_b[0]}x{size_b[1]}"
        block_c = f"tensor<{m}x{n}x{total}>"
        pointers = f"tensor<{m}x{depth}x!tt.ptr<{elem}>>, tensor<{size_b[0]}x{size_b[1]}x!tt.ptr<{elem}>>"
        has = {side: side in self.masks for side in SIDES}
        limits_b = ("%left" if has["b_depth"] else "", "%ln" if has["b_columns"] else "")
        mask_a = self._mask("a", (m, depth), ("%lm" if has["a_rows"] else "", "%left" if has["a_depth"] else ""))
        mask_b = self._mask("b", size_b, limits_b[::-1] if self.turned else limits_b)
        mask_c = self._mask("c", (m, n), ("%lm" if has["c_rows"] else "", "%ln" if has["c_columns"] else ""))
        first = f"%first = arith.constant dense<0.0> : {block_c}"
        if self.loaded:
            first = f"%first = tt.load %pc : tensor<{m}x{n}x!tt.ptr<{total}>>"
        factor = "%bt" if self.turned else "%bv"
        types = f"tensor<{n}x{depth}x{elem}> -> tensor<{depth}x{n}x{elem}>"
        turn = [f"%bt = tt.trans %bv {{order = array<i32: 1, 0>}} : {types}"] if self.turned else []
        less = [f"%ones = arith.constant dense<1.0> : {block_c}", f"%y = arith.subf %ones, %d : {block_c}"]
        result = "%y" if self.after else "%d"
        lines = [
            "%none = arith.constant 0 : i32", "%one = arith.constant 1 : i32", f"%step = arith.constant {depth} : i32",
            "%id = tt.get_program_id x : i32", f"%high = arith.constant {m} : i32", "%start = arith.muli %id, %high : i32",
            f"%m0 = tt.make_range {{start = 0 : i32, end = {m} : i32}} : tensor<{m}xi32>",
            f"%starts = tt.splat %start : i32 -> tensor<{m}xi32>", f"%rm = arith.addi %m0, %starts : tensor<{m}xi32>",
            f"%rn = tt.make_range {{start = 0 : i32, end = {n} : i32}} : tensor<{n}xi32>",
            f"%rk = tt.make_range {{start = 0 : i32, end = {depth} : i32}} : tensor<{depth}xi32>",
            *self._block("a", (m, depth), "%rm", "%rk", "%sa"),
            *self._block("b", size_b, *(("%rn", "%rk") if self.turned else ("%rk", "%rn")), "%sb"),
            *self._block("c", (m, n), "%rm", "%rn", "%sc"),
            first,
            f"%stepa = arith.constant dense<{depth}> : tensor<{m}x{depth}xi32>",
            f"%moved = arith.{'addi %step, %none' if self.turned else 'muli %sb, %step'} : i32",
            f"%stepb = tt.splat %moved : i32 -> tensor<{size_b[0]}x{size_b[1]}xi32>",
            f"%r:4 = scf.for %i = %none to %turns step %one iter_args(%qa = %pa, %qb = %pb, %acc = %first, %left = %lk) "
            f"-> ({pointers}, {block_c}, i32) : i32 {{",
            *self._load("a", (m, depth), "%qa", mask_a), *self._load("b", size_b, "%qb", mask_b), *turn,
            f"%d = tt.dot %av, {factor}, %acc, inputPrecision = ieee : tensor<{m}x{depth}x{elem}> * tensor<{depth}x{n}x{elem}> "
            f"-> {block_c}",
            *(less if self.after else []),
            f"%na = tt.addptr %qa, %stepa : tensor<{m}x{depth}x!tt.ptr<{elem}>>, tensor<{m}x{depth}xi32>",
            f"%nb = tt.addptr %qb, %stepb : tensor<{shape_b}x!tt.ptr<{elem}>>, tensor<{shape_b}xi32>",
            "%less = arith.subi %left, %step : i32",
            f"scf.yield %na, %nb, {result}, %less : {pointers}, {block_c}, i32",
            "}",
            *mask_c[0],
            f"tt.store %pc, %r#2{', ' + mask_c[1] if mask_c[1] else ''} : tensor<{m}x{n}x!tt.ptr<{total}>>",
            "tt.return",
        ]  # fmt: skip
        scalars = ", ".join(f"%{name}: i32" for name in ("sa", "sb", "sc", "lm", "ln", "lk", "turns"))
        head = f"tt.func public @f(%a: !tt.ptr<{elem}>, %b: !tt.ptr<{elem}>, %c: !tt.ptr<{total}>, {scalars}) {{"
        return "\n".join(["module {", head, *lines, "}", "}"])

    def arguments(self, seed: int) -> list[Any]:
        """Returns matrices of whole numbers, whose sums are exact in float32 in any order, with infinities and NaN in random
        positions; and limits of rows, columns and k anywhere in their range."""
        rng = np.random.default_rng(seed)
        k = self.depth * self.turns
        large = int(rng.choice([3, 60]))  # sums of large ones are rounded by 16-bit accumulators

        def matrix(shape: tuple[int, int], elem: str, odd: float) -> Any:
            values = rng.integers(-large, large + 1, shape).astype(np.float64)
            places = rng.random(shape) < odd
            values[places] = rng.choice([np.inf, -np.inf, np.nan], int(places.sum()))
            return values.astype(NUMPY[elem])

        odd = float(rng.choice([0.0, 0.5 / k, 2 / k]))
        a = matrix((2 * self.m, k), self.elem, odd)
        b = matrix((self.n, k) if self.turned else (k, self.n), self.elem, odd)
        limits = [int(rng.integers(0, 2 * self.m + 1)), int(rng.integers(0, self.n + 1)), int(rng.integers(0, k + 1))]
        for array, axis, limit in ((a, 1, limits[2]), (b, 1 if self.turned else 0, limits[2]), (a, 0, limits[0]),
                                   (b, 0 if self.turned else 1, limits[1])):  # fmt: skip
            if rng.random() < 0.4:  # elements that a mask of the other operand leaves out
                beyond = array[limit:] if axis == 0 else array[:, limit:]
                beyond[rng.random(beyond.shape) < 0.3] = rng.choice([np.inf, np.nan])
        c = matrix((2 * self.m, self.n), self.total, 0.0)
        return [a, b, c, a.shape[1], b.shape[1], self.n, *limits, self.turns]
