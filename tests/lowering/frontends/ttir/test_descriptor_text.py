"""Text of descriptors, block pointers and tensor maps: both spellings, and every message of the verifiers."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.printing import print_module

DATA = Path(__file__).resolve().parents[3] / "data" / "ttir"

PARAMETERS = {
    "p": "!tt.ptr<f32>", "q": "!tt.ptr<i32>", "raw": "!tt.ptr<i8, 0>", "a": "i32", "w": "i64", "f": "f32",
    "d": "!tt.tensordesc<1x8xf32>", "e": "!tt.tensordesc<4x8xsi32>", "u": "!tt.tensordesc<4x8xui32>",
    "k": "!tt.tensordesc<2x1x8xf16>", "b": "!tt.ptr<tensor<4x8xf32>>", "bi": "!tt.ptr<tensor<4x8xi32>>",
    "t": "tensor<4x8xf32>", "ti": "tensor<4x8xi32>", "t8": "tensor<8xf32>", "th": "tensor<8xf16>",
    "rows": "tensor<4xi32>", "wide": "tensor<4xi64>", "m": "tensor<4x8xi1>", "pp": "tensor<4x!tt.ptr<tensor<4xf32>>>",
}  # fmt: skip


def module(body: str) -> str:
    parameters = ", ".join(f"%{name}: {type_}" for name, type_ in PARAMETERS.items())
    return f"module {{\n  tt.func public @f({parameters}) {{\n    {body}\n    tt.return\n  }}\n}}\n"


LINES = [  # (as 3.9 prints it, as 3.3 does)
    (
        "%0 = tt.make_tensor_descriptor %p, [%a, %a], [%w, %w] : <f32>, <1x8xf32>",
        "%0 = tt.make_tensor_descriptor %p, [%a, %a], [%w, %w] : <f32>, <tensor<1x8xf32>>",
    ),
    (
        "%0 = tt.make_tensor_descriptor %p, [%a], [%w] {padding = 2 : i32} : <f32>, <8xf32>",
        "%0 = tt.make_tensor_descriptor %p, [%a], [%w] {padding = 2 : i32} : <f32>, <tensor<8xf32>>",
    ),
    (
        "%0 = tt.descriptor_load %d[%a, %a] : !tt.tensordesc<1x8xf32> -> tensor<8xf32>",
        "%0 = tt.experimental_descriptor_load %d[%a, %a] : !tt.tensordesc<tensor<1x8xf32>> -> tensor<8xf32>",
    ),
    (
        "%0 = tt.descriptor_load %e[%a, %a] {cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>}"
        " : !tt.tensordesc<4x8xsi32> -> tensor<4x8xi32>",
        "%0 = tt.experimental_descriptor_load %e[%a, %a] cacheModifier = cg evictionPolicy = evict_last"
        " : !tt.tensordesc<tensor<4x8xsi32>> -> tensor<4x8xi32>",
    ),
    (
        "tt.descriptor_store %e[%a, %a], %ti : !tt.tensordesc<4x8xsi32>, tensor<4x8xi32>",
        "tt.experimental_descriptor_store %e[%a, %a], %ti : !tt.tensordesc<tensor<4x8xsi32>>, tensor<4x8xi32>",
    ),
    (
        "tt.descriptor_reduce inc, %u[%a, %a], %ti : !tt.tensordesc<4x8xui32>, tensor<4x8xi32>",
        "tt.experimental_descriptor_reduce inc, %u[%a, %a], %ti : !tt.tensordesc<tensor<4x8xui32>>, tensor<4x8xi32>",
    ),
    (
        "%0 = tt.descriptor_gather %d[%rows, %a] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>, i32) -> tensor<4x8xf32>",
        "%0 = tt.experimental_descriptor_gather %d[%rows, %a]"
        " : (!tt.tensordesc<tensor<1x8xf32>>, tensor<4xi32>, i32) -> tensor<4x8xf32>",
    ),
    (
        "tt.descriptor_scatter %d[%rows, %a], %t : !tt.tensordesc<1x8xf32>, tensor<4xi32>, i32, tensor<4x8xf32>",
        "tt.experimental_descriptor_scatter %d[%rows, %a], %t"
        " : !tt.tensordesc<tensor<1x8xf32>>, tensor<4xi32>, i32, tensor<4x8xf32>",
    ),
    (
        "ttng.tensormap_create %raw, %p, [%a, %a], [%a, %a], [%w], [%a, %a] {elem_type = 7 : i32, fill_mode = 1 : i32,"
        " interleave_layout = 0 : i32, swizzle_mode = 3 : i32}"
        " : (!tt.ptr<i8, 0>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()",
        "tt.experimental_tensormap_create %raw, %p, [%a, %a], [%a, %a], [%w], [%a, %a] {elem_type = 7 : i32,"
        " fill_mode = 1 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32}"
        " : (!tt.ptr<i8, 0>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()",
    ),
    (
        "ttng.tensormap_fenceproxy_acquire %raw : !tt.ptr<i8, 0>",
        "tt.experimental_tensormap_fenceproxy_acquire %raw : !tt.ptr<i8, 0>",
    ),
    (
        "%0 = ttng.reinterpret_tensor_descriptor %raw : !tt.ptr<i8, 0> to !tt.tensordesc<4x8xf8E5M2>",
        "%0 = tt.reinterpret_tensor_descriptor %raw : !tt.ptr<i8, 0> to !tt.tensordesc<tensor<4x8xf8E5M2>>",
    ),
    ("%0 = tt.make_tensor_ptr %p, [%w, %w], [%w, %w], [%a, %a] {order = array<i32: 1, 0>} : <tensor<4x8xf32>>", None),
    ("%0 = tt.advance %b, [%a, %a] : <tensor<4x8xf32>>", None),
    ("%0 = tt.load %b : !tt.ptr<tensor<4x8xf32>>", None),
    ("%0 = tt.load %b {isVolatile = true} : !tt.ptr<tensor<4x8xf32>>", None),
    ("%0 = tt.load %b {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<4x8xf32>>", None),
    ("tt.store %b, %t {boundaryCheck = array<i32: 1>} : !tt.ptr<tensor<4x8xf32>>", None),
    (
        "%0 = tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = cv, eviction_policy = evict_normal>}"
        " : !tt.ptr<f32>",
        "%0 = tt.load %p cacheModifier = cv : !tt.ptr<f32>",
    ),
    (
        "tt.store %p, %f {cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = evict_first>}"
        " : !tt.ptr<f32>",
        "tt.store %p, %f evictionPolicy = evict_first : !tt.ptr<f32>",
    ),
]


@pytest.mark.parametrize(("new", "old"), LINES)
def test_both_spellings_are_read_and_printed(new: str, old: str | None) -> None:
    old_text = module(old or new)
    for name, newer in (("d", "1x8xf32"), ("e", "4x8xsi32"), ("u", "4x8xui32"), ("k", "2x1x8xf16")):
        old_text = old_text.replace(f"%{name}: !tt.tensordesc<{newer}>", f"%{name}: !tt.tensordesc<tensor<{newer}>>")
    for text in (module(new), old_text):
        assert print_module(parse(text)) == module(new)
        assert print_module(parse(text), spelling="seed") == old_text


def test_the_default_padding_is_not_printed() -> None:
    line = "%0 = tt.make_tensor_descriptor %p, [%a], [%w] {padding = 1 : i32} : <f32>, <8xf32>"
    assert print_module(parse(module(line))) == module(line.replace(" {padding = 1 : i32}", ""))


def test_kernels_print_both_spellings() -> None:
    text = (DATA / "legacy_exp_desc_sub" / "kernel.ttir").read_text()
    kernel = jn.kernel.from_ttir(text)
    assert "tt.descriptor_load" in kernel.ttir
    older = kernel.text(spelling="seed")
    assert "tt.experimental_descriptor_store" in older
    assert "tt.descriptor_store" not in older
    assert jn.kernel.from_ttir(older).ttir == kernel.ttir == kernel.text()
    with pytest.raises(jn.UserError, match=r"spelling '3.5'; expected '3.9' or 'seed'"):
        kernel.text(spelling="3.5")


@pytest.mark.parametrize(("new", "old"), LINES)
def test_generic_forms_are_read(new: str, old: str | None) -> None:
    import io

    from xdsl.printer import Printer

    stream = io.StringIO()
    Printer(stream, print_generic_format=True).print_op(parse(module(new)))
    assert print_module(parse(stream.getvalue())) == module(new)


WRONG = [
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, <4x8xf32>", "1 extents, expected 2"),
    ("%0 = tt.make_tensor_descriptor %p, [%a, %a], [%w] : <f32>, <4x8xf32>", "2 extents and 1 strides"),
    ("%0 = tt.make_tensor_descriptor %q, [%a], [%w] : <i32>, <8xf32>", "what base points to is i32, expected f32"),
    ("%0 = tt.make_tensor_descriptor %b, [%a], [%w] : <tensor<4x8xf32>>, <8xf32>",
     "base is !tt.ptr<tensor<4x8xf32>>, expected a pointer"),
    ("%0 = tt.make_tensor_descriptor %q, [%a], [%w] {padding = 2 : i32} : <i32>, <8xi32>",
     "padding with NaN of i32; integers are padded with zeros"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] {padding = 3 : i32} : <f32>, <8xf32>", "unknown padding 3 : i32"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, !tt.ptr<f32>",
     "result is !tt.ptr<f32>, expected a tensor descriptor"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, <6xf32>", "extents that are powers of two"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, <f32>", "a block of at least one axis"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, <8x!tt.ptr<f32>>", "expected float or integer elements"),
    ("%0 = tt.make_tensor_descriptor %p, [%a], [%w] : <f32>, <2097152xf32>",
     "a block of 2097152 elements; the limit is 1048576"),
    ("%0 = tt.descriptor_load %p[%a] : !tt.ptr<f32> -> tensor<8xf32>", "desc is !tt.ptr<f32>, expected a tensor descriptor"),
    ("%0 = tt.descriptor_load %d[%a] : !tt.tensordesc<1x8xf32> -> tensor<1x8xf32>", "1 indices, expected 2"),
    ("%0 = tt.descriptor_load %d[%a, %a] : !tt.tensordesc<1x8xf32> -> tensor<1x8xf16>",
     "result is tensor<1x8xf16>, expected tensor<1x8xf32>"),
    ("%0 = tt.descriptor_load %d[%a, %a] : !tt.tensordesc<1x8xf32> -> tensor<1x1x8xf32>",
     "result is tensor<1x1x8xf32>, expected"),
    ("%0 = tt.descriptor_load %k[%a, %a, %a] : !tt.tensordesc<2x1x8xf16> -> tensor<8xf16>",
     "expected tensor<2x1x8xf16>, where only leading axes of extent 1 may be left out"),
    ("%0 = tt.descriptor_load %d[%a, %a] cacheModifier = cc : !tt.tensordesc<1x8xf32> -> tensor<1x8xf32>",
     "expected a cacheModifier: none, ca"),
    ("tt.descriptor_store %d[%a, %a], %t : !tt.tensordesc<1x8xf32>, tensor<4x8xf32>", "src is tensor<4x8xf32>, expected"),
    ("tt.descriptor_reduce mul, %e[%a, %a], %ti : !tt.tensordesc<4x8xsi32>, tensor<4x8xi32>", "expected a kind: add, min, max"),
    ("tt.descriptor_reduce and, %d[%a, %a], %t8 : !tt.tensordesc<1x8xf32>, tensor<8xf32>", "and of f32, expected integers"),
    ('"tt.descriptor_reduce"(%e, %ti, %a, %a) <{kind = 9 : i32}> : (!tt.tensordesc<4x8xsi32>, tensor<4x8xi32>, i32, i32) -> ()',
     "unknown kind 9 : i32"),
    ("%0 = tt.descriptor_gather %e[%rows, %a] : (!tt.tensordesc<4x8xsi32>, tensor<4xi32>, i32) -> tensor<4x8xi32>",
     "expected a matrix in blocks of one row"),
    ("%0 = tt.descriptor_gather %d[%wide, %a] : (!tt.tensordesc<1x8xf32>, tensor<4xi64>, i32) -> tensor<4x8xf32>",
     "x_offsets is tensor<4xi64>, expected i32 row numbers"),
    ("%0 = tt.descriptor_gather %d[%a, %a] : (!tt.tensordesc<1x8xf32>, i32, i32) -> tensor<4x8xf32>",
     "x_offsets is i32, expected a block"),
    ("%0 = tt.descriptor_gather %d[%rows, %w] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>, i64) -> tensor<4x8xf32>",
     "y_offset is i64, expected i32"),
    ("%0 = tt.descriptor_gather %d[%rows, %a] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>, i32) -> tensor<8x8xf32>",
     "result is tensor<8x8xf32>, expected tensor<4x8xf32>"),
    ("%0 = tt.descriptor_gather %d[%rows] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>",
     "1 indices, expected row numbers and a column"),
    ("%0 = tt.descriptor_gather %d[%rows, %a] : (!tt.tensordesc<1x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>",
     "expected the types of the three operands, and one result"),
    ("tt.descriptor_scatter %d[%rows, %a], %ti : !tt.tensordesc<1x8xf32>, tensor<4xi32>, i32, tensor<4x8xi32>",
     "src is tensor<4x8xi32>, expected tensor<4x8xf32>"),
    ("%0 = tt.make_tensor_ptr %p, [%w], [%w, %w], [%a, %a] {order = array<i32: 1, 0>} : <tensor<4x8xf32>>",
     "1, 2, 2 extents, strides and offsets"),
    ("%0 = tt.make_tensor_ptr %p, [%w], [%w], [%a] {order = array<i32: 0>} : <tensor<4x8xf32>>", "1 extents, expected 2"),
    ("%0 = tt.make_tensor_ptr %p, [%w], [%w], [%a] {order = array<i32: 1>} : <tensor<8xf32>>",
     "order is [1], expected each of the axes"),
    ("%0 = tt.make_tensor_ptr %p, [%w], [%w], [%a] {order = array<i32: 0>} : <tensor<6xf32>>",
     "expected every extent to be a power of two"),
    ('%0 = "tt.make_tensor_ptr"(%q, %w, %w, %a) <{order = array<i32: 0>}>'
     " : (!tt.ptr<i32>, i64, i64, i32) -> !tt.ptr<tensor<8xf32>>", "base is !tt.ptr<i32>, expected !tt.ptr<f32>"),
    ("%0 = tt.make_tensor_ptr %p, [%w], [%w], [%a] {order = array<i32: 0>} : <f32>",
     "result is !tt.ptr<f32>, expected a pointer to a block"),
    ("%0 = tt.advance %p, [%a] : <f32>", "ptr is !tt.ptr<f32>, expected a pointer to a block"),
    ("%0 = tt.advance %b, [%a] : <tensor<4x8xf32>>", "1 offsets, expected 2"),
    ('%0 = "tt.advance"(%b, %a, %a) : (!tt.ptr<tensor<4x8xf32>>, i32, i32) -> !tt.ptr<tensor<8x4xf32>>',
     "result is !tt.ptr<tensor<8x4xf32>>, expected !tt.ptr<tensor<4x8xf32>>"),
    ("%0 = tt.load %p {boundaryCheck = array<i32: 0>} : !tt.ptr<f32>", "boundaryCheck and padding need a pointer to a block"),
    ("%0 = tt.load %p {padding = 1 : i32} : !tt.ptr<f32>", "boundaryCheck and padding need a pointer to a block"),
    ("%0 = tt.load %b {boundaryCheck = array<i32: 2>} : !tt.ptr<tensor<4x8xf32>>",
     "boundaryCheck is [2], expected different axes from 0 … 1"),
    ("%0 = tt.load %b {boundaryCheck = array<i32: 1, 1>} : !tt.ptr<tensor<4x8xf32>>",
     "boundaryCheck is [1, 1], expected different"),
    ("%0 = tt.load %b {boundaryCheck = array<i64: 1>} : !tt.ptr<tensor<4x8xf32>>",
     "boundaryCheck is an array of i64, expected i32"),
    ("%0 = tt.load %bi {padding = 2 : i32} : !tt.ptr<tensor<4x8xi32>>", "padding with NaN of tensor<4x8xi32>"),
    ("%0 = tt.load %b, %m : !tt.ptr<tensor<4x8xf32>>", "mask and other do not go with a pointer to a block"),
    ("tt.store %b, %t, %m : !tt.ptr<tensor<4x8xf32>>", "mask and other do not go with a pointer to a block"),
    ("tt.store %b, %ti : !tt.ptr<tensor<4x8xf32>>", "operand is used with type tensor<4x8xf32>"),
    ("%0 = tt.load %pp : tensor<4x!tt.ptr<tensor<4xf32>>>", "expected pointer elements"),
    ("%0 = tt.addptr %b, %a : !tt.ptr<tensor<4x8xf32>>, i32", "ptr is !tt.ptr<tensor<4x8xf32>>, expected pointer elements"),
    ("%0 = tt.ptr_to_int %b : !tt.ptr<tensor<4x8xf32>> -> i64", "expected pointer elements"),
    ("ttng.tensormap_fenceproxy_acquire %a : i32", "desc_ptr is i32, expected a pointer"),
    ("%0 = ttng.reinterpret_tensor_descriptor %a : i32 to !tt.tensordesc<8xf32>", "raw_desc is i32, expected a pointer"),
    ("%0 = ttng.reinterpret_tensor_descriptor %raw : !tt.ptr<i8, 0> to i32", "result is i32, expected a tensor descriptor"),
    (LINES[8][0].replace("elem_type = 7", "elem_type = 16"), "elem_type is 16, expected 0 … 15"),
    (LINES[8][0].replace("fill_mode = 1", "fill_mode = 2"), "fill_mode is 2, expected 0 … 1"),
    (LINES[8][0].replace("swizzle_mode = 3 : i32", "x = 3 : i32"), "swizzle_mode is missing"),
    (LINES[8][0].replace("[%w],", "[%w, %w],").replace("i64,", "i64, i64,"), "2 values of global_stride, expected 1"),
    (LINES[8][0].replace("[%w],",
     "[%a],").replace("i64,", "i32,"), "number 0 of the values of global_stride is i32, expected i64"),
    (LINES[8][0].replace("i64, ", ""), "expected the types of the operands, and no result"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("line", "message"), WRONG)
def test_what_is_wrong_is_said(line: str, message: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        parse(module(line))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "type_",
    ["!tt.tensordesc<>", "!tt.tensordesc<8x>", "!tt.tensordesc<?x8xf32>", "!tt.tensordesc<tensor<8xf32>", "!tt.tensordesc",
     "!tt.tensordesc<0xf32>", "!tt.tensordesc<-8xf32>", "!tt.tensordesc<8xvector<4xf32>>", "!tt.tensordesc<8xf32, 1>"],
)  # fmt: skip
def test_malformed_types_are_refused(type_: str) -> None:
    with pytest.raises(jn.UserError):
        parse(f"tt.func public @f(%d: {type_}) {{\ntt.return\n}}")
