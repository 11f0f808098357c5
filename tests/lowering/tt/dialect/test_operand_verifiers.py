"""Messages of the verifiers of atomics, descriptors, library functions, assembly and tensor maps, and of the structure."""

from __future__ import annotations

import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.promotion.errors import UserError

PARAMETERS = (
    "%f: f32, %i: i32, %l: i64, %b: i1, %p: !tt.ptr<f32>, %q: !tt.ptr<i32>, %m: !tt.ptr<i8>, %v: tensor<8xf32>, "
    "%w: tensor<8xi32>, %u: tensor<4xi32>, %d: !tt.tensordesc<1x8xf32>, %e: !tt.tensordesc<4x8xf32>, "
    "%bp: !tt.ptr<tensor<8xf32>>"
)
ASM = 'constraints = "=r,r", packed_element = 1 : i32, pure = true'
EXTERN = 'libname = "", libpath = "", pure = true'
MAP = "elem_type = 7 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 0 : i32"
SEGMENTS = "operandSegmentSizes = array<i32: {}>"
CASES = [
    ("%r = tt.atomic_rmw add, relaxed, gpu, %p, %f : (!tt.ptr<f32>, f32) -> f32", "floats are added by fadd and exchanged"),
    ("%r = tt.atomic_rmw fadd, relaxed, gpu, %q, %i : (!tt.ptr<i32>, i32) -> i32", "integers everything but fadd"),
    ("tt.atomic_store relaxed, gpu, %q : !tt.ptr<i32>", "expected a pointer, a value, and a mask at most"),
    ("tt.atomic_store relaxed, gpu, %q, %i, %b, %b : !tt.ptr<i32>", "expected a pointer, a value, and a mask at most"),
    ('tt.print "x" {hex = false, isSigned = array<i64: 1>} : %i : i32', "isSigned has elements i64"),
    ("%r = tt.descriptor_gather %e[%u, %i] : (!tt.tensordesc<4x8xf32>, tensor<4xi32>, i32) -> tensor<4x8xf32>",
     "expected a matrix in blocks of one row (1xM)"),
    ("%r = tt.descriptor_gather %d[%i, %i] : (!tt.tensordesc<1x8xf32>, i32, i32) -> tensor<4x8xf32>",
     "x_offsets is i32, expected a block (a tensor)"),
    ("%r = tt.descriptor_gather %d[%v, %i] : (!tt.tensordesc<1x8xf32>, tensor<8xf32>, i32) -> tensor<8x8xf32>",
     "expected i32 row numbers on one axis"),
    (f'%r = tt.extern_elementwise %v, %v {{{EXTERN}, symbol = "__nv_cbrtf"}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>',
     "__nv_cbrtf takes (f32), got (f32, f32)"),
    (f'%r = tt.extern_elementwise %v {{{EXTERN}, symbol = "__nv_cbrtf"}} : (tensor<8xf32>) -> tensor<8xf64>',
     "__nv_cbrtf gives f32, but the result is tensor<8xf64>"),
    (f'"tt.elementwise_inline_asm"(%w) <{{asm_string = "mov.b32 $0, $1;", {ASM}}}> : (tensor<8xi32>) -> ()', "has no result"),
    (f'%r = "tt.elementwise_inline_asm"(%w) <{{asm_string = 1 : i32, {ASM}}}> : (tensor<8xi32>) -> tensor<8xi32>',
     "asm_string is 1 : i32, expected a string"),
    *(
        (f'%r = "tt.elementwise_inline_asm"(%w) <{{asm_string = "mov.b32 $0, $1;", {ASM.replace("1 :", f"{packed} :")}}}> : '
         "(tensor<8xi32>) -> tensor<8xi32>", f"packed_element is {packed}, expected a power of two from 1 to 32")
        for packed in (0, 3, 64)
    ),
    ("%r = tt.load %bp {boundaryCheck = array<i32: 0>, padding = 3 : i32} : !tt.ptr<tensor<8xf32>>",
     "known: 1 (zero), 2 (nan)"),
    (f'"ttng.tensormap_create"(%m, %p) <{{{MAP}, {SEGMENTS.format("1, 1, 0, 0, 0, 0")}}}> : (!tt.ptr<i8>, !tt.ptr<f32>) -> ()',
     "box_dim has 0 axes, expected 1 to 5"),
    (f'"ttng.tensormap_create"(%m, %p, {", ".join(["%i"] * 6)}) <{{{MAP}, {SEGMENTS.format("1, 1, 6, 0, 0, 0")}}}> : '
     f'(!tt.ptr<i8>, !tt.ptr<f32>, {", ".join(["i32"] * 6)}) -> ()', "box_dim has 6 axes, expected 1 to 5"),
    ("%c = arith.constant 1 : i32\n^a:", "a block of @f does not end in a terminator such as tt.return"),
    ("scf.if %b {\ncf.br ^a\n}\ntt.return\n^a:", "missing block declarations for block(s) a"),
    ('"scf.for"(%i, %i, %i) ({\n^bb0(%k: i32):\ncf.br ^bb1\n^bb1:\nscf.yield\n}) : (i32, i32, i32) -> ()',
     "a region has 2 blocks, expected one"),
    ('"scf.if"(%b) ({}, {}) : (i1) -> ()', "a region has 0 blocks, expected one"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), CASES, ids=range(len(CASES)))
def test_refused(body: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(f"tt.func public @f({PARAMETERS}) {{\n{body}\ntt.return\n}}")
    assert message in str(caught.value)
