"""Contains kernels for the tests of CUDA devices."""

from __future__ import annotations

from joinery.lowering.artifact import KernelCode

ADD_ONE = """
.version {version}
.target {target}
.address_size 64
.visible .entry add_one(.param .u64 p, .param .u32 by)
.reqntid {threads}
{{
  .reg .b64 %rd<4>; .reg .b32 %r<8>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [by];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r4, %r3, {threads}, %r2;
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  add.u32 %r6, %r5, %r1;
  st.global.u32 [%rd3], %r6;
  ret;
}}
"""
"""Adds a number to int32 elements, one per thread."""


def add_one(target: str = "sm_80", ptx: int = 70, threads: int = 32, shared: int = 0) -> KernelCode:
    text = ADD_ONE.format(version=f"{ptx // 10}.{ptx % 10}", target=target, threads=threads)
    return KernelCode("add_one", target, text, ptx, threads, shared, ("i64", "i32"))


VECTOR_ADD = """
tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
  %c = arith.constant 256 : i32
  %p = tt.get_program_id x : i32
  %b = arith.muli %p, %c : i32
  %r = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
  %s = tt.splat %b : i32 -> tensor<256xi32>
  %i = arith.addi %s, %r : tensor<256xi32>
  %ns = tt.splat %n : i32 -> tensor<256xi32>
  %m = arith.cmpi slt, %i, %ns : tensor<256xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %xp = tt.addptr %xs, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %xv = tt.load %xp, %m : tensor<256x!tt.ptr<f32>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %yp = tt.addptr %ys, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %yv = tt.load %yp, %m : tensor<256x!tt.ptr<f32>>
  %v = arith.addf %xv, %yv : tensor<256xf32>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %op = tt.addptr %os, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  tt.store %op, %v, %m : tensor<256x!tt.ptr<f32>>
  tt.return
}
"""

SCALARS = """
tt.func public @scalars(%b: i1, %i8: i8, %i16: i16, %i32: i32, %i64: i64, %h: f16, %bf: bf16, %f: f32, %d: f64,
    %ob: !tt.ptr<i8>, %o8: !tt.ptr<i8>, %o16: !tt.ptr<i16>, %o32: !tt.ptr<i32>, %o64: !tt.ptr<i64>,
    %oh: !tt.ptr<f16>, %obf: !tt.ptr<bf16>, %of: !tt.ptr<f32>, %od: !tt.ptr<f64>) {
  %be = arith.extui %b : i1 to i8
  tt.store %ob, %be : !tt.ptr<i8>
  tt.store %o8, %i8 : !tt.ptr<i8>
  tt.store %o16, %i16 : !tt.ptr<i16>
  tt.store %o32, %i32 : !tt.ptr<i32>
  tt.store %o64, %i64 : !tt.ptr<i64>
  tt.store %oh, %h : !tt.ptr<f16>
  tt.store %obf, %bf : !tt.ptr<bf16>
  tt.store %of, %f : !tt.ptr<f32>
  tt.store %od, %d : !tt.ptr<f64>
  tt.return
}
"""

ASSERTS = """
tt.func public @checked(%o: !tt.ptr<i32>, %n: i32) {
  %c = arith.constant 5 : i32
  %holds = arith.cmpi slt, %n, %c : i32
  tt.assert %holds, "n is below five" : i1
  tt.store %o, %n : !tt.ptr<i32>
  tt.return
}
"""

PRINTS = """
tt.func public @speaks(%n: i32) {
  tt.print " n: " {hex = false, isSigned = array<i32: 1>} : %n : i32
  tt.return
}
"""
