"""tt.dot_scaled: the interpreter and the expansion (run on the host) against a float64 model made with ml_dtypes."""

from __future__ import annotations

import itertools

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.tt.expand_dot_scaled import expand_dot_scaled
from joinery.lowering.tt.interpret import find_function
from joinery.lowering.tt.text import parse, print_module
from joinery.lowering.tt.verify import verify

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

    def check(self) -> None:
        expected = self.expected()
        out = np.zeros(self.shape, RESULTS[self.result])
        interpreted, launched = out.copy(), out.copy()
        kernel = jn.kernel.from_ttir(self.text)
        kernel.interpret(1, *self.arrays, interpreted.reshape(-1))
        scale = np.abs(expected).max()
        unit = float(ml_dtypes.finfo(out.dtype).eps)
        np.testing.assert_allclose(interpreted.astype(np.float64), expected, rtol=unit, atol=scale * 1e-14)
        kernel.launch(1, *self.arrays, launched.reshape(-1))
        atol = scale * (1e-13 if self.result == "f64" else 3e-6)
        np.testing.assert_allclose(launched.astype(np.float64), expected, rtol=unit, atol=atol)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(KINDS, KINDS)))
def test_every_pair_of_kinds(a: str, b: str) -> None:
    Case(a, b).check()


@pytest.mark.parametrize("kind", ["e2m1", "e5m2", "fp16"])
@pytest.mark.parametrize("scales", ["", "a", "b"])
def test_scales_are_optional(kind: str, scales: str) -> None:
    Case(kind, "e4m3", scales=scales).check()


@pytest.mark.parametrize("packed", ["", "a", "b", "ab"])
def test_packing_along_every_axis(packed: str) -> None:
    Case("e2m1", "e2m1", m=4, n=16, packed=packed).check()


@pytest.mark.parametrize(("group", "scale_type"), [(16, "i8"), (16, "f8E4M3FN"), (32, "f8E4M3FN")])
def test_groups_and_float_scales(group: int, scale_type: str) -> None:
    Case("e2m1", "e2m1", group=group, scale_type=scale_type).check()


@pytest.mark.parametrize("result", list(RESULTS))
def test_results(result: str) -> None:
    Case("e2m1", "bf16", result=result, span=3).check()  # no sum beyond f16


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 32), (1, 8, 32), (8, 1, 64), (2, 2, 128), (32, 64, 256)])
def test_sizes(m: int, n: int, k: int) -> None:
    Case("e2m1", "e5m2", m=m, n=n, k=k).check()
    if m > 1:
        Case("e2m1", "e2m1", m=m, n=max(2, n), k=k, packed="").check()


def test_a_batch() -> None:
    Case("e2m1", "e2m1", batch=(4,)).check()
    Case("e4m3", "e2m1", batch=(2,), packed="").check()


def run_both(case: Case) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.zeros(case.shape, np.float32), np.zeros(case.shape, np.float32)
    kernel = jn.kernel.from_ttir(case.text)
    kernel.interpret(1, *case.arrays, first.reshape(-1))
    kernel.launch(1, *case.arrays, second.reshape(-1))
    return first, second


def test_the_extremes_of_a_scale() -> None:
    """e8m0: 0 is 2**-127, 254 is 2**127, 255 is NaN; elements are scaled in float32."""
    case = Case("e2m1", "e2m1", m=8, n=8, k=32)
    elements_a, scales_a, elements_b, scales_b, c = (case.arrays[i] for i in (0, 2, 1, 3, 4))
    elements_a[:], elements_b[:], c[:] = 0x11, 0x22, 0  # all 0.5 and all 1.0
    scales_a[:] = [0, 1, 127, 253, 254, 255, 0, 254]
    scales_b[:] = [127, 127, 127, 127, 127, 127, 254, 255]
    factor = np.ldexp(1.0, scales_a.astype(int) - 127)
    factor[5] = np.nan
    other = np.ldexp(1.0, scales_b.astype(int) - 127)
    other[7] = np.nan
    with np.errstate(over="ignore"):
        expected = (16 * factor[:, None] * other[None, :]).astype(np.float32)
    assert np.isnan(expected[5]).all()
    assert np.isnan(expected[:, 7]).all()
    assert np.isinf(expected[4, 6])
    assert expected[0, 0] == np.float32(2.0**-123)
    for found in run_both(case):
        np.testing.assert_array_equal(found, expected)


