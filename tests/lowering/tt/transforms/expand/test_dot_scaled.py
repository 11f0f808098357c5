"""tt.dot_scaled: the interpreter and the expansion (run on the host) against a float64 model made with ml_dtypes."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.expand.expand_scaled_products import expand_dot_scaled
from joinery.lowering.tt.verify import verify

from .....support.kernels.scaled_products import KINDS, RESULTS, Case


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("a", "b"), list(itertools.product(KINDS, KINDS)))
def test_every_pair_of_kinds(a: str, b: str) -> None:
    Case(a, b).check()


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(6)
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