def test_elements_beyond_float32_after_scaling_are_infinite() -> None:
    case = Case("e4m3", "e4m3", m=8, n=8, k=32)
    a, b, a_scale, b_scale, c = case.arrays
    a[:], b[:], c[:] = 0x7E, 0x38, 0  # 448 and 1
    a_scale[:], b_scale[:] = 254, 0
    for found in run_both(case):
        assert np.isposinf(found).all()
    a_scale[:], a[:] = 0, 0x01  # 2**-9 · 2**-127: a denormal, kept
    b_scale[:] = 127
    for found in run_both(case):
        assert (found == np.float32(32 * 2.0**-136)).all()


def test_special_elements() -> None:
    """NaN and infinities of the 8-bit formats."""
    specials = (("e4m3", 0x7F, np.nan), ("e5m2", 0x7C, np.inf), ("e5m2", 0xFC, -np.inf), ("e5m2", 0x7D, np.nan))
    for kind, pattern, expected in specials:
        case = Case(kind, "e4m3", m=8, n=8, k=32)
        a, b, *_, c = case.arrays
        a[:], b[:], c[:] = 0, 0x38, 0
        a[0] = pattern
        for found in run_both(case):
            np.testing.assert_array_equal(found[0], np.full(8, expected, np.float32))
            assert (found[1:] == 0).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"scales": ""}, {"scales": "a"}, {"scales": "b"}, {"packed": "", "a": "e2m1", "b": "e2m1"}, {"batch": (2,)}],
)
def test_text(options) -> None:
    """Printed as it was written, and read back to the same."""
    case = Case(**options)
    module = parse(case.text)
    printed = print_module(module)
    assert case.operation.partition("tt.dot_scaled")[2] in printed
    assert print_module(parse(printed)) == printed
    expand_dot_scaled(find_function(module))
    verify(module)
    assert "dot_scaled" not in print_module(module)


def test_the_older_text_without_flags() -> None:
    case = Case()
    plain = case.text.replace(" {fastMath = false}", "")
    assert plain != case.text
    assert print_module(parse(plain)) == print_module(parse(case.text))


def test_bits_instead_of_8_bit_floats() -> None:
    """e4m3 and e5m2 operands may be blocks of bytes."""
    case = Case("e4m3", "e5m2")
    text = case.text.replace("%a_b", "%a_r").replace("%b_b", "%b_r").replace("f8E4M3FN", "i8").replace("f8E5M2", "i8")
    lines = [line for line in text.splitlines() if "tt.bitcast" not in line]
    first, second = np.zeros(case.shape, np.float32), np.zeros(case.shape, np.float32)
    kernel = jn.kernel.from_ttir("\n".join(lines))
    kernel.interpret(1, *case.arrays, first.reshape(-1))
    kernel.launch(1, *case.arrays, second.reshape(-1))
    np.testing.assert_allclose(first, case.expected(), rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=np.abs(first).max() * 3e-6)


PARAMETERS = {
    "a": "tensor<16x64xf8E4M3FN>", "p": "tensor<16x32xi8>", "b": "tensor<64x8xf8E4M3FN>", "c": "tensor<16x8xf32>",
    "sa": "tensor<16x2xi8>", "sb": "tensor<8x2xi8>", "sa16": "tensor<16x4xi8>", "sa8": "tensor<16x8xi8>",
    "wide": "tensor<16x128xi8>",
    "sf": "tensor<16x2xf32>", "line": "tensor<64xf8E4M3FN>", "ci": "tensor<16x8xi32>", "h": "tensor<16x64xf16>", "s": "f32",
    "a3": "tensor<2x16x64xf8E4M3FN>", "b3": "tensor<4x64x8xf8E4M3FN>", "c3": "tensor<2x16x8xf32>",
    "short": "tensor<32x8xf8E4M3FN>",
    "a4": "tensor<1x2x16x64xf8E4M3FN>",
}  # fmt: skip


def generic(operands: str, segments: str, a_kind: int = 0, b_kind: int = 0, result: str = "tensor<16x8xf32>") -> str:
    names = operands.split()
    types = ", ".join(PARAMETERS[name] for name in names)
    values = ", ".join(f"%{name}" for name in names)
    parameters = ", ".join(f"%{name}: {type_}" for name, type_ in PARAMETERS.items())
    properties = f"a_elem_type = {a_kind} : i32, b_elem_type = {b_kind} : i32, operandSegmentSizes = array<i32: {segments}>"
    flags = "fastMath = false, lhs_k_pack = true, rhs_k_pack = true"
    call = f'%r = "tt.dot_scaled"({values}) <{{{properties}, {flags}}}> : ({types}) -> {result}'
    return f"tt.func public @f({parameters}) {{\n{call}\ntt.return\n}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (generic("line b c", "1, 1, 1, 0, 0"), "a is tensor<64xf8E4M3FN>, expected rank 2, or 3"),
        (generic("a4 b c", "1, 1, 1, 0, 0"), "expected rank 2, or 3"),
        (generic("s b c", "1, 1, 1, 0, 0"), "a is f32, expected a block"),
        (generic("a b3 c", "1, 1, 1, 0, 0"), "a has rank 2 and b is tensor<4x64x8xf8E4M3FN>"),
        (generic("a3 b3 c3", "1, 1, 1, 0, 0", result="tensor<2x16x8xf32>"), "a has batch extent 2 and b 4"),
        (generic("a b c", "1, 1, 1, 0, 0", a_kind=7), "unknown element kind 7 of a; known: e4m3"),
        (generic("a b c", "1, 1, 1, 0, 0", a_kind=1), "expected elements f8E5M2 or i8 for e5m2"),
        (generic("h b c", "1, 1, 1, 0, 0"), "a is tensor<16x64xf16>, expected elements f8E4M3FN or i8 for e4m3"),
        (generic("a h c", "1, 1, 1, 0, 0", b_kind=5), "expected elements bf16 for bf16"),
        (generic("a short c", "1, 1, 1, 0, 0"), "a has 64 e4m3 elements along K and b 32 e4m3 elements"),
        (generic("p short c", "1, 1, 1, 0, 0", a_kind=4), "a has 64 e2m1 elements along K and b 32"),
        (generic("a b sa", "1, 1, 1, 0, 0", result="tensor<16x2xi8>"), "c is tensor<16x2xi8> of shape"),
        (generic("a b ci", "1, 1, 1, 0, 0", result="tensor<16x8xi32>"), "expected elements f16, bf16, f32 or f64"),
        (generic("a b c", "1, 1, 1, 0, 0", result="tensor<16x8xf64>"), "result is tensor<16x8xf64>, expected tensor<16x8xf32>"),
        (generic("a b c sf", "1, 1, 1, 1, 0"), "a_scale is tensor<16x2xf32>, expected elements i8 or f8E4M3FN"),
        (generic("a b c sb", "1, 1, 1, 1, 0"), "a_scale is tensor<8x2xi8> of shape .*rows of a, groups along K"),
        (generic("a b c sa", "1, 1, 1, 0, 1"), "b_scale is tensor<16x2xi8> of shape .*columns of b, groups along K"),
        (generic("a b c sa8", "1, 1, 1, 1, 0"), "a_scale is tensor<16x8xi8> for 64 elements along K; expected K/32 or K/16"),
        (generic("a b c wide", "1, 1, 1, 1, 0"), "for 64 elements along K; expected K/32 or K/16"),
        (generic("a b c sa16 sb", "1, 1, 1, 1, 1"), "a has one scale for 16 elements and b one for 32"),
    ],
)
def test_what_the_verifier_refuses(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=f"tt.dot_scaled: .*{message}"):
        jn.kernel.from_ttir(text)


def test_an_empty_block_of_scales_is_refused() -> None:
    text = generic("a b c sa", "1, 1, 1, 1, 0").replace("tensor<16x2xi8>", "tensor<16x0xi8>")
    with pytest.raises(jn.UserError, match="power of two"):
        jn.kernel.from_ttir(text)


@pytest.mark.parametrize("text", ["lhs = e9m9", "rhs = 4", "lhs e4m3"])
def test_unknown_kinds_in_text(text: str) -> None:
    case = Case().text
    broken = case.replace(f"{text[:3]} = e4m3", text)
    assert broken != case
    with pytest.raises(jn.UserError, match=r"<text>:\d+:\d+"):
        jn.kernel.from_ttir(broken)
